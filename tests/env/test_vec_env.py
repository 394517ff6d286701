"""VecEnv: determinism, buffers, automatic reset, saved states and errors, for every game."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import env
from tests.env.cases import CASES, Case

per_game = pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)

BUFFERS = ("obs", "legal", "legal_bits", "to_play", "phase", "rewards", "scores", "ranks", "done", "truncated", "stats")


def snapshot(tables: env.VecEnv, rows: slice = slice(None)) -> list[bytes]:
    """The bytes of every buffer."""
    return [getattr(tables, name)[rows].tobytes() for name in BUFFERS]


def record(tables: env.VecEnv, steps: int, rows: slice = slice(None)) -> list[list[bytes]]:
    """The bytes of every buffer after each of some random steps."""
    history = [snapshot(tables, rows)]
    for _ in range(steps):
        tables.step(tables.sample_actions(seed=5))
        history.append(snapshot(tables, rows))
    return history


# ------------------------------------------------------------------------------------------- determinism


@per_game
def test_the_same_key_gives_the_same_game_for_any_batch_and_threads(case: Case) -> None:
    """Longer than an episode, so that automatic resets are in it."""
    for players in case.players:
        alone = record(env.make(case.game, 1, players, seed=3), 400)
        crowd = record(env.make(case.game, 33, players, seed=3, threads=1), 400, slice(0, 1))
        threads = record(env.make(case.game, 70, players, seed=3, threads=3), 400, slice(0, 1))
        assert alone == crowd == threads


@per_game
def test_a_table_of_a_batch_is_the_deal_of_its_number(case: Case) -> None:
    tables = env.make(case.game, 5, seed=3)
    single = env.make(case.game, 1, seed=99)
    single.reset(seed=3, deals=[4])
    assert record(tables, 50, slice(4, 5)) == record(single, 50)


@per_game
def test_threads_change_nothing(case: Case) -> None:
    """Enough tables that every thread gets some; all rows of everything that is computed in parallel."""
    B, P = 1500, case.some_players(2, 3)[-1]
    seen = []
    for threads in (1, 2, 3, 7):
        tables = env.make(case.game, B, P, seed=3, threads=threads)
        tables.random_steps(40)
        parts = record(tables, 20)
        tables.random_steps(25, write=False)
        bots = [tables.bot(name) for name in list(tables.bots)[:P]]
        parts.append([tables.bot_actions(bots, seed=1).tobytes(), tables.observe(1).tobytes()])
        copy = env.make(case.game, B, P, threads=threads, auto_reset=False)
        copy.copy_from(tables, np.arange(B)[::-1])
        copy.determinize(0, seed=4)
        parts.append(snapshot(copy))
        copy.playout(bots, seed=2)
        parts.append(snapshot(copy))
        seen.append(parts)
    assert seen[0] == seen[1] == seen[2] == seen[3]


@per_game
def test_other_seeds_deals_and_episodes_are_other_games(case: Case) -> None:
    """In games with few deals all of them occur, and other seeds and episodes give them in another order."""
    first, other = env.make(case.game, 64, seed=0), env.make(case.game, 64, seed=1)
    starts = [[str(tables.inspect(i)) for i in range(64)] for tables in (first, other)]
    different = {start for batch in starts for start in batch}
    assert len(different) == (case.deals or 128)
    fresh: dict[int, str] = {}
    while len(fresh) < 64:
        first.step(first.sample_actions(1))
        fresh.update({int(i): str(first.inspect(i)) for i in np.flatnonzero(first.done) if i not in fresh})
    later = [fresh[i] for i in range(64)]
    assert later != starts[0] != starts[1] != later
    if not case.deals:
        assert not set(later) & different


@per_game
def test_core_steps_equal_python_steps(case: Case) -> None:
    """random_steps, with and without writing buffers, is sample_actions and step."""
    by_hand, inside, silent = (env.make(case.game, 16, seed=2) for _ in range(3))
    for _ in range(300):
        by_hand.step(by_hand.sample_actions(seed=5))
    inside.random_steps(300, seed=5)
    silent.random_steps(300, seed=5, write=False)
    assert snapshot(by_hand) == snapshot(inside)
    assert [by_hand.save(i) for i in range(16)] == [silent.save(i) for i in range(16)]


@per_game
def test_play_equals_stepping_with_bots(case: Case) -> None:
    """Whole games inside the core equal driving the batch with bot_actions, for any thread count."""
    for players in case.players[:2]:
        tables = env.make(case.game, 20, players, seed=7, auto_reset=False)
        bots = [tables.bot(list(tables.bots)[seat % len(tables.bots)], epsilon=0.1) for seat in range(players)]
        while not tables.done.all():
            tables.step(tables.bot_actions(bots, seed=4))
        for threads in (1, 2):
            played = env.make(case.game, 1, players, seed=7, threads=threads).play(bots, 20, seed=4)
            assert (played.scores == tables.scores).all()
            assert (played.truncated == tables.truncated).all()
            assert (np.stack(list(played.stats.values()), 1) == tables.stats).all()


# --------------------------------------------------------------------------------- buffers and description


@per_game
def test_packed_masks_are_the_legal_actions(case: Case) -> None:
    """At every step, after a reset and with a buffer of the caller's."""
    packed = np.zeros(16, np.uint64)
    tables = env.make(case.game, 16, seed=1, buffers={"legal_bits": packed})
    assert tables.legal_bits is packed
    actions = np.arange(tables.num_actions, dtype=np.uint64)
    for step in range(120):
        assert ((packed[:, None] >> actions & np.uint64(1)).astype(bool) == tables.legal).all()
        assert packed.any()
        tables.step(tables.sample_actions(2))
        if step == 60:
            tables.reset(seed=4)


