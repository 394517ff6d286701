"""experiments.soak: judgement of figures over time, and a short run with killed actors."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from experiments import soak


def test_a_straight_line_is_fitted_to_the_second_half() -> None:
    times = [float(t) for t in range(101)]
    assert soak.fitted(times, [0.0] * 50 + [10.0] * 51) == pytest.approx((10.0, 10.0)), "buffers fill in the first half"
    assert soak.fitted(times, [2 * t for t in times]) == pytest.approx((100.0, 200.0))
    assert soak.fitted([0.0], [7.0]) == (7.0, 7.0)


def test_a_leak_is_not_flat_and_noise_is() -> None:
    def sampled(megabytes: list[float]) -> list[dict[str, float]]:
        return [dict.fromkeys(soak.FIGURES, 5.0) | {"seconds": float(t), "main_megabytes": m} for t, m in
                enumerate(megabytes)]  # fmt: skip

    steady = soak.verdicts(sampled([500.0 + t % 7 for t in range(100)]), 0.03)
    assert all(found["flat"] for found in steady.values())
    leak = soak.verdicts(sampled([500.0 + t for t in range(100)]), 0.03)
    assert [name for name, found in leak.items() if not found["flat"]] == ["main_megabytes"]


def test_a_soak_in_which_little_is_done_is_a_defect() -> None:
    samples = [{"seconds": 60.0 * minute, "iterations": 2.0 * minute} for minute in range(61)]
    assert soak.idleness(samples, 2.0) == []
    assert soak.idleness(samples, 3.0) == ["120 iterations in 60.0 minutes, at least 3 a minute expected"]
    assert soak.idleness([{"seconds": 0.0, "games": 0.0}, {"seconds": 60.0, "games": 1.0}], 3.0)


def test_usage_of_this_process_is_read() -> None:
    megabytes, files, threads = soak.usage(os.getpid())
    assert megabytes > 10
    assert files >= 3
    assert threads >= 1
    assert soak.usage(2**22 + 1) == (0.0, 0, 0)


def test_shared_memory_is_that_of_the_process() -> None:
    before = soak.shared_memory(os.getpid())
    with mmap.mmap(-1, 2**24) as area:
        area.write(b"x" * 2**24)
        assert soak.shared_memory(os.getpid()) == pytest.approx(before + 16, abs=1)
    assert soak.shared_memory(os.getpid()) == pytest.approx(before, abs=1)
    assert soak.shared_memory(2**22 + 1) == 0


def test_time_in_which_the_process_is_stopped_is_told() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as process:
        try:
            assert soak.paused(process.pid) == 0
            process.send_signal(signal.SIGSTOP)
            threading.Timer(0.5, process.send_signal, (signal.SIGCONT,)).start()
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            assert soak.paused(process.pid) > 0.1
            assert soak.paused(process.pid) == 0
        finally:
            process.kill()
    assert soak.paused(process.pid) == 0, "it is gone"


@pytest.mark.slow
def test_half_a_minute_with_killed_actors(tmp_path: Path) -> None:
    arguments = ["ray", "--minutes", "0.5", "--every", "0.5", "--kill-every", "6", "--growth", "1", "--least", "0"]
    assert soak.main([*arguments, "--out", str(tmp_path), "--", "evaluation.every=0", "selfplay.tables=4"]) == 0
    result = json.loads((tmp_path / "ray" / "soak.json").read_text())
    assert result["disturbed"]
    assert result["left_behind"] == []
    assert result["samples"][-1]["iterations"] > result["samples"][0]["iterations"]
    assert (tmp_path / "ray" / "soak.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "ray" / "soak.md").read_text().startswith("# Soak")


@pytest.mark.slow
def test_half_a_minute_of_an_arena_with_people(tmp_path: Path) -> None:
    arguments = [
        "arena",
        "--minutes",
        "0.5",
        "--every",
        "1",
        "--people",
        "6",
        "--looking",
        "0.1",
        "--growth",
        "9",
        "--least",
        "0",
    ]
    assert soak.main([*arguments, "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "arena" / "soak.json").read_text())
    assert result["events"]["decisions"] > 50
    assert result["defects"] == []
    assert result["samples"][-1]["games"] > 0
    assert (tmp_path / "arena" / "soak.png").read_bytes().startswith(b"\x89PNG")
