"""Ego ablation: intact networks against ablated ones."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.experiments.untrained_runs import ONE, run_script


def test_the_newest_checkpoint_plays_every_ablation_of_itself(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_script("ego_ablation", tmp_path, "--runs", runs["belief0"], runs["ego_only0"], "--games", 2, *ONE)
    kinds = [(row["variant"], row["play"], row["ablation"]) for row in found["rows"]]
    ways, ablations = ("maxn", "ego", "policy"), ("no_ego", "wrong_ego", "zero_all")
    assert kinds == [(v, w, a) for v in ("belief", "ego_only") for w in ways for a in ablations]
    assert all(row["iteration"] == 4 for row in found["matches"]), "the newest"
    assert all(row["b"].endswith(f"ablation={row['ablation']}") for row in found["matches"])
    options = {"maxn": "backup=maxn", "ego": "backup=ego", "policy": "simulations=0"}
    for row in found["matches"]:
        for agent in (row["a"], row["b"]):
            assert options[row["play"]] in agent
            assert not any(options[way] in agent for way in ways if way != row["play"])
    page = (tmp_path / "ego_ablation.md").read_text()
    assert "only show that max^n needs" in page
    assert "| belief | policy | no_ego |" in page
    script = import_module("experiments.ego_ablation")
    assert script.main(["--runs", str(runs["baseline0"]), "--out", str(tmp_path)]) == 2
    assert "expected a network with ego conditioning (belief or ego_only), got 'baseline'" in capsys.readouterr().err
