"""The server as a process of its own: a client of another library plays, and kill -9 ends no game."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.forked import start_module


@contextmanager
def server(port: int, store: str) -> Iterator[ForkServerProcess]:
    """Server process that answers at the port."""
    process = start_module("muzero.arena", f"port={port}", f"store={store}", "pace=0")
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.join()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def open_socket(port: int, origin: str | None = None) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{port}/ws", origin=origin or f"http://127.0.0.1:{port}")  # type: ignore[arg-type]


def ask(link: ClientConnection, kind: str, **message: Any) -> dict[str, Any]:
    if message:
        link.send(json.dumps(message))
    while True:
        answer: dict[str, Any] = json.loads(link.recv(timeout=30))
        if answer["type"] == kind:
            return answer
        assert answer["type"] == "state", answer


def my_turn(link: ClientConnection) -> dict[str, Any]:
    while True:
        view: dict[str, Any] = ask(link, "state")["view"]
        if view["legal"] or view["done"]:
            return view


def decide(link: ClientConnection, view: dict[str, Any]) -> dict[str, Any]:
    """Make the first legal decision, unless the game is over; return the view at the next own turn."""
    if view["done"]:
        return view
    link.send(json.dumps({"type": "act", "turn": view["turn"], "action": view["legal"][0]}))
    while (after := my_turn(link))["turn"] == view["turn"]:
        pass
    return after


OPPONENTS = (("skyjo", "skyjo-belief, 4 simulations"), ("lama", "strategy_1"), ("skipbo", "hpvp"))


def test_all_games_go_on_after_the_server_is_killed_in_the_middle_of_decisions(port: int, store: str) -> None:
    """Twelve games, each with a decision on its way when the server dies: it was carried out, or never made."""
    games: list[tuple[ClientConnection, dict[str, Any], dict[str, Any]]] = []
    with server(port, store) as process:
        for number in range(12):  # the later, the further
            game, opponent = OPPONENTS[number % 3]
            link = open_socket(port).__enter__()
            create = {"type": "create", "game": game, "seats": [None, opponent], "you": 0, "name": "Ada"}
            seated, view = ask(link, "seated", **create), my_turn(link)
            for _ in range(number):
                view = decide(link, view)
            games.append((link, seated, view))
        for link, _, view in games:
            if not view["done"]:
                link.send(json.dumps({"type": "act", "turn": view["turn"], "action": view["legal"][0]}))
        process.kill()  # SIGKILL
        process.join()
    for link, _, _ in games:
        link.close()
    with server(port, store):
        for _, seated, before in games:
            with open_socket(port) as link:
                ask(link, "seated", type="resume", room=seated["room"], token=seated["token"])
                view = my_turn(link)
                assert view == before or view["turn"] > before["turn"]
                for _ in range(3):
                    view = decide(link, view)
                assert view["done"] or view["turn"] >= before["turn"] + 3


def test_games_go_on_after_the_server_is_killed(port: int, store: str) -> None:
    seats: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    with server(port, store) as process:
        for game, opponent in OPPONENTS:
            with open_socket(port) as link:
                create = {"type": "create", "game": game, "seats": [None, opponent], "you": 0, "name": "Ada"}
                seats.append(ask(link, "seated", **create))
                view = my_turn(link)
                link.send(json.dumps({"type": "act", "turn": view["turn"], "action": view["legal"][0]}))
                before.append(my_turn(link))
        process.kill()  # SIGKILL
        process.join()
    with server(port, store):
        for seat, view in zip(seats, before, strict=True):
            with open_socket(port) as link:
                ask(link, "seated", type="resume", room=seat["room"], token=seat["token"])
                after = my_turn(link)
                assert after == view
                link.send(json.dumps({"type": "act", "turn": after["turn"], "action": after["legal"][-1]}))
                assert ask(link, "state")["view"]["turn"] > after["turn"]


def test_the_process_refuses_other_origins_and_long_messages(port: int, store: str) -> None:
    with server(port, store):
        with pytest.raises(InvalidStatus):
            open_socket(port, "http://evil.example")
        with open_socket(port) as link:
            link.send('{"type": "ping"}' + " " * 100_000)
            with pytest.raises(ConnectionClosed):
                link.recv(timeout=10)
        with open_socket(port) as link:
            assert ask(link, "pong", type="ping") == {"type": "pong"}
