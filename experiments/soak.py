"""Soak: an hour of work under disturbance, and its resources over time, which must be flat.

    python -m experiments.soak ray --minutes 60 --out DIR
    python -m experiments.soak arena --minutes 60 --out DIR

`ray` is a training run with `runtime=ray`, of which an actor is killed now and then (SIGKILL, as the system does when
memory runs out). `arena` is a server at which people play, look at games, lose their connection, come back, load
records and send nonsense. Every few seconds the resident memory, open files and threads of the learner or server are
recorded, those of all its processes together, and their shared memory. The seed of the disturbance is drawn anew
unless given, and stored.

A figure is flat if a straight line, fitted to the second half of the time, grows by at most --growth of its mean, or by
a little (SMALL); the first half is left out, in which buffers fill. The exit code is 1 if a figure is not flat, the
process has ended, anything has outlived it, somebody at the arena got no answer, or there were fewer than --least
iterations or games per minute: whoever does nothing leaks nothing. Shared memory is that of the
process and those below it: what several of them map is shared out among them, so that nobody else's counts. All that
lies in /dev/shm is drawn beside it, of the whole machine and therefore not judged. Options of `muzero.train` or keys
of `muzero.arena` follow `--`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.common.arena_crowd import Crowd
from experiments.common.command_line import add_output_options
from muzero.runs import metrics, plot_style
from muzero.runs.files import write_whole
from muzero.runs.plot_style import styled
from muzero.runs.provenance import provenance
from muzero.runs.ray_watchdog import descendants, processes

FIGURES = {
    "main_megabytes": "resident memory of the {main}, MB",
    "total_megabytes": "resident memory of all processes, MB",
    "main_files": "open files of the {main}",
    "total_files": "open files of all processes",
    "main_threads": "threads of the {main}",
    "total_threads": "threads of all processes",
    "shared_megabytes": "shared memory of all processes, MB",
    "processes": "processes",
}
"""Figures that must be flat, with their titles."""

WORK = {
    "iterations": "iterations so far",
    "games": "games of people so far",
    "answer_milliseconds": "time until a decision is shown, median, ms",
    "store_megabytes": "file of rooms and games, MB",
    "machine_megabytes": "/dev/shm of the whole machine, MB",
}
"""Figures that may grow: the work done, and what others have a part in."""

ACTOR = "ray::_Actor"  # beginning of the name of a self-play actor's process
PAGE = resource.getpagesize() / 2**20
SMALL = {"megabytes": 8.0, "files": 4.0, "threads": 2.0, "processes": 1.0}  # growth that is no leak
RAY = ("preset=smoke", "+variant=belief", "runtime=ray", "train.mode=async", "train.iterations=1000000000")
ARENA = ("pace=0.05", "grace=2", "idle=1", "rooms=100", "connections=100", "gallery=[]")
DEFECTS = ("lost", "unanswered")  # events at an arena that must not happen


# ---- figures ---------------------------------------------------------------------------------------------------------


def usage(pid: int) -> tuple[float, int, int]:
    """Resident megabytes, open files and threads of a process; zeros if it has just ended."""
    with suppress(OSError, ValueError, IndexError):
        place = Path("/proc") / str(pid)
        pages = int((place / "statm").read_text().split()[1])
        threads = int((place / "stat").read_text().rpartition(")")[2].split()[17])
        return pages * PAGE, len(os.listdir(place / "fd")), threads
    return 0.0, 0, 0


def shared_memory(pid: int) -> float:
    """Megabytes of shared memory that a process maps, each page divided by the number of processes that map it."""
    with suppress(OSError, ValueError):
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Shmem:")) / 1024
    return 0.0


def paused(pid: int) -> float:
    """Seconds for which a process is stopped from outside, from now until it goes on; 0 if it runs.

    Connections and work pile up before a stopped process, which would look like a leak, and its time is no work.
    """
    begin, stopped = time.monotonic(), False
    with suppress(OSError, IndexError):
        place = Path("/proc") / str(pid) / "stat"
        while place.read_text().rpartition(")")[2].split()[0] == "T":
            stopped = True
            time.sleep(0.2)
    return time.monotonic() - begin if stopped else 0.0


def sample(pid: int) -> dict[str, float]:
    """Figures of a process and of all processes below it, now."""
    tree = [process for process, _ in descendants({pid}, processes())]
    each = [usage(process) for process in tree]
    own = usage(pid)
    total = [sum(column) for column in zip(*each, strict=True)] or [0.0, 0, 0]
    shared = sum(shared_memory(process) for process in tree)
    machine = shutil.disk_usage("/dev/shm").used / 2**20
    names = ("megabytes", "files", "threads")
    figures = {f"main_{name}": float(value) for name, value in zip(names, own, strict=True)}
    figures |= {f"total_{name}": float(value) for name, value in zip(names, total, strict=True)}
    return figures | {"shared_megabytes": shared, "machine_megabytes": machine, "processes": float(len(tree))}


def fitted(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Values at the middle and at the end of the time, of a straight line fitted to the second half of a figure."""
    middle = (times[0] + times[-1]) / 2
    later = [(moment, value) for moment, value in zip(times, values, strict=True) if moment >= middle]
    if len(later) < 2:
        return values[-1], values[-1]
    slope, level = np.polyfit([moment - middle for moment, _ in later], [value for _, value in later], 1)
    return float(level), float(level + slope * (times[-1] - middle))


