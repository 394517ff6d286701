"""Losses of a network's predictions, row by row: what the learner asks of a network about positions.

Shapes: B rows, P players, A actions, E egos.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from muzero.model.interface import Prediction
    from muzero.model.layers import Support

HEAD_LOSSES = ("policy", "value", "reward", "winner", "rank", "points", "outcome")


class HeadTargets(NamedTuple):
    """Targets of predictions, seats in the frame of the latents; None is not compared.

    Attributes:
      value: [B, P] values.
      reward: [B, P] rewards of the step to the position.
      shares: [B, P] shares of the seats in the losses of values and points, or [1, P] if they are the same everywhere.
      policy: [B, A] distributions over actions.
      winner: [B, P] distributions of who wins.
      rank: [B, P, P] distributions of each seat's rank.
      points: [B, P] points that each seat still gets.
      outcome: [B] outcome of the chance event in the step to the position.
    """

    value: Tensor
    reward: Tensor
    shares: Tensor
    policy: Tensor | None = None
    winner: Tensor | None = None
    rank: Tensor | None = None
    points: Tensor | None = None
    outcome: Tensor | None = None


class HeadLosses(NamedTuple):
    """Losses of predictions, and what else the learner needs of them.

    Attributes:
      losses: [len(HEAD_LOSSES), B] losses; 0 where the network does not predict it, or there is no target.
      value: [B] value of the frame's first seat, without gradients.
      cards: [B, S, O] logits of hidden cards, as in a `Prediction`.
    """

    losses: Tensor
    value: Tensor
    cards: Tensor | None


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of [..., N] logits and target distributions -> [...]."""
    return -(target * logits.float().log_softmax(-1)).sum(-1)


def per_ego(target: Tensor, egos: int) -> Tensor:
    """Roll targets [B, P, ...], seats counted from the frame's first, to each ego's seat first: [B, E, P, ...]."""
    return torch.stack([target.roll(-ego, 1) for ego in range(egos)], 1)


def head_losses(predicted: Prediction, targets: HeadTargets, support: Support, points_support: Support) -> HeadLosses:
    """Losses of predictions.

    Args:
      predicted: predictions of B latents.
      targets: what they are compared with.
      support: bins of values and rewards.
      points_support: bins of points.
    """
    found = dict.fromkeys(HEAD_LOSSES, torch.zeros_like(targets.value[:, 0]))
    if targets.policy is not None:
        found["policy"] = cross_entropy(predicted.policy, targets.policy)
    values = cross_entropy(predicted.value, support.two_hot(targets.value)) * targets.shares
    found["value"] = values.sum(1)
    found["reward"] = cross_entropy(predicted.reward, support.two_hot(targets.reward)).mean(1)
    if predicted.winner is not None and targets.winner is not None:
        found["winner"] = cross_entropy(predicted.winner, per_ego(targets.winner, predicted.winner.shape[1])).mean(1)
    if predicted.rank is not None and targets.rank is not None:
        found["rank"] = cross_entropy(predicted.rank, per_ego(targets.rank, predicted.rank.shape[1])).mean((1, 2))
    if predicted.points is not None and targets.points is not None:
        points = cross_entropy(predicted.points, points_support.two_hot(targets.points)) * targets.shares
        found["points"] = points.sum(1)
    if predicted.outcome is not None and targets.outcome is not None:
        found["outcome"] = F.cross_entropy(predicted.outcome.float(), targets.outcome, reduction="none")
    value = support.expectation(predicted.value.detach()[:, 0])
    return HeadLosses(torch.stack([found[name] for name in HEAD_LOSSES]), value, predicted.cards)
