"""Ego ablation: intact networks against ablated ones."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.experiments.untrained_runs import ONE, run_script


def test_the_newest_checkpoint_plays_every_ablation_of_itself(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_script("ego_ablation", tmp_path, "--runs", runs["belief0"], runs["ego_only0"], *ONE)
    kinds = [(row["variant"], row["ablation"]) for row in found["rows"]]
    assert kinds == [(v, a) for v in ("belief", "ego_only") for a in ("no_ego", "wrong_ego", "zero_all")]
    assert all(row["iteration"] == 4 for row in found["matches"]), "the newest"
    assert all(row["b"].endswith(f"ablation={row['ablation']}") for row in found["matches"])
    script = import_module("experiments.ego_ablation")
    assert script.main(["--runs", str(runs["baseline0"]), "--out", str(tmp_path)]) == 2
    assert "expected a network with ego conditioning (belief or ego_only), got 'baseline'" in capsys.readouterr().err
