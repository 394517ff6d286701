"""Memory of an arena: rooms and finished games in an SQLite file, so that games go on after a restart.

A game is stored as its deal and its actions. Tokens of seats are stored as hashes: whoever reads the file cannot take
a seat. The file holds the seeds of games in play, so it is readable by its owner alone.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

_TABLES = """
CREATE TABLE IF NOT EXISTS rooms (code TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (commitment TEXT PRIMARY KEY, game TEXT NOT NULL, content TEXT NOT NULL);
"""


class Store:
    """SQLite file of rooms and game records.

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
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            raise ValueError(f"store: expected an SQLite file of an arena, got {path} ({error})") from None

    def save_room(self, code: str, content: dict[str, Any]) -> None:
        """Write a room; an older version is replaced."""
        self._base.execute("INSERT OR REPLACE INTO rooms VALUES (?, ?)", (code, json.dumps(content)))

    def rooms(self) -> dict[str, dict[str, Any]]:
        """All rooms by code."""
        return {code: json.loads(text) for code, text in self._base.execute("SELECT code, content FROM rooms")}

    def delete_room(self, code: str) -> None:
        """Forget a room."""
        self._base.execute("DELETE FROM rooms WHERE code = ?", (code,))

    def save_record(self, content: dict[str, Any]) -> None:
        """Keep the record of a finished game."""
        given = (content["commitment"], content["game"], json.dumps(content))
        self._base.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", given)

    def records(self) -> list[dict[str, Any]]:
        """Records of all finished games."""
        return [json.loads(text) for (text,) in self._base.execute("SELECT content FROM records ORDER BY rowid")]

    def close(self) -> None:
        """Close the file."""
        self._base.close()
