"""Strength by the number of simulations: does more search play better?

    python -m experiments.simulations --runs runs/belief runs/baseline --games 1000 --out runs/simulations

Each run plays the opponent (by default the game's held-out bot) with every number of simulations, 0 meaning the policy
alone, and against itself with the next smaller number. A planner that plans wins at least half of every match of the
second kind. Every deal is played from every seat. The result of each match is a file in DIR/parts: a repeated command
plays only what is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero.config.fields import require

AGAINST_OPPONENT, AGAINST_FEWER = "opponent", "fewer"


def match_specs(options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of every run: against the opponent, and against itself with fewer simulations."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    counts = sorted(set(options.counts))
    require(len(counts) >= 2 and counts[0] >= 0, "--counts", "at least two numbers, 0 or more", options.counts)
    found = []
    for run in runs:
        iteration = common.iteration_of(run, options.iteration)
        agents = {count: agent_of(run, iteration, simulations=count) for count in counts}
        opponent = options.opponent or f"bot:{_held_out_bot(run)}"
        for count in counts:
            labels = _labels(run, iteration, AGAINST_OPPONENT, count, opponent)
            found.append(MatchSpec(f"{run.label}--{count}", agents[count], opponent, run.players, labels))
        pairs = [*pairwise(counts), *((4, more) for more in (64, 256) if {4, more} <= set(counts))]
        for fewer, more in dict.fromkeys(pairs):
            labels = _labels(run, iteration, AGAINST_FEWER, more, str(fewer))
            name = f"{run.label}--{more}-against-{fewer}"
            found.append(MatchSpec(name, agents[more], agents[fewer], run.players, labels))
    return found


def _held_out_bot(run: Run) -> str:
    bots = run.config["game"]["held_out_bots"] or run.config["game"]["bots"]
    require(bool(bots), "--opponent", f"an agent: {run.path} names no bots", "nothing")
    return str(bots[0])


def _labels(run: Run, iteration: int, kind: str, count: int, other: str) -> dict[str, Any]:
    labels = {"run": run.label, "variant": run.variant, "iteration": iteration}
    return {**labels, "kind": kind, "simulations": count, "other": other}


def markdown(rows: Sequence[Row], command: str) -> str:
    """The results as a page of Markdown."""
    lines = ["# Strength by simulations", "", f"    {command}", ""]
    lines += ["Whole games on paired deals; 95 % intervals by deals. 0 simulations: the policy alone.", ""]
    runs = list(dict.fromkeys(row["run"] for row in rows))
    for kind, title in (
        (AGAINST_OPPONENT, "Against {other}"),
        (AGAINST_FEWER, "Against itself with fewer simulations"),
    ):
        found = [row for row in rows if row["kind"] == kind]
        other = " and ".join(sorted({row["other"] for row in found})) if kind == AGAINST_OPPONENT else ""
        lines += [f"## {title.format(other=other)}", ""]
        keys = list(dict.fromkeys((row["simulations"], row["other"]) for row in found))
        names = [f"{count}" if kind == AGAINST_OPPONENT else f"{count} against {fewer}" for count, fewer in keys]
        cells = []
        for name, key in zip(names, keys, strict=True):
            by_run = {row["run"]: row for row in found if (row["simulations"], row["other"]) == key}
            cells.append([name, *(common.rate(by_run[run]) if run in by_run else "" for run in runs)])
        lines += [*common.table(["simulations", *runs], cells), ""]
    games = sorted({row["games"] for row in rows})
    return "\n".join([*lines, f"Games per match: {', '.join(map(str, games))}."]) + "\n"


def plot(rows: Sequence[Row]) -> Figure:
    """Win rate against the opponent by simulations, a line per run."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    found = [row for row in rows if row["kind"] == AGAINST_OPPONENT]
    counts = sorted({row["simulations"] for row in found})
    for run in dict.fromkeys(row["run"] for row in found):
        own = sorted((row for row in found if row["run"] == run), key=lambda row: row["simulations"])
        x = [counts.index(row["simulations"]) for row in own]
        y = [row["win_rate"] for row in own]
        axes.errorbar(x, y, yerr=common.error_bars(own), marker="o", capsize=3, label=run)
    axes.axhline(found[0]["fair_share"], color="black", linestyle="--", linewidth=1)
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    opponent = " and ".join(sorted({row["other"] for row in found}))
    axes.set(xlabel="simulations per decision (0: policy alone)", ylabel=f"win rate against {opponent}")
    axes.legend(title="95 % intervals by deals")
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches and writes table and plot."""
    rows = common.play_match_specs(match_specs(options), options)
    result = {"command": command, "rows": rows}
    common.write_results(options.out, "simulations", result, markdown(rows, command), plot(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__)
    common.add_run_options(parser)
    parser.add_argument(
        "--counts", nargs="+", type=int, default=[0, 4, 16, 64, 256], metavar="N", help="(default: 0 4 16 64 256)"
    )
    parser.add_argument("--opponent", help="agent to play against (default: the first of the run's held-out bots)")
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
