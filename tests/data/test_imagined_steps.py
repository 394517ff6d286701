"""muzero.data.imagined_steps: copies of tables after an action, and samples of what chance may bring."""

from __future__ import annotations

import numpy as np

import env
from muzero.data.imagined_steps import ImaginedSteps, spread_outcomes


def test_outcomes_are_taken_as_often_as_their_odds_say() -> None:
    rng = np.random.default_rng(0)
    odds = rng.dirichlet(np.full(6, 0.5), size=40)
    odds[:, 2] = 0
    odds /= odds.sum(1, keepdims=True)
    taken = np.zeros_like(odds)
    for offset in np.linspace(0, 1, 400, endpoint=False):
        outcome = spread_outcomes(odds, np.full(40, offset), 3)
        for k in range(3):
            taken[np.arange(40), outcome[:, k]] += 1 / 1200
    np.testing.assert_allclose(taken, odds, atol=2e-3)
    assert not taken[:, 2].any(), "an outcome that cannot come"


def test_a_sure_outcome_is_the_only_one_wherever_the_sample_begins() -> None:
    odds = np.eye(5)[[0, 2, 4]]
    for offset in (0.0, 0.3, 1 - 2**-53):
        assert (spread_outcomes(odds, np.full(3, offset), 4) == np.array([[0], [2], [4]])).all()


def test_copies_show_the_outcome_they_are_told_and_the_tables_stay_as_they_are() -> None:
    tables = env.make("skyjo", 8, 2, {"episode": "round"}, seed=1)
    before = [tables.save(row) for row in range(8)]
    rows, outcomes = np.array([3, 3, 5]), np.array([4, 9, 4])
    steps = ImaginedSteps()
    copies = steps.play(tables, rows, np.zeros(3, np.int64), np.arange(3, dtype=np.uint64), outcomes)
    assert copies.outcome[:3].tolist() == outcomes.tolist()
    assert (copies.phase[:3] == 1).all(), "a card was drawn"
    assert [tables.save(row) for row in range(8)] == before
    again = steps.play(tables, rows, np.zeros(3, np.int64), np.arange(3, dtype=np.uint64), outcomes)
    assert again is copies, "the same memory"


def test_copies_are_dealt_anew_by_their_number() -> None:
    tables = env.make("skyjo", 1, 2, {"episode": "round"}, seed=1)
    rows, draw = np.zeros(64, np.int64), np.zeros(64, np.int64)
    numbers = np.arange(64, dtype=np.uint64)
    drawn = ImaginedSteps().play(tables, rows, draw, numbers, None).outcome[:64].copy()
    assert len(set(drawn.tolist())) > 5
    assert (ImaginedSteps().play(tables, rows, draw, numbers, None).outcome[:64] == drawn).all()
    assert (ImaginedSteps().play(tables, rows, draw, 0 * numbers, None).outcome[:64] == drawn[0]).all()
