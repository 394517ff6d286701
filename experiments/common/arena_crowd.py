"""Crowd of people at an arena, as its server sees them: they play, look, come back, lose their connection, and send
nonsense. Everything that the server offers is asked for again and again, so that whatever it does not give back shows.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from typing import Any

PATIENCE = 60.0  # seconds after which an answer is given up as missing
_PART = 2500  # characters of a part of a file
_RULES: dict[str, dict[str, Any]] = {
    "skyjo": {"episode": "round"},
    "lama": {"episode": "round"},
    "skipbo": {"stock": 5},
}
_NONSENSE = (
    "",
    "{",
    "[" * 3000,
    '{"type":"act"}',
    '{"type":"no"}',
    '{"type":"create","seats":[]}',
    "\ud800",
    "x" * 4000,
)
_PAGES = ("/", "/static/app.js", "/results.csv", "/results.json", "/records/0000000000000000.json")


class Refused(Exception):
    """Error that the server has answered with."""


class Crowd:
    """People who use an arena until they are told to stop, in a thread of their own.

    Args:
      port: port of the server on this machine.
      people: number of people.
      looking: mean seconds for which a person looks at the table before a decision.
      seed: seed of all that they do.

    Attributes:
      counts: events so far, by kind: games, decisions, connections, and so on; "lost" and "unanswered" are defects.
      waits: seconds until each answer since they were last taken.
    """

    def __init__(self, port: int, people: int, looking: float, seed: int) -> None:
        self.port, self.people, self.looking, self.seed = port, people, looking, seed
        self.counts: Counter[str] = Counter()
        self.waits: list[float] = []
        self.records: list[str] = []  # files of finished games, for uploads
        self.games: list[tuple[str, int]] = []  # ids and numbers of players of finished games
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._gather()), daemon=True)

    def start(self) -> None:
        """Let the people come."""
        self._thread.start()

    def stop(self) -> None:
        """Send the people home and wait until the last has gone."""
        self._stop.set()
        self._thread.join(2 * PATIENCE)

    @property
    def stopped(self) -> bool:
        """Whether the people are to go."""
        return self._stop.is_set()

    def taken_waits(self) -> list[float]:
        """Waits since the last call."""
        found, self.waits = self.waits, []
        return found

    async def _gather(self) -> None:
        await asyncio.gather(*(self._live(number) for number in range(self.people)))

    async def _live(self, number: int) -> None:
        """Life of one person: visit after visit."""
        rng = random.Random(f"{self.seed} {number}")
        await asyncio.sleep(rng.uniform(0, 5))
        while not self.stopped:
            try:
                await Person(self, number, rng).visit()
            except TimeoutError:
                self.counts["unanswered"] += 1
            except OSError:
                self.counts["lost"] += 1
            except Exception as error:
                if not self.stopped:
                    self.counts[f"lost: {type(error).__name__}: {error}"[:100]] += 1
            await asyncio.sleep(rng.expovariate(1 / self.looking))


class Person:
    """One visit of a person."""

    def __init__(self, crowd: Crowd, number: int, rng: random.Random) -> None:
        self.crowd, self.rng, self.name = crowd, rng, f"P{number}"
        self.link: Any = None

    async def visit(self) -> None:
        """Connect, do something, and go, with or without a farewell."""
        what = self.rng.choices((self.play, self.look, self.disturb, self.browse), (0.7, 0.15, 0.1, 0.05))[0]
        self.crowd.counts["visits"] += 1
        try:
            await self.connect()
            await what()
        except Refused:
            self.crowd.counts["refused"] += 1
        finally:
            if self.link is not None:
                await self.link.close()

    async def connect(self) -> None:
        """Open a connection."""
        from websockets.asyncio.client import connect

        address = f"127.0.0.1:{self.crowd.port}"
        self.link = await connect(f"ws://{address}/ws", origin=f"http://{address}", max_size=None)  # type: ignore[arg-type]
        self.crowd.counts["connections"] += 1

    async def ask(self, kind: str, **message: Any) -> dict[str, Any]:
        """Send a message and wait for an answer of a kind; other messages are passed over."""
        if message:
            await self.link.send(json.dumps(message))
        end = time.monotonic() + PATIENCE
        while True:
            answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.link.recv(), end - time.monotonic()))
            if answer["type"] == "error":
                raise Refused(answer["message"])
            if answer["type"] == kind:
                return answer

    # ---- games -------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Play games against an agent; sometimes leave in the middle, sometimes come back."""
        offered = (await self.ask("lobby", type="lobby"))["games"]
        game = self.rng.choice(offered)
        able = [each["name"] for each in game["agents"] if each["players"] in (0, 2)]
        seats = [None, self.rng.choice(able)]
        create = {"game": game["name"], "rules": _RULES[game["name"]], "seats": seats, "you": 0, "name": self.name}
        seated = await self.ask("seated", type="create", **create)
        state = await self.ask("state")
        while not self.crowd.stopped:
            view = state["view"]
            if view["done"]:
                await self.finish(state)
                if self.rng.random() < 0.5:
                    return
                state = await self.ask("state", type="again")
            elif not view["legal"]:
                state = await self.ask("state")
            elif self.rng.random() < 0.01:
                return  # the connection is lost in the middle of a game
            elif self.rng.random() < 0.01:
                await self.link.close()
                await self.connect()
                await self.ask("seated", type="resume", room=seated["room"], token=seated["token"])
                state = await self.ask("state")
                self.crowd.counts["resumed"] += 1
            else:
                state = await self.decide(view)

    async def decide(self, view: dict[str, Any]) -> dict[str, Any]:
        """Look at the table, perhaps ask for advice, and decide; returns the next state."""
        await asyncio.sleep(self.rng.expovariate(1 / self.crowd.looking))
        if self.rng.random() < 0.02:
            await self.ask("think", type="think", turn=view["turn"])
            self.crowd.counts["advice"] += 1
        sent = time.monotonic()
        state = await self.ask("state", type="act", turn=view["turn"], action=self.rng.choice(view["legal"]))
        while state["view"]["turn"] <= view["turn"]:  # one that was sent before the decision
            state = await self.ask("state")
        self.crowd.waits.append(time.monotonic() - sent)
        self.crowd.counts["decisions"] += 1
        return state

    async def finish(self, state: dict[str, Any]) -> None:
        """Take the record of a finished game."""
        self.crowd.counts["games"] += 1
        record = (await self.ask("record", type="record"))["record"]
        self.crowd.records = [*self.crowd.records[-19:], json.dumps(record)]
        self.crowd.games = [*self.crowd.games[-19:], (state["record"], len(record["agents"]))]

    # ---- everything else ---------------------------------------------------------------------------------

    async def look(self) -> None:
        """Look at finished games and at games of agents."""
        kind = self.rng.choice(("gallery", "results", "upload", "review", "frames", "same_cards", "watch"))
        self.crowd.counts[kind] += 1
        if kind in ("gallery", "results"):
            await self.ask(kind, type=kind)
        elif kind == "watch":
            loaded = await self.ask(
                "loaded", type="watch", game="lama", seats=["random", "random"], rules=_RULES["lama"]
            )
            await self.watch(loaded["id"])
        elif not self.crowd.games:
            return
        elif kind == "upload":
            await self.upload(self.rng.choice(self.crowd.records))
        else:
            name, players = self.rng.choice(self.crowd.games)
            seat = self.rng.randrange(players)
            if kind == "review":
                for _ in range(3):
                    await self.ask("review", type="review", id=name, seat=seat)
                    await asyncio.sleep(1.0)
            elif kind == "frames":
                await self.watch(name)
            else:
                await self.watch((await self.ask("loaded", type="same_cards", id=name, seat=seat))["id"])

    async def watch(self, name: str) -> None:
        """Look at some frames of a game."""
        for start in (0, 16, 32):
            with suppress(Refused):  # the game may be shorter
                await self.ask("frames", type="frames", id=name, seat=0, start=start)
            await asyncio.sleep(0.5)

    async def upload(self, text: str) -> None:
        """Give a file back in parts; now and then a damaged one."""
        if self.rng.random() < 0.3:
            at = self.rng.randrange(len(text))
            text = text[:at] + self.rng.choice('0x{["') + text[at + 1 :]
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            await self.ask("loaded" if last else "pong", type="upload", part=part, last=last)
            await asyncio.sleep(0.12)

    async def disturb(self) -> None:
        """Send nonsense, or go without having said anything."""
        self.crowd.counts["nonsense"] += 1
        for _ in range(self.rng.randrange(4)):
            await self.link.send(self.rng.choice(_NONSENSE).encode("utf-8", "replace").decode())
            await asyncio.sleep(0.1)

    async def browse(self) -> None:
        """Fetch a page."""
        self.crowd.counts["pages"] += 1
        page = f"http://127.0.0.1:{self.crowd.port}{self.rng.choice(_PAGES)}"
        await asyncio.to_thread(_fetch, page)


def _fetch(address: str) -> int:
    """Size of a page; one that does not exist has size 0."""
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            return len(answer.read())
    except urllib.error.HTTPError:
        return 0
