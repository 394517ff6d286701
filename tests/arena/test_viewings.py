"""Games that are looked at: frames, agents that play while somebody watches, the gallery, and the same cards again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from env.fair_deal import FairDeal
from env.game_record import GameRecord, verify
from muzero.arena.gallery import Gallery, game_id
from muzero.arena.live_game import LiveGame
from muzero.arena.store import Store
from muzero.arena.viewings import CHUNK, replay
from muzero.matches.command import main as evaluate
from tests.arena.conftest import GAMES, Browser, connect, make_rooms


def finished(game: str = "skyjo", players: int = 2, rules: Any = None, seed: int = 7, number: int = 0) -> GameRecord:
    """Record of a game of default bots."""
    live = LiveGame(game, players, rules or {"episode": "round"}, FairDeal(seed), number)
    bots = [live.tables.bot(live.tables.default_bot)] * players
    while not live.done:
        live.act(int(live.tables.bot_actions(bots)[0]))
    return live.record([f"bot {seat}" for seat in range(players)])


def upload(browser: Browser, text: str) -> str:
    """Send a file in parts; return the id of the game."""
    parts = [text[i : i + 3000] for i in range(0, len(text), 3000)]
    for part in parts[:-1]:
        browser.ask("pong", type="upload", part=part, last=False)
    return str(browser.ask("loaded", type="upload", part=parts[-1], last=True)["id"])


@pytest.mark.parametrize(
    ("game", "players", "rules"), [("skyjo", 3, "official"), ("lama", 2, None), ("skipbo", 2, {"stock": 4})]
)
def test_frames_show_every_seat_what_it_saw_in_the_game(game: str, players: int, rules: Any) -> None:
    record = finished(game, players, rules)
    viewing = replay(record, game_id(record))
    live = LiveGame(game, players, record.rules, FairDeal(7, record.nonce))
    for turn in range(min(3 * CHUNK, len(record.actions)) + 1):
        for seat in range(players):
            frames = {frame["turn"]: frame for frame in viewing.frames(seat, turn)}
            assert frames[turn]["view"] == live.view(seat)
            assert (frames[turn]["event"] is None) == (turn == 0)
        if turn < len(record.actions):
            event = live.act(record.actions[turn])
    last = viewing.frames(0, len(record.actions))[-1]
    assert last["view"]["done"]
    assert last["round_end"]["points"]
    assert event.text


def test_records_of_other_deals_than_the_first_are_dealt_as_they_were() -> None:
    record = finished(number=5)
    plain = {key: value for key, value in record.content().items() if key not in ("commitment", "nonce")}
    found = GameRecord.parse(plain, "record")
    verify(found)
    assert replay(found, "a" * 16).live.done
    assert found.actions != finished(number=0).actions


def test_a_loaded_record_can_be_looked_at_and_is_shared_by_its_id(client: TestClient) -> None:
    record = finished()
    with connect(client) as one, connect(client) as two:
        ada, bob = Browser(one), Browser(two)
        name = upload(ada, json.dumps(record.content()))
        assert name == game_id(record)
        answer = bob.ask("frames", type="frames", id=name, seat=1, start=20)
        assert [frame["turn"] for frame in answer["frames"]] == list(range(CHUNK, 2 * CHUNK))
        assert (answer["decisions"], answer["done"], answer["names"]) == (len(record.actions), True, record.agents)
        assert [each["id"] for each in bob.ask("gallery", type="gallery")["entries"]] == [name]
    assert client.get(f"/records/{name}.json").json() == record.content()
    assert client.get(f"/records/{'0' * 16}.json").status_code == 404


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"scores": [1, 2]}, "scores"),
        ({"game": "kuhn"}, "record.game"),
        ({"actions": [99]}, "decision 1"),
        ({"nonce": "ff"}, "commitment"),
        ({"extra": 1}, "unknown keys"),
        ({"format": 2}, "format"),
    ],
)
def test_a_record_that_is_not_true_is_refused(client: TestClient, change: dict[str, Any], problem: str) -> None:
    with connect(client) as session:
        browser = Browser(session)
        text = json.dumps({**finished().content(), **change})
        browser.send(type="upload", part=text[:3000], last=len(text) <= 3000)
        if len(text) > 3000:
            browser.send(type="upload", part=text[3000:], last=True)
        assert problem in browser.get("error")["message"]
        assert browser.ask("gallery", type="gallery")["entries"] == []


def test_an_endless_upload_is_refused(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        for _ in range(66):
            browser.ask("pong", type="upload", part="x" * 3000, last=False)
        assert "at most 200000" in browser.ask("error", type="upload", part="x" * 3000, last=False)["message"]
        assert "no JSON" in browser.ask("error", type="upload", part="[", last=True)["message"], "nothing was kept"


def frames_until(
    browser: Browser, name: str, enough: Callable[[dict[str, Any]], bool], seat: int = 0
) -> dict[str, Any]:
    """Look at the latest frames of a game until they are enough."""
    start, end = 0, time.monotonic() + 30
    while time.monotonic() < end:
        answer = browser.ask("frames", type="frames", id=name, seat=seat, start=start)
        if enough(answer):
            return answer
        start = answer["decisions"]
        time.sleep(0.01)
    raise AssertionError("the game did not go on")


def test_agents_play_as_far_as_somebody_watches_and_the_game_is_kept(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        name = browser.ask("loaded", type="watch", game="skyjo", seats=["greedy", "threshold", "naive"])["id"]
        time.sleep(0.3)
        first = browser.ask("frames", type="frames", id=name, seat=2, start=0)
        assert first["names"] == ["greedy", "threshold", "naive"]
        assert first["decisions"] <= CHUNK + 64, "nobody has looked further"
        last = frames_until(browser, name, lambda answer: answer["record"] != "")
        assert last["done"]
        content = client.get(f"/records/{last['record']}.json").json()
        verify(GameRecord.parse(content, "record"))
        assert browser.ask("gallery", type="gallery")["entries"][0]["source"] == "watched"
        kept = browser.ask("results", type="results")["results"]
        assert [(each["id"], each["rated"]) for each in kept] == [(last["record"], True)]


def test_an_agent_plays_with_the_cards_of_a_person(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy", rules={"episode": "round"})
        last = browser.play(0)
        name = browser.ask("loaded", type="same_cards", id=last["record"], seat=0)["id"]
        answer = frames_until(browser, name, lambda answer: answer["done"] and answer["record"] != "")
        assert answer["names"] == ["greedy", "greedy"], "the opponent took the person's cards"
        content = client.get(f"/records/{answer['record']}.json").json()
        assert (str(content["seed"]), content["nonce"]) == (last["deal"]["seed"], last["deal"]["nonce"])


def test_a_person_plays_a_deal_again_from_another_seat_and_it_is_not_rated(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy", rules={"episode": "round"})
        first = browser.play(0)
        request = {"type": "create", "game": "skyjo", "seats": ["greedy", None], "you": 1, "name": "Ada"}
        wrong = {**request, "game": "lama", "seats": ["strategy_1", None]}
        assert "same_deal" in browser.ask("error", **wrong, same_deal=first["record"])["message"]
        browser.ask("seated", **request, same_deal=first["record"])
        second = browser.play(1)
        assert second["deal"] == first["deal"]
        results = browser.ask("results", type="results")["results"]
        assert [each["rated"] for each in results] == [False, True]
        assert results[0]["unrated"] == ["known deal"]


def test_the_gallery_shows_what_evaluations_kept_and_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "records"
    arguments = ["a=bot:greedy", "b=bot:naive", "game=skyjo", "games=4", "rules.episode=round", "workers=1"]
    assert evaluate([*arguments, f"records={directory / 'first'}"]) == 0
    (directory / "other.json").write_text('{"win_rate": 0.5}')
    (directory / "broken.json").write_text("{")
    gallery = Gallery(Store(), [str(directory), str(tmp_path / "none")], GAMES)
    entries = gallery.entries()
    assert len(entries) == 4
    assert {each["source"] for each in entries} == {"records/first"}
    for entry in entries:
        record = gallery.find(entry["id"])
        assert (record.agents, record.scores) == (entry["agents"], entry["scores"])
        assert replay(record, entry["id"]).live.done
    with pytest.raises(ValueError, match="id: expected the id of a game"):
        gallery.find("0" * 16)


def test_views_of_a_game_in_play_are_for_its_own_seats_only(client: TestClient) -> None:
    """A room's game has no id until it is over, and its later id is unknown to the gallery before."""
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy")
        state = browser.get("state")
        assert state["record"] is None
        commitment = state["commitment"][:16]
        assert "id: expected" in browser.ask("error", type="frames", id=commitment, seat=1, start=0)["message"]
        assert "id: expected" in browser.ask("error", type="review", id=commitment, seat=1)["message"]
        assert browser.ask("gallery", type="gallery")["entries"] == []


def test_a_review_is_made_while_other_tables_play(open_client: Callable[..., TestClient]) -> None:
    rooms = make_rooms()
    record = finished("lama")
    name = rooms.gallery.add(record, "arena")
    client = open_client(rooms)
    with connect(client) as one, connect(client) as two:
        ada, bob = Browser(one), Browser(two)
        bob.create(None, "greedy")
        state = bob.get("state")
        end = time.monotonic() + 300
        review = ada.ask("review", type="review", id=name, seat=0)
        while not review["complete"] and time.monotonic() < end:
            view = state["view"]
            if view["legal"]:
                bob.send(type="act", turn=view["turn"], action=view["legal"][0])
            elif view["done"]:
                bob.send(type="again")
            state = bob.get("state")
            review = ada.ask("review", type="review", id=name, seat=0)
        assert review["complete"]
        assert review["progress"] == [len(record.actions)] * 2
        assert "seat: expected 0 to 1" in ada.ask("error", type="review", id=name, seat=2)["message"]
