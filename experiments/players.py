"""More than two players: one agent against n - 1 hand-written players, in every seat.

    python experiments/players.py --runs runs/belief-3p runs/belief-4p --games 1000 --out results/players

A run plays at tables of every size that it was trained for: one, or several with selfplay.players=[2,3,4]. Runs for
different numbers may be given together, and --players chooses among them. Every deal is played once with the agent in
each seat, all other seats taken by the same bot. The fair share of n players is 1 / n, so the plot shows win rates as
multiples of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from matplotlib.figure import Figure

from experiments import common as studies
from experiments.common import MatchSpec, Row
from muzero.config import require


def meetings(options: argparse.Namespace) -> list[MatchSpec]:
    """Every run against every bot, at tables of every size that it knows."""
    found = []
    runs = studies.read_runs(options.runs)
    for wanted in options.players or ():
        known = sorted({players for run in runs for players in run.player_counts})
        require(
            wanted in known, "--players", f"some of {', '.join(map(str, known))}, of which runs were trained", wanted
        )
    for run in runs:
        iteration = studies.iteration_of(run, options.iteration)
        agent = run.agent(iteration, simulations=options.simulations)
        for players in options.players or run.player_counts:
            for bot in options.bots or run.bots if players in run.player_counts else ():
                labels = {"run": str(run.path), "variant": run.variant, "iteration": iteration, "bot": bot}
                name = f"{run.label}--{iteration:06d}--{players}p--{bot}"
                found.append(MatchSpec(name, agent, f"bot:{bot}", players, labels))
    return found


def combine(rows: Sequence[Row]) -> list[Row]:
    """By number of players and variant, bots and runs pooled, and the mean over runs."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["players"], row["variant"]), []).append(row)
    lines = []
    for (players, variant), found in sorted(groups.items()):
        by_run: dict[str, list[float]] = {}
        for row in found:
            by_run.setdefault(row["run"], []).append(row["win_rate"])
        over = studies.over_seeds([sum(rates) / len(rates) for rates in by_run.values()])
        lines.append({"players": players, "variant": variant, **studies.pooled(found), "over_runs": over})
    return lines


def markdown(result: Row, command: str) -> str:
    """The study as a page."""
    lines = ["# More than two players", "", f"    {command}", ""]
    lines += [
        "One agent against n - 1 bots of a kind, in every seat of every deal. Win rates have 95 % intervals by deals,"
    ]
    lines += ["means over runs Student's; p is of the exact test against the fair share, corrected by Holm.", ""]
    titles = ["players", "variant", "games", "win rate", "fair share", "times fair", "mean over runs"]
    cells = [
        [
            row["players"],
            row["variant"],
            row["games"],
            studies.rate(row),
            f"{row['fair_share']:.3f}",
            f"{row['win_rate'] / row['fair_share']:.2f}",
            studies.seeds(row["over_runs"]),
        ]
        for row in result["rows"]
    ]
    lines += [*studies.table(titles, cells), "", "By run and bot:", ""]
    cells = [
        [
            f"`{row['run']}`",
            row["players"],
            row["iteration"],
            row["bot"],
            row["games"],
            studies.rate(row),
            f"{row['p_holm']:.2g}",
        ]
        for row in result["matches"]
    ]
    lines += studies.table(["run", "players", "iteration", "bot", "games", "win rate", "p (Holm)"], cells)
    return "\n".join(lines) + "\n"


def plot(result: Row) -> Figure:
    """Win rates as multiples of the fair share, by number of players."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, variant in enumerate(dict.fromkeys(row["variant"] for row in result["rows"])):
        rows = [row for row in result["rows"] if row["variant"] == variant]
        x = [row["players"] + 0.06 * number for row in rows]
        seats = [row["players"] for row in rows]
        rates = [row["win_rate"] * row["players"] for row in rows]
        reach = studies.error_bars(rows, seats)
        axes.errorbar(x, rates, yerr=reach, marker="o", capsize=3, label=variant)
    axes.axhline(1, color="gray", linestyle="--", linewidth=1)
    axes.set(xlabel="players", ylabel="win rate / fair share", title="One agent against n - 1 bots, 95 % by deals")
    axes.set_xticks(sorted({row["players"] for row in result["rows"]}))
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def study(options: argparse.Namespace, command: str) -> None:
    """Plays and writes."""
    rows = studies.with_holm(studies.play_match_specs(meetings(options), options))
    result = {"command": command, "rows": combine(rows), "matches": rows}
    studies.write_study(options.out, "players", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the study."""
    parser = studies.make_parser(__doc__, "per run, table size and bot, rounded up to whole deals")
    studies.add_run_options(parser, bots=True)
    parser.add_argument("--players", nargs="+", type=int, metavar="N", help="(default: all that a run was trained for)")
    studies.add_match_options(parser)
    return studies.run_experiment(parser, study, argv)


if __name__ == "__main__":
    sys.exit(main())
