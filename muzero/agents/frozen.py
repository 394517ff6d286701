"""Frozen agents: opponents of self-play that never learn."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.situation import Situation
from muzero.config import Config


class FrozenAgent:
    """Agent of a string, for up to `batch` decisions at a time.

    Args:
      name: text of the agent, as `AgentSpec.parse` reads it.
      game, players: table that it sits at.
      batch, lanes: arguments of `build`.
    """

    def __init__(self, name: str, game: str, players: int, *, batch: int, lanes: int = 1) -> None:
        with torch.random.fork_rng(devices=[]):  # the first weights of its network do not matter
            self.agent = build(AgentSpec.parse(name), game, players, batch=batch, lanes=lanes)

    def __call__(self, tables: env.VecEnv, rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Choose an action at some tables."""
        return self.agent.act(Situation.at(tables, rows, seed))


def make_exploited(config: Config) -> FrozenAgent:
    """Agent that `exploit` names, at the tables of a worker."""
    assert config.exploit, "there is somebody to exploit"
    game, lanes = config.game, config.search.lanes
    return FrozenAgent(config.exploit, game.name, game.players, batch=config.selfplay.tables, lanes=lanes)
