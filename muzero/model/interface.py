"""Interface between networks and everything that uses them: search, learner, self-play and agents.

A network of one's own is a subclass of `BaseNetwork` that sets `frame` and `latent_dim` and implements `represent`,
`step` and `predict`; `register_network` in `muzero.model.network` gives it a name. `muzero.model.network` explains the
words and the letters of the shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from muzero.config_fields import require
from muzero.model.layers import Support

if TYPE_CHECKING:
    from muzero.config import ModelConfig
    from muzero.model.spec import GameSpec


class Prediction(NamedTuple):
    """Prediction for a latent, seats in its frame.

    Attributes:
      policy: [B, A] logits for the player to move.
      value: [B, P, N] logits of each seat's value.
      winner: [B, E, P] logits of who wins, seats counted from each ego's; None without the heads. E = P with ego
        conditioning; otherwise E = 1, and the ego is the first seat of the frame.
      rank: [B, E, P, P] logits of each seat's rank, seats counted from each ego's; None without the heads.
    """

    policy: Tensor
    value: Tensor
    winner: Tensor | None
    rank: Tensor | None


class BaseNetwork(nn.Module, ABC):
    """Network that can be searched with and trained.

    Attributes, which a subclass sets where they are not set here:
      spec: description of the game.
      config: settings of the model; a subclass reads what it needs.
      num_players: number of players, P.
      frame: order of the seats: "root" if latents keep the frame of the search's root, "mover" if they turn with the
        player to move.
      latent_dim: size of a latent, L.
      support: bins of values and rewards.
      decoder: module behind `reconstruction_loss`, or None; then the learner computes neither this loss nor the
        consistency loss.
    """

    spec: GameSpec
    config: ModelConfig
    frame: str
    latent_dim: int
    support: Support
    decoder: nn.Module | None

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        config.check()
        self.spec, self.config, self.num_players = spec, config, spec.num_players
        self.support = Support(config.value_min, config.value_max, config.value_bins)
        self.decoder = None

    # ---- to be implemented -------------------------------------------------------------------------------

    @abstractmethod
    def represent(self, obs: Tensor) -> Tensor:
        """Encode observations.

        Args:
          obs: [B, W] observations of the players to move, integers.

        Returns:
          Latents [B, L] in the frame of the observers.
        """

    @abstractmethod
    def step(self, latent: Tensor, action: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Take one action in each row.

        Args:
          latent: [B, L] latents.
          action: [B] actions to take.
          shift: [B] number of seats by which the turn moves on; 0 if the same player moves again.

        Returns:
          Next latents [B, L], in the next mover's frame if the frame is "mover"; reward logits [B, P, N], seats in the
          frame of the latents given.
        """

    @abstractmethod
    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        """Predict policy, values and outcomes.

        Args:
          latent: [B, L] latents.
          to_play: [B] seats of the players to move, counted from the root's player (0 at the root).
        """

    # ---- for the search: numbers instead of distributions -------------------------------------------------

    def initial(self, obs: Tensor, backup: str) -> tuple[Tensor, Tensor]:
        """Evaluate roots.

        Args:
          obs: [B, W] observations of the players to move.
          backup: how values go up the trees: "maxn" for values of all seats (V = P), "ego" for the root player's alone
            (V = 1).

        Returns:
          Latents [B, L]; outputs [B, A + V], policy logits and values.
        """
        latent = self.represent(obs)
        to_play = torch.zeros(len(obs), dtype=torch.int64, device=obs.device)
        return latent, torch.cat(self.policy_and_values(latent, to_play, backup), 1)

    def recurrent(
        self, latent: Tensor, action: Tensor, shift: Tensor, to_play: Tensor, backup: str
    ) -> tuple[Tensor, Tensor]:
        """Take one action in each row and evaluate the result.

        Args:
          latent: [B, L] latents.
          action: [B] actions to take.
          shift: [B] number of seats by which the turn moves on.
          to_play: [B] seats of the players to move after the action, counted from the root's player.
          backup: how values go up the trees, "maxn" or "ego", as for `initial`.

        Returns:
          Next latents [B, L]; outputs [B, A + 2 V], policy logits, values and rewards.
        """
        latent, reward_logits = self.step(latent, action, shift)
        rewards = self.support.expectation(reward_logits)
        if backup == "ego":
            rewards = self.of_root_player(rewards, (to_play - shift) % self.num_players)
        elif self.frame == "mover":  # the search wants them in the frame of the new latent
            seats = torch.arange(self.num_players, device=shift.device)
            rewards = rewards.gather(1, (seats + shift.unsqueeze(1)) % self.num_players)
        return latent, torch.cat([*self.policy_and_values(latent, to_play, backup), rewards], 1)

    def policy_and_values(self, latent: Tensor, to_play: Tensor, backup: str) -> tuple[Tensor, Tensor]:
        """Evaluate latents for the search.

        Args:
          latent: [B, L] latents.
          to_play: [B] seats of the players to move, counted from the root's player.
          backup: how values go up the trees, "maxn" or "ego", as for `initial`.

        Returns:
          Policy logits [B, A]; values [B, V].
        """
        prediction = self.predict(latent, to_play)
        values = self.support.expectation(prediction.value)
        return prediction.policy.float(), self.of_root_player(values, to_play) if backup == "ego" else values

    def of_root_player(self, numbers: Tensor, to_play: Tensor) -> Tensor:
        """numbers [B, P] in the frame, to_play [B] counted from the root's player -> the root player's, [B, 1]"""
        if self.frame == "root":
            return numbers[:, :1]
        return numbers.gather(1, (-to_play % self.num_players).unsqueeze(1))

    # ---- for the learner ---------------------------------------------------------------------------------

    def values_of_observation(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """obs [B, W] of the players to move -> latents [B, L]; values [B, P] in the frame of the observers"""
        latent, outputs = self.initial(obs, "maxn")
        return latent, outputs[:, self.spec.num_actions :]

    def reconstruction_loss(self, latent: Tensor, obs: Tensor) -> Tensor:
        """latent [B, L], obs [B, W] of the players to move there -> loss [B]; called only if there is a decoder"""
        raise NotImplementedError(f"{type(self).__name__} has a decoder, but no reconstruction_loss")

    def weights_for(self, players: int, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Select, from weights of this network, those of the same network for as many players or fewer."""
        require(players == self.num_players, "players", f"{self.num_players}, the number this network is for", players)
        return dict(weights)

    # ---- for experiments ---------------------------------------------------------------------------------

    def set_ablation(self, ablation: str) -> None:
        """Switch a part of the network off at inference; "none" switches everything on."""
        require(ablation == "none", "ablation", f"none for a {type(self).__name__}", ablation)
