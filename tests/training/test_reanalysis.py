"""muzero.training.reanalysis: stored positions get the targets that a search with the newest weights finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from muzero.config import Config
from muzero.data.replay_buffer import ReplayBuffer
from muzero.data.trajectory import Episode
from muzero.model.network import make_network
from muzero.model.spec import GameSpec
from muzero.search.planner import Plan, Planner
from muzero.selfplay.worker import make_worker
from muzero.training.reanalysis import Reanalyser
from muzero.training.run_state import RunState
from muzero.training.trainer import play_request
from tests.composing import compose_config
from tests.selfplay.workers import PURE
from tests.training.batches import shaken
from tests.training.processes import TINY

# Without root noise a position has the same plan whatever its key.
SETTINGS = (*TINY, "search.gumbel_scale=0", "game.training.max_decisions=60", "selfplay.simulations=[[0,2],[5,4]]")
MIXED = (*SETTINGS, "selfplay.players=[2,3]")
CPU = torch.device("cpu")


def play(config: Config) -> list[Episode]:
    """Games of an untrained network."""
    torch.manual_seed(0)
    worker, state = make_worker(config), RunState(config, CPU)
    worker.load_weights(state.learner.playing_weights(), None)
    return worker.play(play_request(config, 0, PURE)).episodes


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return play(compose_config(*SETTINGS))


def make_state(config: Config, episodes: list[Episode]) -> RunState:
    """State of a run with these games, whose network is not the one that played them."""
    torch.manual_seed(1)
    state = RunState(config, CPU)
    shaken(state.network)
    for episode in episodes:
        state.replays[episode.num_players].add(episode)
    return state


def planned(state: RunState, replay: ReplayBuffer, simulations: int) -> tuple[Plan, NDArray[np.int8]]:
    """Plans of all stored positions in order of age, found by a search of this test's own, and the players to move."""
    network = make_network(GameSpec.of("skyjo", replay.num_players), state.config.model).eval()
    network.load_state_dict(state.weights_for(replay.num_players))
    rows = replay.state()
    planner = Planner(network, state.search(simulations), len(replay))
    keys = np.zeros(len(replay), np.uint64)
    return planner.plan(rows["obs"], rows["legal"], rows["phase"], keys), rows["to_play"]


def assert_refreshed(replay: ReplayBuffer, found: Plan, to_play: NDArray[np.int8]) -> None:
    """Policies are those of the plan, and values too, counted from seat 0."""
    rows, players = replay.state(), replay.num_players
    assert rows["policy"] == pytest.approx(found.policy, abs=1e-4)
    seats = (to_play[:, None] + np.arange(players)) % players
    assert np.take_along_axis(rows["values"], seats, 1) == pytest.approx(found.values, abs=1e-4)


def test_positions_get_the_policy_and_the_values_of_a_search_with_the_newest_weights(episodes: list[Episode]) -> None:
    state = make_state(compose_config(*SETTINGS), episodes)
    replay, reanalyser = state.replays[2], Reanalyser(state, CPU)
    before = replay.state()
    for _ in range(2):  # the weights change in between
        reanalyser.refresh(len(replay))
        assert len(replay) <= 256, "one batch: every position once"
        assert_refreshed(replay, *planned(state, replay, simulations=2))
        shaken(state.network)
    after = replay.state()
    changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert changed == {"policy", "values", "returns"}


def test_as_many_positions_are_searched_as_asked_for(episodes: list[Episode]) -> None:
    state = make_state(compose_config(*SETTINGS), episodes)
    replay = state.replays[2]
    before = replay.state()["values"]
    Reanalyser(state, CPU).refresh(10)
    assert (replay.state()["values"] != before).any(1).sum() == 10
    Reanalyser(state, CPU).refresh(0)


def test_simulations_are_those_of_self_play_at_the_iteration(episodes: list[Episode]) -> None:
    state = make_state(compose_config(*SETTINGS), episodes)
    replay, reanalyser = state.replays[2], Reanalyser(state, CPU)
    for iteration, simulations in ((0, 2), (5, 4)):
        state.iteration = iteration
        reanalyser.refresh(len(replay))
        assert_refreshed(replay, *planned(state, replay, simulations))


def test_tables_of_every_size_are_searched_with_their_part_of_the_weights() -> None:
    config = compose_config(*MIXED)
    state = make_state(config, play(config))
    counts = {players: len(replay) for players, replay in state.replays.items()}
    assert all(counts.values())
    before = {players: replay.state()["values"] for players, replay in state.replays.items()}
    reanalyser = Reanalyser(state, CPU)
    reanalyser.refresh(20 * sum(counts.values()))  # so many that every position is drawn
    for players, replay in state.replays.items():
        assert (replay.state()["values"] != before[players]).any()
        assert_refreshed(replay, *planned(state, replay, simulations=2))
