"""experiments.common.timing: speeds in turn, beside a busy loop and without it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.common.timing import BUSY, IDLE, BusyLoop, busy_figures, in_turn, median_ratio, speed, speeds_in_turn
from experiments.common.yardsticks import cpu_seconds
from tests.runs.test_processes import is_running

ROOT = Path(__file__).resolve().parents[3]
HAS_PROC = Path("/proc/self/stat").exists()
needs_proc = pytest.mark.skipif(not HAS_PROC, reason="reads /proc")


def wait_for(condition: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@needs_proc
def test_a_busy_loop_computes_only_when_it_is_asked_to() -> None:
    with BusyLoop() as loop:
        before = cpu_seconds([loop.process_id])
        time.sleep(0.3)
        assert cpu_seconds([loop.process_id]) - before < 0.1
        loop.resume()
        wait_for(lambda: cpu_seconds([loop.process_id]) - before > 0.2)
        loop.pause()
    assert not is_running(loop.process_id)


@needs_proc
def test_a_stopped_busy_loop_ends_when_its_parent_is_killed() -> None:
    program = """
import os, runpy, signal
BusyLoop = runpy.run_path("experiments/common/timing.py")["BusyLoop"]
with BusyLoop() as loop:
    print(loop.process_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    loop = int(done.stdout)
    wait_for(lambda: not is_running(loop))


@needs_proc
def test_speeds_are_measured_in_turn_and_the_loop_runs_only_in_busy_measurements() -> None:
    calls: list[str] = []
    running: list[bool] = []

    def work(name: str) -> float:
        calls.append(name)
        running.append(busy_loop_is_running())
        return float(len(calls))

    found = speeds_in_turn({"a": lambda: work("a"), "b": lambda: work("b")}, 2, busy=True)
    assert "".join(calls) == "ab" + "abab" + "baba"  # a call each before the first round; the second runs backwards
    assert found == {IDLE: {"a": [3.0, 10.0], "b": [4.0, 9.0]}, BUSY: {"a": [5.0, 8.0], "b": [6.0, 7.0]}}
    assert running == [False] * 4 + [True] * 4 + [False] * 2
    assert not busy_loop_exists()


def children() -> list[int]:
    """Processes that this one has started and that have not ended."""
    parts = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return [int(number) for part in parts for number in part]


def busy_loops() -> list[Path]:
    found = [Path(f"/proc/{number}") for number in children()]
    return [path for path in found if path.exists() and b"number * 636" in (path / "cmdline").read_bytes()]


def busy_loop_exists() -> bool:
    return bool(busy_loops())


def busy_loop_is_running() -> bool:
    """Whether a busy loop exists that is not stopped (state T)."""
    return any((path / "stat").read_text().rpartition(")")[2].split()[0] != "T" for path in busy_loops())


def test_without_busy_measurements_there_are_idle_ones_only() -> None:
    assert speeds_in_turn({"a": lambda: 2.0}, 3, busy=False) == {IDLE: {"a": [2.0, 2.0, 2.0]}}


def test_shares_are_medians_of_the_ratios_within_rounds() -> None:
    speeds = {IDLE: {"x": [10.0, 100.0, 20.0]}, BUSY: {"x": [5.0, 20.0, 16.0]}}
    expected = {"x_idle_per_s": 20.0, "x_busy_per_s": 16.0, "x_busy_share": 0.5}
    assert busy_figures(speeds, "per_s") == pytest.approx(expected)
    assert median_ratio([1.0, 4.0], [2.0, 2.0]) == 1.25


def test_speed_counts_the_units_of_whole_calls() -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        time.sleep(0.01)

    found = speed(work, 7.0, at_least=0.05)
    assert 1 < len(calls) <= 5
    assert found <= 700
    assert speed(work, 7.0, at_least=0.0) <= 700  # a single call


def test_pairs_are_measured_until_the_time_is_full_and_their_medians_told() -> None:
    """The first pair is the warm-up; the ratio is the median of the pairs' ratios, not the ratio of the medians."""
    pairs = iter([(9.0, 9.0), (1.0, 2.0), (4.0, 4.0), (2.0, 6.0)])
    assert in_turn(lambda: next(pairs), at_least=0.0) == (2.0, 4.0, 2.0)
    assert next(pairs, None) is None
