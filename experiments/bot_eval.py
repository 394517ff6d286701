"""Runs against the hand-written players of their curriculum, over training: Table 2 and Figure 5 of the SkyNet paper.

    python experiments/bot_eval.py --runs runs/belief-0 runs/baseline-0 --games 100 --out results/bot_eval

Every checkpoint that a run has kept (or those of --iterations) plays --games games against each bot, on the same deals.
The paper's figures are over checkpoints: mean, standard deviation, largest and smallest of the mean win rate over bots.
With several runs of a variant those are over all checkpoints of all runs, and the last checkpoints are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments import common as studies
from experiments.common import MatchSpec, Row, Run

PUBLISHED = Path(__file__).resolve().parent / "data" / "skynet.json"


def meetings(runs: Sequence[Run], options: argparse.Namespace) -> list[MatchSpec]:
    """Every checkpoint against every bot."""
    return [
        MatchSpec(
            f"{run.label}--{iteration:06d}--{bot.replace('/', '_')}",
            run.agent(iteration, simulations=options.simulations),
            f"bot:{bot}",
            run.players,
            {"run": str(run.path), "variant": run.variant, "iteration": iteration, "bot": bot},
        )
        for run in runs
        for iteration in studies.iterations_of([run], options.iterations)
        for bot in options.bots or run.bots
    ]


def by_checkpoint(rows: Sequence[Row]) -> list[Row]:
    """The mean over bots, of every checkpoint."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["run"], row["iteration"]), []).append(row)
    return [
        {
            "run": run,
            "variant": found[0]["variant"],
            "iteration": iteration,
            **studies.pooled(found),
            "by_bot": {row["bot"]: row["win_rate"] for row in found},
        }
        for (run, iteration), found in groups.items()
    ]


def summarize(points: Sequence[Row]) -> dict[str, Row]:
    """Table 2, by variant."""
    table: dict[str, Row] = {}
    for variant in dict.fromkeys(point["variant"] for point in points):
        found = [point for point in points if point["variant"] == variant]
        rates = np.array([point["win_rate"] for point in found])
        last = {point["run"]: point for point in sorted(found, key=lambda point: point["iteration"])}
        spread = float(rates.std(ddof=1)) if len(rates) > 1 else 0.0
        table[variant] = {
            "checkpoints": len(found),
            "mean_win_rate": float(rates.mean()),
            "range": [float(rates.mean()) - 1.96 * spread, float(rates.mean()) + 1.96 * spread],
            "std_win_rate": spread,
            "max_win_rate": float(rates.max()),
            "min_win_rate": float(rates.min()),
            "mean_truncation_rate": sum(p["truncated"] for p in found) / sum(p["games"] for p in found),
            "mean_episode_length": float(np.mean([point["mean_decisions"] for point in found])),
            "last_checkpoints": studies.over_seeds([point["win_rate"] for point in last.values()]),
        }
    return table


def markdown(result: Row, command: str) -> str:
    """The study as a page."""
    names = list(result["table"])
    published = {name: pair for name, *pair in json.loads(PUBLISHED.read_text())["table_2_bot_evaluation"]["rows"]}
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
            cells = [f"{cell} [{low:.2f}, {high:.2f}]" for cell, (low, high) in zip(cells, ranges, strict=True)]
        rows.append([title, *cells, *published[key]])
    rows.append(["checkpoints", *(str(result["table"][name]["checkpoints"]) for name in names), "-", "-"])
    last = [studies.seeds(result["table"][name]["last_checkpoints"]) for name in names]
    rows.append(["win rate of the last checkpoint, mean over runs", *last, "-", "-"])
    lines = ["# Against the bots of the curriculum", "", f"    {command}", ""]
    lines += [
        f"{result['games']} games per checkpoint and bot, the same deals throughout. In brackets after means over"
    ]
    lines += [
        "checkpoints: mean +- 1.96 standard deviations, as in the paper (its episodes are rounds or matches, it does"
    ]
    lines += ["not say which); after means over runs: Student's 95 % interval.", ""]
    lines += studies.table(["", *names, "published: baseline", "published: belief"], rows)
    lines += ["", "The last checkpoint of each run, all bots pooled:", ""]
    final = {point["run"]: point for point in sorted(result["checkpoints"], key=lambda p: p["iteration"])}
    bots = list(dict.fromkeys(bot for point in final.values() for bot in point["by_bot"]))
    cells_of = [
        [
            f"`{run}`",
            p["variant"],
            p["iteration"],
            studies.rate(p),
            *(f"{p['by_bot'].get(b, float('nan')):.3f}" for b in bots),
        ]
        for run, p in final.items()
    ]
    lines += studies.table(["run", "variant", "iteration", "win rate", *bots], cells_of)
    return "\n".join(lines) + "\n"


def plot(result: Row) -> Figure:
    """Figure 5: a line per run, a colour per variant, 95 % bands by deals."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    names = list(result["table"])
    seen: set[str] = set()
    for run in dict.fromkeys(point["run"] for point in result["checkpoints"]):
        points = sorted((p for p in result["checkpoints"] if p["run"] == run), key=lambda p: p["iteration"])
        variant, x = points[0]["variant"], [p["iteration"] for p in points]
        color = f"C{names.index(variant)}"
        axes.plot(
            x,
            [p["win_rate"] for p in points],
            "o-",
            color=color,
            markersize=3,
            label=variant if variant not in seen else None,
        )
        low, high = zip(*map(studies.interval, points), strict=True)
        axes.fill_between(x, low, high, color=color, alpha=0.15)
        seen.add(variant)
    for fair in {point["fair_share"] for point in result["checkpoints"]}:
        axes.axhline(fair, color="gray", linestyle="--", linewidth=1)
    axes.set(
        xlabel="iteration", ylabel="mean win rate over bots", ylim=(0, 1), title="Against the bots of the curriculum"
    )
    axes.legend()
    return figure


def study(options: argparse.Namespace, command: str) -> None:
    """Plays and writes."""
    runs = studies.read_runs(options.runs)
    studies.same_players(runs)
    points = by_checkpoint(studies.play_match_specs(meetings(runs, options), options))
    result = {"command": command, "games": options.games, "table": summarize(points), "checkpoints": points}
    studies.write_study(options.out, "bot_eval", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the study."""
    parser = studies.make_parser(__doc__, "per checkpoint and bot")
    studies.add_run_options(parser, "all checkpoints kept", bots=True)
    studies.add_match_options(parser)
    return studies.run_experiment(parser, study, argv)


if __name__ == "__main__":
    sys.exit(main())
