"""Game records: finished games as files that can be played again, and errors that say what differs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import env
from env.fair_deal import FairDeal
from env.game_record import GameRecord, GameRecordError, deal, main, narrate, verify
from tests.env.cases import CASES

AGENTS = ["the first", "{braces} and %s"]


def played(game: str = "skyjo", players: int = 2, number: int = 3, rules: env.Rules = "official") -> GameRecord:
    """A game of random moves."""
    tables = env.make(game, 1, players, rules, seed=5, auto_reset=False)
    tables.reset(deals=[number])
    actions = []
    while not tables.done[0]:
        actions.append(int(tables.sample_actions(seed=1)[0]))
        tables.step(actions[-1:])
    names = [AGENTS[seat % 2] for seat in range(players)]
    return GameRecord.of(tables, 0, seed=5, deal=number, agents=names, actions=actions)


@pytest.mark.parametrize(
    ("game", "players"), [(case.game, players) for case in CASES for players in case.some_players(2, 3)]
)
def test_a_game_record_gives_the_same_game_again(game: str, players: int, tmp_path: Path) -> None:
    record, path = played(game, players), tmp_path / "somewhere" / "game.json"
    record.save(path)
    assert GameRecord.read(path) == record
    verify(record)
    assert list(path.parent.iterdir()) == [path], "no drafts are left"
    cards = env.make(game, 1, players, seed=5).inspect(0)
    assert deal(record).inspect(0) != cards, "another deal of the seed"
    assert deal(replace(record, deal=0)).inspect(0) == cards


def test_a_truncated_game_is_recorded_as_such(tmp_path: Path) -> None:
    record = played(rules={"max_decisions": 7})
    assert (len(record.actions), record.truncated) == (7, True)
    verify(record)
    assert "7 decisions, cut off" in list(narrate(record))[-1]


def test_an_unfinished_game_cannot_be_recorded() -> None:
    with pytest.raises(GameRecordError, match="expected a finished game"):
        GameRecord.of(env.make("skyjo"), 0, seed=0, deal=0, agents=AGENTS, actions=[])


def test_the_command_prints_and_checks_a_game(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, path = played(), tmp_path / "game.json"
    record.save(path)
    assert main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith(tuple(f"{n:5} seat" for n in (1, len(record.actions))))]
    assert len(told) == 2, "the first decision and the last"
    assert AGENTS[1] in "\n".join(lines)
    assert lines[-1] == f"verified: {len(record.actions)} decisions, scores and ranks as recorded"
    assert any("the scores are now" in line for line in lines)
    assert main(["--boards", str(path)]) == 0
    assert capsys.readouterr().out.count("Round 1") > 10
    assert main(["--check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: good, {len(record.actions)} decisions\n"


GOOD = played()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": GOOD.actions[:-1]}, "the game is not over after the last of"),
        ({"actions": [*GOOD.actions, 0]}, r"decision \d+ of \d+: the game was over after \d+"),
        ({"actions": [2, *GOOD.actions[1:]]}, r"decision 1 of \d+: seat \d cannot do 2, legal are 0, 1"),
        ({"actions": [99]}, "cannot do 99"),
        ({"scores": [0, 1]}, r"scores: the game ends with \[\d+, \d+\], the record says \[0, 1\]"),
        ({"ranks": [2, 2]}, "ranks: the game ends with"),
        ({"truncated": True}, "truncated: the game ends with False"),
        ({"seed": 6}, "cannot do|not over|was over|ends with"),
        ({"game": "poker"}, "game: expected one of skyjo"),
        ({"version": 99}, "version: skyjo is now 1, the record is of 99"),
        ({"rules": {"target": -1}}, "the table cannot be set: .*target"),
        ({"agents": ["alone"]}, "num_players"),
    ],
)
def test_a_record_that_does_not_fit_its_game_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(GameRecordError, match=message):
        verify(replace(GOOD, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "expected a game record of format 1"),
        ({"actions": ["deck"]}, r"actions cannot be \[\"deck\"\]"),
        ({"deal": -1}, "deal cannot be -1"),
        ({"winner": 1}, "unknown keys winner"),
        ({"seed": None}, "seed is missing"),
    ],
)
def test_files_that_are_no_game_records_are_refused(
    change: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "game.json"
    GOOD.save(path)
    content = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    with pytest.raises(GameRecordError, match=message):
        GameRecord.read(path)
    assert main([str(path), str(tmp_path / "nothing.json")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith(f"{path}: ")
    assert errors[1].startswith(f"{tmp_path / 'nothing.json'}: cannot be read")


def test_a_promised_deal_is_checked_against_its_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promise, path = FairDeal(5, "ab" * 32), tmp_path / "game.json"
    by_hand = hashlib.sha256(f"5:{'ab' * 32}".encode()).hexdigest()
    assert promise.commitment == by_hand
    record = replace(played(number=0), commitment=promise.commitment, nonce=promise.nonce)
    record.save(path)
    assert GameRecord.read(path) == record
    assert main(["--check", str(path)]) == 0
    assert "dealt as promised" in capsys.readouterr().out

    other_cards = replace(played(number=0), commitment=FairDeal(6, promise.nonce).commitment, nonce=promise.nonce)
    other_cards.save(path)
    assert main(["--check", str(path)]) == 2
    assert "commitment: seed and nonce give" in capsys.readouterr().err
    with pytest.raises(GameRecordError, match="expected both or neither"):
        verify(replace(record, nonce=""))
    with pytest.raises(GameRecordError, match="deal: expected 0"):
        verify(replace(played(number=3), commitment=promise.commitment, nonce=promise.nonce))


def test_promises_are_unpredictable_and_a_record_without_one_has_no_such_keys(tmp_path: Path) -> None:
    assert len({FairDeal().commitment for _ in range(50)}) == 50
    played().save(tmp_path / "game.json")
    assert not {"commitment", "nonce"} & set(json.loads((tmp_path / "game.json").read_text()))


@pytest.mark.parametrize("text", ["AB", "g" * 64, 7, "a" * 63])
def test_a_commitment_that_is_no_hash_is_refused(text: object, tmp_path: Path) -> None:
    path = tmp_path / "game.json"
    path.write_text(json.dumps({**played().content(), "commitment": text, "nonce": "ab"}))
    with pytest.raises(GameRecordError, match="commitment cannot be"):
        GameRecord.read(path)
