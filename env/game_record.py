"""Game records: finished games as small files. `python -m env.game_record FILE...` plays them again.

A game record is JSON: game, rules, seed and number of the deal, the agents by seat, all actions, and the result. It
does not hold the cards: a deal is a function of its seed, so the file is enough to deal all cards again, hidden ones
included. For that reason only finished games are recorded. A record of a game whose deal was promised by a hash
(`env.fair_deal`) also holds the hash and the nonce, and is checked against them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from env.description import describe, games
from env.fair_deal import FairDeal, commitment
from env.vector import VecEnv, make

FORMAT = 1


class GameRecordError(ValueError):
    """A file that is no game record, or does not agree with its own actions; the message says what differs."""


@dataclass(frozen=True)
class GameRecord:
    """A game that was played to its end.

    Attributes:
      game: name of the game.
      version: version of the game's rules in the core.
      rules: value of every rule option.
      seed, deal: numbers that name the cards.
      agents: name of the agent in each seat, in any words.
      actions: actions of all players, in order.
      scores, ranks: final scores and ranks, by seat.
      truncated: whether the game was cut off by its limit of decisions.
      commitment, nonce: hash that was shown before the deal, and what was hashed with the seed; "" without a promise.
    """

    game: str
    version: int
    rules: dict[str, Any]
    seed: int
    deal: int
    agents: list[str]
    actions: list[int]
    scores: list[int]
    ranks: list[int]
    truncated: bool
    commitment: str = ""
    nonce: str = ""

    @staticmethod
    def of(
        tables: VecEnv,
        table: int,
        *,
        seed: int,
        deal: int,
        agents: Sequence[str],
        actions: Sequence[int],
        fair: FairDeal | None = None,
    ) -> GameRecord:
        """Record of a table whose game has just ended; `fair` is the deal that was promised, if one was."""
        if not tables.done[table]:
            raise GameRecordError(f"table {table}: expected a finished game, because a record gives all cards away")
        return GameRecord(
            tables.game,
            tables.info.version,
            tables.rules,
            int(seed),
            int(deal),
            list(agents),
            [int(action) for action in actions],
            tables.scores[table].tolist(),
            tables.ranks[table].tolist(),
            bool(tables.truncated[table]),
            fair.commitment if fair else "",
            fair.nonce if fair else "",
        )

    def content(self) -> dict[str, Any]:
        """Content of the file; a promise that was not made is left out."""
        promised = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name)}
        required = {name: value for name, value in asdict(self).items() if name in _SHAPES}
        return {"format": FORMAT, **required, **promised}

    def save(self, path: Path) -> None:
        """Writes the file under a temporary name and renames it, so that a file is never incomplete."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(json.dumps(self.content()) + "\n")
        draft.replace(path)

    @staticmethod
    def read(path: Path) -> GameRecord:
        """Reads a file; an error says what is wrong with it."""
        try:
            if path.exists() and not path.is_file():
                raise ValueError("expected a file, got something else")
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError(f"expected at most {_MOST_BYTES} bytes, got {path.stat().st_size}")
            content = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise GameRecordError(f"{path}: cannot be read ({error})") from None
        return GameRecord.parse(content, str(path))

    @staticmethod
    def parse(content: Any, source: str) -> GameRecord:
        """Checks the content of a file; an error names its source and says what is wrong with it."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise GameRecordError(f"{source}: expected a game record of format {FORMAT}")
        content = {name: value for name, value in content.items() if name != "format"}
        for name, good in {**_SHAPES, **_OPTIONAL}.items():
            if name not in content and name in _SHAPES:
                raise GameRecordError(f"{source}: {name} is missing")
            if name in content and not good(content[name]):
                raise GameRecordError(f"{source}: {name} cannot be {_short(content[name])}")
        unknown = sorted(set(content) - set(_SHAPES) - set(_OPTIONAL))
        if unknown:
            raise GameRecordError(f"{source}: unknown keys {ascii(', '.join(unknown))[1:-1][:200]}")
        return GameRecord(**content)


_MOST_BYTES = 2**24  # bytes of a file; a game of ten thousand decisions has a hundredth of that
_MOST_SEATS = 64
_MOST_TEXT = 1000  # characters of a name


def _short(value: Any) -> str:
    """Text of a value of JSON's types for a message, without its inner parts if it has too many."""
    try:
        return json.dumps(value)[:60]
    except (ValueError, RecursionError):  # a number too long to print, or too many levels
        return f"this {type(value).__name__}"


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and abs(item) < 2**31 for item in value)


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT and value.isprintable()


def _rules(value: Any) -> bool:
    """Whether a value is an object of rule options: words, numbers, true or false, or lists of integers."""

    def option(item: Any) -> bool:
        number = type(item) in (bool, float) or (type(item) is int and abs(item) < 2**63)
        return number or _text(item) or (_integers(item) and len(item) <= _MOST_TEXT)

    return isinstance(value, dict) and all(_text(name) and option(item) for name, item in value.items())


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "game": _text,
    "version": _whole,
    "rules": _rules,
    "seed": _whole,
    "deal": _whole,
    "agents": lambda value: isinstance(value, list) and 0 < len(value) <= _MOST_SEATS and all(map(_text, value)),
    "actions": _integers,
    "scores": _integers,
    "ranks": _integers,
    "truncated": lambda value: isinstance(value, bool),
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "commitment": lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
    "nonce": lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{1,128}", value) is not None,
}


