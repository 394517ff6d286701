"""Paired deals: bootstrap, McNemar's test and variance reduction, by hand, against scipy and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap

from muzero import stats
from tests.stats.simulation import paired


def test_mcnemar_equals_textbook_values() -> None:
    test = stats.mcnemar(121, 59, 134)  # the example of Wikipedia's article: chi-squared 21.35
    assert test.z**2 == pytest.approx(21.35, abs=0.01)
    assert stats.mcnemar(8, 2).p_value == pytest.approx(2 * (45 + 10 + 1) / 1024)
    assert stats.mcnemar(0, 0, 5) == stats.McNemar(0, 0, 5, 0.0, 1.0)


def test_mcnemar_counts_deals_by_points() -> None:
    games = [1, 1, 1, 0.5, 1, 0, 0.5, 0.5, 0, 1, 0, 0.5, 1, 1]
    assert stats.mcnemar_deals(games) == stats.mcnemar(3, 1, 3)


def test_mcnemar_keeps_its_error_rate() -> None:
    rng = np.random.default_rng(5)
    p = [stats.mcnemar_deals(paired(rng, 300, 0.5, 0.4)).p_value for _ in range(500)]
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.055
    assert stats.mcnemar_deals(paired(rng, 300, 0.65, 0.4)).p_value < 1e-4


def bootstrap_coverage(runs: int, rate: float, split: float) -> float:
    rng = np.random.default_rng(1)
    intervals = [stats.paired_bootstrap(paired(rng, 1000, rate, split), resamples=800, seed=i) for i in range(runs)]
    return sum(interval.low <= rate <= interval.high for interval in intervals) / runs


@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.3), (0.55, 0.5), (0.9, 0.1)])
def test_paired_bootstrap_covers_at_the_nominal_rate(rate: float, split: float) -> None:
    assert 0.94 <= bootstrap_coverage(1000, rate, split) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.0), (0.5, 0.9), (0.55, 0.5), (0.75, 0.4), (0.95, 0.05)])
def test_paired_bootstrap_covers_closely_at_the_nominal_rate(rate: float, split: float) -> None:
    assert 0.943 <= bootstrap_coverage(10_000, rate, split) <= 0.957


def test_equal_deals_get_wilsons_interval_over_deals() -> None:
    assert stats.win_rate_of_deals([1.0] * 200) == stats.wilson(100, 100)
    assert stats.win_rate_of_deals([0.5] * 300, per_deal=3) == stats.wilson(50, 100)
    assert stats.win_rate_of_deals([1, 1, 0, 1]) == stats.paired_bootstrap([1, 1, 0, 1])


def test_paired_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(8)
    games = rng.normal(2, 5, 400) + np.repeat(rng.normal(0, 3, 200), 2)
    ours = stats.paired_bootstrap(games, 0.9, resamples=5000)
    means = games.reshape(-1, 2).mean(1)
    theirs = bootstrap(
        (means,), np.mean, confidence_level=0.9, n_resamples=5000, method="BCa", rng=rng
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.estimate == pytest.approx(games.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.04 * width)
    assert stats.paired_bootstrap(games, seed=1) == stats.paired_bootstrap(games, seed=1)
    assert stats.paired_bootstrap(games, seed=1) != stats.paired_bootstrap(games, seed=2)


def test_paired_bootstrap_of_skewed_rates_agrees_with_scipy() -> None:
    """Plain percentiles, which are too high here, would not agree."""
    rng = np.random.default_rng(5)
    ours, theirs, plain = [], [], []
    for _ in range(10):
        games = rng.choice([0, 0.5, 1.0], 1000, p=[0.05, 0.02, 0.93])
        found = stats.paired_bootstrap(games, resamples=4000)
        ours.append((found.low, found.high))
        for method, kept in (("BCa", theirs), ("percentile", plain)):
            means = (games.reshape(-1, 2).mean(1),)
            ends = bootstrap(means, np.mean, n_resamples=4000, method=method, rng=rng).confidence_interval
            kept.append((ends.low, ends.high))
    assert np.mean(ours, 0) == pytest.approx(np.mean(theirs, 0), abs=5e-4)
    assert (np.mean(plain, 0) > np.mean(theirs, 0) + 5e-4).all()


def test_variance_reduction_equals_its_expectation() -> None:
    rng = np.random.default_rng(9)
    runs = [paired(rng, 400, 0.6, 0.6) for _ in range(2000)]
    reduction = stats.variance_reduction(np.concatenate(runs))
    deal_variance = 0.6 * 0.5**2 + 0.4 * 0.75 - 0.6**2  # a deal's mean is 1/2, or 1 in three of four others
    assert reduction.factor == pytest.approx(0.24 / 2 / deal_variance, rel=0.01)
    assert reduction.correlation == pytest.approx(2 * deal_variance / 0.24 - 1, abs=0.01)
    assert reduction.effective_games == pytest.approx(reduction.factor * 2000 * 800)
    assert reduction.unpaired_error == pytest.approx(math.sqrt(0.24 / (2000 * 800)), rel=0.01)
    assert reduction.seat_effect == pytest.approx(0, abs=0.01)
    spread = np.std([run.mean() for run in runs])
    assert stats.variance_reduction(runs[0]).paired_error == pytest.approx(spread, rel=0.1)


def test_variance_reduction_at_its_limits() -> None:
    luck = stats.variance_reduction([1, 0, 0, 1, 1, 0])
    assert (luck.paired_error, luck.factor, luck.correlation) == (0, math.inf, pytest.approx(-1))
    assert luck.seat_effect == pytest.approx(1 / 3)
    won = stats.variance_reduction([1, 1, 1, 1])
    assert (won.factor, won.correlation, won.unpaired_error, won.effective_games) == (1, 0, 0, 4)
    seat = stats.variance_reduction([1, 0, 1, 1, 1, 0])
    assert (seat.correlation, seat.factor) == (0, pytest.approx(1))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.paired_bootstrap([]), "games"),
        (lambda: stats.paired_bootstrap([1, 0, 1]), "games"),
        (lambda: stats.paired_bootstrap([1, 0], resamples=0), "resamples"),
        (lambda: stats.paired_bootstrap([1, math.nan]), "games"),
        (lambda: stats.mcnemar(-1, 2), "better"),
        (lambda: stats.mcnemar(1, -2), "worse"),
        (lambda: stats.mcnemar_deals([0.3, 1]), "games"),
        (lambda: stats.variance_reduction([1, 0]), "games"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
