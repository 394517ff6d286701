"""Results of planning: a plan for acting and training, an analysis for people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Plan:
    """Recommendations of a search for B positions.

    Attributes:
      actions: [B] actions to take.
      policy: [B, A] policy targets.
      values: [B, V] search values of the seats, from the mover's seat on; V = P, or 1 with the backup "ego".
    """

    actions: NDArray[np.int64]
    policy: NDArray[np.float32]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class Analysis:
    """Everything that a search found out about B positions.

    Attributes:
      actions: [B] actions that `Planner.plan` would take.
      policy: [B, A] policy after the search, as in `Plan`.
      values: [B, V] search values, as in `Plan`.
      prior: [B, A] policy of the network that the search started from, over the legal actions, without root noise.
      visits: [B, A] number of simulations that started with each action.
      q: [B, A] value of each action for the player to move; NaN where an action was not visited.
      lines: [B, D, 2] most visited moves from the chosen action on: actions and the outcomes of the chance events that
        follow them (0 for none); -1 past the end.
    """

    actions: NDArray[np.int64]
    policy: NDArray[np.float32]
    values: NDArray[np.float32]
    prior: NDArray[np.float32]
    visits: NDArray[np.float32]
    q: NDArray[np.float32]
    lines: NDArray[np.int64]
