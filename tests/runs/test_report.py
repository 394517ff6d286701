"""`python -m muzero.report`: what it says of made-up runs, worked out by hand, and what it refuses."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muzero import stats
from muzero.runs import report
from muzero.runs.report import Run, looks, main, number, summary

BOTS = ("stone", "paper")
CURVES = ("figure3_losses", "figure4_outcome_heads", "figure5_win_rate", "figure7_diagnostics", "win_rate_by_bot")
CURVES += ("win_rate_in_training",)


def result(rate: float, games: int = 50) -> dict[str, float]:
    return {
        "win_rate": rate,
        "games": games,
        "score_difference": 100 * rate - 50,
        "length": 200.0,
        "truncated": 0.02 * rate,
    }


def record(iteration: int, *, evaluated: bool, heads: bool) -> dict[str, Any]:
    """The first one has no losses: the replay was warming up."""
    losses = {
        "total": 8 / iteration,
        "policy": 1.0,
        "value": 2.0,
        "reward": 0.5,
        "gradient": 3.0,
        "reconstruction": 0.0,
    }
    losses |= {"winner": 1 / iteration, "rank": 0.9} if heads else {"winner": 0.0, "rank": 0.0}
    out: dict[str, Any] = {
        "iteration": iteration,
        "losses": losses if iteration > 1 else {},
        "diagnostics": {"games": 10 * iteration, "policy_entropy": 0.4 if iteration != 3 else None},
    }
    if iteration > 1:  # at first nobody has been met
        out["diagnostics"] |= {"win_rate_stone": 0.3, "win_rate_paper": 0.1 * iteration}
    if evaluated:
        bins = {"predicted": [0.2, 0.7], "won": [0.1, 0.8], "count": [30, 10]}
        rates = {"stone": iteration / 10, "paper": iteration / 20, "extra": 1.0}
        out |= {"evaluation": {bot: result(rate) for bot, rate in rates.items()}}
        out |= {"calibration": {"brier": 0.2, "brier_of_the_mean": 0.25, "reliability": bins}} if heads else {}
    return out


def make_run(
    place: Path,
    *,
    variant: str = "belief",
    seed: int = 0,
    iterations: int = 6,
    every: int = 2,
    heads: bool = True,
    clock: bool = True,
    players: int = 2,
) -> Path:
    """A run directory; iteration i ends after i minutes."""
    place.mkdir(parents=True)
    bots = ", ".join(BOTS)
    config = f"variant: {variant}\nseed: {seed}\ngame:\n  players: {players}\n  bots: [{bots}]\n"
    (place / "config.yaml").write_text(config)
    records = [record(i, evaluated=bool(every) and i % every == 0, heads=heads) for i in range(1, iterations + 1)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    if clock:
        (place / "timings.jsonl").write_text("".join(f'{{"elapsed": {60 * i}}}\n' for i in range(1, iterations + 1)))
    return place


def files(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def plots(*names: str) -> set[str]:
    return {f"{name}.{kind}" for name in names for kind in ("png", "svg")}


# ---- what is written -------------------------------------------------------------------------------------------------


def test_everything_is_written_and_the_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    belief = make_run(tmp_path / "a", variant="belief")
    baseline = make_run(tmp_path / "b", variant="baseline", seed=3, heads=False)
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        assert main([str(belief), str(baseline), "--out", str(out), "--window", "3"]) == 0
    drawn = [*CURVES, *(f"{name}_by_time" for name in CURVES), "reliability"]
    assert files(first) == {"report.md", "report.json", *plots(*drawn)}
    for name in plots(*drawn):
        content = (first / name).read_bytes()
        assert content == (second / name).read_bytes(), name
        assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
    svg = {name: (first / f"{name}.svg").read_text() for name in drawn}
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
    page = (first / "report.md").read_text()
    assert all(f"({name}.png)" in page for name in drawn)
    assert "--window 3" in page
    assert str(first) in capsys.readouterr().out


def test_the_table_by_hand(tmp_path: Path) -> None:
    """At iteration 6 the rates are 0.6 and 0.3: mean 0.45 in 100 games; `extra` is not of the curriculum."""
    run = make_run(tmp_path / "run", seed=7)
    assert main([str(run), "--out", str(tmp_path / "out")]) == 0
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    (row,) = content["runs"]
    interval = stats.wilson(45, 100)
    assert row["mean_win_rate"] == pytest.approx({"rate": 0.45, "low": interval.low, "high": interval.high})
    assert row["win_rates"]["stone"]["low"] == pytest.approx(stats.wilson(30, 50).low)
    assert list(row["win_rates"]) == ["stone", "paper", "extra"]
    assert row["score_difference"] == pytest.approx(-5)
    assert row["truncated"] == pytest.approx(0.009)
    expected = {"variant": "belief", "seed": 7, "iterations": 6, "games": 60, "minutes": 6, "evaluated_at": 6}
    expected |= {"length": 200, "brier": 0.2}
    assert {key: row[key] for key in expected} == expected
    page = (tmp_path / "out" / "report.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith(f"| `{run}`"))
    assert f"| belief | 7 | 6 | 60 | 6.0 | 6 | 0.450 [{interval.low:.3f}, {interval.high:.3f}] | -5.0 |" in line


def test_the_last_evaluation_counts_not_the_last_iteration(tmp_path: Path) -> None:
    row = summary(Run.read(make_run(tmp_path / "run", iterations=7)))
    assert (row["iterations"], row["evaluated_at"]) == (7, 6)
    assert row["mean_win_rate"] is not None
    assert row["mean_win_rate"]["rate"] == pytest.approx(0.45)


def test_what_a_young_run_does_not_have_is_left_out(tmp_path: Path) -> None:
    """One iteration, nothing learned, nothing evaluated, no clock: only the entropy can be drawn."""
    run = make_run(tmp_path / "run", iterations=1, every=0, clock=False)
    assert main([str(run)]) == 0
    out = run / "report"  # the default
    assert files(out) == {"report.md", "report.json", *plots("figure7_diagnostics")}
    (row,) = json.loads((out / "report.json").read_text())["runs"]
    assert row["minutes"] is row["mean_win_rate"] is row["brier"] is row["length"] is None
    assert row["win_rates"] == {}
    assert "| - | - | - |" in (out / "report.md").read_text()


def test_runs_of_different_age_and_size_share_plots(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "old"), make_run(tmp_path / "young", seed=1, iterations=1, every=0, clock=False)]
    runs.append(make_run(tmp_path / "three", seed=2, players=3))
    assert main([*map(str, runs), "--out", str(tmp_path / "out")]) == 0
    assert "seed 1" not in (tmp_path / "out" / "figure3_losses.svg").read_text()
    assert "seed 1" in (tmp_path / "out" / "figure7_diagnostics.svg").read_text()


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_points_skip_what_is_unknown(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", iterations=4))
    x, y = run.points("iteration", number("losses", "total"))
    np.testing.assert_allclose((x, y), ([2, 3, 4], [4, 8 / 3, 2]))
    x, _ = run.points("minutes", number("diagnostics", "policy_entropy"))
    np.testing.assert_allclose(x, [1, 2, 4])  # null at 3


def test_a_clock_that_is_behind_or_lost_lines(tmp_path: Path) -> None:
    place = make_run(tmp_path / "run", iterations=4)
    (place / "timings.jsonl").write_text('{"elapsed": 30}\n{}\n{"elapsed": 90}\n{"elap')
    np.testing.assert_array_equal(Run.read(place).minutes, [0.5, math.nan, 1.5, math.nan])
    assert summary(Run.read(place))["minutes"] == 1.5


def test_a_half_written_line_is_not_there_yet(tmp_path: Path) -> None:
    place = make_run(tmp_path / "run", iterations=3)
    with open(place / "metrics.jsonl", "a") as file:
        file.write('{"iteration": 4, "los')
    assert len(Run.read(place).records) == 3


def test_the_mean_needs_all_of_the_curriculum(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run"))
    assert run.win_rate({"evaluation": {"stone": result(0.5)}}) is None
    assert run.win_rate({"evaluation": {"stone": result(0.5)}}, "stone") is not None
    assert run.win_rate({}) is None


def test_the_fair_share_is_drawn(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", players=4))
    figure = report.win_rates([run], "iteration", [None])
    assert figure is not None
    (axes,) = figure.axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [list(np.asarray(line.get_ydata())) for line in dashed] == [[0.25, 0.25]]
    (curve,) = [line for line in axes.lines if line.get_linestyle() != "--"]
    np.testing.assert_allclose(np.asarray(curve.get_ydata()), [0.15, 0.3, 0.45])


def test_rolling_means_are_bold_and_raw_values_light(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", iterations=4))
    figure = report.curves([run], "iteration", 2, {"loss": number("losses", "total")})
    assert figure is not None
    raw, rolling = figure.axes[0].lines
    assert (raw.get_alpha() or 1) < 0.5
    assert raw.get_linewidth() < rolling.get_linewidth()
    np.testing.assert_allclose(np.asarray(raw.get_ydata()), [4, 8 / 3, 2])
    np.testing.assert_allclose(np.asarray(rolling.get_ydata()), [4, 10 / 3, 7 / 3])


def test_runs_are_told_apart(tmp_path: Path) -> None:
    """By colour for the variant and dashes for the seed; those that share both by their directories."""
    places = [("a", "belief", 0), ("b", "belief", 1), ("c", "baseline", 0), ("d", "flat", 0), ("e", "flat", 0)]
    runs = [Run.read(make_run(tmp_path / name, variant=variant, seed=seed)) for name, variant, seed in places]
    drawn = looks(runs)
    assert [look.label for look in drawn[:3]] == ["belief, seed 0", "belief, seed 1", "baseline, seed 0"]
    assert [look.label for look in drawn[3:]] == ["flat (d), seed 0", "flat (e), seed 0"]
    assert drawn[0].color == drawn[1].color != drawn[2].color
    assert drawn[0].dashes == drawn[2].dashes != drawn[1].dashes
    assert len({(look.color, str(look.dashes)) for look in drawn}) == 5


# ---- refusals --------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = make_run(tmp_path / "good")
    assert "nowhere: expected a run directory" in refused(capsys, good, tmp_path / "nowhere", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty").mkdir()
    assert "config.yaml" in refused(capsys, tmp_path / "empty")
    (good / "metrics.jsonl").unlink()
    assert "no metrics.jsonl" in refused(capsys, good)


def test_a_run_without_metrics_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_run(tmp_path / "run")
    (place / "metrics.jsonl").write_text("")
    assert "no iteration is done yet" in refused(capsys, place)


@pytest.mark.parametrize("text", ["seed: 1\n", "- 1\n", "a: [", "variant: x\nseed: 0\ngame: 3\n"])
def test_another_configuration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    place = make_run(tmp_path / "run")
    (place / "config.yaml").write_text(text)
    assert f"{place / 'config.yaml'}: not the configuration of a run" in refused(capsys, place)


def test_broken_metrics_are_refused_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_run(tmp_path / "run")
    lines = (place / "metrics.jsonl").read_text().splitlines()
    (place / "metrics.jsonl").write_text("\n".join([lines[0], "{", *lines[2:]]) + "\n")
    assert "metrics.jsonl, line 2" in refused(capsys, place)


def test_bad_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_run(tmp_path / "run")
    assert "window: expected 1 or more, got 0" in refused(capsys, place, "--window", "0")
    assert "the same one twice" in refused(capsys, place, f"{place}/../run")
    assert not (place / "report").exists()


def test_help_explains() -> None:
    command = [sys.executable, "-m", "muzero.report", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "120"})
    for word in ("RUN", "--out", "--window", *CURVES, "reliability", "report.md"):
        assert word in done.stdout
