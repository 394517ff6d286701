"""One game in play, for people: what each seat may see, what happened, and how rounds ended.

Everything that leaves this module for a seat is made from the seat's observation, the names of actions and the public
history, so that no hidden card can be in it; `tests/arena/test_hidden_cards.py` resamples the hidden cards and
compares bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import env
from env.fair_deal import FairDeal
from env.game_record import GameRecord
from muzero.config.fields import require

SIMULATION = "simulation with the real rules"  # name of the analysis that needs no trained agent
COUNTS = "counts"  # group of an observation that is no part of the table: it is shown as the exact belief


@dataclass(frozen=True)
class RoundEnd:
    """End of a round, with all cards turned over.

    Attributes:
      text: the table as text, with the hands of all players.
      points: [P] points that the round added.
      totals: [P] scores after the round.
      cards: [P] slots of each player as their owner sees them: group -> tokens -> field -> value.
    """

    text: str
    points: list[int]
    totals: list[int]
    cards: list[dict[str, list[dict[str, int]]]]


@dataclass(frozen=True)
class Event:
    """Decision that was carried out.

    Attributes:
      seat: seat that decided.
      action: action taken.
      text: the decision in words, as everybody saw it.
      round_end: end of the round, if the decision ended it.
    """

    seat: int
    action: int
    text: str
    round_end: RoundEnd | None = None


class LiveGame:
    """One game at one table, from a promised deal to its end.

    Attributes:
      game, players, rules: game, number of players and rules as given.
      deal: seed and nonce; secret until the game is over.
      number: number of the deal among those of its seed; 0 but for games of evaluations.
      tables: the table; knows all cards.
      actions: actions taken so far.
      events: what happened so far.
    """

    def __init__(self, game: str, players: int, rules: env.Rules, deal: FairDeal, number: int = 0) -> None:
        self.game, self.players, self.deal, self.number = game, players, deal, number
        self.rules: dict[str, Any] = {"preset": rules} if isinstance(rules, str) else dict(rules)
        self.tables = self._dealt(rules)
        self.info = self.tables.info
        self.actions: list[int] = []
        self.events: list[Event] = []

    # ---- the game ----------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the game is over."""
        return bool(self.tables.done[0])

    @property
    def to_play(self) -> int:
        """Seat to move; once the game is over, the last one that moved."""
        return int(self.tables.to_play[0])

    @property
    def turn(self) -> int:
        """Number of decisions made so far."""
        return len(self.actions)

    @property
    def legal(self) -> list[int]:
        """Legal actions of the player to move."""
        return [int(action) for action in np.flatnonzero(self.tables.legal[0])]

    def act(self, action: int) -> Event:
        """Carry out an action of the player to move; an illegal one is a ValueError and changes nothing."""
        legal = ", ".join(str(each) for each in self.legal) or "none, because the game is over"
        require(action in self.legal, "action", f"one of {legal}", action)
        seat, before = self.to_play, self.tables.scores[0].tolist()
        self.tables.step([action])
        self.actions.append(action)
        text = self.tables.last_event(0)
        ended = self.done or not text  # a round that has just begun has no event yet
        end = self._round_end(before) if ended else None
        if not text and "max_decisions" in self.info.rule_values:
            text = self._stopped().last_event(0)
        event = Event(seat, action, text or self.info.action_names[action], end)
        self.events.append(event)
        return event

    def replay(self, actions: Sequence[int]) -> None:
        """Carry out actions that were taken before, such as those of a game that was interrupted."""
        for action in actions:
            self.act(action)

    def record(self, agents: Sequence[str]) -> GameRecord:
        """Record of the finished game, with its promise."""
        fair = self.deal if self.deal.nonce else None
        deal = {"seed": self.deal.seed, "deal": self.number}
        return GameRecord.of(self.tables, 0, **deal, agents=agents, actions=self.actions, fair=fair)

    def _dealt(self, rules: env.Rules) -> env.VecEnv:
        """Table of this deal before the first decision."""
        tables = env.make(self.game, 1, self.players, rules, self.deal.seed, auto_reset=False)
        if self.number:
            tables.reset(deals=[self.number])
        return tables

    # ---- the end of a round ------------------------------------------------------------------------------

    def _stopped(self) -> env.VecEnv:
        """Table of the same game, stopped at this decision: a round that has ended is scored, and no new one dealt."""
        if self.done:
            return self.tables
        tables = self._dealt({**self.tables.rules, "max_decisions": self.turn})
        for action in self.actions:
            tables.step([action])
        return tables

    def _round_end(self, before: Sequence[int]) -> RoundEnd:
        tables = self._stopped()
        views = [_shown(tables, seat) for seat in range(self.players)]
        groups = [group for group in self.info.groups if group.slots and group.per_player]
        slots = [{g.name: view[g.name][: g.count // self.players] for g in groups} for view in views]
        totals = tables.scores[0].tolist()
        lines = tables.render(0).splitlines()
        for seat in range(self.players):  # lines about a seat as it sees them itself: with its hand
            mine = tables.render(0, seat).replace(" (you)", " " * 6).splitlines()
            lines = [own if f"seat {seat}" in own else line for line, own in zip(lines, mine, strict=True)]
        points = [after - score for after, score in zip(totals, before, strict=True)]
        text = "\n".join(lines)
        if not self.done:  # the copy of the table was stopped, the match goes on
            text = text.replace(", truncated", ", end of the round", 1)
        return RoundEnd(text, points, totals, slots)

    # ---- what a seat may see -----------------------------------------------------------------------------

    def view(self, seat: int) -> dict[str, Any]:
        """The table as a seat may see it, ready for JSON."""
        return table_view(self.tables, seat, self.turn)


def table_view(tables: env.VecEnv, seat: int, turn: int) -> dict[str, Any]:
    """A single table after `turn` decisions as a seat may see it, ready for JSON."""
    require(0 <= seat < tables.num_players, "seat", f"0 to {tables.num_players - 1}", seat)
    done, mover = bool(tables.done[0]), int(tables.to_play[0])
    return {
        "seat": seat,
        "turn": turn,
        "to_play": mover,
        "phase": tables.info.phase_names[int(tables.phase[0])],
        "legal": [int(action) for action in np.flatnonzero(tables.legal[0])] if mover == seat else [],
        "scores": tables.scores[0].tolist(),
        "ranks": tables.ranks[0].tolist() if done else None,
        "done": done,
        "truncated": bool(tables.truncated[0]),
        "observation": _shown(tables, seat),
    }


def _shown(tables: env.VecEnv, seat: int) -> dict[str, list[dict[str, int]]]:
    """Observation of a seat by name, without the counts of unseen cards."""
    row = tables.observe(seat)[0]
    return {name: tokens for name, tokens in tables.info.decode(row).items() if name != COUNTS}
