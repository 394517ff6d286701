"""Cost of luck adjustment: CPU time of a match with luck, relative to the same match without.

    python -m experiments.luck_cost --games 128 --record

An agent plays itself with several numbers of simulations, in one process, with and without luck in turn. CPU time of
the process is measured, so that a busy machine changes little; the ratio is that of the sums over all rounds. The fit
of the value function, which a match pays once, is measured apart.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from matplotlib.figure import Figure
from rich.progress import track

from experiments import common
from experiments.common import Row
from muzero.agents.agent_spec import AgentSpec, load_value_model
from muzero.config.fields import require
from muzero.matches.match import play_match
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.runs import plot_style
from muzero.runs.plot_style import styled


def cpu_seconds(config: MatchConfig) -> tuple[float, Row]:
    """CPU time that a match takes in this process, and its figures."""
    started = time.process_time()
    result, _ = play_match(config, quiet=True)
    return time.process_time() - started, result


def measure(agent: str, value: str, simulations: int, options: argparse.Namespace) -> Row:
    """Play a match of an agent against itself with and without luck, in turn."""
    name = str(AgentSpec.parse(agent).with_options(simulations=simulations))
    config = with_defaults(MatchConfig(a=name, b=name, games=options.games, seed=options.seed, workers=1))
    config = replace(config, batch=options.batch)
    measured = with_defaults(replace(config, luck=value))
    plain, lucky = 0.0, 0.0
    for _ in range(options.rounds):
        seconds, result = cpu_seconds(config)
        plain += seconds
        seconds, result = cpu_seconds(measured)
        lucky += seconds
    decisions = options.rounds * config.deals * config.players * result["mean_decisions"]
    return {
        "simulations": simulations,
        "games": config.deals * config.players,
        "plain_seconds": plain / options.rounds,
        "luck_seconds": lucky / options.rounds,
        "ratio": lucky / plain,
        "microseconds_per_decision": 1e6 * plain / decisions,
        "luck_microseconds_per_decision": 1e6 * (lucky - plain) / decisions,
    }


def page(result: Row) -> str:
    """Markdown page of the results."""
    lines = ["# Cost of luck adjustment", "", f"    {result['command']}", ""]
    lines += [
        f"`{result['agent']}` against itself, value function `{result['value']}`; CPU time of one thread. The fit of"
    ]
    lines += [f"the value function took {result['fit_seconds']:.1f} s of CPU time, once.", ""]
    titles = ["simulations", "games", "match: s", "with luck: s", "ratio", "match: us per decision", "luck: us"]
    cells = []
    for row in result["rows"]:
        seconds = [f"{row[name]:.2f}" for name in ("plain_seconds", "luck_seconds", "ratio")]
        each = [f"{row[f'{name}microseconds_per_decision']:.0f}" for name in ("", "luck_")]
        cells.append([row["simulations"], row["games"], *seconds, *each])
    return "\n".join([*lines, *common.table(titles, cells)]) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Plot the ratio by the number of simulations."""
    figure, axes = plot_style.new_axes(plot_style.COLUMN, 2.8)
    rows = result["rows"]
    places = range(len(rows))
    axes.plot(places, [row["ratio"] for row in rows], marker="o", label="measured")
    axes.axhline(1, color="black", linewidth=0.6)
    plot_style.reference_line(axes, 1.3, "limit: 1.3")
    axes.set_xticks(list(places), [str(row["simulations"]) for row in rows])
    axes.set(xlabel="simulations per decision (0: policy alone)", ylabel="CPU time with luck / without")
    axes.set_ylim(bottom=0.9)
    plot_style.legend_below(figure, [axes])
    return figure


def run(options: argparse.Namespace, command: str) -> None:
    """Run the experiment."""
    require(min(options.counts) >= 0, "--counts", "numbers of 0 or more", options.counts)
    require(options.rounds >= 1, "--rounds", "1 or more", options.rounds)
    torch.set_num_threads(1)
    config = with_defaults(MatchConfig(a=options.agent, b=options.agent, luck=options.value))
    started = time.process_time()
    load_value_model(config.luck, config.game, config.players, config.rules)
    fit = time.process_time() - started
    rows = [measure(options.agent, options.value, count, options) for count in track(options.counts, "matches")]
    result: Row = {"command": command, "agent": options.agent, "value": config.luck, "fit_seconds": fit, "rows": rows}
    common.write_results(options.out, "luck_cost", result, page(result), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return the exit code."""
    parser = common.make_parser(__doc__)
    parser.add_argument("--agent", default="agent:skyjo-belief", help="(default: agent:skyjo-belief)")
    parser.add_argument("--value", default="agent:skyjo-belief", help="value function (default: agent:skyjo-belief)")
    parser.add_argument("--counts", nargs="+", type=int, default=[0, 4, 16, 64], metavar="N", help="simulations")
    parser.add_argument("--rounds", type=int, default=2, help="times that every match is played (default: 2)")
    parser.add_argument("--batch", type=int, default=512, help="games that are played at once (default: 512)")
    return common.run_experiment(parser, run, argv)


if __name__ == "__main__":
    sys.exit(main())
