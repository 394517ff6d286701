"""Learning curves: plots of runs from their metrics, by iteration and by minutes of wall clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from muzero import stats
from muzero.runs.metrics import Record
from muzero.runs.run import Floats, Run

Measure = Callable[[Record], float | None]  # function that reads a number of a record; None if it is missing
Estimate = tuple[float, float, float]  # a rate, and the low and the high end of its interval

LOSSES = ("total", "policy", "value", "reward", "reconstruction", "consistency")
HEADS = ("winner", "rank")
AXES = {"iteration": "", "minutes": "_by_time"}  # unit of the x axis, and the suffix of the file's name
DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def measure(group: str, name: str) -> Measure:
    """Function that reads one number of a record: `measure("losses", "value")`."""

    def read(record: Record) -> float | None:
        value: float | None = (record.get(group) or {}).get(name)
        return value

    return read


def points(run: Run, by: str, of: Measure) -> tuple[Floats, Floats]:
    """Values of a measure: x (by "iteration" or "minutes") and y, where both are known."""
    places = run.minutes if by == "minutes" else [record["iteration"] for record in run.records]
    found = [(place, of(record)) for place, record in zip(places, run.records, strict=True)]
    kept = [(place, value) for place, value in found if value is not None and math.isfinite(place)]
    x, y = np.array(kept, np.float64).reshape(-1, 2).T
    return x, y


def win_rate(run: Run, record: Record, bot: str | None = None) -> Estimate | None:
    """Win rate against a bot, or by default the mean over the bots of the curriculum; None if one was not evaluated.

    The 95 % Wilson interval treats all games as independent.
    """
    evaluation, names = record.get("evaluation") or {}, [bot] if bot else run.bots
    if not names or any(name not in evaluation for name in names):
        return None
    results = [evaluation[name] for name in names]
    games = sum(result["games"] for result in results)
    rate = float(np.mean([result["win_rate"] for result in results]))
    interval = stats.wilson(rate * games, games)
    return rate, interval.low, interval.high


# ---- plots -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Appearance of a run in plots: colour by variant, dashes by seed."""

    label: str
    color: str
    dashes: Any


def looks(runs: Sequence[Run]) -> list[Look]:
    """Appearance of each run; runs that share variant and seed differ in colour and are labelled by directory."""
    pairs = [(run.variant, run.seed) for run in runs]
    names = [run.path.resolve().name for run in runs]
    kinds = []
    for run, pair, name in zip(runs, pairs, names, strict=True):
        place = name if names.count(name) == 1 else str(run.path)
        kinds.append(run.variant if pairs.count(pair) == 1 else f"{run.variant} ({place})")
    colors, seeds = list(dict.fromkeys(kinds)), sorted({run.seed for run in runs})
    return [
        Look(f"{kind}, seed {run.seed}", f"C{colors.index(kind) % 10}", DASHES[seeds.index(run.seed) % len(DASHES)])
        for run, kind in zip(runs, kinds, strict=True)
    ]


def make_panels(count: int, columns: int = 3) -> tuple[Figure, list[Axes]]:
    """Make an empty figure with `count` panels."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(6.4, 4.2 * columns), 3.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def plot_measures(runs: Sequence[Run], by: str, smooth: int, measures: Mapping[str, Measure]) -> Figure | None:
    """Figure with one panel per measure: raw values light, rolling means over `smooth` iterations bold.

    A loss that is always 0 belongs to a head that the run does not have, and is left out.
    """
    found = {title: [points(run, by, of) for run in runs] for title, of in measures.items()}
    found = {title: lines for title, lines in found.items() if any(y.any() for _, y in lines)}
    if not found:
        return None
    figure, panels = make_panels(len(found))
    for axes, (title, lines) in zip(panels, found.items(), strict=True):
        for look, (x, y) in zip(looks(runs), lines, strict=True):
            if y.any():
                axes.plot(x, y, color=look.color, alpha=0.35, linewidth=0.8)
                axes.plot(x, stats.rolling_mean(y, smooth), linestyle=look.dashes, color=look.color, label=look.label)
        axes.set_title(title)
        axes.set_xlabel(by)
    _add_legend(panels)
    return figure


def plot_win_rates(runs: Sequence[Run], by: str, bots: Sequence[str | None]) -> Figure | None:
    """Figure with one panel per bot (None: mean over the curriculum's), Wilson intervals, and the fair share dashed."""

    def part(run: Run, bot: str | None, index: int) -> tuple[Floats, Floats]:
        return points(run, by, lambda record: (win_rate(run, record, bot) or (None, None, None))[index])

    if not any(len(part(run, bot, 0)[0]) for run, bot in product(runs, bots)):
        return None
    figure, panels = make_panels(len(bots))
    for axes, bot in zip(panels, bots, strict=True):
        for run, look in zip(runs, looks(runs), strict=True):
            (x, rate), (_, low), (_, high) = (part(run, bot, index) for index in range(3))
            if len(x):
                axes.plot(x, rate, linestyle=look.dashes, color=look.color, label=look.label, marker="o", markersize=3)
                axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0)
                axes.vlines(x, low, high, color=look.color, alpha=0.4, linewidth=1)
        for players in {run.players for run in runs}:
            axes.axhline(1 / players, color="gray", linestyle="--", linewidth=1)
        axes.set(title=bot or "mean over the curriculum's bots", xlabel=by, ylim=(-0.02, 1.02))
    panels[0].set_ylabel("win rate")
    _add_legend(panels)
    return figure


