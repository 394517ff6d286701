"""Room: a table, its seats, and the people and agents in them. The server owns all of it; browsers see views.

A seat is proved by a token that only its owner knows. Whatever is sent to a seat is made by `Room.state`, from the
seat's view of the table (`LiveGame.view`) and public facts.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from env.fair_deal import FairDeal
from env.game_record import GameRecord
from muzero.arena.gallery import game_id
from muzero.arena.live_game import SIMULATION, LiveGame
from muzero.arena.messages import encode
from muzero.arena.rule_sets import rule_set_of
from muzero.config.fields import require

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muzero.arena.catalogue import Offer
    from muzero.arena.rooms import Rooms

_LOG = 30  # events that a state shows
_LOGGER = logging.getLogger(__name__)


class Client(Protocol):
    """Connection of a browser."""

    def send(self, message: bytes) -> None:
        """Queue a message; a connection that does not read is closed."""
        ...


@dataclass
class Timing:
    """Waiting times of rooms, in seconds.

    Attributes:
      pace: time between decisions of agents, so that people can follow.
      grace: time after which a bot plays for a person whose connection is lost.
      idle: time after which a room without people is closed.
      spare: time after which it is closed if the server is full and somebody asks for a room.
    """

    pace: float = 0.7
    grace: float = 60.0
    idle: float = 3600.0
    spare: float = 60.0


@dataclass
class Seat:
    """Place at a table.

    Attributes:
      offer: agent that plays here; None for a person.
      name: name of the person or agent; "" while the seat is free.
      digest: hash of the token that proves the seat; "" for agents and free seats.
      left: whether the person has left for now.
      client: connection of the person, if there is one.
      lost_at: time at which the connection was lost.
    """

    offer: Offer | None
    name: str = ""
    digest: str = ""
    left: bool = False
    client: Client | None = field(default=None, compare=False)
    lost_at: float = field(default=0.0, compare=False)

    @property
    def free(self) -> bool:
        """Whether a person can sit down here."""
        return self.offer is None and not self.digest


def digest_of(token: str) -> str:
    """Hash under which a token is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


