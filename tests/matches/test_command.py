"""python -m muzero.evaluate: arguments, messages and files."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import env
from muzero.agents.agent_spec import OPTIONS
from muzero.matches.command import main, read_arguments, usage
from muzero.matches.match_config import MatchConfig
from muzero.runs import checkpoint
from tests.forked import run_module


def test_the_command_writes_json_csv_and_markdown(tmp_path: Path, run: Path) -> None:
    out = tmp_path / "results" / "match.json"
    done = run_module(
        "muzero.evaluate", f"a=checkpoint:{run},simulations=2", "b=bot:naive", "games=8", f"out={out}", "workers=1"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    wanted = "games wins draws losses truncated win_rate wilson_low wilson_high elo p_value mean_score_a mean_score_b"
    assert {*wanted.split(), "mean_turns"} <= set(result)
    assert result["rules"]["episode"] == "round", "as the network was trained"
    assert result["version"] == env.make("skyjo", 1).info.version
    rows = list(csv.DictReader(out.with_suffix(".csv").open()))
    assert len(rows) == 8
    assert [(row["deal"], row["seat_a"]) for row in rows[:3]] == [("0", "0"), ("0", "1"), ("1", "0")]
    assert np.mean([float(row["won"]) for row in rows]) == result["win_rate"]
    assert out.with_suffix(".md").read_text() in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a=bot:greedy"], "a and b: expected two agents"),
        (["a=bot:greedy", "b=bot:nobody"], "skyjo has no bot 'nobody'"),
        (["a=bot:greedy", "b=bot:naive", "speed=9"], "Key 'speed' not in 'MatchConfig'; keys are a, b"),
        (["a=bot:greedy", "b=bot:naive", "games"], "expected key=value"),
        (["a=bot:greedy", "b=bot:naive", "games=0"], "games: expected 1 or more, got 0"),
        (["a=bot:greedy", "b=bot:naive", "games=1e3"], "games: Value '1000.0' of type 'float'"),
        (["a=bot:greedy", "b=bot:naive", "rules=5"], "rules: expected a named rule set, or options as in"),
        (["a=bot:greedy", "b=bot:naive", "margin=0.1"], "margin: expected none without stop="),
        (["a=bot:greedy", "b=bot:naive", "max_records=3"], "max_records: expected none without records=DIR"),
        (["a=bot:greedy", "b=bot:naive", "out=/"], "out: expected the name of a file, got '/, which is a directory'"),
        (["a=bot:greedy", "b=bot:naive", "out=x.md"], "out: expected the name of the json file, .* got 'x.md'"),
        (["a=bot:greedy", "b=bot:naive", "out=t0.5"], "out: expected the name of the json file, .* got 't0.5'"),
        (
            ["a=bot:greedy", "b=bot:naive", "out=/proc/no/x.json"],
            "out: expected a directory that can be made, got /proc",
        ),
        (
            ["a=bot:greedy", "b=bot:naive", "records=/proc/no"],
            "records: expected a directory that can be made, got /proc",
        ),
        (["a=bot:greedy", "b=bot:naive", "rules.target=-1"], "target"),
        (["a=checkpoint:/nowhere", "b=bot:naive"], "/nowhere: does not exist"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_arguments(arguments)


def test_weights_of_another_version_are_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = checkpoint.load_weights(run)
    agent = {key: value for key, value in found.agent.items() if key not in ("format", "iteration")}
    fewer = dict(list(found.weights.items())[1:])
    checkpoint.save(tmp_path / "fewer", 1, tensors={"weights": fewer}, arrays={}, state={}, agent=agent)
    assert main([f"a=checkpoint:{tmp_path / 'fewer'}", "b=bot:naive"]) == 2
    error = capsys.readouterr().err
    assert re.match(r"error: agent .*: its weights are of another version of the network: .* is missing", error)
    checkpoint.save(
        tmp_path / "old",
        1,
        tensors={"weights": found.weights},
        arrays={},
        state={},
        agent={**agent, "game_version": 0},
    )
    with pytest.raises(ValueError, match=r"version of skyjo: expected 1 as it is now, got 0"):
        read_arguments([f"a=policy:{tmp_path / 'old'}", "b=bot:naive"])


def test_bad_arguments_end_with_one_line_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a=bot:greedy", "b=bot:nobody"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: skyjo has no bot 'nobody'")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("where", ["read_arguments", "play_match"])
def test_a_failed_match_is_one_line_that_says_if_games_are_kept(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError("a process has died, twice")

    monkeypatch.setattr(f"muzero.matches.command.{where}", fail)
    assert main(["a=bot:greedy", "b=bot:naive", f"out={tmp_path / 'match.json'}"]) == 1
    kept = "; the games played so far are kept, the same command resumes" if where == "play_match" else ""
    assert capsys.readouterr().err == f"error: a process has died, twice{kept}\n"


def test_help_names_every_key_and_agent() -> None:
    text = usage()
    for name in (*asdict(MatchConfig()), *OPTIONS):
        assert name in text