def verdicts(samples: Sequence[dict[str, float]], allowed: float) -> dict[str, dict[str, Any]]:
    """Fit of each figure to the second half of the time, and whether it is flat."""
    found = {}
    for name in FIGURES:
        middle, end = fitted([s["seconds"] for s in samples], [s[name] for s in samples])
        small = SMALL[name.rpartition("_")[2]]
        flat = end - middle <= max(allowed * (middle + end) / 2, small)
        found[name] = {"middle": round(middle, 2), "end": round(end, 2), "flat": bool(flat)}
    return found


# ---- loads -----------------------------------------------------------------------------------------------------------


def idleness(samples: Sequence[dict[str, float]], least: float) -> list[str]:
    """Defect of a soak in which too little was done, iterations or games per minute; [] if enough was."""
    first, last = samples[0], samples[-1]
    minutes = (last["seconds"] - first["seconds"]) / 60
    found = []
    for name in ("iterations", "games"):
        if name in last and last[name] - first[name] < least * minutes:
            done = f"{last[name] - first[name]:g} {name} in {minutes:.1f} minutes"
            found.append(f"{done}, at least {least:g} a minute expected")
    return found


class Load(Protocol):
    """Work whose resources are recorded.

    Attributes:
      main: name of the process that is started.
      disturbance: event that is drawn as a thin line, in words; "" for none.
      command: command that starts the process.
    """

    main: str
    disturbance: str
    command: list[str]

    def ready(self) -> bool:
        """Whether the process has begun to work."""
        ...

    def begin(self) -> None:
        """Begin what happens from outside."""
        ...

    def disturb(self, pid: int, now: float) -> list[float]:
        """Disturb the process if it is time; returns the times of what was done."""
        ...

    def work(self) -> dict[str, float]:
        """Work done so far."""
        ...

    def end(self) -> dict[str, Any]:
        """Stop what happens from outside; returns what else there is to say, defects under "defects"."""
        ...


class RayLoad:
    """Training with Ray, of which an actor is killed now and then."""

    main, disturbance = "learner", "an actor was killed"

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.run_dir, self.mean = home / "run", options.kill_every
        self.rng = random.Random(options.seed)
        self.due = self.rng.expovariate(1 / self.mean)
        self.command = [sys.executable, "-m", "muzero.train", *RAY, f"runtime.workers={options.workers}"]
        self.command += [f"run_dir={self.run_dir}", "logging.display=none"]

    def ready(self) -> bool:
        """Whether an iteration is done; Ray needs seconds to start."""
        return self._iterations() > 0

    def begin(self) -> None:
        """Nothing: all that happens from outside is `disturb`."""

    def disturb(self, pid: int, now: float) -> list[float]:
        """Kill an actor if it is time."""
        there = actors(pid)
        if now < self.due or not there:
            return []
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(there), signal.SIGKILL)
        self.due = now + self.rng.expovariate(1 / self.mean)
        return [now]

    def work(self) -> dict[str, float]:
        """Number of iterations so far."""
        return {"iterations": self._iterations()}

    def end(self) -> dict[str, Any]:
        """Nothing to say."""
        return {"defects": []}

    def _iterations(self) -> int:
        file = self.run_dir / metrics.METRICS
        return file.read_bytes().count(b"\n") if file.exists() else 0