def deal(record: GameRecord) -> VecEnv:
    """Deals the cards of a record: one table before the first decision."""
    if record.game not in games():
        raise GameRecordError(f"game: expected one of {', '.join(games())}, got {record.game!r}")
    try:
        version = describe(record.game, len(record.agents), record.rules).version
    except ValueError as error:
        raise GameRecordError(f"the table cannot be set: {error}") from None
    if version != record.version:
        raise GameRecordError(f"version: {record.game} is now {version}, the record is of {record.version}")
    require_promised_deal(record)
    tables = make(record.game, 1, len(record.agents), record.rules, record.seed, auto_reset=False)
    tables.reset(deals=[record.deal])
    return tables


def require_promised_deal(record: GameRecord) -> None:
    """Raises `GameRecordError` if the record's deal was promised and is another one than it says."""
    if bool(record.commitment) != bool(record.nonce):
        raise GameRecordError("commitment and nonce: expected both or neither")
    found = commitment(record.seed, record.nonce)
    if record.commitment and found != record.commitment:
        raise GameRecordError(f"commitment: seed and nonce give {found}, the record says {record.commitment}")
    if record.commitment and record.deal:
        raise GameRecordError(f"deal: expected 0, because the promise is about the seed alone, got {record.deal}")


def play_again(record: GameRecord, tables: VecEnv) -> Iterator[tuple[int, int]]:
    """Plays a record at the table that `deal` returned: yields each seat and its action after it was carried out.

    Raises `GameRecordError` at the first impossible decision, or if the game does not end as the record says.
    """
    for number, action in enumerate(record.actions, 1):
        where = f"decision {number} of {len(record.actions)}"
        if tables.done[0]:
            raise GameRecordError(f"{where}: the game was over after {number - 1}")
        mover = int(tables.to_play[0])
        if not (0 <= action < tables.num_actions and tables.legal[0, action]):
            legal = ", ".join(str(a) for a in tables.legal[0].nonzero()[0])
            raise GameRecordError(f"{where}: seat {mover} cannot do {action}, legal are {legal}")
        tables.step([action])
        yield mover, action
    if not tables.done[0]:
        raise GameRecordError(f"the game is not over after the last of {len(record.actions)} decisions")
    ended = {
        "scores": tables.scores[0].tolist(),
        "ranks": tables.ranks[0].tolist(),
        "truncated": bool(tables.truncated[0]),
    }
    for name, found in ended.items():
        if found != getattr(record, name):
            raise GameRecordError(f"{name}: the game ends with {found}, the record says {getattr(record, name)}")


def verify(record: GameRecord) -> None:
    """Plays a record again; raises `GameRecordError`, which says what differs, unless it ends as the record says."""
    for _ in play_again(record, deal(record)):
        pass


def narrate(record: GameRecord, boards: bool = False) -> Iterator[str]:
    """Text of a game line by line, verified at the end; with `boards`, also the table after every turn."""
    tables, width = deal(record), max(len(who) for who in record.agents)
    yield f"{record.game}, seed {record.seed}, deal {record.deal}"
    yield tables.render(0).rstrip("\n")
    scores = tables.scores[0].tolist()
    for number, (mover, action) in enumerate(play_again(record, tables), 1):
        event = tables.last_event(0) or tables.action_names[action]
        yield f"{number:5} seat {mover} {record.agents[mover]:{width}}  {event}"
        if tables.scores[0].tolist() != scores:
            scores = tables.scores[0].tolist()
            yield f"      the scores are now {', '.join(map(str, scores))}"
        if boards and tables.to_play[0] != mover:
            yield tables.render(0).rstrip("\n")
    yield tables.render(0).rstrip("\n")
    for seat, (who, score, rank) in enumerate(zip(record.agents, record.scores, record.ranks, strict=True)):
        yield f"rank {rank}  seat {seat} {who:{width}}  {score:5}"
    cut = ", cut off by its limit of decisions" if record.truncated else ""
    promised = ", cards as promised" if record.commitment else ""
    yield f"verified: {len(record.actions)} decisions{cut}, scores and ranks as recorded{promised}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code, which is 2 if a file is not a correct game record."""
    parser = argparse.ArgumentParser(
        prog="python -m env.game_record",
        description="Print game records move by move, and check that the games end as recorded.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="game records, such as records=DIR of muzero.evaluate writes",
    )
    parser.add_argument("--check", action="store_true", help="only say whether each game record is good")
    parser.add_argument("--boards", action="store_true", help="show the table after every turn, as a spectator sees it")
    options = parser.parse_args(argv)
    failed = False
    for path in options.files:
        try:
            record = GameRecord.read(path)
            if options.check:
                verify(record)
                promised = ", dealt as promised" if record.commitment else ""
                print(f"{path}: good, {len(record.actions)} decisions{promised}")
            else:
                for line in narrate(record, options.boards):
                    print(line)
        except BrokenPipeError:  # the reader of the output, such as head, has stopped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 2 * int(failed)
        except GameRecordError as error:
            message = str(error)
            print(message if message.startswith(str(path)) else f"{path}: {message}", file=sys.stderr)
            failed = True
    return 2 * int(failed)


if __name__ == "__main__":
    sys.exit(main())
