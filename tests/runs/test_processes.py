"""muzero.runs.processes: devices, children that end with their parent, and clusters that cannot be reached."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from muzero.runs import processes
from muzero.runs.processes import first_line, join_ray, last_words, pick_device, reason_of_death


def test_a_device_is_picked_by_name_and_an_unknown_one_is_refused() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ValueError, match=r"runtime.device: expected auto, cpu or a device of this machine, got 'moon'"):
        pick_device("moon")


def test_the_first_line_of_an_error_is_its_message_or_its_type() -> None:
    assert first_line(RuntimeError("\n killed\nand more")) == "killed"
    assert first_line(KeyError()) == "KeyError"


def test_a_child_ends_soon_after_its_parent() -> None:
    child = "import sys, time; from muzero.runs.processes import die_with; die_with(int(sys.argv[1])); time.sleep(600)"
    parent = f"""
import os, subprocess, sys
given = [sys.executable, "-c", {child!r}, str(os.getpid())]
print(subprocess.Popen(given, stdout=subprocess.DEVNULL).pid)
"""
    done = subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, check=True)
    process, end = int(done.stdout), time.monotonic() + 60
    while is_running(process):
        assert time.monotonic() < end, "the child is still there"
        time.sleep(0.1)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")  # of a process that has ended, but that nobody has waited for
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_a_cluster_that_cannot_be_reached_is_named() -> None:
    ray = pytest.importorskip("ray")
    assert not ray.is_initialized()
    expected = r"runtime.address: expected a Ray cluster that can be reached, got '127.0.0.1:1' \(.*refused\)"
    with pytest.raises(ValueError, match=expected):
        join_ray("runtime.address", "127.0.0.1:1", cpus=1)
    assert not ray.is_initialized()


def test_a_dashboard_without_its_packages_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setitem(sys.modules, "ray.dashboard.optional_deps", None)  # as if they were not installed
    with pytest.raises(
        ValueError, match=r"runtime.dashboard: expected .* pip install -c constraints.txt 'ray\[default"
    ):
        join_ray("runtime.address", "", cpus=1, dashboard=8265)
    assert not ray.is_initialized()


@pytest.mark.slow
def test_dashboard_answers_on_the_loopback_address_alone() -> None:
    ray = pytest.importorskip("ray")
    pytest.importorskip("aiohttp", reason="Ray's dashboard needs ray[default]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert join_ray("runtime.address", "", cpus=1, dashboard=port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            assert answer.status == 200
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines() if " 0A " in line]
        assert [words[1] for words in listening if words[1].endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
    finally:
        ray.shutdown()


def _end(how: str, words: Connection) -> None:
    """Body of a child process that ends in some way."""
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "left":
        os._exit(7)
    with last_words(words):
        raise ValueError("no such bot")


def test_memory_is_blamed_only_if_the_system_has_counted_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.memory_kills() >= 0
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_end, args=("killed", sender))
    process.start()
    monkeypatch.setattr(processes, "_KILLS_BEFORE", processes.memory_kills() - 1)
    assert reason_of_death(process, receiver) == "killed by SIGKILL: memory ran out (the system has counted it)"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("killed", "killed by SIGKILL"),
        ("left", "exit code 7"),
        ("error", "ValueError: no such bot"),
    ],
)
def test_dead_child_is_reported_with_its_own_reason(how: str, reason: str) -> None:
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_end, args=(how, sender))
    process.start()
    assert reason_of_death(process, receiver) == reason
