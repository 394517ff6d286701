"""tests.own_time: time passes for processes that compute or sleep, not for those that are stopped or queue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests import own_time
from tests.own_time import OwnTime, in_group, none_left

SLEEP, COMPUTE = "import time; time.sleep(1000)", "while True: pass"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def started(stack: ExitStack, code: str) -> subprocess.Popen[bytes]:
    """A process in a group of its own, killed at the end of the test."""
    process = stack.enter_context(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
    stack.callback(process.kill)
    return process


@pytest.mark.parametrize("code", [SLEEP, COMPUTE])
def test_an_orphan_that_sleeps_or_computes_is_found(code: str, stack: ExitStack) -> None:
    process = started(stack, code)
    assert in_group(process.pid) == [process.pid]
    assert not none_left(lambda: in_group(process.pid), 0.5)
    process.kill()
    assert none_left(lambda: in_group(process.pid), 0.5), "it has ended, though nobody has collected it"


def test_time_in_which_a_process_is_stopped_does_not_count(stack: ExitStack) -> None:
    process = started(stack, SLEEP)
    os.kill(process.pid, signal.SIGSTOP)
    while own_time.state(process.pid) != "T":
        time.sleep(0.01)
    clock, end = OwnTime(lambda: [process.pid]), time.monotonic() + 1
    while time.monotonic() < end:
        clock.seconds()
        time.sleep(0.02)
    assert clock.seconds() < 0.5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are tied to a processor on Linux only")
def test_time_in_which_a_process_queues_does_not_count(stack: ExitStack) -> None:
    """Eight processes on one processor have an eighth of the time each."""
    several = [started(stack, COMPUTE) for _ in range(8)]
    core = min(os.sched_getaffinity(0))
    for process in several:
        os.sched_setaffinity(process.pid, {core})
    clock, end = OwnTime(lambda: [several[0].pid]), time.monotonic() + 2
    while time.monotonic() < end:
        clock.seconds()
        time.sleep(0.05)
    assert 0.0 < clock.seconds() < 1.0


def test_every_limit_ends(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    monkeypatch.setattr(own_time, "MOST", 0.3)
    process = started(stack, SLEEP)
    os.kill(process.pid, signal.SIGSTOP)
    assert not none_left(lambda: in_group(process.pid), 1e9)
