"""Requests to the analysis engine: their schema, and the positions that they ask about.

Unknown keys are refused, so that a misspelt one is never ignored. docs/engine.md explains every key.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

import env
from muzero.arena.position import Position
from muzero.arena.schema import Message, explain
from muzero.config.fields import require

SCHEMA = 1  # version of requests and answers

RuleOption = bool | int | float | str | list[int]
Rules = str | dict[str, RuleOption]
_MOST_PLAYERS = 8
_MOST_ACTIONS = 100_000  # of a record
_MOST_TURNS = 10_000  # of a request


class Record(Message):
    """Game as a game record describes it; `agents` or `players` gives the number of players.

    A file that `env.game_record` wrote can be given as it is: its results are not read.
    """

    game: str = Field(max_length=40)
    rules: Rules = "official"
    seed: int = Field(ge=0, lt=2**64)
    deal: int = Field(0, ge=0, lt=2**64)
    players: int | None = Field(None, ge=2, le=_MOST_PLAYERS)
    agents: list[str] | None = None
    actions: list[int | str] = Field(max_length=_MOST_ACTIONS)
    format: Literal[1] | None = None
    version: int | None = None
    scores: list[int] | None = None
    ranks: list[int] | None = None
    truncated: bool | None = None
    commitment: str | None = None
    nonce: str | None = None


class VisiblePosition(Message):
    """Position as its player to move sees it, without a seed: for games that are played elsewhere."""

    game: str = Field(max_length=40)
    players: int = Field(2, ge=2, le=_MOST_PLAYERS)
    rules: Rules = "official"
    observation: list[int] | dict[str, list[dict[str, int]]]
    legal: list[int | str] = Field(min_length=1, max_length=64)
    phase: str = Field(max_length=40)
    to_play: int = Field(0, ge=0, lt=_MOST_PLAYERS)


class Request(Message):
    """Line that the engine reads: a record and its turns, a position, or a question about the engine."""

    id: str = Field(max_length=200)
    schema_: Literal[1] = Field(1, alias="schema")
    record: Record | None = None
    turns: list[int] | None = Field(None, max_length=_MOST_TURNS)
    position: VisiblePosition | None = None
    query: Literal["describe"] | None = None


def parse_request(content: Any) -> Request:
    """Check a request; a ValueError names the key that is wrong, what was expected and what was given."""
    require(isinstance(content, dict), "request", "an object", content)
    try:
        request = Request.model_validate(content)
    except ValidationError as error:
        raise ValueError(explain(error)) from None
    asked = [name for name in ("record", "position", "query") if getattr(request, name) is not None]
    require(len(asked) == 1, "request", "one of record, position and query", ", ".join(asked) or "none")
    require(request.turns is None or request.record is not None, "turns", "none without a record", request.turns)
    return request


def positions_of(request: Request) -> list[tuple[int | None, Position]]:
    """Positions that a request asks about, each with its turn (None without a record)."""
    if request.position is not None:
        return [(None, visible(request.position))]
    assert request.record is not None
    return list(turns_of(request.record, request.turns))


def turns_of(record: Record, turns: list[int] | None) -> list[tuple[int, Position]]:
    """Positions of a record before the decisions `turns`, by default before the one after its last action."""
    players = record.players or len(record.agents or [])
    require(players > 0, "record.players", "a number of players, or agents by seat", None)
    same = record.agents is None or len(record.agents) == players
    require(same, "record.agents", f"{players} names, one per player", record.agents)
    require_game("record.game", record.game)
    tables = env.make(record.game, 1, players, record.rules, record.seed, auto_reset=False)
    tables.reset(deals=[record.deal])
    last = len(record.actions)
    wanted = [last] if turns is None else turns
    for turn in wanted:
        require(0 <= turn <= last, "turns", f"numbers from 0 to {last}", turn)
    found: dict[int, Position] = {}
    asked = set(wanted)
    for turn in range(last + 1):
        if turn in asked:
            require(not tables.done[0], "turns", "turns before the end of the game", turn)
            found[turn] = Position.at(tables)
        if turn < last:
            key = f"record.actions[{turn}]"
            action = action_number(key, record.actions[turn], tables.info)
            legal = ", ".join(str(a) for a in np.flatnonzero(tables.legal[0])) or "none, because the game is over"
            good = bool(tables.legal[0, action])
            require(good, key, f"a legal action of seat {tables.to_play[0]}: {legal}", record.actions[turn])
            tables.step([action])
    return [(turn, found[turn]) for turn in wanted]


def visible(given: VisiblePosition) -> Position:
    """Position that an observation describes; all numbers are checked against the game's description."""
    require_game("position.game", given.game)
    info = env.describe(given.game, given.players, given.rules)
    row = _row(given.observation, info)
    legal = tuple(sorted({action_number("position.legal", action, info) for action in given.legal}))
    phases = ", ".join(info.phase_names)
    require(given.phase in info.phase_names, "position.phase", f"one of {phases}", given.phase)
    phase = info.phase_names.index(given.phase)
    for action in legal:
        possible = info.phase_table[phase][action].possible
        require(possible, "position.legal", f"actions of phase {given.phase}", info.action_names[action])
    require(given.to_play < given.players, "position.to_play", f"0 to {given.players - 1}", given.to_play)
    return Position(info, row, legal, phase, given.to_play)


def _row(observation: list[int] | dict[str, list[dict[str, int]]], info: env.GameDescription) -> Any:
    """Observation row [W] from numbers or from groups of tokens by name."""
    key = "position.observation"
    numbers: list[int] = []
    if isinstance(observation, dict):
        names = [group.name for group in info.groups]
        require(sorted(observation) == sorted(names), key, f"the groups {', '.join(names)}", sorted(observation))
        for group in info.groups:
            tokens, fields = observation[group.name], [field.name for field in group.fields]
            require(len(tokens) == group.count, f"{key}.{group.name}", f"{group.count} tokens", len(tokens))
            for token in tokens:
                good = sorted(token) == sorted(fields)
                require(good, f"{key}.{group.name}", f"tokens with the fields {', '.join(fields)}", sorted(token))
                numbers += [token[name] for name in fields]
    else:
        numbers = observation
    require(len(numbers) == info.width, key, f"{info.width} numbers", f"{len(numbers)} numbers")
    for group in info.groups:
        width = len(group.fields)
        for index in range(group.count * width):
            field, value = group.fields[index % width], numbers[group.offset + index]
            where = f"{key}.{group.name}[{index // width}].{field.name}"
            require(0 <= value < field.vocabulary, where, f"0 to {field.vocabulary - 1}", value)
    return np.array(numbers, np.int16)


def action_number(key: str, action: int | str, info: env.GameDescription) -> int:
    """Number of an action that is given by number or name."""
    if isinstance(action, str):
        require(action in info.action_names, key, f"one of {', '.join(info.action_names)}", action)
        return info.action_names.index(action)
    require(0 <= action < info.num_actions, key, f"0 to {info.num_actions - 1}", action)
    return action


def require_game(key: str, game: str) -> None:
    """Refuse names that are no game."""
    require(game in env.games(), key, f"one of {', '.join(env.games())}", game)
