"""muzero.data.targets: games worked out by hand, and a slow loop for the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero.data.targets import (
    Decisions,
    Episode,
    Targets,
    pack_legal,
    rank_target,
    returns,
    rotate,
    unpack_legal,
    unroll,
    winner_target,
)

NAN = float("nan")


def floats(numbers: Any) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def episode(
    to_play: list[int],
    rewards: Any,
    values: Any,
    ranks: list[int],
    last_values: Any = None,
    has_policy: list[bool] | None = None,
) -> Episode:
    """A game with 5 actions, in which decision t takes action t % 5 and wants it; cut off if there are last_values."""
    T, P = len(to_play), len(ranks)
    return Episode(
        obs=np.arange(3 * T, dtype=np.int16).reshape(T, 3),
        legal=np.full(T, 0b11111, np.uint64),
        action=(np.arange(T) % 5).astype(np.int16),
        to_play=np.array(to_play, np.int8),
        phase=np.zeros(T, np.int8),
        rewards=floats(rewards),
        policy=np.eye(5, dtype=np.float32)[np.arange(T) % 5],
        has_policy=np.ones(T, np.bool_) if has_policy is None else np.array(has_policy),
        values=floats(values),
        raw_values=floats(values),
        ranks=np.array(ranks, np.int8),
        truncated=last_values is not None,
        last_values=np.zeros(P, np.float32) if last_values is None else floats(last_values),
    )


def random_episode(
    rng: np.random.Generator, length: int, players: int = 2, width: int = 4, actions: int = 6, phases: int = 3
) -> Episode:
    """Turns of one to three decisions, some by bots; every third game is cut off, in every other one only the value
    of the player to move is known.
    """
    T, P = length, players
    to_play = np.repeat(np.arange(T) + rng.integers(P), rng.integers(1, 4, T))[:T] % P
    legal = rng.random((T, actions)) < 0.6
    action = rng.integers(actions, size=T)
    legal[np.arange(T), action] = True
    policy = rng.random((T, actions)) * legal
    values, raw_values = rng.normal(size=(2, T, P))
    if rng.random() < 0.5:
        others = np.arange(P) != to_play[:, None]
        values[others] = raw_values[others] = NAN
    bots = rng.random(T) < 0.3
    values[bots] = raw_values[bots] = NAN
    score = rng.integers(3, size=P)
    truncated = bool(rng.random() < 1 / 3)
    return Episode(
        obs=rng.integers(-100, 100, (T, width)).astype(np.int16),
        legal=pack_legal(legal),
        action=action.astype(np.int16),
        to_play=to_play.astype(np.int8),
        phase=rng.integers(phases, size=T).astype(np.int8),
        rewards=(rng.normal(size=(T, P)) * (rng.random((T, 1)) < 0.4)).astype(np.float32),
        policy=(policy / policy.sum(1, keepdims=True)).astype(np.float32),
        has_policy=~bots,
        values=values.astype(np.float32),
        raw_values=raw_values.astype(np.float32),
        ranks=(1 + (score[None, :] > score[:, None]).sum(1)).astype(np.int8),
        truncated=truncated,
        last_values=rng.normal(size=P).astype(np.float32) if truncated else np.zeros(P, np.float32),
    )


def slow_returns(e: Episode, steps: int, discount: float) -> NDArray[np.float64]:
    """The definition, number by number."""
    T, P = e.rewards.shape
    out = np.zeros((T, P))
    for p in range(P):
        for t in range(T):
            b = t + steps
            while b < T and np.isnan(e.values[b, p]):
                b += 1
            b = min(b, T)
            for i in range(t, b):
                out[t, p] += discount ** (i - t) * float(e.rewards[i, p])
            out[t, p] += discount ** (b - t) * float(e.values[b, p] if b < T else e.last_values[p])
    return out


def slow_window(e: Episode, t: int, K: int, frame: str, steps: int, discount: float) -> dict[str, Any]:
    """Targets of one window as lists over its steps, from the episode itself; actions past the end are None."""
    T, P = e.rewards.shape
    value_of = slow_returns(e, steps, discount)
    ended = not e.truncated
    names = ("actions", "shifts", "to_play", "value", "value_mask", "reward", "reward_mask", "policy", "policy_mask")
    out: dict[str, Any] = {name: [] for name in (*names, "winner", "rank", "outcome_mask")}
    winners = [p for p in range(P) if e.ranks[p] == 1]

    def mover(i: int) -> int:
        return int(e.to_play[min(i, T - 1)])

    for k in range(K + 1):
        i, live = t + k, t + k < T
        order = [((mover(i) if frame == "mover" else mover(t)) + s) % P for s in range(P)]
        out["to_play"].append((mover(i) - mover(t)) % P)
        out["value"].append([value_of[i, p] if live else 0 for p in order])
        out["value_mask"].append(live or ended)
        wanted = live and e.has_policy[i]
        out["policy"].append(e.policy[i] if wanted else np.zeros(e.policy.shape[1]))
        out["policy_mask"].append(wanted)
        out["winner"].append([ended / len(winners) if p in winners else 0 for p in order])
        places = []
        for p in order:
            same = sum(e.ranks == e.ranks[p])
            taken = range(e.ranks[p] - 1, e.ranks[p] - 1 + same)
            places.append([ended / same if place in taken else 0 for place in range(P)])
        out["rank"].append(places)
        out["outcome_mask"].append(ended)
        if k < K:
            out["actions"].append(int(e.action[i]) if live else None)
            out["shifts"].append((mover(i + 1) - mover(i)) % P)
            out["reward"].append([e.rewards[i, p] if live else 0 for p in order])
            out["reward_mask"].append(live or ended)
    return out


# ---- returns ---------------------------------------------------------------------------------------------------

TWO_REWARDS = floats([[1, 0], [0, 2], [0, 0], [4, -4], [8, -8]])
TWO_VALUES = floats([[10, -1], [20, -2], [30, -3], [40, -4], [50, -5]])
# Turns 0 0 1 2 2 0, and only the value of the player to move is known.
THREE_REWARDS = floats([[0, 0, 0], [1, 0, 0], [0, 4, 0], [0, 0, 8], [0, 0, 0], [2, -2, 0]])
THREE_VALUES = floats([[10, NAN, NAN], [20, NAN, NAN], [NAN, 30, NAN], [NAN, NAN, 40], [NAN, NAN, 50], [60, NAN, NAN]])


def test_two_step_returns_of_two_players() -> None:
    found = returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 2, 0.5)
    assert found.dtype == np.float32
    assert found.tolist() == [
        [1 + 0.25 * 30, 0.5 * 2 + 0.25 * -3],
        [0.25 * 40, 2 + 0.25 * -4],
        [0.5 * 4 + 0.25 * 50, 0.5 * -4 + 0.25 * -5],
        [4 + 0.5 * 8, -4 + 0.5 * -8],
        [8, -8],
    ]


def test_two_step_returns_of_a_truncated_game() -> None:
    found = returns(TWO_REWARDS, TWO_VALUES, floats([100, -200]), 2, 0.5)
    assert found[2].tolist() == [0.5 * 4 + 0.25 * 50, 0.5 * -4 + 0.25 * -5]
    assert found[3].tolist() == [4 + 0.5 * 8 + 0.25 * 100, -4 + 0.5 * -8 + 0.25 * -200]
    assert found[4].tolist() == [8 + 0.5 * 100, -8 + 0.5 * -200]


def test_unknown_values_are_waited_for() -> None:
    found = returns(THREE_REWARDS, THREE_VALUES, floats([0, 0, 0]), 1, 0.5)
    assert found.tolist() == [
        [10, 7.5, 5],  # 0 + 20/2; 30/4; 40/8
        [4.75, 15, 10],  # 1 + 60/16; 30/2; 40/4
        [7.5, 3.75, 20],  # 60/8; 4 - 2/8 to the end; 40/2
        [15, -0.5, 33],  # 60/4; -2/4 to the end; 8 + 50/2
        [30, -1, 0],
        [2, -2, 0],
    ]


def test_unknown_values_before_a_truncation() -> None:
    found = returns(THREE_REWARDS, THREE_VALUES, floats([100, 200, 400]), 1, 0.5)
    assert found.tolist() == [
        [10, 7.5, 5],
        [4.75, 15, 10],
        [7.5, 16.25, 20],  # 4 - 2/8 + 200/16
        [15, 24.5, 33],  # -2/4 + 200/8
        [30, 49, 100],  # -2/2 + 200/4; 400/4
        [52, 98, 200],
    ]


def test_without_bootstrap_and_discount_it_is_all_that_is_to_come() -> None:
    found = returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 1000, 1)
    assert found.tolist() == [[13, -10], [12, -10], [12, -12], [12, -12], [8, -8]]


@pytest.mark.parametrize("players", [1, 2, 3, 5])
def test_returns_agree_with_the_definition(players: int) -> None:
    rng = np.random.default_rng(players)
    for length in (1, 2, 3, 7, 8, 9, 40, 130):
        for steps in (1, 2, 5, 64, 500):
            for discount in (1.0, 0.997, 0.5, 0.01):
                e = random_episode(rng, length, players)
                found = returns(e.rewards, e.values, e.last_values, steps, discount)
                np.testing.assert_allclose(found, slow_returns(e, steps, discount), rtol=1e-6, atol=1e-6)


def test_a_return_reads_nothing_of_others_and_nothing_past_its_bootstrap() -> None:
    e = random_episode(np.random.default_rng(5), 30, 3)
    values = np.where(np.isnan(e.values), floats(0.5), e.values)
    before = returns(e.rewards, values, e.last_values, 4, 0.99)
    rewards = e.rewards.copy()
    rewards[:, 0] = 1e30
    values[:, 0] = NAN
    after = returns(rewards, values, e.last_values, 4, 0.99)
    assert (before[:, 1:] == after[:, 1:]).all()
    assert (before[:, 0] != after[:, 0]).all()
    rewards = e.rewards.copy()
    rewards[15:] = 1e30
    later = returns(rewards, np.where(np.isnan(values), floats(0.5), values), e.last_values, 4, 0.99)
    assert (later[:12, 1:] == before[:12, 1:]).all()
    assert (later[12:, 1:] != before[12:, 1:]).all()


def test_returns_of_several_episodes_at_once() -> None:
    rng = np.random.default_rng(6)
    games = [random_episode(rng, length, 3) for length in (5, 1, 17, 30, 2)]
    end = np.repeat(np.cumsum([len(e) for e in games]), [len(e) for e in games])
    joined = [np.concatenate([getattr(e, name) for e in games]) for name in ("rewards", "values")]
    last = np.concatenate([np.tile(e.last_values, (len(e), 1)) for e in games])
    found = returns(joined[0], joined[1], last, 3, 0.9, end)
    alone = np.concatenate([returns(e.rewards, e.values, e.last_values, 3, 0.9) for e in games])
    assert (found == alone).all()


def test_returns_need_a_step() -> None:
    with pytest.raises(ValueError, match="steps: expected 1 or more, got 0"):
        returns(TWO_REWARDS, TWO_VALUES, floats([0, 0]), 0, 0.5)


# ---- outcome, seats, masks ---------------------------------------------------------------------------------------


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
def test_outcomes(ranks: list[int], winner: list[float], rank: list[list[float]]) -> None:
    both = np.array([ranks, ranks], np.int8)
    assert winner_target(both).tolist() == [winner, winner]
    assert rank_target(both).tolist() == [rank, rank]


def test_tied_by_all_of_three() -> None:
    ranks = np.ones(3, np.int8)
    assert winner_target(ranks) == pytest.approx(np.full(3, 1 / 3))
    assert rank_target(ranks) == pytest.approx(np.full((3, 3), 1 / 3))


def test_rotate() -> None:
    seats = np.array([10, 20, 30])
    assert rotate(seats, 0).tolist() == [10, 20, 30]
    assert rotate(seats, 1).tolist() == [20, 30, 10]
    assert rotate(seats, 2).tolist() == [30, 10, 20]
    assert rotate(np.stack([seats, -seats]), [1, 2]).tolist() == [[20, 30, 10], [-30, -10, -20]]
    assert rotate(np.stack([seats, -seats]), 1).tolist() == [[20, 30, 10], [-20, -30, -10]]
    assert rotate(seats[None], [1, 2]).tolist() == [[20, 30, 10], [30, 10, 20]]
    pairs = np.array([[1, 2], [3, 4], [5, 6]])
    assert rotate(pairs, 2, axis=-2).tolist() == [[5, 6], [1, 2], [3, 4]]
    assert rotate(pairs[None], [1, 2], axis=-2).tolist() == [[[3, 4], [5, 6], [1, 2]], [[5, 6], [1, 2], [3, 4]]]
    assert rotate(rotate(seats, 2), -2).tolist() == [10, 20, 30]


def test_legal_bits() -> None:
    legal = np.zeros((2, 64), np.bool_)
    legal[0, [0, 2]] = legal[1, [1, 63]] = True
    assert pack_legal(legal).tolist() == [0b101, 2**63 + 2]
    assert (unpack_legal(pack_legal(legal), 64) == legal).all()
    assert unpack_legal(np.array([0b101], np.uint64), 4).tolist() == [[True, False, True, False]]
    with pytest.raises(ValueError, match="at most 64"):
        pack_legal(np.zeros((1, 65), np.bool_))


# ---- windows -----------------------------------------------------------------------------------------------------

# Three players, seat 1 wins; one-step returns without discount are the reward plus the next value.
TURNS = [1, 1, 2, 0]
REWARDS = [[0, 1, 0], [0, 0, 0], [1, 2, 3], [4, 5, 6]]
VALUES = [[0, 0, 0], [7, 8, 9], [-7, -8, -9], [10, 20, 30]]
RANKS = [2, 1, 2]


def windows(e: Episode, at: list[int], K: int, frame: str) -> Targets:
    e.check()
    filler = np.full((len(at), K), 77)
    return unroll(Decisions.of(e, 1, 1.0), np.array(at), frame, filler)


def test_window_past_the_end_in_the_movers_frame() -> None:
    w = windows(episode(TURNS, REWARDS, VALUES, RANKS), [2], 3, "mover")
    assert w.actions.tolist() == [[2, 3, 77]]
    assert w.shifts.tolist() == [[1, 0, 0]]
    assert w.to_play.tolist() == [[0, 1, 1, 1]]
    assert w.value.tolist() == [[[33, 11, 22], [4, 5, 6], [0, 0, 0], [0, 0, 0]]]
    assert w.reward.tolist() == [[[3, 1, 2], [4, 5, 6], [0, 0, 0]]]
    assert w.policy.tolist() == [[[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0] * 5, [0] * 5]]
    assert w.winner.tolist() == [[[0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0]]]
    best, other = [1, 0, 0], [0, 0.5, 0.5]
    assert w.rank.tolist() == [[[other, other, best], *([[other, best, other]] * 3)]]
    assert w.value_mask.tolist() == [[1, 1, 1, 1]]
    assert w.reward_mask.tolist() == [[1, 1, 1]]
    assert w.policy_mask.tolist() == [[1, 1, 0, 0]]
    assert w.outcome_mask.tolist() == [[1, 1, 1, 1]]


def test_window_past_the_end_in_the_roots_frame() -> None:
    w = windows(episode(TURNS, REWARDS, VALUES, RANKS), [2], 3, "root")
    assert w.actions.tolist() == [[2, 3, 77]]
    assert w.shifts.tolist() == [[1, 0, 0]]
    assert w.to_play.tolist() == [[0, 1, 1, 1]]
    assert w.value.tolist() == [[[33, 11, 22], [6, 4, 5], [0, 0, 0], [0, 0, 0]]]
    assert w.reward.tolist() == [[[3, 1, 2], [6, 4, 5], [0, 0, 0]]]
    assert w.winner.tolist() == [[[0, 0, 1]] * 4]
    assert w.rank.tolist() == [[[[0, 0.5, 0.5], [0, 0.5, 0.5], [1, 0, 0]]] * 4]


def test_window_over_several_decisions_a_turn() -> None:
    e = episode(TURNS, REWARDS, VALUES, RANKS, has_policy=[True, False, True, True])
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


def test_window_past_a_truncation() -> None:
    e = episode(TURNS, REWARDS, VALUES, [0, 0, 0], last_values=[100, 200, 300])
    w = windows(e, [2, 0], 3, "mover")
    assert w.value[0].tolist() == [[33, 11, 22], [104, 205, 306], [0, 0, 0], [0, 0, 0]]
    assert w.value_mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert w.reward_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert w.policy_mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert w.outcome_mask.tolist() == [[0] * 4, [0] * 4]
    assert not w.winner.any()
    assert not w.rank.any()


def test_windows_of_two_players() -> None:
    e = episode([0, 0, 1, 1, 0], TWO_REWARDS, TWO_VALUES, [1, 2])
    w = windows(e, [1, 4], 4, "mover")
    assert w.actions.tolist() == [[1, 2, 3, 4], [4, 77, 77, 77]]
    assert w.shifts.tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]
    assert w.to_play.tolist() == [[0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert w.value.tolist() == [[[30, -1], [-4, 40], [-9, 54], [8, -8], [0, 0]], [[8, -8], *([[0, 0]] * 4)]]
    assert w.reward.tolist() == [[[0, 2], [0, 0], [-4, 4], [8, -8]], [[8, -8], *([[0, 0]] * 3)]]
    assert w.winner.tolist() == [[[1, 0], [0, 1], [0, 1], [1, 0], [1, 0]], [[1, 0]] * 5]
    w = windows(e, [1, 4], 4, "root")
    assert w.value.tolist() == [[[30, -1], [40, -4], [54, -9], [8, -8], [0, 0]], [[8, -8], *([[0, 0]] * 4)]]
    assert w.reward.tolist() == [[[0, 2], [0, 0], [4, -4], [8, -8]], [[8, -8], *([[0, 0]] * 3)]]
    assert w.winner.tolist() == [[[1, 0]] * 5] * 2


def test_a_tie_is_shared_in_every_frame() -> None:
    w = windows(episode([0, 1], [[0, 0], [0, 0]], [[0, 0], [0, 0]], [1, 1]), [0], 1, "mover")
    assert w.winner.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]


@pytest.mark.parametrize("frame", ["root", "mover"])
@pytest.mark.parametrize("players", [2, 3, 4])
def test_windows_agree_with_the_definition(frame: str, players: int) -> None:
    rng = np.random.default_rng(players)
    for length in (1, 3, 20):
        for K in (0, 1, 5):
            e = random_episode(rng, length, players)
            filler = rng.integers(100, 200, size=(length, K))
            found = unroll(Decisions.of(e, 2, 0.9), np.arange(length), frame, filler)
            for t in range(length):
                assert_window(found, t, slow_window(e, t, K, frame, 2, 0.9), filler[t])


def assert_window(found: Targets, row: int, expected: dict[str, Any], filler: NDArray[np.int64]) -> None:
    """Compares a row of targets with a slow window."""
    expected = dict(expected)
    expected["actions"] = [filler[k] if a is None else a for k, a in enumerate(expected["actions"])]
    for name, numbers in expected.items():
        got = getattr(found, name)[row]
        np.testing.assert_allclose(got, np.array(numbers, float).reshape(got.shape), rtol=1e-6, atol=1e-6, err_msg=name)


def test_types_of_targets() -> None:
    w = windows(episode(TURNS, REWARDS, VALUES, RANKS), [0, 1], 2, "root")
    for name, array in vars(w).items():
        assert array.dtype == (np.int64 if name in ("actions", "shifts", "to_play") else np.float32), name
        assert array.flags.writeable, name
        assert array.flags.c_contiguous, name


def test_frame_must_be_known() -> None:
    with pytest.raises(ValueError, match="frame: expected one of root, mover, got 'table'"):
        windows(episode(TURNS, REWARDS, VALUES, RANKS), [0], 1, "table")


# ---- episodes ----------------------------------------------------------------------------------------------------


def test_sizes_of_an_episode() -> None:
    e = episode(TURNS, REWARDS, VALUES, RANKS)
    assert (len(e), e.num_players) == (4, 3)
    # Per decision: obs 3 x 2, legal 8, action 2, to_play 1, phase 1, has_policy 1, policy 5 x 4 and three times 3 x 4.
    assert e.nbytes == 4 * (6 + 8 + 2 + 1 + 1 + 1 + 20 + 36) + 3 + 12


def test_episodes_that_are_fine() -> None:
    rng = np.random.default_rng(0)
    for players in (1, 2, 3, 8):
        for length in (1, 2, 50):
            random_episode(rng, length, players).check()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("obs", np.zeros((4, 3), np.int32), r"episode.obs: expected int16 \[4, 3\], got 'int32 \[4, 3\]'"),
        ("obs", np.zeros(4, np.int16), "episode.obs: expected two dimensions"),
        ("legal", np.ones(3, np.uint64), r"episode.legal: expected uint64 \[4\], got 'uint64 \[3\]'"),
        ("legal", np.array([1, 2, 1, 8], np.uint64), r"episode.action: expected legal actions, got 'illegal at \[2\]'"),
        ("action", np.array([0, 1, 2, 5], np.int16), r"episode.action: expected 0 to 4, got \[5\]"),
        ("to_play", np.array([0, 1, 2, 3], np.int8), r"episode.to_play: expected 0 to 2, got \[3\]"),
        ("to_play", np.array([0, 1, 2, -1], np.int8), r"episode.to_play: expected 0 to 2, got \[-1\]"),
        ("phase", np.zeros(4, np.int64), "episode.phase: expected int8"),
        ("rewards", np.zeros((4, 2), np.float32), "episode.rewards: expected float32"),
        ("rewards", floats([[NAN, 0, 0]] * 4), "episode.rewards: expected finite numbers"),
        ("policy", floats([[0.1] * 5] * 4), "episode.policy: expected rows that add up to 1"),
        ("policy", floats([[NAN, 1, 0, 0, 0]] * 4), "episode.policy: expected finite numbers"),
        ("policy", np.zeros((4, 65), np.float32), "episode.policy: expected 1 to 64 actions"),
        ("has_policy", np.ones(4, np.int8), "episode.has_policy: expected bool"),
        ("values", np.full((4, 3), np.inf, np.float32), "episode.values: expected numbers or NaN"),
        ("raw_values", np.full((4, 3), -np.inf, np.float32), "episode.raw_values: expected numbers or NaN"),
        ("raw_values", np.zeros((4, 3)), "episode.raw_values: expected float32"),
        ("ranks", np.array([2, 3, 3], np.int8), "episode.ranks: expected 1 for the best"),
        ("ranks", np.array([1, 1, 2], np.int8), "episode.ranks: expected 1 for the best"),
        ("last_values", floats([0, 0, 1]), "episode.last_values: expected zeros for a game that ended"),
        ("last_values", floats([0, 0, NAN]), "episode.last_values: expected finite numbers"),
        ("last_values", None, "episode.last_values: expected float32"),
    ],
)
def test_episodes_that_are_refused(field: str, value: Any, message: str) -> None:
    e = episode(TURNS, REWARDS, VALUES, RANKS)
    e.check()
    with pytest.raises(ValueError, match=message):
        replace(e, **{field: value}).check()


def test_an_episode_has_a_decision() -> None:
    e = episode(TURNS, REWARDS, VALUES, RANKS)
    names = ("obs", "legal", "action", "to_play", "phase", "rewards", "policy", "has_policy", "values", "raw_values")
    with pytest.raises(ValueError, match="at least one decision"):
        replace(e, **{name: getattr(e, name)[:0] for name in names}).check()
