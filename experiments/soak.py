"""Soak: training with `runtime=ray` whose actors are killed at random, and its resources over time, which must be flat.

    python -m experiments.soak --minutes 60 --out DIR

starts a training run, kills one of its actors now and then (SIGKILL, as the system does when memory runs out), and
records every few seconds the resident memory, open files and threads of the learner, those of all its processes
together, and the shared memory in use. The seed of the kills is drawn anew unless given, and stored. A figure is flat
if its median in the last quarter of the time exceeds its median in the second quarter by at most --growth; the first
quarter is left out, in which buffers fill. The exit code is 1 if a figure is not flat, the run has ended, or anything
has outlived it. Options of `muzero.train` follow `--`.
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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.common.command_line import add_output_options
from muzero.runs import metrics, plot_style
from muzero.runs.files import write_whole
from muzero.runs.plot_style import styled
from muzero.runs.provenance import provenance
from muzero.runs.ray_watchdog import descendants, processes

FIGURES = {
    "learner_megabytes": "resident memory of the learner, MB",
    "total_megabytes": "resident memory of all processes, MB",
    "learner_files": "open files of the learner",
    "total_files": "open files of all processes",
    "learner_threads": "threads of the learner",
    "total_threads": "threads of all processes",
    "shared_megabytes": "shared memory in use (/dev/shm), MB",
    "processes": "processes",
}
ACTOR = "ray::_Actor"  # beginning of the name of a self-play actor's process
PAGE = resource.getpagesize() / 2**20
SMALL = {"megabytes": 64.0, "files": 32.0, "threads": 16.0, "processes": 8.0}  # growth that is no leak
SETTINGS = ("preset=smoke", "+variant=belief", "runtime=ray", "train.mode=async", "train.iterations=1000000000")


def usage(pid: int) -> tuple[float, int, int]:
    """Resident megabytes, open files and threads of a process; zeros if it has just ended."""
    with suppress(OSError, ValueError, IndexError):
        place = Path("/proc") / str(pid)
        pages = int((place / "statm").read_text().split()[1])
        threads = int((place / "stat").read_text().rpartition(")")[2].split()[17])
        return pages * PAGE, len(os.listdir(place / "fd")), threads
    return 0.0, 0, 0


def sample(pid: int) -> dict[str, float]:
    """Figures of a run now; `pid` is its learner's process."""
    tree = [process for process, _ in descendants({pid}, processes())]
    each = [usage(process) for process in tree]
    own = usage(pid)
    total = [sum(column) for column in zip(*each, strict=True)] or [0.0, 0, 0]
    shared = shutil.disk_usage("/dev/shm").used / 2**20
    names = ("megabytes", "files", "threads")
    figures = {f"learner_{name}": float(value) for name, value in zip(names, own, strict=True)}
    figures |= {f"total_{name}": float(value) for name, value in zip(names, total, strict=True)}
    return figures | {"shared_megabytes": shared, "processes": float(len(tree))}


def actors(pid: int) -> list[int]:
    """Processes of the self-play actors below a process."""
    found = []
    for process, _ in descendants({pid}, processes()):
        with suppress(OSError):
            if (Path("/proc") / str(process) / "cmdline").read_bytes().startswith(ACTOR.encode()):
                found.append(process)
    return sorted(found)


