"""Brier score and reliability curve, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muzero import stats


def test_brier_score_and_reliability_curve_equal_values_by_hand() -> None:
    p, won = [0.1, 0.1, 0.3, 0.9, 1.0], [0, 1, 0.5, 1, 1]
    score = stats.brier(p, won)
    assert score.score == pytest.approx((0.01 + 0.81 + 0.04 + 0.01 + 0) / 5)
    assert score.reference == pytest.approx(0.16)
    assert score.skill == pytest.approx(1 - 0.174 / 0.16)
    curve = stats.reliability_curve(p, won)
    assert [(part.low, part.high, part.count) for part in curve.bins] == [(0.1, 0.2, 2), (0.3, 0.4, 1), (0.9, 1.0, 2)]
    assert [part.predicted for part in curve.bins] == pytest.approx([0.1, 0.3, 0.95])
    assert [part.observed for part in curve.bins] == [stats.wilson(1, 2), stats.wilson(0.5, 1), stats.wilson(2, 2)]
    assert curve.calibration_error == pytest.approx((2 * 0.4 + 0.2 + 2 * 0.05) / 5)
    assert stats.brier([0.5, 0.5], [1, 1]).skill == 0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.brier([1.2], [1]), "probabilities"),
        (lambda: stats.brier([0.2], [-1]), "outcomes"),
        (lambda: stats.brier([0.2, 0.3], [1]), "outcomes"),
        (lambda: stats.reliability_curve([], []), "probabilities"),
        (lambda: stats.reliability_curve([0.2], [1], bins=0), "bins"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
