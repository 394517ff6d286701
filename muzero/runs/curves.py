"""Learning curves: plots of runs from their metrics, by iteration and by minutes of wall clock.

Runs that differ in nothing but their seed are one curve: the interquartile mean (of three or fewer the mean) with a
bootstrap band, over thin lines of the single runs.
"""

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
from muzero.runs import plot_style
from muzero.runs.metrics import Record
from muzero.runs.plot_style import styled
from muzero.runs.run import Floats, Run
from muzero.runs.run_directory import config_hash

Measure = Callable[[Record], float | None]  # function that reads a number of a record; None if it is missing
Estimate = tuple[float, float, float]  # a rate, and the low and the high end of its interval

LOSSES = ("total", "policy", "value", "reward", "reconstruction", "consistency")
HEADS = ("winner", "rank")
AXES = {"iteration": "", "minutes": "_by_time"}  # unit of the x axis, and the suffix of the file's name
LABELS = {"iteration": "iteration", "minutes": "training time (minutes)"}
UNITS = {  # of measures; an entropy or a cross entropy is in nats
    "total loss": "weighted sum of losses",
    "consistency loss": "squared distance",
    "gradient norm": "norm",
    "policy entropy": "entropy (nats)",
}
# Settings in which runs of one kind may differ: they do not change what is learned, or only when a run ends.
_FREE = (
    "seed",
    "run_dir",
    "logging",
    "runtime",
    "search.backend",
    "evaluation",
    "train.iterations",
    "train.minutes",
    "train.checkpoint_every",
    "train.keep_every",
)


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
class Kind:
    """Runs that differ only in their seeds, and their appearance in every plot.

    Attributes:
      name: variant; if several kinds of runs have the same one, also the directory of the first run.
      color, marker: appearance, always the same for a variant.
      runs: the runs.
    """

    name: str
    color: str
    marker: str
    runs: tuple[Run, ...]

    def label(self, drawn: Sequence[Run]) -> str:
        """Text of the legend, for those of the runs that have the values of the plot."""
        return f"{self.name}, {f'seed {drawn[0].seed}' if len(drawn) == 1 else middle_of(len(drawn))}"

    def draw(self, axes: Axes, lines: Mapping[str, tuple[Floats, Floats]], markers: bool = False) -> bool:
        """Draw the curve; `lines` has x and y of each run by its path. See `draw_runs`."""
        drawn = [run for run in self.runs if len(lines[str(run.path)][0])]
        if not drawn:
            return False
        given = [lines[str(run.path)] for run in drawn]
        return draw_runs(axes, given, self.label(drawn), self.color, self.marker if markers else None)


