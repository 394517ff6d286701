"""Experiment on luck adjustment, at a small size."""

from __future__ import annotations

from pathlib import Path

from experiments import luck_adjustment
from tests.experiments.untrained_runs import run_script


def test_luck_adjustment(tmp_path: Path) -> None:
    sizes = ("--matches-played", 1, "--workers", 1, "--simulated", 6, "--better-by", 0.1, "--most", 2000)
    found = run_script("luck_adjustment", tmp_path, *sizes, "--games", 60)
    (row,) = found["matches"]
    assert row["games"] == 60
    assert row["factor"] > 0.5
    assert [one["truth"] for one in found["better_by"]] == list(luck_adjustment.TRUTHS)
    for one in found["better_by"]:
        assert one["one_sided"]["games"] < one["two_sided"]["games"] + 300
    assert 0.5 <= found["coverage"]["adjusted"] <= 1
    assert "Games until a match is decided" in (tmp_path / "luck_adjustment.md").read_text()