@per_game
def test_a_finished_table_has_no_packed_legal_action(case: Case) -> None:
    tables = env.make(case.game, 4, rules=case.short, seed=1, auto_reset=False)
    while not tables.done.all():
        tables.step(tables.sample_actions(2))
    assert not tables.legal_bits.any()


@per_game
def test_bots_take_packed_masks(case: Case) -> None:
    tables = env.make(case.game, 64, seed=1)
    tables.random_steps(5)
    for name in tables.bots:
        chosen = [tables.bot(name, seed=3).act(tables.obs, mask) for mask in (tables.legal, tables.legal_bits)]
        assert chosen[0].tolist() == chosen[1].tolist()
    with pytest.raises(ValueError, match="legal: expected a contiguous uint64 array of shape"):
        tables.bot(name).act(tables.obs, tables.legal_bits[:3])


@per_game
def test_caller_owned_buffers_are_written_in_place(case: Case) -> None:
    plain = env.make(case.game, 8, seed=1)
    big = np.full((20, plain.width), -7, np.int16)
    rewards = np.full((8, 2), -7, np.float32)
    tables = env.make(case.game, 8, seed=1, buffers={"obs": big[4:12], "rewards": rewards})
    assert tables.rewards is rewards
    for _ in range(50):
        plain.step(plain.sample_actions(1))
        tables.step(tables.sample_actions(1))
    assert (big[4:12] == plain.obs).all()
    assert (rewards == plain.rewards).all()
    assert (np.delete(big, range(4, 12), axis=0) == -7).all(), "nothing outside the buffer is touched"


