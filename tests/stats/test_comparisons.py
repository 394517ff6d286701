"""Comparisons of samples, Holm's correction and sample sizes, against textbook values and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from muzero import stats


def test_sample_size_follows_the_skip_bo_papers_formula_not_its_example() -> None:
    size = stats.sample_size(0.55, 0.50)
    assert (size.per_arm, size.total) == (1562, 3124)  # printed: roughly 6500
    assert 6500 / size.total > 2.08
    assert stats.sample_size(0.55, 0.50, power=0.95).total == 5172
    assert stats.sample_size(0.50, 0.55) == size
    assert stats.sample_size_of_match(0.55) == stats.SampleSize(783, 1)


def test_mann_whitney_equals_scipys_example_and_counts_ties_half() -> None:
    test = stats.mann_whitney([19, 22, 16, 29, 24], [20, 11, 17, 12])  # the example of scipy's documentation
    assert (test.u, test.effect) == (17, 0.85)
    assert test.p_value == pytest.approx(0.1111, abs=5e-5)
    assert stats.mann_whitney([1, 2], [2, 3]).effect == pytest.approx(0.5 / 4)
    assert stats.mann_whitney([5, 6, 7], [5, 6, 7]).effect == 0.5


def test_holm_adjusts_p_values_and_rejects_in_order() -> None:
    result = stats.holm([0.01, 0.04, 0.03, 0.005])
    assert result.adjusted == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert result.rejected == (True, False, False, True)
    assert stats.holm([0.6, 0.7]).adjusted == (1, 1)
    assert stats.holm([0.01, 0.04, 0.03, 0.005], alpha=0.07).rejected == (True,) * 4


def test_sample_sizes_give_the_promised_power() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.binomial(1562, 0.55, 2000), rng.binomial(1562, 0.50, 2000)
    found = [stats.two_proportion_test(x, 1562, y, 1562).p_value < 0.05 for x, y in zip(a, b, strict=True)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)
    found = [stats.z_test(x, 783).p_value < 0.05 for x in rng.binomial(783, 0.55, 2000)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.mann_whitney([], [1]), "first"),
        (lambda: stats.mann_whitney([1], [math.inf]), "second"),
        (lambda: stats.holm([0.1, 1.1]), "p_values"),
        (lambda: stats.holm([]), "p_values"),
        (lambda: stats.sample_size(0.5, 0.5), "rates"),
        (lambda: stats.sample_size(1.2, 0.5), "the first rate"),
        (lambda: stats.sample_size_of_match(0.55, power=1.0), "power"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
