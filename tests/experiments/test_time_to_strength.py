"""Strength by time: which matches are played, what a checkpoint took, and when a goal is reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from experiments import time_to_strength
from muzero.runs.metrics import METRICS, TIMINGS
from muzero.runs.run_directory import CONFIG
from tests.experiments.untrained_runs import ONE, make_run, run_script


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Run of five iterations of 10 steps, the first of them before the warm-up was over, half a minute each."""
    path = make_run(tmp_path / "run", "belief")
    config = OmegaConf.load(path / CONFIG)
    config["train"] = {"steps": 10}
    OmegaConf.save(config, path / CONFIG)
    records = [{"iteration": k, "losses": {"total": 1.0} if k > 1 else {}} for k in range(1, 6)]
    (path / METRICS).write_text("".join(json.dumps(record) + "\n" for record in records))
    (path / TIMINGS).write_text("".join(json.dumps({"elapsed": 30.0 * k}) + "\n" for k in range(1, 6)))
    return path


def test_checkpoints_play_all_bots_and_get_their_time_and_steps(run: Path, tmp_path: Path) -> None:
    found = run_script("time_to_strength", tmp_path / "out", "--runs", run, "--games", 4, *ONE)
    played = [(row["iteration"], row["bot"]) for row in found["rows"]]
    assert played == [(k, bot) for k in (2, 4) for bot in ("random", "naive", "greedy")]
    points = [(p["iteration"], p["other"], p["minutes"], p["steps"], p["games"]) for p in found["points"]]
    others = {time_to_strength.ALL_BOTS: 8, "greedy": 4}  # games against both bots of the curriculum, and the other
    assert points == [(k, o, k / 2, 10 * (k - 1), n) for k in (2, 4) for o, n in others.items()]
    assert "First checkpoint that reaches" in (tmp_path / "out/time_to_strength.md").read_text()


def test_goal_is_reached_by_the_first_checkpoint_that_is_good_enough() -> None:
    points: list[dict[str, Any]] = [
        {"run": run, "other": "greedy", "iteration": iteration, "win_rate": rate}
        for run, rates in (("a", [0.2, 0.7, 0.6]), ("b", [0.1, 0.2, 0.3]))
        for iteration, rate in enumerate(rates)
    ]
    reached = time_to_strength.first_to_reach(points[::-1], "a", "greedy", 0.6)
    assert reached is not None
    assert reached["iteration"] == 1
    assert time_to_strength.first_to_reach(points, "b", "greedy", 0.6) is None


def test_runs_of_ppo_stand_beside_those_of_muzero(run: Path, tmp_path: Path) -> None:
    """Steps are those of the metrics where they count them, and a policy is never asked to search."""
    path = make_run(tmp_path / "ppo", "baseline")
    config = OmegaConf.load(path / CONFIG)
    config["variant"], config["train"] = "ppo", {"algorithm": "ppo", "steps": 96}
    OmegaConf.save(config, path / CONFIG)
    records = [{"iteration": k, "losses": {"total": 1.0}, "diagnostics": {"steps": 7 * k}} for k in range(1, 5)]
    (path / METRICS).write_text("".join(json.dumps(record) + "\n" for record in records))
    (path / TIMINGS).write_text("".join(json.dumps({"elapsed": 60.0 * k}) + "\n" for k in range(1, 5)))
    given = ["--runs", run, path, "--games", 2, "--simulations", 1, *ONE]
    found = run_script("time_to_strength", tmp_path / "out", *given)
    points = [(p["variant"], p["minutes"], p["steps"]) for p in found["points"] if p["other"] == "greedy"]
    assert points == [("belief", 1.0, 10), ("belief", 2.0, 30), ("ppo", 2.0, 14), ("ppo", 4.0, 28)]
    assert all(("simulations=1" in row["a"]) == (row["variant"] == "belief") for row in found["rows"])
