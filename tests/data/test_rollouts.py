"""Rollouts: returns and advantages of every seat along its own decisions, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero.data.rollouts import (
    Decisions,
    Rollout,
    explained_variance,
    normalised,
    own_decisions,
    seat_returns,
)

NAN = np.nan


def rollout(
    to_play: list[int],
    rewards: list[list[float]],
    values: list[float],
    *,
    stops: dict[int, list[float]],
    own: list[bool] | None = None,
    players: int = 2,
) -> Rollout:
    """Rollout of one table with two actions, the second of which was taken at even odds.

    Args:
      to_play: mover of each step.
      rewards: rewards of each step by seat.
      values: value of each step's mover, as the network gave it.
      stops: steps at which a game does not go on -> values of what follows by seat.
      own: whether the policy decided; by default everywhere.
    """
    T = len(to_play)
    by_seat = np.full((T, 1, players), NAN, np.float32)
    by_seat[np.arange(T), 0, to_play] = values
    goes_on, future = np.ones((T, 1), np.bool_), np.full((T, 1, players), 99.0, np.float32)
    for step, after in stops.items():
        goes_on[step], future[step] = False, after
    return Rollout(
        obs=np.arange(T, dtype=np.int16).reshape(T, 1, 1),
        legal=np.full((T, 1), 0b11, np.uint64),
        action=np.ones((T, 1), np.int16),
        to_play=np.array(to_play, np.int8)[:, None],
        rewards=np.array(rewards, np.float32)[:, None],
        own=np.array(own if own is not None else [True] * T)[:, None],
        policy=np.full((T, 1, 2), 0.5, np.float32),
        values=by_seat,
        goes_on=goes_on,
        future=future,
    )


def test_a_seat_is_paid_for_its_decision_by_what_comes_until_its_next_one() -> None:
    """Seat 0 decides at steps 0, 1 and 3, seat 1 at step 2; the game ends with step 3. Lambda is 0."""
    found = rollout([0, 0, 1, 0], [[0, 0], [1, -1], [2, -2], [4, -4]], [0.5, 0.25, 0.1, 0.2], stops={3: [0, 0]})
    returns = seat_returns(found, 1.0, 0.0)[:, 0]
    # Step 0: its own value at step 1. Step 1: rewards of steps 1 and 2, and the value at step 3.
    assert returns[:, 0] == pytest.approx([0.25, 1 + 2 + 0.2, 2 + 0.2, 4])
    # Seat 1 decides once: all that follows is its own, and what came before counts to step 0.
    assert returns[:, 1] == pytest.approx([0 - 1 + 0.1, -1 + 0.1, -2 - 4, -4])
    decisions = own_decisions(found, 1.0, 0.0)
    assert decisions.advantage == pytest.approx([0.25 - 0.5, 3.2 - 0.25, -6 - 0.1, 4 - 0.2])
    assert decisions.value[2] == pytest.approx([-6, 2.2])  # seats are counted from the mover


def test_lambda_mixes_values_and_returns() -> None:
    found = rollout([0, 0, 0], [[1, 0], [2, 0], [4, 0]], [0.5, 0.25, 0.125], stops={2: [0, 0]})
    last = 4.0
    middle = 2 + 0.9 * (0.25 * 0.125 + 0.75 * last)
    first = 1 + 0.9 * (0.25 * 0.25 + 0.75 * middle)
    assert seat_returns(found, 0.9, 0.75)[:, 0, 0] == pytest.approx([first, middle, last])
    assert seat_returns(found, 0.9, 1.0)[0, 0, 0] == pytest.approx(1 + 0.9 * 2 + 0.81 * 4)


def test_games_do_not_flow_into_each_other_and_values_stand_for_what_is_cut_off() -> None:
    """The first game ends with step 0, the second is truncated at step 1, the third goes on after the rollout."""
    stops = {0: [0.0, 0.0], 1: [0.3, -0.3], 2: [0.7, -0.7]}
    found = rollout([0, 1, 0], [[1, -1], [0, 0], [0.5, 0]], [0.0, 0.0, 0.0], stops=stops)
    expected = [[1, -1], [0.9 * 0.3, -0.9 * 0.3], [0.5 + 0.9 * 0.7, -0.9 * 0.7]]
    assert seat_returns(found, 0.9, 0.5)[:, 0] == pytest.approx(np.array(expected))


def test_decisions_of_others_are_not_learned_from_but_their_rewards_count() -> None:
    found = rollout([0, 1, 0], [[0, 0], [3, -3], [1, -1]], [0.5, NAN, 0.25], stops={2: [0, 0]}, own=[True, False, True])
    decisions = own_decisions(found, 1.0, 0.5)
    assert decisions.obs[:, 0].tolist() == [0, 2]
    assert decisions.advantage == pytest.approx([3 + 0.5 * 0.25 + 0.5 * 1 - 0.5, 1 - 0.25])
    assert decisions.value[0] == pytest.approx([3 + 0.5 * 0.25 + 0.5 * 1, -3 - 1])  # the bot has no value to lean on
    assert np.isfinite(decisions.value).all()


def returns_one_by_one(found: Rollout, discount: float, weight: float) -> NDArray[np.float64]:
    """Returns of `seat_returns` by its definition, seat by seat and decision by decision."""
    T, B, P = found.rewards.shape
    out = np.zeros((T, B, P))

    def walk(t: int, b: int, p: int) -> tuple[float, int | None]:
        """Discounted rewards of seat p from step t on until its next own decision, and the step of that decision."""
        total, factor = 0.0, 1.0
        while True:
            total += factor * float(found.rewards[t, b, p])
            factor *= discount
            if not found.goes_on[t, b]:
                return total + factor * float(found.future[t, b, p]), None
            t += 1
            if found.own[t, b] and found.to_play[t, b] == p:
                steps.append(factor)
                return total, t

    def at(t: int, b: int, p: int) -> float:
        total, following = walk(t, b, p)
        if following is None:
            return total
        factor = steps.pop()
        value = float(found.values[following, b, p])
        return total + factor * ((1 - weight) * value + weight * at(following, b, p))

    steps: list[float] = []
    for t, b, p in np.ndindex(T, B, P):
        out[t, b, p] = at(t, b, p)
    return out


def test_returns_equal_the_definition_for_random_games_of_three() -> None:
    rng = np.random.default_rng(5)
    T, B, P = 30, 7, 3
    goes_on = rng.random((T, B)) > 0.1
    goes_on[-1] = False
    found = Rollout(
        obs=np.zeros((T, B, 1), np.int16),
        legal=np.full((T, B), 0b111, np.uint64),
        action=rng.integers(3, size=(T, B)).astype(np.int16),
        to_play=rng.integers(P, size=(T, B)).astype(np.int8),
        rewards=rng.normal(size=(T, B, P)).astype(np.float32),
        own=rng.random((T, B)) > 0.3,
        policy=np.full((T, B, 3), 1 / 3, np.float32),
        values=rng.normal(size=(T, B, P)).astype(np.float32),
        goes_on=goes_on,
        future=rng.normal(size=(T, B, P)).astype(np.float32),
    )
    expected = returns_one_by_one(found, 0.97, 0.8)
    assert np.abs(seat_returns(found, 0.97, 0.8) - expected).max() < 1e-4
    with pytest.raises(ValueError, match=r"weight: expected 0 to 1, got 1\.5"):
        seat_returns(found, 1.0, 1.5)


def decisions(advantage: list[float], free: list[float]) -> Decisions:
    n = len(advantage)
    floats = {"log_chance": np.zeros(n), "value": np.array(advantage)[:, None] + 1, "weights": np.ones(n)}
    return Decisions(
        obs=np.zeros((n, 1), np.int16),
        legal=np.ones((n, 2), np.bool_),
        action=np.zeros(n, np.int64),
        advantage=np.array(advantage, np.float32),
        free=np.array(free, np.float32),
        **{name: array.astype(np.float32) for name, array in floats.items()},
    )


def test_forced_decisions_do_not_count_in_the_scale_of_advantages() -> None:
    parts = [decisions([1, 3, 100], [1, 1, 0]), decisions([5, 7], [1, 1])]
    scaled = normalised(parts)
    free = np.concatenate([part.advantage[part.free > 0] for part in scaled])
    assert free == pytest.approx((np.array([1, 3, 5, 7]) - 4) / np.sqrt(5), abs=1e-5)
    alone = decisions([2.0], [1])
    assert normalised([alone])[0] is alone


def test_explained_variance_is_one_without_errors_and_zero_for_constant_values() -> None:
    returns = decisions([0.0, 0.0, 0.0], [1, 1, 1])
    perfect = replace(returns, value=np.array([[1.0], [2.0], [4.0]], np.float32))
    assert explained_variance([perfect]) == 1
    constant = replace(perfect, advantage=perfect.value[:, 0] - 2)
    assert explained_variance([constant]) == pytest.approx(0)
    assert explained_variance([decisions([1.0], [1])]) == 0


def test_forced_decisions_and_probabilities_are_read_from_the_rollout() -> None:
    found = rollout([0, 1], [[0, 0], [1, -1]], [0.0, 0.0], stops={1: [0, 0]})
    found = replace(found, legal=np.array([[0b11], [0b10]], np.uint64), policy=found.policy * [[[1.0, 0.5]], [[0, 2]]])
    learned = own_decisions(found, 1.0, 1.0)
    assert learned.free.tolist() == [1, 0]
    assert learned.log_chance == pytest.approx(np.log([0.25, 1.0]))
    assert learned.legal.tolist() == [[True, True], [False, True]]
    assert len(learned.select(np.array([1]))) == 1
