"""Rolling means and curves of several runs, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from muzero import stats


def test_rolling_mean_is_centred_and_shrinks_at_both_ends() -> None:
    """Weights 1, 2, 1 with a window of 2 or 3 values; 1, 2, 3, 2, 1 with one of 4 or 5."""
    assert stats.rolling_mean([1, 2, 6, 3], 2).tolist() == [1, 2.75, 4.25, 3]
    assert stats.rolling_mean([1, 2, 6, 3], 3).tolist() == [1, 2.75, 4.25, 3]
    assert stats.rolling_mean([9, 0, 9, 0, 9], 4).tolist() == [9, 4.5, 5, 4.5, 9]
    assert stats.rolling_mean([1, 2, 6], 99).tolist() == [1, 2.75, 6]
    assert stats.rolling_mean([1, 2, 6], 1).tolist() == [1, 2, 6]


def test_rolling_mean_keeps_straight_lines_and_turning_points_where_they_are() -> None:
    line = np.arange(50.0)
    np.testing.assert_allclose(stats.rolling_mean(line, 20), line)
    valley = np.abs(line - 30)
    assert int(stats.rolling_mean(valley, 20).argmin()) == 30, "a trailing mean would place it later"
    assert stats.rolling_mean(valley, 20)[::-1].tolist() == stats.rolling_mean(valley[::-1], 20).tolist()


def test_rolling_mean_of_a_high_start_has_no_cliff() -> None:
    """A first loss of 10 before losses of 1: a trailing mean over 20 falls from 1.45 to 1 at once, 20 values later."""
    smooth = stats.rolling_mean([10.0] + [1.0] * 60, 20)
    np.testing.assert_allclose(smooth[:4], [10, 1 + 9 / 4, 1 + 9 / 9, 1 + 9 / 16])
    assert (np.diff(smooth) <= 1e-12).all(), "it only ever falls"
    assert np.abs(np.diff(smooth[6:])).max() < 0.1
    np.testing.assert_allclose(smooth[11:], 1)


def test_interquartile_mean_leaves_out_a_quarter_at_either_end() -> None:
    assert stats.interquartile_mean([0, 1, 2, 100]) == 1.5
    assert stats.interquartile_mean([0, 1, 5]) == 2
    assert stats.interquartile_mean([[0, 3], [2, 5]]).tolist() == [1, 4]


def test_curves_of_runs_meet_where_all_have_values() -> None:
    """The second run begins later and has no point at 3: its value there is interpolated."""
    found = stats.curve_of_runs([([1, 2, 3, 4], [0, 2, 4, 6]), ([2, 4, 6], [4, 8, 9])])
    assert found is not None
    assert found.x.tolist() == [2, 3, 4]
    assert found.middle.tolist() == [3, 5, 7]
    assert found.low is found.high is None, "two runs give no band"
    assert stats.curve_of_runs([([1, 2], [0, 0]), ([3, 4], [0, 0])]) is None


def test_band_of_runs_covers_the_mean_as_often_as_it_says() -> None:
    """Twelve runs of normal noise: close to 95 % (bootstraps of few runs are a little narrow)."""
    rng, hits, tries = np.random.default_rng(1), 0, 150
    for _ in range(tries):
        curves = [([0.0, 1.0], rng.normal(size=2)) for _ in range(12)]
        found = stats.curve_of_runs(curves)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += int(found.low[0] <= 0 <= found.high[0])
    assert 0.86 <= hits / tries <= 0.99


def test_band_of_three_equal_runs_is_their_curve() -> None:
    found = stats.curve_of_runs([([0, 1], [3, 4])] * 3)
    assert found is not None
    assert found.low is not None
    assert found.low.tolist() == found.middle.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.rolling_mean([1], 0), "window"),
        (lambda: stats.rolling_mean([], 2), "values"),
        (lambda: stats.curve_of_runs([]), "curves"),
        (lambda: stats.curve_of_runs([([0, 1], [])]), "y"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
