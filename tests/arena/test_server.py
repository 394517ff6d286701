"""Server: games over WebSockets, seats proved by tokens, limits, and games that survive a restart."""

from __future__ import annotations

import json
import random
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from env.game_record import GameRecord, verify
from muzero.arena.command import ArenaConfig, allowed_hosts, main, shown_games
from muzero.arena.server import Limits
from tests.arena.conftest import HOST, SEARCH, Browser, connect, make_rooms


@pytest.mark.parametrize(("game", "bot"), [("skyjo", "greedy"), ("lama", "strategy_1"), ("skipbo", "hpvp")])
def test_a_person_plays_a_whole_game_against_a_bot(client: TestClient, game: str, bot: str, tmp_path: Path) -> None:
    rng = random.Random(1)
    with connect(client) as session:
        browser = Browser(session)
        seated = browser.create(None, bot, game=game)
        last = browser.play(seated["seat"], rng.choice)
        assert last["view"]["ranks"] is not None
        record = browser.ask("record", type="record")["record"]
        path = tmp_path / "game.json"
        path.write_text(json.dumps(record))
        found = GameRecord.read(path)
        verify(found)
        assert found.commitment == last["commitment"]
        assert (str(found.seed), found.nonce) == (last["deal"]["seed"], last["deal"]["nonce"])
        assert found.agents == ["Ada", bot]


