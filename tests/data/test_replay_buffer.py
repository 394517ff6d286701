"""muzero.data.replay_buffer: which episodes are kept, how often positions are drawn, and what batches contain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from muzero.config import Config, LearnerConfig, ReplayConfig, SearchConfig
from muzero.data.replay_buffer import Batch, ReplayBuffer, bytes_needed, megabytes_needed
from muzero.data.returns import lambda_returns, n_step_returns
from muzero.data.sum_tree import FAN
from muzero.data.trajectory import Episode
from tests.data.episodes import assert_window, one_phase, random_episode, random_moves, slow_returns, slow_window

P, W, A, F, S = 3, 4, 6, 3, 2
STEPS, DISCOUNT = 3, 0.9
MOVES = random_moves(np.random.default_rng(9), A, F)


# Names of the settings that are not under `replay`, and the groups and names that they have in the configuration.
ELSEWHERE = {"unroll": ("learner", "unroll"), "steps": ("learner", "td_steps"), "discount": ("search", "discount")}
ELSEWHERE["td_lambda"] = "learner", "td_lambda"


def make(capacity: int = 64, **settings: Any) -> ReplayBuffer:
    """Buffer for this many decisions; settings of the configuration are given by name, all others are arguments."""
    given: dict[str, Any] = {"unroll": 4, "steps": STEPS, "discount": DISCOUNT, "stratify": 0.0, "alpha": 0.0}
    given |= {"num_players": P, "width": W, "num_actions": A, "num_phases": F, "frame": "mover", "moves": MOVES}
    given |= {"num_slots": S, "megabytes": bytes_needed(capacity, P, W, A, F, S) / 2**20, **settings}
    sections: dict[str, Any] = {"replay": ReplayConfig(), "learner": LearnerConfig(), "search": SearchConfig()}
    for name in list(given):
        section, key = ELSEWHERE.get(name, ("replay", name))
        if hasattr(sections[section], key):
            sections[section] = replace(sections[section], **{key: given.pop(name)})
    return ReplayBuffer(config=Config(**sections), **given)


def game(length: int, seed: int = 0) -> Episode:
    return random_episode(np.random.default_rng([seed, length]), length, P, W, A, F, S)


def filled(lengths: list[int], capacity: int = 64, **settings: Any) -> tuple[ReplayBuffer, dict[int, Episode]]:
    """A buffer and the episodes it was given, by stamp."""
    replay = make(capacity, **settings)
    games = [game(length, seed) for seed, length in enumerate(lengths)]
    return replay, {replay.add(e): e for e in games}


def contents(replay: ReplayBuffer) -> list[tuple[int, int, int]]:
    """(stamp, first row, length) of the episodes stored, oldest first."""
    found = replay.sample_positions(len(replay), np.random.default_rng(0))
    assert len(set(found.index)) == len(replay)
    stamps = [int(stamp) for stamp in np.unique(found.stamp)]
    rows = [np.sort(found.index[found.stamp == stamp]) for stamp in stamps]
    for own in rows:
        assert (np.diff(own) == 1).all(), "split"
    return [(stamp, int(own[0]), len(own)) for stamp, own in zip(stamps, rows, strict=True)]


def same(one: Any, other: Any) -> bool:
    """Whether all arrays of two objects have the same bytes."""
    one, other = (x if isinstance(x, dict) else vars(x) for x in (one, other))
    assert one.keys() == other.keys()
    return all(one[k].dtype == other[k].dtype and one[k].tobytes() == other[k].tobytes() for k in one)


def many(replay: ReplayBuffer, draws: int, batch: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and weights of many samples [draws, batch]."""
    rng = np.random.default_rng(seed)
    samples = [replay.sample(batch, rng) for _ in range(draws)]
    return np.stack([s.index for s in samples]), np.stack([s.weights for s in samples]).astype(np.float64)


def frequencies(replay: ReplayBuffer, draws: int, batch: int) -> NDArray[np.float64]:
    """Share of the samples that each row gets [capacity]."""
    rows, _ = many(replay, draws, batch)
    return np.bincount(rows.reshape(-1), minlength=replay.capacity) / rows.size


# ---- the ring ----------------------------------------------------------------------------------------------------