class ArenaLoad:
    """Arena with a crowd of people."""

    main, disturbance = "server", ""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.home, self.store = home, home / "arena.sqlite"
        self.crowd = Crowd(self.port, options.people, options.looking, options.seed)
        self.command = [sys.executable, "-m", "muzero.arena", f"port={self.port}", f"store={self.store}", *ARENA]

    def ready(self) -> bool:
        """Whether the server answers."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def begin(self) -> None:
        """Let the people come."""
        self.crowd.start()

    def disturb(self, pid: int, now: float) -> list[float]:
        """Nothing: the people disturb enough."""
        return []

    def work(self) -> dict[str, float]:
        """Finished games, waiting time since the last call, and size of the store."""
        waits = self.crowd.taken_waits()
        files = [path.stat().st_size for path in self.home.glob("arena.sqlite*")]
        return {
            "games": self.crowd.counts["games"],
            "answer_milliseconds": 1000 * statistics.median(waits) if waits else 0.0,
            "store_megabytes": sum(files) / 2**20,
        }

    def end(self) -> dict[str, Any]:
        """Send the people home; events by kind, and those that must not happen."""
        self.crowd.stop()
        counts = dict(sorted(self.crowd.counts.items()))
        bad = [f"{name}: {count}" for name, count in counts.items() if name.startswith(DEFECTS)]
        return {"events": counts, "defects": bad}


LOADS: dict[str, type[RayLoad] | type[ArenaLoad]] = {"ray": RayLoad, "arena": ArenaLoad}


def actors(pid: int) -> list[int]:
    """Processes of the self-play actors below a process."""
    found = []
    for process, _ in descendants({pid}, processes()):
        with suppress(OSError):
            if (Path("/proc") / str(process) / "cmdline").read_bytes().startswith(ACTOR.encode()):
                found.append(process)
    return sorted(found)


# ---- the hour --------------------------------------------------------------------------------------------------------


def soak(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Start a load, disturb it and take samples; returns everything that the page and the plot need.

    The results so far are written once a minute, so that an hour that is cut short is not lost.
    """
    load: Load = LOADS[options.load](options, home)
    command = [*load.command, *options.settings]
    started: set[tuple[int, str]] = set()
    log, written = home / "log", 0.0
    result: dict[str, Any] = {
        "command": shlex.join(["python", "-m", "experiments.soak", *sys.argv[1:]]),
        "load": options.load,
        "main": load.main,
        "disturbance": load.disturbance,
        "seed": options.seed,
        "minutes": 0.0,
        "paused": 0.0,
        "disturbed": [],
        "samples": [],
        "figures": {},
        "defects": [],
        "left_behind": [],
        "complete": False,
    }
    with log.open("wb") as output, subprocess.Popen(
        command, start_new_session=True, cwd=home, stdout=output, stderr=output
    ) as run:  # fmt: skip
        try:
            while not load.ready() and run.poll() is None:
                time.sleep(0.2)
            load.begin()
            begin = time.monotonic()
            while run.poll() is None and (now := time.monotonic() - begin) < 60 * options.minutes:
                if away := paused(run.pid):
                    begin, result["paused"] = begin + away, round(result["paused"] + away, 1)
                    time.sleep(options.every)  # what has queued up meanwhile is worked off
                    continue
                started |= descendants({run.pid}, processes())
                taken = {"seconds": now, **load.work(), **sample(run.pid)}
                result["samples"].append({name: round(value, 2) for name, value in taken.items()})
                result["disturbed"] += [round(moment, 2) for moment in load.disturb(run.pid, now)]
                result["minutes"] = round(now / 60, 1)
                if now >= written + 60:
                    written = now
                    write_results(result | {"figures": verdicts(result["samples"], options.growth)}, options)
                time.sleep(options.every)
            ended = run.poll() is not None
            result |= load.end()
        finally:
            run.kill()
            run.wait()
    text = log.read_text(errors="replace")
    if "Traceback" in text:
        found = text[text.index("Traceback") :][:2000]
        result["defects"].append(f"a traceback in the output of the {load.main}: {found}")
    if ended:
        result["defects"].append(f"the {load.main} ended: {text[-2000:]}")
    if result["samples"]:
        result["figures"] = verdicts(result["samples"], options.growth)
        result["defects"] += idleness(result["samples"], options.least)
    return result | {"left_behind": _left_behind(started), "complete": True}


def write_results(result: dict[str, Any], options: argparse.Namespace) -> None:
    """Write numbers, page and plot."""
    place = options.out / options.load
    place.mkdir(parents=True, exist_ok=True)
    write_whole(place / "soak.json", json.dumps({**result, "provenance": provenance()}) + "\n")
    write_whole(place / "soak.md", page(result))
    if result["samples"]:
        plot_style.save_figure(draw(result), place / "soak")


def _left_behind(started: set[tuple[int, str]], seconds: float = 20.0) -> list[str]:
    """Names of processes that outlive the run by so many seconds."""
    end = time.monotonic() + seconds
    while True:
        there = processes()
        left = [pid for pid, start in started if pid in there and there[pid][1] == start and usage(pid)[0] > 0]
        if not left or time.monotonic() > end:
            return [there[pid][2] for pid in left]
        time.sleep(0.5)


