"""Every byte that browsers receive from a real server: no hidden card can be inferred from it, and no message of theirs
disturbs another room."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

import env
from env.fair_deal import FairDeal
from muzero.arena.live_game import LiveGame
from muzero.arena.room import Room, Seat
from muzero.arena.rooms import Rooms
from tests.arena.conftest import make_rooms
from tests.arena.test_fuzz import GOOD, fuzzed
from tests.arena.wire import Wire, link_to, serving

TABLES: dict[str, tuple[tuple[tuple[str | None, ...], dict[str, Any]], ...]] = {
    "skyjo": (((None, None), {"episode": "round"}), ((None, "greedy", None), {"target": 40})),
    "lama": (((None, None), {}), ((None, None, "strategy_1"), {})),
    "skipbo": (((None, None), {"stock": 2}), ((None, "hpvp", None), {"stock": 3})),
}
SAMPLES = 2  # of the hidden cards, per message
TRIES = 3  # of the hidden cards before a decision, per decision and seat


def play(port: int, game: str, seats: tuple[str | None, ...], rules: dict[str, Any], seed: int) -> dict[int, Wire]:
    """Play one game, all its people with browsers of their own and decisions at random; return browsers by seat."""
    rng = random.Random(seed)
    people = [seat for seat, agent in enumerate(seats) if agent is None]
    browsers = {seat: Wire(port) for seat in people}
    first = browsers[people[0]]
    first.send(type="create", game=game, seats=seats, you=people[0], name="A", rules=rules)
    room = first.get("seated")["room"]
    for seat in people[1:]:
        browsers[seat].send(type="join", room=room, name=f"B{seat}")
        assert browsers[seat].get("seated")["seat"] == seat
    state = first.get("state")
    while not state["view"]["done"]:
        mover, turn = state["view"]["to_play"], state["view"]["turn"]
        if mover in browsers and state["started"]:
            own = state if mover == people[0] else browsers[mover].at(turn)
            if own["view"]["turn"] == turn:
                browsers[mover].send(type="act", turn=turn, action=rng.choice(own["view"]["legal"]))
        state = first.at(turn + 1) if state["started"] else first.get("state")
    for browser in browsers.values():
        while not json.loads(browser.received[-1]).get("view", {}).get("done"):
            browser.get("state")
        browser.link.close()
    return browsers


class Shadow:
    """A finished game played again, beside a room that writes what the server should have sent.

    Args:
      rooms: rooms of another server.
      record: content of the game's record.
    """

    def __init__(self, rooms: Rooms, record: dict[str, Any]) -> None:
        self.rooms, self.actions = rooms, record["actions"]
        deal = FairDeal(int(record["seed"]), record["nonce"])
        self.live = LiveGame(record["game"], len(record["agents"]), record["rules"], deal)

    def expected(self, message: dict[str, Any], key: int) -> str:
        """Bytes of a state, with everything dealt anew that its seat cannot know."""
        while self.live.turn < message["view"]["turn"]:
            self.live.act(self.actions[self.live.turn])
        seats = []
        for each in message["seats"]:  # who is there depends on connections and on no card
            offer = None if each["person"] else self.rooms.catalogue.substitute(self.live.game)
            client = object() if each["here"] and each["person"] else None
            digest = "" if each["free"] or not each["person"] else "x"
            seats.append(Seat(offer, each["name"], digest, each["substituted"], client, float("inf")))  # type: ignore[arg-type]
        room = Room(message["room"], self.live, seats, message["think"], self.rooms)
        blob = self.live.tables.save(0)
        if not self.live.done:  # then all cards may be known
            self.live.tables.determinize(message["seat"], key)
        text = room.state(message["seat"]).decode()
        self.live.tables.load(0, blob)
        return text


def told_the_same(live: LiveGame, action: int, seat: int, key: int) -> int:
    """Worlds in which a decision shows a seat the same table: its words must be the same, too. Returns their number."""
    after = _copy(live)
    after.step([action])
    before, same = _copy(live), 0
    blob = before.save(0)
    for number in range(TRIES):
        before.load(0, blob)
        before.determinize(seat, key + number)
        try:
            before.step([action])
        except ValueError:  # the player does not hold such a card in this world
            continue
        if (before.observe(seat) == after.observe(seat)).all():
            assert before.last_event(0) == after.last_event(0), "words that depend on a hidden card"
            same += 1
    return same


def _copy(live: LiveGame) -> env.VecEnv:
    tables = env.make(live.game, 1, live.players, live.tables.rules, auto_reset=False)
    tables.copy_from(live.tables, [0])
    return tables


def compare(games: int, game: str) -> tuple[int, int]:
    """Play games and compare all bytes; return the numbers of messages and of decisions in other worlds."""
    rng = np.random.default_rng(games)
    elsewhere = make_rooms()
    messages = worlds = 0
    rooms = make_rooms(most=games)
    with serving(rooms) as port:
        for number in range(games):
            seats, rules = TABLES[game][number % len(TABLES[game])]
            browsers = play(port, game, seats, rules, number)
            last = json.loads(next(iter(browsers.values())).received[-1])
            record = rooms.gallery.find(last["record"]).content()
            for browser in browsers.values():
                shadow = Shadow(elsewhere, record)
                kinds = [json.loads(text)["type"] for text in browser.received]
                assert kinds == ["seated"] + ["state"] * (len(kinds) - 1), "nothing else is sent"
                for text in browser.received[1:]:
                    for _ in range(SAMPLES):
                        assert shadow.expected(json.loads(text), int(rng.integers(2**62))) == text
                    messages += 1
            live = Shadow(elsewhere, record).live
            for action in record["actions"]:
                for seat in browsers:
                    worlds += told_the_same(live, action, seat, int(rng.integers(2**60)))
                live.act(action)
    return messages, worlds


@pytest.mark.parametrize("game", ["skyjo", "lama", pytest.param("skipbo", marks=pytest.mark.slow)])
def test_no_byte_that_a_browser_receives_depends_on_a_hidden_card(game: str) -> None:
    messages, worlds = compare(2, game)
    assert messages > 50
    assert worlds > 50


@pytest.mark.slow
@pytest.mark.parametrize("game", TABLES)
def test_no_byte_of_fifty_games_depends_on_a_hidden_card(game: str) -> None:
    messages, worlds = compare(50, game)
    assert messages > 1500
    assert worlds > 1500


def test_words_that_give_a_card_away_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparisons above can fail: with a hidden card in the words of an event, other worlds have other words."""
    true = env.VecEnv.last_event

    def telling(self: env.VecEnv, row: int) -> str:
        return f"{true(self, row)} {self.true_cards(0)[row].sum()}"

    monkeypatch.setattr(env.VecEnv, "last_event", telling)
    with pytest.raises(AssertionError, match="words that depend on a hidden card"):
        compare(1, "lama")


