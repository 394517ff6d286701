"""File of an arena: its schema has a version, and files of others are refused and left as they are."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from muzero.arena.command import main
from muzero.arena.store import SCHEMA, Store


def test_a_file_keeps_rooms_games_and_results(store: str) -> None:
    first = Store(store)
    first.save_room("ABCDEF", {"game": "skyjo"})
    first.save_game("a" * 16, "arena", {"game": "skyjo", "actions": [1]})
    first.save_game("a" * 16, "loaded", {"game": "skyjo", "actions": [2]})
    first.save_result("a" * 16, "skyjo", {"rated": True})
    first.save_result("a" * 16, "skyjo", {"rated": False})
    first.close()
    second = Store(store)
    assert second.rooms() == {"ABCDEF": {"game": "skyjo"}}
    assert second.game("a" * 16) == {"game": "skyjo", "actions": [1]}, "a game that is known stays as it is"
    assert second.game("b" * 16) is None
    assert [(name, source) for name, source, _ in second.games(9)] == [("a" * 16, "arena")]
    assert [(each["id"], each["rated"]) for each in second.results(9)] == [("a" * 16, True)]


def test_a_file_of_another_schema_is_refused_by_name(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    Store(store).close()
    base = sqlite3.connect(store)
    base.execute("PRAGMA user_version = 7")
    base.commit()
    base.close()
    with pytest.raises(
        ValueError, match=rf"store: expected schema {SCHEMA} of the arena, got schema 7 in .*arena.sqlite"
    ):
        Store(store)
    assert main([f"store={store}", "games=[lama]", "gallery=[]"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE people (name TEXT)", "PRAGMA application_id = 5", "PRAGMA user_version = 1"]
)
def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.sqlite"
    base = sqlite3.connect(path)
    base.execute(statement)
    base.commit()
    base.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"store: expected an SQLite file of an arena, got .*other\.sqlite"):
        Store(str(path))
    assert path.read_bytes() == before


def test_a_file_from_before_schemas_had_versions_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE rooms (code TEXT PRIMARY KEY, content TEXT NOT NULL)")
    base.execute("CREATE TABLE records (commitment TEXT PRIMARY KEY, game TEXT NOT NULL, content TEXT NOT NULL)")
    base.execute("INSERT INTO rooms VALUES ('ABCDEF', ?)", (json.dumps({"game": "lama"}),))
    base.execute("INSERT INTO records VALUES (?, 'lama', ?)", ("c" * 64, json.dumps({"game": "lama", "actions": []})))
    base.commit()
    base.close()
    for _ in range(2):
        found = Store(str(path))
        assert found.rooms() == {"ABCDEF": {"game": "lama"}}
        assert found.game("c" * 16) == {"game": "lama", "actions": []}
        found.close()
