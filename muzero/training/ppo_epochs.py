"""An iteration of proximal policy optimisation: epochs over the newest rollouts, which are then forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from muzero.config import PpoConfig
from muzero.data.rollouts import Decisions, Rollout, explained_variance, normalised, own_decisions
from muzero.training.ppo import PpoLearner


def learn_from_rollouts(
    learner: PpoLearner,
    rollouts: Sequence[Rollout],
    ppo: PpoConfig,
    rng: np.random.Generator,
    iteration: int,
    before_step: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Make epochs over the decisions of the policy, until there are enough or the policy has moved far enough.

    Args:
      learner: learner of the network that has played.
      rollouts: steps of the tables, a rollout for each worker and number of players.
      ppo: settings of the algorithm.
      rng: random stream of the order of minibatches.
      iteration: number of iterations made.
      before_step: function that is called before each step.

    Returns:
      Mean losses and the share of the returns' variance that values explained; {} if the policy has decided nothing.
    """
    parts = [own_decisions(rollout, learner.discount, ppo.gae_lambda) for rollout in rollouts]
    parts = [part for part in parts if len(part)]
    if not parts:
        return {}
    explained = explained_variance(parts)
    if ppo.normalise:
        parts = normalised(parts)
    for _ in range(ppo.epochs):
        learner.begin_epoch()
        for batch in minibatches(parts, ppo.minibatch, rng):
            before_step()
            learner.step(batch, iteration)
        if ppo.largest_kl and learner.kl() > ppo.largest_kl:
            break
    return {**learner.report(), "explained_variance": explained}


def minibatches(parts: Sequence[Decisions], size: int, rng: np.random.Generator) -> Iterator[Decisions]:
    """Draw minibatches of about `size` decisions in random order, each decision once.

    Args:
      parts: decisions; those of one part, of one number of players, share minibatches.
      size: largest size of a minibatch.
      rng: random stream of the order.
    """
    chosen = [
        (part, index) for part in parts for index in np.array_split(rng.permutation(len(part)), -(-len(part) // size))
    ]
    for number in rng.permutation(len(chosen)):
        part, index = chosen[number]
        yield part.select(index)
