"""Test of "better by d" against "not better": error rates and numbers of games by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero import stats


def stopping_game(deals: NDArray[np.float64], better_by: float, **options: Any) -> tuple[int, str]:
    """Number of deals after which a test after every 50 deals decides, and the decision."""
    for count in range(50, len(deals) + 1, 50):
        found = stats.better_by_test(deals[:count], better_by, **options)
        if found.decision != "continue":
            return count, found.decision
    return len(deals), "continue"


@pytest.mark.parametrize(("truth", "wrong"), [(0.5, "better"), (0.55, "not better")])
def test_wrong_decisions_are_as_rare_as_promised(truth: float, wrong: str) -> None:
    rng = np.random.default_rng(0)
    found = [stopping_game(rng.binomial(2, truth, 2000) / 2, 0.05) for _ in range(300)]
    assert 0 < np.mean([decision == wrong for _, decision in found]) <= 0.05
    assert np.mean([decision == "continue" for _, decision in found]) < 0.02


def test_one_sided_bets_need_less_than_half_of_the_games_of_the_two_sided_margin() -> None:
    rng = np.random.default_rng(1)
    one, two = [], []
    for _ in range(30):
        deals = rng.binomial(2, 0.5, 4000) / 2
        one.append(stopping_game(deals, 0.05)[0])
        looks = range(50, 4001, 50)
        done = (n for n in looks if stats.sequential_test(deals[:n], margin=0.05).decision != "continue")
        two.append(next(done, 4000))
    assert np.mean(one) < 0.5 * np.mean(two)


def test_adjusted_deals_with_wider_bounds_are_decided_sooner_and_as_safely() -> None:
    """Deals whose deviation is a third of the plain ones', as after luck adjustment, with bounds from -1 to 2."""
    rng = np.random.default_rng(2)
    plain, adjusted, wrong = [], [], 0
    for _ in range(60):
        plain.append(stopping_game(rng.binomial(2, 0.5, 3000) / 2, 0.05)[0])
        deals = np.clip(0.5 + 0.2 * rng.normal(size=3000), -1, 2)
        count, decision = stopping_game(deals, 0.05, bounds=(-1.0, 2.0))
        adjusted.append(count)
        wrong += decision == "better"
    assert np.mean(adjusted) < 0.6 * np.mean(plain)
    assert wrong <= 6


def test_p_values_only_fall_as_the_match_goes_on() -> None:
    deals = np.random.default_rng(3).binomial(2, 0.55, 500) / 2
    found = [stats.better_by_test(deals[:n], 0.05) for n in range(10, 500, 10)]
    for name in ("p_not_better", "p_better"):
        values = [getattr(one, name) for one in found]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"better_by": 0.0}, "better_by: expected more than 0 and below 0.5"),
        ({"better_by": 0.5}, "better_by: expected more than 0 and below 0.5"),
        ({"alpha": 0.0}, "alpha: expected"),
        ({"deals": [0.5, 1.2]}, "deals: expected numbers from 0 to 1"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stats.better_by_test(**{"deals": [0.5, 1.0], "better_by": 0.02, **change})
