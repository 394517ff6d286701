"""Tests of experiments/compare_training.py: rounds in turn, kept rounds, games of the same length, and refusals."""

import json
import sys
from pathlib import Path

import pytest

from experiments import compare_training

# Stand-in for a tree's bench_training: speeds are the number in the file `speed`, and every call is noted.
BENCH = """
from contextlib import contextmanager
from pathlib import Path
REDUCED = ()
speed = float(Path("speed").read_text())
def settle_memory(): pass
def preset(name, *overrides):
    with open("../calls", "a") as calls:
        calls.write(f"{Path.cwd().name} {name}\\n")
    return name
@contextmanager
def training(config): yield config
def iterations(trainer, at_least): return {"iteration_s": 6 / speed}
def learning(trainer, at_least): return {"learner_steps_per_s": speed}
def projected(config, steps_per_s, at_least):
    return {"simulations_per_s": speed, "decisions_per_game": 10 * speed, "iteration_selfplay_s": 100.0,
            "iteration_learner_s": 1.0, "iteration_s": 101.0}
"""


@pytest.fixture
def trees(tmp_path: Path) -> list[str]:
    """Options for a tree that is three times as fast as the other."""
    for name, speed in (("this", 6), ("other", 2)):
        tree = tmp_path / name
        (tree / "experiments").mkdir(parents=True)
        (tree / ".venv/bin").mkdir(parents=True)
        (tree / ".venv/bin/python").symlink_to(sys.executable)
        (tree / "experiments/bench_training.py").write_text(BENCH)
        (tree / "torch.py").write_text("def manual_seed(seed): pass\n")  # what links to this Python have not installed
        (tree / "speed").write_text(str(speed))
    return ["HEAD", "--this", str(tmp_path / "this"), "--other", str(tmp_path / "other")]


def test_trees_are_measured_in_turn_and_rounds_add_up(trees, tmp_path, capsys):
    kept = tmp_path / "kept.json"
    for _ in range(2):
        assert compare_training.main([*trees, "--parts", "cpu", "--rounds", "1", "--json", str(kept)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-4] == "cpu, 2 rounds"
    assert told[-1].split()[:4] == ["cpu_learner_steps_per_s", "6.000", "2.000", "3.000"]
    assert told[-2].split()[:4] == ["cpu_iterations_per_minute", "60.000", "20.000", "3.000"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["this cpu", "other cpu", "other cpu", "this cpu"]
    assert len(json.loads(kept.read_text())["cpu"]) == 2


def test_games_of_the_other_commit_are_projected_for_both(trees, capsys):
    assert compare_training.main([*trees, "--parts", "paper", "--rounds", "1"]) == 0
    rows = {line.split()[0]: line.split()[1:3] for line in capsys.readouterr().out.splitlines()[2:]}
    # This tree plays games of 60 decisions in 100 s, the other of 20.
    assert rows["paper_same_games_s"] == ["34.333", "101.000"]
    assert rows["paper_iteration_s"] == ["101.000", "101.000"]


def test_bad_arguments_are_named(trees, tmp_path, capsys):
    assert compare_training.main([*trees, "--rounds", "-1"]) == 2
    assert "--rounds: expected 0 or more, got -1" in capsys.readouterr().err
    (tmp_path / "other/experiments/bench_training.py").write_text("raise ImportError('not here')")
    assert compare_training.main([*trees, "--rounds", "1"]) == 2
    assert "not here" in capsys.readouterr().err
