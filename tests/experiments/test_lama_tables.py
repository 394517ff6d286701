"""L.A.M.A. study: files, committed results, and agreement with the published tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import lama_tables

ROOT = Path(__file__).resolve().parents[2]


def test_files_have_all_tables_and_the_same_bytes_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        lama_tables.main(["--games", "200", "--figure-games", "8", "--out", str(out)])
    for name in ("tables.json", "tables.md"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    report = json.loads((first / "tables.json").read_text())
    assert list(report["tables"]) == ["I", "II", "III", "IV"]
    for table in report["tables"].values():
        assert len(table["rows"]) == table["players"]
        assert sum(row["p_win_round"]["value"] for row in table["rows"]) == pytest.approx(1, abs=1e-4)
        for row in table["rows"]:
            for name in (*lama_tables.SHARES, "mean_points"):
                assert row[name]["ci"][0] < row[name]["value"] < row[name]["ci"][1]


def test_numbers_agree_with_the_published_tables() -> None:
    """All 72 numbers agree. Strategy 3 is better than strategy 1, but by less than published."""
    published = json.loads((ROOT / "experiments" / "data" / "lama_tables.json").read_text())
    result = lama_tables.play_all(20_000, 4, 3, published)
    distances = [
        row[name]["z"]
        for table in result["tables"].values()
        for row in table["rows"]
        for name in (*lama_tables.SHARES, "mean_points")
    ]
    assert len(distances) == 72
    assert np.abs(distances).max() < 4
    assert np.square(distances).mean() < 2
    against_first = result["one_against_three"]["strategy_1"]
    assert 0.26 < against_first["ci"][0] < against_first["ci"][1] < 0.3


@pytest.mark.slow
def test_the_committed_results_are_those_of_the_script(tmp_path: Path) -> None:
    lama_tables.main(["--out", str(tmp_path)])
    committed = ROOT / "experiments" / "results" / "lama_tables"
    found, expected = (json.loads((place / "tables.json").read_text()) for place in (tmp_path, committed))
    assert {**found, "command": ""} == {**expected, "command": ""}
    pages = [(place / "tables.md").read_text().splitlines() for place in (tmp_path, committed)]
    ours, theirs = ([line for line in page if line.startswith("| ") and "--" not in line] for page in pages)
    assert ours == theirs


def test_shares_and_distances_are_those_worked_out_by_hand() -> None:
    """Wilson's interval of 5 in 10, and two shares a known number of standard errors apart."""
    assert lama_tables.share(5, 10) == {"value": 0.5, "ci": [0.23659, 0.76341], "n": 10}
    ours = {"value": 0.6, "n": 100}  # pooled 0.5, standard error sqrt(0.25 * 2 / 100)
    assert lama_tables.distance_of_shares(ours, 0.4, 100) == pytest.approx(0.2 / 0.005**0.5, abs=0.01)
    scores = np.array([[3, 1, 1], [0, 5, 9]], np.int32)
    assert lama_tables.winners(scores).tolist() == [[False, True, True], [True, False, False]]
