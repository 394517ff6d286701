"""Interface between networks and everything that uses them: search, learner, self-play and agents.

A network of one's own is a subclass of `BaseNetwork` that sets `frame` and `latent_dim` and implements `represent`,
`step` and `predict`; `register_network` in `muzero.model.network` gives it a name. `muzero.model.network` explains the
words and the letters of the shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from muzero.config.fields import require
from muzero.model.head_losses import HeadLosses, HeadTargets, head_losses
from muzero.model.layers import Support

if TYPE_CHECKING:
    from muzero.config import ModelConfig
    from muzero.model.spec import GameSpec

UNROLL_GRADIENT = 0.5  # share of the gradient that flows back through each step of the dynamics


class Prediction(NamedTuple):
    """Prediction for a latent, seats in its frame.

    Attributes:
      policy: [B, A] logits for the player to move.
      value: [B, P, N] logits of each seat's value.
      winner: [B, E, P] logits of who wins, seats counted from each ego's; None without the heads. E = P with ego
        conditioning; otherwise E = 1, and the ego is the first seat of the frame.
      rank: [B, E, P, P] logits of each seat's rank, seats counted from each ego's; None without the heads.
      reward: [B, P, N] logits of the rewards that the step to this latent brought; without meaning at a root.
      outcome: [B, O] logits of the outcome of the chance event in the step to this latent, of use where that outcome
        was not told; None if the network does not tell outcomes apart.
      points: [B, P, M] logits of the points that each seat still gets, over `points_support`; None without that head.
      cards: [B, S, O] logits of the card in each slot that the player to move cannot see, 0 for none; slots in the
        order of observations, from the mover on; None without that head.
    """

    policy: Tensor
    value: Tensor
    winner: Tensor | None
    rank: Tensor | None
    reward: Tensor
    outcome: Tensor | None = None
    points: Tensor | None = None
    cards: Tensor | None = None


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
      points_support: bins of the points to come; only read where predictions have them.
      num_outcomes: number of outcome codes of chance events that `step` tells apart, O; 1 if it is never told any.
      learned_codes: whether these codes are learned (`outcome_codes`) instead of the game's.
    """

    spec: GameSpec
    config: ModelConfig
    frame: str
    latent_dim: int
    support: Support
    points_support: Support
    decoder: nn.Module | None

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        config.check()
        self.spec, self.config, self.num_players = spec, config, spec.num_players
        self.support = Support(config.value_min, config.value_max, config.value_bins)
        self.points_support = Support(-max(1.0, config.points), max(1.0, config.points), config.value_bins)
        self.decoder = None
        self.num_outcomes = 1
        self.learned_codes = False

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
    def step(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor) -> Tensor:
        """Take one action in each row.

        Args:
          latent: [B, L] latents.
          action: [B] actions to take.
          shift: [B] number of seats by which the turn moves on; 0 if the same player moves again.
          outcome: [B] outcome of the chance event that follows the action; 0 if there is none, or if it is not told:
            the next latent is then an afterstate, which stands for all outcomes. Of a network with learned codes also
            [B, O] weights of the codes, which gradients may flow back to.

        Returns:
          Next latents [B, L], in the next mover's frame if the frame is "mover".
        """

    @abstractmethod
    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        """Predict policy, values, rewards and outcomes.

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
        return latent, self.evaluate(latent, to_play, backup, root=True)

    def recurrent(
        self, latent: Tensor, action: Tensor, shift: Tensor, to_play: Tensor, outcome: Tensor, backup: str
    ) -> tuple[Tensor, Tensor]:
        """Take one action in each row and evaluate the result.

        Args:
          latent: [B, L] latents.
          action: [B] actions to take.
          shift: [B] number of seats by which the turn moves on.
          to_play: [B] seats of the players to move after the action, counted from the root's player.
          outcome: [B] outcomes of chance events, 0 where they are not told.
          backup: how values go up the trees, "maxn" or "ego", as for `initial`.

        Returns:
          Next latents [B, L]; outputs [B, A + 2 V], or [B, A + O + 2 V] if the network tells outcomes apart: policy
          logits, outcome logits, values and rewards, all in the frame of the next latent.
        """
        latent = self.step(latent, action, shift, outcome)
        return latent, self.evaluate(latent, to_play, backup, root=False)

    def evaluate(self, latent: Tensor, to_play: Tensor, backup: str, root: bool) -> Tensor:
        """Evaluate latents for the search.

        Args:
          latent: [B, L] latents.
          to_play: [B] seats of the players to move, counted from the root's player.
          backup: how values go up the trees, "maxn" or "ego", as for `initial`.
          root: whether these are roots, for which only policy and values are wanted.

        Returns:
          Outputs as `initial` and `recurrent` return them.
        """
        prediction = self.predict(latent, to_play)
        numbers = [prediction.value] if root else [prediction.value, prediction.reward]
        found = [self.support.expectation(logits) for logits in numbers]
        if backup == "ego":
            found = [self.of_root_player(number, to_play) for number in found]
        outcome = [prediction.outcome.float()] if prediction.outcome is not None and not root else []
        return torch.cat([prediction.policy.float(), *outcome, *found], 1)

    def of_root_player(self, numbers: Tensor, to_play: Tensor) -> Tensor:
        """numbers [B, P] in the frame, to_play [B] counted from the root's player -> the root player's, [B, 1]"""
        if self.frame == "root":
            return numbers[:, :1]
        return numbers.gather(1, (-to_play % self.num_players).unsqueeze(1))

    def card_counts(self, latent: Tensor) -> Tensor:
        """Expected number of hidden cards of each kind, [B, O - 1], for roots [B, L]; needs the head `cards`."""
        cards = self.predict(latent, torch.zeros(len(latent), dtype=torch.int64, device=latent.device)).cards
        assert cards is not None, "the search asks for this only if the network has card beliefs"
        return cards.float().softmax(-1)[:, :, 1:].sum(1)

    # ---- for the learner ---------------------------------------------------------------------------------

    def unroll(
        self, obs: Tensor, actions: Tensor, shifts: Tensor, outcomes: Tensor, few: int, at: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take K actions after each of B observations; each step passes UNROLL_GRADIENT of the gradient on.

        Args:
          obs: [B, W] observations of the players to move.
          actions, shifts, outcomes: [B, K] arguments of `step`, outcomes of learned codes [B, K, O].
          few: number of windows that the caller needs a second time.
          at: [B] position of each window that the caller needs once more, 0 to K.

        Returns:
          Latents [K + 1, B, L], those of the first `few` windows [K + 1, few, L], and latents [B, L] of the positions
          `at`. They share memory or not; gradients of all three add up.
        """
        latent = self.represent(obs)
        latents = [latent]
        for k in range(actions.shape[1]):
            latent = self.step(pass_on(latent), actions[:, k], shifts[:, k], outcomes[:, k])
            latents.append(latent)
        unrolled = torch.stack(latents)
        some, picked = _Parts.apply(unrolled, few, at)  # type: ignore[no-untyped-call]
        return unrolled, some, picked

    def compare(self, latent: Tensor, to_play: Tensor, targets: HeadTargets) -> HeadLosses:
        """latent [B, L], to_play [B] as in `predict`, targets -> losses of the predictions, and values"""
        return head_losses(self.predict(latent, to_play), targets, self.support, self.points_support)

    def values_of_observation(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """obs [B, W] of the players to move -> latents [B, L]; values [B, P] in the frame of the observers"""
        latent, outputs = self.initial(obs, "maxn")
        return latent, outputs[:, self.spec.num_actions :]

    def outcome_codes(self, latent: Tensor) -> Tensor:
        """latent [B, L] of the position after a step -> logits [B, O - 1] of the step's code, from 1 on; called only if
        codes are learned"""
        raise NotImplementedError(f"{type(self).__name__} has learned codes, but no outcome_codes")

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


class _Parts(torch.autograd.Function):
    """Parts of unrolled latents [K+1, B, L]: those of the first `few` windows, and one latent [B, L] of each window.

    What torch would do too, but with one gradient of the size of the whole instead of one for each part.
    """

    @staticmethod
    def forward(ctx: Any, unrolled: Tensor, few: int, at: Tensor) -> tuple[Tensor, Tensor]:
        ctx.shape = unrolled.shape
        row = torch.arange(len(at), device=at.device)
        ctx.save_for_backward(at, row)
        ctx.set_materialize_grads(False)
        return unrolled[:, :few], unrolled[at, row]

    @staticmethod
    def backward(ctx: Any, d_some: Tensor | None, d_picked: Tensor | None) -> tuple[Tensor | None, ...]:
        given = d_picked if d_some is None else d_some
        if given is None:
            return None, None, None
        few = 0 if d_some is None else d_some.shape[1]
        gradient = given.new_empty(ctx.shape)
        if d_some is not None:
            gradient[:, :few] = d_some
        gradient[:, few:] = 0
        if d_picked is not None:
            gradient.index_put_(ctx.saved_tensors, d_picked, accumulate=True)
        return gradient, None, None


def pass_on(latent: Tensor) -> Tensor:
    """Latent that passes on UNROLL_GRADIENT of its gradient."""
    return cast("Tensor", _PassedOn.apply(latent))  # type: ignore[no-untyped-call]


class _PassedOn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * UNROLL_GRADIENT
