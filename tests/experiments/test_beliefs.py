"""Card beliefs: classes of positions, means and errors, and what the page says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments import beliefs
from muzero.matches.belief_check import BeliefCheck
from tests.experiments.untrained_runs import make_run, run_script


@pytest.fixture(scope="module")
def believing(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of untrained networks with card beliefs, the second of which does not read the counts."""
    home = tmp_path_factory.mktemp("believing")
    one = make_run(home / "one", "belief_cards", seed=0)
    return [one, make_run(home / "two", "belief_cards", seed=1, ignore=["counts"])]


def test_all_networks_are_judged_at_all_positions_by_phase_and_hidden_slots(
    believing: list[Path], tmp_path: Path
) -> None:
    found = run_script("beliefs", tmp_path, "--runs", *believing, "--games", 60, "--samples", 8)
    rows = found["rows"]
    total = [row for row in rows if row["by"] == "all"]
    assert [row["ignore"] for row in total] == [[], ["counts"]]
    assert total[0]["slots"] == total[1]["slots"] > 600
    assert total[0]["counts_score"] == total[1]["counts_score"]
    assert total[0]["kl"] != total[1]["kl"]
    for row in total:
        own = [r for r in rows if r["run"] == row["run"]]
        assert row["kl"]["mean"] > 0
        assert row["gain"]["mean"] == pytest.approx(row["score"]["mean"] - row["counts_score"]["mean"])
        for by in ("phase", "hidden"):
            parts = [r for r in own if r["by"] == by]
            assert len(parts) > 1
            assert sum(r["positions"] for r in parts) == row["positions"]
            mean = np.average([r["kl"]["mean"] for r in parts], weights=[r["slots"] for r in parts])
            assert mean == pytest.approx(row["kl"]["mean"])
    page = (tmp_path / "beliefs.md").read_text()
    assert "## By number of hidden slots" in page
    assert "| keep |" in page


def test_means_and_errors_by_hand() -> None:
    """Two positions with one and three hidden slots: the error is that of a mean of four slots in two clusters."""
    check = BeliefCheck(
        phase=np.array([0, 1, 0]),
        hidden=np.array([1, 3, 0]),
        position=np.array([0, 1, 1, 1]),
        kl=np.array([0.0, 1.0, 2.0, 1.0]),
        score=np.array([-1.0, -1.0, -2.0, -4.0]),
        counts_score=np.array([-2.0, -2.0, -2.0, -2.0]),
    )
    row = beliefs.figures(check, np.array([True, True, False]))
    assert (row["positions"], row["slots"]) == (2, 4)
    assert row["kl"]["mean"] == 1.0
    assert row["kl"]["error"] == pytest.approx(np.sqrt(1 + 1) / 4)
    assert row["gain"]["mean"] == 0.0
    rows = beliefs.rows_of(check, ["first", "second"], {"run": "r"})
    assert [(r["by"], r["class"], r["slots"]) for r in rows] == [
        ("all", "", 4),
        ("phase", "first", 1),
        ("phase", "second", 3),
        ("hidden", "1 to 2", 1),
        ("hidden", "3", 3),
    ]


def test_classes_cover_all_numbers_and_are_about_equal() -> None:
    hidden = np.random.default_rng(0).integers(1, 25, 1000)
    edges = beliefs.class_edges(hidden)
    assert 4 <= len(edges) <= beliefs.BINS
    assert edges[0][0] == hidden.min()
    assert edges[-1][1] == hidden.max()
    assert all(before[1] + 1 == after[0] for before, after in pairwise(edges))
    sizes = [((hidden >= low) & (hidden <= high)).sum() for low, high in edges]
    assert min(sizes) > 80
    assert beliefs.class_edges(np.array([4, 4])) == [(4, 4)]


def test_runs_without_card_beliefs_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert beliefs.main(["--runs", str(runs["belief0"]), "--out", str(tmp_path), "--games", "8"]) == 2
    error = capsys.readouterr().err
    assert "expected a run with card beliefs (+variant=belief_cards), got 'variant belief'" in error
