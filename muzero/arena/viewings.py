"""Games that people look at without playing: finished ones, and games of agents that are played while they are watched.

A viewing hands out frames: the table before each decision, as one seat sees it. Only finished games and games without
people are viewed, so every seat's view may be asked for.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import env
from env.fair_deal import FairDeal
from env.game_record import GameRecord
from muzero.arena.gallery import MOST_DECISIONS
from muzero.arena.live_game import LiveGame, table_view
from muzero.arena.rule_sets import rule_set_of
from muzero.config.fields import require

if TYPE_CHECKING:
    from muzero.arena.brain import Brain
    from muzero.arena.catalogue import Catalogue, Offer
    from muzero.arena.gallery import Gallery

CHUNK = 16  # frames of an answer
_AHEAD = 64  # decisions that agents play ahead of whoever watches
_MOST = 64  # viewings that are kept
_MOST_RUNNING = 16  # games in which agents are deciding at a time
_LOGGER = logging.getLogger(__name__)


class Viewing:
    """One game that is looked at.

    Attributes:
      name: id of the viewing.
      live: the game so far.
      names: [P] names of the players.
      offers: [P] agents that play on; empty for a finished game.
      unrated: reasons for which a game in play will not count for ratings.
      record: id of the finished game; "" while it is in play.
    """

    def __init__(self, name: str, live: LiveGame, names: Sequence[str], offers: Sequence[Offer] = ()) -> None:
        self.name, self.live, self.names, self.offers = name, live, list(names), list(offers)
        self.record = ""
        self.unrated: list[str] = []
        self.wanted = 0  # decision up to which somebody has looked
        self._marks = [live.tables.save(0)]  # the table before decisions 0, CHUNK, 2 CHUNK, ...
        self._task: asyncio.Task[None] | None = None

    def act(self, action: int) -> None:
        """Carry out the next decision."""
        self.live.act(action)
        if self.live.turn % CHUNK == 0:
            self._marks.append(self.live.tables.save(0))

    def frames(self, seat: int, start: int) -> list[dict[str, Any]]:
        """Frames from the chunk that holds decision `start`, as a seat sees them; fewer if the game is not so far."""
        live = self.live
        require(0 <= seat < live.players, "seat", f"0 to {live.players - 1}", seat)
        require(0 <= start <= live.turn, "start", f"0 to {live.turn}", start)
        first = start // CHUNK * CHUNK
        tables = env.make(live.game, 1, live.players, live.tables.rules, auto_reset=False)
        tables.load(0, self._marks[first // CHUNK])
        found = []
        for turn in range(first, min(first + CHUNK, live.turn + 1)):
            event = live.events[turn - 1] if turn else None
            end = event.round_end if event else None
            found.append(
                {
                    "turn": turn,
                    "view": table_view(tables, seat, turn),
                    "event": event and {"seat": event.seat, "action": event.action, "text": event.text},
                    "round_end": end and {"points": end.points, "cards": end.cards},
                }
            )
            if turn < live.turn:
                tables.step([live.actions[turn]])
        return found

    def content(self) -> dict[str, Any]:
        """Facts about the game as a browser needs them."""
        live = self.live
        return {
            "id": self.name,
            "game": live.game,
            "rules": live.tables.rules,
            "rule_set": rule_set_of(live.game, live.players, live.rules),
            "names": self.names,
            "decisions": live.turn,
            "done": live.done,
            "record": self.record,
            "scores": live.tables.scores[0].tolist(),
            "ranks": live.tables.ranks[0].tolist() if live.done else None,
            "rounds": [turn + 1 for turn, event in enumerate(live.events) if event.round_end],
        }

    def look(self, turn: int, brain: Brain, gallery: Gallery) -> None:
        """Note that somebody looks at a decision: agents play on to a little beyond it."""
        self.wanted = max(self.wanted, turn)
        if self.offers and not self.live.done and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._play(brain, gallery))

    async def _play(self, brain: Brain, gallery: Gallery) -> None:
        while not self.live.done and self.live.turn < self.wanted + _AHEAD:
            try:
                self.act(await brain.decide(self.offers[self.live.to_play], self.live))
            except Exception:  # other tables go on; whoever looks again tries again
                _LOGGER.exception("viewing %s: %s could not decide", self.name, self.names[self.live.to_play])
                return
        if self.live.done and not self.record:
            people = [False] * self.live.players
            self.record = gallery.finish(self.live.record(self.names), people, self.unrated, "watched")

    @property
    def going_on(self) -> bool:
        """Whether agents are deciding."""
        return self._task is not None and not self._task.done()

    def close(self) -> None:
        """Stop the game."""
        if self._task:
            self._task.cancel()


class Viewings:
    """All viewings of a server; the ones not looked at for longest are dropped."""

    def __init__(self, catalogue: Catalogue, brain: Brain, gallery: Gallery) -> None:
        self.catalogue, self.brain, self.gallery = catalogue, brain, gallery
        self._kept: OrderedDict[str, Viewing] = OrderedDict()

    async def find(self, name: str) -> Viewing:
        """Viewing by id: a game that is watched, or a finished one, which is played again."""
        if name not in self._kept:
            record = self.gallery.find(name)
            viewing = await asyncio.to_thread(replay, record, name)
            self._keep(viewing)
        self._kept.move_to_end(name)
        return self._kept[name]

    async def frames(self, name: str, seat: int, start: int) -> dict[str, Any]:
        """Frames of a viewing, as a message."""
        viewing = await self.find(name)
        viewing.look(start, self.brain, self.gallery)
        return {"type": "frames", "seat": seat, "frames": viewing.frames(seat, start), **viewing.content()}

    def watch(self, game: str, agents: Sequence[str], rules: env.Rules) -> str:
        """Let agents play a new game; return the id of the viewing."""
        known = self.catalogue.games
        require(game in known, "game", f"one of {', '.join(known)}", game)
        live = LiveGame(game, len(agents), rules, FairDeal())
        offers = [self.catalogue.find(game, name, len(agents), rules) for name in agents]
        cap = live.tables.rules.get("max_decisions", 0)
        require(cap <= MOST_DECISIONS, "rules.max_decisions", f"at most {MOST_DECISIONS}", cap)
        return self._play(live, offers)

    def same_cards(self, record: GameRecord, seat: int) -> str:
        """Deal a finished game again, with an agent in the place of a player; return the id of the viewing.

        The agent is the one that played against this seat, or else the strongest; it also plays for other people.
        """
        players = len(record.agents)
        require(0 <= seat < players, "seat", f"0 to {players - 1}", seat)
        known = [self.catalogue.named(record.game, name, players, record.rules) for name in record.agents]
        order = [known[(seat + shift) % players] for shift in range(1, players)]
        strongest = self.catalogue.strongest(record.game, players, record.rules)
        taking = next((offer for offer in order if offer), strongest)
        offers = [taking if place == seat else offer or taking for place, offer in enumerate(known)]
        deal = FairDeal(record.seed, record.nonce)
        return self._play(LiveGame(record.game, players, record.rules, deal, record.deal), offers, ["known deal"])

    def _play(self, live: LiveGame, offers: Sequence[Offer], unrated: Sequence[str] = ()) -> str:
        running = sum(viewing.going_on for viewing in self._kept.values())
        require(running < _MOST_RUNNING, "watch", f"fewer than {_MOST_RUNNING} games at a time; try later", running)
        viewing = Viewing(secrets.token_hex(8), live, [offer.name for offer in offers], offers)
        viewing.unrated = list(unrated)
        self._keep(viewing)
        viewing.look(0, self.brain, self.gallery)
        return viewing.name

    def _keep(self, viewing: Viewing) -> None:
        self._kept[viewing.name] = viewing
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)[1].close()

    def close(self) -> None:
        """Stop all games that are watched."""
        for viewing in self._kept.values():
            viewing.close()


def replay(record: GameRecord, name: str) -> Viewing:
    """Viewing of a finished game."""
    live = LiveGame(record.game, len(record.agents), record.rules, FairDeal(record.seed, record.nonce), record.deal)
    viewing = Viewing(name, live, record.agents)
    for action in record.actions:
        viewing.act(action)
    viewing.record = name
    return viewing
