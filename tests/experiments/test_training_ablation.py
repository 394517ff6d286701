"""Training ablation: a round robin of variants."""

from __future__ import annotations

from pathlib import Path

from tests.experiments.untrained_runs import ONE, run_script


def test_runs_of_different_variants_play_by_seed_and_are_rated(runs: dict[str, Path], tmp_path: Path) -> None:
    chosen = [path for name, path in runs.items() if name not in ("three", "eight")]
    found = run_script("training_ablation", tmp_path, "--runs", *chosen, *ONE)
    assert {rating["name"] for rating in found["ratings"]} == {"baseline", "belief", "ego_only", "heads_only"}
    assert (found["iteration"], found["anchor"]) == (4, "baseline")
    assert len(found["pairings"]) == 6
    assert [row["pairs"] for row in found["pairings"]] == [2] * 6, "one pair per seed"
    assert [row["games"] for row in found["pairings"]] == [8] * 6