def test_episodes_follow_each_other_until_there_is_no_room() -> None:
    replay = make(64)
    assert (replay.capacity, len(replay), replay.episodes, replay.fill) == (64, 0, 0, 0.0)
    for seed, length in enumerate((20, 20, 20)):
        assert replay.add(game(length, seed)) == seed
    assert contents(replay) == [(0, 0, 20), (1, 20, 20), (2, 40, 20)]
    assert (len(replay), replay.episodes, replay.fill) == (60, 3, 60 / 64)
    replay.add(game(10))  # wraps, and only the oldest is in the way
    assert contents(replay) == [(1, 20, 20), (2, 40, 20), (3, 0, 10)]
    replay.add(game(10))  # fits exactly
    assert contents(replay) == [(1, 20, 20), (2, 40, 20), (3, 0, 10), (4, 10, 10)]
    replay.add(game(21))  # one more than the room of the next
    assert contents(replay) == [(3, 0, 10), (4, 10, 10), (5, 20, 21)]
    replay.add(game(23))  # up to the last row
    assert contents(replay) == [(3, 0, 10), (4, 10, 10), (5, 20, 21), (6, 41, 23)]
    assert replay.fill == 1.0
    replay.add(game(64))
    assert contents(replay) == [(7, 0, 64)]
    replay.add(game(1))
    assert contents(replay) == [(8, 0, 1)]


def test_wrapping_evicts_the_episodes_at_the_end_of_the_ring_first() -> None:
    replay, _ = filled([30, 30, 25, 10])
    assert contents(replay) == [(2, 0, 25), (3, 25, 10)]
    replay, _ = filled([20, 20, 20, 10, 50])  # 10..60 does not reach the end, but nothing of 20..60 can stay
    assert contents(replay) == [(3, 0, 10), (4, 10, 50)]
    replay, _ = filled([20, 20, 20, 10, 60])  # does not fit after the last: the ring begins anew
    assert contents(replay) == [(4, 0, 60)]


def test_any_sequence_of_episodes_leaves_the_latest_ones_whole() -> None:
    rng = np.random.default_rng(1)
    replay, lengths = make(96), []
    for stamp in range(300):
        lengths.append(int(rng.integers(1, 40)) if stamp % 7 else int(rng.integers(40, 97)))
        replay.add(game(lengths[-1], stamp))
        kept = contents(replay)
        assert [k[0] for k in kept] == list(range(stamp + 1 - len(kept), stamp + 1))
        assert all(length == lengths[s] for s, _, length in kept)
        assert (len(replay), replay.episodes) == (sum(k[2] for k in kept), len(kept))
        taken = sorted((first, first + length) for _, first, length in kept)
        assert all(a[1] <= b[0] for a, b in pairwise(taken))
        assert taken[-1][1] <= 96
        drawn = replay.sample(8, rng)
        assert {int(s) for s in drawn.stamp} <= {k[0] for k in kept}


def test_keep_share_keeps_a_share_of_all_decisions_ever_added() -> None:
    replay = make(64, keep_share=0.5, keep_at_least=20)
    sizes = []
    for seed in range(14):
        replay.add(game(5, seed))
        sizes.append(len(replay))
    # All of the first 20 decisions, then half of all, whole games only, and never more than there is room for.
    assert sizes == [5, 10, 15, 20, 20, 20, 20, 20, 20, 25, 25, 30, 30, 35]
    stamps = [stamp for stamp, _, _ in contents(replay)]
    assert stamps == list(range(7, 14))
    again = make(64, keep_share=0.5, keep_at_least=20)
    again.load(replay.state())
    for seed in range(14, 40):
        assert replay.add(game(5, seed)) == again.add(game(5, seed))
        assert same(replay.state(), again.state())
    assert 55 <= len(replay) <= 64


def test_keep_share_always_keeps_the_newest_game() -> None:
    replay = make(64, keep_share=0.01, keep_at_least=1)
    for seed in range(3):
        replay.add(game(9, seed))
        assert [stamp for stamp, _, _ in contents(replay)] == [seed]


def test_the_buffer_is_ready_when_enough_decisions_have_been_added() -> None:
    replay = make(64)
    replay.add(game(20))
    assert replay.ready(20)
    assert not replay.ready(21)
    replay.add(game(40))
    replay.add(game(30))  # 30 decisions are left, and there will not be many more
    assert len(replay) == 30
    assert replay.ready(60)
    assert not replay.ready(91)
    assert not make(64).ready(0)
    windowed = make(640, keep_share=0.15, keep_at_least=10)
    for seed in range(8):
        windowed.add(game(10, seed))
    assert len(windowed) < 20, "the window has let go of the others,"
    assert not windowed.ready(100), "which is not yet the end of the warm-up"


