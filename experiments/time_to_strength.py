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

import numpy as np
from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero.config.fields import require
from muzero.runs import plot_style
from muzero.runs.curves import draw_runs, middle_of, notes_of_runs
from muzero.runs.plot_style import styled

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


@styled
def plot(points: Sequence[Row]) -> Figure:
    """Win rate by minutes and by learner steps: a row of panels per opponent, a colour per variant.

    A single run of a variant has its 95 % intervals by deals; several are one curve over thin lines.
    """
    others = list(dict.fromkeys(point["other"] for point in points))
    figure = plot_style.new_figure(plot_style.PAGE, 2.2 * len(others) + 0.5)
    panels = figure.subplots(len(others), 2, squeeze=False, sharey="row")
    several = band = by_deals = False
    for row, other in zip(panels, others, strict=True):
        for axes, key, label in zip(
            row, ("minutes", "steps"), ("training time (minutes)", "learner steps"), strict=True
        ):
            for kind in dict.fromkeys(point["variant"] for point in points):
                mine = [p for p in points if p["variant"] == kind and p["other"] == other]
                runs = [[p for p in mine if p["run"] == run] for run in dict.fromkeys(p["run"] for p in mine)]
                if not runs:
                    continue
                lines = [(np.array([p[key] for p in run]), np.array([p["win_rate"] for p in run])) for run in runs]
                color, marker = plot_style.color_of(kind), plot_style.marker_of(kind)
                name = kind if len(runs) == 1 else f"{kind}, {middle_of(len(runs))}"
                band |= draw_runs(axes, lines, name, color, marker)
                several |= len(runs) > 1
                if len(runs) == 1:
                    bars = common.error_bars(runs[0])
                    axes.errorbar(*lines[0], yerr=bars, color=color, linestyle="none")
                    by_deals = True
            if other in GOALS:
                plot_style.reference_line(axes, GOALS[other], "goal")
            axes.set(xlabel=label, ylim=plot_style.RATES)
            axes.set_xlim(left=0)
        row[0].set_ylabel(f"win rate against\n{other}")
    notes = [plot_style.line_handle("95 % interval by deals, one run", marker="|", linewidth=1.2)] if by_deals else []
    plot_style.legend_below(figure, list(panels.flat), [*notes, *notes_of_runs(several, band)])
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