def growth(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Medians of a figure in the second and in the last quarter of the time."""
    begin, length = times[0], times[-1] - times[0]
    quarters: list[list[float]] = [[], [], [], []]
    for moment, value in zip(times, values, strict=True):
        quarters[min(3, int(4 * (moment - begin) / length)) if length else 3].append(value)
    second, last = quarters[1] or quarters[3], quarters[3]
    return statistics.median(second), statistics.median(last)


def verdicts(samples: Sequence[dict[str, float]], allowed: float) -> dict[str, dict[str, Any]]:
    """Medians of each figure in the second and the last quarter, and whether it is flat."""
    found = {}
    for name in FIGURES:
        early, late = growth([s["seconds"] for s in samples], [s[name] for s in samples])
        small = SMALL[name.rpartition("_")[2]]
        found[name] = {"second_quarter": early, "last_quarter": late, "flat": late <= early * (1 + allowed) + small}
    return found


def soak(options: argparse.Namespace, run_dir: Path) -> dict[str, Any]:
    """Train, kill actors, and take samples; returns everything that the page and the plot need."""
    rng = random.Random(options.seed)
    given = [word for word in options.settings if word != "--"]
    command = [sys.executable, "-m", "muzero.train", *SETTINGS, f"runtime.workers={options.workers}"]
    command += [f"run_dir={run_dir}", "logging.display=none", *given]
    samples: list[dict[str, float]] = []
    kills: list[float] = []
    started: set[tuple[int, str]] = set()
    with subprocess.Popen(command, start_new_session=True) as run:
        try:
            while not _iterations(run_dir) and run.poll() is None:  # Ray needs seconds to start
                time.sleep(0.2)
            begin = time.monotonic()
            due = rng.expovariate(1 / options.kill_every)
            while run.poll() is None and (now := time.monotonic() - begin) < 60 * options.minutes:
                started |= descendants({run.pid}, processes())
                samples.append({"seconds": now, "iterations": _iterations(run_dir), **sample(run.pid)})
                there = actors(run.pid)
                if now >= due and there:
                    with suppress(ProcessLookupError):
                        os.kill(rng.choice(there), signal.SIGKILL)
                    kills.append(now)
                    due = now + rng.expovariate(1 / options.kill_every)
                time.sleep(options.every)
            alive = run.poll() is None
        finally:
            run.kill()
            run.wait()
    return {
        "command": shlex.join(["python", "-m", "experiments.soak", *sys.argv[1:]]),
        "seed": options.seed,
        "minutes": options.minutes,
        "ran_to_the_end": alive,
        "kills": kills,
        "samples": samples,
        "figures": verdicts(samples, options.growth) if samples else {},
        "left_behind": _left_behind(started),
    }


def _iterations(run_dir: Path) -> int:
    file = run_dir / metrics.METRICS
    return file.read_bytes().count(b"\n") if file.exists() else 0


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
    """Plot of all figures over time; kills as thin lines."""
    figure = plot_style.new_figure(plot_style.PAGE, 7.0)
    panels = list(figure.subplots(4, 2, sharex=True).flat)
    minutes = [s["seconds"] / 60 for s in result["samples"]]
    for axes, (name, title) in zip(panels, FIGURES.items(), strict=True):
        for number, kill in enumerate(result["kills"]):
            label = "an actor was killed" if not number else None
            axes.axvline(kill / 60, color=plot_style.GREY, linewidth=0.5, alpha=0.5, label=label)
        axes.plot(minutes, [s[name] for s in result["samples"]], linewidth=1)
        axes.set(title=title, ylabel="MB" if title.endswith("MB") else "count")
        axes.set_ylim(bottom=0)
    for axes in panels[-2:]:
        axes.set_xlabel("time (minutes)")
    plot_style.legend_below(figure, panels)
    return figure


def page(result: dict[str, Any]) -> str:
    """Page with the verdicts."""
    iterations = result["samples"][-1]["iterations"] if result["samples"] else 0
    lines = ["# Soak", "", f"    {result['command']}", ""]
    lines += [
        f"{result['minutes']:g} minutes of training with Ray, {len(result['kills'])} actors killed (seed "
        f"{result['seed']}), {iterations:.0f} iterations; the run {'went on' if result['ran_to_the_end'] else 'ended'} "
        f"to the end; left behind after it was killed: {', '.join(result['left_behind']) or 'nothing'}.",
        "",
        "| figure | median, second quarter | median, last quarter | flat |",
        "|---|---:|---:|---|",
    ]
    for name, found in result["figures"].items():
        flat = "yes" if found["flat"] else "NO"
        lines.append(f"| {FIGURES[name]} | {found['second_quarter']:.1f} | {found['last_quarter']:.1f} | {flat} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="duration")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--kill-every", type=float, default=60.0, help="mean seconds between kills")
    parser.add_argument("--workers", type=int, default=2, help="number of actors")
    parser.add_argument("--growth", type=float, default=0.1, help="share by which a flat figure may grow")
    parser.add_argument("--seed", type=int, default=None, help="seed of the kills (default: a new one)")
    add_output_options(parser, "soak")
    parser.add_argument("settings", nargs="*", help="settings of the training run, after --")
    options = parser.parse_args(argv)
    for name in ("minutes", "every", "kill_every", "workers"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')}: expected more than 0, got {getattr(options, name)}")
    options.seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        result = soak(options, Path(home) / "run")
    options.out.mkdir(parents=True, exist_ok=True)
    write_whole(options.out / "soak.json", json.dumps({**result, "provenance": provenance()}, indent=1) + "\n")
    write_whole(options.out / "soak.md", page(result))
    plot_style.save_figure(draw(result), options.out / "soak")
    print(page(result))
    flat = all(found["flat"] for found in result["figures"].values())
    return int(not (flat and result["ran_to_the_end"] and not result["left_behind"]))


if __name__ == "__main__":
    sys.exit(main())