@per_game
@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "obs",
            np.zeros((8, 3), np.int16),
            r"obs: expected a contiguous int16 array of shape \(8, \d+\), got int16",
        ),
        ("legal", np.zeros((8, 16), np.float32), "legal: expected a contiguous bool array"),
        ("done", np.zeros(16, np.bool_)[::2], "got non-contiguous bool of shape"),
        ("actions", np.zeros(8, np.int64), "no buffer is called 'actions'"),
        ("phase", [0] * 8, "phase: expected a writable array"),
    ],
)
def test_wrong_buffers_are_refused(case: Case, name: str, array: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make(case.game, 8, buffers={name: array})


@per_game
def test_read_only_buffers_are_refused(case: Case) -> None:
    array = np.zeros((8, 2), np.float32)
    array.setflags(write=False)
    with pytest.raises(ValueError, match="rewards: expected a writable array"):
        env.make(case.game, 8, buffers={"rewards": array})


@per_game
@pytest.mark.parametrize("counts", [True, False])
def test_observations_stay_within_their_spec(case: Case, counts: bool) -> None:
    for players in case.players:
        tables = env.make(case.game, 64, players, seed=1, counts=counts)
        assert tables.groups[-1].offset + tables.groups[-1].count * len(tables.groups[-1].fields) == tables.width
        assert ("counts" in [group.name for group in tables.groups]) == counts
        limit = np.concatenate([np.tile([f.vocabulary for f in g.fields], g.count) for g in tables.groups])
        for _ in range(300):
            tables.step(tables.sample_actions(2))
            assert (tables.obs >= 0).all()
            assert (tables.obs < limit).all()


@per_game
def test_counts_are_the_last_tokens_and_change_nothing_else(case: Case) -> None:
    with_counts = env.make(case.game, 8, seed=1)
    without = env.make(case.game, 8, seed=1, counts=False)
    for _ in range(100):
        assert (with_counts.obs[:, : without.width] == without.obs).all()
        seats = with_counts.to_play
        assert (with_counts.obs[:, without.width :] == with_counts.unseen_counts(seats).reshape(8, -1)).all()
        with_counts.step(with_counts.sample_actions(1))
        without.step(without.sample_actions(1))


@per_game
def test_every_legal_action_is_possible_by_the_phase_table(case: Case) -> None:
    """Every action that is legal in a phase is possible there by the table."""
    for rules in case.rules.values():
        tables = env.make(case.game, 32, rules=rules, seed=1)
        table = np.array([[rule.possible for rule in row] for row in tables.info.phase_table])
        for _ in range(200):
            over = ~tables.legal.any(axis=1)
            assert (table[tables.phase] | ~tables.legal | over[:, None]).all()
            tables.step(tables.sample_actions(2))


@per_game
def test_the_phase_table_gives_what_usually_follows(case: Case) -> None:
    """Under the default rules an action leads where the table says, except where a round ends or the case says."""
    for players in case.players[:2]:
        tables = env.make(case.game, 64, players, seed=1, auto_reset=False)
        rules = tables.info.phase_table
        right = wrong = deal = 0
        while not tables.done.all() or right <= 1000:
            if tables.done.all():  # short games: go on with other deals
                deal += 64
                tables.reset(deals=range(deal, deal + 64))
            phase, mover, scores = tables.phase.copy(), tables.to_play.copy(), tables.scores.copy()
            usual = np.array([case.usual(tables.inspect(i)) for i in range(tables.num_envs)])
            actions = tables.sample_actions(2)
            tables.step(actions)
            goes_on = usual & (actions != env.SKIP) & ~tables.done & (tables.scores == scores).all(1)
            for i in np.flatnonzero(goes_on):
                rule = rules[phase[i]][actions[i]]
                expected = (mover[i] + rule.turn_passes) % players
                same = rule.possible and rule.next_phase == tables.phase[i] and expected == tables.to_play[i]
                right, wrong = right + same, wrong + (not same)
        assert right > 1000
        assert wrong == 0


def test_shapes_of_skyjos_actions_by_hand() -> None:
    info = env.make("skyjo").info
    shapes = [(shape.kind, [tuple(pair) for pair in shape.slots]) for shape in info.action_shapes]
    assert shapes[:4] == [(0, []), (1, []), (2, []), (3, [])]
    assert shapes[4] == (4, [(0, 0), (4, 1), (8, 1)])
    assert shapes[4 + 6] == (4, [(6, 0), (2, 1), (10, 1)])
    assert shapes[15] == (4, [(11, 0), (3, 1), (7, 1)])
    assert [list(block) for block in info.symmetric_blocks] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]


@per_game
def test_rewards_of_an_episode_sum_up_to_the_result(case: Case) -> None:
    """Each of k winners gets 2 / k - 1 and everybody else -1, for every number of players; games of chips pay those."""
    for players in case.players:
        tables = env.make(case.game, 40, players, seed=6, auto_reset=False)
        earned = np.zeros((40, players), np.float32)
        while not tables.done.all():
            tables.step(tables.sample_actions(3))
            earned += tables.rewards
        best = tables.ranks == 1
        expected = np.where(best, 2 / best.sum(1, keepdims=True) - 1, -1)
        if not case.ties_win:
            expected[best.all(1)] = 0
        if case.chips:
            expected = -tables.scores / case.chips
        assert earned[~tables.truncated] == pytest.approx(expected[~tables.truncated], abs=1e-5)


@per_game
def test_a_skipped_table_reports_no_reward_and_no_end(case: Case) -> None:
    """The table was reset after its episode; a skip reports neither rewards nor the end of that episode."""
    tables = env.make(case.game, 1, rules=case.short, seed=2)
    while not tables.done[0]:
        tables.step(tables.sample_actions(1))
    assert tables.rewards.any()
    tables.step([env.SKIP])
    assert not tables.done[0]
    assert not tables.rewards.any()


