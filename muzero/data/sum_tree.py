"""Sum tree: rows drawn in proportion to their weights, a whole batch at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FAN = 32  # number of children of a node of the tree; the number of rows is a multiple of it


class SumTree:
    """Weights of rows, summed by phase in nodes of `FAN` children.

    Sums are updated when they are needed. They are a function of the weights alone: the order in which the weights were
    set makes no difference, not even to rounding.

    Args:
      capacity: number of rows, a multiple of `FAN`.
      num_phases: number of phases of the game, F.
      phase: [capacity] phase of each row. The array is shared: after writing to it, set the weights of those rows.

    Attributes:
      weights: float32 [capacity] weight of each row, 0 for empty rows.
    """

    def __init__(self, capacity: int, num_phases: int, phase: NDArray[np.int8]) -> None:
        self.weights = np.zeros(capacity, np.float32)
        self._phase = phase.reshape(-1, FAN)
        self._dirty = np.zeros(capacity // FAN, np.bool_)
        shapes = self._shapes(capacity, num_phases)
        self._sums = [np.zeros(shape) for shape in shapes]  # sums by level, lowest first; the highest has one node
        self._least = [np.full(shape, np.inf) for shape in shapes]

    @staticmethod
    def _shapes(capacity: int, num_phases: int) -> list[tuple[int, int, int]]:
        """Shapes [phases, nodes, children] of all levels, the lowest first."""
        shapes, nodes = [], capacity // FAN
        while nodes > 1:
            nodes = -(-nodes // FAN)
            shapes.append((num_phases, nodes, FAN))
        return shapes or [(num_phases, 1, FAN)]

    @staticmethod
    def bytes_needed(capacity: int, num_phases: int) -> int:
        """Size of the arrays of a tree in bytes."""
        numbers = sum(F * nodes * children for F, nodes, children in SumTree._shapes(capacity, num_phases))
        return 4 * capacity + capacity // FAN + 2 * 8 * numbers

    @property
    def nbytes(self) -> int:
        """Size of the arrays of this tree in bytes."""
        return sum(array.nbytes for array in (self.weights, self._dirty, *self._sums, *self._least))

    def set(self, rows: NDArray[np.int64] | slice, weights: NDArray[np.float32] | float) -> None:
        """Set the weights of rows; 0 makes a row empty."""
        self.weights[rows] = weights
        if isinstance(rows, slice):
            self._dirty[rows.start // FAN : -(-rows.stop // FAN)] = True
        else:
            self._dirty[rows // FAN] = True

    def totals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum and minimum of the weights of each phase, [F] each; 0 and infinity for a phase without rows."""
        self._settle()
        return np.cumsum(self._sums[-1][:, 0], -1)[:, -1], self._least[-1][:, 0].min(-1)

    def find(self, phase: NDArray[np.int64], mass: NDArray[np.float64]) -> NDArray[np.int64]:
        """First row of a phase up to which the phase's weights sum to more than `mass`: phase, mass [B] -> rows [B]."""
        self._settle()
        node = np.zeros(len(phase), np.int64)
        for sums in reversed(self._sums):
            child, mass = pick(sums[phase, node], mass)
            node = node * FAN + child
        own = self._phase[node] == phase[:, None]
        child, _ = pick(self.weights.reshape(-1, FAN)[node] * own.astype(np.float64), mass)
        return node * FAN + child

    def _settle(self) -> None:
        """Update the sums of nodes that have changed.

        Cumulative sums add in a fixed order; `sum` adds in an order that depends on how many nodes there are.
        """
        nodes = np.flatnonzero(self._dirty)
        if len(nodes) == 0:
            return
        weights, phases = self.weights.reshape(-1, FAN)[nodes].astype(np.float64), self._phase[nodes]
        for phase, (sums, least) in enumerate(zip(self._sums[0], self._least[0], strict=True)):
            own = np.where(phases == phase, weights, 0.0)
            sums.reshape(-1)[nodes] = np.cumsum(own, 1)[:, -1]
            least.reshape(-1)[nodes] = np.where(own > 0, own, np.inf).min(1)
        for (sums, upper_sums), (least, upper_least) in zip(pairwise(self._sums), pairwise(self._least), strict=True):
            nodes = np.unique(nodes // FAN)
            upper_sums.reshape(len(sums), -1)[:, nodes] = np.cumsum(sums[:, nodes], 2)[:, :, -1]
            upper_least.reshape(len(sums), -1)[:, nodes] = least[:, nodes].min(2)
        self._dirty[:] = False


def pick(weights: NDArray[np.float64], mass: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find the entry into which a mass falls: weights [B, X], mass [B] -> entry [B], mass left over inside it [B].

    An entry of weight 0 is never chosen: a mass that rounding has carried past the end falls into the last entry.
    """
    up_to = np.cumsum(weights, 1)
    mass = np.minimum(mass, np.nextafter(up_to[:, -1], 0.0))
    entry = (up_to > mass[:, None]).argmax(1)
    before = up_to[np.arange(len(mass)), np.maximum(entry - 1, 0)]
    return entry, mass - np.where(entry > 0, before, 0.0)
