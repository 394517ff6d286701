"""Luck and skill of a finished game: the worth of every card and decision to each seat, adding up to the result.

A value function judges every position. What a chance event changed, against the mean of what it might have changed, is
luck; whatever else a decision changed is skill. Both are shares of the win: the fair share, the luck of the deal, all
luck and all skill add up to the share of the win that the game ended with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from env import game_record
from env.game_record import GameRecord
from muzero.agents.value_model import ValueModel
from muzero.matches.luck import LuckTracker

Floats = NDArray[np.float64]
_ROW = np.zeros(1, np.int64)


@dataclass(frozen=True)
class LedgerEntry:
    """One decision and the chance event that followed it.

    Attributes:
      seat: seat that decided.
      luck: [P] luck of each seat.
      skill: [P] change of each seat's chance by the decision itself.
    """

    seat: int
    luck: Floats
    skill: Floats


class Ledger:
    """Ledger of a recorded game, filled by decision after decision.

    Args:
      record: finished game.
      model: value function of its game, number of players and rules.

    Attributes:
      tables: the game's table, after the decisions so far; knows all cards.
      fair: share of the win of every seat before the deal.
      deal: [P] luck of the first deal.
      entries: decisions so far.
    """

    def __init__(self, record: GameRecord, model: ValueModel) -> None:
        self.record, self.model = record, model
        self.tables = game_record.deal(record)
        self._tracker = LuckTracker(model, self.tables, ledger=True, bound=math.inf)
        self._chances = self._judge()
        self.fair = 1 / self.tables.num_players
        self.deal = self._chances - self.fair
        self.entries: list[LedgerEntry] = []

    @property
    def complete(self) -> bool:
        """Whether all decisions are entered."""
        return len(self.entries) == len(self.record.actions)

    def advance(self) -> LedgerEntry:
        """Carry out the next decision of the record and enter it."""
        seat, known = int(self.tables.to_play[0]), len(self._tracker.events)
        self._tracker.step(self.tables, np.array([self.record.actions[len(self.entries)]]))
        now = self._judge()
        luck = sum((np.array(event.win) for event in self._tracker.events[known:]), np.zeros(len(now)))
        entry = LedgerEntry(seat, luck, now - self._chances - luck)
        self._chances = now
        self.entries.append(entry)
        return entry

    def content(self) -> dict[str, Any]:
        """Ledger as it is sent to browsers: per seat totals, and for every decision luck and skill of each seat."""
        players = self.tables.num_players
        luck = sum((entry.luck for entry in self.entries), np.zeros(players))
        own, others = np.zeros(players), np.zeros(players)
        for entry in self.entries:
            mine = np.arange(players) == entry.seat
            own += np.where(mine, entry.skill, 0)
            others += np.where(mine, 0, entry.skill)
        return {
            "fair": self.fair,
            "deal": _numbers(self.deal),
            "luck": _numbers(luck),
            "own": _numbers(own),
            "others": _numbers(others),
            "result": _numbers(self._chances),
            "entries": [[entry.seat, _numbers(entry.luck), _numbers(entry.skill)] for entry in self.entries],
        }

    def _judge(self) -> Floats:
        """Chances [P] to win at the table; the shares of the win once the game is over."""
        return np.asarray(self.model.values(self.tables, _ROW)[0, :, 0])


def _numbers(values: Floats) -> list[float]:
    return [round(float(value), 5) for value in values]
