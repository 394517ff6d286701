"""Past networks of a self-play worker: a game that began against one of them ends against the same one.

There are at most two. New games are played against the current one; when new weights come while such games are under
way, the current one stays until its last game has ended, and the other one becomes current. While both are needed, new
weights are not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from muzero.model.interface import BaseNetwork
from muzero.selfplay.serialization import weights_from_numpy, weights_to_numpy

PREFIX = "past_"
"""Beginning of the names of arrays in a checkpoint that belong to past networks."""

NETWORKS = 2
"""Number of past networks that a worker keeps."""

NOBODY = -1
"""Entry of `PastSelves.met` for games without a past network."""


class PastSelves:
    """Past networks that games at a worker's tables are played against.

    Args:
      tables: number of tables, B.
      make: makes a network, in inference mode and on its device.

    Attributes:
      met: int8 [B] index of the past network at each table, `NOBODY` where there is none.
      current: index of the network that new games are played against.
    """

    def __init__(self, tables: int, make: Callable[[], BaseNetwork]) -> None:
        self.met = np.full(tables, NOBODY, np.int8)
        self.current = 0
        self._make = make
        self._networks: list[BaseNetwork | None] = [None] * NETWORKS

    def network(self, index: int) -> BaseNetwork:
        """Past network with this index; one that no weights were taken for is untrained."""
        network = self._networks[index]
        if network is None:
            network = self._networks[index] = self._make()
        return network

    def offer(self, weights: Mapping[str, Tensor]) -> bool:
        """Take weights for the games that begin from now on, unless both networks have games under way."""
        free = [i for i in (self.current, 1 - self.current) if self._networks[i] is None or not (self.met == i).any()]
        if not free:
            return False
        self.current = free[0]
        self.network(self.current).load_state_dict(dict(weights))
        return True

    def state(self) -> dict[str, NDArray[Any]]:
        """Networks in use and games that they are needed for, for a checkpoint."""
        arrays = {"past_met": self.met.copy(), "past_current": np.array([self.current])}
        for i, network in enumerate(self._networks):
            if network is not None and (i == self.current or (self.met == i).any()):
                named = weights_to_numpy(dict(network.named_parameters()))
                arrays |= {f"{PREFIX}{i}.{name}": array for name, array in named.items()}
        return arrays

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a checkpoint."""
        self.met, self.current = state["past_met"].astype(np.int8), int(state["past_current"][0])
        for i in range(len(self._networks)):
            prefix = f"{PREFIX}{i}."
            own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            if own:
                self.network(i).load_state_dict(weights_from_numpy(own))
            else:
                self._networks[i] = None