def test_the_seed_and_the_record_stay_secret_during_the_game(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy")
        state = browser.get("state")
        assert state["deal"] is None
        assert "expected the end of the game" in browser.ask("error", type="record")["message"]
        assert "seed" not in json.dumps(state)


def test_a_trained_agent_plays_and_explains(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(SEARCH, None)
        state = browser.get("state")
        while state["view"]["to_play"] != 1:
            state = browser.get("state")
        report = browser.ask("think", type="think", turn=state["view"]["turn"])
        assert [each["action"] for each in report["actions"]] == state["view"]["legal"]
        assert sum(each["prior"] for each in report["actions"]) == pytest.approx(1, abs=1e-3)
        assert sum(report["winner"]) == pytest.approx(1, abs=1e-3)
        assert sum(report["belief"]["pools"][0]) == pytest.approx(1, abs=1e-2)


def test_thinking_is_refused_where_the_room_is_fair_and_out_of_turn(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, SEARCH, think=False)
        state = browser.get("state")
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        message = browser.ask("error", type="think", turn=state["view"]["turn"])["message"]
        assert "a room in which it is allowed" in message
        browser.create(None, None)
        assert "a game in play" in browser.ask("error", type="think", turn=0)["message"]


def test_two_people_play_and_each_sees_the_own_hand_only(client: TestClient) -> None:
    with connect(client) as one, connect(client) as two:
        ada, bob = Browser(one), Browser(two)
        room = ada.create(None, None, game="lama")["room"]
        assert "wait until all seats are taken" in ada.ask("error", type="act", turn=0, action=8)["message"]
        seated = bob.ask("seated", type="join", room=room, name="Bob")
        assert seated["seat"] == 1
        state = bob.get("state")
        hand = state["view"]["observation"]["hand"]
        assert sum(each["count"] for each in hand[:7]) == 6, "Bob's own cards"
        assert {each["count"] for each in hand[7:]} == {17}, "Ada's cards are hidden from Bob"
        assert "expected one with a free seat" in bob.ask("error", type="join", room=room, name="Eve")["message"]
        assert "seat 0 to decide" in bob.ask("error", type="act", turn=0, action=8)["message"]


def test_a_seat_is_held_by_its_token_and_by_nothing_else(client: TestClient) -> None:
    with connect(client) as one:
        seated = Browser(one).create(None, "greedy")
    with connect(client) as two:
        other = Browser(two)
        wrong = "x" * len(seated["token"])
        message = other.ask("error", type="resume", room=seated["room"], token=wrong)["message"]
        assert "token" in message
        assert "expected a seat first" in other.ask("error", type="act", turn=0, action=0)["message"]
        assert other.ask("seated", type="resume", room=seated["room"], token=seated["token"])["seat"] == 0
        assert other.get("state")["seats"][0]["here"]


def test_a_second_connection_takes_the_seat_from_the_first(client: TestClient) -> None:
    with connect(client) as one, connect(client) as two:
        first, second = Browser(one), Browser(two)
        seated = first.create(None, None)
        second.ask("seated", type="resume", room=seated["room"], token=seated["token"])
        assert first.get("moved")["room"] == seated["room"], "whoever looks at the first window is told"
        assert "expected a seat first" in first.ask("error", type="start")["message"]


def test_a_bot_plays_for_a_person_who_left_until_the_person_returns(client: TestClient) -> None:
    with connect(client) as one, connect(client) as two:
        ada, bob = Browser(one), Browser(two)
        room = ada.create(None, None, rules={"episode": "round"})["room"]
        seated = bob.ask("seated", type="join", room=room, name="Bob")
        assert bob.ask("left", type="leave")["room"] == room
        last = ada.play(0)
        assert last["seats"][1]["substituted"]
        assert last["view"]["done"], "the game went on without Bob"
        bob.ask("seated", type="resume", room=room, token=seated["token"])
        state = bob.get("state")
        assert not state["seats"][1]["substituted"]
        assert state["view"]["seat"] == 1


def test_a_bot_plays_after_the_grace_for_a_person_whose_connection_is_lost(
    open_client: Callable[..., TestClient],
) -> None:
    client = open_client(make_rooms(grace=0.2))
    with connect(client) as one:
        ada = Browser(one)
        room = ada.create(None, None, rules={"episode": "round"})["room"]
        with connect(client) as two:
            Browser(two).ask("seated", type="join", room=room, name="Bob")
        assert ada.play(0)["view"]["done"]


def test_a_game_goes_on_after_a_restart(open_client: Callable[..., TestClient], store: str) -> None:
    client = open_client(make_rooms(store))
    with connect(client) as session:
        browser = Browser(session)
        seated = browser.create(None, "greedy")
        state = browser.get("state")
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        browser.send(type="act", turn=state["view"]["turn"], action=state["view"]["legal"][0])
        before = browser.get("state")
    assert stat.S_IMODE(Path(store).stat().st_mode) == 0o600
    assert seated["token"] not in Path(store).read_bytes().decode("latin-1"), "tokens are stored as hashes"

    again = open_client(make_rooms(store))
    with connect(again) as session:
        browser = Browser(session)
        browser.ask("seated", type="resume", room=seated["room"], token=seated["token"])
        after = browser.get("state")
        assert after["view"] == before["view"]
        assert after["log"] == before["log"]
        assert browser.play(0, state=after)["view"]["done"]


def test_finished_games_are_kept_and_another_can_follow(open_client: Callable[..., TestClient], store: str) -> None:
    rooms = make_rooms(store)
    with connect(open_client(rooms)) as session:
        browser = Browser(session)
        browser.create(None, "greedy", rules={"episode": "round"})
        first = browser.play(0)
        assert [content["commitment"] for _, _, content in rooms.store.games(9)] == [first["commitment"]]
        browser.send(type="again")
        assert browser.get("state")["commitment"] != first["commitment"]


def test_an_old_click_does_nothing(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy")
        state = browser.get("state")
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        turn = state["view"]["turn"]
        browser.send(type="act", turn=turn, action=0)
        assert browser.get("state")["view"]["turn"] == turn + 1
        assert f"turn: expected {turn + 1}" in browser.ask("error", type="act", turn=turn, action=0)["message"]


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"type": "create", "game": "go", "seats": [None, "greedy"], "you": 0, "name": "A"}, "game: expected one of"),
        ({"type": "create", "game": "skyjo", "seats": [None, "nobody"], "you": 0, "name": "A"}, "agent: expected"),
        ({"type": "create", "game": "skyjo", "seats": [None, "/etc/passwd"], "you": 0, "name": "A"}, "agent: expected"),
        ({"type": "create", "game": "skyjo", "seats": [None, "greedy"], "you": 1, "name": "A"}, "you: expected"),
        ({"type": "create", "game": "skyjo", "seats": ["greedy", "greedy"], "you": 0, "name": "A"}, "you: expected"),
        ({"type": "create", "game": "skyjo", "seats": [None] * 9, "you": 0, "name": "A"}, "seats"),
        ({"type": "create", "game": "skyjo", "seats": [None, None], "you": 0, "name": " "}, "name"),
        ({"type": "create", "game": "skyjo", "seats": [None, None], "you": 0, "name": "A", "device": "cuda"}, "device"),
        (
            {"type": "create", "game": "skyjo", "seats": [None, None], "you": 0, "name": "A", "rules": {"x": 1}},
            "x",
        ),
        (
            {
                "type": "create",
                "game": "skyjo",
                "seats": [None, None],
                "you": 0,
                "name": "A",
                "rules": {"max_decisions": 1000000},
            },
            "rules.max_decisions: expected at most",
        ),
        ({"type": "join", "room": "AAAAAA", "name": "A"}, "room: expected the code of an open room"),
        ({"type": "join", "room": "../../x", "name": "A"}, "room"),
        ({"type": "teleport"}, "teleport"),
        ({"type": "act", "turn": "0", "action": 0}, "turn"),
        ({}, "type"),
        ([], "message"),
    ],
)
def test_a_bad_message_gets_an_error_that_names_the_key(client: TestClient, message: Any, complaint: str) -> None:
    with connect(client) as session:
        session.send_text(json.dumps(message))
        answer = json.loads(session.receive_text())
        assert answer["type"] == "error"
        assert complaint in answer["message"]
        session.send_text('{"type": "ping"}')
        assert json.loads(session.receive_text()) == {"type": "pong"}


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "\u202egnp", "\x00", "\x9b31m"])
def test_names_that_could_fool_a_terminal_or_a_reader_are_refused(client: TestClient, name: str) -> None:
    with connect(client) as session:
        create = {"type": "create", "game": "skyjo", "seats": [None, None], "you": 0, "name": f"A{name}B"}
        assert "name" in Browser(session).ask("error", **create)["message"]


