"""Analysis engine: a JSON request per line on standard input, a JSON answer per position on standard output.

    python -m muzero.engine agent=agent:skyjo-belief [batch=64]

Keys:
{keys}

Requests that wait are searched together. A line that cannot be answered gets an object with its id and the error; it
never ends the process. docs/engine.md has the schema and a client of 20 lines. Agents:
{agents}
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any, BinaryIO, TextIO

import env
from muzero.agents import agent_spec
from muzero.agents.agent_spec import AgentSpec
from muzero.arena.analysis import Analyst, default_analyst
from muzero.arena.position import Position, card_names
from muzero.arena.requests import SCHEMA, Request, parse_request, positions_of
from muzero.config.fields import require

MOST_BYTES = 4 << 20  # of a line
_ID = re.compile(rb'\s*\{\s*"id"\s*:\s*"([^"\\]{1,200})"')  # id at the beginning of a line that may be broken
_MOST_LINES = 4096  # lines read ahead; more wait in the pipe

HELP = {
    "agent": "agent with a network and search that analyses; by default the one of the project for the first game",
    "batch": "largest number of positions that are searched together",
}


@dataclass(frozen=True)
class Job:
    """Position to analyse for a request.

    Attributes:
      request: the request that asks for it.
      turn: number of decisions before it in the request's record; None without a record.
      position: the position.
    """

    request: Request
    turn: int | None
    position: Position


class Engine:
    """Answers requests; positions of all requests at hand go through one planner."""

    def __init__(self, analyst: Analyst) -> None:
        self.analyst = analyst

    def answer(self, lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        """Answers to lines, in the order of their numbers of players; never raises for what a line contains."""
        jobs: list[Job] = []
        for line in lines:
            identity: str | None = None
            try:
                content = _read(line)
                identity = content["id"] if isinstance(content, dict) and isinstance(content.get("id"), str) else None
                request = parse_request(content)
                if request.query is not None:
                    yield {"id": request.id, "schema": SCHEMA, "engine": self.describe()}
                    continue
                found = [Job(request, turn, position) for turn, position in positions_of(request)]
                for job in found:
                    self._require_playable(job.position)
                jobs += found
            except (ValueError, RecursionError) as error:
                yield _error(identity or _named(line), str(error))
        for players in sorted({job.position.info.num_players for job in jobs}):
            group = [job for job in jobs if job.position.info.num_players == players]
            for at in range(
                0, len(group), self.analyst.batch
            ):  # reports of all turns of long requests would fill memory
                yield from self._analyse(group[at : at + self.analyst.batch])

    def _analyse(self, jobs: Sequence[Job]) -> Iterator[dict[str, Any]]:
        """Answers to jobs that are searched together."""
        try:
            reports = self.analyst.analyse([job.position for job in jobs])
        except Exception as error:  # whatever happens in a search, the next requests are answered
            yield from (_error(job.request.id, f"the search failed: {error}") for job in jobs)
            return
        for job, report in zip(jobs, reports, strict=True):
            yield {"id": job.request.id, "schema": SCHEMA, "turn": job.turn, **report}

    def describe(self) -> dict[str, Any]:
        """Description of the engine for clients: agent, game, names of actions and cards."""
        info = self.analyst.searcher(self.analyst.players).planner.network.spec
        game = env.describe(self.analyst.game, info.num_players)
        return {
            "agent": str(self.analyst.spec),
            "game": self.analyst.game,
            "players": self.analyst.players,
            "actions": list(game.action_names),
            "phases": list(game.phase_names),
            "cards": card_names(game),
        }

    def _require_playable(self, position: Position) -> None:
        game = self.analyst.game
        require(position.info.name == game, "game", f"{game}, which {self.analyst.spec} plays", position.info.name)
        self.analyst.searcher(position.info.num_players)


def serve(engine: Engine, source: BinaryIO, sink: TextIO) -> None:
    """Answer all lines of a stream until it ends; lines that wait are answered together."""
    lines: Queue[bytes | None] = Queue(_MOST_LINES)
    reader = threading.Thread(target=_read_lines, args=(source, lines), daemon=True)
    reader.start()
    going_on = True
    while going_on:
        first = lines.get()
        waiting = [first]
        while len(waiting) < engine.analyst.batch:
            try:
                waiting.append(lines.get_nowait())
            except Empty:
                break
        going_on = None not in waiting
        for answer in engine.answer([line for line in waiting if line is not None and line.strip()]):
            sink.write(json.dumps(answer, allow_nan=False) + "\n")
        sink.flush()


def _read_lines(source: BinaryIO, lines: Queue[bytes | None]) -> None:
    """Put the lines of a stream into a queue, None at the end; a line that is too long is cut and will be refused."""
    while line := source.readline(MOST_BYTES + 1):
        whole = line
        while len(line) > MOST_BYTES and not line.endswith(b"\n"):
            line = source.readline(MOST_BYTES + 1)
        lines.put(whole)
    lines.put(None)


def _read(line: bytes) -> Any:
    """Content of a line; a ValueError says why it is no JSON."""
    if len(line) > MOST_BYTES:
        raise ValueError(f"line: expected at most {MOST_BYTES} bytes, got more")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line: expected JSON, got {line[:40]!r} ({error})") from None


def _named(line: bytes) -> str | None:
    """Id of a line that is no JSON, where its beginning shows one: whoever sent it learns which request was broken."""
    found = _ID.match(line)
    return found[1].decode(errors="replace") if found else None


def _error(identity: str | None, message: str) -> dict[str, Any]:
    return {"id": identity, "schema": SCHEMA, "error": message}


def usage() -> str:
    """Help text of the command."""
    keys = "\n".join(f"    {name}=".ljust(14) + text for name, text in HELP.items())
    agents = "\n".join(f"    {line}" if line else "" for line in (agent_spec.__doc__ or "").strip().splitlines()[2:])
    return (__doc__ or "").format(keys=keys, agents=agents)


def read_arguments(arguments: Sequence[str]) -> Analyst:
    """Agent that the command line names."""
    given: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        known = bool(equals) and key in HELP and key not in given
        require(known, f"argument {argument!r}", f"key=value, each key once, with one of {', '.join(HELP)}", argument)
        given[key] = value
    shipped = [str(spec) for game in env.games() if (spec := default_analyst(game))]
    text = given.get("agent", shipped[0] if shipped else "")
    require(bool(text), "agent", "the name of an agent", text)
    batch = given.get("batch", "64")
    require(batch.isdecimal() and 1 <= int(batch) <= 65536, "batch", "a number from 1 to 65536", batch)
    analyst = Analyst(AgentSpec.parse(text), int(batch))
    analyst.searcher(analyst.players)  # loads the network now, so that errors show before any request
    return analyst


def main(argv: Sequence[str] | None = None) -> int:
    """Run the engine on standard input and output; return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    try:
        analyst = read_arguments(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        serve(Engine(analyst), sys.stdin.buffer, sys.stdout)
    except (BrokenPipeError, KeyboardInterrupt):  # whoever asked has gone
        sys.stderr.close()
    return 0
