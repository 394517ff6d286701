"""Analysis engine: answers with all numbers, errors that name the key, and a process that no line can end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import env
from env.fair_deal import FairDeal
from muzero.agents import agent_spec
from muzero.agents.agent_spec import AgentSpec
from muzero.arena import engine as engine_module
from muzero.arena.analysis import Analyst, default_analyst
from muzero.arena.engine import Engine, main, serve
from muzero.arena.live_game import LiveGame
from muzero.arena.requests import SCHEMA
from tests.forked import run_module

AGENT = "agent:skyjo-belief,simulations=4"
RECORD: dict[str, Any] = {"game": "skyjo", "players": 2, "seed": 5, "actions": [0, "discard", 6]}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Analyst(AgentSpec.parse(AGENT), batch=8))


def ask(engine: Engine, *requests: Any) -> list[dict[str, Any]]:
    return list(engine.answer([json.dumps(request).encode() for request in requests]))


def test_an_answer_has_everything_that_the_schema_promises(engine: Engine) -> None:
    answers = ask(engine, {"id": "a", "record": RECORD, "turns": [0, 1, 2, 3]})
    assert [(answer["id"], answer["turn"]) for answer in answers] == [("a", turn) for turn in range(4)]
    for answer in answers:
        assert answer["schema"] == SCHEMA
        assert answer["name"] in {each["name"] for each in answer["actions"]}
        assert sum(each["prior"] for each in answer["actions"]) == pytest.approx(1, abs=2e-3)
        assert sum(each["policy"] for each in answer["actions"]) == pytest.approx(1, abs=2e-3)
        assert sum(each["visits"] for each in answer["actions"]) == pytest.approx(4, abs=0.01)
        assert len(answer["values"]) == 2
        assert sum(answer["winner"]) == pytest.approx(1, abs=1e-3)
        assert [sum(ranks) for ranks in answer["ranks"]] == pytest.approx([1, 1], abs=1e-3)
        assert answer["line"][0]["action"] == answer["action"]
        belief = answer["belief"]
        assert len(belief["cards"]) == 15
        assert all(sum(pool) == pytest.approx(1, abs=5e-3) for pool in belief["pools"])
        assert answer["milliseconds"] > 0
    assert [each["action"] for each in answers[0]["belief"]["events"]] == [0], "drawing shows a card"
    assert len(answers[2]["belief"]["events"]) == 10, "turning over each of ten face-down cards"
    assert len(answers[0]["belief"]["slots"]) == 20, "ten face-down cards of each player"


def test_the_exact_belief_is_the_share_of_unseen_cards(engine: Engine) -> None:
    tables = env.make("skyjo", 1, 2, seed=5)
    counts = tables.unseen_counts(int(tables.to_play[0]))[0, 0]
    (answer,) = ask(engine, {"id": "a", "record": {**RECORD, "actions": []}})
    assert answer["belief"]["pools"][0] == pytest.approx((counts / counts.sum()).tolist(), abs=1e-4)


def test_a_visible_position_gets_the_same_answer_as_the_record_it_comes_from(engine: Engine) -> None:
    live = LiveGame("skyjo", 2, "official", FairDeal(5))
    live.replay([0, 3, 6])
    row = live.tables.obs[0]
    legal, phase = live.legal, "source"
    position = {"game": "skyjo", "observation": row.tolist(), "legal": legal, "phase": phase, "to_play": live.to_play}
    named = {**position, "observation": live.info.decode(row), "legal": ["deck", "take"]}
    record, by_row, by_name = ask(
        engine, {"id": "r", "record": RECORD}, {"id": "p", "position": position}, {"id": "n", "position": named}
    )
    assert by_row["turn"] is None
    for answer in (by_row, by_name):
        assert answer["action"] == record["action"]
        for one, other in zip(answer["actions"], record["actions"], strict=True):
            assert one["q"] == pytest.approx(other["q"], abs=2e-3)


def test_a_game_record_file_can_be_pasted_in_and_requests_are_searched_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveGame("skyjo", 2, {"episode": "round"}, FairDeal(9))
    bot = live.tables.bot("greedy")
    while not live.done:
        live.act(int(live.tables.bot_actions([bot] * 2)[0]))
    content = live.record(["a", "b"]).content()
    batches: list[int] = []
    analyse = engine.analyst.analyse
    monkeypatch.setattr(
        engine.analyst, "analyse", lambda positions: (batches.append(len(positions)), analyse(positions))[1]
    )
    answers = ask(engine, {"id": "a", "record": content, "turns": [0, 5, 9]}, {"id": "b", "record": RECORD})
    assert [answer["id"] for answer in answers] == ["a", "a", "a", "b"]
    assert batches == [4]
    batches.clear()
    assert len(ask(engine, {"id": "c", "record": content, "turns": [0] * 20})) == 20
    assert batches == [8, 8, 4], "reports of long requests must not fill the memory"


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"id": "a"}, "request: expected one of record, position and query, got 'none'"),
        ({"id": "a", "record": RECORD, "query": "describe"}, "request: expected one of"),
        ({"id": "a", "rekord": RECORD}, "rekord: Extra inputs are not permitted"),
        ({"id": 7, "record": RECORD}, "id: Input should be a valid string, got 7"),
        ({"id": "a", "schema": 2, "record": RECORD}, "schema: Input should be 1, got 2"),
        ({"id": "a", "record": {**RECORD, "seed": -1}}, "record.seed"),
        ({"id": "a", "record": {**RECORD, "game": "go"}}, "record.game: expected one of"),
        ({"id": "a", "record": {**RECORD, "game": "lama", "actions": []}}, "game: expected skyjo"),
        ({"id": "a", "record": {**RECORD, "players": 3, "actions": []}}, "players: expected 3"),
        ({"id": "a", "record": {**RECORD, "players": None}}, "record.players: expected a number of players"),
        ({"id": "a", "record": {**RECORD, "actions": [0, 0]}}, "record.actions[1]: expected a legal action of seat"),
        ({"id": "a", "record": {**RECORD, "actions": ["jump"]}}, "record.actions[0]: expected one of deck"),
        ({"id": "a", "record": {**RECORD, "actions": [99]}}, "record.actions[0]: expected 0 to 15, got 99"),
        ({"id": "a", "record": {**RECORD, "rules": {"target": 0}}}, "target"),
        ({"id": "a", "record": RECORD, "turns": [4]}, "turns: expected numbers from 0 to 3, got 4"),
        (
            {"id": "a", "position": {"game": "skyjo", "observation": [0], "legal": [0], "phase": "source"}},
            "position.observation: expected 242 numbers, got '1 numbers'",
        ),
        (
            {"id": "a", "position": {"game": "skyjo", "observation": [99] * 242, "legal": [0], "phase": "source"}},
            "position.observation.board[0].owner: expected 0 to 7, got 99",
        ),
        (
            {"id": "a", "position": {"game": "skyjo", "observation": [0] * 242, "legal": [9], "phase": "source"}},
            "position.legal: expected actions of phase source, got 'position 5'",
        ),
    ],
)
def test_a_bad_request_gets_an_error_with_its_id_that_names_the_key(
    engine: Engine, request_: dict[str, Any], complaint: str
) -> None:
    bad, good = ask(engine, request_, {"id": "good", "record": RECORD})
    assert complaint in bad["error"]
    assert bad["id"] == (request_["id"] if isinstance(request_["id"], str) else None)
    assert good["id"] == "good"
    assert "action" in good


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b'{"id": "a", "record": {', "a"),
        (b' { "id":"b-1" "record": 5}', "b-1"),
        (b'{"id": "deep", "record": ' + b"[" * 100_000, "deep"),
        (b'{"record": {"id": "inner"', None),
        (b"garbage", None),
    ],
)
def test_a_line_that_is_no_json_gets_an_error_with_the_id_that_it_begins_with(
    engine: Engine, line: bytes, identity: str | None
) -> None:
    (answer,) = engine.answer([line])
    assert answer["id"] == identity
    assert answer["error"].startswith("line: expected JSON")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["id", "schema", "record", "turns", "position", "query", "game", "players", "seed", "actions"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.binary(max_size=60) | JSON.map(lambda x: json.dumps(x).encode()))
def test_any_line_gets_an_answer(engine: Engine, line: bytes) -> None:
    answers = list(engine.answer([line]))
    assert len(answers) == 1
    assert "error" in answers[0]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=KEYS, value=JSON, inside=st.booleans())
def test_any_value_of_any_key_gets_an_answer(engine: Engine, key: str, value: Any, inside: bool) -> None:
    request = {"id": "x", "record": {**RECORD, key: value}} if inside else {"id": "x", "record": RECORD, key: value}
    for answer in engine.answer([json.dumps(request).encode()]):
        assert "error" in answer or "action" in answer
        json.dumps(answer, allow_nan=False)


def test_a_line_that_is_too_long_is_refused_and_the_next_one_answered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "MOST_BYTES", 300)
    sink = io.StringIO()
    lines = b'{"id": "' + b"x" * 2000 + b'"}\n' + json.dumps({"id": "b", "query": "describe"}).encode() + b"\n"
    serve(engine, io.BytesIO(lines), sink)
    long, good = map(json.loads, sink.getvalue().splitlines())
    assert "at most 300 bytes" in long["error"]
    assert good["engine"]["actions"][0] == "deck"


def test_the_process_answers_bad_and_good_lines_and_ends_with_its_input() -> None:
    lines = ["garbage", json.dumps({"id": "a", "record": RECORD}), "", "[" * 100000, json.dumps({"id": "b"})]
    found = run_module("muzero.engine", f"agent={AGENT}", given="\n".join(lines))
    assert found.returncode == 0, found.stderr
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert sorted("error" in answer for answer in answers) == [False, True, True, True]


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("agent=agent:nobody", "agent 'agent:nobody': expected one of"),
        ("agent=bot:greedy", "agent: expected one with a network and search"),
        ("batch=0", "batch: expected a number from 1 to 65536"),
        ("speed=1", "argument 'speed=1': expected key=value"),
    ],
)
def test_a_bad_argument_is_one_line_and_exit_code_two(
    argument: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_without_an_agent_the_belief_variant_of_the_first_game_analyses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = agent_spec.shipped_weights("skyjo-belief").read_bytes()
    monkeypatch.setattr(agent_spec, "SHIPPED", tmp_path)
    with pytest.raises(ValueError, match="agent: expected the name of an agent"):
        engine_module.read_arguments([])
    for name in ("a-baseline", "skyjo-baseline", "skyjo-belief"):
        (tmp_path / f"{name}.safetensors").write_bytes(weights)
    assert default_analyst("skyjo", 2) == AgentSpec.of("agent", "skyjo-belief")
    assert default_analyst("skyjo", 3) is default_analyst("lama") is None
    assert str(engine_module.read_arguments([]).spec) == "agent:skyjo-belief"


def test_the_client_in_the_documentation_works(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 20
    code = code.replace('"python"', repr(sys.executable))
    (tmp_path / "client.py").write_text(code)
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, tmp_path / "client.py"], capture_output=True, text=True, timeout=120, check=False, cwd=root
    )
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 4
    assert np.all(["turn" in line for line in run.stdout.splitlines()])
