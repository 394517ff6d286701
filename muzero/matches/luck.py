"""Luck of games: what chance events were worth to each seat, event by event.

For every step that shows or deals hidden cards, a value function judges the position that came and positions that might
have come, on copies of the table. The luck of the event is the difference between the first and the mean of the others.

Why the mean of this is 0 for any value function: the copies are dealt from the view of the dealer (`env.DEALER`), who
knows what any player has seen. Players decide by what they have seen, so cards that nobody has seen are, given the
dealer's knowledge, a uniform draw, and a copy has exactly the distribution of the real table. Where players keep no
private cards, the single card that an action shows is also enumerated, with the odds of the game: then the mean is
exact, or, with fewer copies than outcomes, systematically sampled. Everything else (the deal of a round, cards turned
over at its end, a refilled hand) is sampled. Whether a step without a declared event is random is found out with two
further copies, on which the value function is never asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import env
from env import game_record
from env.game_record import GameRecord
from muzero.agents.value_model import COMPONENTS, ValueModel
from muzero.config.fields import require
from muzero.data.imagined_steps import ImaginedSteps, spread_outcomes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("card", "deal")
"""Kinds of chance events: a card that an action shows, and several cards at once."""

COLUMNS = tuple(f"{component}_{kind}" for component in COMPONENTS for kind in KINDS)
"""Kinds of luck of a game: of each component of the value function, from single cards and from deals."""

WIN_COLUMNS = [number for number, name in enumerate(COLUMNS) if name.startswith("win")]
SCORE_COLUMNS = [number for number, name in enumerate(COLUMNS) if not name.startswith("win_if")]
"""Columns of the luck that the win rate and the score difference are adjusted by."""

MOST_LUCK = 1.0  # bound on the luck of a game in shares of the win; sequential tests need one
_SCORE = COMPONENTS.index("score")
_SAMPLES = 16  # copies of an event that is not enumerated
_AT_ONCE = 1024  # copies that are judged at a time
_OFFSETS = 0x5EED0FF5E7  # seed of the offsets of systematic samples


@dataclass(frozen=True)
class LuckEvent:
    """Chance event of a game.

    Attributes:
      decision: index of the decision that it followed, from 0.
      kind: kind of event, one of `KINDS`.
      seat: seat that made the decision.
      outcome: code of the card that the decision showed (`env.VecEnv.outcome`), 0 for several or none.
      win: luck of each seat, in shares of the win.
      score: luck of each seat, in points of the margin over the others.
    """

    decision: int
    kind: str
    seat: int
    outcome: int
    win: tuple[float, ...]
    score: tuple[float, ...]


class LuckTracker:
    """Steps tables and adds up the luck of their games.

    Args:
      model: value function.
      tables: tables to step; only this environment is ever passed to `step`.
      spread: copies per event with enumerable outcomes; 0 takes every outcome once.
      samples: copies per event that is not enumerated.
      ledger: whether to list every event in `events`.
      bound: bound on the win luck of a game; infinity where no test relies on one.

    Attributes:
      luck: [B, P, len(COLUMNS)] luck of every seat so far.
      events: events of all tables so far, if they are to be listed.
    """

    def __init__(
        self,
        model: ValueModel,
        tables: env.VecEnv,
        *,
        spread: int = 0,
        samples: int = _SAMPLES,
        ledger: bool = False,
        bound: float = MOST_LUCK,
    ) -> None:
        require(spread >= 0, "spread", "0 or more", spread)
        require(samples >= 1, "samples", "1 or more", samples)
        self.model, self.spread, self.samples, self.bound = model, spread, samples, bound
        self.luck = np.zeros((tables.num_envs, tables.num_players, len(COLUMNS)))
        self.events: list[LuckEvent] = []
        self._ledger = ledger
        self._decisions = np.zeros(tables.num_envs, np.int64)
        self._chances = np.full((tables.num_envs, tables.num_players), 1 / tables.num_players)  # at the last event
        self._private = any(group.owner_only for group in tables.groups)
        self._steps = ImaginedSteps()

    def step(self, tables: env.VecEnv, actions: Ints) -> None:
        """Step the tables by actions [B] and add the luck of the step."""
        acting = np.flatnonzero(actions != env.SKIP)
        odds = tables.odds(actions)[acting].astype(np.float64)
        odds /= odds.sum(1, keepdims=True)
        shows = odds[:, 0] < 1
        cards, others = acting[shows], acting[~shows]
        deals = others[self._steps.look_random(tables, others, actions)]
        rows = np.concatenate([cards, deals])
        seats = tables.to_play[rows].copy()
        windows = self._windows(rows)
        expected = self._expected(tables, cards, odds[shows], deals, actions, windows)
        tables.step(actions)
        self._decisions[acting] += 1
        if not len(rows):
            return
        values = self.model.values(tables, rows)
        self._chances[rows] = values[:, :, 0]
        luck = self._limited(values, windows) - expected
        kind = np.repeat([0, 1], [len(cards), len(deals)])
        for number in range(len(COMPONENTS)):
            self.luck[rows, :, len(KINDS) * number + kind] += luck[:, :, number]
        if self._ledger:
            self.events += self._listed(tables, rows, kind, seats, luck)

    def _windows(self, rows: Ints) -> Floats:
        """Limits [2, n, P] to which chances to win are cut, so that the win luck of a game cannot exceed its bound.

        They depend only on what happened before the event. Values that are cut are those of another value function, so
        the luck still has mean 0; the bound must not be kept by leaving events out because of their luck.
        """
        width = np.maximum(self.bound - np.abs(self.luck[rows][:, :, : len(KINDS)].sum(2)), 0.0)
        low = np.clip(self._chances[rows] - width / 2, 0, np.maximum(1 - width, 0))
        return np.stack([low, low + width])

    def _limited(self, values: Floats, windows: Floats) -> Floats:
        """Values [n, P, C] with the chances to win cut to the windows."""
        values[:, :, 0] = np.clip(values[:, :, 0], *windows)
        return values

    def _listed(
        self, tables: env.VecEnv, rows: Ints, kind: Ints, seats: NDArray[np.int8], luck: Floats
    ) -> list[LuckEvent]:
        return [
            LuckEvent(
                int(self._decisions[row]) - 1,
                KINDS[kind[i]],
                int(seats[i]),
                int(tables.outcome[row]),
                tuple(luck[i, :, 0].tolist()),
                tuple((luck[i, :, _SCORE] * self.model.scale).tolist()),
            )
            for i, row in enumerate(rows.tolist())
        ]

    def _expected(
        self, tables: env.VecEnv, cards: Ints, odds: Floats, deals: Ints, actions: Ints, windows: Floats
    ) -> Floats:
        """Mean values [n, P, C] of what might come at the tables `cards`, then `deals`."""
        if self._private:  # the odds are those of one player, and told cards may come from other hands
            cards, deals = cards[:0], np.concatenate([cards, deals])
            odds = odds[:0]
        event, outcome = self._outcomes(tables, cards, odds)
        weight = odds[event, outcome] if not self.spread else np.full(len(event), 1 / self.spread)
        event = np.concatenate([event, len(cards) + np.repeat(np.arange(len(deals)), self.samples)])
        outcome = np.concatenate([outcome, np.zeros(len(deals) * self.samples, np.int64)])
        weight = np.concatenate([weight, np.full(len(deals) * self.samples, 1 / self.samples)])
        rows = np.concatenate([cards, deals])
        begin = np.searchsorted(event, np.arange(len(rows)))
        number = (np.arange(len(event)) - begin[event]).astype(np.uint64) if len(event) else np.zeros(0, np.uint64)
        total = np.zeros((len(rows), tables.num_players, len(COMPONENTS)))
        for start in range(0, len(event), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            at = rows[event[part]]
            copies = self._steps.play(tables, at, actions[at], number[part], outcome[part])
            values = self._limited(self.model.values(copies, np.arange(len(at))), windows[:, event[part]])
            values *= weight[part, None, None]
            here, first = np.unique(event[part], return_index=True)  # events are in order
            total[here] += np.add.reduceat(values, first)
        return total

    def _outcomes(self, tables: env.VecEnv, cards: Ints, odds: Floats) -> tuple[Ints, Ints]:
        """Events (indices of `cards`) and outcomes of the copies with told outcomes."""
        if not self.spread or not len(cards):
            event, outcome = np.nonzero(odds)
            return event, outcome
        offset = (tables.decision_keys(_OFFSETS)[cards] >> np.uint64(11)).astype(np.float64) / 2**53
        return np.repeat(np.arange(len(cards)), self.spread), spread_outcomes(odds, offset, self.spread).ravel()


def luck_ledger(record: GameRecord, model: ValueModel) -> list[LuckEvent]:
    """Chance events of a recorded game in order, with what each was worth to every seat.

    Args:
      record: finished game.
      model: value function of its game, number of players and rules.
    """
    tables = game_record.deal(record)
    tracker = LuckTracker(model, tables, ledger=True)
    for action in record.actions:
        tracker.step(tables, np.array([action]))
    return tracker.events


def luckiest(events: Sequence[LuckEvent], seat: int, count: int = 5) -> list[LuckEvent]:
    """Events that changed a seat's chance to win most, the largest change first."""
    return sorted(events, key=lambda event: -abs(event.win[seat]))[:count]
