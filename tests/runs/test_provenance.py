"""Provenance: every result says which code, packages, machine and command it comes from, and pooling checks it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.common import pooled
from experiments.common import read_runs as read_compared_runs
from muzero.matches.command import main as evaluate
from muzero.matches.ladder import main as ladder
from muzero.runs import provenance as module
from muzero.runs.files import CheckpointError
from muzero.runs.history import History
from muzero.runs.provenance import (
    PROVENANCE,
    check_pooled,
    code_text,
    differences,
    provenance,
    read_provenance,
    recorded,
    starts,
)

ROOT = Path(__file__).resolve().parents[2]


def git(place: Path, *words: str) -> str:
    command = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def _code_of_now() -> None:
    """Forget the commit that this process began with: somebody may have committed since."""
    module._code.cache_clear()


def check_facts(found: dict[str, Any]) -> None:
    """Assert that facts are those of this process."""
    if shutil.which("git") and (ROOT / ".git").exists():
        assert found["commit"] == git(ROOT, "rev-parse", "HEAD")
        assert found["dirty"] == bool(git(ROOT, "diff", "HEAD"))
    assert found["packages"]["torch"] == torch.__version__
    assert found["packages"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["machine"]["cpu"]
    assert found["machine"]["cores"] >= 1
    assert found["command"]
    assert found["started"] <= found.get("ended", "9")


def test_facts_are_those_of_this_process() -> None:
    check_facts(provenance())


def test_commit_and_changes_are_those_of_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    monkeypatch.setattr(module, "_code", module._code.__wrapped__)
    assert module._code() == {"commit": None, "dirty": None}, "no repository"
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "first")
    assert module._code() == {"commit": git(tmp_path, "rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "untracked").write_text("does not count")
    assert not module._code()["dirty"]
    (tmp_path / "file").write_text("two")
    first = module._code()
    (tmp_path / "file").write_text("three")
    second = module._code()
    assert first["dirty"]
    assert second["dirty"]
    assert first["changes"] != second["changes"]
    monkeypatch.setattr(module, "_ROOT", tmp_path / "inside")
    (tmp_path / "inside").mkdir()
    assert module._code()["commit"] is None, "installed inside somebody else's repository"


def test_a_run_records_the_start_and_the_end_of_each_process(tmp_path: Path) -> None:
    with recorded(tmp_path) as closing:
        assert [facts["event"] for facts in read_provenance(tmp_path)] == ["start"]
        closing["code"] = 75
    with pytest.raises(KeyboardInterrupt), recorded(tmp_path):
        raise KeyboardInterrupt
    found = read_provenance(tmp_path)
    assert [facts["event"] for facts in found] == ["start", "end", "start", "end"]
    assert found[1]["code"] == 75
    assert found[1]["ended"] >= found[0]["started"]
    for facts in starts(tmp_path):
        check_facts(facts)
    with (tmp_path / PROVENANCE).open("a") as file:
        file.write('{"event": "st')
    assert len(read_provenance(tmp_path)) == 4, "a line that a killed process has not finished is left out"
    (tmp_path / PROVENANCE).write_text('{"event": 3}\n')
    with pytest.raises(CheckpointError, match=r"provenance.jsonl, line 1: event: expected"):
        read_provenance(tmp_path)
    (tmp_path / PROVENANCE).write_text('{"event": "start", "started": "yesterday"}\n')
    with pytest.raises(CheckpointError, match=r"provenance.jsonl.*yesterday"):
        History(tmp_path)


def test_matches_and_ladders_have_it(tmp_path: Path) -> None:
    assert (
        evaluate(["a=bot:always_bet", "b=bot:uniform", "game=kuhn", "games=4", f"out={tmp_path / 'match.json'}"]) == 0
    )
    check_facts(json.loads((tmp_path / "match.json").read_text())["provenance"])
    assert ladder(["agents=[bot:always_bet,bot:uniform]", "game=kuhn", "games=4", f"out={tmp_path / 'ladder'}"]) == 0
    found = json.loads((tmp_path / "ladder" / "ladder.json").read_text())
    check_facts(found["provenance"])
    assert [row["code"] for row in found["pairings"]] == [code_text(provenance())]


# ---- pooling -----------------------------------------------------------------------------------------------------

ONE = {"commit": "a" * 40, "dirty": False, "packages": {"torch": "2.13.0"}, "machine": {"cpu": "x"}}


def test_differences_name_code_torch_processor_and_uncommitted_changes() -> None:
    assert differences([ONE, dict(ONE)]) == []
    other = {**ONE, "commit": "b" * 40, "packages": {"torch": "2.12.0"}, "machine": {"cpu": "y"}}
    assert differences([ONE, ONE, other]) == [
        "code: aaaaaaaaaa (2), bbbbbbbbbb (1)",
        "torch: 2.13.0 (2), 2.12.0 (1)",
        "processor: x (2), y (1)",
    ]
    changed = {**ONE, "dirty": True, "changes": "123"}
    assert differences([changed, changed]) == ["uncommitted changes: 2 of 2"]
    assert differences([ONE, None])[0] == "code: aaaaaaaaaa (1), unknown (1)"
    with pytest.warns(RuntimeWarning, match="matches differ in their origin: code: aaaaaaaaaa"):
        check_pooled("matches", [ONE, None])


def row(**more: Any) -> dict[str, Any]:
    """Result of a match."""
    counts = {"games": 10, "wins": 6, "draws": 0, "losses": 4, "truncated": 0, "points": 6.0}
    means = dict.fromkeys(("mean_score_a", "mean_score_b", "mean_turns", "mean_decisions"), 1.0)
    return {"players": 2, "version": 1, **counts, **means, "provenance": ONE, **more}


def test_pooled_matches_say_in_what_their_origins_differ() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "origins" not in pooled([row(), row()])
    with pytest.warns(RuntimeWarning, match="matches differ in their origin"):
        total = pooled([row(), row(provenance={**ONE, "commit": "b" * 40})])
    assert total["origins"] == ["code: aaaaaaaaaa (1), bbbbbbbbbb (1)"]
    with pytest.raises(
        ValueError, match=r"version: expected the same version of the rules in all matches, got \[1, 2\]"
    ):
        pooled([row(), row(version=2)])


def test_runs_of_different_code_are_compared_with_a_warning(tmp_path: Path) -> None:
    config = (
        "seed: 0\nvariant: belief\ngame: {name: kuhn, players: 2, bots: []}\n"
        "selfplay: {players: []}\nmodel: {ego: true}\n"
    )
    for name, commit in (("one", "a" * 40), ("two", "b" * 40)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(config)
        (tmp_path / name / PROVENANCE).write_text(json.dumps({"event": "start", **ONE, "commit": commit}) + "\n")
    with pytest.warns(RuntimeWarning, match="runs differ in their origin: code: aaaaaaaaaa"):
        read_compared_runs([tmp_path / "one", tmp_path / "two"])
