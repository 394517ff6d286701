"""The reader of run directories: what it finds in them, and what it refuses."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from muzero.runs.run import Run, is_finished, read_runs, run_label
from tests.runs.made_up_run import BOTS, make_run


def test_settings_come_from_the_configuration(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", variant="ego_only", seed=3, players=4, mixed=(3, 2)))
    assert (run.variant, run.seed, run.game, run.players, run.ego) == ("ego_only", 3, "skyjo", 4, True)
    assert (run.player_counts, run.bots, run.iterations) == ((2, 3, 4), BOTS, ())
    assert run.config["game"]["name"] == "skyjo"
    assert Run.read(make_run(tmp_path / "plain", heads=False)).player_counts == (2,)


def test_checkpoints_are_listed_and_named_as_agents(tmp_path: Path) -> None:
    place = make_run(tmp_path / "run")
    for name in ("000004", "000002", ".draft-000006", "1234567"):
        (place / "checkpoints" / name).mkdir(parents=True)
    run = Run.read(place)
    assert run.iterations == (2, 4, 1234567)


def test_a_label_can_be_part_of_a_file_name() -> None:
    assert run_label(Path("/runs/a b/belief-s0")) == "runs_a_b_belief-s0"
    assert run_label(Path("../x")) == ".._x"


def test_bots_and_last_records_come_from_the_metrics(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", iterations=7))
    assert run.evaluated_bots() == ["stone", "paper", "extra"]
    last = run.last("evaluation")
    assert last is not None
    assert last["iteration"] == 6
    assert run.last("nothing") is None


def test_minutes_are_unknown_where_timings_are_missing(tmp_path: Path) -> None:
    place = make_run(tmp_path / "run", iterations=4)
    (place / "timings.jsonl").write_text('{"elapsed": 30}\n{}\n{"elapsed": 90}\n{"elap')
    np.testing.assert_array_equal(Run.read(place).minutes, [0.5, math.nan, 1.5, math.nan])


def test_an_incomplete_last_line_is_left_out(tmp_path: Path) -> None:
    place = make_run(tmp_path / "run", iterations=3)
    with open(place / "metrics.jsonl", "a") as file:
        file.write('{"iteration": 4, "los')
    assert len(Run.read(place).records) == 3


def test_a_directory_without_configuration_or_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: expected a run directory, with config.yaml, got 'no config.yaml'"):
        Run.read(tmp_path / "nowhere")
    place = make_run(tmp_path / "run")
    (place / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match=r"run: expected a run directory, with metrics.jsonl, got 'no metrics.jsonl'"):
        _ = Run.read(place).records


@pytest.mark.parametrize("text", ["seed: 1\n", "- 1\n", "a: [", "variant: x\nseed: 0\ngame: 3\n"])
def test_another_configuration_is_refused(tmp_path: Path, text: str) -> None:
    place = make_run(tmp_path / "run")
    (place / "config.yaml").write_text(text)
    with pytest.raises(
        ValueError,
        match=r"run/config.yaml: (variant: expected|content: expected an object|ParserError|selfplay: expected)",
    ):
        Run.read(place)


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    one, other = make_run(tmp_path / "one"), make_run(tmp_path / "other")
    assert [run.path for run in read_runs([one, other])] == [one, other]
    with pytest.raises(ValueError, match="expected different runs, got 'the same one twice'"):
        read_runs([one, tmp_path / "other" / ".." / "one"])


def test_a_run_is_finished_by_the_trainers_rule(tmp_path: Path) -> None:
    def write(iteration: int, iterations: int, elapsed: float = 0.0, minutes: float = 0.0) -> None:
        place = tmp_path / "checkpoints" / f"{iteration:06d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "state.json").write_text(json.dumps({"iteration": iteration, "state": {"elapsed": elapsed}}))
        (tmp_path / "config.yaml").write_text(f"train: {{iterations: {iterations}, minutes: {minutes}}}\n")

    assert not is_finished(tmp_path)
    write(4, 5)
    assert not is_finished(tmp_path)
    write(5, 5)
    assert is_finished(tmp_path)
    write(5, 9, elapsed=59.0, minutes=1.0)
    assert not is_finished(tmp_path)
    write(5, 9, elapsed=60.0, minutes=1.0)
    assert is_finished(tmp_path)
    (tmp_path / "checkpoints" / "000005" / "state.json").unlink()
    assert not is_finished(tmp_path), "it is being replaced"


def test_reading_runs_does_not_load_torch() -> None:
    code = "import sys, muzero.runs.run; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