@pytest.mark.parametrize("name", ["Zoë", "アダ", "<b>Ada</b>", 'o\'Neil "x"'])
def test_names_of_all_languages_come_back_unchanged(client: TestClient, name: str) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.ask("seated", type="create", game="skyjo", seats=[None, None], you=0, name=name)
        assert browser.get("state")["seats"][0]["name"] == name


def test_an_illegal_action_is_refused_and_changes_nothing(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy")
        state = browser.get("state")
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        turn = state["view"]["turn"]
        assert "action: expected one of 0, 1" in browser.ask("error", type="act", turn=turn, action=9)["message"]
        browser.send(type="act", turn=turn, action=0)
        assert browser.get("state")["view"]["turn"] == turn + 1


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (HOST, None),
        (HOST, "http://evil.example"),
        (HOST, f"http://{HOST}.evil.example"),
        (HOST, "null"),
        (HOST, "http://127.0.0.1:9000"),
        ("evil.example", "http://evil.example"),
        ("127.0.0.1", "http://127.0.0.1"),
    ],
)
def test_other_hosts_and_sites_cannot_connect(client: TestClient, host: str, origin: str | None) -> None:
    with pytest.raises(WebSocketDisconnect), connect(client, origin, host) as session:
        session.receive_text()


def test_pages_of_other_hosts_are_refused_and_ours_has_a_strict_policy(client: TestClient) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/").status_code == 403, "a post without an origin"
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/docs", "/openapi.json", "/static/"):
        assert client.get(path).status_code == 404, path


def test_a_message_that_is_too_long_ends_the_connection(open_client: Callable[..., TestClient]) -> None:
    client = open_client(limits=Limits(bytes=100))
    with connect(client) as session:
        session.send_text('{"type": "ping"}' + " " * 100)
        with pytest.raises(WebSocketDisconnect) as caught:
            session.receive_text()
        assert caught.value.code == 1009


def test_messages_that_are_no_text_end_the_connection(client: TestClient) -> None:
    with connect(client) as session:
        session.send_bytes(b"\x00\xff")
        with pytest.raises(WebSocketDisconnect):
            session.receive_text()


def test_a_connection_that_sends_too_fast_is_slowed_down_and_told(open_client: Callable[..., TestClient]) -> None:
    client = open_client(limits=Limits(rate=50, burst=3))
    with connect(client) as session:
        for _ in range(8):
            session.send_text('{"type": "ping"}')
        kinds = [json.loads(session.receive_text())["type"] for _ in range(8)]
        assert kinds[:3] == ["pong"] * 3
        assert "error" in kinds


def test_a_silent_connection_is_closed(open_client: Callable[..., TestClient]) -> None:
    with (
        connect(open_client(limits=Limits(silence=0.1))) as session,
        pytest.raises(WebSocketDisconnect),
    ):
        session.receive_text()


def test_connections_and_rooms_are_bounded_and_idle_rooms_are_closed(open_client: Callable[..., TestClient]) -> None:
    rooms = make_rooms(most=1, idle=0.05)
    client = open_client(rooms, Limits(connections=1))
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, None)
        create = {"type": "create", "game": "skyjo", "seats": [None, None], "you": 0, "name": "A"}
        assert "fewer than 1 open rooms" in browser.ask("error", **create)["message"]
        with pytest.raises(WebSocketDisconnect), connect(client) as other:
            other.receive_text()
    time.sleep(0.1)
    rooms.sweep()
    assert len(rooms) == 0
    assert rooms.store.rooms() == {}


def test_a_full_server_closes_an_empty_room_for_somebody_who_wants_to_play(
    open_client: Callable[..., TestClient],
) -> None:
    rooms = make_rooms(most=1, spare=0.0)
    client = open_client(rooms)
    with connect(client) as one:
        first = Browser(one).create(None, None)
    with connect(client) as two:
        browser = Browser(two)
        assert browser.create(None, None)["room"] != first["room"]
        assert len(rooms) == 1


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_server_listens_on_this_machine_only_unless_told_otherwise() -> None:
    assert ArenaConfig().host == "127.0.0.1"
    assert allowed_hosts(ArenaConfig(port=80)) >= {"127.0.0.1", "127.0.0.1:80", "localhost"}
    assert allowed_hosts(ArenaConfig()) == {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}
    assert "arena.example.org" in allowed_hosts(ArenaConfig(host="0.0.0.0", names=["arena.example.org"]))


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("port=0", "port: expected 1 to 65535, got 0"),
        ("games=[go]", "games: expected some of"),
        ("agents=[agent:nobody]", "agent 'agent:nobody': expected one of"),
        ("idle=0", "idle: expected more than 0"),
        ("speed=1", "keys are port"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_two(
    argument: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument, "store="]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_the_page_has_a_board_for_the_three_games() -> None:
    assert set(shown_games()) == {"skyjo", "lama", "skipbo"}
