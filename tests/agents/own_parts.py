"""Agents, an encoder and a network as a user might write them, named by import paths in tests."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from muzero import BaseNetwork, Prediction, Situation
from muzero.config import ModelConfig
from muzero.model.spec import GameSpec, Group


class FirstLegal:
    """Takes the first legal action, or the last."""

    def __init__(self, last: bool = False, depth: int = 1) -> None:
        self.last, self.depth = last, depth

    def act(self, situation: Situation) -> NDArray[np.int64]:
        if self.last:
            return situation.legal.shape[1] - 1 - situation.legal[:, ::-1].argmax(1)
        return situation.legal.argmax(1)


class Table:
    """Agent that wants to know its table."""

    def __init__(self, game: str, players: int) -> None:
        self.told = game, players

    def act(self, situation: Situation) -> NDArray[np.int64]:
        return situation.legal.argmax(1)


class Cheat:
    """Agent whose actions are no actions of the game."""

    def act(self, situation: Situation) -> NDArray[np.int64]:
        return np.full(len(situation.obs), 99)


class Broken:
    """Agent whose code fails."""

    def act(self, situation: Situation) -> NDArray[np.int64]:
        raise KeyError("no such card")


class MeanEncoder(nn.Module):
    """Encoder of a flat latent: one linear layer of the whole row."""

    def __init__(self, spec: GameSpec, config: ModelConfig, groups: list[Group]) -> None:
        super().__init__()
        self.layer = nn.Linear(spec.width, config.latent_dim)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.layer(obs.float() / 8))


class ShortEncoder(MeanEncoder):
    """Encoder whose latents are too short."""

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs)[:, :3]


class OwnNetwork(BaseNetwork):
    """Network of linear layers with a flat latent of 24 numbers."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__(spec, config)
        self.frame, self.latent_dim = "root", 24
        self.encode = nn.Linear(spec.width, 24)
        self.move = nn.Embedding(spec.num_actions, 24)
        self.policy = nn.Linear(24, spec.num_actions)
        self.numbers = nn.Linear(24, 2 * spec.num_players * config.value_bins)

    def represent(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.encode(obs.float() / 8))

    def step(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor) -> Tensor:
        return torch.tanh(latent + self.move(action))

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        value, reward = self.numbers(latent).unflatten(1, (2, self.num_players, -1)).unbind(1)
        return Prediction(self.policy(latent), value, None, None, reward)
