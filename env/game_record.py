"""Finished games as small files, and the command that plays them again: `python -m env.game_record FILE...`.

A record is JSON: game, rules, seed and number of the deal, who sat where, all actions, and how it ended. The cards are
not in it: a deal is a function of its seed, so whoever has the file can deal all of them again, hidden ones included.
That is fine for a game that is over, and for no other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from env.vector import VecEnv, games, make

FORMAT = 1


class GameRecordError(ValueError):
    """A file is no record, or not of the game that its actions give; the message says what differs."""


@dataclass(frozen=True)
class GameRecord:
    """A game that was played to its end.

    Attributes:
      game: its name.
      version: of the game's rules in the core.
      rules: every option.
      seed, deal: name the cards.
      agents: who sat in each seat, in whatever words.
      actions: of all players, in order.
      scores, ranks: at the end, by seat.
      truncated: whether it was cut off by its limit of decisions.
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

    @staticmethod
    def of(
        tables: VecEnv, table: int, *, seed: int, deal: int, agents: Sequence[str], actions: Sequence[int]
    ) -> GameRecord:
        """What happened at a table whose game has just ended."""
        if not tables.done[table]:
            raise GameRecordError(f"table {table}: expected a finished game, since a record gives all its cards away")
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
        )

    def save(self, path: Path) -> None:
        """Writes the file; whatever has its name is whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(json.dumps({"format": FORMAT, **asdict(self)}) + "\n")
        draft.replace(path)

    @staticmethod
    def read(path: Path) -> GameRecord:
        """Reads a file; an error names what is wrong with it."""
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise GameRecordError(f"{path}: cannot be read ({error})") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise GameRecordError(f"{path}: expected a record of format {FORMAT}")
        for name, good in _SHAPES.items():
            if name not in content:
                raise GameRecordError(f"{path}: {name} is missing")
            if not good(content[name]):
                raise GameRecordError(f"{path}: {name} cannot be {json.dumps(content[name])[:60]}")
        unknown = sorted(set(content) - set(_SHAPES))
        if unknown:
            raise GameRecordError(f"{path}: unknown keys {', '.join(unknown)}")
        return GameRecord(**content)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "game": lambda value: isinstance(value, str),
    "version": _whole,
    "rules": lambda value: isinstance(value, dict),
    "seed": _whole,
    "deal": _whole,
    "agents": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "actions": _integers,
    "scores": _integers,
    "ranks": _integers,
    "truncated": lambda value: isinstance(value, bool),
}


def deal(record: GameRecord) -> VecEnv:
    """The table before the first decision."""
    if record.game not in games():
        raise GameRecordError(f"game: expected one of {', '.join(games())}, got {record.game!r}")
    try:
        tables = make(record.game, 1, len(record.agents), record.rules, record.seed, auto_reset=False)
    except ValueError as error:
        raise GameRecordError(f"the table cannot be set: {error}") from None
    if tables.info.version != record.version:
        raise GameRecordError(f"version: {record.game} is now {tables.info.version}, the record is of {record.version}")
    tables.reset(deals=[record.deal])
    return tables


def again(record: GameRecord, tables: VecEnv) -> Iterator[tuple[int, int]]:
    """Plays the game at the table that was dealt: yields each seat and its action, once it is carried out.

    Raises `GameRecordError` at the first decision that cannot be, or if the game does not end as the record says.
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
    """Plays the game; raises `GameRecordError`, which says what differs, unless it is as the record says."""
    for _ in again(record, deal(record)):
        pass


def narrate(record: GameRecord, boards: bool = False) -> Iterator[str]:
    """The game line by line, verified at the end; with `boards`, the table after every turn."""
    tables, width = deal(record), max(len(who) for who in record.agents)
    yield f"{record.game}, seed {record.seed}, deal {record.deal}"
    yield tables.render(0).rstrip("\n")
    scores = tables.scores[0].tolist()
    for number, (mover, action) in enumerate(again(record, tables), 1):
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
    yield f"verified: {len(record.actions)} decisions{cut}, scores and ranks as recorded"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code, 1 if a file is not what it says."""
    parser = argparse.ArgumentParser(
        prog="python -m env.game_record",
        description="Deal recorded games again, print them move by move, and check that they end as recorded.",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="records, as records=DIR of muzero.evaluate writes"
    )
    parser.add_argument("--check", action="store_true", help="only say whether each file is good")
    parser.add_argument("--boards", action="store_true", help="show the table after every turn, as a spectator sees it")
    options = parser.parse_args(argv)
    failed = False
    for path in options.files:
        try:
            record = GameRecord.read(path)
            if options.check:
                verify(record)
                print(f"{path}: good, {len(record.actions)} decisions")
            else:
                for line in narrate(record, options.boards):
                    print(line)
        except BrokenPipeError:  # whoever reads it has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return int(failed)
        except GameRecordError as error:
            message = str(error)
            print(message if message.startswith(str(path)) else f"{path}: {message}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
