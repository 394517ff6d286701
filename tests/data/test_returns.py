"""muzero.data.returns: returns worked out by hand, and a slow loop for the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero.data.returns import lambda_returns, latest_values, n_step_returns
from muzero.data.trajectory import Episode
from tests.data.episodes import NAN, TWO_REWARDS, TWO_VALUES, floats, random_episode, slow_returns

# Turns 0 0 1 2 2 0, and only the value of the player to move is known.
THREE_REWARDS = floats([[0, 0, 0], [1, 0, 0], [0, 4, 0], [0, 0, 8], [0, 0, 0], [2, -2, 0]])
THREE_VALUES = floats([[10, NAN, NAN], [20, NAN, NAN], [NAN, 30, NAN], [NAN, NAN, 40], [NAN, NAN, 50], [60, NAN, NAN]])


def test_two_step_returns_of_two_players() -> None:
    found = n_step_returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 2, 0.5)
    assert found.dtype == np.float32
    assert found.tolist() == [
        [1 + 0.25 * 30, 0.5 * 2 + 0.25 * -3],
        [0.25 * 40, 2 + 0.25 * -4],
        [0.5 * 4 + 0.25 * 50, 0.5 * -4 + 0.25 * -5],
        [4 + 0.5 * 8, -4 + 0.5 * -8],
        [8, -8],
    ]


def test_two_step_returns_of_a_truncated_game() -> None:
    found = n_step_returns(TWO_REWARDS, TWO_VALUES, floats([100, -200]), 2, 0.5)
    assert found[2].tolist() == [0.5 * 4 + 0.25 * 50, 0.5 * -4 + 0.25 * -5]
    assert found[3].tolist() == [4 + 0.5 * 8 + 0.25 * 100, -4 + 0.5 * -8 + 0.25 * -200]
    assert found[4].tolist() == [8 + 0.5 * 100, -8 + 0.5 * -200]


def test_rewards_are_summed_until_a_value_is_known() -> None:
    found = n_step_returns(THREE_REWARDS, THREE_VALUES, floats([0, 0, 0]), 1, 0.5)
    assert found.tolist() == [
        [10, 7.5, 5],  # 0 + 20/2; 30/4; 40/8
        [4.75, 15, 10],  # 1 + 60/16; 30/2; 40/4
        [7.5, 3.75, 20],  # 60/8; 4 - 2/8 to the end; 40/2
        [15, -0.5, 33],  # 60/4; -2/4 to the end; 8 + 50/2
        [30, -1, 0],
        [2, -2, 0],
    ]


def test_unknown_values_before_a_truncation_are_replaced_by_the_last_values() -> None:
    found = n_step_returns(THREE_REWARDS, THREE_VALUES, floats([100, 200, 400]), 1, 0.5)
    assert found.tolist() == [
        [10, 7.5, 5],
        [4.75, 15, 10],
        [7.5, 16.25, 20],  # 4 - 2/8 + 200/16
        [15, 24.5, 33],  # -2/4 + 200/8
        [30, 49, 100],  # -2/2 + 200/4; 400/4
        [52, 98, 200],
    ]


def test_without_bootstrap_and_discount_a_return_is_the_sum_of_all_later_rewards() -> None:
    found = n_step_returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 1000, 1)
    assert found.tolist() == [[13, -10], [12, -10], [12, -12], [12, -12], [8, -8]]


@pytest.mark.parametrize("players", [1, 2, 3, 5])
def test_returns_agree_with_their_definition(players: int) -> None:
    rng = np.random.default_rng(players)
    for length in (1, 2, 3, 7, 8, 9, 40, 130):
        for steps in (1, 2, 5, 64, 500):
            for discount in (1.0, 0.997, 0.5, 0.01):
                e = random_episode(rng, length, players)
                found = n_step_returns(e.rewards, e.values, e.last_values, steps, discount, explored=e.explored)
                np.testing.assert_allclose(found, slow_returns(e, steps, discount), rtol=1e-6, atol=1e-6)


def test_a_return_depends_neither_on_other_players_nor_on_rewards_past_its_bootstrap() -> None:
    e = random_episode(np.random.default_rng(5), 30, 3)
    values = np.where(np.isnan(e.values), floats(0.5), e.values)
    before = n_step_returns(e.rewards, values, e.last_values, 4, 0.99)
    rewards = e.rewards.copy()
    rewards[:, 0] = 1e30
    values[:, 0] = NAN
    after = n_step_returns(rewards, values, e.last_values, 4, 0.99)
    assert (before[:, 1:] == after[:, 1:]).all()
    assert (before[:, 0] != after[:, 0]).all()
    rewards = e.rewards.copy()
    rewards[15:] = 1e30
    later = n_step_returns(rewards, np.where(np.isnan(values), floats(0.5), values), e.last_values, 4, 0.99)
    assert (later[:12, 1:] == before[:12, 1:]).all()
    assert (later[12:, 1:] != before[12:, 1:]).all()


def test_returns_of_several_episodes_at_once_equal_those_of_each_alone() -> None:
    rng = np.random.default_rng(6)
    games = [random_episode(rng, length, 3) for length in (5, 1, 17, 30, 2)]
    end = np.repeat(np.cumsum([len(e) for e in games]), [len(e) for e in games])
    joined = [np.concatenate([getattr(e, name) for e in games]) for name in ("rewards", "values")]
    last = np.concatenate([np.tile(e.last_values, (len(e), 1)) for e in games])
    explored = np.concatenate([e.explored for e in games])
    found = n_step_returns(joined[0], joined[1], last, 3, 0.9, end, explored)
    given = ((e.rewards, e.values, e.last_values, 3, 0.9, None, e.explored) for e in games)
    alone = np.concatenate([n_step_returns(*arguments) for arguments in given])
    assert (found == alone).all()


def test_zero_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="steps: expected 1 or more, got 0"):
        n_step_returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 0, 0.5)


@pytest.mark.parametrize("returns", [n_step_returns, lambda_returns])
def test_what_follows_a_random_action_is_in_no_target(returns: Callable[..., NDArray[np.float32]]) -> None:
    """Targets up to the action depend on the value there; the seat whose value is unknown there goes on."""
    length = 9 if returns is n_step_returns else 0.9
    values = TWO_VALUES.copy()
    values[2, 1] = NAN
    explored = np.arange(5) == 2
    found = returns(TWO_REWARDS, values, floats([0, 0]), length, 1.0, None, explored)
    rewards = TWO_REWARDS.copy()
    rewards[2:] += 1000
    later = returns(rewards, values, floats([0, 0]), length, 1.0, None, explored)
    assert found[2, 0] == values[2, 0]
    assert (later[:3, 0] == found[:3, 0]).all()
    assert (later[:3, 1] > found[:3, 1] + 100).all()
    assert (later[3:] > found[3:] + 100).all()
    without = returns(TWO_REWARDS, values, floats([0, 0]), length, 1.0)
    assert (found[:, 1] == without[:, 1]).all()
    assert (found[3:] == without[3:]).all()


# ---- lambda returns --------------------------------------------------------------------------------------------------


def slow_lambda_returns(e: Episode, weight: float, discount: float) -> NDArray[np.float64]:
    """Lambda returns by their definition, backwards from the end, number by number."""
    T, P = e.rewards.shape
    out = np.zeros((T, P))
    for p in range(P):
        later = float(e.last_values[p])
        for t in reversed(range(T)):
            if t + 1 < T and not np.isnan(e.values[t + 1, p]):
                later = (1 - weight) * float(e.values[t + 1, p]) + weight * later
            later = float(e.rewards[t, p]) + discount * later
            if e.explored[t] and not np.isnan(e.values[t, p]):
                later = float(e.values[t, p])
            out[t, p] = later
    return out


def test_lambda_returns_of_two_players() -> None:
    found = lambda_returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 0.5, 0.5)
    assert found.dtype == np.float32
    assert found.tolist() == [
        [1 + 0.25 * 20 + 0.25 * 11.15625, 0.25 * -2 + 0.25 * 0.546875],
        [0.25 * 30 + 0.25 * 14.625, 2 + 0.25 * -3 + 0.25 * -2.8125],
        [0.25 * 40 + 0.25 * 18.5, 0.25 * -4 + 0.25 * -7.25],
        [4 + 0.25 * 50 + 0.25 * 8, -4 + 0.25 * -5 + 0.25 * -8],
        [8, -8],
    ]


def test_lambda_returns_of_a_truncated_game_end_with_the_last_values() -> None:
    found = lambda_returns(TWO_REWARDS, TWO_VALUES, floats([100, -200]), 0.5, 0.5)
    assert found[4].tolist() == [8 + 0.5 * 100, -8 + 0.5 * -200]
    assert found[3].tolist() == [4 + 0.5 * (0.5 * 50 + 0.5 * 58), -4 + 0.5 * (0.5 * -5 + 0.5 * -108)]


def test_lambda_returns_go_on_where_a_value_is_unknown() -> None:
    found = lambda_returns(THREE_REWARDS, THREE_VALUES, floats([100, 200, 400]), 0.0, 0.5)
    assert (found == n_step_returns(THREE_REWARDS, THREE_VALUES, floats([100, 200, 400]), 1, 0.5)).all()


@pytest.mark.parametrize("players", [1, 2, 3, 5])
def test_lambda_returns_agree_with_their_definition(players: int) -> None:
    rng = np.random.default_rng(players)
    for length in (1, 2, 3, 7, 8, 9, 40, 130):
        for weight in (0.0, 0.3, 0.9, 1.0):
            for discount in (1.0, 0.997, 0.5):
                e = random_episode(rng, length, players)
                found = lambda_returns(e.rewards, e.values, e.last_values, weight, discount, explored=e.explored)
                np.testing.assert_allclose(found, slow_lambda_returns(e, weight, discount), rtol=1e-5, atol=1e-5)


def test_lambda_returns_of_several_episodes_at_once_equal_those_of_each_alone() -> None:
    rng = np.random.default_rng(8)
    games = [random_episode(rng, length, 3) for length in (5, 1, 17, 30, 2, 64)]
    assert {e.truncated for e in games} == {True, False}
    assert any(np.isnan(e.values).any() for e in games)
    end = np.repeat(np.cumsum([len(e) for e in games]), [len(e) for e in games])
    rewards, values = (np.concatenate([getattr(e, name) for e in games]) for name in ("rewards", "values"))
    last = np.concatenate([np.tile(e.last_values, (len(e), 1)) for e in games])
    found = lambda_returns(rewards, values, last, 0.8, 0.9, end, np.concatenate([e.explored for e in games]))
    slow = np.concatenate([slow_lambda_returns(e, 0.8, 0.9) for e in games])
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("truncated", [True, False])
def test_a_weight_of_one_gives_n_step_returns_to_the_end(truncated: bool) -> None:
    rng = np.random.default_rng(7)
    e = next(e for e in iter(lambda: random_episode(rng, 30, 3), None) if e.truncated == truncated)
    found = lambda_returns(e.rewards, e.values, e.last_values, 1.0, 0.9)
    expected = n_step_returns(e.rewards, e.values, e.last_values, 30, 0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_weight_outside_of_0_to_1_is_refused() -> None:
    for weight in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"weight: expected 0 to 1, got {weight}"):
            lambda_returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), weight, 0.5)


def test_latest_values_are_the_last_known_ones_and_zero_if_there_are_none() -> None:
    values = floats([[1, NAN, NAN], [2, 5, NAN], [NAN, 6, NAN], [NAN, NAN, NAN]])
    assert latest_values(values).tolist() == [2, 6, 0]
    assert latest_values(values).dtype == np.float32