def plot_reliability(runs: Sequence[Run]) -> Figure | None:
    """Reliability of the winner head at the last evaluation (areas in proportion to decisions), and its Brier score.

    Dotted lines show the Brier score of always predicting the mean.
    """
    if not any(run.last("calibration") for run in runs):
        return None
    figure, (diagram, scores) = make_panels(2)
    diagram.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
    for run, look in zip(runs, looks(runs), strict=True):
        last = run.last("calibration")
        if last is None:
            continue
        bins = last["calibration"]["reliability"]
        area = 300 * np.array(bins["count"]) / sum(bins["count"])
        diagram.plot(bins["predicted"], bins["won"], linestyle=look.dashes, color=look.color, label=look.label)
        diagram.scatter(bins["predicted"], bins["won"], s=area, color=look.color, alpha=0.5)
        x, score = points(run, "iteration", measure("calibration", "brier"))
        scores.plot(x, score, linestyle=look.dashes, color=look.color, label=look.label, marker="o", markersize=3)
        x, score = points(run, "iteration", measure("calibration", "brier_of_the_mean"))
        scores.plot(x, score, ":", color=look.color, linewidth=1)
    diagram.set(title="winner head, last evaluation", xlabel="predicted", ylabel="won", xlim=(0, 1), ylim=(0, 1))
    scores.set(title="Brier score", xlabel="iteration")
    scores.set_ylim(bottom=0)
    _add_legend([diagram])
    return figure


def make_figures(runs: Sequence[Run], smooth: int) -> dict[str, Figure]:
    """All plots for which at least one run has data, by the name of the file."""
    losses = {f"{name} loss": measure("losses", name) for name in LOSSES}
    heads = {f"{name} head loss": measure("losses", name) for name in HEADS}
    stability = {
        "gradient norm": measure("losses", "gradient"),
        "policy entropy": measure("diagnostics", "policy_entropy"),
    }
    bots = list(dict.fromkeys(bot for run in runs for bot in run.evaluated_bots()))
    trained_with = dict.fromkeys(bot for run in runs for bot in run.bots)
    in_training = {f"games against {bot}": measure("diagnostics", f"win_rate_{bot}") for bot in trained_with}
    drawn: dict[str, Figure | None] = {}
    for by, suffix in AXES.items():
        drawn |= {
            f"figure3_losses{suffix}": plot_measures(runs, by, smooth, losses),
            f"figure4_outcome_heads{suffix}": plot_measures(runs, by, smooth, heads),
            f"figure5_win_rate{suffix}": plot_win_rates(runs, by, [None]),
            f"figure7_diagnostics{suffix}": plot_measures(runs, by, smooth, stability),
            f"win_rate_in_training{suffix}": plot_measures(runs, by, smooth, in_training),
            f"win_rate_by_bot{suffix}": plot_win_rates(runs, by, bots),
        }
    drawn["reliability"] = plot_reliability(runs)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _add_legend(panels: Sequence[Axes]) -> None:
    """Puts one legend for all panels into the first."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    panels[0].legend(list(found.values()), list(found), fontsize="small")
