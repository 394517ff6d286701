"""Runtimes: the interface through which the trainer runs self-play workers, wherever they are.

`local` runs one worker, in this process or in a child process; `ray` runs actors on one machine or on a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from muzero.config import Config
from muzero.selfplay.local_runtime import ChildProcessRuntime, SyncRuntime
from muzero.selfplay.opponents import MakeOpponent
from muzero.selfplay.ray_runtime import RayRuntime
from muzero.selfplay.serialization import Weights
from muzero.selfplay.worker import PlayRequest, PlayResult


class Runtime(Protocol):
    """Runs self-play workers."""

    def request(self, request: PlayRequest, weights: Weights, past_self: Weights | None) -> None:
        """Ask the workers to play; at most `runtime.in_flight` requests per worker are under way.

        Args:
          request: number of games to play, and the settings to play them with.
          weights: weights of the current network.
          past_self: weights of a past network, for games against it.
        """
        ...

    def gather(self) -> list[PlayResult]:
        """Wait for results: in sync mode for all requested ones, in async mode for as many as one request gives."""
        ...

    @property
    def idle(self) -> bool:
        """Whether the cores of self-play on this machine are free at the moment, for the learner to use."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Games in progress, for a checkpoint; {} if they are not known. To be called when no worker is playing."""
        ...

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """Continue from a checkpoint.

        Args:
          state: games in progress; if they cannot be continued, new games begin, with deals not played before.
          games: number of games that the run has finished.
        """
        ...

    def close(self) -> None:
        """Stop the workers."""
        ...


def make_runtime(config: Config, exploited: MakeOpponent | None = None) -> Runtime:
    """Make the runtime that the configuration names.

    Args:
      config: configuration of the run.
      exploited: function that makes the agent to exploit, if `exploit` names one.
    """
    if config.runtime.kind == "ray":
        return RayRuntime(config, exploited)
    return SyncRuntime(config, exploited) if config.train.mode == "sync" else ChildProcessRuntime(config, exploited)
