"""State of a run, as checkpoints hold it: network, learner, replay buffers, opponents and random streams."""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from muzero.agents.fitness import require_finite_outputs
from muzero.config import Config, SearchConfig, cores, scheduled
from muzero.data.replay_buffer import ReplayBuffer
from muzero.data.targets import Moves
from muzero.model.network import make_network
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from muzero.runs.files import CheckpointError, wrap_errors
from muzero.selfplay.opponents import Curriculum, Pool
from muzero.training import saved_state
from muzero.training.learner import Learner
from muzero.training.optimizer_state import optimizer_state, restore_optimizer, rng_from_json, rng_to_json
from muzero.training.peers import Peers
from muzero.training.ppo import PpoLearner

if TYPE_CHECKING:
    from muzero.selfplay.worker import PlayResult


class RunState:
    """Progress of a run: its network, learner, replay buffers, opponents and counters.

    Attributes:
      network: network for the largest table; its weights serve smaller tables too.
      learner: optimiser of the network.
      replays: replay buffers by number of players; none with train.algorithm=ppo, which learns from rollouts at once.
      curriculum, pool: bots and past networks as opponents.
      rng: random stream of sampling and of opponents.
      iteration: number of iterations made.
      games: number of games stored.
      saved: path of the newest checkpoint, None before the first.
      value_rmse: error of the values at the last check, None before the first.
    """

    def __init__(self, config: Config, device: torch.device, peers: Peers | None = None) -> None:
        self.config = config
        self.learner = make_learner(config, device, config.runtime.threads or cores(), peers)
        self.network = self.learner.network
        self.replays = make_replay_buffers(config, self.network.frame)
        self.curriculum = Curriculum(config.selfplay.curriculum, config.game.bots)
        self.pool = Pool(config.selfplay.pool)
        self.rng = np.random.default_rng(config.seed)
        self.iteration = self.games = 0
        self.saved: Path | None = None
        self.value_rmse: float | None = None
        self._earlier_seconds, self._started = 0.0, time.monotonic()
        self._members_before: list[int] = []  # members of the pool at the newest checkpoint

    @property
    def elapsed(self) -> float:
        """Seconds of training, those of earlier processes included."""
        return self._earlier_seconds + time.monotonic() - self._started

    def simulations(self) -> int:
        """Number of simulations per decision of self-play at this iteration."""
        return simulations_at(self.config, self.iteration)

    def search(self, simulations: int) -> SearchConfig:
        """Settings of searches in the learner's process, which may have a GPU where self-play has none."""
        search = replace(self.config.search, simulations=simulations)
        return replace(search, backend="auto") if search.backend == "native" else search

    def weights_for(self, players: int) -> dict[str, torch.Tensor]:
        """Weights that self-play uses at a table for this number of players."""
        return self.network.weights_for(players, self.learner.playing_weights())

    def store(self, played: list[PlayResult]) -> None:
        """Add episodes to the replay buffers, and their results to the win rates of the curriculum."""
        self.note_results(played)
        self.add_episodes(played)

    def note_results(self, played: list[PlayResult]) -> None:
        """Add the results of episodes to the win rates of the curriculum."""
        for part in played:
            for episode, opponent, points in zip(part.episodes, part.opponents, part.points, strict=True):
                self.games += 1
                if opponent >= 0 and not episode.truncated:
                    self.curriculum.note(opponent, points, episode.num_players)

    def add_episodes(self, played: list[PlayResult]) -> None:
        """Add episodes to the replay buffers."""
        for episode in (episode for part in played if self.replays for episode in part.episodes):
            self.replays[episode.num_players].add(episode)

    def warmed_up(self) -> bool:
        """Whether every replay buffer holds its share of the decisions that learning begins with."""
        share = -(-self.config.replay.warm_up // len(self.replays))
        return all(replay.ready(share) for replay in self.replays.values())

    def draw_buffer(self) -> ReplayBuffer:
        """Draw a replay buffer with probability proportional to its size."""
        replays = list(self.replays.values())
        if len(replays) == 1:
            return replays[0]
        sizes = np.array([len(replay) for replay in replays])
        return replays[int(self.rng.choice(len(replays), p=sizes / sizes.sum()))]

    def save(self, path: Path, selfplay: Mapping[str, NDArray[Any]], metrics_offset: int) -> None:
        """Write a checkpoint.

        Args:
          path: path of the run directory.
          selfplay: state of the runtime, for the games under way.
          metrics_offset: length of the metrics file; lines that a later process finds behind it are made again.
        """
        c, learner = self.config, self.learner
        tensors: dict[str, Mapping[str, torch.Tensor]] = {
            "weights": {n: p.detach().cpu() for n, p in self.network.named_parameters()}
        }
        memory, optimizer = optimizer_state(learner.optimizer, self.network)
        tensors["optimizer"] = {name: tensor.cpu() for name, tensor in memory.items()}
        if learner.ema is not None:
            tensors["ema"] = {name: tensor.cpu() for name, tensor in learner.ema.items()}
        state = {
            "optimizer": optimizer,
            "steps": learner.steps,
            "games": self.games,
            "elapsed": self.elapsed,
            "curriculum": self.curriculum.state(),
            "pool": self.pool.members,
            "rng": rng_to_json(self.rng),
            "metrics_offset": metrics_offset,
            "value_rmse": self.value_rmse,
        }
        # If this checkpoint is damaged, the one before is needed, with members that have left the pool since.
        kept = {*range(0, self.iteration + 1, c.train.keep_every), *self.pool.members, *self._members_before}
        self._members_before = list(self.pool.members)
        replays = {f"replay_{players}": replay.state() for players, replay in self.replays.items()}
        self.saved = checkpoint.save(
            path,
            self.iteration,
            tensors=tensors,
            arrays={**replays, "selfplay": selfplay},
            state=state,
            agent=self._agent(),
            permanent=kept,
        )

    def _agent(self) -> dict[str, Any]:
        """Description of the agent, from which a checkpoint can be played."""
        c = self.config
        return {
            "game": c.game.name,
            "game_version": self.network.spec.version,
            "players": c.game.players,
            "player_counts": c.player_counts(),
            "rules": c.game.rules,
            "variant": c.variant,
            "algorithm": c.train.algorithm,
            "model": asdict(c.model),
            "search": asdict(self.search(self.simulations())),
            "value_rmse": self.value_rmse,
        }

    def start_from(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Begin with trained weights instead of random ones; everything else is as in a new run."""
        self.network.load_state_dict(dict(weights))
        if self.learner.ema is not None:
            self.learner.load_ema(dict(weights))

    def load(self, found: checkpoint.Checkpoint) -> None:
        """Continue from a checkpoint of a run with the same configuration; an error names the file and the key."""
        state, learner = found.state, self.learner
        saved_state.check_state(found, self.config.game.bots)
        tensors = {name: saved_state.group(found, "safetensors", name) for name in ("weights", "optimizer")}
        saved_state.check_generations(found.path / "selfplay.npz", saved_state.group(found, "npz", "selfplay"))
        saved_state.check_weights(found.path / checkpoint.WEIGHTS, tensors["weights"], self.network)
        memory = found.path / "optimizer.safetensors"
        saved_state.check_optimizer(memory, tensors["optimizer"], state["optimizer"], self._optimizer_settings())
        self.network.load_state_dict(tensors["weights"])
        require_finite_outputs(str(found.path / checkpoint.WEIGHTS), self.network)
        try:
            restore_optimizer(learner.optimizer, self.network, tensors["optimizer"], state["optimizer"])
        except CheckpointError as error:
            raise CheckpointError(f"{memory}: {error}") from None
        if learner.ema is not None:
            average = saved_state.group(found, "safetensors", "ema")
            saved_state.check_weights(found.path / checkpoint.EMA, average, self.network)
            averaged = deepcopy(self.network)
            averaged.load_state_dict(average)
            require_finite_outputs(str(found.path / checkpoint.EMA), averaged)
            learner.load_ema(average)
        learner.steps = state["steps"]
        self.value_rmse = state.get("value_rmse")
        for players, replay in self.replays.items():
            name = f"replay_{players}"
            rows, path = saved_state.group(found, "npz", name), found.path / f"{name}.npz"
            saved_state.check_replay(path, rows, replay, GameSpec.of(self.config.game.name, players))
            with wrap_errors(path):
                replay.load(rows)
        self.games, self._earlier_seconds = int(state["games"]), float(state["elapsed"])
        self.curriculum.load(state["curriculum"])
        self.pool.members = [int(member) for member in state["pool"]]
        self._members_before = list(self.pool.members)
        try:
            self.rng = rng_from_json(state["rng"])
        except CheckpointError as error:
            raise CheckpointError(f"{found.path / checkpoint.STATE}: rng: {error}") from None
        self.iteration, self.saved = found.iteration, found.path

    def _optimizer_settings(self) -> list[dict[str, Any]]:
        """Settings of each group of the optimiser's parameters."""
        groups = self.learner.optimizer.param_groups
        return [{k: v for k, v in group.items() if k not in ("params", "param_names")} for group in groups]


def make_learner(config: Config, device: torch.device, threads: int, peers: Peers | None) -> Learner:
    """Learner of a new network for the largest table of a run.

    Args:
      config: configuration of the run.
      device: device of the network.
      threads: number of threads of the native passes.
      peers: other processes that share its work, if any.
    """
    specs = [GameSpec.of(config.game.name, players) for players in config.player_counts()]
    network = make_network(specs[-1], config.model).to(device)
    smaller = [make_network(spec, config.model).to(device) for spec in specs[:-1]]
    if config.train.algorithm == "ppo":
        return PpoLearner(network, config.learner, config.ppo, smaller, config.search.discount, threads)
    return Learner(network, config.learner, smaller, config.search.discount, threads, peers)


def simulations_at(config: Config, iteration: int) -> int:
    """Number of simulations per decision of self-play after so many iterations."""
    return int(scheduled(config.selfplay.simulations, iteration, config.search.simulations))


def make_replay_buffers(config: Config, frame: str) -> dict[int, ReplayBuffer]:
    """Replay buffers of a run by number of players; none if its algorithm keeps no games."""
    if config.train.algorithm == "ppo":
        return {}
    specs = [GameSpec.of(config.game.name, players) for players in config.player_counts()]
    return {spec.num_players: make_replay_buffer(config, spec, frame) for spec in specs}


def make_replay_buffer(config: Config, spec: GameSpec, frame: str) -> ReplayBuffer:
    """Replay buffer for the number of players of a spec, with its share of the memory."""
    try:
        return ReplayBuffer(
            num_players=spec.num_players,
            width=spec.width,
            num_actions=spec.num_actions,
            num_phases=len(spec.phase_table.possible),
            frame=frame,
            moves=Moves(spec.phases_for(config.model), spec.public_outcomes, spec.absent),
            num_slots=spec.num_slots,
            config=config.at_tables_for(spec.num_players),
        )
    except MemoryError:
        raise ValueError(
            f"replay.megabytes: expected what this machine has room for, got {config.replay.megabytes:g}"
        ) from None
