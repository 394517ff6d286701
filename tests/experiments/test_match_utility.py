"""Chances to win a match: the table beside matches of bots, and a network's chances beside its playouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments import match_utility
from tests.experiments.untrained_runs import run_script


def test_tables_are_compared_with_matches(tmp_path: Path) -> None:
    arguments = ("--game", "lama", "--preset", "report", "--bot", "strategy_3", "--players", 2, 4, "--games", 400)
    found = run_script("match_utility", tmp_path, *arguments)
    assert [row["players"] for row in found["tables"]] == [2, 4]
    for row in found["tables"]:
        assert row["brier"] < row["brier_of_guessing"] - 0.02
        assert len(row["points"]) == 16
        assert row["points"] == sorted(row["points"])
        drawn, played = row["standings"]["drawn"], row["standings"]["matches"]
        assert drawn["mean"] == pytest.approx(played["mean"], rel=0.25)
    assert "| 4 | " in (tmp_path / "match_utility.md").read_text()


def test_calibration_pools_chances_in_bins() -> None:
    predicted = np.array([[0.02, 0.98], [0.04, 0.96]])
    low, high = match_utility.calibration(predicted, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert (low["chance"], low["won"]) == (pytest.approx(0.03), 0.5)
    assert (high["chance"], high["won"]) == (pytest.approx(0.97), 0.5)


def test_a_game_without_rounds_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert match_utility.main(["--game", "kuhn", "--out", str(tmp_path)]) == 2
    assert "--game: expected a game of several rounds, got 'kuhn'" in capsys.readouterr().err
