"""Server at a real port, in a thread of the test's process, so that tests see every byte that a browser gets."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from websockets.sync.client import ClientConnection, connect

from muzero.arena.rooms import Rooms
from muzero.arena.server import Limits, make_app


@contextmanager
def serving(rooms: Rooms, limits: Limits | None = None) -> Iterator[int]:
    """Port of a server with these rooms, as `python -m muzero.arena` runs it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
        bounds = limits or Limits(rate=1e9, burst=10**9)
        app = make_app(rooms, bounds, {f"127.0.0.1:{port}"})
        keys: dict[str, Any] = {"log_level": "error", "ws_per_message_deflate": False, "ws_max_size": 4 * bounds.bytes}
        server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=1, **keys))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                time.sleep(0.01)
            yield port
        finally:
            server.should_exit = True
            thread.join()


def link_to(port: int) -> ClientConnection:
    """WebSocket of a browser at the server's own page, which is open until it is closed."""
    origin: Any = f"http://127.0.0.1:{port}"
    return connect(f"ws://127.0.0.1:{port}/ws", origin=origin, max_size=None, max_queue=None).__enter__()


class Wire:
    """Browser that keeps every message it gets, as it came."""

    def __init__(self, port: int) -> None:
        self.link = link_to(port)
        self.received: list[str] = []

    def send(self, **message: Any) -> None:
        """Send a message."""
        self.link.send(json.dumps(message))

    def get(self, kind: str) -> dict[str, Any]:
        """Next message of a type; an error that was not asked for is one."""
        while True:
            text = self.link.recv(timeout=60)
            assert isinstance(text, str)
            self.received.append(text)
            message: dict[str, Any] = json.loads(text)
            if message["type"] == kind:
                return message
            assert message["type"] != "error", message

    def at(self, turn: int) -> dict[str, Any]:
        """State in which a number of decisions is made, or more."""
        while True:
            state = self.get("state")
            if state["view"]["turn"] >= turn:
                return state
