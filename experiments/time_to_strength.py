"""Strength of a run's checkpoints by minutes of training and by learner steps: how soon does an agent play well?

    python -m muzero.train +variant=belief seed=0 run_dir=runs/seed0 train.minutes=12 train.keep_every=25
    python -m muzero.train +variant=ppo seed=0 run_dir=runs/ppo0 train.minutes=12 train.keep_every=25
    python -m experiments.time_to_strength --runs runs/seed0 runs/seed1 runs/ppo0 --games 200 --out runs/time

Runs of all algorithms and variants stand in the same plot at equal wall clock, a colour for each variant.
Every kept checkpoint plays the bots of the curriculum (their mean is one curve) and the held-out bots (a curve each).
Minutes are those of training alone, as timings.jsonl has them: of use only if the machine had nothing else to do. The
page gives, for each run and goal, the first checkpoint whose win rate reaches it. Every deal is played from every seat;
the result of each match is a file in DIR/parts, so that a repeated command plays only what is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero.config.fields import require
from muzero.runs.curves import DASHES

ALL_BOTS = "bots of the curriculum"
GOALS = {ALL_BOTS: 0.90, "greedy": 0.65}


def match_specs(runs: Sequence[Run], options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of every checkpoint against every bot."""
    found = []
    for run in runs:
        for iteration in common.iterations_of([run], options.iterations):
            searches = run.config.get("train", {}).get("algorithm", "muzero") == "muzero"
            agent = agent_of(run, iteration, simulations=options.simulations if searches else None)
            for bot in (*run.bots, *run.config["game"]["held_out_bots"]):
                labels = {"run": run.label, "variant": run.variant, "iteration": iteration, "bot": bot}
                name = f"{run.label}--{iteration}--{bot}"
                found.append(MatchSpec(name, agent, f"bot:{bot}", run.players, labels))
    return found


def training_of(run: Run, iteration: int) -> Row:
    """Minutes and learner steps that a checkpoint took, as the metrics count them.

    Metrics without that count belong to a run of `train.steps` steps in each iteration after the warm-up.
    """
    at = next((k for k, record in enumerate(run.records) if record["iteration"] == iteration), None)
    require(at is not None, str(run.path), f"metrics of iteration {iteration}", "none")
    assert at is not None
    steps = run.records[at].get("diagnostics", {}).get("steps")
    if steps is None:
        learned = sum(bool(record.get("losses")) for record in run.records[: at + 1])
        steps = learned * int(run.config["train"]["steps"])
    return {"minutes": float(run.minutes[at]), "steps": int(steps)}


def curves(runs: Sequence[Run], rows: Sequence[Row]) -> list[Row]:
    """Points of all curves: win rate of a checkpoint against the curriculum's bots together, or a held-out bot."""
    points = []
    for run in runs:
        own = [row for row in rows if row["run"] == run.label]
        for iteration in dict.fromkeys(row["iteration"] for row in own):
            found = [row for row in own if row["iteration"] == iteration]
            labels = {"run": run.label, "variant": run.variant, "iteration": iteration, **training_of(run, iteration)}
            points.append({**labels, "other": ALL_BOTS, **common.pooled([r for r in found if r["bot"] in run.bots])})
            held_out = [row for row in found if row["bot"] not in run.bots]
            points += [{**labels, "other": row["bot"], **common.pooled([row])} for row in held_out]
    return points


def first_to_reach(points: Sequence[Row], run: str, other: str, goal: float) -> Row | None:
    """First point of a run's curve with at least the goal's win rate."""
    own = sorted((p for p in points if p["run"] == run and p["other"] == other), key=lambda p: p["iteration"])
    return next((point for point in own if point["win_rate"] >= goal), None)


def markdown(points: Sequence[Row], command: str) -> str:
    """The results as a page of Markdown."""
    runs, others = (list(dict.fromkeys(point[key] for point in points)) for key in ("run", "other"))
    lines = ["# Strength by time and by learner steps", "", f"    {command}", ""]
    lines += ["Whole games on paired deals; 95 % intervals by deals. Minutes of training alone.", ""]
    goals = {other: goal for other, goal in GOALS.items() if other in others}
    cells = []
    for run in runs:
        row = [f"`{run}`"]
        for other, goal in goals.items():
            point = first_to_reach(points, run, other, goal)
            told = "not reached" if point is None else f"{point['minutes']:.1f} min, {point['steps']:,} steps"
            row.append(told if point is None else f"{told}: {common.rate(point)}")
        cells.append(row)
    lines += ["First checkpoint that reaches", ""]
    lines += [*common.table(["run", *(f"{goal:.2f} against {other}" for other, goal in goals.items())], cells), ""]
    for other in others:
        lines += [f"## Against {other}", ""]
        found = [point for point in points if point["other"] == other]
        rows = [
            [f"`{p['run']}`", p["iteration"], f"{p['minutes']:.1f}", f"{p['steps']:,}", common.rate(p)] for p in found
        ]
        lines += [*common.table(["run", "iteration", "minutes", "learner steps", "win rate"], rows), ""]
    return "\n".join(lines)


def plot(points: Sequence[Row]) -> Figure:
    """Win rate by minutes and by learner steps: a row of panels per opponent, a line per run, a colour per variant."""
    others = list(dict.fromkeys(point["other"] for point in points))
    kinds = list(dict.fromkeys(point["variant"] for point in points))
    runs = {point["run"]: point["variant"] for point in points}
    numbers = {run: sum(runs[other] == runs[run] for other in list(runs)[: list(runs).index(run)]) for run in runs}
    figure = Figure(figsize=(9, 3.2 * len(others)), layout="constrained")
    panels = figure.subplots(len(others), 2, squeeze=False, sharey="row")
    for row, other in zip(panels, others, strict=True):
        for axes, (key, label) in zip(
            row, (("minutes", "minutes of training"), ("steps", "learner steps")), strict=True
        ):
            for run, kind in runs.items():
                own = [p for p in points if p["run"] == run and p["other"] == other]
                x, y = [p[key] for p in own], [p["win_rate"] for p in own]
                look = {"color": f"C{kinds.index(kind) % 10}", "linestyle": DASHES[numbers[run] % len(DASHES)]}
                bars = common.error_bars(own)
                axes.errorbar(x, y, yerr=bars, marker="o", markersize=3, capsize=2, label=f"{kind}: {run}", **look)
            if other in GOALS:
                axes.axhline(GOALS[other], color="black", linestyle="--", linewidth=1)
            axes.set(xlabel=label, ylim=(0, 1))
            axes.set_xlim(left=0)
        row[0].set_ylabel(f"win rate against\n{other}")
    panels[0][0].legend(title="95 % intervals by deals; dashed: goal")
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches and writes table and plot."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    rows = common.play_match_specs(match_specs(runs, options), options)
    points = curves(runs, rows)
    result: dict[str, Any] = {"command": command, "points": points, "rows": rows}
    common.write_results(options.out, "time_to_strength", result, markdown(points, command), plot(points))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, games="per checkpoint and bot, rounded up to whole deals")
    common.add_run_options(parser, iterations="all that were kept")
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
