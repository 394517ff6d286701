"""Table sizes: one agent among bots, at all sizes that a run was trained for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.experiments.untrained_runs import ONE, make_run, run_script


def test_each_run_plays_at_its_table_size_in_every_seat(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run_script("table_sizes", tmp_path, "--runs", runs["three"], runs["eight"], runs["belief0"], *ONE)
    assert [(row["players"], row["games"]) for row in found["rows"]] == [(2, 8), (3, 12), (8, 16)], "whole deals"
    assert found["rows"][1]["fair_share"] == pytest.approx(1 / 3)


def test_a_run_trained_for_several_sizes_plays_at_all_or_the_chosen_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = make_run(tmp_path / "mixed", "belief", players=4, also=(2, 3))
    found = run_script("table_sizes", tmp_path / "all", "--runs", mixed, "--bots", "naive", *ONE)
    assert [(row["players"], row["games"]) for row in found["rows"]] == [(2, 4), (3, 6), (4, 4)]
    chosen = run_script("table_sizes", tmp_path / "chosen", "--runs", mixed, "--bots", "naive", "--players", 3, *ONE)
    assert [row["by_deal"] for row in chosen["matches"]] == [found["matches"][1]["by_deal"]]
    script = import_module("experiments.table_sizes")
    assert script.main(["--runs", str(mixed), "--players", "5", "--out", str(tmp_path)]) == 2
    assert "--players: expected sizes that runs were trained for (2, 3, 4), got 5" in capsys.readouterr().err
    assert script.main(["--runs", str(mixed), "--players", "3", "3", "--out", str(tmp_path)]) == 2
    assert "expected every match once" in capsys.readouterr().err
    two = make_run(tmp_path / "two", "belief")
    some = run_script("table_sizes", tmp_path / "some", "--runs", mixed, two, "--bots", "naive", "--players", 3, *ONE)
    assert [row["run"] for row in some["matches"]] == [str(mixed)], "the other run was not trained for that size"
