"""File of an arena: its schema has a version, and files of others are refused and left as they are."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from muzero.arena.command import main
from muzero.arena.gallery import Gallery
from muzero.arena.store import SCHEMA, Store

SEAT = {"agent": None, "name": "Ada", "digest": "d" * 64, "left": False}
ROOM = {"game": "skyjo", "rules": {}, "seed": 5, "nonce": "ab", "actions": [1], "think": True, "started": True}
ROOM |= {"seats": [SEAT, SEAT]}
RESULT = {"seats": [{"name": "Ada", "person": True, "score": 5, "rank": 1}] * 2, "rated": True, "unrated": []}


def test_a_file_keeps_rooms_games_and_results(store: str) -> None:
    first = Store(store)
    first.save_room("ABCDEF", ROOM)
    first.save_game("a" * 16, "arena", {"game": "skyjo", "actions": [1]})
    first.save_game("a" * 16, "loaded", {"game": "skyjo", "actions": [2]})
    first.save_result("a" * 16, "skyjo", RESULT)
    first.save_result("a" * 16, "skyjo", RESULT | {"rated": False})
    first.close()
    second = Store(store)
    assert second.rooms() == {"ABCDEF": ROOM}
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
    base.execute("INSERT INTO rooms VALUES ('ABCDEF', ?)", (json.dumps(ROOM),))
    base.execute("INSERT INTO records VALUES (?, 'lama', ?)", ("c" * 64, json.dumps({"game": "lama", "actions": []})))
    base.commit()
    base.close()
    for _ in range(2):
        found = Store(str(path))
        assert found.rooms() == {"ABCDEF": ROOM}
        assert found.game("c" * 16) == {"game": "lama", "actions": []}
        found.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rooms SET content = '{'",
        "UPDATE rooms SET content = '[]'",
        "UPDATE rooms SET content = json_remove(content, '$.think')",
        "UPDATE rooms SET content = json_set(content, '$.seed', -1)",
        "UPDATE rooms SET content = json_set(content, '$.seats[0].left', 3)",
        "UPDATE rooms SET content = X'ff00'",
    ],
)
def test_a_damaged_room_stays_closed_and_the_others_open(store: str, damage: str) -> None:
    first = Store(store)
    first.save_room("DAMAGE", ROOM)
    first._base.execute(damage)
    first.save_room("ABCDEF", ROOM)
    first.close()
    assert list(Store(store).rooms()) == ["ABCDEF"]


def test_damaged_games_and_results_are_left_out(store: str) -> None:
    first = Store(store)
    for name in ("a", "b", "c", "d"):
        first.save_result(name, "skyjo", RESULT)
        first.save_game(name, "arena", {"format": 1})
    first._base.execute("UPDATE results SET content = json_set(content, '$.seats', 5) WHERE id = 'a'")
    first._base.execute("UPDATE results SET finished = 'yesterday' WHERE id = 'b'")
    first._base.execute("UPDATE results SET content = 'null' WHERE id = 'c'")
    first._base.execute("UPDATE games SET content = 'x' WHERE id = 'a'")
    assert [each["id"] for each in first.results(9)] == ["d"]
    assert first.game("a") is None
    assert Gallery(first, [], ["skyjo"]).entries() == [], "none is a game record"


@pytest.mark.parametrize("kind", ["pipe", "device", "damaged"])
def test_a_store_that_cannot_be_read_is_refused_and_keeps_its_mode(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "arena.sqlite"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/null")
    else:
        first = Store(str(path))
        for number in range(200):
            first.save_room(f"ROOM{number}", ROOM)
        first.close()
        content = bytearray(path.read_bytes())
        content[4096:] = bytes(len(content) - 4096)  # all pages but the first
        path.write_bytes(content)
        path.chmod(0o644)
    before = path.stat().st_mode
    assert main([f"store={path}", "games=[lama]", "agents=[random]", "gallery=[]"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: store: expected ")
    assert str(path) in error
    assert error.count("\n") == 1
    assert path.stat().st_mode == before
