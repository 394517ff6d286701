"""Steps on copies of tables: what chance might have brought after an action, with everything that nobody has seen dealt
anew.

Luck adjustment of matches and self-play judge such copies. Their hidden cards come from the view of the dealer
(`env.DEALER`), who knows what any player has seen: a copy has exactly the distribution of the real table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import env

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GRAIN = 128  # numbers of copies are rounded up to multiples of this
_AT_ONCE = 512  # steps that are looked at at a time
_SCREEN = 1 << 32  # numbers of the deals that only tell whether a step is random


class ImaginedSteps:
    """Copies of tables after their actions; the copies are kept and used again."""

    def __init__(self) -> None:
        self._copies: dict[int, env.VecEnv] = {}

    def play(
        self, tables: env.VecEnv, rows: Ints, actions: Ints, numbers: NDArray[np.uint64], outcomes: Ints | None
    ) -> env.VecEnv:
        """Copies of tables `rows` [n] after their actions [n]; valid until the next call.

        Args:
          tables: tables that are copied; they do not change.
          rows: [n] tables to copy.
          actions: [n] legal actions.
          numbers: [n] numbers of the deals; the same table with the same number is dealt the same cards.
          outcomes: [n] outcomes of the chance events to be told, or None for what the deals bring.

        Returns:
          Tables of which the first n are the copies.
        """
        count = len(rows)
        size = -(-count // _GRAIN) * _GRAIN
        if size not in self._copies:
            make = (tables.game, size, tables.num_players, tables.rules)
            self._copies[size] = env.make(*make, auto_reset=False, counts=tables.counts)
        copies = self._copies[size]
        fill = np.resize(np.arange(count), size)  # surplus tables repeat others, are not stepped, and are ignored
        copies.copy_from(tables, rows[fill])
        copies.determinize(env.DEALER, numbers[fill])
        acting = np.where(np.arange(size) < count, actions[fill], env.SKIP)
        copies.step(acting, None if outcomes is None else np.where(np.arange(size) < count, outcomes[fill], 0))
        return copies

    def look_random(self, tables: env.VecEnv, rows: Ints, actions: Ints) -> NDArray[np.bool_]:
        """Whether steps look random [n]: two copies with other hidden cards show the next player different things.

        Args:
          tables: tables that are copied; they do not change.
          rows: [n] tables to look at.
          actions: [B] actions at all tables.
        """
        different = np.zeros(len(rows), bool)
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            number = np.tile([0, 1], len(part)).astype(np.uint64) + np.uint64(_SCREEN)
            pair = np.repeat(part, 2)
            seen = self.play(tables, pair, actions[pair], number, None).obs[: len(pair)]
            different[start : start + len(part)] = (seen[::2] != seen[1::2]).any(1)
        return different


def spread_outcomes(odds: Floats, offset: Floats, count: int) -> Ints:
    """Outcomes [n, count] in a systematic sample of each row: each outcome as often as its odds say, on average.

    Args:
      odds: [n, O] probabilities of the outcomes.
      offset: [n] numbers from 0 to 1 that say where each sample begins, uniform and independent of everything else.
      count: number of outcomes to take from each row; an outcome may be taken more than once.
    """
    points = (offset[:, None] + np.arange(count)) / count
    ends = odds.cumsum(1)
    ends /= ends[:, -1:]
    outcome: Ints = (points[:, :, None] >= ends[:, None, :]).sum(2)
    last_possible: Ints = odds.shape[1] - 1 - (odds[:, ::-1] > 0).argmax(1)[:, None]
    return np.minimum(outcome, last_possible)
