"""Watchdog: ends the Ray processes that a process has started when that process is gone, however it ended.

Ray's own processes die with the process that called `ray.init`, but the agents that they have started in turn live on
for minutes. `python -I ray_watchdog.py PARENT` remembers all descendants of the parent's Ray processes, and kills those
that are left when the parent is gone. It needs /proc, and nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_SECONDS = 0.5  # time between two looks
_ROOT = "raylet"  # program whose descendants are agents and workers
_LAST_LOOKS = 6  # looks after the parent's end: processes may still have been starting

Process = tuple[int, str]  # process id, and the time of its start, by which a later process with the same id is told


def processes() -> dict[int, tuple[int, str, str]]:
    """Parent, start and program of every process by id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                name, _, rest = (entry / "stat").read_text().rpartition(")")
                parts = rest.split()
                found[int(entry.name)] = int(parts[1]), parts[19], name.partition("(")[2]
    return found


def descendants(roots: set[int], there: dict[int, tuple[int, str, str]]) -> set[Process]:
    """Processes among and below some others."""
    children: dict[int, list[int]] = {}
    for process, (parent, _, _) in there.items():
        children.setdefault(parent, []).append(process)
    found: set[Process] = set()
    left = [process for process in roots if process in there]
    while left:
        process = left.pop()
        found.add((process, there[process][1]))
        left += children.get(process, [])
    return found


def kill(known: set[Process], there: dict[int, tuple[int, str, str]]) -> int:
    """Kill processes that are still the same; returns their number."""
    count = 0
    for process, start in known:
        if process in there and there[process][1] == start:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
                count += 1
    return count


def watch(parent: int) -> None:
    """Remember the Ray processes below the parent until it is gone, then kill them."""
    known: set[Process] = set()
    while os.getppid() == parent:
        there = processes()
        roots = {p for p, (above, _, name) in there.items() if above == parent and name == _ROOT}
        known |= descendants(roots | {p for p, start in known if p in there and there[p][1] == start}, there)
        known = {(p, start) for p, start in known if p in there and there[p][1] == start}
        time.sleep(_SECONDS)
    for _ in range(_LAST_LOOKS):
        there = processes()
        known |= descendants({p for p, start in known if p in there and there[p][1] == start}, there)
        kill(known, there)
        time.sleep(_SECONDS)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # signals to the whole group are for the parent to handle
    watch(int(sys.argv[1]))
