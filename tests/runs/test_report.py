"""`python -m muzero.report`: tables of made-up runs worked out by hand, the files that are written, and refusals."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from muzero import stats
from muzero.runs.report import main, markdown, summary
from muzero.runs.run import Run
from tests.runs.made_up_run import BOTS, make_run

CURVES = ("figure3_losses", "figure4_outcome_heads", "figure5_win_rate", "figure7_diagnostics", "win_rate_by_bot")
CURVES += ("win_rate_in_training",)


def files(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def plots(*names: str) -> set[str]:
    return {f"{name}.{kind}" for name in names for kind in ("png", "svg")}


def test_all_plots_and_tables_of_two_runs_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    belief = make_run(tmp_path / "a", variant="belief")
    baseline = make_run(tmp_path / "b", variant="baseline", seed=3, heads=False)
    out = tmp_path / "out"
    assert main([str(belief), str(baseline), "--out", str(out), "--smooth", "3"]) == 0
    drawn = [*CURVES, *(f"{name}_by_time" for name in CURVES), "reliability"]
    assert files(out) == {"report.md", "report.json", *plots(*drawn)}
    for name in plots(*drawn):
        assert (out / name).read_bytes().startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
    svg = {name: (out / f"{name}.svg").read_text() for name in drawn}
    assert all("belief, seed 0" in text for text in svg.values())
    for name in drawn:  # the baseline has no winner head
        assert ("baseline, seed 3" in svg[name]) == (not name.startswith(("figure4", "reliability"))), name
    for panel in ("total loss", "policy loss", "value loss", "reward loss"):
        assert panel in svg["figure3_losses"]
    assert "reconstruction loss" not in svg["figure3_losses"]  # 0 in both
    assert "winner head loss" in svg["figure4_outcome_heads"]
    assert "gradient norm" in svg["figure7_diagnostics"]
    assert "policy entropy" in svg["figure7_diagnostics"]
    assert "minutes" in svg["figure5_win_rate_by_time"]
    for bot in (*BOTS, "extra"):
        assert bot in svg["win_rate_by_bot"]
        assert (f"games against {bot}" in svg["win_rate_in_training"]) == (bot != "extra")
    page = (out / "report.md").read_text()
    assert all(f"({name}.png)" in page for name in drawn)
    assert "--smooth 3" in page
    assert str(out) in capsys.readouterr().out


def test_the_table_has_the_numbers_worked_out_by_hand(tmp_path: Path) -> None:
    """At iteration 6 the rates are 0.6 and 0.3: mean 0.45 in 100 games; `extra` is not in the curriculum."""
    run = make_run(tmp_path / "run", seed=7)
    row = summary(Run.read(run))
    interval = stats.wilson(45, 100)
    assert row["mean_win_rate"] == pytest.approx({"rate": 0.45, "low": interval.low, "high": interval.high})
    assert row["win_rates"]["stone"]["low"] == pytest.approx(stats.wilson(30, 50).low)
    assert list(row["win_rates"]) == ["stone", "paper", "extra"]
    assert row["score_difference"] == pytest.approx(-5)
    assert row["truncated"] == pytest.approx(0.009)
    expected = {"variant": "belief", "seed": 7, "iterations": 6, "games": 60, "minutes": 6, "evaluated_at": 6}
    expected |= {"length": 200, "brier": 0.2}
    assert {key: row[key] for key in expected} == expected
    page = markdown([row], [], "command", 20)
    line = next(line for line in page.splitlines() if line.startswith(f"| `{run}`"))
    assert f"| belief | 7 | 6 | 60 | 6.0 | 6 | 0.450 [{interval.low:.3f}, {interval.high:.3f}] | -5.0 |" in line


def test_strength_is_that_of_the_last_evaluation_not_of_the_last_iteration(tmp_path: Path) -> None:
    row = summary(Run.read(make_run(tmp_path / "run", iterations=7)))
    assert (row["iterations"], row["evaluated_at"]) == (7, 6)
    assert row["mean_win_rate"] is not None
    assert row["mean_win_rate"]["rate"] == pytest.approx(0.45)


def test_a_report_leaves_out_what_a_run_lacks_and_has_the_same_bytes_again(tmp_path: Path) -> None:
    """One iteration without losses, evaluation and clock: only the entropy can be drawn."""
    run = make_run(tmp_path / "run", iterations=1, every=0, clock=False)
    assert main([str(run)]) == 0
    out = run / "report"  # the default
    assert files(out) == {"report.md", "report.json", *plots("figure7_diagnostics")}
    (row,) = json.loads((out / "report.json").read_text())["runs"]
    assert row["minutes"] is row["mean_win_rate"] is row["brier"] is row["length"] is None
    assert row["win_rates"] == {}
    assert "| - | - | - |" in (out / "report.md").read_text()
    before = {name: (out / name).read_bytes() for name in files(out)}
    assert main([str(run)]) == 0
    assert {name: (out / name).read_bytes() for name in files(out)} == before


# ---- refusals --------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err


def test_directories_that_are_no_runs_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = make_run(tmp_path / "good")
    assert "nowhere: expected a run directory" in refused(capsys, good, tmp_path / "nowhere", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty").mkdir()
    assert "config.yaml" in refused(capsys, tmp_path / "empty")
    (good / "metrics.jsonl").unlink()
    assert "no metrics.jsonl" in refused(capsys, good)


def test_a_run_without_an_iteration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_run(tmp_path / "run")
    (place / "metrics.jsonl").write_text("")
    assert "no iteration is done yet" in refused(capsys, place)


def test_broken_metrics_are_refused_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_run(tmp_path / "run")
    lines = (place / "metrics.jsonl").read_text().splitlines()
    (place / "metrics.jsonl").write_text("\n".join([lines[0], "{", *lines[2:]]) + "\n")
    assert "metrics.jsonl, line 2" in refused(capsys, place)


def test_bad_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_run(tmp_path / "run")
    assert "--smooth: expected 1 or more, got 0" in refused(capsys, place, "--smooth", "0")
    assert "the same one twice" in refused(capsys, place, f"{place}/../run")
    assert not (place / "report").exists()


def test_the_command_explains_its_options_and_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["muzero.report", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("muzero.report", run_name="__main__")
    assert end.value.code == 0
    shown = capsys.readouterr().out
    for word in ("RUN", "--out", "--smooth", *CURVES, "reliability", "report.md"):
        assert word in shown


def test_table_sizes_of_a_mixed_run_have_their_own_win_rates_and_scores(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", mixed=(2, 3))
    lines = (run / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    groups = {name: last[name] for name in ("evaluation", "calibration")}
    smaller = {**groups, "calibration": {**groups["calibration"], "brier": 0.125}}
    last["by_players"] = {"2": groups, "3": smaller}
    (run / "metrics.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    found = summary(Run.read(run))
    assert found["by_players"]["3"] == {"mean_win_rate": found["mean_win_rate"], "brier": 0.125}
    page = markdown([found], [], "command", 1)
    assert "| mean win rate, 2 players | mean win rate, 3 players | Brier, 2 players | Brier, 3 players |" in page
    assert "0.200 | 0.125 |" in page
    alone = markdown([{**found, "by_players": {}}], [], "command", 1)
    assert "2 players" not in alone
