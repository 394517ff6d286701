"""muzero.training.run_state: where episodes go, what a checkpoint holds, and that a restored state continues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from muzero.config import Config
from muzero.data.saved_rows import column_limits
from muzero.data.trajectory import Episode
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from muzero.selfplay.opponents import SELF
from muzero.selfplay.worker import PlayResult
from muzero.training.run_state import RunState, make_replay_buffer, simulations_at
from tests.composing import compose_config
from tests.data.episodes import random_episode
from tests.training.batches import a_batch
from tests.training.processes import TINY

MIXED = ("selfplay.players=[2,3]", "game.training.max_decisions=200")


def settings(*overrides: str) -> Config:
    return compose_config(*TINY, "replay.megabytes=2", *overrides)


def make(*overrides: str) -> RunState:
    torch.manual_seed(0)
    return RunState(settings(*overrides), torch.device("cpu"))


def game(length: int, players: int = 2, truncated: bool = False) -> Episode:
    """Made-up episode in the shapes of Skyjo."""
    spec = GameSpec.of("skyjo", players)
    made = random_episode(
        np.random.default_rng(length), length, players, spec.width, spec.num_actions, slots=spec.num_slots
    )
    obs = (np.abs(made.obs) % column_limits(spec)).astype(np.int16)
    codes = {name: (getattr(made, name) % spec.num_outcomes).astype(np.int8) for name in ("hidden", "outcome")}
    return replace(made, truncated=truncated, last_values=np.zeros(players, np.float32), obs=obs, **codes)


def played(*episodes: Episode, opponent: int = SELF, points: float = 0.5) -> list[PlayResult]:
    count = len(episodes)
    return [PlayResult(episodes=list(episodes), opponents=[opponent] * count, points=[points] * count)]


def test_episodes_go_to_the_replay_buffer_of_their_number_of_players() -> None:
    state = make(*MIXED)
    state.store([*played(game(20), game(30, players=3)), *played(game(5))])
    assert {players: len(replay) for players, replay in state.replays.items()} == {2: 25, 3: 30}
    assert state.games == 3
    assert state.curriculum.games == [0], "self-play is no game against a bot"


def test_games_against_bots_count_for_the_curriculum_unless_they_were_cut_off() -> None:
    state = make(*MIXED)
    state.store(played(game(20), game(30, truncated=True), opponent=0, points=1.0))
    assert (state.curriculum.games, state.curriculum.rates) == ([1], [1.0])
    state.store(played(game(20, players=3), opponent=0, points=0.0))
    assert (state.curriculum.games, state.curriculum.rates) == ([2], [0.5])


def test_learning_begins_when_every_replay_buffer_has_its_share() -> None:
    state = make(*MIXED, "replay.warm_up=101")
    state.store(played(game(60), game(50, players=3)))
    assert not state.warmed_up(), "a half is 51 decisions"
    state.store(played(game(1, players=3)))
    assert state.warmed_up()


def test_replay_buffers_are_drawn_in_proportion_to_their_decisions() -> None:
    state = make(*MIXED)
    state.store(played(game(20), game(60, players=3)))
    drawn = [state.draw_buffer().num_players for _ in range(2000)]
    assert drawn.count(3) / 2000 == pytest.approx(0.75, abs=0.04)
    alone = make()
    before = alone.rng.bit_generator.state
    assert alone.draw_buffer() is alone.replays[2]
    assert alone.rng.bit_generator.state == before, "nothing to draw"


def test_simulations_follow_their_schedule_and_searches_here_may_use_another_backend() -> None:
    state = make("selfplay.simulations=[[0,3],[5,7]]")
    for iteration, simulations in ((0, 3), (4, 3), (5, 7), (99, 7)):
        state.iteration = iteration
        assert state.simulations() == simulations == simulations_at(state.config, iteration)
    assert simulations_at(settings(), 0) == 2, "search.simulations without a schedule"
    search = state.search(9)
    assert (search.simulations, search.backend) == (9, "auto")
    assert replace(search, simulations=2, backend="native") == state.config.search
    assert make("search.backend=eager").search(9).backend == "eager"


def test_weights_for_smaller_tables_are_parts_of_the_network_for_the_largest() -> None:
    state = make(*MIXED, "learner.ema=0.9")
    assert state.network.num_players == 3
    assert state.learner.ema is not None
    for tensor in state.learner.ema.values():
        tensor.zero_()
    for players in (2, 3):
        weights = state.weights_for(players)
        assert weights
        assert not any(tensor.any() for tensor in weights.values()), "self-play uses the average"


def test_restored_state_continues_as_if_it_had_never_been_saved(tmp_path: Path) -> None:
    state = make("game.players=3", "learner.ema=0.9")
    state.store(played(game(40, players=3), opponent=0, points=1.0))
    state.learner.step(a_batch(0), iteration=0)
    state.rng.random(3)
    state.iteration, state.value_rmse = 3, 0.125
    state.pool.add(3)
    state.save(tmp_path, {"games": np.arange(4)}, metrics_offset=77)
    found = checkpoint.load_latest(tmp_path)
    assert found is not None
    assert found.arrays["selfplay"]["games"].tolist() == [0, 1, 2, 3]
    assert found.state["metrics_offset"] == 77
    torch.manual_seed(1)
    again = RunState(state.config, torch.device("cpu"))
    again.load(found)
    assert (again.iteration, again.games, again.learner.steps, again.pool.members) == (3, 1, 1, [3])
    assert again.curriculum.state() == state.curriculum.state()
    assert again.value_rmse == checkpoint.load_weights(tmp_path).agent["value_rmse"] == 0.125
    assert again.saved == state.saved == tmp_path / "checkpoints" / "000003"
    assert again.elapsed >= found.state["elapsed"] > 0
    for one in (state, again):
        one.store(played(game(25, players=3)))
        one.learner.step(a_batch(1), iteration=1)
    assert state.rng.random() == again.rng.random()
    for name, tensor in state.learner.playing_weights().items():
        assert (tensor == again.learner.playing_weights()[name]).all(), name
    weights = dict(again.network.named_parameters())
    assert all((tensor == weights[name]).all() for name, tensor in state.network.named_parameters())
    one, other = state.replays[3].state(), again.replays[3].state()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_checkpoint_says_which_agent_can_be_played_from_it(tmp_path: Path) -> None:
    state = make(*MIXED, "selfplay.simulations=[[0,3],[5,7]]")
    state.iteration = 5
    state.save(tmp_path, {}, metrics_offset=0)
    agent = checkpoint.load_weights(tmp_path).agent
    assert (agent["game"], agent["players"], agent["player_counts"]) == ("skyjo", 2, [2, 3])
    assert (agent["variant"], agent["rules"]) == ("belief", state.config.game.rules)
    assert agent["search"]["simulations"] == 7


def test_weights_of_a_past_opponent_are_kept_as_long_as_the_checkpoint_before_needs_them(tmp_path: Path) -> None:
    """Each checkpoint is needed until the one after the next is complete, because the newest may be damaged."""
    state = make("train.keep_every=100")
    kept = []
    for iteration, members in ((1, [1]), (2, [1]), (3, [1]), (4, []), (5, [])):
        state.iteration, state.pool.members = iteration, members
        state.save(tmp_path, {}, metrics_offset=0)
        kept.append([int(place.name) for place in checkpoint.checkpoints(tmp_path)])
    assert kept == [[1], [1, 2], [1, 2, 3], [1, 3, 4], [4, 5]]


def test_replay_memory_is_shared_among_the_numbers_of_players() -> None:
    config = settings("replay.megabytes=3", "replay.keep_share=0.5", "replay.keep_at_least=1001", *MIXED)
    for players in (2, 3):
        replay = make_replay_buffer(config, GameSpec.of("skyjo", players), "mover")
        assert 1.4 * 2**20 < replay.nbytes <= 1.5 * 2**20
        assert (replay.keep_share, replay.keep_at_least) == (0.5, 501)
        assert (replay.num_players, replay.unroll, replay.steps) == (players, 3, 5)


def test_replay_memory_that_the_machine_does_not_have_is_refused() -> None:
    config = settings("replay.megabytes=1e9")
    with pytest.raises(ValueError, match=r"replay.megabytes: expected what this machine has room for, got 1e\+09"):
        make_replay_buffer(config, GameSpec.of("skyjo", 2), "mover")
