"""Small workers, requests and weights for the tests of self-play."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muzero.config import Config, GameConfig, LearnerConfig, RuntimeConfig, SearchConfig, SelfPlayConfig, TrainConfig
from muzero.data.trajectory import Episode
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.selfplay.opponents import OpponentMix
from muzero.selfplay.runtime import Runtime
from muzero.selfplay.worker import PlayRequest, PlayResult, SelfPlay

NAMES = ["greedy_value", "info_first"]
MIXED = OpponentMix(0.3, (0.2, 0.2))
PURE = OpponentMix(0.0, (0.0, 0.0))


def settings(
    players: int = 2, tables: int = 4, seed: int = 3, search: dict[str, Any] | None = None, **rules: Any
) -> Config:
    model = replace(load_model_config("tiny", "belief"), width=16, hidden=32, global_dim=32)
    training = {"episode": "round", "round_reward": 2.0, **rules}
    return Config(
        seed=seed,
        game=GameConfig("skyjo", players=players, training=training, bots=NAMES),
        model=model,
        search=SearchConfig(simulations=2, max_considered=2, **{"backend": "native", **(search or {})}),
        selfplay=SelfPlayConfig(tables=tables),
        learner=LearnerConfig(),
    )


def runtime_settings(kind: str = "local", mode: str = "sync", workers: int = 1, tables: int = 4) -> Config:
    runtime = RuntimeConfig(kind=kind, device="cpu", threads=1, workers=workers)
    return replace(settings(tables=tables), runtime=runtime, train=TrainConfig(mode=mode))


def weights(config: Config, seed: int = 0) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    network = Network(GameSpec.of(config.game.name, config.game.players), config.model)
    return {name: p.detach() for name, p in network.named_parameters()}


def request(games: int, opponents: OpponentMix = MIXED, steps: int = 0) -> PlayRequest:
    return PlayRequest(version=0, games=games, steps=steps, simulations=2, temperature=1.0, opponents=opponents)


def ask(runtime: Runtime, config: Config, games: int = 4) -> list[PlayResult]:
    """Results of one request."""
    runtime.request(request(games), weights(config), weights(config, seed=1))
    return runtime.gather()


def seen_in(played: list[PlayResult]) -> list[bytes]:
    """Observations of each game, which identify its deal: no two deals look the same all the way."""
    return [episode.obs.tobytes() for part in played for episode in part.episodes]


class ObservedWorker(SelfPlay):
    """Worker that notes which deals are dealt, and the deal of each game that ends."""

    def __init__(self, config: Config, worker: int = 0, workers: int = 1) -> None:
        super().__init__(config, worker, workers)
        self.load_weights(weights(config), weights(config, seed=1))
        self.dealt: list[int] = []
        self.ended: list[int] = []
        self._deal: dict[int, int] = {}
        reset = self.tables.reset

        def noting(seed: int, *, deals: list[int], tables: list[int]) -> None:
            self.dealt += deals
            self._deal.update(zip(tables, deals, strict=True))
            reset(seed, deals=deals, tables=tables)

        self.tables.reset = noting  # type: ignore[method-assign, assignment]

    def _collect(self, over: NDArray[np.int64], result: PlayResult) -> None:
        self.ended += [self._deal.get(int(row), -1) for row in over]  # -1: dealt before a checkpoint
        super()._collect(over, result)


def same(one: PlayResult, other: PlayResult) -> bool:
    """Whether two results are the same to the byte, except for their clocks."""

    def bytes_of(episode: Episode) -> list[Any]:
        return [x.tobytes() if isinstance(x, np.ndarray) else x for x in vars(episode).values()]

    assert len(one.episodes) > 0
    return (one.opponents, one.points, one.decisions, one.table_steps) == (
        other.opponents,
        other.points,
        other.decisions,
        other.table_steps,
    ) and [bytes_of(e) for e in one.episodes] == [bytes_of(e) for e in other.episodes]
