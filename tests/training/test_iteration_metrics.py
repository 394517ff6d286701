"""muzero.training.iteration_metrics: figures of an iteration, compared with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from muzero.search.lane import Clock
from muzero.selfplay.opponents import SELF
from muzero.selfplay.worker import PlayResult
from muzero.training.iteration_metrics import Seconds, diagnostics, timings
from muzero.training.run_state import RunState
from tests.composing import compose_config
from tests.data.episodes import random_episode
from tests.training.processes import TINY

SECONDS = Seconds(whole=10.0, waiting=4.0, learner=3.0, evaluation=2.0)


def part(version: int = 0, lanes: int = 1, megabytes: float = 100.0) -> PlayResult:
    """Result of a worker that played for 5 seconds: 1 in the environment, 4 in each lane's trees and network."""
    clock = Clock(encoder=0.5 * lanes, network=1.5 * lanes, tree=2.0 * lanes, simulations=400, levels=900)
    episodes = [random_episode(np.random.default_rng(0), 5)] * 3
    return PlayResult(
        version=version,
        episodes=episodes,
        decisions=50,
        seconds=5.0,
        env_seconds=1.0,
        clock=clock,
        megabytes=megabytes,
    )


def test_seconds_of_self_play_in_turn_with_the_learner_add_up_to_the_time_that_it_was_waited_for() -> None:
    """Two workers at the same time: their 10 seconds stand for 4 of the iteration."""
    found = timings(SECONDS, [part(), part()], iteration=8, steps=20, asynchronous=False, restarts=1)
    assert found["seconds"] == pytest.approx(
        {"env": 0.8, "tree": 1.6, "network": 1.6, "learner": 3.0, "evaluation": 2.0}
    )
    assert "concurrent_selfplay" not in found
    assert found["speed"] == pytest.approx({"games": 0.6, "decisions": 10.0, "simulations": 80.0, "steps": 2.0})
    assert found["selfplay"]["decisions_per_s"] == 10.0
    assert (found["selfplay"]["seconds"], found["selfplay"]["restarts"]) == (10.0, 1)
    assert found["iteration_seconds"] == 10.0


def test_seconds_of_concurrent_self_play_are_those_of_one_worker_and_only_waiting_costs_time() -> None:
    found = timings(SECONDS, [part(), part()], iteration=8, steps=20, asynchronous=True, restarts=0)
    assert found["seconds"] == {"waiting": 4.0, "learner": 3.0, "evaluation": 2.0}
    assert found["concurrent_selfplay"] == pytest.approx({"env": 1.0, "tree": 2.0, "network": 2.0})
    assert found["concurrent_selfplay"].items() <= found["selfplay"].items()


def test_clocks_of_lanes_that_run_at_the_same_time_are_divided_by_their_number() -> None:
    one, two = (
        timings(SECONDS, [part(lanes=lanes)], iteration=1, steps=0, asynchronous=False, restarts=0) for lanes in (1, 2)
    )
    assert two["seconds"] == pytest.approx(one["seconds"])


def test_staleness_is_the_mean_age_of_the_weights_and_memory_that_of_the_largest_worker() -> None:
    played = [part(version=7, megabytes=100.0), part(version=4, megabytes=300.0)]
    found = timings(SECONDS, played, iteration=8, steps=0, asynchronous=True, restarts=0)
    assert found["selfplay"]["staleness"] == 1.5
    assert found["megabytes"]["selfplay"] == 300.0
    assert found["megabytes"]["learner"] > 10


def test_diagnostics_describe_games_buffers_and_opponents() -> None:
    config = compose_config(*TINY, "game.bots=[greedy_value,info_first]")
    state = RunState(config, torch.device("cpu"))
    spec, rng = state.network.spec, np.random.default_rng(0)
    long, short = (
        replace(
            random_episode(rng, length, 2, spec.width, spec.num_actions, slots=spec.num_slots),
            truncated=False,
            last_values=np.zeros(2, "f4"),
        )
        for length in (30, 10)
    )
    policy = np.zeros((10, spec.num_actions), np.float32)
    policy[:, :2] = 0.5  # an entropy of log 2 at every decision
    short = replace(short, policy=policy, has_policy=np.ones(10, bool))
    long = replace(long, has_policy=np.zeros(30, bool), truncated=True)  # bots played: there is no policy
    played = [PlayResult(episodes=[long, short], opponents=[SELF, 1], points=[0.5, 1.0])]
    state.store(played)
    state.pool.add(3)
    found = diagnostics(state, played)
    assert found["games"] == 2
    assert found["steps"] == 0
    assert found["replay_decisions"] == 40
    assert found["replay_fill"] == state.replays[2].fill > 0
    assert found["episode_length"] == 20.0
    assert found["truncated"] == 0.5
    assert found["policy_entropy"] == pytest.approx(np.log(2), abs=1e-6)
    assert found["learning_rate"] == state.learner.learning_rate()
    assert found["bot_share"] == pytest.approx(config.selfplay.curriculum.share)
    assert found["pool"] == 1
    assert {name: rate for name, rate in found.items() if name.startswith("win_rate")} == {"win_rate_info_first": 1.0}


def test_diagnostics_of_an_iteration_without_finished_games_are_unknown() -> None:
    found = diagnostics(RunState(compose_config(*TINY), torch.device("cpu")), [PlayResult()])
    assert found["episode_length"] is found["truncated"] is found["policy_entropy"] is None
    assert found["games"] == found["replay_decisions"] == 0