@styled
def draw(result: dict[str, Any]) -> Figure:
    """Plot of all figures over time: the fit to the second half dashed, disturbances as thin lines."""
    samples = result["samples"]
    alone = all(s["processes"] == 1 for s in samples)  # then the figures of all processes say nothing new
    names = [name for name in FIGURES if not alone or name.startswith(("main", "shared"))]
    names += [name for name in WORK if name in samples[0]]
    names = names[: len(names) // 2 * 2]
    figure = plot_style.new_figure(plot_style.PAGE, 1.75 * len(names) / 2)
    panels = list(figure.subplots(len(names) // 2, 2, sharex=True).flat)
    minutes = [s["seconds"] / 60 for s in samples]
    for axes, name in zip(panels, names, strict=True):
        title = (FIGURES | WORK)[name].format(main=result["main"])
        for number, moment in enumerate(result["disturbed"]):
            label = result["disturbance"] if not number else None
            axes.axvline(moment / 60, color=plot_style.GREY, linewidth=0.5, alpha=0.5, label=label)
        axes.plot(minutes, [s[name] for s in samples], linewidth=1)
        if name in result["figures"]:
            fit = result["figures"][name]
            ends = [(minutes[0] + minutes[-1]) / 2, minutes[-1]]
            label = "straight line fitted to the second half"
            axes.plot(ends, [fit["middle"], fit["end"]], "--", color=plot_style.SERIES[1], label=label)
        unit = "MB" if title.endswith("MB") else "ms" if title.endswith("ms") else "count"
        axes.set(title=title, ylabel=unit)
        axes.set_ylim(0, 1.1 * max(1.0, *(s[name] for s in samples)))
    for axes in panels[-2:]:
        axes.set_xlabel("time (minutes)")
    plot_style.legend_below(figure, panels)
    return figure


def page(result: dict[str, Any]) -> str:
    """Page with the verdicts."""
    last = result["samples"][-1] if result["samples"] else {}
    lines = [f"# Soak: {result['load']}", "", f"    {result['command']}", ""]
    away = f", without {result['paused'] / 60:.1f} in which it was stopped from outside" if result.get("paused") else ""
    did = f"{len(result['disturbed'])} actors killed, " if result["load"] == "ray" else ""
    work = ", ".join(f"{last[name]:g} {name}" for name in ("iterations", "games") if name in last)
    ended = (
        f"defects: {'; '.join(result['defects']) or 'none'}; left behind after it was killed: "
        f"{', '.join(result['left_behind']) or 'nothing'}"
    )
    ended = ended if result["complete"] else "cut short, so defects and what was left behind are not known"
    lines += [
        f"{result['minutes']:g} minutes{away}, {did}seed {result['seed']}, {work}; {ended}.",
        "",
        "| figure | fit at half of the time | fit at the end | flat |",
        "|---|---:|---:|---|",
    ]
    for name, found in result["figures"].items():
        flat = "yes" if found["flat"] else "NO"
        title = FIGURES[name].format(main=result["main"])
        lines.append(f"| {title} | {found['middle']:.1f} | {found['end']:.1f} | {flat} |")
    if result.get("events"):
        lines += ["", "Events: " + ", ".join(f"{name} {count:,}" for name, count in result["events"].items()) + "."]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("load", choices=list(LOADS), help="work whose resources are recorded")
    parser.add_argument("--minutes", type=float, default=60.0, help="duration")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--kill-every", type=float, default=60.0, help="ray: mean seconds between kills")
    parser.add_argument("--workers", type=int, default=2, help="ray: number of actors")
    parser.add_argument("--people", type=int, default=20, help="arena: number of people")
    parser.add_argument("--looking", type=float, default=1.0, help="arena: mean seconds that a person looks at a table")
    parser.add_argument(
        "--growth", type=float, default=0.03, help="share by which a flat figure may grow in half of the time"
    )
    parser.add_argument("--least", type=float, default=3.0, help="least iterations or games per minute")
    parser.add_argument("--seed", type=int, default=None, help="seed of the disturbance (default: a new one)")
    add_output_options(parser, "soak")
    parser.usage = f"{parser.format_usage()[7:].rstrip()} [-- SETTING ...]"
    arguments = sys.argv[1:] if argv is None else list(argv)
    own = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:own])
    options.settings = arguments[own + 1 :]
    for name in ("minutes", "every", "kill_every", "workers", "people", "looking"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')}: expected more than 0, got {getattr(options, name)}")
    options.seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        result = soak(options, Path(home))
    write_results(result, options)
    print(page(result))
    flat = all(found["flat"] for found in result["figures"].values())
    return int(not (flat and result["samples"] and not result["defects"] and not result["left_behind"]))


if __name__ == "__main__":
    sys.exit(main())
