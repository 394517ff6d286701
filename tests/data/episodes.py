"""Episodes for tests, and slow definitions of returns and targets to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcts import PhaseTable
from muzero.data.targets import Moves, Targets
from muzero.data.trajectory import Episode, pack_legal

NAN = float("nan")
OUTCOMES = 4  # outcome codes of random episodes


def one_phase(actions: int = 5) -> Moves:
    """Rules of a game of one phase, in which every action passes the turn and no chance event follows."""
    return Moves(PhaseTable.trivial(actions, turn_passes=True), np.zeros((1, actions), bool), real_turns=True)


def random_moves(rng: np.random.Generator, actions: int = 6, phases: int = 3) -> Moves:
    """Random rules: in each phase some actions are possible, some pass the turn, and chance events follow some."""
    shape = phases, actions
    possible = rng.random(shape) < 0.5
    possible[np.arange(phases), rng.integers(actions, size=phases)] = True
    next_phase = rng.integers(phases, size=shape).astype(np.uint8)
    chance = rng.random(shape) < 0.5
    table = PhaseTable(possible, next_phase, rng.random(shape) < 0.5, chance)
    return Moves(table, rng.random(shape) < 0.5, real_turns=True)


def floats(numbers: Any) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def make_episode(
    to_play: list[int],
    rewards: Any,
    values: Any,
    ranks: list[int],
    last_values: Any = None,
    has_policy: list[bool] | None = None,
    outcome: list[int] | None = None,
    hidden: Any = None,
) -> Episode:
    """Episode with 5 actions in which decision t takes action t % 5 and has it as policy target; truncated if there are
    last_values. Seat p has 10 p points at first, gets 1 + p with every decision, and 100 at the end."""
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
        luck=np.zeros((T, P), np.float32),
        explored=np.zeros(T, np.bool_),
        outcome=np.zeros(T, np.int8) if outcome is None else np.array(outcome, np.int8),
        hidden=np.zeros((T, 0), np.int8) if hidden is None else np.array(hidden, np.int8),
        scores=(10 * np.arange(P) + np.arange(T)[:, None] * (1 + np.arange(P))).astype(np.int32),
        final_scores=(100 + 10 * np.arange(P) + T * (1 + np.arange(P))).astype(np.int32),
        ranks=np.array(ranks, np.int8),
        truncated=last_values is not None,
        last_values=np.zeros(P, np.float32) if last_values is None else floats(last_values),
    )


def random_episode(
    rng: np.random.Generator,
    length: int,
    players: int = 2,
    width: int = 4,
    actions: int = 6,
    phases: int = 3,
    slots: int = 0,
) -> Episode:
    """Random episode: turns of one to three decisions, some of them by bots. A third of all episodes are truncated; in
    half of all only the value of the player to move is known."""
    T, P = length, players
    to_play = np.repeat(np.arange(T) + rng.integers(P), rng.integers(1, 4, T))[:T] % P
    legal = rng.random((T, actions)) < 0.6
    action = rng.integers(actions, size=T)
    legal[np.arange(T), action] = True
    policy = rng.random((T, actions)) * legal
    values = rng.normal(size=(2, T, P))[0]
    if rng.random() < 0.5:
        others = np.arange(P) != to_play[:, None]
        values[others] = NAN
    bots = rng.random(T) < 0.3
    values[bots] = NAN
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
        luck=rng.normal(size=(T, P)).astype(np.float32),
        explored=rng.random(T) < 0.2,
        outcome=rng.integers(OUTCOMES, size=T).astype(np.int8),
        hidden=rng.integers(OUTCOMES, size=(T, slots)).astype(np.int8),
        scores=rng.integers(-50, 50, (T, P)).astype(np.int32),
        final_scores=rng.integers(-50, 50, P).astype(np.int32),
        ranks=(1 + (score[None, :] > score[:, None]).sum(1)).astype(np.int8),
        truncated=truncated,
        last_values=rng.normal(size=P).astype(np.float32) if truncated else np.zeros(P, np.float32),
    )


def slow_returns(e: Episode, steps: int, discount: float, *, without_luck: bool = False) -> NDArray[np.float64]:
    """n-step returns by their definition, number by number; those of a replay buffer are without luck."""
    T, P = e.rewards.shape
    out = np.zeros((T, P))
    for p in range(P):
        for t in range(T):
            b = t + steps
            while b < T and np.isnan(e.values[b, p]):
                b += 1
            b = min(b, T)
            random = [r for r in range(t, b) if e.explored[r] and not np.isnan(e.values[r, p])]
            b = random[0] if random else b
            for i in range(t, b):
                out[t, p] += discount ** (i - t) * float(e.rewards[i, p] - e.luck[i, p] * without_luck)
            out[t, p] += discount ** (b - t) * float(e.values[b, p] if b < T else e.last_values[p])
    return out


def slow_window(
    e: Episode, t: int, K: int, frame: str, value_of: NDArray[np.float64], moves: Moves, actions: NDArray[np.int64]
) -> dict[str, Any]:
    """Targets of one window by their definition, as lists over its steps.

    Past the end of the episode seats and phases follow from the actions found by the rules, which must be possible.

    Args:
      value_of: `slow_returns` of the episode.
      moves: rules past the end.
      actions: [K] actions of the window that was found; only those past the end are read.
    """
    T, P = e.rewards.shape
    ended = not e.truncated
    names = ("actions", "outcomes", "shifts", "to_play", "value", "value_mask", "reward", "reward_mask", "policy")
    out: dict[str, Any] = {name: [] for name in (*names, "policy_mask", "winner", "rank", "points", "outcome_mask")}
    winners = [p for p in range(P) if e.ranks[p] == 1]
    movers: list[int] = []
    phases: list[int] = []
    taken: list[int] = []
    for k in range(K + 1):
        i = t + k
        if i < T:
            movers.append(int(e.to_play[i]))
            phases.append(int(e.phase[i]))
            taken.append(int(e.action[i]))
        else:
            before = phases[-1], taken[-1]
            movers.append((movers[-1] + int(moves.turn_passes[before])) % P)
            phases.append(int(moves.next_phase[before]))
            taken.append(int(actions[k]) if k < K else -1)
            possible = moves._possible[phases[-1], : moves._count[phases[-1]]]
            assert k == K or taken[-1] in possible, "only what a search may ask for"

    def order(k: int) -> list[int]:
        return [((movers[k] if frame == "mover" else movers[0]) + s) % P for s in range(P)]

    for k in range(K + 1):
        i, live = t + k, t + k < T
        out["to_play"].append((movers[k] - movers[0]) % P)
        out["value"].append([value_of[i, p] if live else 0 for p in order(k)])
        out["value_mask"].append(live or ended)
        wanted = live and e.has_policy[i]
        out["policy"].append(e.policy[i] if wanted else np.zeros(e.policy.shape[1]))
        out["policy_mask"].append(wanted)
        out["winner"].append([ended / len(winners) if p in winners else 0 for p in order(k)])
        places = []
        for p in order(k):
            same = sum(e.ranks == e.ranks[p])
            shared = range(e.ranks[p] - 1, e.ranks[p] - 1 + same)
            places.append([ended / same if place in shared else 0 for place in range(P)])
        out["rank"].append(places)
        out["points"].append([e.final_scores[p] - e.scores[i, p] if live and ended else 0 for p in order(k)])
        out["outcome_mask"].append(ended)
        if k < K:
            seen = live and (moves.public[phases[k], taken[k]] or movers[k] == movers[0])
            out["actions"].append(taken[k])
            out["outcomes"].append(int(e.outcome[i]) if seen else 0)
            out["shifts"].append((movers[k + 1] - movers[k]) % P)
            out["reward"].append([e.rewards[i, p] if live else 0 for p in order(k + 1)])
            out["reward_mask"].append(live or ended)
    out["after"] = [k for k in range(K) if t + k < T and moves.chance[phases[k], taken[k]]]
    return out


def assert_window(found: Targets, row: int, expected: dict[str, Any]) -> None:
    """Compare one row of targets with a window of `slow_window`."""
    expected = dict(expected)
    candidates = expected.pop("after")
    assert found.after_mask[row] == bool(candidates)
    assert not candidates or found.after[row] in candidates
    for name, numbers in expected.items():
        got = getattr(found, name)[row]
        np.testing.assert_allclose(got, np.array(numbers, float).reshape(got.shape), rtol=1e-6, atol=1e-6, err_msg=name)


# Rewards and values of two players, five decisions.
TWO_REWARDS = floats([[1, 0], [0, 2], [0, 0], [4, -4], [8, -8]])
TWO_VALUES = floats([[10, -1], [20, -2], [30, -3], [40, -4], [50, -5]])

# Three players, of whom seat 1 wins. One-step returns without discount are the reward plus the next value.
TURNS = [1, 1, 2, 0]
REWARDS = [[0, 1, 0], [0, 0, 0], [1, 2, 3], [4, 5, 6]]
VALUES = [[0, 0, 0], [7, 8, 9], [-7, -8, -9], [10, 20, 30]]
RANKS = [2, 1, 2]
