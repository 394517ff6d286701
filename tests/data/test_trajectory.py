"""muzero.data.trajectory: one declaration of each field, and the arrays that are made from it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero.config import Config, ReplayConfig
from muzero.data import trajectory
from muzero.data.replay_buffer import ReplayBuffer
from muzero.data.targets import unroll
from muzero.data.trajectory import (
    DECISION,
    EPISODE,
    REPEATED,
    RING,
    RULES,
    UNUSED,
    ZERO,
    Episode,
    TrajectoryBuffer,
    pack_legal,
    ring_rows,
    row_bytes,
    schema,
    unpack_legal,
)
from tests.data.episodes import NAN, RANKS, REWARDS, TURNS, VALUES, floats, make_episode, one_phase, random_episode

P, W, A = 3, 4, 6

# ---- the schema --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimedEpisode(Episode):
    """An episode with one more field, declared in one line."""

    seconds: NDArray[np.float32] = field(metadata=trajectory._decision(np.float32, "P", "time to think", ZERO))


def step_of(episode: Episode, t: int) -> dict[str, NDArray[Any]]:
    """Fields of decision t, for one table."""
    return {f.name: getattr(episode, f.name)[None, t] for f in schema(DECISION)}


def test_a_new_field_is_one_line_and_reaches_buffer_episode_ring_and_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old_bytes = row_bytes(P, W, A)
    monkeypatch.setattr(trajectory, "Episode", TimedEpisode)
    source = random_episode(np.random.default_rng(0), 9, P, W, A)
    seconds = np.arange(27, dtype=np.float32).reshape(9, 3)
    buffer = TrajectoryBuffer(1, P, W, A, longest=50)
    for t in range(9):
        buffer.write(**{f.name: getattr(source, f.name)[None, t] for f in fields(source) if f.name in STEP_FIELDS})
        with pytest.raises(AssertionError, match="not written: \\['seconds'\\]"):
            buffer.advance()
        buffer.write(seconds=seconds[None, t])
        buffer.advance()
    restored = TrajectoryBuffer(1, P, W, A, longest=50)
    restored.load(buffer.state())
    for one in (buffer, restored):
        episode = one.take(0, source.ranks, source.truncated, source.final_scores)
        assert isinstance(episode, TimedEpisode)
        assert (episode.seconds == seconds).all()
    replay = ReplayBuffer(
        num_players=P,
        width=W,
        num_actions=A,
        num_phases=3,
        frame="mover",
        moves=one_phase(A),
        config=Config(replay=ReplayConfig(megabytes=0.1)),
    )
    replay.add(episode)
    assert (replay.state()["seconds"] == seconds).all()
    assert row_bytes(P, W, A) == old_bytes + 4 * P
    with pytest.raises(ValueError, match=r"episode.seconds: expected float32 \[9, 3\]"):
        replay.add(replace(episode, seconds=seconds[:5]))


STEP_FIELDS = [f.name for f in schema(DECISION)]


def test_every_field_is_declared_once_with_the_type_of_its_annotation() -> None:
    hints = get_type_hints(Episode)
    declared = schema(DECISION, EPISODE)
    assert [f.name for f in declared] == [f.name for f in fields(Episode)] == list(hints)
    for f in declared:
        kind = hints[f.name] if hints[f.name] is bool else get_args(get_args(hints[f.name])[1])[0]
        assert np.dtype(kind) == f.dtype, f.name
        assert set(f.dims) <= {"P", "W", "A", "S"}
        assert f.meaning
        assert f.past_end in (REPEATED, ZERO, RULES, UNUSED)
    names = [f.name for f in schema(DECISION, EPISODE, RING)]
    assert len(set(names)) == len(names)


def test_windows_past_the_end_contain_what_the_schema_says() -> None:
    """For each field that targets are made from: past the end its last value, zero, or what the phase table says."""
    e = make_episode(TURNS, REWARDS, VALUES, RANKS, outcome=[1, 2, 1, 2])
    luck = np.array([[0.0, 0.5, 0.9, 0.1]])
    found = unroll(ring_rows(e, e.rewards + 1), np.array([3]), "root", one_phase(), luck)
    past = {f.name: f.past_end for f in schema(DECISION, EPISODE, RING)}
    zero = {"rewards": found.reward, "policy": found.policy, "returns": found.value, "has_policy": found.policy_mask}
    zero["outcome"] = found.outcomes
    for name, array in zero.items():
        assert past[name] == ZERO
        assert array[0, 0].any(), name
        assert not array[0, 1:].any(), name
    repeated = {"ranks": found.rank, "truncated": found.outcome_mask}
    for name, array in repeated.items():
        assert past[name] == REPEATED
        assert (array[0, 1:] == array[0, 0]).all(), name
    assert past["action"] == past["to_play"] == past["phase"] == RULES
    assert found.actions.tolist() == [[3, 2, 4]], "each of the five possible actions with the same probability"
    assert found.to_play.tolist() == [[0, 1, 2, 0]]
    assert past["scores"] == past["final_scores"] == UNUSED
    assert found.points[0, 0].any()
    assert not found.points[0, 1:].any()
    assert past["obs"] == past["hidden"] == REPEATED, "see the test of batches"


def test_rows_of_an_episode_repeat_what_it_has_once() -> None:
    for e in (
        make_episode(TURNS, REWARDS, VALUES, RANKS),
        make_episode(TURNS, REWARDS, VALUES, [0, 0, 0], last_values=[1, 2, 3]),
    ):
        rows = ring_rows(e, e.rewards, begin=5)
        assert list(rows) == [f.name for f in schema(DECISION, EPISODE, RING)]
        for f in schema(DECISION, EPISODE, RING):
            assert rows[f.name].shape == (4, *f.shape(3, 3, 5)), f.name
            assert rows[f.name].dtype == f.dtype, f.name
        assert (rows["ranks"] == ([1, 1, 1] if e.truncated else RANKS)).all()
        assert (rows["last_values"] == e.last_values).all()
        assert (rows["begin"].tolist(), rows["end"].tolist()) == ([5] * 4, [9] * 4)
        assert np.shares_memory(rows["obs"], e.obs), "no copy of observations"


# ---- the buffer of self-play -------------------------------------------------------------------------------------


def play(buffer: TrajectoryBuffer, games: list[list[Episode]]) -> dict[int, list[Episode]]:
    """Write games, a list for each table, in lockstep; returns those that the buffer gives back, by table."""
    found: dict[int, list[Episode]] = {table: [] for table in range(len(games))}
    places = [(0, 0)] * len(games)  # game and decision of each table
    while all(game < len(own) for (game, _), own in zip(places, games, strict=True)):
        now = [own[game] for (game, _), own in zip(places, games, strict=True)]
        step = {
            f.name: np.stack([getattr(e, f.name)[t] for e, (_, t) in zip(now, places, strict=True)])
            for f in schema(DECISION)
        }
        seen = ("obs", "legal", "to_play", "phase")
        buffer.write(**{name: step[name] for name in seen})
        buffer.write(**{name: array for name, array in step.items() if name not in seen})
        buffer.advance()
        for table, e in enumerate(now):
            game, t = places[table]
            if t + 1 == len(e):
                found[table].append(buffer.take(table, e.ranks, e.truncated, e.final_scores))
            places[table] = (game + 1, 0) if t + 1 == len(e) else (game, t + 1)
    return found


def assert_same_games(found: list[Episode], expected: list[Episode]) -> None:
    for one, other in zip(found, expected, strict=False):
        for f in schema(DECISION):
            assert getattr(one, f.name).tobytes() == getattr(other, f.name).tobytes(), f.name
        assert (one.ranks.tolist(), one.truncated) == (other.ranks.tolist(), other.truncated)
        assert one.final_scores.tolist() == other.final_scores.tolist()
        one.check()


@pytest.mark.parametrize("longest", [8, 400])
def test_games_come_out_as_they_were_written_whatever_the_room(longest: int) -> None:
    """With little room, old steps are dropped, and the room doubles when games are longer."""
    rng = np.random.default_rng(longest)
    lengths = [[5, 40, 3, 60, 7], [100, 20], [1, 1, 30, 30, 30, 30]]
    games = [[random_episode(rng, n, P, W, A) for n in own] for own in lengths]
    buffer = TrajectoryBuffer(3, P, W, A, longest)
    found = play(buffer, games)
    assert sum(len(own) for own in found.values()) >= 11
    for table, own in found.items():
        assert_same_games(own, games[table])


def test_episodes_are_copies() -> None:
    rng = np.random.default_rng(1)
    game, other = random_episode(rng, 5, P, W, A), random_episode(rng, 5, P, W, A)
    buffer = TrajectoryBuffer(1, P, W, A, longest=4)
    found = play(buffer, [[game, other, other, other]])[0]
    assert_same_games(found, [game, other, other, other])
    assert not any(np.shares_memory(found[0].obs, array) for array in buffer._arrays.values())


def test_a_truncated_game_ends_with_the_latest_known_values() -> None:
    e = make_episode(TURNS, REWARDS, [[1, NAN, NAN], [2, 5, NAN], [NAN, 6, NAN], [NAN, NAN, NAN]], [1, 1, 1], [0, 0, 0])
    buffer = TrajectoryBuffer(1, 3, 3, 5, longest=10)
    assert play(buffer, [[e]])[0][0].last_values.tolist() == [2, 6, 0]


def test_a_restored_buffer_continues_games_in_progress() -> None:
    rng = np.random.default_rng(2)
    games = [[random_episode(rng, n, P, W, A) for n in own] for own in ([10, 30], [12, 5, 30])]
    buffer, other = (TrajectoryBuffer(2, P, W, A, longest=20) for _ in range(2))
    first = [own[0] for own in games]
    for t in range(10):
        buffer.write(**{name: np.concatenate([step_of(e, t)[name] for e in first]) for name in STEP_FIELDS})
        buffer.advance()
    buffer.take(0, first[0].ranks, first[0].truncated, first[0].final_scores)
    state = buffer.state()
    other.load({name: array.copy() for name, array in state.items()})
    assert other.begun.tolist() == [10, 0]
    for t in (10, 11):
        for one in (buffer, other):
            step = [step_of(games[0][1], t - 10), step_of(first[1], t)]
            one.write(**{name: np.concatenate([part[name] for part in step]) for name in STEP_FIELDS})
            one.advance()
    for one in (buffer, other):
        assert_same_games([one.take(1, first[1].ranks, first[1].truncated, first[1].final_scores)], [first[1]])


def test_a_state_of_another_shape_is_refused_and_changes_nothing() -> None:
    buffer = TrajectoryBuffer(2, P, W, A, longest=20)
    before = buffer.state()
    with pytest.raises(ValueError, match=r"self-play obs: expected int16 \[0, 2, 4\], got 'int16 \[0, 2, 5\]'"):
        buffer.load(TrajectoryBuffer(2, P, W + 1, A, longest=20).state())
    with pytest.raises(ValueError, match=r"self-play obs: expected int16 \[0, 2, 4\], got 'int16 \[0, 3, 4\]'"):
        buffer.load(TrajectoryBuffer(3, P, W, A, longest=20).state())
    assert all(buffer.state()[name].tobytes() == array.tobytes() for name, array in before.items())


# ---- masks -------------------------------------------------------------------------------------------------------


def test_legal_masks_survive_packing() -> None:
    legal = np.zeros((2, 64), np.bool_)
    legal[0, [0, 2]] = legal[1, [1, 63]] = True
    assert pack_legal(legal).tolist() == [0b101, 2**63 + 2]
    assert (unpack_legal(pack_legal(legal), 64) == legal).all()
    assert unpack_legal(np.array([0b101], np.uint64), 4).tolist() == [[True, False, True, False]]
    with pytest.raises(ValueError, match="at most 64"):
        pack_legal(np.zeros((1, 65), np.bool_))


# ---- episodes ----------------------------------------------------------------------------------------------------


def test_an_episode_knows_its_length_and_players() -> None:
    e = make_episode(TURNS, REWARDS, VALUES, RANKS)
    assert (len(e), e.num_players) == (4, 3)


def test_bytes_of_a_row_are_those_of_all_fields() -> None:
    # Per decision: obs 3 x 2, legal 8, action 2, to_play, phase, has_policy, explored and outcome 1, policy 5 x 4;
    # rewards, luck, values and scores 3 x 4 each. Per episode: ranks 3, truncated 1, last_values and final_scores
    # 3 x 4 each.
    # In the ring: returns 3 x 4, begin 8, end 8.
    assert row_bytes(3, 3, 5) == (6 + 8 + 2 + 5 + 20 + 48) + (3 + 1 + 24) + (12 + 8 + 8)
    assert row_bytes(3, 3, 5, 24) == row_bytes(3, 3, 5) + 24, "a byte for each hidden card"


def test_good_episodes_pass_the_check() -> None:
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
        ("hidden", np.zeros(4, np.int8), "episode.hidden: expected two dimensions"),
        ("hidden", np.zeros((3, 2), np.int8), r"episode.hidden: expected int8 \[4, 2\], got 'int8 \[3, 2\]'"),
        ("hidden", np.zeros((4, 2)), r"episode.hidden: expected int8 \[4, 2\], got 'float64"),
        ("has_policy", np.ones(4, np.int8), "episode.has_policy: expected bool"),
        ("values", np.full((4, 3), np.inf, np.float32), "episode.values: expected numbers or NaN"),
        ("values", np.full((4, 3), -np.inf, np.float32), "episode.values: expected numbers or NaN"),
        ("values", np.zeros((4, 3)), "episode.values: expected float32"),
        ("ranks", np.array([2, 3, 3], np.int8), "episode.ranks: expected 1 for the best"),
        ("ranks", np.array([1, 1, 2], np.int8), "episode.ranks: expected 1 for the best"),
        ("last_values", floats([0, 0, 1]), "episode.last_values: expected zeros for a game that ended"),
        ("last_values", floats([0, 0, NAN]), "episode.last_values: expected finite numbers"),
        ("last_values", None, "episode.last_values: expected float32"),
    ],
)
def test_a_bad_field_is_refused_by_name(field: str, value: Any, message: str) -> None:
    e = make_episode(TURNS, REWARDS, VALUES, RANKS)
    e.check()
    with pytest.raises(ValueError, match=message):
        replace(e, **{field: value}).check()


def test_an_episode_without_decisions_is_refused() -> None:
    e = make_episode(TURNS, REWARDS, VALUES, RANKS)
    names = [f.name for f in schema(DECISION)]
    with pytest.raises(ValueError, match="at least one decision"):
        replace(e, **{name: getattr(e, name)[:0] for name in names}).check()