@per_game
def test_determinize_updates_the_buffers(case: Case) -> None:
    tables = env.make(case.game, 64, 2, seed=1)
    tables.random_steps(12)
    tables.determinize(1, seed=5)
    assert (tables.obs == np.where((tables.to_play == 0)[:, None], tables.observe(0), tables.observe(1))).all()


@per_game
def test_last_event_does_not_depend_on_hidden_cards(case: Case) -> None:
    players = case.some_players(2, 3)[-1]
    tables = env.make(case.game, 200, players, seed=1)
    other = env.make(case.game, 200, players)
    told = set()
    for step in range(60):
        tables.step(tables.sample_actions(1))
        before = [tables.last_event(i) for i in range(200)]
        told |= set(before)
        for seat in range(players):
            other.copy_from(tables, range(200))
            other.determinize(seat, seed=step)
            assert [other.last_event(i) for i in range(200)] == before
    assert len(told) >= case.events


# ----------------------------------------------------------------------------------------------- errors


@per_game
def test_an_illegal_action_names_the_table_and_moves_nothing(case: Case) -> None:
    tables = env.make(case.game, 6, seed=1, threads=2)
    tables.random_steps(17)
    before, states = snapshot(tables), [tables.save(i) for i in range(6)]
    for wrong in (*np.flatnonzero(~tables.legal[4])[:1], 64, -2, 2**40):
        actions = tables.sample_actions(1)
        actions[4] = wrong
        with pytest.raises(ValueError, match=f"table 4: illegal action {wrong}.* in phase .*legal:"):
            tables.step(actions)
        assert snapshot(tables) == before
        assert [tables.save(i) for i in range(6)] == states


@per_game
def test_a_finished_table_accepts_only_skip(case: Case) -> None:
    tables = env.make(case.game, 2, seed=1, auto_reset=False)
    while not tables.done[1]:
        actions = tables.sample_actions(1)
        actions[0] = env.SKIP
        tables.step(actions)
    assert not tables.legal[1].any()
    actions = tables.sample_actions(1)
    assert actions[1] == env.SKIP
    tables.step(actions)
    actions[:] = [env.SKIP, 0]
    with pytest.raises(ValueError, match="table 1: the game is over"):
        tables.step(actions)
    tables.reset(tables=[1], deals=[77])
    assert not tables.done[1]
    assert tables.legal[1].any()


