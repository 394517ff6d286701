"""Web server of the arena: the page, and one WebSocket per browser, over which everything else goes.

The server trusts nothing that a browser says: messages have a schema, a size and a rate; Host and Origin must be the
server's own; a seat is proved by its token; agents and games come from a list that was made at the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from muzero.arena import messages
from muzero.arena.messages import encode, parse_message
from muzero.arena.results import MOST_RESULTS, as_csv, ratings

if TYPE_CHECKING:
    from muzero.arena.room import Room
    from muzero.arena.rooms import Rooms

STATIC = Path(__file__).parent / "static"
_RESULTS_FOR = 2.0  # seconds for which results are kept: ratings are solved for all players together

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEADERS = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


@dataclass
class Limits:
    """Bounds of what browsers may do.

    Attributes:
      connections: most connections at a time.
      bytes: most bytes of a message.
      rate: messages per second that a connection may send on average.
      burst: messages that it may send at once.
      silence: seconds without a message after which a connection is closed.
      backlog: messages that may wait for a browser that does not read.
      file: most characters of a file that is sent in parts.
    """

    connections: int = 256
    bytes: int = 4096
    rate: float = 10.0
    burst: int = 40
    silence: float = 900.0
    backlog: int = 256
    file: int = 200_000


class Guard:
    """ASGI layer that refuses requests to other hosts and from other sites, and adds security headers to answers.

    Without it, a page of another site could reach a server on 127.0.0.1 through the browser of its visitor.

    Args:
      app: application behind it.
      hosts: values of the header Host that are this server, such as 127.0.0.1:8000.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], hosts: set[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        if not self.admits(scope):
            if scope["type"] == "websocket":
                await receive()  # the request to connect
                await send({"type": "websocket.close", "code": 1008})
            else:
                await send({"type": "http.response.start", "status": 403, "headers": _raw(HEADERS)})
                await send({"type": "http.response.body", "body": b"this host or origin is not served\n"})
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_raw(HEADERS)]
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def admits(self, scope: Scope) -> bool:
        """Tell whether Host is this server and Origin, which WebSockets must have, this server's page."""
        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        origins = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"origin"]
        if len(hosts) != 1 or hosts[0] not in self.hosts or len(origins) > 1:
            return False
        if not origins:
            return bool(scope["type"] == "http" and scope["method"] in ("GET", "HEAD"))
        origin = urlsplit(origins[0])
        return origin.scheme in ("http", "https") and origin.netloc == hosts[0]


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


@dataclass(eq=False)
class Connection:
    """Browser that is connected: its seat, and the messages that wait to be sent to it.

    Attributes:
      socket: the WebSocket.
      limits: bounds.
      room, seat: the place that it holds, if any.
      parts: parts of a file that it is sending.
    """

    socket: WebSocket
    limits: Limits
    room: Room | None = None
    seat: int = 0
    parts: list[str] = field(default_factory=list)
    _waiting: asyncio.Queue[bytes | None] = field(init=False)
    _allowance: float = field(init=False)
    _counted_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._waiting = asyncio.Queue(self.limits.backlog)
        self._allowance, self._counted_at = float(self.limits.burst), time.monotonic()

    def send(self, message: bytes) -> None:
        """Queue a message; a browser that does not read is disconnected."""
        if self._waiting.full():
            self._waiting.get_nowait()
            self._waiting.put_nowait(None)
        else:
            self._waiting.put_nowait(message)

    def tell(self, **message: Any) -> None:
        """Queue a message that is given by its keys."""
        self.send(encode(message))

    def within_rate(self) -> bool:
        """Count a message; tell whether the connection keeps to its rate."""
        now = time.monotonic()
        gained = (now - self._counted_at) * self.limits.rate
        self._allowance, self._counted_at = min(float(self.limits.burst), self._allowance + gained), now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    async def write(self) -> None:
        """Send what is queued until the connection ends."""
        while (message := await self._waiting.get()) is not None:
            await self.socket.send_text(message.decode())
        await self.socket.close(1013)

    async def read(self) -> str | None:
        """Next message; None if there was silence for too long or it is no text."""
        try:
            received = await asyncio.wait_for(self.socket.receive(), self.limits.silence)
        except TimeoutError:
            return None
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        text = received.get("text")
        return text if isinstance(text, str) else None


