"""Memory of an arena: rooms, finished games and results in an SQLite file, so that games go on after a restart.

A game is stored as its deal and its actions. Tokens of seats are stored as hashes: whoever reads the file cannot take
a seat. The file holds the seeds of games in play, so it is readable by its owner alone. It names its program and the
version of its schema; a file of another program or version is refused and left as it is.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

SCHEMA = 1  # version of the tables below
_APPLICATION = 0x4172656E  # "Aren", the mark of the file's program in its header
_MOST_GAMES = 20_000  # finished games that are kept; the oldest go first
_TABLES = """
CREATE TABLE IF NOT EXISTS rooms (code TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE games (id TEXT PRIMARY KEY, source TEXT NOT NULL, content TEXT NOT NULL);
CREATE TABLE results (id TEXT PRIMARY KEY, game TEXT NOT NULL, finished REAL NOT NULL, content TEXT NOT NULL);
"""
_BEFORE = {"rooms": ["code", "content"], "records": ["commitment", "game", "content"]}  # files without a schema version


class Store:
    """SQLite file of rooms, game records and results.

    Args:
      path: file; ":memory:" keeps nothing after the process ends.
    """

    def __init__(self, path: str = ":memory:") -> None:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            os.chmod(path, 0o600)
        try:
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._require_own(path)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"store: expected an SQLite file of an arena, got {path} ({error})") from None

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
        """All rooms by code."""
        return {code: json.loads(text) for code, text in self._base.execute("SELECT code, content FROM rooms")}

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
        """Record of a finished game by id; None if there is none."""
        row = self._base.execute("SELECT content FROM games WHERE id = ?", (name,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def games(self, most: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Ids, sources and records of the latest finished games, the newest first."""
        rows = self._base.execute("SELECT id, source, content FROM games ORDER BY rowid DESC LIMIT ?", (most,))
        return [(name, source, json.loads(text)) for name, source, text in rows]

    # ---- results -----------------------------------------------------------------------------------------

    def save_result(self, name: str, game: str, content: dict[str, Any]) -> None:
        """Keep the result of a game, given by its id; a game that was interrupted at its last decision counts once."""
        given = (name, game, round(time.time(), 3), json.dumps(content))
        self._base.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?)", given)

    def results(self, most: int) -> list[dict[str, Any]]:
        """Latest results, the newest first."""
        rows = self._base.execute("SELECT * FROM results ORDER BY rowid DESC LIMIT ?", (most,))
        return [
            {"id": name, "game": game, "finished": finished, **json.loads(text)} for name, game, finished, text in rows
        ]

    def close(self) -> None:
        """Close the file."""
        self._base.close()
