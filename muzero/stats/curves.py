"""Smoothing of learning curves, and curves of several runs as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_count, to_vector

LEAST_RUNS = 3  # fewer runs say next to nothing about new ones: no interval or band is given for them
_MOST_PLACES = 400  # places of a curve at most, so that runs of thousands of minutes stay quick to draw
_RESAMPLES = 1000


def rolling_mean(values: ArrayLike, window: int) -> Floats:
    """Centred mean of each value and up to window // 2 values on either side of it, [N].

    Weights fall linearly with the distance, so that an outlier leaves no step where the window lets go of it. Towards
    both ends the window shrinks on both sides alike: the first and the last mean are the values themselves, a straight
    line stays the same line, and no mean looks further back than forward.
    """
    x = to_vector("values", values)
    require_count("window", window, 1)
    places = np.arange(len(x))
    reach = np.minimum(np.minimum(places, len(x) - 1 - places), window // 2)  # [N] values on either side
    total, weights = np.zeros(len(x)), (reach + 1.0) ** 2
    for distance in range(-int(reach.max()), int(reach.max()) + 1):
        near = places[reach >= abs(distance)]
        total[near] += (reach[near] + 1 - abs(distance)) * x[near + distance]
    return total / weights


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Floats:
    """Mean without the lowest and the highest quarter (rounded down, so the plain mean of three values or fewer)."""
    ordered = np.sort(np.asarray(values, np.float64), axis)
    count = ordered.shape[axis]
    middle: Floats = np.take(ordered, range(count // 4, count - count // 4), axis).mean(axis)
    return middle


@dataclass(frozen=True)
class CurveOfRuns:
    """Curve of several runs.

    Attributes:
      x: places that all runs have reached, rising, [N].
      middle: interquartile mean of the runs, [N]; the plain mean of three runs or fewer.
      low, high: ends of the band, [N]; None if there are too few runs (`LEAST_RUNS`).
      runs: number of runs.
    """

    x: Floats
    middle: Floats
    low: Floats | None
    high: Floats | None
    runs: int


def curve_of_runs(
    curves: Sequence[tuple[ArrayLike, ArrayLike]], confidence: float = 0.95, seed: int = 0
) -> CurveOfRuns | None:
    """Aggregate the curves of runs where all of them have values; None if there is no such place.

    Values between two points of a run are interpolated. The band is a percentile bootstrap that draws whole runs.

    Args:
      curves: x (rising) and y of each run.
      confidence: share of the resampled means inside the band.
      seed: seed of the resampling.
    """
    require(len(curves) > 0, "curves", "one or more", len(curves))
    lines = [(to_vector("x", x), to_vector("y", y)) for x, y in curves]
    first, last = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    places = np.unique(np.concatenate([x for x, _ in lines]))
    places = places[(places >= first) & (places <= last)]
    if not len(places):
        return None
    if len(places) > _MOST_PLACES:
        places = np.linspace(first, last, _MOST_PLACES)
    values = np.array([np.interp(places, x, y) for x, y in lines])  # [R, N]
    middle = interquartile_mean(values)
    if len(values) < LEAST_RUNS:
        return CurveOfRuns(places, middle, None, None, len(values))
    draws = np.random.default_rng(seed).integers(len(values), size=(_RESAMPLES, len(values)))
    means = np.array([interquartile_mean(values[draw]) for draw in draws])  # [S, N]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return CurveOfRuns(places, middle, low, high, len(values))