class Arena:
    """Answers to the messages of all browsers."""

    def __init__(self, rooms: Rooms, limits: Limits) -> None:
        self.rooms, self.limits, self.connections = rooms, limits, 0
        self._results: dict[str, Any] = {}
        self._looked_up = -math.inf

    async def serve(self, socket: WebSocket) -> None:
        """Answer one browser until it goes; its seat is kept for its return."""
        if self.connections >= self.limits.connections:
            await socket.close(1013)
            return
        await socket.accept()
        self.connections += 1
        connection = Connection(socket, self.limits)
        writer = asyncio.create_task(connection.write())
        try:
            await self._listen(connection, writer)
        except (WebSocketDisconnect, RuntimeError):  # starlette raises RuntimeError if it writes to a closed socket
            pass
        finally:
            self.connections -= 1
            writer.cancel()
            if connection.room:
                connection.room.lose(connection.seat, connection)

    async def _listen(self, connection: Connection, writer: asyncio.Task[None]) -> None:
        while not writer.done():
            text = await connection.read()
            if text is None:
                await connection.socket.close(1008)
                return
            if len(text.encode()) > self.limits.bytes:
                await connection.socket.close(1009)
                return
            if not connection.within_rate():
                connection.tell(type="error", message="rate: expected fewer messages per second; wait a moment")
                await asyncio.sleep(1 / self.limits.rate)
                continue
            try:
                await self.answer(connection, parse_message(text))
            except ValueError as error:
                connection.tell(type="error", message=str(error))

    async def answer(self, connection: Connection, message: Any) -> None:
        """Carry out one message; a ValueError is told to the browser."""
        rooms, room, seat = self.rooms, connection.room, connection.seat
        match message:
            case messages.Ping():
                connection.tell(type="pong")
            case messages.Lobby():
                connection.tell(type="lobby", games=rooms.catalogue.describe())
            case messages.Create():
                self._seat(connection, *rooms.create(message))
            case messages.Join():
                self._seat(connection, *rooms.join(message.room, message.name))
            case messages.Resume():
                found = rooms.find(message.room)
                self._seat(connection, found, found.seat_of(message.token), message.token)
            case _ if isinstance(message, messages.LOOKING):
                connection.tell(**await self.look(connection, message))
            case _ if room is None or room.seats[seat].client is not connection:
                raise ValueError("room: expected a seat first (create, join or resume)")
            case messages.Start():
                room.start()
            case messages.Act():
                room.act(seat, message.turn, message.action)
            case messages.Think():
                connection.send(await room.analyse(seat, message.turn))
            case messages.Again():
                room.again()
            case messages.Record():
                connection.tell(type="record", record=room.record().content())
            case messages.Leave():
                room.lose(seat, connection, left=True)
                connection.room = None
                connection.tell(type="left", room=room.code)

    async def look(self, connection: Connection, message: Any) -> dict[str, Any]:
        """Answer to a message about games that are finished or played by agents alone."""
        rooms = self.rooms
        match message:
            case messages.ListGames():
                return {"type": "gallery", "entries": rooms.gallery.entries()}
            case messages.Upload():
                name = self._received(connection, message)
                return {"type": "loaded", "id": name} if name else {"type": "pong"}
            case messages.Watch():
                return {"type": "loaded", "id": rooms.viewings.watch(message.game, message.seats, message.rules)}
            case messages.SameCards():
                record = rooms.gallery.find(message.id)
                return {"type": "loaded", "id": rooms.viewings.same_cards(record, message.seat)}
            case messages.Frames():
                return await rooms.viewings.frames(message.id, message.seat, message.start)
            case messages.AskReview():
                return rooms.reviews.find(message.id, message.seat)
            case _:
                return {"type": "results", **self.results()}

    def _received(self, connection: Connection, message: messages.Upload) -> str | None:
        """Collect the parts of a file; id of the game once the last one is there."""
        connection.parts.append(message.part)
        size = sum(map(len, connection.parts)) + len(connection.parts)  # empty parts are bounded, too
        if size > self.limits.file:
            connection.parts.clear()
            raise ValueError(f"upload: expected at most {self.limits.file} characters, got {size}")
        if not message.last:
            return None
        text = "".join(connection.parts)
        connection.parts.clear()
        return self.rooms.gallery.load(text)

    def results(self) -> dict[str, Any]:
        """Results and ratings, which are looked up again after some seconds."""
        if time.monotonic() - self._looked_up > _RESULTS_FOR:
            found = self.rooms.store.results(MOST_RESULTS)
            self._results = {"results": found, "ratings": ratings(found, self.rooms.catalogue.ladders)}
            self._looked_up = time.monotonic()
        return self._results

    def _seat(self, connection: Connection, room: Room, seat: int, token: str) -> None:
        """Put a browser into a seat; it leaves the one it had."""
        if connection.room and (connection.room, connection.seat) != (room, seat):
            connection.room.lose(connection.seat, connection)
        connection.room, connection.seat = room, seat
        connection.tell(type="seated", room=room.code, seat=seat, token=token)
        room.enter(seat, connection)


def make_app(rooms: Rooms, limits: Limits, hosts: set[str]) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Application of the arena, behind its guard.

    Args:
      rooms: rooms of the server.
      limits: bounds of what browsers may do.
      hosts: values of the header Host that are this server.
    """
    arena = Arena(rooms, limits)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        rooms.restore()
        sweeper = asyncio.create_task(_sweep(rooms))
        yield
        sweeper.cancel()
        rooms.close()
        rooms.brain.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.arena = arena

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/records/{name}.json")
    async def record(name: str) -> JSONResponse:
        try:
            return JSONResponse(rooms.gallery.find(name).content())
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=404)

    @app.get("/results.json")
    async def results() -> JSONResponse:
        return JSONResponse(arena.results())

    @app.get("/results.csv")
    async def table() -> Response:
        return Response(as_csv(arena.results()["results"]), media_type="text/csv")

    @app.websocket("/ws")
    async def connect(socket: WebSocket) -> None:
        await arena.serve(socket)

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return Guard(app, hosts)


async def _sweep(rooms: Rooms) -> None:
    """Close idle rooms from time to time."""
    while True:
        await asyncio.sleep(min(60.0, rooms.timing.idle))
        rooms.sweep()
