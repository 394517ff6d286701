"""Learner of proximal policy optimisation (Schulman et al. 2017): clipped policy gradients, values and entropy.

The network is that of MuZero, of which only the encoder, the policy head and the value head are used. Shapes: N
decisions, P players, A actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from muzero.config import LearnerConfig, PpoConfig
from muzero.model.head_losses import cross_entropy
from muzero.model.interface import BaseNetwork
from muzero.training.learner import Learner, Losses
from muzero.training.losses import value_shares

PPO_LOSSES = ("policy", "value", "entropy", "kl", "clipped")
"""Figures of `ppo_losses`; the last two are not minimised, but tell how far the policy has moved."""


def ppo_losses(network: BaseNetwork, batch: dict[str, Tensor], clip: float) -> tuple[Tensor, Tensor]:
    """Losses of each decision, and the error of the mover's value.

    Where only one action is legal, the policy learns nothing; the mean of its losses over a batch is that over the
    other decisions.

    Args:
      network: network to train.
      batch: fields of `Decisions` as tensors.
      clip: change of an action's probability, as a ratio, beyond which the policy gains nothing.

    Returns:
      Losses [len(PPO_LOSSES), N]; distances [N] of the mover's value from its target.
    """
    legal, advantage = batch["legal"], batch["advantage"]
    first = torch.zeros(len(legal), dtype=torch.int64, device=legal.device)
    predicted = network.predict(network.represent(batch["obs"]), first)
    log_policy = predicted.policy.float().masked_fill(~legal, -torch.inf).log_softmax(-1)
    log_ratio = log_policy.gather(1, batch["action"].unsqueeze(1)).squeeze(1) - batch["log_chance"]
    ratio = log_ratio.exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    entropy = -(log_policy.exp() * log_policy.masked_fill(~legal, 0.0)).sum(1)
    moved = torch.stack([ratio - 1 - log_ratio, ((ratio - 1).abs() > clip).float()]).detach()
    share = batch["free"] / batch["free"].mean().clamp_min(1 / len(legal))
    returns = network.support.two_hot(batch["value"])  # distributions (N, P, bins)
    value = (cross_entropy(predicted.value, returns) * value_shares(network, first)).sum(1)
    own = network.support.expectation(predicted.value.detach()[:, 0])
    losses = torch.stack([-gain * share, value, entropy * share, *(moved * share)])
    return losses, (own - batch["value"][:, 0]).abs()


class PpoLearner(Learner):
    """Trains a network by policy gradients; steps take `Decisions`.

    Args:
      network, config, smaller, discount, threads: arguments of `Learner`.
      ppo: settings of the algorithm.
    """

    NAMES: ClassVar[tuple[str, ...]] = PPO_LOSSES
    compute: ClassVar[Losses] = staticmethod(ppo_losses)

    def __init__(
        self,
        network: BaseNetwork,
        config: LearnerConfig,
        ppo: PpoConfig,
        smaller: Sequence[BaseNetwork] = (),
        discount: float = 1.0,
        threads: int = 1,
    ) -> None:
        ppo.check()
        super().__init__(network, config, smaller, discount, threads)
        self.ppo = ppo
        self._epoch = self._sums.clone(), 0  # sums and number of steps when the epoch began

    def options(self) -> tuple[Any, ...]:
        """See `Learner.options`."""
        return (self.ppo.clip,)

    def weights(self, iteration: int) -> dict[str, float]:
        """Weight of each loss; entropy is wanted, so its weight is negative."""
        wanted = {"policy": 1.0, "value": self.config.value_weight, "entropy": -self.ppo.entropy}
        return dict.fromkeys(PPO_LOSSES, 0.0) | wanted

    def begin_epoch(self) -> None:
        """Begin to measure the divergence of `kl`."""
        self._epoch = self._sums.clone(), self._summed

    def kl(self) -> float:
        """Mean divergence of the policy from the one that played, over the steps since `begin_epoch`."""
        sums, steps = self._epoch
        index = PPO_LOSSES.index("kl")
        return float(self._sums[index] - sums[index]) / max(1, self._summed - steps)
