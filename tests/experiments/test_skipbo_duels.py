"""Skip-Bo duels: files, power analysis, and a duel worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import env
from experiments import skipbo_duels


def test_files_have_all_duels_and_the_same_bytes_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        skipbo_duels.main(["--difference", "0.2", "--out", str(out), "--csv", str(tmp_path / f"{out.name}.csv")])
    for name in ("duels.json", "duels.md"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert (first / "duels.png").stat().st_size > 10_000
    lines = (tmp_path / "first.csv").read_text()
    assert lines == (tmp_path / "second.csv").read_text()

    report = json.loads((first / "duels.json").read_text())
    deals, bots = report["deals"], skipbo_duels.BOTS
    assert len(report["duels"]) == len(bots) * (len(bots) - 1) // 2
    assert len(lines.splitlines()) == 1 + 2 * deals * len(report["duels"])
    assert set(bots) == set(env.make("skipbo").bots) == {row["bot"] for row in report["ladder"]}
    for row in report["duels"]:
        assert row["wins"] + row["draws"] + row["losses"] == row["n"] == 2 * deals
        for low, high in (row["wilson"], row["clopper_pearson"]):
            assert low <= row["rate"] <= high
            assert low < high
        assert row["p_holm"] >= row["p"]
    for row in report["seats"]:
        assert sum(seat["rate"] for seat in row["seats"]) == pytest.approx(1, abs=1e-4)
    assert [row["players"] for row in report["seats"]] == [2, 3, 4, 5, 6]


def test_the_number_of_deals_is_that_of_a_power_analysis() -> None:
    """By hand: z of 0.05 / 72 / 2 is 3.392, of 0.8 0.842; two games per deal."""
    z, power = 3.3918, 0.8416
    games = (z / 2 + power * (0.51 * 0.49) ** 0.5) ** 2 / 0.01**2
    assert skipbo_duels.deals_wanted(0.01) == pytest.approx(games / 2, rel=1e-3)


def test_a_duel_has_the_numbers_worked_out_by_hand() -> None:
    """Two deals: a wins both games of the first, the second is a draw and a loss."""
    games = skipbo_duels.Duel(
        points=np.array([1, 1, 0.5, 0]),
        turns=np.array([11, 21, 0, 31], np.int32),
        deadlocks=np.array([False, False, True, False]),
        completed=np.array([1, 2, 3, 4], np.int32),
        decisions=np.array([100, 200, 300, 400], np.int32),
    )
    row = skipbo_duels.summarize("x", "y", games)
    assert (row["rate"], row["wins"], row["draws"], row["losses"]) == (0.625, 2, 1, 1)
    assert row["rounds_a"] == {"median": 15, "iqr": [12.5, 17.5], "mean": 15, "wins": 2}
    assert row["rounds_b"] == {"median": 30, "iqr": [30, 30], "mean": 30, "wins": 1}
    assert (row["deadlocks"], row["start"], row["turns_effect"]) == (0.25, 0.25, 0)
    assert skipbo_duels.correct([row]) == 2
    assert row["p_holm"] == 1
