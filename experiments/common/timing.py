"""Timing of benchmarks: seconds of a call, and speeds of several things in turn, with and without other work beside."""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

IDLE, BUSY = "idle", "busy"
CONDITIONS = (IDLE, BUSY)

# Program of the busy loop: multiplies numbers on one core. The system ends it with its parent, even if it is stopped.
_LOOP = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
print("ready", flush=True)
number, parent = 1, os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        number = number * 6364136223846793005 % 18446744073709551557
"""


def seconds(work: Callable[[], Any], at_least: float, repeats: int = 5) -> float:
    """Seconds of a call: the best of several series that together last at least `at_least` seconds.

    Other work on the machine only ever adds time, so the best series is the closest to the time that the code needs.
    """
    work()
    started = time.perf_counter()
    work()
    once = time.perf_counter() - started
    calls = max(1, math.ceil(at_least / repeats / max(once, 1e-9)))
    return min(series(work, calls) for _ in range(repeats))


def series(work: Callable[[], Any], calls: int) -> float:
    """Mean seconds of a call over a series of calls."""
    started = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - started) / calls


def speed(work: Callable[[], Any], units: float, at_least: float) -> float:
    """Units of work per second over as many calls, of so many units each, as fill at least `at_least` seconds."""
    started, calls = time.perf_counter(), 0
    while True:
        work()
        calls += 1
        elapsed = time.perf_counter() - started
        if elapsed >= at_least:
            return units * calls / elapsed


def in_turn(
    pair: Callable[[], tuple[float, float]], at_least: float, at_least_times: int = 3
) -> tuple[float, float, float]:
    """Medians of the seconds of a thing, of the seconds of its yardstick, and of their ratio (yardstick / thing).

    Args:
      pair: function that measures the thing and its yardstick once, and returns their seconds.
      at_least: seconds to go on measuring for.
      at_least_times: number of pairs to measure, if that takes longer.
    """
    pair()  # warm-up call, which does not count
    series: list[tuple[float, float]] = []
    started = time.perf_counter()
    while len(series) < at_least_times or time.perf_counter() - started < at_least:
        series.append(pair())
    thing, yardstick = (statistics.median(column) for column in zip(*series, strict=True))
    return thing, yardstick, statistics.median(b / a for a, b in series)


class BusyLoop:
    """Process that keeps one core busy, of the same priority as this one; stopped until `resume`.

    To be used in a `with` statement, at whose end the process ends.
    """

    def __enter__(self) -> BusyLoop:
        self._process = subprocess.Popen([sys.executable, "-I", "-c", _LOOP], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._running = True
        self.pause()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def process_id(self) -> int:
        """Number of the process."""
        return self._process.pid

    def resume(self) -> None:
        """Let the process compute."""
        self._process.send_signal(signal.SIGCONT)
        self._running = True

    def pause(self) -> None:
        """Stop the process until the next `resume`; returns when it has stopped."""
        if self._running:
            self._process.send_signal(signal.SIGSTOP)
            found = os.waitid(os.P_PID, self.process_id, os.WSTOPPED | os.WEXITED)
            if found is None or found.si_code != os.CLD_STOPPED:
                raise RuntimeError("the busy loop has ended, so what was measured beside it means nothing")
            self._running = False


Speeds = dict[str, dict[str, list[float]]]
"""Speeds by condition ("idle", "busy") and by the name of what was measured, one per round."""


def speeds_in_turn(works: Mapping[str, Callable[[], float]], rounds: int, busy: bool) -> Speeds:
    """Speeds of several things, measured in turn: in each round all of them idle and, if asked for, all of them busy.

    The order of the things and of the conditions alternates from round to round, so that a machine that becomes faster
    or slower favours none. Each thing is called once before the first round.

    Args:
      works: functions that do some work and return its speed.
      rounds: number of rounds.
      busy: whether to measure beside a busy loop, too.
    """
    found: Speeds = {condition: {name: [] for name in works} for condition in (CONDITIONS if busy else (IDLE,))}
    for work in works.values():
        work()
    with BusyLoop() as loop:
        for number in range(rounds):
            backwards = -1 if number % 2 else 1
            for condition in list(found)[::backwards]:
                if condition == BUSY:
                    loop.resume()
                try:
                    for name in list(works)[::backwards]:
                        found[condition][name].append(works[name]())
                finally:
                    loop.pause()
    return found


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the rounds' ratios of two speeds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def busy_figures(speeds: Speeds, unit: str) -> dict[str, float]:
    """Median speeds of each thing, idle and busy, and the busy speed as a share of the idle one.

    Args:
      speeds: speeds of all rounds.
      unit: name of the speeds, such as "sims_per_s".

    Returns:
      Figures THING_idle_UNIT, THING_busy_UNIT and THING_busy_share.
    """
    figures: dict[str, float] = {}
    for name in speeds[IDLE]:
        for condition in CONDITIONS:
            figures[f"{name}_{condition}_{unit}"] = statistics.median(speeds[condition][name])
        figures[f"{name}_busy_share"] = median_ratio(speeds[BUSY][name], speeds[IDLE][name])
    return figures