def kinds_of(runs: Sequence[Run]) -> list[Kind]:
    """Group runs that differ only in their seeds; the same settings and seed twice are two kinds."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    keys = [(run.variant, config_hash(run.config, _FREE)) for run in runs]
    marks = [(*key, run.seed) for key, run in zip(keys, runs, strict=True)]
    for run, key, mark in zip(runs, keys, marks, strict=True):
        alone = str(run.path) if marks.count(mark) > 1 else ""
        groups.setdefault((*key, alone), []).append(run)
    places = [run.path.resolve().name for run in runs]
    variants = [variant for variant, *_ in groups]
    named: dict[str, list[Run]] = {}
    for (variant, *_), members in groups.items():
        place = members[0].path.resolve().name
        place = place if places.count(place) == 1 else str(members[0].path)
        named[variant if variants.count(variant) == 1 else f"{variant} ({place})"] = members
    colors, markers = plot_style.colors_of(list(named)), plot_style.markers_of(list(named))
    return [Kind(name, colors[name], markers[name], tuple(members)) for name, members in named.items()]


def draw_runs(
    axes: Axes, lines: Sequence[tuple[Floats, Floats]], label: str, color: str, marker: str | None = None
) -> bool:
    """Draw the curve of runs of one kind, over thin lines of single runs if there are several.

    Args:
      axes: panel to draw in.
      lines: x and y of each run, at least one point each.
      label: text of the legend.
      color: colour of all lines.
      marker: marker of the points of the curve, if they are to be marked.

    Returns:
      Whether the curve has a bootstrap band, which the legend should explain.
    """
    look: dict[str, Any] = {"color": color, "label": label, "marker": marker}
    if len(lines) == 1:
        axes.plot(*lines[0], **look)
        return False
    for line in lines:
        axes.plot(*line, color=color, alpha=0.45, linewidth=0.6)
    found = stats.curve_of_runs(lines)
    if found is None:
        axes.plot([], [], **look)
        return False
    if not all(np.isin(found.x, x).all() for x, _ in lines):
        look["marker"] = None  # interpolated places are no points of a run
    axes.plot(found.x, found.middle, **look)
    if found.low is None or found.high is None:
        return False
    axes.fill_between(found.x, found.low, found.high, color=color, alpha=plot_style.BAND, linewidth=0)
    return True


def middle_of(runs: int) -> str:
    """Text of a legend that says what the curve of so many runs is."""
    return f"{'mean' if runs <= stats.LEAST_RUNS else 'interquartile mean'} of {runs} runs"


def notes_of_runs(several: bool, band: bool) -> list[Any]:
    """Entries of a legend that explain the thin lines of single runs and the band of all."""
    notes: list[Any] = [plot_style.line_handle("single runs", linewidth=0.6, alpha=0.7)] if several else []
    return [*notes, plot_style.band_handle("95 % bootstrap band over runs")] if band else notes


def _label_x(axes: Axes, by: str) -> None:
    axes.set_xlabel(LABELS[by])
    if by == "iteration":
        plot_style.few_ticks(axes)


@styled
def plot_measures(
    runs: Sequence[Run], by: str, smooth: int, measures: Mapping[str, Measure], unit: str = "loss (nats)"
) -> Figure | None:
    """Figure with one panel per measure: raw values light, centred rolling means over `smooth` iterations bold.

    A loss that is always 0 belongs to a head that the run does not have, and is left out.
    """
    found = {title: {str(run.path): points(run, by, of) for run in runs} for title, of in measures.items()}
    found = {title: lines for title, lines in found.items() if any(y.any() for _, y in lines.values())}
    if not found:
        return None
    kinds, band = kinds_of(runs), False
    several = any(len(kind.runs) > 1 for kind in kinds)
    figure, panels = plot_style.new_panels(len(found), extra_height=0.4)
    for axes, (title, lines) in zip(panels, found.items(), strict=True):
        for kind in kinds:
            smoothed = {}
            for run in kind.runs:
                x, y = lines[str(run.path)]
                x, y = (x, y) if y.any() else (x[:0], y[:0])
                axes.plot(x, y, color=kind.color, alpha=0.3 if len(kind.runs) == 1 else 0.12, linewidth=0.6)
                smoothed[str(run.path)] = x, stats.rolling_mean(y, smooth) if len(y) else y
            band |= kind.draw(axes, smoothed)
        axes.set(title=title, ylabel=UNITS.get(title, unit))
        _label_x(axes, by)
    raw = plot_style.line_handle("raw values", linewidth=0.6, alpha=0.5)
    bold = plot_style.line_handle(f"centred rolling mean, {smooth} iterations")
    plot_style.legend_below(figure, panels, [raw, bold, *notes_of_runs(several, band)])
    return figure


@styled
def plot_win_rates(runs: Sequence[Run], by: str, bots: Sequence[str | None]) -> Figure | None:
    """Figure with one panel per bot (None: mean over the curriculum's), intervals, and the fair share dashed.

    The interval of a single run is Wilson's, about its games; the band of several is about other seeds.
    """

    def part(run: Run, bot: str | None, index: int) -> tuple[Floats, Floats]:
        return points(run, by, lambda record: (win_rate(run, record, bot) or (None, None, None))[index])

    if not any(len(part(run, bot, 0)[0]) for run, bot in product(runs, bots)):
        return None
    kinds, band, wilson = kinds_of(runs), False, False
    several = any(len(kind.runs) > 1 for kind in kinds)
    sizes = sorted({run.players for run in runs})
    figure, panels = plot_style.new_panels(len(bots), extra_height=0.4)
    for axes, bot in zip(panels, bots, strict=True):
        for kind in kinds:
            rates = {str(run.path): part(run, bot, 0) for run in kind.runs}
            band |= kind.draw(axes, rates, markers=True)
            drawn = [run for run in kind.runs if len(rates[str(run.path)][0])]
            if len(drawn) == 1:
                (x, low), (_, high) = (part(drawn[0], bot, index) for index in (1, 2))
                axes.fill_between(x, low, high, color=kind.color, alpha=plot_style.BAND, linewidth=0)
                axes.vlines(x, low, high, color=kind.color, alpha=0.4, linewidth=0.8)
                wilson = True
        for players in sizes:
            share = "fair share" if len(sizes) == 1 else f"fair share of {players} players"
            plot_style.reference_line(axes, 1 / players, share)
        axes.set(title=f"against {bot}" if bot else "", ylim=plot_style.RATES)
        axes.set_xlim(left=0)
        axes.set_ylabel("win rate" if bot else "mean win rate against the bots")
        _label_x(axes, by)
    notes = [plot_style.band_handle("95 % Wilson interval of one run's games")] if wilson else []
    plot_style.legend_below(figure, panels, [*notes, *notes_of_runs(several, band)])
    return figure


@styled
def plot_reliability(runs: Sequence[Run]) -> Figure | None:
    """Reliability of the winner head at the last evaluation (areas in proportion to decisions), and its Brier score.

    Dotted lines show the Brier score of always predicting the mean.
    """
    if not any(run.last("calibration") for run in runs):
        return None
    kinds, band = kinds_of(runs), False
    several = any(len(kind.runs) > 1 for kind in kinds)
    figure, (diagram, scores) = plot_style.new_panels(2, extra_height=0.4)
    diagram.plot([0, 1], [0, 1], color=plot_style.GREY, linestyle=(0, (4, 2)), linewidth=0.8, label="calibrated")
    for kind in kinds:
        brier = {}
        for run in kind.runs:
            last = run.last("calibration")
            brier[str(run.path)] = points(run, "iteration", measure("calibration", "brier"))
            if last is None:
                continue
            bins = last["calibration"]["reliability"]
            area = 120 * np.array(bins["count"]) / sum(bins["count"])
            diagram.plot(bins["predicted"], bins["won"], color=kind.color, linewidth=0.8)
            diagram.scatter(bins["predicted"], bins["won"], s=area, color=kind.color, marker=kind.marker, alpha=0.5)
            x, score = points(run, "iteration", measure("calibration", "brier_of_the_mean"))
            scores.plot(x, score, ":", color=kind.color, linewidth=0.9)
        band |= kind.draw(scores, brier, markers=True)
    diagram.set(title="winner head, last evaluation", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    diagram.set(xlabel="predicted probability to win", ylabel="share of games won")
    diagram.set_aspect("equal")
    scores.set(title="winner head over training", ylabel="Brier score (0 is best)")
    _label_x(scores, "iteration")
    scores.set(xlim=(0, None), ylim=(0, None))
    mean = plot_style.line_handle("always predicting the mean", linestyle=":", linewidth=0.9)
    plot_style.legend_below(figure, [diagram, scores], [mean, *notes_of_runs(several, band)])
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
            f"win_rate_in_training{suffix}": plot_measures(runs, by, smooth, in_training, "win rate, two players"),
            f"win_rate_by_bot{suffix}": plot_win_rates(runs, by, bots),
        }
    drawn["reliability"] = plot_reliability(runs)
    return {name: figure for name, figure in drawn.items() if figure is not None}
