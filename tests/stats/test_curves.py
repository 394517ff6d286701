"""Rolling means, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muzero import stats


def test_rolling_mean_averages_fewer_values_at_the_start() -> None:
    assert stats.rolling_mean([1, 2, 6, 3], 2).tolist() == [1, 1.5, 4, 4.5]
    assert stats.rolling_mean([1, 2, 6], 9).tolist() == [1, 1.5, 3]
    assert stats.rolling_mean([1, 2, 6], 1).tolist() == [1, 2, 6]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.rolling_mean([1], 0), "window"),
        (lambda: stats.rolling_mean([], 2), "values"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
