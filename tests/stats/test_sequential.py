"""Sequential test: by hand, and its error rate by simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from muzero import stats
from tests.stats.simulation import paired


def false_alarms(runs: int, deals: int, rate: float, split: float) -> float:
    """Share of matches in which a test after every deal rejects the true mean at 5 % at least once."""
    rng = np.random.default_rng(6)
    matches = (paired(rng, deals, rate, split).reshape(-1, 2).mean(1) for _ in range(runs))
    return float(np.mean([stats.sequential_p_values(match, rate).min() <= 0.05 for match in matches]))


@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.5), (0.7, 0.2)])
def test_sequential_test_keeps_its_error_rate(rate: float, split: float) -> None:
    assert 0.005 < false_alarms(400, 1000, rate, split) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.0), (0.5, 0.5), (0.5, 0.9), (0.7, 0.2), (0.95, 0.05)])
def test_sequential_test_keeps_its_error_rate_in_long_matches(rate: float, split: float) -> None:
    assert 0.005 < false_alarms(2000, 3000, rate, split) <= 0.05


def test_repeated_plain_tests_exceed_their_error_rate() -> None:
    """A z test after each hundredth deal rejects a true null far too often: the reason for the sequential test."""
    rng = np.random.default_rng(7)
    looks = np.arange(100, 1501, 100)
    wins = rng.binomial(100, 0.5, (200, len(looks))).cumsum(1)
    p = [[stats.z_test(int(k), int(n)).p_value for k, n in zip(row, looks, strict=True)] for row in wins]
    assert (np.min(p, axis=1) <= 0.05).mean() > 0.12


@pytest.mark.parametrize("rate", [0.5, 0.53, 0.6, 0.9])
def test_sequential_decision_interval_and_p_agree(rate: float) -> None:
    deals = paired(np.random.default_rng(10), 1500, rate, 0.1).reshape(-1, 2).mean(1)
    path = stats.sequential_p_values(deals)
    for n in (1, 10, 100, 400, 1500):
        test = stats.sequential_test(deals[:n])
        assert test.p_value == pytest.approx(path[n - 1])
        assert (test.decision == "higher") == (test.low > 0.5)
        assert (test.decision in ("higher", "lower")) == (test.p_value < 0.05)
        assert 0 <= test.low < test.mean < test.high <= 1 or test.mean in (0, 1)
        assert stats.sequential_test(deals[:n], test.low).p_value == pytest.approx(0.05, rel=1e-4) or test.low == 0
        assert stats.sequential_test(np.sort(deals[:n])).low == pytest.approx(test.low)
        mirrored = stats.sequential_test(1 - deals[:n])
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((test.low, test.high))


def test_sequential_test_of_one_deal_equals_values_by_hand() -> None:
    """After one deal that was won, the wealth is the average of 1 + g (1 / m - 1)."""
    share = stats.BETS.mean()
    assert stats.sequential_p_values([1.0], 0.1).tolist() == pytest.approx([2 / (1 + 9 * share)])
    assert stats.sequential_test([1.0]).low == pytest.approx(1 / (1 + 39 / share))
    assert stats.sequential_test([1.0]).high == 1


def test_sequential_test_stops_with_the_right_decision() -> None:
    rng = np.random.default_rng(11)
    better = paired(rng, 2500, 0.55, 0.5).reshape(-1, 2).mean(1)
    assert stats.sequential_test(better).decision == "higher"
    assert stats.sequential_test(1 - better).decision == "lower"
    stops = [
        np.argmax(stats.sequential_p_values(paired(rng, 2500, 0.55, 0.5).reshape(-1, 2).mean(1)) <= 0.05)
        for _ in range(100)
    ]
    assert 300 < np.median(stops) < 650  # a fixed match needs 391 deals for power 0.8, if it is known what to look for
    even = paired(rng, 12_000, 0.5, 0.5).reshape(-1, 2).mean(1)
    assert stats.sequential_test(even, margin=0.03).decision == "equal"
    assert stats.sequential_test(even).decision == "continue"
    assert stats.sequential_test(even[:200], margin=0.03).decision == "continue"


def test_equal_needs_both_ends_inside_the_margin() -> None:
    deals = np.repeat([0.0, 0.5, 1.0], [1060, 2000, 940])  # mean 0.485
    test = stats.sequential_test(deals)
    assert 0.44 < test.low < 0.47
    assert 0.50 < test.high < 0.53
    for x in (deals, 1 - deals):
        assert stats.sequential_test(x, margin=0.03).decision == "continue"
        assert stats.sequential_test(x, margin=0.06).decision == "equal"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.sequential_test([]), "deals"),
        (lambda: stats.sequential_test([0.5, 1.5]), "deals"),
        (lambda: stats.sequential_test([0.5], 1.0), "null"),
        (lambda: stats.sequential_test([0.5], margin=-0.1), "margin"),
        (lambda: stats.sequential_test([0.5], alpha=0.0), "alpha"),
        (lambda: stats.sequential_p_values([2.0]), "deals"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
