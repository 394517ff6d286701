"""Time of processes that is their own: limits for processes on machines that others keep busy or stop.

A limit by the clock fails when a machine is busy, and one that is generous enough for every machine proves nothing.
Own time passes for a process that computes, and for one that sleeps or waits for something that never comes, so a hang
and an orphan use up their limit. It does not pass while the process is stopped, or queues for a processor that others
have.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

MOST = 1800.0  # seconds by the clock after which every limit is over, so that a test ends
_TICK = 0.1  # seconds between two looks at the processes


def queued(pid: int) -> float:
    """Seconds for which the most patient thread of a process has waited for a processor (Linux; 0 elsewhere)."""
    longest = 0.0
    with suppress(OSError):
        for thread in (Path("/proc") / str(pid) / "task").iterdir():
            with suppress(OSError, IndexError, ValueError):
                longest = max(longest, int((thread / "schedstat").read_text().split()[1]) / 1e9)
    return longest


def state(pid: int) -> str:
    """State of a process, as /proc names it: R, S, T (stopped), Z (has ended), and so on; Z if there is none."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "Z"


class OwnTime:
    """Clock of one or more processes that work together.

    Args:
      processes: function that names them; their number may change.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes = processes
        self._begun = self._last = time.monotonic()
        self._stopped = self._seconds = 0.0
        self._before: dict[int, float] = {}  # waiting time of each process when it was first seen
        self._waited: dict[int, float] = {}

    def seconds(self) -> float:
        """Own seconds since the start; call it every fraction of a second, for stops are seen only then."""
        now = time.monotonic()
        if now - self._last < _TICK and self._before:
            return self._seconds
        there = list(self._processes())
        for pid in there:
            found = queued(pid)
            self._waited[pid] = max(self._waited.get(pid, 0.0), found - self._before.setdefault(pid, found))
        if any(state(pid) == "T" for pid in there):
            self._stopped += now - self._last
        self._last = now
        if now - self._begun > MOST:
            return float("inf")
        self._seconds = now - self._begun - self._stopped - max(self._waited.values(), default=0.0)
        return self._seconds


def none_left(living: Callable[[], Iterable[int]], limit: float) -> bool:
    """Whether processes end within so many seconds of their own time.

    Args:
      living: function that gives those that still run.
      limit: seconds. An orphan ends when it looks for its parent, which may be after its imports, so this is for them.
    """
    clock = OwnTime(living)
    while list(living()):
        if clock.seconds() > limit:
            return False
        time.sleep(0.1)
    return True


def in_group(group: int) -> list[int]:
    """Processes of a process group that run; those that have ended and wait for a parent do not count."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                if os.getpgid(int(place.name)) == group and state(int(place.name)) != "Z":
                    found.append(int(place.name))
    return found
