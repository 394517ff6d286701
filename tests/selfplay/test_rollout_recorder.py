"""Rollouts of self-play workers: whose decisions they hold, what they were drawn from, and where games stop."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from muzero.config import Config, SearchConfig
from muzero.data.rollouts import Rollout
from muzero.data.trajectory import unpack_legal
from muzero.selfplay.opponents import OpponentMix
from muzero.selfplay.rollout_recorder import without_search
from muzero.selfplay.worker import PlayRequest, PlayResult, SelfPlay, make_worker
from tests.selfplay.workers import PURE, settings, weights

BOTS = OpponentMix(0.0, (0.5, 0.5))


def config(tables: int = 6, players: int = 2, **rules: Any) -> Config:
    """Settings of a run that learns by policy gradients, except that heads exist which it would not train."""
    found = settings(players=players, tables=tables, **rules)
    return replace(found, train=replace(found.train, algorithm="ppo"))


def request(steps: int, opponents: OpponentMix = PURE) -> PlayRequest:
    return PlayRequest(version=0, games=1, steps=steps, simulations=0, temperature=1.0, opponents=opponents)


def play(worker: SelfPlay, steps: int, opponents: OpponentMix = PURE) -> tuple[PlayResult, Rollout]:
    result = worker.play(request(steps, opponents))
    (found,) = result.rollouts
    return result, found


def ready(settings: Config) -> SelfPlay:
    worker = SelfPlay(settings)
    worker.load_weights(weights(settings))
    return worker


def test_actions_are_drawn_from_the_policy_of_the_network_over_legal_actions() -> None:
    worker = ready(config(tables=40))
    _, found = play(worker, 60)
    with torch.no_grad():
        _, outputs = worker.network.initial(torch.from_numpy(found.obs.reshape(-1, found.obs.shape[2])), "maxn")
    A = found.policy.shape[2]
    legal = unpack_legal(found.legal, A)
    logits = np.where(legal, outputs[:, :A].numpy().reshape(legal.shape), -np.inf)
    policy = np.exp(logits - logits.max(2, keepdims=True))
    policy /= policy.sum(2, keepdims=True)
    assert np.abs(found.policy - policy).max() < 1e-4
    chances = np.take_along_axis(policy, found.action[..., None].astype(int), 2)[..., 0]
    # Chosen actions have on average the probability that samples of the policy have: the mean of sum p^2.
    expected, spread = np.square(policy).sum(2), chances.std() / np.sqrt(chances.size)
    assert abs(chances.mean() - expected.mean()) < 4 * spread
    assert (chances < policy.max(2) - 1e-6).any(), "not only the best action is taken"
    own = np.take_along_axis(found.values, found.to_play[..., None].astype(int), 2)[..., 0]
    assert np.abs(own - outputs[:, A].numpy().reshape(own.shape)).max() < 1e-4


def test_rollouts_hold_every_step_and_stop_where_games_end() -> None:
    """The steps of a table between two stops are its episodes, to the byte; the last step stops everywhere."""
    worker = ready(config())
    result, found = play(worker, 250)
    assert found.own.all()
    assert not found.goes_on[-1].any()
    assert len(result.episodes) == (~found.goes_on[:-1]).sum() + (found.future[-1] == 0).all(1).sum() > 6
    pieces = []
    for table in range(6):
        begin = 0
        for end in np.flatnonzero(~found.goes_on[:, table]):
            pieces.append(found.obs[begin : end + 1, table].tobytes())
            begin = end + 1
    assert {episode.obs.tobytes() for episode in result.episodes} <= set(pieces)
    ended = [e for e in result.episodes if not e.truncated]
    assert len(ended) == len(result.episodes)
    stops = ~found.goes_on[:-1]
    assert (found.future[:-1][stops] == 0).all(), "nothing follows the end of a game"


def test_games_in_progress_are_valued_at_the_next_position() -> None:
    worker = ready(config())
    _, found = play(worker, 5)
    with torch.no_grad():
        _, values = worker.network.values_of_observation(torch.from_numpy(worker.tables.obs))
    for table, mover in enumerate(worker.tables.to_play):
        assert found.future[-1, table, mover] == pytest.approx(float(values[table, 0]), abs=1e-4)
        assert found.future[-1, table, 1 - mover] == pytest.approx(float(values[table, 1]), abs=1e-4)


def test_truncated_games_leave_the_latest_values_of_each_seat() -> None:
    worker = ready(config(max_decisions=20))
    result, found = play(worker, 41)
    assert all(episode.truncated for episode in result.episodes)
    stops = np.argwhere(~found.goes_on[:-1])
    assert len(stops) == len(result.episodes) == 12
    assert stops[:6, 0].tolist() == [19] * 6
    for (step, table), episode in zip(stops, result.episodes, strict=True):
        assert found.future[step, table].tolist() == episode.last_values.tolist()
        mover = found.to_play[step, table]
        assert found.future[step, table, mover] == found.values[step, table, mover]


def test_moves_of_bots_are_not_the_policys_own() -> None:
    _, found = play(ready(config(tables=30)), 40, BOTS)
    seats = np.stack([np.where(found.own, found.to_play, -1).max(0), np.where(~found.own, found.to_play, -1).max(0)])
    assert (seats >= 0).all(), "both seats of every table have decided"
    assert (np.sort(seats, 0) == [[0], [1]]).all(), "one seat is the network's, the other one a bot's"
    mover = found.to_play[..., None].astype(int)
    assert np.isnan(np.take_along_axis(found.values, mover, 2)[..., 0])[~found.own].all()


def test_a_worker_goes_on_from_its_state_to_the_same_rollout() -> None:
    first, second = ready(config()), ready(config())
    play(first, 30)
    second.load(first.state())
    (_, one), (_, other) = play(first, 20), play(second, 20)
    for f in fields(Rollout):
        assert getattr(one, f.name).tobytes() == getattr(other, f.name).tobytes(), f.name


def test_mixed_tables_give_a_rollout_for_each_number_of_players() -> None:
    base = config(tables=4, players=3)
    mixed = replace(base, selfplay=replace(base.selfplay, players=[2, 3]))
    worker = make_worker(mixed)
    worker.load_weights(weights(mixed))
    found = worker.play(request(10)).rollouts
    assert [(rollout.num_players, rollout.own.shape) for rollout in found] == [(2, (10, 2)), (3, (10, 2))]


def test_sampling_does_not_depend_on_settings_of_the_search() -> None:
    strange = SearchConfig(algorithm="puct", simulations=9, backup="ego", merge=True, prior_temperature=3.0)
    found = without_search(strange)
    assert (found.algorithm, found.simulations, found.backup, found.merge) == ("gumbel", 0, "maxn", False)
    assert (found.prior_temperature, found.gumbel_scale) == (1.0, 1.0)
