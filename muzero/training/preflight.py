"""Checks of a configuration that need the game, a network or the machine, made before any work.

`Config.check` has compared the numbers with their ranges; here the environment, the encoder and torch refuse values
that they cannot serve, and the error names the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import env
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.situation import Situation
from muzero.config import PAST_SELF, Config, GameConfig
from muzero.config.fields import require
from muzero.data.augmentation import SlotPermutation
from muzero.data.match_table import require_rounds
from muzero.data.replay_buffer import megabytes_needed
from muzero.model.encoders import groups_read
from muzero.model.network import check_parts, make_network
from muzero.model.spec import GameSpec
from muzero.runs.processes import pick_device
from muzero.search.backend import resolve_backend
from muzero.training.backend import native_training
from muzero.training.peers import rank_and_size
from muzero.training.warm_start import initial_weights


def preflight(config: Config) -> None:
    """Raises a ValueError that names the key of a value that this game or this machine cannot serve."""
    config.check()
    check_game(config)
    check_machine(config)


def check_game(config: Config) -> None:
    """Raises a ValueError for names, rules and sizes that the game does not have. Needs nothing of the machine."""
    _check_tables(config.game)
    for players in config.selfplay.players:
        try:
            _check_tables(replace(config.game, players=players))
        except ValueError as error:
            raise ValueError(str(error).replace("game.players", "selfplay.players", 1)) from None
    groups_read(GameSpec.of(config.game.name, config.game.players), config.model)  # checks the names in model.ignore
    check_parts(GameSpec.of(config.game.name, config.player_counts()[-1]), config.model)
    require_rounds(config.game)
    private = GameSpec.of(config.game.name, config.game.players).private
    expected = "0 in a game with private hands, whose events are not judged"
    require(
        not (private and config.selfplay.judged_outcomes),
        "selfplay.judged_outcomes",
        expected,
        config.selfplay.judged_outcomes,
    )
    source, codes = config.search.chance_source, config.model.chance == "learned"
    expected = "learned or uniform with model.chance=learned, whose codes are no cards"
    require(not codes or source in ("learned", "uniform"), "search.chance_source", expected, source)
    for players in config.player_counts() if config.train.algorithm == "muzero" else ():
        _check_replay_memory(config, players)
    check_opponents("exploit", [config.exploit] if config.exploit else [], config)
    check_opponents("evaluation.also", [name for name in config.evaluation.also if name != PAST_SELF], config)
    initial_weights(config)
    if config.replay.relabel:
        SlotPermutation(config.game.name, config.game.players)  # refuses games without symmetries


def check_opponents(key: str, names: Sequence[str], config: Config) -> None:
    """Raises a ValueError that names the key of an agent that cannot sit at the tables of a run."""
    for name in names:
        try:
            spec = AgentSpec.parse(name)
            for players in config.player_counts():
                tables = env.make(config.game.name, 1, players, config.game.rules)
                build(spec, config.game.name, players, batch=1).act(Situation.at(tables))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None


def _check_tables(game: GameConfig) -> None:
    """Raises a ValueError for a game, a number of players, rules or bots that the environment refuses."""
    require(game.name in env.games(), "game.name", f"one of {', '.join(env.games())}", game.name)
    for key, rules in (("players", game.rules), ("rules", game.rules), ("training", game.rules_for_training())):
        try:
            tables = env.make(game.name, 1, game.players, rules)
        except ValueError as error:
            if ("num_players" in str(error)) == (key == "players"):
                raise ValueError(f"game.{key}: {str(error).removeprefix('num_players: ')}") from None
    for key, names in (("bots", game.bots), ("held_out_bots", game.held_out_bots)):
        for name in names:
            try:
                tables.bot(name)
            except ValueError as error:
                raise ValueError(f"game.{key}: {error}") from None


def _check_replay_memory(config: Config, players: int) -> None:
    """Raises a ValueError if the longest game does not fit into the replay buffer for this number of players."""
    spec = GameSpec.of(config.game.name, players)
    game = env.describe(config.game.name, players, config.game.rules_for_training())
    longest = game.rule_values["max_decisions"]
    assert isinstance(longest, int)
    phases = len(spec.phase_table.possible)
    room = megabytes_needed(longest, players, spec.width, spec.num_actions, phases, spec.num_slots)
    room *= len(config.player_counts())
    expected = f"at least {room:.3g}, the room of a game of {longest} decisions (max_decisions)"
    require(config.replay.megabytes >= room, "replay.megabytes", expected, config.replay.megabytes)


def check_machine(config: Config) -> None:
    """Raises a ValueError for a device or a search backend that this machine does not have."""
    device = pick_device(config.runtime.device)
    one = config.train.algorithm == "muzero" or rank_and_size()[1] == 1
    require(one, "train.algorithm", "muzero in a run over several processes (torchrun)", config.train.algorithm)
    on_gpu = config.runtime.worker_gpus > 0 if config.runtime.kind == "ray" else device.type == "cuda"
    backend = config.search.backend
    require(on_gpu or backend != "cuda_graphs", "search.backend", "not cuda_graphs where self-play has no GPU", backend)
    require(not on_gpu or backend != "native", "search.backend", "not native where self-play has a GPU", backend)
    # The calls refuse networks and processors that the native code cannot serve.
    if backend == "native":
        resolve_backend(make_network(GameSpec.of(config.game.name, config.game.players), config.model), config.search)
    if config.learner.backend == "native":
        network = make_network(GameSpec.of(config.game.name, config.game.players), config.model).to(device)
        native_training(network, config.learner)
