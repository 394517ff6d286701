"""Parts of a network whose latent is one vector (`model.latent=flat`), as in the paper.

The flat latent keeps the frame of the root for the whole search. `muzero.model.network` explains the words and the
letters of the shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from muzero.model.layers import PackedMLP, SeatIndices, embedded_outcome, mlp

if TYPE_CHECKING:
    from muzero.config import ModelConfig
    from muzero.model.spec import GameSpec


class FlatDynamics(nn.Module):
    """Dynamics of the paper: action embedding, MLP with two hidden layers, residual, LayerNorm.

    The outcome of a chance event, if the network is told any, has an embedding that is added to the action's.
    """

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        L, H = config.latent_dim, config.hidden
        self.action = nn.Embedding(spec.num_actions, config.action_dim)
        outcomes = spec.outcomes_told(config)
        self.outcome = nn.Embedding(outcomes, config.action_dim, padding_idx=0) if outcomes > 1 else None
        self.body = PackedMLP(L + config.action_dim, H, H, L)
        self.norm = nn.LayerNorm(L)

    def seat_indices(self, players: int) -> SeatIndices:
        """See `Network.seat_indices`."""
        return {}

    def forward(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor, block: None) -> Tensor:
        """latent [B, L], action [B], outcome [B] -> next latent in the same frame

        `shift` and `block` are not used; `SlotDynamics` needs them.
        """
        told = self.action(action)
        if self.outcome is not None:
            told = told + embedded_outcome(self.outcome, outcome)
        return self.norm(latent + self.body(torch.cat([latent, told], 1)))  # type: ignore[no-any-return]


class FlatTrunk(nn.Module):
    """Trunk that hands the conditioned latent to the heads unchanged; the heads are MLPs, as in the paper."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dim = config.latent_dim

    def touched(self, latent: Tensor, action: Tensor) -> None:
        """Return None: a flat latent has no blocks that an action could touch."""

    def split(self, latent: Tensor) -> tuple[None, Tensor]:
        """Split a latent into its boards (None: a flat latent has no boards) and the part to condition (all of it)."""
        return None, latent

    def forward(self, boards: None, conditioned: Tensor, egos: Tensor) -> Tensor:
        """conditioned [B, E, L] -> features [B, E, L]"""
        return conditioned


class FlatPolicy(nn.Module):
    """Policy head with one logit per action."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        self.head = mlp(config.latent_dim, config.hidden, spec.num_actions)

    def forward(self, boards: None, features: Tensor) -> Tensor:
        """features [B, L] -> logits [B, A]"""
        return self.head(features)  # type: ignore[no-any-return]


class FlatCardBeliefs(nn.Module):
    """Head of the cards that the player to move cannot see: a distribution over kinds for each slot."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        self.shape, self.players = (spec.num_slots, spec.num_outcomes), spec.num_players
        self.head = mlp(config.latent_dim, config.hidden, spec.num_slots * spec.num_outcomes)

    def seat_indices(self, players: int) -> SeatIndices:
        """See `Network.seat_indices`: slots stand player by player."""
        kept = torch.arange(self.shape[0] // self.players * players * self.shape[1])
        return {f"head.2.{kind}": (0, kept) for kind in ("weight", "bias")}

    def forward(self, boards: None, features: Tensor) -> Tensor:
        """features [B, L] of the player to move -> logits [B, S, O]"""
        out: Tensor = self.head(features)
        return out.view(len(features), *self.shape)