def storm(count: int, seed: int) -> tuple[int, int]:
    """Send fuzzed messages over real connections, beside a game of two others; return messages sent and received."""
    rng = random.Random(seed)
    rooms = make_rooms(most=6, spare=0.0)
    sent = received = 0
    with serving(rooms) as port:
        ada, bob = Wire(port), Wire(port)
        ada.send(type="create", game="skyjo", seats=[None, None], you=0, name="Ada")
        bob.send(type="join", room=ada.get("seated")["room"], name="Bob")
        bob.get("seated")
        state = bob.get("state")
        links = [link_to(port) for _ in range(4)]
        while sent < count:
            number = rng.randrange(len(links))
            try:
                for _ in range(16):
                    text = fuzzed(rng, GOOD)
                    links[number].send(text.encode() if rng.random() < 0.001 else text)
                    sent += 1
                links[number].send('{"type":"lobby"}')
                while '"type":"lobby"' not in links[number].recv(timeout=60):  # type: ignore[operator]
                    received += 1
            except ConnectionClosed:  # after bytes that are no text, or too many messages that wait
                links[number] = link_to(port)
        for _ in range(8):  # the two others play on, as if nothing had happened
            mover, turn = state["view"]["to_play"], state["view"]["turn"]
            own = (ada, bob)[mover]
            legal = own.at(turn)["view"]["legal"] if own is ada else state["view"]["legal"]
            own.send(type="act", turn=turn, action=legal[0])
            state = bob.at(turn + 1)
            assert state["view"]["turn"] == turn + 1, "nobody else has moved"
        for link in (*links, ada.link, bob.link):
            link.close()
    return sent, received


def test_fuzzed_messages_over_real_connections_disturb_no_other_room() -> None:
    sent, received = storm(2000, 1)
    assert sent >= 2000
    assert received > 1000


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_messages_over_real_connections() -> None:
    sent, received = storm(100_000, 2)
    assert sent >= 100_000
    assert received > 50_000
