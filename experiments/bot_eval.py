"""Strength against the bots of the curriculum over training: Table 2 and Figure 5 of the SkyNet paper.

    python -m experiments.bot_eval --runs runs/belief-0 runs/baseline-0 --games 100 --out results/bot_eval

Every checkpoint that a run has kept (or those of --iterations) plays --games games against each bot, on the same deals.
The paper reports mean, standard deviation, largest and smallest value over checkpoints of the mean win rate over bots.
With several runs of a variant, these are over all checkpoints of all runs; the last checkpoints are compared as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero import stats
from muzero.runs import plot_style
from muzero.runs.curves import draw_runs, middle_of, notes_of_runs
from muzero.runs.plot_style import styled


def match_specs(runs: Sequence[Run], options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of every checkpoint against every bot."""
    return [
        MatchSpec(
            f"{run.label}--{iteration:06d}--{bot.replace('/', '_')}",
            agent_of(run, iteration, simulations=options.simulations),
            f"bot:{bot}",
            run.players,
            {"run": str(run.path), "variant": run.variant, "iteration": iteration, "bot": bot},
        )
        for run in runs
        for iteration in common.iterations_of([run], options.iterations)
        for bot in options.bots or run.bots
    ]


def by_checkpoint(rows: Sequence[Row]) -> list[Row]:
    """Results of each checkpoint, all bots pooled."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["run"], row["iteration"]), []).append(row)
    return [
        {
            "run": run,
            "variant": found[0]["variant"],
            "iteration": iteration,
            **common.pooled(found),
            "by_bot": {row["bot"]: row["win_rate"] for row in found},
        }
        for (run, iteration), found in groups.items()
    ]


def summarize(points: Sequence[Row]) -> dict[str, Row]:
    """Table 2: statistics over checkpoints, by variant."""
    table: dict[str, Row] = {}
    for variant in dict.fromkeys(point["variant"] for point in points):
        found = [point for point in points if point["variant"] == variant]
        rates = np.array([point["win_rate"] for point in found])
        last = {point["run"]: point for point in sorted(found, key=lambda point: point["iteration"])}
        spread = float(rates.std(ddof=1)) if len(rates) > 1 else 0.0
        table[variant] = {
            "checkpoints": len(found),
            "mean_win_rate": float(rates.mean()),
            "range": [float(rates.mean()) - 1.96 * spread, float(rates.mean()) + 1.96 * spread]
            if len(rates) >= stats.LEAST_RUNS and spread
            else None,
            "std_win_rate": spread,
            "max_win_rate": float(rates.max()),
            "min_win_rate": float(rates.min()),
            "mean_truncation_rate": sum(p["truncated"] for p in found) / sum(p["games"] for p in found),
            "mean_episode_length": float(np.mean([point["mean_decisions"] for point in found])),
            "last_checkpoints": common.over_seeds([point["win_rate"] for point in last.values()]),
        }
    return table


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    names = list(result["table"])
    published = {name: pair for name, *pair in common.published("table_2_bot_evaluation")}
    measures = {
        "mean_win_rate": "mean win rate over checkpoints",
        "std_win_rate": "its standard deviation",
        "max_win_rate": "largest",
        "min_win_rate": "smallest",
        "mean_truncation_rate": "truncation rate",
        "mean_episode_length": "decisions per game",
    }
    rows = []
    for key, title in measures.items():
        digits = 1 if key == "mean_episode_length" else 3
        cells = [f"{result['table'][name][key]:.{digits}f}" for name in names]
        if key == "mean_win_rate":
            ranges = [result["table"][name]["range"] for name in names]
            cells = [
                f"{cell} [{found[0]:.2f}, {found[1]:.2f}]" if found else cell
                for cell, found in zip(cells, ranges, strict=True)
            ]
        rows.append([title, *cells, *published[key]])
    rows.append(["checkpoints", *(str(result["table"][name]["checkpoints"]) for name in names), "-", "-"])
    last = [common.seeds(result["table"][name]["last_checkpoints"]) for name in names]
    rows.append(["win rate of the last checkpoint, mean over runs", *last, "-", "-"])
    lines = ["# Against the bots of the curriculum", "", f"    {command}", ""]
    lines += [
        f"{result['games']} games per checkpoint and bot, on the same deals. Brackets after means over checkpoints are",
        "the mean +- 1.96 standard deviations, as in the paper; brackets after means over runs are Student's 95 %",
        f"intervals; both from {stats.LEAST_RUNS} on. The published rates are of episodes of 88 decisions under the",
        "paper's own rules, about one round; whole matches are easier to win for the better player, so compare them",
        "with --rules episode=round. The six bots are our reading of the paper's names.",
        "",
    ]
    lines += common.table(["", *names, "published: baseline", "published: belief"], rows)
    lines += ["", "The last checkpoint of each run, all bots pooled:", ""]
    final = {point["run"]: point for point in sorted(result["checkpoints"], key=lambda p: p["iteration"])}
    bots = list(dict.fromkeys(bot for point in final.values() for bot in point["by_bot"]))
    cells_of = [
        [
            f"`{run}`",
            p["variant"],
            p["iteration"],
            common.rate(p),
            *(f"{p['by_bot'].get(b, float('nan')):.3f}" for b in bots),
        ]
        for run, p in final.items()
    ]
    lines += common.table(["run", "variant", "iteration", "win rate", *bots], cells_of)
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Figure 5: one curve per variant, over thin lines of its runs.

    The band of a single run is its 95 % interval by deals; that of several is about other seeds.
    """
    figure, axes = plot_style.new_axes(plot_style.COLUMN, 3.2)
    several = band = by_deals = False
    for variant in result["table"]:
        own = [point for point in result["checkpoints"] if point["variant"] == variant]
        runs = [
            sorted((point for point in own if point["run"] == run), key=lambda point: point["iteration"])
            for run in dict.fromkeys(point["run"] for point in own)
        ]
        lines = [
            (np.array([float(p["iteration"]) for p in run]), np.array([p["win_rate"] for p in run])) for run in runs
        ]
        color, marker = plot_style.color_of(variant), plot_style.marker_of(variant)
        label = variant if len(runs) == 1 else f"{variant}, {middle_of(len(runs))}"
        band |= draw_runs(axes, lines, label, color, marker)
        several |= len(runs) > 1
        if len(runs) == 1:
            low, high = zip(*map(common.interval, runs[0]), strict=True)
            axes.fill_between(lines[0][0], low, high, color=color, alpha=plot_style.BAND, linewidth=0)
            axes.errorbar(*lines[0], yerr=common.error_bars(runs[0]), color=color, fmt="none", elinewidth=1)
            by_deals = True
    for fair in sorted({point["fair_share"] for point in result["checkpoints"]}):
        plot_style.reference_line(axes, fair, "fair share")
    axes.set(xlabel="iteration", ylabel="mean win rate against the bots", ylim=plot_style.RATES)
    plot_style.few_ticks(axes, [point["iteration"] for point in result["checkpoints"]])
    notes = [plot_style.line_handle("95 % interval by deals, one run", marker="|", linewidth=1.2)] if by_deals else []
    plot_style.legend_below(figure, [axes], [*notes, *notes_of_runs(several, band)])
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches and writes the results."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    points = by_checkpoint(common.play_match_specs(match_specs(runs, options), options))
    result = {"command": command, "games": options.games, "table": summarize(points), "checkpoints": points}
    common.write_results(options.out, "bot_eval", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, "per checkpoint and bot")
    common.add_run_options(parser, "all checkpoints kept", bots=True)
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
