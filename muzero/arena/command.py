"""Arena: play against agents in a browser.

    python -m muzero.arena [port=8000] [key=value ...]

Keys:
{keys}

Agents:
{agents}
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn

import env
from muzero.agents import agent_spec
from muzero.agents.agent_spec import join_options
from muzero.arena.brain import Brain
from muzero.arena.catalogue import Catalogue
from muzero.arena.room import Timing
from muzero.arena.rooms import Rooms
from muzero.arena.server import STATIC, Limits, make_app
from muzero.arena.store import Store
from muzero.config.fields import require
from muzero.matches.arguments import describe_keys, parse_overrides

HELP = {
    "port": "port of the server",
    "host": "address to listen at; another one than 127.0.0.1 lets other machines in",
    "names": "names by which browsers may reach the server beside its address, such as [arena.example.org]",
    "games": "games that are offered, such as [skyjo]; by default all that the page can show",
    "agents": "agents that are offered beside the bots; by default those that come with the project",
    "store": "file of rooms and finished games, with which games go on after a restart; empty keeps nothing",
    "gallery": "directories of game records to show, such as records=DIR of muzero.evaluate wrote",
    "rooms": "most rooms at a time",
    "connections": "most browsers at a time",
    "pace": "seconds between decisions of agents",
    "grace": "seconds after which a bot plays for a person whose connection is lost",
    "idle": "minutes after which a room without people is closed",
    "batch": "largest number of positions that are searched together",
}


@dataclass
class ArenaConfig:
    """Settings of the server; `HELP` explains them."""

    port: int = 8000
    host: str = "127.0.0.1"
    names: list[str] = field(default_factory=list)
    games: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    store: str | None = "runs/arena.sqlite"
    gallery: list[str] = field(default_factory=lambda: ["runs/games", "runs/records"])
    rooms: int = 200
    connections: int = 400
    pace: float = 0.7
    grace: float = 60.0
    idle: float = 60.0
    batch: int = 64
    rules: Any = field(default_factory=dict)

    def check(self) -> None:
        """Raise a ValueError that names the key of a value outside its range."""
        require(0 < self.port < 65536, "port", "1 to 65535", self.port)
        for name in ("rooms", "connections", "batch"):
            require(1 <= getattr(self, name) <= 65536, name, "1 to 65536", getattr(self, name))
        for name in ("pace", "grace"):
            require(0 <= getattr(self, name) <= 3600, name, "0 to 3600 seconds", getattr(self, name))
        require(0 < self.idle <= 100_000, "idle", "more than 0, at most 100000 minutes", self.idle)
        require(not self.rules, "rules", "none: people choose them in the lobby", self.rules)


def shown_games() -> list[str]:
    """Games that the page has a board for."""
    return [game for game in env.games() if (STATIC / "games" / f"{game}.js").exists()]


def allowed_hosts(config: ArenaConfig) -> set[str]:
    """Values of the header Host that are this server."""
    names = {config.host, *config.names}
    try:
        own = ipaddress.ip_address(config.host)
    except ValueError:
        own = None
    if own is not None and own.version == 6:
        names = {f"[{name}]" if name == config.host else name for name in names}
    if own is not None and (own.is_loopback or own.is_unspecified):
        names |= {"127.0.0.1", "localhost", "[::1]"}
    ports = {f":{config.port}"} | ({""} if config.port in (80, 443) or config.names else set())
    return {f"{name.lower()}{port}" for name in names for port in ports}


def make_rooms(config: ArenaConfig) -> Rooms:
    """Rooms of a server, with the games and agents that a configuration offers."""
    config.check()
    agents = join_options(config.agents) if config.agents else None
    catalogue = Catalogue(config.games or shown_games(), agents)
    timing = Timing(config.pace, config.grace, 60 * config.idle)
    store = Store(config.store or ":memory:")
    return Rooms(catalogue, Brain(config.batch), store, timing, config.rooms, config.gallery)


def usage() -> str:
    """Help text of the command."""
    agents = "\n".join(f"    {line}" if line else "" for line in (agent_spec.__doc__ or "").strip().splitlines()[2:])
    return (__doc__ or "").format(agents=agents, keys=describe_keys(ArenaConfig(), HELP))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server that the command line describes; return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    try:
        config, _ = parse_overrides(ArenaConfig, arguments, HELP)
        limits = Limits(connections=config.connections)
        app = make_app(make_rooms(config), limits, allowed_hosts(config))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    where = f"[{config.host}]" if ":" in config.host else config.host
    print(
        f"arena: open http://{where}:{config.port}/ in a browser; Ctrl-C stops it, games go on at the next start",
        flush=True,
    )
    uvicorn.run(
        app,
        host=config.host,
        port=config.port,
        log_level="warning",
        ws_max_size=4 * limits.bytes,
        ws_per_message_deflate=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return 0