@pytest.mark.parametrize("budget", [10_000, 123_456, 1_000_000])
@pytest.mark.parametrize(("players", "width", "actions", "phases"), [(2, 242, 26, 3), (8, 3, 64, 1), (1, 1, 1, 9)])
def test_the_arrays_fill_the_memory_budget(budget: int, players: int, width: int, actions: int, phases: int) -> None:
    sizes = {"num_players": players, "width": width, "num_actions": actions, "num_phases": phases, "num_slots": S}
    least = bytes_needed(FAN, **sizes)
    if budget < least:
        with pytest.raises(ValueError, match=f"replay.megabytes: expected at least {least / 2**20:.3g}, "):
            make(megabytes=budget / 2**20, **sizes)
        return
    replay = make(megabytes=budget / 2**20, **sizes)
    assert replay.nbytes == bytes_needed(replay.capacity, **sizes) <= budget
    assert bytes_needed(replay.capacity + FAN, **sizes) > budget
    for decisions in (replay.capacity, replay.capacity - FAN + 1):
        assert megabytes_needed(decisions, **sizes) * 2**20 == replay.nbytes


# ---- samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["root", "mover"])
@pytest.mark.parametrize("settings", [{}, {"stratify": 0.5, "alpha": 0.7}])
def test_batches_agree_with_the_episodes(frame: str, settings: dict[str, float]) -> None:
    replay, games = filled([30, 9, 30, 1, 2, 17, 40, 3, 25], 128, frame=frame, **settings)
    first = {stamp: begin for stamp, begin, _ in contents(replay)}
    assert len(first) < len(games)
    value_of = {stamp: slow_returns(games[stamp], STEPS, DISCOUNT, without_luck=True) for stamp in first}
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(10):
        batch = replay.sample(50, rng)
        for row in range(50):
            stamp = int(batch.stamp[row])
            e, t = games[stamp], int(batch.index[row]) - first[stamp]
            assert batch.obs[row].tolist() == [e.obs[min(t + k, len(e) - 1)].tolist() for k in range(5)]
            assert batch.hidden[row].tolist() == [e.hidden[min(t + k, len(e) - 1)].tolist() for k in range(5)]
            assert batch.live[row].tolist() == [t + k < len(e) for k in range(5)]
            assert_window(batch, row, slow_window(e, t, 4, frame, value_of[stamp], MOVES, batch.actions[row]))
            seen.add((stamp, t))
    assert len(seen) > 0.8 * len(replay)


@pytest.mark.parametrize("td_lambda", [0.0, 0.7, 1.0])
def test_value_targets_are_lambda_returns_below_a_weight_of_one(td_lambda: float) -> None:
    replay, games = filled([30, 9], td_lambda=td_lambda)
    batch = replay.sample(50, np.random.default_rng(0))
    first = {stamp: begin for stamp, begin, _ in contents(replay)}
    for row in range(50):
        e, t = games[int(batch.stamp[row])], int(batch.index[row]) - first[int(batch.stamp[row])]
        without_luck = e.rewards - e.luck
        if td_lambda < 1:
            returns = lambda_returns(without_luck, e.values, e.last_values, td_lambda, DISCOUNT, None, e.explored)
        else:
            returns = n_step_returns(without_luck, e.values, e.last_values, STEPS, DISCOUNT, None, e.explored)
        np.testing.assert_allclose(batch.value[row, 0], np.roll(returns[t], -e.to_play[t]), rtol=1e-6)


def test_a_batch_has_the_documented_shapes_and_types() -> None:
    batch = filled([30, 30])[0].sample(7, np.random.default_rng(0))
    shapes: dict[str, tuple[int, ...]] = {"obs": (7, 5, W), "actions": (7, 4), "shifts": (7, 4), "to_play": (7, 5)}
    shapes |= {"value": (7, 5, P), "reward": (7, 4, P), "policy": (7, 5, A), "winner": (7, 5, P), "rank": (7, 5, P, P)}
    shapes |= {"value_mask": (7, 5), "reward_mask": (7, 4), "policy_mask": (7, 5), "outcome_mask": (7, 5)}
    shapes |= {"outcomes": (7, 4), "points": (7, 5, P), "after": (7,), "after_mask": (7,)}
    shapes |= {"live": (7, 5), "weights": (7,), "index": (7,), "stamp": (7,), "hidden": (7, 5, S)}
    assert {name: array.shape for name, array in vars(batch).items()} == shapes
    whole = {"actions", "outcomes", "shifts", "to_play", "after", "index", "stamp"}
    for name, array in vars(batch).items():
        small = {"obs": np.int16, "hidden": np.int8}
        assert array.dtype == small.get(name, np.int64 if name in whole else np.float32), name


