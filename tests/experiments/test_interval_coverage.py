"""Interval coverage: measured coverage, sample sizes and equal agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import interval_coverage
from tests.experiments.untrained_runs import run_script


def test_coverage_is_near_its_nominal_value_and_sample_sizes_are_known_ones(tmp_path: Path) -> None:
    options = ["--matches", 100, "--deals", 200, "--evaluations", 5, "--evaluation-games", 20]
    found = run_script("interval_coverage", tmp_path, *options, "--games", 100)
    for row in found["coverage"]:
        usual = row["games"].endswith(("matches", "draws", "drawn")) and row["truth"] < 0.95
        least = 0.88 if usual else 0.8  # large tables have few deals, lopsided matches few losses
        for name, measured in row["intervals"].items():
            assert least < measured["coverage"] <= 1, (row["games"], name)
    assert found["sample_sizes"][3] == {"rate": 0.55, "per_arm": 1562, "total": 3124, "match": 783}
    assert sum(found["equal_agents"]["inside"].values()) >= 6
    assert {row["episode"] for row in found["variance_reduction"]} == {"match", "round"}
    assert interval_coverage.EQUAL in (tmp_path / "interval_coverage.md").read_text()


@pytest.mark.slow
def test_intervals_of_equal_agents_contain_one_half() -> None:
    """At least 93 of 100 intervals of evaluations of 400 games do."""
    found = interval_coverage.equal_agents(100, 400, seed=0)
    assert found["inside"]["wilson"] >= 93
    assert found["inside"]["paired_bootstrap"] >= 93
