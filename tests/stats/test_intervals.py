"""Intervals and tests of one win rate, against published and textbook values, and their exact coverage."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from muzero import stats
from tests.stats.simulation import paired

# Tables 3 and 4 of the SkyNet paper, 1000 games each: wins, draws, Wilson interval, Elo. The paper counts a draw as a
# loss, so its numbers reproduce from the wins alone.
PUBLISHED = [
    (360, 0, 0.331, 0.390, -99),
    (422, 0, 0.392, 0.453, -55),
    (668, 0, 0.638, 0.696, 120),
    (742, 6, 0.714, 0.768, 184),
    (753, 7, 0.725, 0.779, 194),
    (690, 5, 0.661, 0.718, 139),
    (811, 8, 0.786, 0.834, 253),
]


# What 400 log10(p / (1 - p)) gives where the paper prints something else.
WRONG_ELOS = {360: -99.95, 668: 121.46}


IntervalOf = Callable[[float, int], stats.Interval]


@pytest.mark.parametrize(("wins", "draws", "low", "high", "elo"), PUBLISHED)
def test_wilson_intervals_and_elos_equal_the_papers(wins: int, draws: int, low: float, high: float, elo: int) -> None:
    interval = stats.wilson(wins, 1000)
    assert (round(interval.low, 3), round(interval.high, 3)) == (low, high)
    difference = stats.elo(wins, 1000).estimate
    assert difference == pytest.approx(WRONG_ELOS.get(wins, difference), abs=0.005)
    assert (abs(difference - elo) > 0.5) == (wins in WRONG_ELOS)
    assert (stats.wilson(wins + draws / 2, 1000).high > high + 0.0005) == (draws > 0)


@pytest.mark.parametrize(("wins", "z"), [(753, 16.0), (668, 10.6), (690, 12.0), (811, 19.7)])
def test_z_statistics_equal_the_papers(wins: int, z: float) -> None:
    test = stats.z_test(wins, 1000)
    assert round(test.statistic, 1) == z
    assert stats.z_test(1000 - wins, 1000).statistic == pytest.approx(-test.statistic)
    assert test.p_value == pytest.approx(math.erfc(test.statistic / math.sqrt(2)), rel=1e-9)


@pytest.mark.parametrize(
    ("wins", "n", "wilson", "exact"),
    [
        (81, 263, (0.2553, 0.3662), (0.2527, 0.3676)),
        (15, 148, (0.0624, 0.1605), (0.0578, 0.1617)),
        (0, 20, (0.0000, 0.1611), (0.0000, 0.1684)),
        (1, 29, (0.0061, 0.1718), (0.0009, 0.1776)),
    ],
)
def test_intervals_equal_those_of_newcombe_1998(
    wins: int, n: int, wilson: tuple[float, float], exact: tuple[float, float]
) -> None:
    for method, expected in ((stats.wilson, wilson), (stats.clopper_pearson, exact)):
        interval = method(wins, n)
        assert (interval.low, interval.high) == pytest.approx(expected, abs=5e-5)
        mirrored = method(n - wins, n)
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx(expected, abs=5e-5)
        assert interval.estimate == wins / n


def test_binomial_test_equals_textbook_p_values() -> None:
    assert stats.binomial_test(51, 235, 1 / 6).p_value == pytest.approx(0.04375, abs=5e-6)  # 51 sixes, R's binom.test
    assert stats.binomial_test(8, 10).p_value == pytest.approx(2 * (45 + 10 + 1) / 1024)


def test_two_proportion_test_uses_the_pooled_variance() -> None:
    test = stats.two_proportion_test(60, 100, 40, 100)
    assert test.statistic == pytest.approx(0.2 / math.sqrt(0.5 * 0.5 * 2 / 100))
    assert test.p_value == pytest.approx(0.004678, abs=1e-6)
    assert stats.two_proportion_test(10, 10, 20, 20) == stats.Test(0.0, 1.0)


@pytest.mark.parametrize("method", [stats.wilson, stats.clopper_pearson])
def test_half_points_widen_an_interval(method: IntervalOf) -> None:
    half, down, up = (method(points, 100) for points in (60.5, 60, 61))
    assert (half.estimate, half.low, half.high) == (0.605, down.low, up.high)
    thirds = method(0.7 + 0.2 + 0.1, 10)  # a little less than 1
    assert (thirds.low, thirds.high) == (method(1, 10).low, method(1, 10).high)


def test_half_points_take_the_larger_p_value() -> None:
    assert stats.binomial_test(60.5, 100).p_value == stats.binomial_test(60, 100).p_value
    assert stats.binomial_test(39.5, 100).p_value == stats.binomial_test(40, 100).p_value


def covering(method: IntervalOf, n: int, p: float) -> tuple[float, float]:
    """The least and the most points, in halves, whose interval covers p: both ends rise with the points."""
    halves = range(2 * n + 1)
    least = bisect_left(halves, True, key=lambda half: method(half / 2, n).high >= p)
    most = bisect_left(halves, True, key=lambda half: method(half / 2, n).low > p) - 1
    return least / 2, most / 2


def exact_coverage(method: IntervalOf, n: int, p: float) -> float:
    """Sum of the binomial probabilities of the wins whose interval covers p."""
    least, most = covering(method, n, p)
    return float(binom.cdf(math.floor(most), n, p) - binom.cdf(math.ceil(least) - 1, n, p))


@pytest.mark.parametrize("p", [0.05, 0.2, 0.36, 0.5, 0.55, 0.75, 0.9, 0.99])
def test_wilson_and_clopper_pearson_cover_at_the_nominal_rate(p: float) -> None:
    assert 0.94 <= exact_coverage(stats.wilson, 1000, p) <= 0.965
    assert 0.95 <= exact_coverage(stats.clopper_pearson, 1000, p) <= 0.98
    low, high = 0.5 * p, 0.5 + 0.5 * p
    assert exact_coverage(lambda k, n: stats.Interval(0, low, high, 0), 1000, p) > 0.999  # the sum itself


@pytest.mark.parametrize("p", [0.2, 0.5, 0.75])
@pytest.mark.parametrize("method", [stats.wilson, stats.clopper_pearson])
def test_draws_make_intervals_conservative(method: IntervalOf, p: float) -> None:
    draws = 0.2
    counts = np.random.default_rng(0).multinomial(1000, [p - draws / 2, draws, 1 - p - draws / 2], 20_000)
    points = counts[:, 0] + counts[:, 1] / 2
    least, most = covering(method, 1000, p)
    assert 0.955 <= ((least <= points) & (points <= most)).mean() < 1


@pytest.mark.parametrize("p", [0.36, 0.5, 0.9])
def test_elo_interval_covers_exactly_when_wilsons_does(p: float) -> None:
    difference = stats.elo_of_rate(p)

    def rates(points: float, n: int) -> stats.Interval:
        interval = stats.elo(points, n)
        low, high = (stats.rate_of_elo(end) for end in (interval.low, interval.high))
        assert (low <= p <= high) == (interval.low <= difference <= interval.high)
        return stats.Interval(points / n, low, high, 0.95)

    assert exact_coverage(rates, 1000, p) == exact_coverage(stats.wilson, 1000, p)


def test_wilson_is_conservative_if_deals_are_often_split() -> None:
    rng = np.random.default_rng(2)
    results = [stats.wilson(paired(rng, 500, 0.55, 0.7).sum(), 1000) for _ in range(200)]
    assert sum(result.low <= 0.55 <= result.high for result in results) / 200 > 0.98


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.wilson(-1, 10), "points"),
        (lambda: stats.wilson(11, 10), "points"),
        (lambda: stats.wilson(math.nan, 10), "points"),
        (lambda: stats.wilson(0, 0), "n"),
        (lambda: stats.clopper_pearson(1, 2.5), "n"),  # type: ignore[arg-type]
        (lambda: stats.clopper_pearson(5, 10, 1.0), "confidence"),
        (lambda: stats.binomial_test(5, 10, 1.5), "null"),
        (lambda: stats.z_test(5, 10, 0.0), "null"),
        (lambda: stats.two_proportion_test(5, 10, 11, 10), "points"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
