"""Luck adjustment: unbiased whatever the luck column says, coverage, and what it saves, on simulated deals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero import stats
from muzero.stats.luck import _BLOCK

Floats = NDArray[np.float64]


def match(rng: np.random.Generator, deals: int, rate: float, useful: float) -> tuple[Floats, Floats]:
    """Results [2 D] of games with a known win rate, and luck [2 D, 2]: one column is noise, one explains the results.

    Args:
      rng: random numbers.
      deals: number of deals.
      rate: true win rate.
      useful: part of the deviation from the win rate that the second column knows, 0 to 1.
    """
    won = (rng.random(2 * deals) < rate).astype(np.float64)
    noise = rng.normal(size=2 * deals)
    return won, np.stack([noise, useful * (won - rate) + 0.2 * rng.normal(size=2 * deals)], 1)


def test_adjustment_is_unbiased_and_saves_games() -> None:
    rng = np.random.default_rng(0)
    found = [stats.adjust_for_luck(*match(rng, 60, 0.7, 0.8)) for _ in range(120)]
    estimates = np.array([one.interval.estimate for one in found])
    assert abs(estimates.mean() - 0.7) / (estimates.std() / np.sqrt(120)) < 3
    assert 2.5 < np.median([one.factor for one in found]) < 8
    assert np.mean([one.correlation for one in found]) > 0.75
    plain = np.sqrt(0.7 * 0.3 / 120)
    assert estimates.std() < 0.7 * plain, "the estimates themselves vary less, as the factor says"


def test_useless_luck_changes_nothing_much() -> None:
    rng = np.random.default_rng(1)
    found = [stats.adjust_for_luck(*match(rng, 200, 0.6, 0.0)) for _ in range(20)]
    assert 0.93 < np.mean([one.factor for one in found]) < 1.01
    assert np.std([one.interval.estimate for one in found]) < 1.5 * np.sqrt(0.24 / 400)


def test_weights_fitted_to_the_same_deals_would_be_biased() -> None:
    """Skewed luck that results depend on in a curve: only weights of other deals leave the mean where it is."""
    rng = np.random.default_rng(2)
    own, others = [], []
    for _ in range(400):
        luck = rng.exponential(size=(12, 1)) - 1
        results = luck[:, 0] ** 2  # mean 1; correlated with the luck, but not linear in it
        own.append((results - luck @ stats.luck_weights(results, luck)).mean())
        others.append(stats.adjust_for_luck(results, luck, per_deal=1).interval.estimate)
    errors = [np.std(found) / np.sqrt(len(found)) for found in (own, others)]
    assert abs(np.mean(others) - 1) < 3 * errors[1]
    assert abs(np.mean(own) - 1) > 5 * errors[0]


@pytest.mark.slow
def test_intervals_cover() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(200):
        interval = stats.adjust_for_luck(*match(rng, 100, 0.7, 0.8)).interval
        inside += interval.low <= 0.7 <= interval.high
    assert 0.91 <= inside / 200 <= 0.985


def test_long_matches_have_the_normal_interval() -> None:
    rng = np.random.default_rng(4)
    games, luck = match(rng, 2500, 0.6, 0.8)
    found = stats.adjust_for_luck(games, luck)
    error = found.deals.std(ddof=1) / np.sqrt(2500)
    assert found.interval.high - found.interval.low == pytest.approx(2 * 1.96 * error, rel=0.001)


def test_equal_results_stay_as_they_are() -> None:
    luck = np.random.default_rng(5).normal(size=(40, 2))
    found = stats.adjust_for_luck(np.tile([1.0, 0.0], 20), luck)
    assert found.interval.estimate == 0.5
    assert found.factor == 1
    assert found.correlation == 0


def test_sequential_adjustment_of_a_deal_does_not_depend_on_later_deals() -> None:
    rng = np.random.default_rng(6)
    games, luck = match(rng, 400, 0.6, 0.8)
    luck = luck[:, 1].clip(-1, 1)
    whole = stats.sequential_adjustment(games, luck)
    for deals in (_BLOCK - 1, _BLOCK, _BLOCK + 1, 150, 399):
        part = stats.sequential_adjustment(games[: 2 * deals], luck[: 2 * deals])
        assert (part == whole[:deals]).all()
    plain = games.reshape(-1, 2).mean(1)
    assert (whole[:_BLOCK] == plain[:_BLOCK]).all()
    assert whole[_BLOCK:].var() < 0.6 * plain[_BLOCK:].var()
    assert whole.min() >= -1
    assert whole.max() <= 2


@pytest.mark.parametrize(
    ("games", "luck", "message"),
    [
        ([1, 0, 1], np.zeros((3, 1)), "games: expected 2 per deal"),
        ([1, 0], np.zeros((2, 1)), "games: expected two deals or more"),
        ([1, 0, 1, 0], np.zeros((3, 1)), "luck: expected shape"),
        ([1, 0, 1, 0], np.full((4, 1), np.nan), "luck: expected finite numbers"),
    ],
)
def test_bad_input_is_refused(games: Any, luck: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stats.adjust_for_luck(games, luck)


def test_sequential_adjustment_refuses_luck_beyond_its_bound() -> None:
    with pytest.raises(ValueError, match="luck: expected numbers from -1 to 1"):
        stats.sequential_adjustment([1, 0], [1.5, 1.5])
