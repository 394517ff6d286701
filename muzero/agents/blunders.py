"""Agents made weaker on purpose: a share of their decisions is drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muzero.agents.situation import Agent, Situation
from muzero.config.fields import require

_STREAM = 0xB1  # keeps the draws apart from the agent's own


def blunder(legal: NDArray[np.int64], key: int, share: float) -> int | None:
    """Action drawn at random, in a share of the decisions; None in the others.

    Args:
      legal: legal actions.
      key: seed of the decision.
      share: share of the decisions that are drawn at random, 0 to 1.
    """
    if share <= 0:
        return None
    rng = np.random.default_rng([_STREAM, key])
    return int(rng.choice(legal)) if rng.random() < share else None


class Blundering:
    """Agent that draws a share of its decisions at random, and makes the others as another agent does.

    Args:
      agent: agent that makes the other decisions.
      share: share of the decisions that are drawn at random, 0 to 1.
    """

    def __init__(self, agent: Agent, share: float) -> None:
        require(0 <= share <= 1, "blunders", "a share from 0 to 1", share)
        self.agent, self.share = agent, share

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        actions = np.array(self.agent.act(situation), np.int64)
        for row, key in enumerate(situation.keys.tolist()):
            drawn = blunder(np.flatnonzero(situation.legal[row]), key, self.share)
            actions[row] = actions[row] if drawn is None else drawn
        return actions
