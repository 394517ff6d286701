"""Intervals and tests of one win rate, and the comparison of two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import binomtest, norm

from muzero.stats.checks import require_between, require_inside_unit, require_points


@dataclass(frozen=True)
class Interval:
    """Estimate, and an interval that covers the true value with the given confidence."""

    estimate: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Test:
    """Test statistic (for the exact binomial test: the observed rate) and its two-sided p-value."""

    __test__ = False  # tells pytest that this is no class of tests

    statistic: float
    p_value: float


def _rounded(points: float) -> tuple[int, int]:
    """Points rounded down and up, after removing the rounding error that sums of thirds have."""
    exact = round(points, 9)
    return math.floor(exact), math.ceil(exact)


def _binomial_interval(points: float, n: int, confidence: float, method: str) -> Interval:
    require_points(points, n)
    require_inside_unit("confidence", confidence)
    down, up = _rounded(points)
    low = binomtest(down, n).proportion_ci(confidence, method).low
    high = binomtest(up, n).proportion_ci(confidence, method).high
    return Interval(points / n, float(low), float(high), confidence)


def wilson(points: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a win rate: coverage is close to nominal (not a bound), and conservative with draws.

    With an odd number of draws, the low end is computed from the points rounded down and the high end from the points
    rounded up.
    """
    return _binomial_interval(points, n, confidence, "wilson")


def clopper_pearson(points: float, n: int, confidence: float = 0.95) -> Interval:
    """Clopper-Pearson interval of a win rate: at least nominal coverage, without draws (proved) and with (tested)."""
    return _binomial_interval(points, n, confidence, "exact")


def binomial_test(points: float, n: int, null: float = 0.5) -> Test:
    """Exact binomial test that the win rate is `null`; a half point is rounded towards the larger p-value."""
    require_points(points, n)
    require_between("null", null, 0, 1)
    p_value = max(binomtest(whole, n, null).pvalue for whole in _rounded(points))
    return Test(points / n, float(p_value))


def z_test(points: float, n: int, null: float = 0.5) -> Test:
    """z test that the win rate is `null`, with the variance of the null: (rate - null) / sqrt(null (1 - null) / n)."""
    require_points(points, n)
    require_inside_unit("null", null)
    z = (points / n - null) / math.sqrt(null * (1 - null) / n)
    return Test(z, _two_sided(z))


def two_proportion_test(points_a: float, n_a: int, points_b: float, n_b: int) -> Test:
    """z test that two independent win rates are equal, with pooled variance; not for the two sides of one match."""
    require_points(points_a, n_a)
    require_points(points_b, n_b)
    pooled = (points_a + points_b) / (n_a + n_b)
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / n_a + 1 / n_b))
    z = (points_a / n_a - points_b / n_b) / deviation if deviation else 0.0  # all games won or all lost: equal
    return Test(z, _two_sided(z))


def _two_sided(z: float) -> float:
    return float(2 * norm.sf(abs(z)))
