"""Agents of one's own by import path: in matches, ladders, games in a terminal and the arena; errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import muzero
from muzero.agents.agent_spec import AgentSpec, build, fingerprint, resolve
from muzero.agents.python_agent import PythonAgent
from muzero.arena.catalogue import Catalogue
from muzero.arena.terminal import main as play
from muzero.matches.command import main as evaluate
from muzero.matches.ladder import main as ladder
from tests.agents.own_parts import FirstLegal, Table

HOME = "python:tests.agents.own_parts"
OWN = f"{HOME}:FirstLegal"
ROUND = ["game=skyjo", "rules.episode=round"]


def test_text_and_object_play_the_same_games() -> None:
    options = {"games": 4, "game": "skyjo", "rules": {"episode": "round"}, "seed": 1}
    _, named = muzero.play_match(OWN, "bot:greedy", **options)  # type: ignore[arg-type]
    _, made = muzero.play_match(FirstLegal(), "bot:greedy", **options)  # type: ignore[arg-type]
    _, other = muzero.play_match(f"{OWN},last=on", "bot:greedy", **options)  # type: ignore[arg-type]
    assert named.scores.tolist() == made.scores.tolist() != other.scores.tolist()


def test_options_have_the_types_of_their_defaults_and_the_table_is_told() -> None:
    agent = build(AgentSpec.parse(f"{OWN},last=on,depth=3"), "skyjo", 2, batch=1)
    assert isinstance(agent, PythonAgent)
    assert isinstance(agent.agent, FirstLegal)
    assert (agent.agent.last, agent.agent.depth, agent.name) == (True, 3, f"{OWN},last=on,depth=3")
    table = build(AgentSpec.parse(f"{HOME}:Table"), "lama", 4, batch=1)
    assert isinstance(table, PythonAgent)
    assert isinstance(table.agent, Table)
    assert table.agent.told == ("lama", 4)


def test_evaluate_keeps_games_until_the_code_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = tmp_path / "my_agents.py"
    code.write_text("class Mine:\n    def act(self, situation):\n        return situation.legal.argmax(1)\n")
    text = "python:my_agents:Mine"
    before = fingerprint(AgentSpec.parse(text))
    arguments = [f"a={text}", "b=bot:greedy", "games=4", *ROUND, f"out={tmp_path / 'x.json'}", "workers=1"]
    assert evaluate(arguments) == 0
    assert text in capsys.readouterr().out
    assert evaluate(arguments) == 0
    code.write_text(code.read_text() + "\n# changed\n")
    assert fingerprint(AgentSpec.parse(text)) != before
    with pytest.warns(RuntimeWarning, match="has games of other settings"):
        assert evaluate(arguments) == 0


def test_ladder_and_terminal_take_own_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agents = f"agents=[{OWN},last=on,bot:greedy,{HOME}:Table]"
    assert ladder([agents, "games=2", *ROUND, "workers=1", f"out={tmp_path / 'ladder'}"]) == 0
    record = tmp_path / "game.json"
    assert play([f"opponents=[{OWN},bot:greedy]", "you=-1", *ROUND, "seed=3", f"record={record}"]) == 0
    assert OWN in record.read_text()


def test_arena_offers_own_agents_by_class_name_and_only_those_given_at_the_start() -> None:
    catalogue = Catalogue(["skyjo", "kuhn"], [OWN])
    offer = catalogue.find("skyjo", "FirstLegal", 2)
    assert (str(offer.spec), offer.players) == (OWN, 0)
    assert OWN not in str(catalogue.describe()), "clients are told names, never import paths"
    assert catalogue.named("skyjo", f"{HOME}:Table", 2) is None
    with pytest.raises(ValueError, match=r"agent: expected one of .*FirstLegal"):
        catalogue.find("skyjo", f"{HOME}:Table", 2)
    with pytest.raises(ValueError, match="act raised KeyError"):
        Catalogue(["skyjo"], [f"{HOME}:Broken"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python:nothing_here:X", "expected a module that can be imported, .* got 'nothing_here'"),
        (f"{HOME}:Nobody", r"expected a class or function of tests\.agents\.own_parts: Broken, Cheat, .* got 'Nobody'"),
        (f"{OWN},width=3", "expected options among last, depth, got 'width=3'"),
        (f"{OWN},depth=deep", "depth: expected a number, got 'deep'"),
        (f"{OWN},last=maybe", "last: expected on or off, got 'maybe'"),
        (f"{HOME}:OwnNetwork", "making it raised TypeError"),
        ("python:os", "expected python:MODULE:CLASS, got 'python:os'"),
        (f"{HOME}:Cheat", "act: expected a legal action, one of .*, got 99"),
        (f"{HOME}:Broken", r"act raised KeyError: 'no such card' \(.*own_parts.py, line \d+\)"),
    ],
)
def test_bad_own_agents_are_refused_in_one_line(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate([f"a={text}", "b=bot:greedy", "games=2", *ROUND, "workers=1"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    with pytest.raises(ValueError, match=message):
        raise ValueError(error)


def test_text_is_complete_and_survives_parsing() -> None:
    spec = resolve(AgentSpec.parse(f"{OWN},last=on"))
    assert AgentSpec.parse(str(spec)) == spec
