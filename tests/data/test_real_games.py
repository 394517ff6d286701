"""muzero.data.targets with episodes of real games: what training shows past the end, and who sees chance events."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import env
import mcts
from muzero.data.targets import Moves, unroll
from muzero.data.trajectory import Episode, Rows, TrajectoryBuffer, ring_rows
from muzero.model.spec import GameSpec

SIMULATIONS = 400


@cache
def played(game: str, players: int, count: int = 12) -> list[Episode]:
    """Episodes of random players."""
    tables = env.make(game, 16, players, {"max_decisions": 400}, seed=4)
    A = tables.num_actions
    slots = GameSpec.of_tables(tables).num_slots
    buffer, found, nothing = TrajectoryBuffer(16, players, tables.obs.shape[1], A, 400, slots), [], np.zeros((16, A))
    for step in range(5000):
        buffer.write(obs=tables.obs, legal=tables.legal_bits, to_play=tables.to_play, phase=tables.phase)
        buffer.write(scores=tables.scores, values=np.full((16, players), np.nan), policy=nothing)
        buffer.write(hidden=tables.true_cards(tables.to_play))
        actions = tables.sample_actions(step)
        tables.step(actions)
        buffer.write(action=actions, rewards=tables.rewards, outcome=tables.outcome, has_policy=np.zeros(16, bool))
        buffer.advance()
        for row in np.flatnonzero(tables.done):
            ranks, scores = tables.ranks[row].copy(), tables.scores[row].copy()
            found.append(buffer.take(int(row), ranks, bool(tables.truncated[row]), scores))
        if len([e for e in found if not e.truncated]) >= count:
            return [e for e in found if not e.truncated]
    raise AssertionError(f"only {len(found)} games of {game}")


def moves_of(spec: GameSpec) -> Moves:
    return Moves(spec.phase_table, spec.public_outcomes)


def rows_of(e: Episode) -> Rows:
    return ring_rows(e, np.zeros_like(e.rewards))


def asked_by_a_tree(spec: GameSpec, phase: int, action: int) -> set[tuple[int, ...]]:
    """Turn shift of an action, and next actions with theirs, as a tree asks for them: (shift, action, shift)."""
    A, P = spec.num_actions, spec.num_players
    config = mcts.Config(algorithm="puct", simulations=SIMULATIONS, dirichlet_fraction=0.0)
    trees = mcts.Search(config, batch=1, num_actions=A, num_players=P, phase_table=spec.phase_table)
    legal = np.array([1 << action], np.uint64)
    trees.begin(np.zeros((1, A + P), np.float32), legal, np.array([phase], np.int8))
    made: dict[int, tuple[int, int, int]] = {}  # parent, action and shift of each node
    for step in range(trees.steps):
        asked = trees.select()
        made[1 + step] = int(asked.parent[0]), int(asked.action[0]), int(asked.shift[0])
        trees.expand(np.zeros((1, A + 2 * P), np.float32))
    assert made[1][:2] == (0, action)
    return {(made[1][2], a, shift) for parent, a, shift in made.values() if parent == 1}


@pytest.mark.parametrize("game", env.games())
def test_search_only_asks_for_what_training_has_shown(game: str) -> None:
    """Past the last decision, actions and turns of training windows are those that a tree goes on with: all of them."""
    spec = GameSpec.of(game, 2)
    trees: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    rng, passed = np.random.default_rng(0), 0
    for e in played(game, 2):
        last = len(e) - 1
        at, luck = np.full(3000, last), rng.random((3000, 4))
        w = unroll(rows_of(e), at, "mover", moves_of(spec), luck)
        shown = set(map(tuple, np.stack([w.shifts[:, 0], w.actions[:, 1], w.shifts[:, 1]], 1).tolist()))
        key = int(e.phase[last]), int(e.action[last])
        if key not in trees:
            trees[key] = asked_by_a_tree(spec, *key)
        assert shown == trees[key]
        assert (w.to_play[:, 1:] == w.shifts.cumsum(1) % 2).all()
        passed += int(w.shifts.sum())
    assert passed > 0, "the turn passes, in the eyes of a search"


@pytest.mark.parametrize("game", env.games())
def test_windows_inside_a_game_follow_the_real_turns(game: str) -> None:
    e = played(game, 2)[0]
    T = len(e)
    luck = np.random.default_rng(1).random((T, 3))
    w = unroll(rows_of(e), np.arange(T), "mover", moves_of(GameSpec.of(game, 2)), luck)
    assert w.shifts[:-1, 0].tolist() == ((e.to_play[1:] - e.to_play[:-1]) % 2).tolist()
    assert w.actions[:, 0].tolist() == e.action.tolist()


def outcomes_seen(game: str, players: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Outcomes of windows of four steps [N, 4], those of the episodes, and whether the first mover has acted."""
    found = []
    for e in played(game, players):
        T, spec = len(e), GameSpec.of(game, players)
        w = unroll(rows_of(e), np.arange(T), "root", moves_of(spec), np.full((T, 5), 0.5))
        for t in range(T - 4):
            step = np.arange(t, t + 4)
            found.append((w.outcomes[t], e.outcome[step].astype(np.int64), e.to_play[step] == e.to_play[t]))
    shown, happened, own = (np.stack(part) for part in zip(*found, strict=True))
    return shown, happened, own


def test_outcomes_that_only_the_actor_sees_are_hidden_from_windows_of_others() -> None:
    """L.A.M.A.: a drawn card goes into the hand of the player who draws."""
    assert not GameSpec.of("lama", 3).public_outcomes[GameSpec.of("lama", 3).phase_table.chance].any()
    shown, happened, own = outcomes_seen("lama", 3)
    assert (happened[~own] > 0).sum() > 50, "others draw, too"
    assert not shown[~own].any()
    assert (shown[own] == happened[own]).all()
    assert (shown[own] > 0).sum() > 50


def test_outcomes_that_all_players_see_are_shown_to_all() -> None:
    shown, happened, own = outcomes_seen("skyjo", 2)
    assert (shown == happened).all()
    assert (shown[~own] > 0).sum() > 50


@pytest.mark.parametrize("game", ["skyjo", "lama", "skipbo"])
def test_events_happen_only_where_the_rules_say_so_and_are_trained_there(game: str) -> None:
    spec, events = GameSpec.of(game, 2), 0
    moves = moves_of(spec)
    for e in played(game, 2):
        T = len(e)
        happened = e.outcome > 0
        assert moves.chance[e.phase, e.action][happened].all()
        w = unroll(rows_of(e), np.arange(T), "mover", moves, np.random.default_rng(2).random((T, 4)))
        for t in range(T):
            possible = [k for k in range(3) if t + k < T and moves.chance[e.phase[t + k], e.action[t + k]]]
            assert w.after_mask[t] == bool(possible)
            assert not possible or w.after[t] in possible
        events += int(happened.sum())
    assert events > 10


def test_points_to_come_are_those_of_the_rest_of_the_episode() -> None:
    """In Skyjo's matches scores only change at the end of a round; the targets add up to the final scores."""
    e = max(played("skyjo", 2), key=len)
    T = len(e)
    w = unroll(rows_of(e), np.arange(T), "root", moves_of(GameSpec.of("skyjo", 2)), np.full((T, 2), 0.5))
    by_seat = np.stack([np.roll(w.points[t, 0], e.to_play[t]) for t in range(T)])
    assert (by_seat == e.final_scores - e.scores).all()
    assert by_seat[0].tolist() == e.final_scores.tolist(), "nobody has points at first"
    assert (w.points[-1, 1] == 0).all()
    assert len(np.unique(by_seat, axis=0)) > 1, "several rounds"