def test_actions_past_the_end_are_random() -> None:
    replay = make(moves=one_phase(A))
    only = replace(game(1), action=np.array([2], np.int16), legal=np.array([4], np.uint64))
    replay.add(replace(only, phase=np.zeros(1, np.int8)))
    actions = replay.sample(6000, np.random.default_rng(0)).actions
    assert (actions[:, 0] == 2).all()
    share = np.bincount(actions[:, 1:].reshape(-1), minlength=A) / 18000
    assert share == pytest.approx(np.full(A, 1 / A), abs=0.015)


def test_all_decisions_are_drawn_equally_often_by_default() -> None:
    replay, _ = filled([30, 30, 20, 5])
    share = frequencies(replay, 40, 1100)
    used = np.zeros(64, np.bool_)
    for _, first, length in contents(replay):
        used[first : first + length] = True
    assert (share[~used] == 0).all()
    assert share[used] == pytest.approx(np.full(used.sum(), 1 / used.sum()), rel=0.15)
    assert (replay.sample(50, np.random.default_rng(0)).weights == 1).all()


def phased(counts: list[int]) -> Episode:
    """Episode with the given number of decisions of each phase, in random order."""
    e = game(sum(counts))
    phase = np.repeat(np.arange(len(counts)), counts).astype(np.int8)
    return replace(e, phase=np.random.default_rng(0).permutation(phase))


