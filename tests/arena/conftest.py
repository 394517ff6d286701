"""Fixtures of the arena's tests: a server in this process, and messages to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketTestSession

from muzero.arena.brain import Brain
from muzero.arena.catalogue import Catalogue
from muzero.arena.room import Timing
from muzero.arena.rooms import Rooms
from muzero.arena.server import Limits, make_app
from muzero.arena.store import Store
from tests.small_fits import small_fits as small_fits

HOST = "127.0.0.1:8000"
GAMES = ("skyjo", "lama", "skipbo")
SEARCH = "skyjo-belief, 4 simulations"


def make_rooms(
    store: str = ":memory:",
    *,
    most: int = 20,
    grace: float = 60.0,
    idle: float = 3600.0,
    pace: float = 0.0,
    spare: float = 60.0,
) -> Rooms:
    """Rooms with all bots and the shipped agents, in which agents decide without a pause."""
    return Rooms(Catalogue(GAMES), Brain(16), Store(store), Timing(0.0, grace, idle, spare), most)


class Browser:
    """WebSocket client that checks what it gets."""

    def __init__(self, session: WebSocketTestSession) -> None:
        self.session = session
        self.received: list[str] = []

    def send(self, **message: Any) -> None:
        self.session.send_text(json.dumps(message))

    def get(self, kind: str) -> dict[str, Any]:
        """Next message of a type; states that come before are skipped, an error that was not asked for is one."""
        while True:
            text = self.session.receive_text()
            self.received.append(text)
            message: dict[str, Any] = json.loads(text)
            if message["type"] == kind:
                return message
            assert message["type"] != "error", message

    def ask(self, kind: str, **message: Any) -> dict[str, Any]:
        self.send(**message)
        return self.get(kind)

    def create(self, *seats: str | None, game: str = "skyjo", **options: Any) -> dict[str, Any]:
        """Open a room with these seats and sit down at the first that is a person's."""
        you = seats.index(None)
        return self.ask("seated", type="create", game=game, seats=seats, you=you, name="Ada", **options)

    def play(
        self,
        seat: int,
        choose: Callable[[list[int]], int] = lambda legal: legal[0],
        state: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Play a game to its end, from `state` or the next one on; return its last state."""
        state = state or self.get("state")
        while not state["view"]["done"]:
            view = state["view"]
            if view["to_play"] == seat and view["legal"]:
                self.send(type="act", turn=view["turn"], action=choose(view["legal"]))
                turn = view["turn"]
                while state["view"]["turn"] <= turn:
                    state = self.get("state")
            else:
                state = self.get("state")
        return state


@pytest.fixture
def open_client() -> Iterator[Callable[..., TestClient]]:
    """Function that starts a server in this process and returns a client for it."""
    open_ones = []

    def start(rooms: Rooms | None = None, limits: Limits | None = None) -> TestClient:
        generous = limits or Limits(rate=1e6, burst=10**6)
        client = TestClient(
            make_app(make_rooms() if rooms is None else rooms, generous, {HOST}), base_url=f"http://{HOST}"
        )
        client.__enter__()
        open_ones.append(client)
        return client

    yield start
    for client in open_ones:
        client.__exit__(None, None, None)


@pytest.fixture
def client(open_client: Callable[..., TestClient]) -> TestClient:
    """Client of a server with generous limits."""
    return open_client()


def connect(client: TestClient, origin: str | None = f"http://{HOST}", host: str = HOST) -> WebSocketTestSession:
    """WebSocket of a browser at a page of `origin`."""
    headers = {"host": host, **({"origin": origin} if origin else {})}
    return client.websocket_connect("/ws", headers=headers)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Path of an SQLite file."""
    return str(tmp_path / "arena.sqlite")
