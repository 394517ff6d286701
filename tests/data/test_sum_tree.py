"""muzero.data.sum_tree: sums by phase, and rows drawn in proportion to their weights."""

from __future__ import annotations

import numpy as np
import pytest

from muzero.data.sum_tree import FAN, SumTree, pick


@pytest.mark.parametrize("capacity", [FAN, 3 * FAN, FAN * FAN, 5 * FAN * FAN + FAN])
def test_sums_and_draws_are_right_in_trees_of_any_size(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    phase = rng.integers(2, size=capacity).astype(np.int8)
    tree = SumTree(capacity, 3, phase)
    for _ in range(5):
        rows = rng.choice(capacity, capacity // 3, replace=False)
        tree.set(rows, (rng.random(len(rows)) * (rng.random(len(rows)) < 0.8)).astype(np.float32))
        start = int(rng.integers(capacity - 20))
        tree.set(slice(start, start + 20), 0.0)
        totals, least = tree.totals()
        for f in range(3):
            own = np.where(phase == f, tree.weights, 0).astype(np.float64)
            assert totals[f] == pytest.approx(own.sum())
            assert least[f] == own[own > 0].min(initial=np.inf)
            if f == 2:
                continue
            up_to = np.cumsum(own)
            mass = np.append(rng.random(200) * up_to[-1], [0.0, up_to[-1], 2 * up_to[-1]])
            found = tree.find(np.full(len(mass), f), mass)
            assert (own[found] > 0).all()
            slack = 1e-9 * up_to[-1]
            assert (up_to[found][:-2] >= mass[:-2] - slack).all()
            assert ((up_to - own)[found][:-2] <= mass[:-2] + slack).all()
            assert (found[-2:] == np.flatnonzero(own)[-1]).all()
    assert tree.nbytes == SumTree.bytes_needed(capacity, 3)


def test_a_mass_falls_into_the_entry_that_covers_it() -> None:
    weights = np.array([[1.0, 0.0, 2.0, 0.0]] * 5)
    entry, left = pick(weights, np.array([0.0, 0.5, 1.0, 2.5, 9.0]))
    assert entry.tolist() == [0, 0, 2, 2, 2], "never an entry of weight 0, not even past the end"
    assert left[:4].tolist() == [0.0, 0.5, 0.0, 1.5]
    assert left[4] < 2
