"""Threshold study of Skyjo: files, committed results, and agreement with the published program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import env
from experiments import skyjo_thresholds

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = json.loads((ROOT / "experiments" / "data" / "skyjo_thresholds.json").read_text())


def test_files_have_every_threshold_and_the_same_bytes_again(tmp_path: Path) -> None:
    """Three files, a row for every threshold beside the published ones, and the same bytes again."""
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        skyjo_thresholds.main(["--games", "400", "--bootstrap", "50", "--out", str(out)])
    assert (first / "thresholds.png").read_bytes().startswith(b"\x89PNG")
    for name in ("thresholds.json", "thresholds.md"):
        assert (first / name).read_bytes() == (second / name).read_bytes()

    report = json.loads((first / "thresholds.json").read_text())
    for strategy in ("threshold", "column_threshold"):
        assert [row["threshold"] for row in report[strategy]] == list(range(-2, 13))
    for row in [*report["threshold"], *report["column_threshold"], report["naive"]]:
        assert row["n"] == 800
        assert row["ci"][0] < row["mean"] < row["ci"][1]
        assert row["ci_by_game"][0] < row["mean"] < row["ci_by_game"][1]
    for name in skyjo_thresholds.PUBLISHED:
        means = [row[name]["mean"] for row in report["threshold"]]
        assert means == [line[1] for line in PUBLISHED[name]["rows"]]

    page = (first / "thresholds.md").read_text()
    for t, mean, *_ in PUBLISHED["printed_table"]["rows"]:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {t} |")]
        assert f" {mean:.2f} " in line


@pytest.mark.parametrize("t", [-2, 2, 9])
def test_means_agree_with_the_published_program(t: int) -> None:
    """At t = 9 the paper's table differs from its own program, and from ours."""
    tables = env.make("skyjo", 1, 2, rules="reichel", seed=7, threads=2)
    bot = tables.bot(f"threshold(t={t})")
    records = tables.play([bot, bot], 20_000, seed=7)
    ours = skyjo_thresholds.summarize(records.scores, 1, np.random.default_rng(7))
    assert not records.truncated.any()

    def z(name: str) -> float:
        (line,) = [line for line in PUBLISHED[name]["rows"] if line[0] == t]
        return skyjo_thresholds.distance(ours, line[1], line[2], PUBLISHED["games"])

    assert abs(z("printed_code")) < 4
    assert (abs(z("printed_table")) < 4) == (t <= 2)


@pytest.mark.slow
@pytest.mark.parametrize("t", range(-2, 13))
def test_all_means_agree_with_the_published_program_at_200_000_games(t: int) -> None:
    tables = env.make("skyjo", 1, 2, rules="reichel", seed=1, threads=2)
    bot = tables.bot(f"threshold(t={t})")
    ours = skyjo_thresholds.summarize(tables.play([bot, bot], 200_000, seed=1).scores, 1, np.random.default_rng(1))
    (line,) = [line for line in PUBLISHED["printed_code"]["rows"] if line[0] == t]
    assert abs(skyjo_thresholds.distance(ours, line[1], line[2], PUBLISHED["games"])) < 4


def test_the_committed_results_are_those_of_the_script(tmp_path: Path) -> None:
    skyjo_thresholds.main(["--out", str(tmp_path)])
    committed = json.loads((ROOT / "experiments/results/skyjo_thresholds/thresholds.json").read_text())
    again = json.loads((tmp_path / "thresholds.json").read_text())
    for report in (committed, again):
        del report["command"]
    assert committed == again


def test_the_summary_has_the_numbers_worked_out_by_hand() -> None:
    """Games (1, 3), (5, 7): mean 4, variance (9 + 1 + 1 + 9) / 3; the game means 2, 6 have variance 8."""
    scores = np.array([[1, 3], [5, 7]], np.int32)
    row = skyjo_thresholds.summarize(scores, 100, np.random.default_rng(0))
    assert row["mean"] == 4
    assert row["std"] == pytest.approx((20 / 3) ** 0.5, abs=1e-4)
    assert row["standard_error"] == 2
    assert row["n"] == 4


def test_distances_are_those_worked_out_by_hand() -> None:
    """Standard errors 3 and 4 combine to 5; dependence within games scales both."""
    ours = {"mean": 30.0, "std": 30.0, "n": 100, "standard_error": 3.0}
    assert skyjo_thresholds.distance(ours, mean=20.0, std=40.0, games=50) == 2
    twice = {**ours, "std": 15.0}  # the error by game is twice that of independent scores
    assert skyjo_thresholds.distance(twice, mean=20.0, std=20.0, games=50) == 2


def test_the_bootstrap_interval_agrees_with_theory() -> None:
    """For many values the bootstrap interval is the mean +- 1.96 standard errors."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 60, 10_000)
    low, high = skyjo_thresholds.interval_of_mean(values, 20_000, rng)
    half = 1.96 * values.std() / 100
    assert [low, high] == pytest.approx([values.mean() - half, values.mean() + half], abs=0.02)
    assert skyjo_thresholds.interval_of_mean(np.full(9, 5), 10, rng) == [5, 5]
