"""The threshold study of Reichel (2026): Table 1 and Figure 5, from the C++ simulator.

    python -m experiments.skyjo_thresholds

Two equal players play single rounds (rules="reichel") for every discard threshold from -2 to 12. The paper's
`threshold` player is compared with its published means; `naive` and `column_threshold` are players that the paper
describes but does not measure. Writes thresholds.json, thresholds.md and thresholds.png.

The paper's intervals resample single scores (`ci`). The two scores of a game depend on each other, so the JSON also has
the interval that resamples games (`ci_by_game`), and distances to published means are in standard errors by game.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import env
from experiments.common.command_line import add_output_options
from muzero.runs import plot_style
from muzero.runs.markdown import markdown_table
from muzero.runs.plot_style import styled
from muzero.runs.provenance import provenance

HERE = Path(__file__).resolve().parent
THRESHOLDS = range(-2, 13)
PUBLISHED = {"printed_table": "Table 1", "printed_code": "its code"}

Row = dict[str, Any]


def interval_of_mean(values: NDArray[Any], resamples: int, rng: np.random.Generator) -> list[float]:
    """95 % percentile bootstrap interval of the mean, by multinomial counts of the distinct values."""
    distinct, counts = np.unique(values, return_counts=True)
    draws = rng.multinomial(len(values), counts / len(values), size=resamples)  # [resamples, distinct]
    low, high = np.quantile(draws @ distinct / len(values), [0.025, 0.975])
    return [round(float(low), 4), round(float(high), 4)]


def summarize(scores: NDArray[np.int32], resamples: int, rng: np.random.Generator) -> Row:
    """Statistics of scores [games, 2]: the paper's columns, and interval and standard error by game."""
    by_game = scores.mean(axis=1)
    return {
        "mean": round(float(scores.mean()), 4),
        "std": round(float(scores.std(ddof=1)), 4),
        "n": scores.size,
        "ci": interval_of_mean(scores.ravel(), resamples, rng),
        "ci_by_game": interval_of_mean(by_game, resamples, rng),
        "standard_error": round(float(by_game.std(ddof=1)) / math.sqrt(len(scores)), 5),
    }


def distance(ours: Row, mean: float, std: float, games: int) -> float:
    """Difference of our mean and a published one, in combined standard errors.

    The paper gives only the standard deviation of scores. The two scores of a game depend on each other, so the
    standard error differs from std / sqrt(n); the factor is assumed to be the same as in our games.
    """
    dependence: float = ours["standard_error"] / (ours["std"] / math.sqrt(ours["n"]))
    published = dependence * std / math.sqrt(2 * games)
    difference: float = ours["mean"] - mean
    return round(difference / math.hypot(ours["standard_error"], published), 2)


def play_all(games: int, seed: int, resamples: int, published: dict[str, Any]) -> tuple[Row, dict[str, float]]:
    """Plays all strategies at all thresholds; returns the results and the seconds of simulation by strategy.

    Each threshold has its own deals, as in the paper; the strategies share them.
    """
    tables = env.make("skyjo", 1, 2, rules="reichel", seed=seed, threads=os.cpu_count() or 1)
    rng = np.random.default_rng(seed)
    seconds = dict.fromkeys(("threshold", "column_threshold", "naive"), 0.0)

    def row(strategy: str, block: int, parameters: str = "") -> Row:
        bot = tables.bot(strategy + parameters)
        start = time.perf_counter()
        records = tables.play([bot, bot], games, first_deal=block * games, seed=seed)
        seconds[strategy] += time.perf_counter() - start
        return {**summarize(records.scores, resamples, rng), "truncated": int(records.truncated.sum())}

    means = {name: {line[0]: line[1:3] for line in published[name]["rows"]} for name in PUBLISHED}
    result: Row = {"naive": row("naive", 0), "threshold": [], "column_threshold": []}
    for block, t in enumerate(THRESHOLDS):
        ours = {"threshold": t, **row("threshold", block, f"(t={t})")}
        for name in PUBLISHED:
            mean, std = means[name][t]
            z = distance(ours, mean, std, published["games"])
            ours[name] = {"mean": mean, "std": std, "z": z}
        result["threshold"].append(ours)
        result["column_threshold"].append({"threshold": t, **row("column_threshold", block, f"(t={t})")})
    return result, seconds


