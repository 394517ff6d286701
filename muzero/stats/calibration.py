"""Quality of predicted probabilities: Brier score and reliability curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_count, to_vector
from muzero.stats.intervals import Interval, wilson


@dataclass(frozen=True)
class Brier:
    """Brier score: mean squared error of probabilities.

    Attributes:
      score: mean squared error; 0 is perfect; always predicting 1/2 scores 0.25 if there are no draws.
      reference: score of always predicting the mean outcome.
      skill: skill score, 1 - score / reference; 1 is perfect, 0 no better than the mean; 0 if all outcomes are equal.
    """

    score: float
    reference: float
    skill: float


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions from `low` up to `high`: their count and mean, and the mean outcome with its Wilson interval."""

    low: float
    high: float
    count: int
    predicted: float
    observed: Interval


@dataclass(frozen=True)
class Reliability:
    """Reliability curve: the non-empty bins, and the mean gap between predicted and observed, weighted by count."""

    bins: tuple[ReliabilityBin, ...]
    calibration_error: float


def _forecasts(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[Floats, Floats]:
    p, y = to_vector("probabilities", probabilities, 0, 1), to_vector("outcomes", outcomes, 0, 1)
    require(len(p) == len(y), "outcomes", f"as many as probabilities, {len(p)}", len(y))
    return p, y


def brier(probabilities: ArrayLike, outcomes: ArrayLike) -> Brier:
    """Score probabilities of winning against outcomes: 1 for a win, 0 for a loss, a share of the win for a tie."""
    p, y = _forecasts(probabilities, outcomes)
    score, reference = float(np.mean((p - y) ** 2)), float(y.var())
    return Brier(score, reference, 1 - score / reference if reference > 0 else 0.0)


def reliability_curve(
    probabilities: ArrayLike, outcomes: ArrayLike, bins: int = 10, confidence: float = 0.95
) -> Reliability:
    """Mean outcome by predicted probability, in bins of equal width; a probability of 1 is in the last bin.

    The Wilson intervals assume independent outcomes: with several predictions per game they are too narrow.
    """
    p, y = _forecasts(probabilities, outcomes)
    require_count("bins", bins, 1)
    edges = np.arange(bins + 1) / bins
    index = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    curve = []
    for i in np.unique(index):
        inside = index == i
        count = int(inside.sum())
        observed = wilson(float(y[inside].sum()), count, confidence)
        curve.append(ReliabilityBin(float(edges[i]), float(edges[i + 1]), count, float(p[inside].mean()), observed))
    error = sum(part.count * abs(part.predicted - part.observed.estimate) for part in curve) / len(p)
    return Reliability(tuple(curve), error)