@pytest.mark.parametrize("stratify", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("counts", [[4, 16, 80], [10, 0, 90]])
def test_stratification_spreads_draws_over_the_phases(stratify: float, counts: list[int]) -> None:
    replay, e = make(128, stratify=stratify), phased(counts)
    replay.add(e)
    share = frequencies(replay, 50, 1000)[: len(e)]
    present = sum(n > 0 for n in counts)
    for phase, n in enumerate(counts):
        expected = stratify * (n > 0) / present + (1 - stratify) * n / 100
        own = share[e.phase == phase]
        assert own.sum() == pytest.approx(expected, abs=0.005)
        assert own == pytest.approx(np.full(n, expected / max(n, 1)), rel=0.25)


def test_every_batch_is_spread_over_the_phases() -> None:
    replay, e = make(128, stratify=1.0), phased([4, 16, 80])
    replay.add(e)
    rng = np.random.default_rng(0)
    orders = []
    for _ in range(20):
        phases = e.phase[replay.sample(90, rng).index]
        assert np.abs(np.bincount(phases) - 30).max() <= 1
        orders.append(np.abs(np.diff(phases)).sum())
    assert min(orders) > 30  # and not sorted by them


def prioritised(alpha: float, **settings: Any) -> tuple[ReplayBuffer, Episode, NDArray[np.float64]]:
    """A buffer with one game of 100 decisions and random priorities; also returns the priorities plus epsilon."""
    replay, e = make(128, alpha=alpha, epsilon=0.01, **settings), phased([4, 16, 80])
    replay.add(e)
    priority = np.random.default_rng(3).random(100) ** 2
    batch = replay.sample_positions(100, np.random.default_rng(0))
    replay.update(batch.index, batch.stamp, priority[batch.index])
    return replay, e, priority + 0.01


def chances(e: Episode, weight: NDArray[np.float64], stratify: float) -> NDArray[np.float64]:
    """Probability of each decision of an episode that is alone in the buffer."""
    own = np.array([weight[e.phase == phase].sum() for phase in range(F)])[e.phase]
    return stratify / F * weight / own + (1 - stratify) * weight / weight.sum()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_draws_follow_the_priorities(alpha: float) -> None:
    replay, _, priority = prioritised(alpha)
    expected = priority**alpha / (priority**alpha).sum()
    share = frequencies(replay, 100, 1000)[:100]
    chi_square = (100_000 * (share - expected) ** 2 / expected).sum()
    assert chi_square < 150  # 99 degrees of freedom: 1 in 1000


@pytest.mark.parametrize("stratify", [0.4, 1.0])
def test_draws_follow_the_priorities_within_phases(stratify: float) -> None:
    replay, e, priority = prioritised(0.8, stratify=stratify)
    expected = chances(e, priority**0.8, stratify)
    share = frequencies(replay, 100, 1000)[:100]
    assert (100_000 * (share - expected) ** 2 / expected).sum() < 150


@pytest.mark.parametrize(("alpha", "stratify"), [(0.0, 0.0), (0.0, 0.7), (0.6, 0.0), (0.6, 0.5), (1.0, 1.0)])
def test_weighted_means_are_those_of_evenly_shared_phases(alpha: float, stratify: float) -> None:
    """Importance weights undo the priorities; the shares of the phases, which are wanted, remain, also with beta 1."""
    replay, e, priority = prioritised(alpha, stratify=stratify)
    number = np.sin(np.arange(100)) - e.phase + 3 * priority  # goes with what makes positions likely
    rows, weights = many(replay, 500, 64)
    means = (weights * number[rows]).mean(1) / weights.mean()
    error = means.std() / np.sqrt(len(means))
    assert error < 0.05
    truth = (chances(e, np.ones(100), stratify) * number).sum()  # as without priorities
    assert means.mean() == pytest.approx(truth, abs=4 * error)
    assert (abs(truth - number.mean()) > 0.2) == (stratify > 0), "the even shares have an effect"


def test_phases_have_even_shares_whatever_their_priorities() -> None:
    """Positions of one phase have a priority ten times as high; with beta 1 each phase has a third of the weight."""
    replay, e = make(128, alpha=1.0, stratify=1.0, beta=1.0), phased([30, 30, 40])
    stamp = replay.add(e)
    priority = np.where(e.phase == 1, 10.0, 1.0) * (1 + np.arange(100) % 3)
    replay.update(np.arange(100), np.full(100, stamp), priority)
    batch = replay.sample(9000, np.random.default_rng(0))
    share = np.bincount(e.phase[batch.index], batch.weights, F) / batch.weights.sum()
    assert share == pytest.approx(np.full(F, 1 / F), abs=0.005)
    assert batch.weights.max() == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_stratification_is_effective_with_any_beta(beta: float) -> None:
    """Every phase has the same part of the weight of a batch, although 80 of 100 decisions are of one phase."""
    replay, e = make(128, stratify=1.0, beta=beta), phased([4, 16, 80])
    replay.add(e)
    batch = replay.sample(900, np.random.default_rng(0))
    share = np.bincount(e.phase[batch.index], batch.weights, F) / batch.weights.sum()
    assert share == pytest.approx(np.full(F, 1 / F), abs=0.01)


def test_importance_weights_are_exact() -> None:
    replay, e, priority = prioritised(0.8, stratify=0.4, beta=0.5)
    batch = replay.sample(500, np.random.default_rng(0))
    ratio = chances(e, np.ones(100), 0.4) / chances(e, priority**0.8, 0.4)
    expected = (ratio / ratio.max()) ** 0.5
    assert batch.weights == pytest.approx(expected[batch.index], rel=1e-5)
    replay.beta = 0.0
    assert (replay.sample(50, np.random.default_rng(0)).weights == 1).all()


def test_new_games_have_the_typical_priority() -> None:
    replay = make(alpha=1.0, epsilon=0.5)
    replay.add(game(4))
    assert weights(replay).tolist() == [1.5] * 4  # nothing is known yet
    for _ in range(400):
        replay.update(np.arange(2), np.zeros(2, np.int64), np.array([7.0, 3.0]))
    replay.add(game(3, 1))
    assert weights(replay) == pytest.approx([7.5, 3.5, 1.5, 1.5, 5.5, 5.5, 5.5])


def weights(replay: ReplayBuffer) -> NDArray[np.float32]:
    return replay.state()["weight"]


def test_updates_of_overwritten_rows_are_ignored() -> None:
    replay, _ = filled([30, 30], alpha=1.0)
    old = replay.sample(40, np.random.default_rng(0))
    replay.add(game(20, 5))  # over the first, whose last 10 rows are now empty
    before = weights(replay)
    gone = old.stamp == 0
    assert 0 < gone.sum() < 40
    assert (old.index[gone] >= 20).any()
    replay.update(old.index[gone], old.stamp[gone], np.full(gone.sum(), 50.0))
    assert (weights(replay) == before).all()
    assert len(replay) == 50
    rows, _ = many(replay, 50, 50)
    assert not ((rows >= 20) & (rows < 30)).any()
    replay.add(replace(game(3), values=np.full((3, P), np.nan, np.float32)))
    assert (weights(replay)[-3:] < 50).all()
    replay.update(old.index[~gone], old.stamp[~gone], np.full(40 - gone.sum(), 50.0))
    assert (weights(replay) == np.float32(50.001)).sum() == len(set(old.index[~gone]))


def test_a_new_priority_counts_in_the_next_sample() -> None:
    replay, _ = filled([30, 30], alpha=1.0)
    rng = np.random.default_rng(0)
    replay.sample(10, rng)
    positions = replay.sample_positions(60, rng)
    replay.update(positions.index, positions.stamp, np.where(positions.index == 37, 1e9, 0.0))
    assert (replay.sample(50, rng).index == 37).all()
    replay.update(np.array([37]), np.array([1]), np.array([0.0]))
    assert len(set(replay.sample(50, rng).index)) > 20


# ---- reanalysis --------------------------------------------------------------------------------------------------


def test_positions_are_what_was_stored_and_drawn_uniformly() -> None:
    replay, games = filled([20, 20, 20, 10])
    first = {stamp: begin for stamp, begin, _ in contents(replay)}
    found = replay.sample_positions(30, np.random.default_rng(4))
    assert found.legal.dtype == np.uint64
    for i in range(30):
        e, t = games[int(found.stamp[i])], int(found.index[i]) - first[int(found.stamp[i])]
        assert found.obs[i].tolist() == e.obs[t].tolist()
        assert found.legal[i] == e.legal[t]
        assert (found.phase[i], found.to_play[i]) == (e.phase[t], e.to_play[t])
    drawn = [replay.sample_positions(10, np.random.default_rng(seed)).index for seed in range(1500)]
    share = np.bincount(np.concatenate(drawn), minlength=64)[np.r_[:10, 20:60]] / 15000
    assert share == pytest.approx(np.full(50, 1 / 50), rel=0.25)


def test_refresh_replaces_search_results_and_recomputes_returns() -> None:
    replay, games = filled([20, 20, 20, 10], frame="root")
    first = {stamp: begin for stamp, begin, _ in contents(replay)}
    rng = np.random.default_rng(5)
    found = replay.sample_positions(12, rng)
    index, stamp = np.append(found.index, 5), np.append(found.stamp, 0)  # the last has been overwritten
    policy = rng.dirichlet(np.ones(A), 13).astype(np.float32)
    values = rng.normal(size=(13, P)).astype(np.float32)
    values[3:6, 1] = np.nan
    before = replay.state()
    replay.refresh(index, stamp, policy, values)
    after = replay.state()
    assert (before["weight"] == after["weight"]).all()
    assert (before["has_policy"] == after["has_policy"]).all()
    expected = {}
    for s, e in games.items():
        new_policy, new_values = e.policy.copy(), e.values.copy()
        for i in range(12):
            if stamp[i] == s:
                new_policy[index[i] - first[s]], new_values[index[i] - first[s]] = policy[i], values[i]
        expected[s] = replace(e, policy=new_policy, values=new_values)
    kept = sorted(first)
    for name in ("policy", "values"):
        assert after[name].tobytes() == np.concatenate([getattr(expected[s], name) for s in kept]).tobytes()
    value_of = {s: slow_returns(expected[s], STEPS, DISCOUNT, without_luck=True) for s in kept}
    slow = np.concatenate([value_of[s] for s in kept])
    assert after["returns"] == pytest.approx(slow, rel=1e-5, abs=1e-6)
    assert (after["returns"] != before["returns"]).any()
    batch = replay.sample(60, rng)
    for row in range(60):
        s = int(batch.stamp[row])
        at = int(batch.index[row]) - first[s]
        assert_window(batch, row, slow_window(expected[s], at, 4, "root", value_of[s], MOVES, batch.actions[row]))


def test_refresh_of_overwritten_rows_changes_nothing() -> None:
    replay, _ = filled([20, 20, 20, 10])
    before = replay.state()
    one = np.ones((1, A), np.float32), np.ones((1, P), np.float32)
    replay.refresh(np.array([5]), np.array([0]), *one)
    replay.refresh(np.array([15]), np.array([0]), *one)
    assert same(before, replay.state())


# ---- state -------------------------------------------------------------------------------------------------------

SHAPES = [[], [20], [20, 20, 20], [20, 20, 24], [20, 20, 20, 10], [20, 20, 24, 20], [64], [30, 30, 25, 10, 40, 7]]


def play_on(replay: ReplayBuffer) -> list[Batch]:
    """Use a buffer in every way."""
    rng = np.random.default_rng(8)
    out = []
    for seed in range(12):
        replay.add(game(int(rng.integers(1, 30)), seed))
        out.append(replay.sample(20, rng))
        replay.update(out[-1].index, out[-1].stamp, rng.random(20))
        some = replay.sample_positions(1, rng)
        replay.refresh(some.index, some.stamp, np.eye(1, A, dtype=np.float32), np.ones((1, P), np.float32))
    return out


@pytest.mark.parametrize("lengths", SHAPES, ids=str)
def test_a_restored_buffer_continues_with_the_same_bytes(lengths: list[int]) -> None:
    settings = {"alpha": 0.7, "stratify": 0.3, "beta": 0.6}
    replay, _ = filled(lengths, **settings)
    if lengths:
        batch = replay.sample(30, np.random.default_rng(0))
        replay.update(batch.index, batch.stamp, np.random.default_rng(1).random(30))
    state = replay.state()
    assert all(array.dtype.kind in "biuf" for array in state.values())
    assert len(state["obs"]) == len(replay)
    other, _ = filled([64, 3, 5], **settings)  # whatever was there is gone
    other.load(state)
    assert (len(other), other.episodes, other.ready(64)) == (len(replay), replay.episodes, replay.ready(64))
    assert same(other.state(), state)
    assert contents(other) == contents(replay)
    if lengths:
        one, two = (r.sample(40, np.random.default_rng(9)) for r in (replay, other))
        assert same(one, two)
    assert all(same(one, two) for one, two in zip(play_on(replay), play_on(other), strict=True))
    assert same(replay.state(), other.state())


def test_a_state_is_a_copy() -> None:
    replay, _ = filled([20, 20, 20])
    state = replay.state()
    kept = {name: array.copy() for name, array in state.items()}
    play_on(replay)
    assert same(state, kept)


def test_the_same_calls_give_the_same_bytes() -> None:
    runs = [play_on(filled([20, 20], alpha=0.5, stratify=0.5)[0]) for _ in range(2)]
    assert all(same(one, two) for one, two in zip(*runs, strict=True))


def test_samples_do_not_depend_on_the_history_of_the_weights() -> None:
    rng = np.random.default_rng(0)
    replay = make(5 * FAN * FAN, alpha=0.6, stratify=0.5)
    for seed in range(400):
        replay.add(game(int(rng.integers(1, 30)), seed))
        if seed % 3 == 0:
            batch = replay.sample(16, rng)
            replay.update(batch.index, batch.stamp, rng.random(16))
    other = make(5 * FAN * FAN, alpha=0.6, stratify=0.5)
    other.load(replay.state())
    assert same(replay.sample(500, np.random.default_rng(1)), other.sample(500, np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("obs", None, r"state: expected exactly the fields of a replay buffer, got \['obs'\]"),
        ("extra", np.zeros(1), "extra"),
        ("setting.steps", np.array(4), "state.setting.steps: expected 3, got array"),
        ("setting.discount", np.array(0.8), "state.setting.discount: expected 0.9"),
        ("setting.capacity", np.array(96), "state.setting.capacity: expected 64"),
        ("obs", np.zeros((50, W), np.int32), r"state.obs: expected int16 \[50, 4\], got 'int32 \[50, 4\]'"),
        ("policy", np.zeros((49, A), np.float32), "state.policy: expected float32"),
        ("action", np.full(50, A, np.int16), "state.action: expected 0 to 5"),
        ("to_play", np.full(50, -1, np.int8), "state.to_play: expected 0 to 2"),
        ("phase", np.full(50, F, np.int8), "state.phase: expected 0 to 2"),
        ("weight", np.zeros(50, np.float32), "state.weight: expected finite numbers, more than 0"),
        ("weight", np.full(50, np.inf, np.float32), "state.weight: expected finite numbers, more than 0"),
        ("length", np.array([20, 20, 9]), "state.length: expected lengths of episodes with 50 decisions"),
        ("length", np.array([20, 20, 10, 0]), "state.length: expected lengths"),
        ("length", np.array([20, 19, 11]), "state.head: expected an end of the 50 decisions"),
        ("head", np.array(11), "state.head: expected an end of the 50 decisions that begin at 20"),
        ("head", np.array(60), "state.head"),
        ("tail", np.array(25), "state.head: expected an end of the 50 decisions that begin at 25"),
        ("tail", np.array(-1), "state.head"),
        ("added", np.array(2), "state.added: expected at least 3"),
        ("added", np.zeros(2), "state.added: expected one number"),
        ("typical", np.array(np.nan), "state.typical"),
    ],
)
def test_a_bad_state_is_refused_by_name_and_changes_nothing(
    name: str, value: NDArray[Any] | None, message: str
) -> None:
    replay, _ = filled([20, 20, 20, 10])
    state = replay.state() | {name: value}
    if value is None:
        del state[name]
    before = replay.state()
    with pytest.raises(ValueError, match=message):
        replay.load(state)
    assert same(before, replay.state())


def test_an_empty_state_begins_at_row_zero() -> None:
    state = make().state()
    make().load(state)
    with pytest.raises(ValueError, match=r"state\.head: expected an end of the 0 decisions that begin at 7"):
        make().load(state | {"tail": np.array(7)})


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("frame", "table", "replay.frame: expected one of root, mover, got 'table'"),
        ("unroll", 0, "learner.unroll: expected 1 or more, got 0"),
        ("steps", 0, "learner.td_steps: expected 1 or more, got 0"),
        ("discount", 0.0, "search.discount: expected more than 0, at most 1, got 0.0"),
        ("discount", 1.1, "search.discount: expected more than 0, at most 1, got 1.1"),
        ("stratify", 1.5, "replay.stratify: expected 0 to 1, got 1.5"),
        ("alpha", -0.1, "replay.alpha: expected 0 or more, got -0.1"),
        ("beta", -0.1, "replay.beta: expected 0 or more, got -0.1"),
        ("epsilon", 0.0, "replay.epsilon"),
        ("num_players", 0, "replay.num_players"),
        ("num_actions", 65, "replay.num_actions: expected 1 to 64, got 65"),
        ("num_phases", 0, "replay.num_phases"),
        ("keep_share", 1.5, "replay.keep_share: expected 0 to 1, got 1.5"),
        ("keep_at_least", 0, "replay.keep_at_least: expected 1 or more, got 0"),
        ("megabytes", 1e-4, r"replay.megabytes: expected at least 0\.00\d+, the room of 32 decisions, got 0.0001"),
    ],
)
def test_a_bad_setting_is_refused_by_name(setting: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**{setting: value})