class Room:
    """One table with its seats.

    Attributes:
      code: name of the room, by which people find it.
      live: the game.
      seats: [P] seats.
      think: whether people may ask what an agent thinks during the game.
      started: whether cards may be played: all seats are taken.
      unrated: reasons for which the game does not count for ratings: advice, a substitute, a known deal.
      used_at: time at which a person was last here.
    """

    def __init__(
        self, code: str, live: LiveGame, seats: list[Seat], think: bool, rooms: Rooms, unrated: Iterable[str] = ()
    ) -> None:
        self.code, self.live, self.seats, self.think, self.rooms = code, live, seats, think, rooms
        self.unrated = set(unrated)
        self.started = not any(seat.free for seat in seats)
        self.used_at = time.monotonic()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- what people ask for -----------------------------------------------------------------------------

    def sit(self, seat: int, name: str) -> str:
        """Give a free seat to a person; return its token."""
        require(self.seats[seat].free, "seat", "a free seat for a person", seat)
        token = secrets.token_urlsafe(24)
        self.seats[seat].name, self.seats[seat].digest = name, digest_of(token)
        self.seats[seat].lost_at = time.monotonic()  # until the person's browser connects
        self.started = not any(each.free for each in self.seats)
        self.changed()
        return token

    def seat_of(self, token: str) -> int:
        """Seat that a token proves."""
        given = digest_of(token)
        for number, seat in enumerate(self.seats):
            if seat.digest and hmac.compare_digest(seat.digest, given):
                return number
        raise ValueError("token: expected the one of a seat in this room")

    def enter(self, seat: int, client: Client) -> None:
        """Connect a person's browser to the seat; an older connection of the seat is told, and gets nothing more."""
        older = self.seats[seat].client
        if older is not None and older is not client:
            older.send(encode({"type": "moved", "room": self.code}))
        self.seats[seat].client, self.seats[seat].left = client, False
        self.changed()

    def lose(self, seat: int, client: Client, left: bool = False) -> None:
        """Note that a connection has ended; with `left`, a bot takes over at once."""
        place = self.seats[seat]
        if place.client is client:
            place.client, place.lost_at, place.left = None, time.monotonic(), left
            self.changed()

    def start(self) -> None:
        """Give seats that are still free to bots."""
        for seat in self.seats:
            if seat.free:
                seat.offer = self.rooms.catalogue.substitute(self.live.game)
                seat.name = seat.offer.name
        self.started = True
        self.changed()

    def act(self, seat: int, turn: int, action: int) -> None:
        """Carry out a person's decision."""
        require(self.started, "act", "to wait until all seats are taken", "a decision before")
        require(not self.live.done, "act", "no decision after the end of the game", action)
        require(self.live.to_play == seat, "act", f"seat {self.live.to_play} to decide", f"seat {seat}")
        require(self.live.turn == turn, "turn", str(self.live.turn), turn)
        self._carry_out(action)

    def again(self) -> None:
        """Deal another game for the same seats."""
        require(self.live.done, "again", "the end of the game first", "a game in play")
        self.live = LiveGame(self.live.game, self.live.players, self.live.rules, FairDeal())
        self.unrated.clear()
        self.changed()

    async def analyse(self, seat: int, turn: int) -> bytes:
        """Analysis of the position of a seat whose turn it is, as a message."""
        require(self.think, "think", "a room in which it is allowed", "a room without")
        require(self.started and not self.live.done, "think", "a game in play", "none")
        require(self.live.to_play == seat, "think", "your own turn", f"the turn of seat {self.live.to_play}")
        require(self.live.turn == turn, "turn", str(self.live.turn), turn)
        offer = self.rooms.catalogue.analyst(self.live.game, self.live.players, self.live.rules)
        self.unrated.add("advice")
        self.rooms.store.save_room(self.code, self.content())  # a restart does not forget it
        report = await self.rooms.brain.analyse(offer, self.live)
        report.pop("milliseconds", None)  # the only number that is no function of what the seat sees
        name = offer.name if offer else SIMULATION
        return encode({"type": "think", "room": self.code, "turn": turn, "agent": name, **report})

    def record(self) -> GameRecord:
        """Record of the finished game."""
        require(self.live.done, "record", "the end of the game: a record gives all cards away", "a game in play")
        return self.live.record([seat.name for seat in self.seats])

    # ---- what a seat is told -----------------------------------------------------------------------------

    def state(self, seat: int) -> bytes:
        """Everything that a seat may know, as a message."""
        live, last = self.live, len(self.live.events)
        ends = [event.round_end for event in live.events if event.round_end]
        latest = live.events[-1] if live.events else None
        mine = {"seat": seat, "started": self.started, "think": self.think, "commitment": live.deal.commitment}
        return encode(
            {
                "type": "state",
                "room": self.code,
                "game": live.game,
                "rules": live.tables.rules,
                "rule_set": rule_set_of(live.game, live.players, live.rules),
                **mine,
                "seats": [self._describe(each) for each in self.seats],
                "view": live.view(seat),
                "log": [[event.seat, event.text] for event in live.events[max(0, last - _LOG) :]],
                "event": latest and {"seat": latest.seat, "action": latest.action, "text": latest.text},
                "rounds": len(ends),
                "round_end": {name: getattr(ends[-1], name) for name in ("points", "totals", "cards")}
                if ends
                else None,
                "deal": {"seed": str(live.deal.seed), "nonce": live.deal.nonce} if live.done else None,
                "record": game_id(self.record()) if live.done else None,
            }
        )

    def _describe(self, seat: Seat) -> dict[str, Any]:
        return {
            "name": seat.name,
            "person": seat.offer is None,
            "free": seat.free,
            "here": seat.offer is not None or seat.client is not None,
            "substituted": self._absent(seat),
        }

    # ---- the game goes on --------------------------------------------------------------------------------

    @property
    def people_here(self) -> bool:
        """Whether a person is connected."""
        return any(seat.client is not None for seat in self.seats)

    def changed(self) -> None:
        """Tell everybody what is new, keep it, and let the game go on."""
        if self.people_here:
            self.used_at = time.monotonic()
        self.rooms.store.save_room(self.code, self.content())
        for number, seat in enumerate(self.seats):
            if seat.client is not None:
                seat.client.send(self.state(number))
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._play())

    def _tell(self, message: dict[str, Any]) -> None:
        """Send a message to everybody here."""
        for seat in self.seats:
            if seat.client is not None:
                seat.client.send(encode(message))

    def close(self) -> None:
        """Stop the game."""
        if self._task:
            self._task.cancel()

    def _carry_out(self, action: int) -> None:
        self.live.act(action)
        if self.live.done:
            self._keep()
        self.changed()

    def _keep(self) -> None:
        """Keep the finished game and its result."""
        people = [seat.offer is None for seat in self.seats]
        self.rooms.gallery.finish(self.record(), people, self.unrated, "arena")

    def _absent(self, seat: Seat) -> bool:
        """Whether a bot plays for the person in a seat."""
        lost = seat.client is None and time.monotonic() - seat.lost_at > self.rooms.timing.grace
        return seat.offer is None and not seat.free and (seat.left or lost)

    def _mover(self) -> Offer | None:
        """Agent that decides now; None if a person does."""
        seat = self.seats[self.live.to_play]
        return self.rooms.catalogue.substitute(self.live.game) if self._absent(seat) else seat.offer

    async def _play(self) -> None:
        """Let agents decide for as long as a person is here; ends when nobody is, or the game is over."""
        while self.started and not self.live.done and self.people_here:
            self._changed.clear()
            offer, live, turn = self._mover(), self.live, self.live.turn
            if offer is None:
                wait = max(0.05, self.rooms.timing.grace / 10)  # a person may be lost without a sign
                try:
                    await asyncio.wait_for(self._changed.wait(), wait)
                except TimeoutError:
                    continue
            else:
                started = time.monotonic()
                try:
                    action = await self.rooms.brain.decide(offer, live)
                except Exception:  # other rooms go on; people here are told, and the next change tries again
                    _LOGGER.exception("room %s: %s could not decide", self.code, offer.name)
                    self._tell({"type": "error", "message": f"{offer.name} could not decide"})
                    return
                await asyncio.sleep(max(0.0, self.rooms.timing.pace - (time.monotonic() - started)))
                if self.live is live and live.turn == turn and self._mover() == offer:
                    if self.seats[live.to_play].offer is None:
                        self.unrated.add("substitute")
                    self._carry_out(action)

    # ---- files -------------------------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """Everything that is needed to go on after a restart."""
        live = self.live
        return {
            "game": live.game,
            "rules": live.rules,
            "seed": live.deal.seed,
            "nonce": live.deal.nonce,
            "number": live.number,
            "unrated": sorted(self.unrated),
            "actions": live.actions,
            "think": self.think,
            "started": self.started,
            "seats": [
                {"agent": seat.offer and seat.offer.name, "name": seat.name, "digest": seat.digest, "left": seat.left}
                for seat in self.seats
            ],
        }
