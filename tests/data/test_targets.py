"""muzero.data.targets: windows worked out by hand, and a slow loop for the rest."""

from __future__ import annotations

import numpy as np
import pytest

from muzero.data.returns import n_step_returns
from muzero.data.targets import Moves, Targets, rank_target, unroll, winner_target
from muzero.data.trajectory import Episode, Rows, ring_rows
from tests.data.episodes import (
    RANKS,
    REWARDS,
    TURNS,
    TWO_REWARDS,
    TWO_VALUES,
    VALUES,
    assert_window,
    make_episode,
    one_phase,
    random_episode,
    random_moves,
    slow_returns,
    slow_window,
)

# ---- outcomes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "winner", "rank"),
    [
        ([1, 2], [1, 0], [[1, 0], [0, 1]]),
        ([1, 1], [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
        ([3, 1, 2], [0, 1, 0], [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ([1, 3, 1], [0.5, 0, 0.5], [[0.5, 0.5, 0], [0, 0, 1], [0.5, 0.5, 0]]),
        ([2, 2, 1], [0, 0, 1], [[0, 0.5, 0.5], [0, 0.5, 0.5], [1, 0, 0]]),
        ([4, 2, 2, 1], [0, 0, 0, 1], [[0, 0, 0, 1], [0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [1, 0, 0, 0]]),
    ],
)
def test_ties_share_the_win_and_the_places_they_take(
    ranks: list[int], winner: list[float], rank: list[list[float]]
) -> None:
    both = np.array([ranks, ranks], np.int8)
    assert winner_target(both).tolist() == [winner, winner]
    assert rank_target(both).tolist() == [rank, rank]


def test_a_tie_of_all_three_players_is_shared_by_three() -> None:
    ranks = np.ones(3, np.int8)
    assert winner_target(ranks) == pytest.approx(np.full(3, 1 / 3))
    assert rank_target(ranks) == pytest.approx(np.full((3, 3), 1 / 3))


# ---- windows -----------------------------------------------------------------------------------------------------


def rows_of(e: Episode, steps: int, discount: float) -> Rows:
    return ring_rows(e, n_step_returns(e.rewards, e.values, e.last_values, steps, discount, None, e.explored))


def windows(e: Episode, at: list[int], K: int, frame: str, moves: Moves | None = None) -> Targets:
    """Targets of windows; past the end the last action is drawn, which passes the turn if no `moves` are given."""
    e.check()
    luck = np.full((len(at), K + 1), 0.99)
    return unroll(rows_of(e, 1, 1.0), np.array(at), frame, moves or one_phase(), luck)


def test_a_window_past_the_end_in_the_movers_frame_has_zero_values_and_the_same_outcome() -> None:
    w = windows(make_episode(TURNS, REWARDS, VALUES, RANKS), [2], 3, "mover")
    assert w.actions.tolist() == [[2, 3, 4]]
    assert w.shifts.tolist() == [[1, 1, 1]], "a search does not know that the game has ended"
    assert w.to_play.tolist() == [[0, 1, 2, 0]]
    assert w.value.tolist() == [[[33, 11, 22], [4, 5, 6], [0, 0, 0], [0, 0, 0]]]
    assert w.reward.tolist() == [[[1, 2, 3], [5, 6, 4], [0, 0, 0]]]  # from the next mover on
    assert w.policy.tolist() == [[[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0] * 5, [0] * 5]]
    assert w.winner.tolist() == [[[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]]]
    best, other = [1, 0, 0], [0, 0.5, 0.5]
    ranks = [[other, other, best], [other, best, other], [best, other, other], [other, other, best]]
    assert w.rank.tolist() == [ranks]
    # Seat p gets 1 + p points with each of the two last decisions, and 100 at the end.
    assert w.points.tolist() == [[[106, 102, 104], [101, 102, 103], [0, 0, 0], [0, 0, 0]]]
    assert w.value_mask.tolist() == [[1, 1, 1, 1]]
    assert w.reward_mask.tolist() == [[1, 1, 1]]
    assert w.policy_mask.tolist() == [[1, 1, 0, 0]]
    assert w.outcome_mask.tolist() == [[1, 1, 1, 1]]


def test_a_window_past_the_end_in_the_roots_frame_counts_all_seats_from_its_first_mover() -> None:
    w = windows(make_episode(TURNS, REWARDS, VALUES, RANKS), [2], 3, "root")
    assert w.actions.tolist() == [[2, 3, 4]]
    assert w.shifts.tolist() == [[1, 1, 1]]
    assert w.to_play.tolist() == [[0, 1, 2, 0]]
    assert w.value.tolist() == [[[33, 11, 22], [6, 4, 5], [0, 0, 0], [0, 0, 0]]]
    assert w.reward.tolist() == [[[3, 1, 2], [6, 4, 5], [0, 0, 0]]]
    assert w.winner.tolist() == [[[0, 0, 1]] * 4]
    assert w.rank.tolist() == [[[[0, 0.5, 0.5], [0, 0.5, 0.5], [1, 0, 0]]] * 4]


def test_a_turn_of_several_decisions_does_not_shift_the_seats() -> None:
    e = make_episode(TURNS, REWARDS, VALUES, RANKS, has_policy=[True, False, True, True])
    for frame, value, reward in (
        ("mover", [[9, 9, 7], [-8, -9, -7], [33, 11, 22]], [[1, 0, 0], [0, 0, 0]]),
        ("root", [[9, 9, 7], [-8, -9, -7], [22, 33, 11]], [[1, 0, 0], [0, 0, 0]]),
    ):
        w = windows(e, [0], 2, frame)
        assert w.actions.tolist() == [[0, 1]]
        assert w.shifts.tolist() == [[0, 1]]
        assert w.to_play.tolist() == [[0, 0, 1]]
        assert w.value.tolist() == [value]
        assert w.reward.tolist() == [reward]
        assert w.policy_mask.tolist() == [[1, 0, 1]]
        assert w.policy.tolist() == [[[1, 0, 0, 0, 0], [0] * 5, [0, 0, 1, 0, 0]]]


def test_targets_past_a_truncation_are_masked() -> None:
    e = make_episode(TURNS, REWARDS, VALUES, [0, 0, 0], last_values=[100, 200, 300])
    w = windows(e, [2, 0], 3, "mover")
    assert w.value[0].tolist() == [[33, 11, 22], [104, 205, 306], [0, 0, 0], [0, 0, 0]]
    assert w.value_mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert w.reward_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert w.policy_mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert w.outcome_mask.tolist() == [[0] * 4, [0] * 4]
    assert not w.points.any()
    assert not w.winner.any()
    assert not w.rank.any()


def test_windows_of_two_players_in_both_frames() -> None:
    e = make_episode([0, 0, 1, 1, 0], TWO_REWARDS, TWO_VALUES, [1, 2])
    w = windows(e, [1, 4], 4, "mover")
    assert w.actions.tolist() == [[1, 2, 3, 4], [4, 4, 4, 4]]
    assert w.shifts.tolist() == [[1, 0, 1, 1], [1, 1, 1, 1]]
    assert w.to_play.tolist() == [[0, 1, 1, 0, 1], [0, 1, 0, 1, 0]]
    assert w.value.tolist() == [[[30, -1], [-4, 40], [-9, 54], [8, -8], [0, 0]], [[8, -8], *([[0, 0]] * 4)]]
    assert w.reward.tolist() == [[[2, 0], [0, 0], [4, -4], [-8, 8]], [[-8, 8], *([[0, 0]] * 3)]]
    first, second = [1, 0], [0, 1]
    assert w.winner.tolist() == [[first, second, second, first, second], [first, second, first, second, first]]
    w = windows(e, [1, 4], 4, "root")
    assert w.value.tolist() == [[[30, -1], [40, -4], [54, -9], [8, -8], [0, 0]], [[8, -8], *([[0, 0]] * 4)]]
    assert w.reward.tolist() == [[[0, 2], [0, 0], [4, -4], [8, -8]], [[8, -8], *([[0, 0]] * 3)]]
    assert w.winner.tolist() == [[[1, 0]] * 5] * 2


def test_a_tie_is_shared_in_every_frame() -> None:
    w = windows(make_episode([0, 1], [[0, 0], [0, 0]], [[0, 0], [0, 0]], [1, 1]), [0], 1, "mover")
    assert w.winner.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]


@pytest.mark.parametrize("frame", ["root", "mover"])
@pytest.mark.parametrize("players", [2, 3, 4])
def test_windows_agree_with_their_definition(frame: str, players: int) -> None:
    rng = np.random.default_rng(players)
    for length in (1, 3, 20):
        for K in (0, 1, 5):
            e = random_episode(rng, length, players)
            moves, luck = random_moves(rng), rng.random((length, K + 1))
            found = unroll(rows_of(e, 2, 0.9), np.arange(length), frame, moves, luck)
            value_of = slow_returns(e, 2, 0.9)
            for t in range(length):
                assert_window(found, t, slow_window(e, t, K, frame, value_of, moves, found.actions[t]))


def test_targets_are_contiguous_arrays_of_the_declared_types() -> None:
    w = windows(make_episode(TURNS, REWARDS, VALUES, RANKS), [0, 1], 2, "root")
    for name, array in vars(w).items():
        whole = name in ("actions", "outcomes", "shifts", "to_play", "after")
        assert array.dtype == (np.int64 if whole else np.float32), name
        assert array.flags.writeable, name
        assert array.flags.c_contiguous, name


def test_an_unknown_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="frame: expected one of root, mover, got 'table'"):
        windows(make_episode(TURNS, REWARDS, VALUES, RANKS), [0], 1, "table")
