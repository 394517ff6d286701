"""Study command: refusals, help and status."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from experiments.study import command, slurm
from experiments.study.plan import StudyConfig
from experiments.study.records import Records
from tests.experiments.study.stages import WRITE, make_stage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stats"], "the first word: expected one of submit, status, usage, plan"),
        (["preset=smoke"], "submit: expected local or slurm, got ''"),
        (["submit=cloud"], "submit: expected local or slurm, got 'cloud'"),
        (["submit=local", "what=1"], "Key 'what' not in 'StudyConfig'"),
        (["submit=local", "variants=[belief]"], "variants: expected 2 or more, all different"),
        (["submit=local", "seeds=[1,1]"], "seeds: expected 1 or more, all different"),
        (["submit=local", "iterations=[4,2]"], "iterations: expected rising numbers"),
        (["submit=local", "dir=my runs"], "dir: expected a path without blanks, got 'my runs'"),
        (["submit=slurm", "pack=0"], "pack: expected 1 or more, got 0"),
        (["submit=local", "games=0"], "games: expected 2 or more, got 0"),
        (["plan", "preset=smoke", "iterations=[3]"], "iterations: expected multiples of 2 (train.keep_every) up to 4"),
        (["plan", "preset=smoke", "iterations=[6]"], "iterations: expected multiples of 2 (train.keep_every) up to 4"),
        (["plan", "preset=smoke", "overrides=[train.minutes=5]"], "train.minutes: expected 0, so that runs have iter"),
        (["plan", "preset=smoke", "variants=[baseline,brave]"], "variant brave: "),
        (["plan", "preset=smoke", "overrides=[learner.batch=0]"], "learner.batch: expected 1 or more, got 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 2
    assert said in capsys.readouterr().err


def test_status_counts_jobs_by_state_and_names_running_and_failed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [make_stage("train", tmp_path, [WRITE] * 6), make_stage("after", tmp_path, [WRITE], "train")]
    (tmp_path / "train0").write_text("")
    records = Records(tmp_path)
    records.note("train/0", by="slurm", number="7_0")
    records.note("train/1", by="slurm", number="7_1")
    records.note("train/2", by="slurm", number="7_2")
    records.note("train/3", by="slurm", number="7_3")
    records.note("train/4", by="local", code=1)
    records.note("train/5", by="local", code=75)
    monkeypatch.setattr(slurm, "queue", lambda: {"7_1": "RUNNING", "7_2": "PENDING"})
    monkeypatch.setenv("PATH", str(tmp_path))  # no sacct: the status is shown without reasons
    lines = command.status(stages, Records(tmp_path)).splitlines()
    assert lines[0].split() == ["done", "running", "queued", "failed", "missing"]
    assert lines[1].split() == ["train", "1", "1", "1", "2", "1"]
    assert lines[2].split() == ["after", "-", "-", "-", "-", "1"]
    assert lines[4:7] == ["running: train/1", "failed: train/3", "failed: train/4"]
    assert lines[-1] == "why jobs failed is not known: sacct: not found"


def test_status_of_a_missing_study_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["status", "preset=smoke", f"dir={tmp_path}"]) == 2
    assert f"{tmp_path}: expected the directory of a study" in capsys.readouterr().err


def test_stored_settings_are_read_back(tmp_path: Path) -> None:
    config = replace(StudyConfig(), preset="smoke", seeds=[3])
    records = Records(tmp_path)
    records.store_settings(asdict(config))
    read: dict[str, Any] = records.settings
    assert StudyConfig(**{**asdict(StudyConfig()), **read}) == config


@pytest.mark.parametrize("arguments", [[], ["--help"], ["plan", "-h"]])
def test_help_explains_every_key(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 0
    shown = capsys.readouterr().out
    for name in asdict(StudyConfig()):
        assert f"    {name}=" in shown
    assert "python -m experiments.study submit=local preset=smoke" in shown


def test_plan_prints_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", "preset=smoke", f"dir={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert "# train/belief-s1\npython -m muzero.train +variant=belief seed=1" in shown
    assert f"python -m experiments.head_to_head --merge --out {tmp_path}/belief-against-baseline" in shown
