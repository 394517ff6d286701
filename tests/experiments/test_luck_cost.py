"""Experiment on the cost of luck adjustment, at a small size."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import luck_cost
from tests.experiments.untrained_runs import run_script


def test_luck_cost(runs: dict[str, Path], tmp_path: Path) -> None:
    agent = f"checkpoint:{runs['belief0']}"
    found = run_script(
        "luck_cost", tmp_path, "--agent", agent, "--value", "linear", "--counts", 0, 2, "--rounds", 1, "--games", 4
    )
    assert [row["simulations"] for row in found["rows"]] == [0, 2]
    for row in found["rows"]:
        assert row["games"] == 4
        assert min(row["luck_seconds"], row["plain_seconds"]) > 0
        assert row["ratio"] == pytest.approx(row["luck_seconds"] / row["plain_seconds"])
    assert "CPU time of one thread" in (tmp_path / "luck_cost.md").read_text()


def test_bad_counts_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert luck_cost.main(["--out", str(tmp_path), "--counts", "-1"]) == 2
    assert "--counts: expected numbers of 0 or more" in capsys.readouterr().err
