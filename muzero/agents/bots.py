"""Agents without a network: random play, and the hand-written players of the environment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muzero.agents.situation import Situation


class Random:
    """Uniformly random choice among the legal actions."""

    name = "random"

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        picks = situation.keys % situation.legal.sum(1).astype(np.uint64)
        order = situation.legal.cumsum(1) - 1
        return np.asarray((situation.legal & (order == picks.astype(np.int64)[:, None])).argmax(1))


class Bot:
    """Hand-written player of the environment, by name: `Bot("threshold(t=2)")`."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.seed = seed

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        tables = situation.tables
        bot = tables.bot(self.name)
        return tables.bot_actions([bot] * tables.num_players, self.seed)[situation.rows]
