"""All rooms of a server: opened, found by code, restored after a restart, and closed when nobody is left."""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING

from env.fair_deal import FairDeal
from muzero.arena.gallery import MOST_DECISIONS, Gallery
from muzero.arena.live_game import LiveGame
from muzero.arena.messages import Create
from muzero.arena.reviews import Reviews
from muzero.arena.room import Room, Seat, Timing
from muzero.arena.store import Store
from muzero.arena.viewings import Viewings
from muzero.config.fields import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muzero.arena.brain import Brain
    from muzero.arena.catalogue import Catalogue

_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # without those that look alike
_LOGGER = logging.getLogger(__name__)


class Rooms:
    """All rooms of a server, at most `most` at a time, and the games that people look at.

    Args:
      catalogue: games and agents that are offered.
      brain: agents.
      store: file of rooms and finished games.
      timing: waiting times.
      most: most rooms at a time.
      directories: directories of game records that are shown.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        brain: Brain,
        store: Store,
        timing: Timing,
        most: int,
        directories: Sequence[str] = (),
    ) -> None:
        self.catalogue, self.brain, self.store, self.timing, self.most = catalogue, brain, store, timing, most
        self.gallery = Gallery(store, directories, catalogue.games)
        self.viewings = Viewings(catalogue, brain, self.gallery)
        self.reviews = Reviews(catalogue, brain, self.gallery)
        self._rooms: dict[str, Room] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def find(self, code: str) -> Room:
        """Room by code."""
        if code not in self._rooms:
            raise ValueError(f"room: expected the code of an open room, got {code!r}")
        return self._rooms[code]

    def create(self, asked: Create) -> tuple[Room, int, str]:
        """Open a room; return it, the seat of the person who asked, and the seat's token."""
        self._make_room()
        require(
            len(self._rooms) < self.most, "rooms", f"fewer than {self.most} open rooms; try later", len(self._rooms)
        )
        known = self.catalogue.games
        require(asked.game in known, "game", f"one of {', '.join(known)}", asked.game)
        players = len(asked.seats)
        require(asked.you < players and asked.seats[asked.you] is None, "you", "a seat for a person", asked.you)
        live = self._deal(asked, players)
        cap = live.tables.rules.get("max_decisions", 0)
        require(cap <= MOST_DECISIONS, "rules.max_decisions", f"at most {MOST_DECISIONS}", cap)
        offers = [name and self.catalogue.find(asked.game, name, players, live.rules) for name in asked.seats]
        seats = [Seat(offer or None, offer.name if offer else "") for offer in offers]
        code = "".join(secrets.choice(_LETTERS) for _ in range(6))
        while code in self._rooms:
            code = "".join(secrets.choice(_LETTERS) for _ in range(6))
        unrated = ["known deal"] if asked.same_deal else []
        room = self._rooms[code] = Room(code, live, seats, asked.think, self, unrated)
        return room, asked.you, room.sit(asked.you, asked.name)

    def _deal(self, asked: Create, players: int) -> LiveGame:
        """New game, of a secret deal or of the deal of a finished game."""
        if asked.same_deal is None:
            return LiveGame(asked.game, players, asked.rules, FairDeal())
        record = self.gallery.find(asked.same_deal)
        table = record.game, len(record.agents)
        expected = f"a game of {asked.game} with {players} players"
        require((asked.game, players) == table, "same_deal", expected, f"one of {table[0]} with {table[1]}")
        return LiveGame(record.game, players, record.rules, FairDeal(record.seed, record.nonce), record.deal)

    def join(self, code: str, name: str) -> tuple[Room, int, str]:
        """Take a free seat of a room; return the room, the seat and its token."""
        room = self.find(code)
        free = [number for number, seat in enumerate(room.seats) if seat.free]
        require(bool(free), "room", "one with a free seat", code)
        return room, free[0], room.sit(free[0], name)

    def restore(self) -> None:
        """Open the rooms of an earlier process again; rooms whose game or agents are not offered stay closed."""
        for code, content in self.store.rooms().items():
            try:
                players = len(content["seats"])
                deal = FairDeal(content["seed"], content["nonce"])
                live = LiveGame(content["game"], players, content["rules"], deal, content.get("number", 0))
                live.replay(content["actions"])
                seats = []
                for each in content["seats"]:
                    offer = each["agent"] and self.catalogue.find(live.game, each["agent"], players, live.rules)
                    kept = {name: each[name] for name in ("name", "digest", "left")}
                    seats.append(Seat(offer or None, **kept, lost_at=time.monotonic()))
            except ValueError as error:
                _LOGGER.warning("room %s stays closed: %s", code, error)
                continue
            self._rooms[code] = Room(code, live, seats, content["think"], self, content.get("unrated", ()))
            self._rooms[code].started = content["started"]

    def sweep(self) -> None:
        """Close rooms in which nobody has been for the idle time."""
        for room in self._empty_for(self.timing.idle):
            self._close(room)

    def _make_room(self) -> None:
        """Close the empty room in which least has happened, if the server is full: nobody can block it with rooms."""
        self.sweep()
        empty = self._empty_for(self.timing.spare)
        if len(self._rooms) >= self.most and empty:
            self._close(min(empty, key=lambda room: room.live.turn))

    def _empty_for(self, seconds: float) -> list[Room]:
        now = time.monotonic()
        return [room for room in self._rooms.values() if not room.people_here and now - room.used_at > seconds]

    def _close(self, room: Room) -> None:
        room.close()
        del self._rooms[room.code]
        self.store.delete_room(room.code)

    def close(self) -> None:
        """Stop all games; they stay in the store."""
        self.viewings.close()
        self.reviews.close()
        for room in self._rooms.values():
            room.close()
