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
def played(game: str, players: int, count: int = 12, bot: str = "random") -> list[Episode]:
    """Episodes of bots of one kind."""
    tables = env.make(game, 16, players, {"max_decisions": 400}, seed=4)
    A, chosen = tables.num_actions, tables.bot(bot)
    slots = GameSpec.of_tables(tables).num_slots
    buffer, found, nothing = TrajectoryBuffer(16, players, tables.obs.shape[1], A, 400, slots), [], np.zeros((16, A))
    for step in range(5000):
        buffer.write(obs=tables.obs, legal=tables.legal_bits, to_play=tables.to_play, phase=tables.phase)
        buffer.write(scores=tables.scores, values=np.full((16, players), np.nan), policy=nothing)
        buffer.write(hidden=tables.true_cards(tables.to_play), explored=np.zeros(16, bool))
        buffer.write(luck=np.zeros((16, players)))
        actions = tables.bot_actions([chosen] * players, step)
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
    return Moves(spec.phase_table, spec.public_outcomes, spec.absent)


def rows_of(e: Episode) -> Rows:
    return ring_rows(e, np.zeros_like(e.rewards))


def absent_players(spec: GameSpec, obs: NDArray[np.int16]) -> NDArray[np.uint64] | None:
    """Players who have left the round, as `Search.begin` takes them, by observations [N, W]."""
    if spec.absent is None:
        return None
    return (obs[:, spec.absent].astype(np.uint64) << np.arange(spec.num_players, dtype=np.uint64)).sum(1)


def asked_by_a_tree(spec: GameSpec, obs: NDArray[np.int16], phase: int, action: int) -> set[tuple[int, ...]]:
    """Turn shift of an action, and next actions with theirs, as a tree asks for them: (shift, action, shift)."""
    A, P = spec.num_actions, spec.num_players
    config = mcts.Config(algorithm="puct", simulations=SIMULATIONS, dirichlet_fraction=0.0)
    trees = mcts.Search(config, batch=1, num_actions=A, num_players=P, phase_table=spec.phase_table)
    legal = np.array([1 << action], np.uint64)
    absent = absent_players(spec, obs[None])
    trees.begin(np.zeros((1, A + P), np.float32), legal, np.array([phase], np.int8), absent=absent)
    made: dict[int, tuple[int, int, int]] = {}  # parent, action and shift of each node
    for step in range(trees.steps):
        asked = trees.select()
        made[1 + step] = int(asked.parent[0]), int(asked.action[0]), int(asked.shift[0])
        trees.expand(np.zeros((1, A + 2 * P), np.float32))
    assert made[1][:2] == (0, action)
    return {(made[1][2], a, shift) for parent, a, shift in made.values() if parent == 1}


@pytest.mark.parametrize(("game", "players"), [*((game, 2) for game in env.games()), ("lama", 4)])
def test_search_only_asks_for_what_training_has_shown(game: str, players: int) -> None:
    """Past the last decision, actions and turns of training windows are those that a tree goes on with: all of them."""
    spec = GameSpec.of(game, players)
    trees: dict[tuple[int, int, bytes], set[tuple[int, ...]]] = {}
    rng, passed = np.random.default_rng(0), 0
    for e in played(game, players):
        last = len(e) - 1
        at, luck = np.full(3000, last), rng.random((3000, 4))
        w = unroll(rows_of(e), at, "mover", moves_of(spec), luck)
        shown = set(map(tuple, np.stack([w.shifts[:, 0], w.actions[:, 1], w.shifts[:, 1]], 1).tolist()))
        now, absent = (int(e.phase[last]), int(e.action[last])), absent_players(spec, e.obs[last:])
        key = *now, b"" if absent is None else absent.tobytes()
        if key not in trees:
            trees[key] = asked_by_a_tree(spec, e.obs[last], *now)
        assert shown == trees[key]
        assert (w.to_play[:, 1:] == w.shifts.cumsum(1) % players).all()
        passed += int(w.shifts.sum())
    assert passed > 0, "the turn passes, in the eyes of a search"


