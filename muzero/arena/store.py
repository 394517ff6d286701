"""Memory of an arena: rooms, finished games and results in an SQLite file, so that games go on after a restart.

A game is stored as its deal and its actions. Tokens of seats are stored as hashes: whoever reads the file cannot take
a seat. The file holds the seeds of games in play, so it is readable by its owner alone. It names its program and the
version of its schema; a file of another program or version is refused and left as it is.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

from muzero.runs.schema import (
    RULES,
    Check,
    anything,
    check_value,
    either,
    flag,
    listing,
    mapping,
    maybe,
    record,
    text,
    whole,
)

SCHEMA = 1  # version of the tables below
_APPLICATION = 0x4172656E  # "Aren", the mark of the file's program in its header
_MOST_GAMES = 20_000  # finished games that are kept; the oldest go first
_TABLES = """
CREATE TABLE IF NOT EXISTS rooms (code TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE games (id TEXT PRIMARY KEY, source TEXT NOT NULL, content TEXT NOT NULL);
CREATE TABLE results (id TEXT PRIMARY KEY, game TEXT NOT NULL, finished REAL NOT NULL, content TEXT NOT NULL);
"""
_SEATS = (2, 8)
_ROOM = record(
    {
        "game": text(40),
        "rules": either(text(40), RULES),
        "seed": whole(0, 2**64 - 1),
        "nonce": text(128),
        "actions": listing(whole(0, 63)),
        "think": flag,
        "started": flag,
        "seats": listing(record({"agent": maybe(text()), "name": text(), "digest": text(64), "left": flag}), *_SEATS),
    },
    {"number": whole(0, 2**64 - 1), "unrated": listing(text(), most=10)},
)
_RESULT = record(
    {
        "seats": listing(
            record({"name": text(), "person": flag, "score": whole(-(2**31), 2**31), "rank": whole(0, 64)}), *_SEATS
        ),
        "rated": flag,
        "unrated": listing(text(), most=10),
    },
    {"rules": text(40)},
)
_OBJECT = mapping(anything)
_LOGGER = logging.getLogger(__name__)
_BEFORE = {"rooms": ["code", "content"], "records": ["commitment", "game", "content"]}  # files without a schema version


class Store:
    """SQLite file of rooms, game records and results.

    Args:
      path: file; ":memory:" keeps nothing after the process ends.
    """

    def __init__(self, path: str = ":memory:") -> None:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600)
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            os.close(descriptor)
            if not regular:
                raise ValueError(f"store: expected a file, got {path}, which is something else, such as a device")
        try:
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._base.text_factory = lambda data: data.decode(errors="replace")  # damage must not hide the other rows
            self._require_own(path)
            (found,) = self._base.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(" ".join(found.split()))
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
        except (sqlite3.Error, TypeError) as error:  # TypeError: a pragma without an answer, in a damaged file
            raise ValueError(f"store: expected an SQLite file of an arena, got {path} ({error})") from None
        if path != ":memory:":
            os.chmod(path, 0o600)  # only of a file that is an arena's

    def _require_own(self, path: str) -> None:
        """Refuse files of other programs and other schemas; make the tables of an empty file."""
        mark = self._base.execute("PRAGMA application_id").fetchone()[0]
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        names = [name for (name,) in self._base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if mark == _APPLICATION:
            if version != SCHEMA:
                raise ValueError(
                    f"store: expected schema {SCHEMA} of the arena, got schema {version} in {path}; "
                    "give another file, or run the version of the arena that wrote it"
                )
            return
        known = {name: self._columns(name) for name in names} == _BEFORE
        if mark or version or (names and not known):
            found = f"application {mark}, schema {version}, tables {', '.join(sorted(names)) or 'none'}"
            raise ValueError(f"store: expected an SQLite file of an arena, got {path} of another program ({found})")
        with self._base:
            self._base.execute("BEGIN")
            for statement in _TABLES.strip().splitlines():
                self._base.execute(statement)
            if known:
                self._base.execute("INSERT INTO games SELECT substr(commitment, 1, 16), 'arena', content FROM records")
                self._base.execute("DROP TABLE records")
            self._base.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._base.execute(f"PRAGMA user_version = {SCHEMA}")

    def _columns(self, table: str) -> list[str]:
        return [name for (name,) in self._base.execute("SELECT name FROM pragma_table_info(?)", (table,))]

    # ---- rooms -------------------------------------------------------------------------------------------

    def save_room(self, code: str, content: dict[str, Any]) -> None:
        """Write a room; an older version is replaced."""
        self._base.execute("INSERT OR REPLACE INTO rooms VALUES (?, ?)", (code, json.dumps(content)))

    def rooms(self) -> dict[str, dict[str, Any]]:
        """All rooms by code; those that are damaged are left out."""
        rows = self._base.execute("SELECT code, content FROM rooms")
        found = {str(code): _parsed(f"room {code}", text, _ROOM) for code, text in rows}
        return {code: content for code, content in found.items() if content is not None}

    def delete_room(self, code: str) -> None:
        """Forget a room."""
        self._base.execute("DELETE FROM rooms WHERE code = ?", (code,))

    # ---- finished games ----------------------------------------------------------------------------------

    def save_game(self, name: str, source: str, content: dict[str, Any]) -> None:
        """Keep the record of a finished game under its id.

        Args:
          name: id of the game.
          source: origin of the game, in a word: played or watched in the arena, or loaded from a file.
          content: content of its record.
        """
        self._base.execute("INSERT OR IGNORE INTO games VALUES (?, ?, ?)", (name, source, json.dumps(content)))
        self._base.execute("DELETE FROM games WHERE rowid <= (SELECT max(rowid) FROM games) - ?", (_MOST_GAMES,))

    def game(self, name: str) -> dict[str, Any] | None:
        """Record of a finished game by id, not yet compared with its schema; None if there is none."""
        row = self._base.execute("SELECT content FROM games WHERE id = ?", (name,)).fetchone()
        return None if row is None else _parsed(f"game {name}", row[0])

    def games(self, most: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Ids, sources and records of the latest finished games, the newest first; what is no JSON is left out."""
        rows = self._base.execute("SELECT id, source, content FROM games ORDER BY rowid DESC LIMIT ?", (most,))
        found = [(str(name), str(source), _parsed(f"game {name}", text)) for name, source, text in rows]
        return [(name, source, content) for name, source, content in found if content is not None]

    # ---- results -----------------------------------------------------------------------------------------

    def save_result(self, name: str, game: str, content: dict[str, Any]) -> None:
        """Keep the result of a game, given by its id; a game that was interrupted at its last decision counts once."""
        given = (name, game, round(time.time(), 3), json.dumps(content))
        self._base.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?)", given)

    def results(self, most: int) -> list[dict[str, Any]]:
        """Latest results, the newest first; those that are damaged are left out."""
        rows = self._base.execute("SELECT * FROM results ORDER BY rowid DESC LIMIT ?", (most,))
        found = [
            ({"id": str(name), "game": str(game), "finished": finished}, _parsed(f"result {name}", text, _RESULT))
            for name, game, finished, text in rows
            if isinstance(finished, float)
        ]
        return [{**about, **content} for about, content in found if content is not None]

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _parsed(what: str, content: Any, check: Check = _OBJECT) -> dict[str, Any] | None:
    """Content of a row; None, and a warning, if it is damaged."""
    try:
        found: dict[str, Any] = json.loads(content)
        check_value(check, found)
    except (ValueError, TypeError, RecursionError) as error:
        _LOGGER.warning("store: %s is left out: %s", what, error)
        return None
    return found
