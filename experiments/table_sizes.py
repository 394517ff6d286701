"""Strength at tables of all sizes: one agent against n - 1 bots, in every seat.

    python -m experiments.table_sizes --runs runs/belief-3p runs/belief-4p --games 1000 --out results/table_sizes

A run plays at tables of every size that it was trained for: one, or several with selfplay.players=[2,3,4]. Runs for
different sizes may be given together, and --players chooses among the sizes. Every deal is played once with the agent
in each seat; the same bot takes all other seats. The fair share of n players is 1 / n; the plot shows win rates as
multiples of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, agent_of
from muzero.config.fields import require
from muzero.runs import plot_style
from muzero.runs.plot_style import styled


def match_specs(options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of every run against every bot, at tables of every size that it was trained for."""
    found = []
    runs = common.read_runs(options.runs)
    for wanted in options.players or ():
        known = sorted({players for run in runs for players in run.player_counts})
        require(
            wanted in known, "--players", f"sizes that runs were trained for ({', '.join(map(str, known))})", wanted
        )
    for run in runs:
        iteration = common.iteration_of(run, options.iteration)
        agent = agent_of(run, iteration, simulations=options.simulations)
        for players in options.players or run.player_counts:
            for bot in options.bots or run.bots if players in run.player_counts else ():
                labels = {"run": str(run.path), "variant": run.variant, "iteration": iteration, "bot": bot}
                name = f"{run.label}--{iteration:06d}--{players}p--{bot}"
                found.append(MatchSpec(name, agent, f"bot:{bot}", players, labels))
    return found


def combine(rows: Sequence[Row]) -> list[Row]:
    """Results by number of players and variant: bots and runs pooled, and the mean over runs."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["players"], row["variant"]), []).append(row)
    lines = []
    for (players, variant), found in sorted(groups.items()):
        by_run: dict[str, list[float]] = {}
        for row in found:
            by_run.setdefault(row["run"], []).append(row["win_rate"])
        over = common.over_seeds([sum(rates) / len(rates) for rates in by_run.values()])
        lines.append({"players": players, "variant": variant, **common.pooled(found), "over_runs": over})
    return lines


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    lines = ["# Tables of all sizes", "", f"    {command}", ""]
    lines += [
        "One agent against n - 1 copies of a bot, in every seat of every deal. Win rates have 95 % intervals by deals,",
        "means over runs Student's intervals; p is that of the exact test against the fair share, corrected by Holm.",
        "",
    ]
    titles = ["players", "variant", "games", "win rate", "fair share", "times fair", "mean over runs"]
    cells = [
        [
            row["players"],
            row["variant"],
            row["games"],
            common.rate(row),
            f"{row['fair_share']:.3f}",
            f"{row['win_rate'] / row['fair_share']:.2f}",
            common.seeds(row["over_runs"]),
        ]
        for row in result["rows"]
    ]
    lines += [*common.table(titles, cells), "", "By run and bot:", ""]
    cells = [
        [
            f"`{row['run']}`",
            row["players"],
            row["iteration"],
            row["bot"],
            row["games"],
            common.rate(row),
            f"{row['p_holm']:.2g}",
        ]
        for row in result["matches"]
    ]
    lines += common.table(["run", "players", "iteration", "bot", "games", "win rate", "p (Holm)"], cells)
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Win rates as multiples of the fair share, by number of players."""
    figure, axes = plot_style.new_axes(plot_style.COLUMN, 3.0)
    for number, variant in enumerate(dict.fromkeys(row["variant"] for row in result["rows"])):
        rows = [row for row in result["rows"] if row["variant"] == variant]
        x = [row["players"] + 0.06 * number for row in rows]
        seats = [row["players"] for row in rows]
        rates = [row["win_rate"] * row["players"] for row in rows]
        reach = common.error_bars(rows, seats)
        look = {"color": plot_style.color_of(variant), "marker": plot_style.marker_of(variant)}
        axes.errorbar(x, rates, yerr=reach, label=f"{variant}, 95 % intervals by deals", **look)
    plot_style.reference_line(axes, 1, "as good as the bots")
    axes.set(xlabel="players at the table (one agent, else bots)", ylabel="win rate / fair share")
    axes.set_xticks(sorted({row["players"] for row in result["rows"]}))
    axes.set_ylim(bottom=0)
    plot_style.legend_below(figure, [axes])
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches and writes the results."""
    rows = common.with_holm(common.play_match_specs(match_specs(options), options))
    result = {"command": command, "rows": combine(rows), "matches": rows}
    common.write_results(options.out, "table_sizes", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, "per run, table size and bot, rounded up to whole deals")
    common.add_run_options(parser, bots=True)
    parser.add_argument(
        "--players", nargs="+", type=int, metavar="N", help="table sizes (default: all that a run was trained for)"
    )
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
