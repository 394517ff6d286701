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


@pytest.mark.slow
def test_luck_is_reported_beside_the_plain_figures(runs: dict[str, Path], tmp_path: Path) -> None:
    arguments = ["--runs", runs["belief0"], "--counts", 0, 2, "--games", 8, *ONE]
    plain = run_script("simulations", tmp_path, *arguments)
    found = run_script("simulations", tmp_path, *arguments, "--luck", "linear")
    assert [row["by_deal"] for row in found["rows"]] == [row["by_deal"] for row in plain["rows"]], "the same games"
    for row in found["rows"]:
        assert row["luck"]["value"] == row["luck_value"] == "linear"
        assert 0 <= row["luck"]["low"] <= row["luck"]["high"] <= 1
    page = (tmp_path / "simulations.md").read_text()
    label = found["rows"][0]["run"]
    assert f"| simulations | {label} | {label}, luck taken out |" in page
    assert f"{found['rows'][0]['luck']['win_rate']:.3f} [" in page
    parts = sorted((tmp_path / "parts").glob("*.json"))
    stamps = [part.stat().st_mtime_ns for part in parts]
    assert "luck taken out" not in run_page(tmp_path, arguments), "only if it is asked for"
    assert [part.stat().st_mtime_ns for part in parts] == stamps, "results with luck serve the plain page too"
    other = run_script("simulations", tmp_path, *arguments, "--luck", f"checkpoint:{runs['belief0']},iteration=2")
    assert {row["luck_weights"] is None for row in other["rows"]} == {False}
    assert [part.stat().st_mtime_ns for part in parts] != stamps, "another value function: measured again"


def run_page(out: Path, arguments: list[object]) -> str:
    """Page of a command."""
    run_script("simulations", out, *arguments)
    return (out / "simulations.md").read_text()


def test_too_few_games_for_luck_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--runs", str(runs["belief0"]), "--out", str(tmp_path), "--games", "2", "--luck", "linear"]
    assert simulations.main(arguments) == 2
    assert "--games: expected 4 or more with --luck, got 2" in capsys.readouterr().err
