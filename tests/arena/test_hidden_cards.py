"""Hidden cards never reach a browser: every byte that a seat receives is the same whatever the hidden cards are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

import env
from env.fair_deal import FairDeal
from muzero.arena.live_game import LiveGame
from muzero.arena.messages import Create
from muzero.arena.position import Position, hidden_slots
from muzero.arena.room import Room
from tests.arena.conftest import make_rooms

SAMPLES = 4  # of the hidden cards, per seat and position


class Sink:
    """Connection that keeps what it is sent."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def send(self, message: bytes) -> None:
        self.messages.append(message)


def resampled(room: Room, seat: int, key: int) -> Any:
    """State of the room's table, with everything dealt anew that a seat cannot know; returns the true one."""
    blob = room.live.tables.save(0)
    room.live.tables.determinize(seat, key)
    return blob


async def play_and_compare(game: str, players: int, rules: str, games: int, think: str) -> int:
    """Play games of bots in a room of people; compare bytes at every decision, now and then with an analysis by the
    agent `think`. Returns the comparisons that differed in their hidden cards."""
    rooms = make_rooms()
    rng = np.random.default_rng(players)
    different = 0
    for number in range(games):
        seats = [None] * players
        room, _, _ = rooms.create(Create(type="create", game=game, seats=seats, you=0, name="A"))
        room.live = LiveGame(game, players, rules, FairDeal(number))
        for seat in range(1, players):
            room.sit(seat, f"B{seat}")
        bot = room.live.tables.bot(room.live.tables.default_bot)
        while not room.live.done and room.live.turn < 250:
            for seat in range(players):
                before = room.state(seat)
                report = b""
                asks = bool(think) and room.live.to_play == seat and rng.random() < 0.02
                if asks:
                    report = await room.analyse(seat, room.live.turn)
                    assert json.loads(report)["agent"].startswith(think)
                for _ in range(SAMPLES if asks else 1):
                    blob = resampled(room, seat, int(rng.integers(2**62)))
                    different += room.live.tables.save(0) != blob
                    assert room.state(seat) == before
                    if asks:
                        assert await room.analyse(seat, room.live.turn) == report
                    room.live.tables.load(0, blob)
            room.live.act(int(room.live.tables.bot_actions([bot] * players, 3)[0]))
        room.close()
    return different


@pytest.mark.parametrize(
    ("game", "players", "rules", "think"),
    [
        ("skyjo", 2, "official", "skyjo-belief"),
        ("skyjo", 4, "official", ""),
        ("lama", 2, "official", ""),
        ("lama", 4, "report", "lama-belief"),
        ("skipbo", 2, "official", "skipbo-belief"),
        ("skipbo", 3, "official", ""),
    ],
)
def test_every_byte_that_a_seat_receives_is_independent_of_the_hidden_cards(
    game: str, players: int, rules: str, think: str
) -> None:
    compared = asyncio.run(play_and_compare(game, players, rules, games=4, think=think))
    assert compared > 500, "the resampled cards differed from the true ones"


def test_a_view_with_a_hidden_card_in_it_would_be_noticed() -> None:
    """The comparison above can fail: with the true cards in the state, resampling changes bytes."""

    class Leaking(LiveGame):
        def view(self, seat: int) -> dict[str, Any]:
            return {**super().view(seat), "cards": self.tables.true_cards(seat)[0].tolist()}

    live = Leaking("skyjo", 2, "official", FairDeal(1))
    before = live.view(0)
    live.tables.determinize(0, 5)
    assert live.view(0) != before


def test_the_server_sends_states_and_nothing_else_during_a_game() -> None:
    async def play() -> tuple[Room, list[Sink], list[list[bytes]]]:
        rooms = make_rooms()
        room, seat, _ = rooms.create(Create(type="create", game="skyjo", seats=[None, None], you=0, name="A"))
        room.sit(1, "B")
        sinks, expected = [Sink(), Sink()], [[], []]
        for number, sink in enumerate(sinks):
            room.enter(number, sink)
        for sink in sinks:
            sink.messages.clear()
        while not room.live.done and room.live.turn < 60:
            seat = room.live.to_play
            room.act(seat, room.live.turn, room.live.legal[0])
            for number in range(2):
                expected[number].append(room.state(number))
        room.close()
        return room, sinks, expected

    _, sinks, expected = asyncio.run(play())
    assert [sink.messages for sink in sinks] == expected


@pytest.mark.parametrize(("game", "players"), [("skyjo", 2), ("skipbo", 3), ("lama", 2), ("kuhn", 2)])
def test_slots_with_hidden_cards_are_found_without_looking_at_them(game: str, players: int) -> None:
    tables = env.make(game, 1, players, seed=4, auto_reset=False)
    for step in range(30):
        if tables.done[0]:
            break
        seat = int(tables.to_play[0])
        found, obs = hidden_slots(tables), Position.at(tables).obs
        true = tables.true_cards(seat)[0]
        assert all(true[slot] > 0 for slot in found), "a card lies there"
        tables.determinize(seat, step)
        assert hidden_slots(tables) == found
        assert (Position.at(tables).obs == obs).all()
        tables.step(tables.sample_actions(step))
    if game == "skyjo":
        assert found == tuple(np.flatnonzero(true))
