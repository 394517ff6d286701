"""Strength by simulations: which matches are played, and what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import simulations
from tests.experiments.untrained_runs import ONE, run_script


def test_every_number_plays_the_opponent_and_the_next_smaller_number(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run_script(
        "simulations", tmp_path, "--runs", runs["belief0"], runs["baseline0"], "--counts", 4, 0, 2, "--games", 4, *ONE
    )
    kinds = [(row["variant"], row["kind"], row["simulations"], row["other"]) for row in found["rows"]]
    opponent = "bot:greedy"  # the held-out bot of the run
    expected = [("opponent", 0, opponent), ("opponent", 2, opponent), ("opponent", 4, opponent)]
    expected += [("fewer", 2, "0"), ("fewer", 4, "2")]
    assert kinds == [(run, *rest) for run in ("belief", "baseline") for rest in expected]
    assert all(row["games"] == 4 and row["iteration"] == 4 for row in found["rows"])
    page = (tmp_path / "simulations.md").read_text()
    assert "| 4 against 2 |" in page
    assert "Against bot:greedy" in page
    parts = sorted((tmp_path / "parts").glob("*.json"))
    assert len(parts) == 10
    stamp = parts[0].stat().st_mtime_ns
    arguments = ["--runs", runs["belief0"], runs["baseline0"], "--counts", 0, 2, 4, *ONE]
    run_script("simulations", tmp_path, *arguments)
    assert parts[0].stat().st_mtime_ns == stamp, "nothing is played twice"


def test_a_number_plays_with_as_many_simulations_as_it_says(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run_script(
        "simulations", tmp_path, "--runs", runs["belief0"], "--counts", 0, 3, "--opponent", "random", *ONE
    )
    first, second, between = found["rows"]
    assert first["other"] == second["other"] == "random"
    assert (between["a"].endswith("simulations=3"), between["b"].endswith("simulations=0")) == (True, True)


@pytest.mark.parametrize("counts", [["4"], ["-1", "2"]])
def test_bad_counts_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], counts: list[str]
) -> None:
    arguments = ["--runs", str(runs["belief0"]), "--out", str(tmp_path), "--counts", *counts]
    assert simulations.main(arguments) == 2
    assert "--counts: expected at least two numbers, 0 or more" in capsys.readouterr().err