def markdown(result: Row, games: int, command: str) -> str:
    """The results as a page of Markdown with one table."""

    def interval(row: Row) -> str:
        return f"[{row['ci'][0]:.2f}, {row['ci'][1]:.2f}]"

    lines = [
        "# Skyjo: mean score by discard threshold",
        "",
        f"    {command}",
        "",
        f"Two equal players, one round, {games:,} games per row. Intervals are 95 % percentile bootstrap",
        "intervals over single scores, as in the paper; z is our mean minus the published one in combined",
        "standard errors. *Table 1* is the table in the paper, *its code* is the program in its appendix, run",
        "as printed (3,000 games each).",
        "",
    ]
    rows = []
    for ours, columns in zip(result["threshold"], result["column_threshold"], strict=True):
        t, mean, std = f"{ours['threshold']}", f"{ours['mean']:.2f}", f"{ours['std']:.2f}"
        cells = [t, mean, std, interval(ours), f"{ours['n']}"]
        for name in PUBLISHED:
            cells += [f"{ours[name]['mean']:.2f}", f"{ours[name]['z']:+.1f}"]
        cells += [f"{columns['mean']:.2f}", interval(columns)]
        rows.append(cells)
    titles = ["t", "mean", "std", "95 % CI", "n", "Table 1", "z", "its code", "z", "column_threshold", "95 % CI"]
    lines += markdown_table(titles, rows, "rrrcrrrrrrc")
    naive = result["naive"]
    lines += ["", f"`naive`: mean {naive['mean']:.2f} {interval(naive)}, std {naive['std']:.2f}.", ""]
    for name in ("threshold", "column_threshold"):
        best = min(result[name], key=lambda row: row["mean"])
        lines.append(f"Smallest mean of `{name}`: {best['mean']:.2f} at t = {best['threshold']}.")
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row, published: dict[str, Any], games: int) -> Figure:
    """Figure 5, with the other strategies."""
    figure, axes = plot_style.new_axes(plot_style.COLUMN, 3.4)
    for name, color in zip(("threshold", "column_threshold"), plot_style.SERIES, strict=False):
        low, high = np.array([row["ci"] for row in result[name]]).T
        axes.plot(THRESHOLDS, [row["mean"] for row in result[name]], color=color, label=name)
        axes.fill_between(THRESHOLDS, low, high, color=color, alpha=plot_style.BAND, linewidth=0)
    plot_style.reference_line(axes, result["naive"]["mean"], "naive")
    for (name, label), marker in zip(PUBLISHED.items(), "ox", strict=True):
        means = [line[1] for line in published[name]["rows"]]
        look = {"color": "black", "fillstyle": "none", "markeredgewidth": 0.7}
        axes.plot(THRESHOLDS, means, marker, label=f"Reichel, {label}", **look)
    axes.set(xlabel="discard threshold t (points)", ylabel="mean score (points, lower is better)")
    plot_style.few_ticks(axes)
    plot_style.legend_below(figure, [axes], [plot_style.band_handle(f"95 % interval, {games:,} games each")])
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the command: plays the games and writes three files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", type=int, default=3000, help="games per threshold and strategy (default: 3000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of deals, players and resamples (default: 0)")
    parser.add_argument("--bootstrap", type=int, default=500, help="resamples per interval (default: 500)")
    add_output_options(parser, "skyjo_thresholds")
    args = parser.parse_args(argv)
    if args.games < 2 or args.bootstrap < 1:
        parser.error("--games must be at least 2 and --bootstrap at least 1")

    command = f"python -m experiments.skyjo_thresholds --games {args.games} --seed {args.seed}"
    published = json.loads((HERE / "data" / "skyjo_thresholds.json").read_text())
    result, seconds = play_all(args.games, args.seed, args.bootstrap, published)
    page = markdown(result, args.games, command)
    report = {"command": command, "games": args.games, "bootstrap": args.bootstrap, **result}

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "thresholds.json").write_text(json.dumps(report, indent=1) + "\n")
    (args.out / "provenance.json").write_text(json.dumps(provenance(), indent=1) + "\n")  # the others: same bytes
    (args.out / "thresholds.md").write_text(page)
    plot_style.save_figure(plot(result, published, args.games), args.out / "thresholds")

    print(page)
    for strategy, spent in seconds.items():
        played = args.games * (1 if strategy == "naive" else len(THRESHOLDS))
        rate = f"{played / spent:,.0f} games per second"
        print(f"{strategy}: {played:,} games in {spent:.2f} s of simulation, {rate}")


if __name__ == "__main__":
    main()
