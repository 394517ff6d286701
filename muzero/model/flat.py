"""Parts of a network whose latent is one vector (`model.latent=flat`), as in the paper.

The flat latent keeps the frame of the root for the whole search. `muzero.model.network` explains the words and the
letters of the shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from muzero.model.layers import PackedLinear, SeatIndices, mlp

if TYPE_CHECKING:
    from muzero.config import ModelConfig
    from muzero.model.spec import GameSpec


class FlatDynamics(nn.Module):
    """Dynamics of the paper: action embedding, MLP with two hidden layers, residual, LayerNorm, and a reward head."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        L, H, self.bins = config.latent_dim, config.hidden, config.value_bins
        self.action = nn.Embedding(spec.num_actions, config.action_dim)
        self.body = nn.Sequential(
            PackedLinear(L + config.action_dim, H), nn.GELU(), PackedLinear(H, H), nn.GELU(), PackedLinear(H, L)
        )
        self.norm = nn.LayerNorm(L)
        self.reward = mlp(L, H, spec.num_players * config.value_bins)

    def seat_indices(self, players: int) -> SeatIndices:
        """See `Network.seat_indices`."""
        logits = torch.arange(players * self.bins)
        return {"reward.2.weight": (0, logits), "reward.2.bias": (0, logits)}

    def forward(self, latent: Tensor, action: Tensor, shift: Tensor, block: None) -> tuple[Tensor, Tensor]:
        """latent [B, L], action [B] -> next latent in the same frame, reward logits [B, P N]

        `shift` and `block` are not used; `SlotDynamics` needs them.
        """
        change = self.body(torch.cat([latent, self.action(action)], 1))
        following = self.norm(latent + change)
        return following, self.reward(following)


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
