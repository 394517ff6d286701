"""Evaluation against the curriculum's bots: what is pooled, and what is averaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.experiments.untrained_runs import ONE, run_script


def test_every_checkpoint_plays_every_bot_and_variants_are_summarised(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run_script("bot_eval", tmp_path, "--runs", runs["belief0"], runs["belief1"], runs["baseline0"], *ONE)
    assert {name: row["checkpoints"] for name, row in found["table"].items()} == {"belief": 4, "baseline": 2}
    point = found["checkpoints"][0]
    assert point["games"] == 8
    assert point["win_rate"] == pytest.approx(np.mean(list(point["by_bot"].values())))
    rates = [p["win_rate"] for p in found["checkpoints"] if p["variant"] == "belief"]
    assert found["table"]["belief"]["mean_win_rate"] == pytest.approx(np.mean(rates))
    assert found["table"]["belief"]["max_win_rate"] == max(rates)
    assert found["table"]["belief"]["last_checkpoints"]["n"] == 2
