"""Decisions that agents are asked for, and the method that answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import env


@dataclass(frozen=True)
class Situation:
    """N decisions to make, one per table.

    Attributes:
      obs: [N, W] observation of each player to move.
      legal: [N, A] mask of the legal actions.
      legal_bits: [N] mask of the legal actions, packed: bit a stands for action a.
      to_play: [N] seats of the players to move.
      phase: [N] phases of the game, see `env.VecEnv.phase`.
      keys: [N] one key per decision, the same whenever this decision comes up: seeds for the agent's randomness.
      tables: environment that the tables belong to.
      rows: [N] indices of the tables in this environment.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.bool_]
    legal_bits: NDArray[np.uint64]
    to_play: NDArray[np.int8]
    phase: NDArray[np.int8]
    keys: NDArray[np.uint64]
    tables: env.VecEnv
    rows: NDArray[np.int64]

    @staticmethod
    def at(tables: env.VecEnv, rows: NDArray[np.int64] | None = None, seed: int = 0) -> Situation:
        """Situation at some tables, by default at all tables whose game is not over."""
        rows = np.flatnonzero(tables.legal.any(1)) if rows is None else rows
        return Situation(
            tables.obs[rows],
            tables.legal[rows],
            tables.legal_bits[rows],
            tables.to_play[rows],
            tables.phase[rows],
            tables.decision_keys(seed)[rows],
            tables,
            rows,
        )


class Agent(Protocol):
    """Anything that can play: a class with this one method.

    The same situation must always give the same actions (random choices are drawn from `situation.keys`), and decisions
    must not depend on earlier games: matches are interrupted, resumed and split among processes.
    """

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """Choose one legal action per decision, [N]; an illegal action is an error."""
        ...