@per_game
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (
            np.zeros(3, np.int64),
            r"actions: expected a contiguous int64 array of shape \(4,\), got int64 of shape \(3,\)",
        ),
        (np.zeros((4, 1), np.int64), r"got int64 of shape \(4, 1\)"),
        (np.zeros(4, np.float32), "got float32"),
        (np.zeros(8, np.int64)[::2], "got non-contiguous int64"),
    ],
)
def test_wrong_actions_arrays_are_refused(case: Case, actions: NDArray[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make(case.game, 4).step(actions)


@per_game
def test_int32_actions_and_lists_work(case: Case) -> None:
    tables, other, third = (env.make(case.game, 4, seed=1) for _ in range(3))
    actions = tables.sample_actions(1)
    tables.step(actions)
    other.step(actions.astype(np.int32))
    third.step(actions.tolist())
    assert snapshot(tables) == snapshot(other) == snapshot(third)


@per_game
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs: expected 1 to"),
        ({"num_players": 1}, "num_players: expected 2 to"),
        ({"threads": 0}, "threads: expected 1 to"),
        ({"seed": -1}, "seed: expected 0 to"),
        ({"rules": "nonsense"}, "rule 'preset': expected one of official.* got 'nonsense'"),
        ({"rules": {"nonsense": 1}}, "rule 'nonsense': expected one of .* got an unknown option"),
        ({"rules": {"max_decisions": None}}, "rule 'max_decisions': expected .* got None"),
        ({"rules": {"max_decisions": "many"}}, "rule 'max_decisions': expected an integer"),
    ],
)
def test_bad_arguments_are_refused_by_name(case: Case, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make(case.game, **arguments)


def test_an_unknown_game_is_refused() -> None:
    with pytest.raises(ValueError, match="no game is called 'chess'; there are: skyjo"):
        env.make("chess")


@per_game
def test_bad_tables_and_seats_are_refused(case: Case) -> None:
    tables = env.make(case.game, 4)
    with pytest.raises(IndexError, match="table 4: expected 0 to 3"):
        tables.reset(tables=[4])
    with pytest.raises(ValueError, match="deals: expected 4, got 2"):
        tables.reset(deals=[0, 1])
    with pytest.raises(ValueError, match="seat 2: expected 0 to 1"):
        tables.observe(2)
    with pytest.raises(IndexError, match="table 3: seat -1, expected 0 to 1"):
        tables.observe(np.array([0, 0, 0, -1], np.int8))
    with pytest.raises(ValueError, match=r"rows: expected 4, got 1"):
        tables.copy_from(env.make(case.game, 4), [0])
    for other in (env.make(case.game, 4, rules=case.short), *(env.make(case.game, 4, p) for p in case.some_players(3))):
        with pytest.raises(ValueError, match="same game with the same rules and number of players"):
            tables.copy_from(other, [0] * 4)


# --------------------------------------------------------------------------------------------- saved states


@per_game
def test_saved_states_continue_like_the_original(case: Case) -> None:
    tables = env.make(case.game, 3, seed=1)
    tables.random_steps(40)
    tables.stats[:] = 0  # a saved state knows nothing of the episode before
    other = env.make(case.game, 3, seed=2)
    for i in range(3):
        other.load(i, tables.save(i))
    assert record(tables, 500)[1:] == record(other, 500)[1:], "automatic resets included"


@per_game
def test_corrupt_or_foreign_states_are_refused(case: Case) -> None:
    tables = env.make(case.game, 1, seed=1)
    tables.random_steps(30)
    blob = tables.save(0)
    for at in range(0, len(blob), 7):
        broken = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]
        with pytest.raises(ValueError, match="saved state refused"):
            tables.load(0, broken)
    for wrong, message in ((b"", "expected .* bytes, got 0"), (blob + b"x", "bytes"), (blob[:-1], "bytes")):
        with pytest.raises(ValueError, match=message):
            tables.load(0, wrong)
    assert tables.save(0) == blob
    for players in case.some_players(3):
        with pytest.raises(ValueError, match="it has 2 players, this environment 3"):
            env.make(case.game, 1, players).load(0, blob)
    foreign = env.make(next(name for name in env.games() if name != case.game), 1)
    with pytest.raises(ValueError, match=r"expected \d+ bytes, got"):
        foreign.load(0, blob)
    with pytest.raises(ValueError, match="other rules"):
        env.make(case.game, 1, 2, case.short).load(0, blob)


@per_game
def test_copied_tables_are_independent(case: Case) -> None:
    source = env.make(case.game, 4, seed=1)
    source.random_steps(25)
    copy = env.make(case.game, 6, seed=9)
    copy.copy_from(source, [3, 3, 0, 1, 2, 3])
    assert copy.save(0) == copy.save(1) == source.save(3)
    assert copy.obs[2].tobytes() == source.obs[0].tobytes()
    copy.random_steps(10)
    assert copy.save(0) != source.save(3)


# ------------------------------------------------------------------------------------ threads and processes


@per_game
def test_a_second_python_thread_is_refused(case: Case) -> None:
    tables = env.make(case.game, 2048, seed=1)
    refused = []

    def work() -> None:
        for _ in range(200):
            try:
                tables.random_steps(5)
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"this environment is in use by another thread"}
    for i in range(2048):
        tables.load(i, tables.save(i))  # every table is still a state of the game


@per_game
def test_a_forked_process_continues_alone(case: Case) -> None:
    """The pool's threads stay with the parent; results are the same, and the child can end."""
    program = f"""
import os, env
tables = env.make({case.game!r}, 1024, seed=1, threads=3)
tables.random_steps(10)
child = os.fork()
tables.random_steps(10)
tables.step(tables.sample_actions(1))
print(f"{{hash(tables.obs.tobytes())}}\\n", end="", flush=True)  # in one write, for both share the pipe
if child:
    os.waitpid(child, 0)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    lines = run.stdout.split()
    assert len(lines) == 2
    assert lines[0] == lines[1]


@per_game
def test_ctrl_c_interrupts_long_work(case: Case) -> None:
    program = f"""
import signal
import env
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let their background jobs ignore it
tables = env.make({case.game!r}, 256, seed=1)
bots = [tables.bot(next(iter(tables.bots)))] * 2
print("ready", flush=True)
try:
    while True:
        tables.play(bots, 1 << 18)
except KeyboardInterrupt:
    print("heard", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "heard\n"
