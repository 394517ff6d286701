"""Benchmarks: they run in small and write their numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import env

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("game", env.games())
def test_bench_env_writes_its_numbers(game: str, tmp_path: Path) -> None:
    """Every rate is positive, and no median is above its best."""
    target = tmp_path / "bench.json"
    options = ["--game", game, "--seconds", "0.05", "--json", str(target)]
    command = [sys.executable, "-m", "experiments.bench_env", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "x oracle" in done.stdout

    report = json.loads(target.read_text())
    for name in ("rules", "obs", "python_1", "python_1024", "python_8192", "all_cores", "oracle"):
        assert 0 < report[f"{name}_steps_per_s"] <= report[f"{name}_steps_per_s_best"]
    assert report["bytes_per_table"] == env.make(game).info.state_bytes
    assert {"cpu", "cores", "python", "command"} <= report.keys()
    assert not any(isinstance(value, dict | list) for value in report.values())


def test_bench_search_writes_its_numbers(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    command = [sys.executable, "-m", "experiments.bench_search", "--quick", "--seconds", "0.05", "--json", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    for name in ("tiny_b1024_sims_per_s", "tiny_flat_b1024_sims_per_s", "tree_us_per_level", "sgemm_gflops"):
        assert report[name] > 0
    assert not any(isinstance(value, dict | list) for value in report.values())


@pytest.mark.slow
def test_bench_training_writes_its_numbers(tmp_path: Path) -> None:
    """Every stage of both presets is measured, and the projection is the sum of its parts."""
    target = tmp_path / "bench.json"
    command = [sys.executable, "-m", "experiments.bench_training", "--quick", "--seconds", "0.1", "--threads", "1"]
    command += ["--json", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    headlines = ("learner_efficiency", "selfplay_efficiency", "paper_iteration_s", "cpu_games_per_s")
    for name in (*headlines, "ray_scaling_1_to_2"):
        assert report[name] > 0
        assert name in done.stdout
    assert report["learner_efficiency"] == min(report["cpu_learner_efficiency"], report["paper_learner_efficiency"])
    parts = report["paper_iteration_selfplay_s"], report["paper_iteration_learner_s"]
    assert report["paper_iteration_s"] == pytest.approx(sum(parts))
    assert report["paper_iteration_learner_s"] * report["paper_learner_steps_per_s"] == pytest.approx(4)
    assert report["paper_decisions_per_game"] > 100  # whole matches
    assert not any(isinstance(value, dict | list) for value in report.values())


@pytest.mark.slow
def test_bench_arena_writes_its_numbers(tmp_path: Path) -> None:
    """People get answers from a server of their own, and the bare planner is measured beside it."""
    target = tmp_path / "bench.json"
    command = [sys.executable, "-m", "experiments.bench_arena", "--quick", "--json", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    assert report["answers"] > 0
    assert 0 < report["answer_p50_ms"] <= report["answer_p95_ms"] <= report["answer_p99_ms"]
    assert 0 < report["planner_share"] < 1
    assert not any(isinstance(value, dict | list) for value in report.values())
