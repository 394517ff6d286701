"""Planning for a batch of positions with a network: where torch meets mcts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from muzero.config import SearchConfig
from muzero.model.interface import BaseNetwork
from muzero.search.backend import make_native_step, resolve_backend, resolve_precision
from muzero.search.lane import COMPILED_BACKENDS, Clock, Lane
from muzero.search.plan import Analysis, Plan

__all__ = ["Analysis", "Clock", "NetworkError", "Plan", "Planner"]

Found = TypeVar("Found", Plan, Analysis)


class NetworkError(ValueError):
    """Error: what a network says of positions is no numbers, or too large ones; the trees refuse it."""


class Planner:
    """Searches with a network for up to `batch` positions at a time.

    The positions are split among `config.lanes` lanes, each with its own trees, hidden states and thread. Small
    networks on a CPU want as many lanes as cores and one thread of torch: their matrix products are too short to be
    shared among threads.

    Args:
      network: network to search with, on the device that it runs on; used in inference mode.
      config: settings of the search.
      batch: largest number of positions in one call.
      greedy: whether to play for evaluation: no root noise, an unchanged prior, and the most visited action.
    """

    def __init__(self, network: BaseNetwork, config: SearchConfig, batch: int, *, greedy: bool = False) -> None:
        config.check()
        config = resolve_precision(network, config)
        greedy_overrides: dict[str, Any] = {}
        if greedy:
            greedy_overrides = {"gumbel_scale": 0.0, "dirichlet_fraction": 0.0, "prior_temperature": 1.0}
        self.config = replace(config, backend=resolve_backend(network, config), **greedy_overrides)
        self.batch, self.greedy, self.network = batch, greedy, network
        per_lane = -(-batch // config.lanes)
        self._native_step = make_native_step(network, self.config)
        self.lanes = [Lane(network, self.config, per_lane, self._native_step) for _ in range(config.lanes)]
        self._threads = ThreadPoolExecutor(config.lanes - 1) if config.lanes > 1 else None
        if self.config.backend in COMPILED_BACKENDS:
            self.lanes[0].run_network()  # compile here, not in several threads at once; all lanes have the same shapes

    @property
    def clock(self) -> Clock:
        """Time and work since the planner was made, added up over the lanes."""
        clocks = [asdict(lane.clock) for lane in self.lanes]
        return Clock(**{name: sum(clock[name] for clock in clocks) for name in clocks[0]})

    @property
    def bytes(self) -> int:
        """Memory of the trees and hidden states in bytes."""
        return sum(lane.bytes for lane in self.lanes)

    def plan(
        self,
        obs: NDArray[np.int16],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float = 1.0,
    ) -> Plan:
        """Search B positions for actions and training targets.

        Args:
          obs: [B, W] observations of the players to move.
          legal: [B] packed masks of the legal actions, at least one per row: bit a stands for action a.
          phase: [B] phases of the game.
          keys: [B] seeds of each position's random numbers.
          temperature: temperature at which an action is drawn (puct): visits are raised to the power 1 / temperature.
        """
        return _concatenate(Plan, self._in_lanes(Lane.plan, obs, legal, phase, keys, temperature))

    def analyse(
        self,
        obs: NDArray[np.int16],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float = 1.0,
    ) -> Analysis:
        """Search B positions and keep everything that the search found out; arguments as in `plan`.

        Positions with one legal action are searched too, whatever `skip_forced` says.
        """
        return _concatenate(Analysis, self._in_lanes(Lane.analyse, obs, legal, phase, keys, temperature))

    def _in_lanes(
        self,
        work: Callable[..., Found],
        obs: NDArray[np.int16],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float,
    ) -> list[Found]:
        """Results of a method of `Lane` for consecutive parts of the batch, one part per lane, at the same time."""
        assert obs.shape[1:] == (self.network.spec.width,), obs.shape
        if not legal.all():
            raise ValueError(f"legal: expected an action in every row, got none in row {int((legal == 0).argmax())}")
        if self._native_step is not None:
            self._native_step.refresh()
        temperature = 0.0 if self.greedy else temperature
        size = -(-len(obs) // len(self.lanes))
        parts = [slice(i, i + size) for i in range(0, len(obs), size)]
        calls = [
            (lane, obs[part], legal[part], phase[part], keys[part], temperature)
            for lane, part in zip(self.lanes, parts, strict=False)
        ]
        try:
            if self._threads is None or len(calls) == 1:
                return [work(*call) for call in calls]
            others: list[Future[Found]] = [self._threads.submit(work, *call) for call in calls[1:]]
            found = [work(*calls[0])]
            found += [other.result() for other in others]
            return found
        except ValueError as error:
            raise NetworkError(f"expected a network whose outputs are numbers, got {error}") from None


def _concatenate(kind: type[Found], parts: Sequence[Found]) -> Found:
    """Join the lanes' plans or analyses, in order, into one."""
    return kind(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(kind)})
