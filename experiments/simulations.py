"""Strength by the number of simulations: does more search play better?

    python -m experiments.simulations --runs runs/belief runs/baseline --games 1000 --out runs/simulations

Each run plays the opponent (by default the game's held-out bot) with every number of simulations, 0 meaning the policy
alone, and against itself with the next smaller number. A planner that plans wins at least half of every match of the
second kind. Every deal is played from every seat. The result of each match is a file in DIR/parts: a repeated command
plays only what is missing. With `--luck AGENT` (or `--luck linear`) luck is taken out of the results as well: a match
of 256 against 64 simulations is close to even, and plain games tell so small a difference only in thousands.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero.config.fields import require
from muzero.runs import plot_style
from muzero.runs.plot_style import styled

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


def markdown(rows: Sequence[Row], command: str, luck: bool = False) -> str:
    """The results as a page of Markdown; `luck`: whether to show them with the luck taken out too."""
    lines = ["# Strength by simulations", "", f"    {command}", ""]
    lines += ["Whole games on paired deals; 95 % intervals by deals. 0 simulations: the policy alone.", ""]
    runs = list(dict.fromkeys(row["run"] for row in rows))
    texts, titles = [common.rate], runs
    if luck:
        values = ", ".join(dict.fromkeys(row["luck"]["value"] for row in rows))
        lines[-1:] = [f"Luck is taken out by the values of {values}; behind each such figure: how many plain games one"]
        lines += ["game is worth.", ""]
        texts, titles = [*texts, common.luck_free_rate], [t for run in runs for t in (run, f"{run}, luck taken out")]
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
            cells.append([name, *(text(by_run[run]) if run in by_run else "" for run in runs for text in texts)])
        lines += [*common.table(["simulations", *titles], cells), ""]
    games = sorted({row["games"] for row in rows})
    return "\n".join([*lines, f"Games per match: {', '.join(map(str, games))}."]) + "\n"


@styled
def plot(rows: Sequence[Row], luck: bool = False) -> Figure:
    """Win rates by simulations, against the opponent and against fewer simulations, a colour per run.

    Args:
      rows: results of all matches.
      luck: whether to draw the results with the luck taken out too, as filled markers beside hollow ones.
    """
    figure, (left, right) = plot_style.new_panels(2, extra_height=0.4)
    found = [row for row in rows if row["kind"] == AGAINST_OPPONENT]
    counts = sorted({row["simulations"] for row in found})
    _draw(left, found, [(count,) for count in counts], lambda row: (row["simulations"],), luck, "-")
    left.set_xticks(range(len(counts)), [str(count) for count in counts])
    opponent = " and ".join(plot_style.agent_aliases(sorted({row["other"] for row in found})))
    left.set(xlabel="simulations per decision (0: policy alone)", ylabel=f"win rate against {opponent}")
    fewer = [row for row in rows if row["kind"] == AGAINST_FEWER]
    pairs = sorted({(row["simulations"], int(row["other"])) for row in fewer})
    _draw(right, fewer, pairs, lambda row: (row["simulations"], int(row["other"])), luck, "none")
    right.set_xticks(range(len(pairs)), [f"{more}\nvs {less}" for more, less in pairs])
    right.set(xlabel="simulations per decision", ylabel="win rate against itself with fewer")
    notes = [plot_style.line_handle("95 % interval by deals", marker="|", linewidth=1.2)]
    plot_style.legend_below(figure, [left, right], notes)
    return figure


def _draw(
    axes: Axes,
    rows: Sequence[Row],
    keys: Sequence[tuple[int, ...]],
    key_of: Callable[[Row], tuple[int, ...]],
    luck: bool,
    line: str,
) -> None:
    """Draw the win rates of every run at the places of their keys, plain and with the luck taken out."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    kinds = [False, True] if luck else [False]
    variants = [next(row["variant"] for row in rows if row["run"] == run) for run in runs]
    aliases = variants if len(set(variants)) == len(runs) else plot_style.agent_aliases(runs)
    for number, (run, alias) in enumerate(zip(runs, aliases, strict=True)):
        own = sorted((row for row in rows if row["run"] == run), key=key_of)
        for adjusted in kinds:
            place = (number * len(kinds) + adjusted) - (len(runs) * len(kinds) - 1) / 2
            x = [keys.index(key_of(row)) + 0.07 * place for row in own]
            shown = [row["luck"] for row in own] if adjusted else own
            ends = [(row["low"], row["high"]) for row in shown] if adjusted else [common.interval(row) for row in own]
            y = [row["win_rate"] for row in shown]
            # An adjusted rate may lie below 0 or above 1, the ends of its interval may not.
            bars = [[max(0.0, at - low) for at, (low, _) in zip(y, ends, strict=True)]]
            bars += [[max(0.0, high - at) for at, (_, high) in zip(y, ends, strict=True)]]
            look = {"fillstyle": "none", "linestyle": "none", "alpha": 0.6} if luck and not adjusted else {}
            label = f"{alias}, luck taken out" if adjusted else alias
            turn = number % len(plot_style.SERIES)
            style = {"marker": plot_style.MARKERS[turn], "color": plot_style.SERIES[turn], "linestyle": line, **look}
            axes.errorbar(x, y, yerr=bars, label=label, **style)
    plot_style.reference_line(axes, rows[0]["fair_share"], "fair share")


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches and writes table and plot."""
    rows = common.play_match_specs(match_specs(options), options, options.luck)
    result = {"command": command, "rows": rows}
    luck = bool(options.luck)
    common.write_results(options.out, "simulations", result, markdown(rows, command, luck), plot(rows, luck))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__)
    common.add_run_options(parser)
    parser.add_argument(
        "--counts", nargs="+", type=int, default=[0, 4, 16, 64, 256], metavar="N", help="(default: 0 4 16 64 256)"
    )
    parser.add_argument("--opponent", help="agent to play against (default: the first of the run's held-out bots)")
    parser.add_argument(
        "--luck", default="", metavar="AGENT", help="take luck out, by the values of this agent's network, or linear"
    )
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
