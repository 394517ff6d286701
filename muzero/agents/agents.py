"""Agents: classes that choose actions for the players to move.

An agent receives a `Situation`, the observations of the players to move at some tables, and returns an action for each.
A class of your own needs one method, `act` (see `Agent`):

    class FirstLegal:
        def act(self, situation):
            return situation.legal.argmax(1)

    games = paired_games(FirstLegal(), Bot("greedy"), deals=100, game="skyjo")
    print(games.win_rate)

Agents should read `situation.obs` and not the tables, which know all hidden cards. (`Simulator` samples tables that are
possible from its seat's point of view, with `determinize`, which uses only what the seat knows.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.analysis import PositionAnalysis, analyse_positions
from muzero.config import SearchConfig
from muzero.config_fields import require
from muzero.model.network import Network
from muzero.search.planner import Planner


@dataclass(frozen=True)
class Situation:
    """N decisions to make, one per table.

    Attributes:
      obs: [N, W] observation of each player to move.
      legal: [N, A] mask of the legal actions.
      legal_bits: [N] the same, packed: bit a stands for action a.
      to_play: [N] seats to move.
      phase: [N] phases of the game, see `env.VecEnv.phase`.
      keys: [N] one key per decision, the same whenever this decision comes up: seeds for the agent's randomness.
      tables: environment that the tables belong to.
      rows: [N] indices of the tables in it.
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
        """Choose one legal action per decision, [N]; an illegal one is an error."""
        ...


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


class Policy:
    """Network without search: plays the most likely action, or a sample at a temperature."""

    def __init__(self, network: Network, temperature: float = 0.0, name: str = "policy") -> None:
        require(temperature >= 0, "temperature", "0 or more", temperature)
        self.name = name
        self.network = network
        self.temperature = temperature
        self.device = next(network.parameters()).device

    @torch.inference_mode()
    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        obs = torch.from_numpy(situation.obs).to(self.device, non_blocking=True)
        _, outputs = self.network.initial(obs, "maxn")
        logits = outputs[:, : situation.legal.shape[1]].float().cpu().numpy()
        if self.temperature > 0:
            noise = np.stack([np.random.default_rng(int(key)).gumbel(size=logits.shape[1]) for key in situation.keys])
            logits = logits / self.temperature + noise
        return np.asarray(np.where(situation.legal, logits, -np.inf).argmax(1))


class Searcher:
    """Network with search, for at most `batch` decisions per call of the planner."""

    def __init__(
        self, network: Network, config: SearchConfig, batch: int, *, greedy: bool = True, name: str = "search"
    ) -> None:
        self.name = name
        self.planner = Planner(network, config, batch, greedy=greedy)

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        s, legal, most = situation, situation.legal_bits, self.planner.batch
        parts = [
            self.planner.plan(s.obs[i : i + most], legal[i : i + most], s.phase[i : i + most], s.keys[i : i + most])
            for i in range(0, len(s.obs), most)
        ]
        return np.concatenate([plan.actions for plan in parts])

    def analyse(self, tables: env.VecEnv, seed: int = 0) -> PositionAnalysis:
        """Analyse the positions at all tables whose game is not over; see `PositionAnalysis`."""
        return analyse_positions(self.planner, tables, seed)
