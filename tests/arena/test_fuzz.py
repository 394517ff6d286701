"""Fuzzed messages: no browser can crash the server or disturb another room."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from muzero.arena.messages import Create, parse_message
from muzero.arena.rooms import Rooms
from muzero.arena.server import Arena, Connection, Limits
from tests.arena.conftest import make_rooms

TYPES = ("lobby", "create", "join", "resume", "start", "act", "think", "again", "record", "leave", "ping", "no")
LOOKS = ("gallery", "upload", "watch", "same_cards", "frames", "review", "results")
SCRAPS: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    2**31,
    2**70,
    1e400,
    "",
    "A",
    "skyjo",
    "greedy",
    "AAAAAA",
    "x" * 60,
    "../../etc/passwd",
    "agent:skyjo-belief",
    [],
    [None, None],
    [None, "greedy"],
    {},
    {"target": 1},
    {"episode": "round"},
    {"deck": [1] * 15},
)
KEYS = ("type", "game", "rules", "seats", "you", "name", "think", "room", "token", "turn", "action", "seed", "device")
KEYS += ("id", "seat", "start", "part", "last", "same_deal")
GOOD: list[dict[str, Any]] = [
    {"type": "create", "game": "skyjo", "seats": [None, "greedy"], "you": 0, "name": "Eve"},
    {"type": "create", "game": "lama", "seats": [None, None, "random"], "you": 0, "name": "Eve", "think": False},
    {"type": "create", "game": "skipbo", "seats": ["hpvp", None], "you": 1, "name": "Eve", "rules": {"stock": 5}},
    {"type": "start"},
    {"type": "again"},
    {"type": "record"},
    {"type": "leave"},
    {"type": "ping"},
    {"type": "resume", "room": "AAAAAA", "token": "x" * 32},
    {"type": "join", "room": "AAAAAA", "name": "Eve"},
    {"type": "gallery"},
    {"type": "results"},
    {"type": "upload", "part": '{"format": 1}', "last": True},
    {"type": "upload", "part": "[" * 3000, "last": False},
    {"type": "watch", "game": "lama", "seats": ["random", "strategy_1"]},
    {"type": "frames", "id": "0" * 16, "seat": 0, "start": 0},
    {"type": "same_cards", "id": "0" * 16, "seat": 0},
    {"type": "review", "id": "0" * 16, "seat": 0},
    *({"type": "act", "turn": 0, "action": action} for action in range(8)),
]


def fuzzed(rng: random.Random, good: list[dict[str, Any]]) -> str:
    """A message that is nearly good, made of scraps, or no JSON at all."""
    kind = rng.random()
    if kind < 0.5:
        message = dict(rng.choice(good))
        for _ in range(rng.randrange(3)):
            message[rng.choice(KEYS)] = rng.choice(SCRAPS)
        if rng.random() < 0.2:
            message.pop(rng.choice(list(message)))
        return json.dumps(message)
    if kind < 0.8:
        keys = rng.sample(KEYS, rng.randrange(6))
        return json.dumps({"type": rng.choice(TYPES + LOOKS), **{key: rng.choice(SCRAPS) for key in keys}})
    text = json.dumps(rng.choice(good))
    at = rng.randrange(len(text))
    return text[:at] + chr(rng.randrange(1, 0x3000)) + text[at + rng.randrange(3) :]


class Sink:
    """Connection that forgets what it is sent."""

    def send(self, message: bytes) -> None:
        """Forget the message."""


class Socket:
    """WebSocket that nobody reads: `Arena.answer` only queues messages."""


async def attack(rooms: Rooms, count: int, seed: int) -> dict[str, int]:
    """Send fuzzed messages from several connections; every one is answered or is a ValueError."""
    rng = random.Random(seed)
    arena = Arena(rooms, Limits())
    connections = [Connection(Socket(), Limits(backlog=16)) for _ in range(4)]  # type: ignore[arg-type]
    found = {"answered": 0, "refused": 0}
    for _ in range(count):
        connection = rng.choice(connections)
        if connection.room and rng.random() < 0.5:
            live = connection.room.live
            text = json.dumps({"type": "act", "turn": live.turn, "action": rng.choice(live.legal or [0])})
        else:
            text = fuzzed(rng, GOOD)
        try:
            await arena.answer(connection, parse_message(text))
            found["answered"] += 1
        except ValueError:
            found["refused"] += 1
        await asyncio.sleep(0)  # bots move
    for connection in connections:
        if connection.room:
            connection.room.lose(connection.seat, connection)
    return found


async def attack_beside_a_game(count: int, seed: int) -> tuple[dict[str, int], bytes, bytes]:
    """Attack a server on which others play; return the state of their room before and after."""
    rooms = make_rooms(most=6, spare=0.0)
    ask = Create(type="create", game="skyjo", seats=[None, None], you=0, name="Ada")
    room, _, _ = rooms.create(ask)
    room.sit(1, "Bob")
    for seat in (0, 1):  # both are here, so nobody may be replaced by a bot, however long it takes
        room.enter(seat, Sink())
    room.act(room.live.to_play, 0, 0)
    before = room.state(0)
    found = await attack(rooms, count, seed)
    rooms.close()
    return found, before, room.state(0)


@pytest.mark.parametrize("seed", [1, 2])
def test_fuzzed_messages_are_answered_or_refused_and_disturb_no_other_room(seed: int) -> None:
    found, before, after = asyncio.run(attack_beside_a_game(5000, seed))
    assert min(found.values()) > 500
    assert after == before


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_messages() -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    found, before, after = asyncio.run(attack_beside_a_game(100_000, seed))
    assert sum(found.values()) == 100_000
    assert after == before