def test_an_episode_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    replay, _ = filled([20, 20])
    before = replay.state()
    rng = np.random.default_rng(0)
    for bad, message in (
        (game(65), "episode: expected at most 64 decisions, the capacity of the replay buffer, got '65 decisions'"),
        (random_episode(rng, 5, 2, W, A, slots=S), "episode.num_players: expected 3, got 2"),
        (random_episode(rng, 5, P, 7, A, slots=S), "episode.width: expected 4, got 7"),
        (random_episode(rng, 5, P, W, 9, slots=S), "episode.num_actions: expected 6, got 9"),
        (random_episode(rng, 5, P, W, A, slots=5), "episode.num_slots: expected 2, got 5"),
        (replace(game(5), phase=np.full(5, 3, np.int8)), "episode.phase: expected 0 to 2"),
        (replace(game(5), rewards=np.full((5, P), np.nan, np.float32)), "episode.rewards: expected finite"),
    ):
        with pytest.raises(ValueError, match=message):
            replay.add(bad)
    assert same(before, replay.state())


def test_bad_arguments_are_refused_by_name() -> None:
    replay = make()
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="something to sample from"):
        replay.sample(3, rng)
    replay.add(game(10))
    with pytest.raises(ValueError, match="n: expected 0 to 10, the decisions stored, got 11"):
        replay.sample_positions(11, rng)
    one = np.array([1])
    with pytest.raises(ValueError, match=r"index: expected 0 to 63, got \[64\]"):
        replay.update(np.array([64]), one, np.ones(1))
    with pytest.raises(ValueError, match="stamp: expected shape"):
        replay.update(one, np.array([1, 2]), np.ones(1))
    with pytest.raises(ValueError, match=r"stamp: expected 0 or more, got \[-1\]"):
        replay.update(np.array([30]), np.array([-1]), np.ones(1))
    with pytest.raises(ValueError, match="priority: expected shape"):
        replay.update(one, one, np.ones(2))
    for bad in (np.nan, np.inf, -1.0):
        with pytest.raises(ValueError, match="priority: expected finite numbers, 0 or more"):
            replay.update(one, one, np.array([bad]))
    with pytest.raises(ValueError, match="policy: expected shape"):
        replay.refresh(one, one, np.ones((1, A + 1), np.float32), np.ones((1, P), np.float32))
    with pytest.raises(ValueError, match="policy: expected finite"):
        replay.refresh(one, one, np.full((1, A), np.nan, np.float32), np.ones((1, P), np.float32))
    with pytest.raises(ValueError, match="values: expected shape"):
        replay.refresh(one, one, np.ones((1, A), np.float32), np.ones((1, 1), np.float32))