def tree_shifts(spec: GameSpec, e: Episode, actions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn shifts [T, 2] that trees rooted at each decision ask for, with two actions [T, 2] each."""
    T, A, P = len(e), spec.num_actions, spec.num_players
    config = mcts.Config(algorithm="puct", simulations=4 * A, dirichlet_fraction=0.0, pb_c_init=1000.0)
    trees = mcts.Search(config, batch=T, num_actions=A, num_players=P, phase_table=spec.phase_table)
    legal = np.uint64(1) << actions[:, 0].astype(np.uint64)
    trees.begin(np.zeros((T, A + P), np.float32), legal, e.phase, absent=absent_players(spec, e.obs))
    found = np.full((T, 2), -1)
    for step in range(trees.steps):
        asked = trees.select()
        if step == 0:
            found[:, 0] = asked.shift
        second = (asked.parent // T == 1) & (asked.action == actions[:, 1])
        found[second, 1] = asked.shift[second]
        trees.expand(np.zeros((T, A + 2 * P), np.float32))
    return found


@pytest.mark.parametrize(
    ("game", "players", "bot"),
    [
        *((game, 2, "random") for game in env.games()),
        ("skyjo", 3, "random"),
        ("skipbo", 4, "random"),
        ("lama", 3, "random"),
        ("lama", 4, "random"),
        ("lama", 4, "strategy_3"),
    ],
)
def test_turns_inside_windows_are_those_of_a_tree_and_inside_rounds_the_real_ones(
    game: str, players: int, bot: str
) -> None:
    spec, wrong, all_turns, rounds = GameSpec.of(game, players), 0, 0, 0
    for e in played(game, players, bot=bot)[:8]:
        T = len(e)
        luck = np.random.default_rng(1).random((T, 3))
        w = unroll(rows_of(e), np.arange(T), "mover", moves_of(spec), luck)
        asked = tree_shifts(spec, e, w.actions)
        tried = asked[:, 1] >= 0
        assert (tried | (w.live[:, 1] == 1)).all(), "the tree tries what a window makes up"
        assert tried.mean() > 0.5
        assert (w.shifts[:, 0] == asked[:, 0]).all()
        assert (w.shifts[:, 1] == asked[:, 1])[tried].all()
        assert w.actions[:, 0].tolist() == e.action.tolist()
        real = (e.to_play[1:] - e.to_play[:-1]) % players
        goes_on = (e.scores[1:] == e.scores[:-1]).all(1)
        wrong += int((asked[:-1, 0] != real)[goes_on].sum())
        all_turns += int(goes_on.sum())
        rounds += int((~goes_on).sum())
        # Where the tree's turn is the real one, nothing of the episode is left out.
        same = (asked[:-1, 0] == real) & goes_on
        assert (w.live[:-1, 1] == 1)[same].all()
        assert (w.live[:-1, 1] == 0)[asked[:-1, 0] != real].all()
    assert wrong == 0
    assert all_turns > 5
    assert rounds > 0 or game != "lama"


def test_rewards_and_values_after_a_round_are_known_in_the_seats_of_a_tree_and_nothing_else() -> None:
    """L.A.M.A.: whoever plays the last card starts the next round; a tree expects the next player to move."""
    spec, checked = GameSpec.of("lama", 3), 0
    for e in played("lama", 3, bot="strategy_3"):
        T = len(e)
        rows = rows_of(e) | {"returns": np.arange(3 * T, dtype=np.float32).reshape(T, 3)}
        rows |= {"has_policy": np.ones(T, bool), "rewards": np.arange(3 * T, dtype=np.float32).reshape(T, 3) + 0.5}
        w = unroll(rows, np.arange(T), "mover", moves_of(spec), np.full((T, 4), 0.5))
        for t in np.flatnonzero(w.live[: T - 3, 1] == 0):
            mover = (e.to_play[t] + w.shifts[t, 0]) % 3
            order = (mover + np.arange(3)) % 3
            assert w.value[t, 1].tolist() == rows["returns"][t + 1][order].tolist()
            assert w.reward[t, 0].tolist() == rows["rewards"][t][order].tolist()
            assert w.value_mask[t].tolist() == [1, 1, 0, 0]
            assert w.reward_mask[t].tolist() == [1, 0, 0]
            assert w.policy_mask[t].tolist() == [1, 0, 0, 0]
            assert w.outcome_mask[t].tolist() == [1, 1, 0, 0]
            assert not w.outcomes[t, 1:].any()
            assert not w.value[t, 2:].any()
            assert not w.winner[t, 2:].any()
            assert w.winner[t, :2].sum(1).tolist() == [1, 1]
            checked += 1
    assert checked > 5


def outcomes_seen(game: str, players: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Outcomes of windows of four steps [N, 4], those of the episodes, and whether the first mover has acted."""
    found = []
    for e in played(game, players):
        T, spec = len(e), GameSpec.of(game, players)
        w = unroll(rows_of(e), np.arange(T), "root", moves_of(spec), np.full((T, 5), 0.5))
        for t in np.flatnonzero(w.live[: T - 4].all(1)):
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
            real = [k for k in range(3) if w.live[t, k]]
            possible = [k for k in real if moves.chance[e.phase[t + k], e.action[t + k]]]
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
