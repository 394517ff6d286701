"""Recorder of rollouts: every step of a worker's tables in one call, for algorithms that learn from them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config import SearchConfig
from muzero.data.rollouts import Rollout
from muzero.data.trajectory import Episode, TrajectoryBuffer

_FIELDS = ("obs", "legal", "action", "to_play", "rewards", "policy", "values", "has_policy")


def without_search(search: SearchConfig) -> SearchConfig:
    """Settings with which a planner draws actions from the network's policy itself, and values all seats."""
    return replace(
        search,
        algorithm="gumbel",  # without simulations, its choice is a sample of the policy
        simulations=0,
        gumbel_scale=1.0,
        prior_temperature=1.0,
        backup="maxn",
        merge=False,
    )


class RolloutRecorder:
    """Steps of tables in lockstep since the last rollout: `note` each one, `stop` the games that end, and `finish`."""

    def __init__(self) -> None:
        self._steps: list[dict[str, NDArray[Any]]] = []

    def note(self, trajectory: TrajectoryBuffer) -> None:
        """Copy the step that a trajectory buffer has just completed."""
        step = trajectory.latest(*_FIELDS)
        step["goes_on"] = np.ones(len(step["action"]), np.bool_)
        step["future"] = np.zeros_like(step["rewards"])
        self._steps.append(step)

    def stop(self, over: NDArray[np.int64], episodes: Sequence[Episode]) -> None:
        """End the games at some tables with the latest step; truncated ones leave values of their last position."""
        step = self._steps[-1]
        step["goes_on"][over] = False
        step["future"][over] = [episode.last_values for episode in episodes]

    def in_progress(self) -> NDArray[np.int64]:
        """Tables at which the game of the latest step goes on."""
        return np.flatnonzero(self._steps[-1]["goes_on"])

    def finish(self, rows: NDArray[np.int64], values: NDArray[np.float32]) -> Rollout:
        """Rollout of all steps so far, given the values [N, P] of the games in progress, at tables `rows` [N]."""
        last = self._steps[-1]
        last["future"][rows] = values
        last["goes_on"][:] = False
        arrays = {name: np.stack([step[name] for step in self._steps]) for name in last}
        self._steps = []
        return Rollout(own=arrays.pop("has_policy"), **arrays)
