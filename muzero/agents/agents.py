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

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.analysis import PositionAnalysis, analyse_positions
from muzero.agents.bots import Bot, Random
from muzero.agents.situation import Agent, Situation
from muzero.config import SearchConfig
from muzero.config.fields import require
from muzero.model.interface import BaseNetwork
from muzero.search.planner import NetworkError, Planner

__all__ = ["Agent", "Bot", "Policy", "Random", "Searcher", "Situation"]


class Policy:
    """Network without search: plays the most likely action, or a sample at a temperature."""

    def __init__(self, network: BaseNetwork, temperature: float = 0.0, name: str = "policy") -> None:
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
        self, network: BaseNetwork, config: SearchConfig, batch: int, *, greedy: bool = True, name: str = "search"
    ) -> None:
        self.name = name
        self.planner = Planner(network, config, batch, greedy=greedy)

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        s, legal, most = situation, situation.legal_bits, self.planner.batch
        try:
            parts = [
                self.planner.plan(s.obs[i : i + most], legal[i : i + most], s.phase[i : i + most], s.keys[i : i + most])
                for i in range(0, len(s.obs), most)
            ]
        except NetworkError as error:
            raise ValueError(f"agent {self.name!r}: {error}") from None
        return np.concatenate([plan.actions for plan in parts])

    def analyse(self, tables: env.VecEnv, seed: int = 0) -> PositionAnalysis:
        """Analyse the positions at all tables whose game is not over; see `PositionAnalysis`."""
        return analyse_positions(self.planner, tables, seed)
