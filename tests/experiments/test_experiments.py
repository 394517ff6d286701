"""The scripts in experiments/: they run, write what they promise, and agree with published numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import env
from experiments import lama_tables, skipbo_duels, skyjo_thresholds

ROOT = Path(__file__).resolve().parent.parent.parent
PUBLISHED = json.loads((ROOT / "experiments" / "data" / "skyjo_thresholds.json").read_text())

# ---------------------------------------------------------------------------------------------- bench_env


@pytest.mark.parametrize("game", env.games())
def test_bench_env_writes_its_numbers(game: str, tmp_path: Path) -> None:
    """Run from the root; every rate is positive and no median is above its best."""
    target = tmp_path / "bench.json"
    options = ["--game", game, "--seconds", "0.05", "--json", str(target)]
    command = [sys.executable, "experiments/bench_env.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "x oracle" in done.stdout

    report = json.loads(target.read_text())
    for name in ("rules", "obs", "python_1", "python_1024", "python_8192", "all_cores", "oracle"):
        assert 0 < report[f"{name}_steps_per_s"] <= report[f"{name}_steps_per_s_best"]
    assert report["bytes_per_table"] == env.make(game).info.state_bytes
    assert {"cpu", "cores", "python", "command"} <= report.keys()
    assert not any(isinstance(value, dict | list) for value in report.values())


def test_bench_search_writes_its_numbers(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    command = [sys.executable, "experiments/bench_search.py", "--quick", "--seconds", "0.05", "--json", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    for name in ("tiny_b1024_sims_per_s", "tiny_flat_b1024_sims_per_s", "tree_us_per_level", "sgemm_gflops"):
        assert report[name] > 0
    assert not any(isinstance(value, dict | list) for value in report.values())


@pytest.mark.slow
def test_bench_training_writes_its_numbers(tmp_path: Path) -> None:
    """Every stage of both presets, in small; what was projected is the sum of its parts."""
    target = tmp_path / "bench.json"
    command = [sys.executable, "experiments/bench_training.py", "--quick", "--seconds", "0.1", "--threads", "1"]
    command += ["--json", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    headlines = ("learner_efficiency", "selfplay_efficiency", "paper_iteration_s", "cpu_games_per_s")
    for name in (*headlines, "ray_scaling_1_to_2"):
        assert report[name] > 0
        assert name in done.stdout
    assert report["learner_efficiency"] == min(report["cpu_learner_efficiency"], report["paper_learner_efficiency"])
    parts = report["paper_iteration_selfplay_s"], report["paper_iteration_learner_s"]
    assert report["paper_iteration_s"] == pytest.approx(sum(parts))
    assert report["paper_iteration_learner_s"] * report["paper_learner_steps_per_s"] == pytest.approx(4)
    assert report["paper_decisions_per_game"] > 100  # whole matches
    assert not any(isinstance(value, dict | list) for value in report.values())


# --------------------------------------------------------------------------------------- skyjo_thresholds


def test_thresholds_writes_its_files(tmp_path: Path) -> None:
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
def test_threshold_means_agree_with_the_printed_program(t: int) -> None:
    """At 9 the paper's table, which its program does not reproduce, is far away from both."""
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
def test_all_thresholds_agree_with_the_printed_program_at_200_000_games(t: int) -> None:
    tables = env.make("skyjo", 1, 2, rules="reichel", seed=1, threads=2)
    bot = tables.bot(f"threshold(t={t})")
    ours = skyjo_thresholds.summarize(tables.play([bot, bot], 200_000, seed=1).scores, 1, np.random.default_rng(1))
    (line,) = [line for line in PUBLISHED["printed_code"]["rows"] if line[0] == t]
    assert abs(skyjo_thresholds.distance(ours, line[1], line[2], PUBLISHED["games"])) < 4


def test_the_committed_study_is_what_the_script_gives(tmp_path: Path) -> None:
    skyjo_thresholds.main(["--out", str(tmp_path)])
    committed = json.loads((ROOT / "experiments/results/skyjo_thresholds/thresholds.json").read_text())
    again = json.loads((tmp_path / "thresholds.json").read_text())
    for report in (committed, again):
        del report["command"]
    assert committed == again


def test_summary_by_hand() -> None:
    """Games (1, 3), (5, 7): mean 4, variance (9 + 1 + 1 + 9) / 3; the game means 2, 6 have variance 8."""
    scores = np.array([[1, 3], [5, 7]], np.int32)
    row = skyjo_thresholds.summarize(scores, 100, np.random.default_rng(0))
    assert row["mean"] == 4
    assert row["std"] == pytest.approx((20 / 3) ** 0.5, abs=1e-4)
    assert row["standard_error"] == 2
    assert row["n"] == 4


def test_distance_by_hand() -> None:
    """Standard errors 3 and 4 are 5 together; games that do not depend on each other change nothing."""
    ours = {"mean": 30.0, "std": 30.0, "n": 100, "standard_error": 3.0}
    assert skyjo_thresholds.distance(ours, mean=20.0, std=40.0, games=50) == 2
    twice = {**ours, "std": 15.0}  # by game twice the error that single scores would have
    assert skyjo_thresholds.distance(twice, mean=20.0, std=20.0, games=50) == 2


def test_interval_covers_what_theory_says() -> None:
    """For many values the bootstrap interval is the mean +- 1.96 standard errors."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 60, 10_000)
    low, high = skyjo_thresholds.interval_of_mean(values, 20_000, rng)
    half = 1.96 * values.std() / 100
    assert [low, high] == pytest.approx([values.mean() - half, values.mean() + half], abs=0.02)
    assert skyjo_thresholds.interval_of_mean(np.full(9, 5), 10, rng) == [5, 5]


# --------------------------------------------------------------------------------------------- lama_tables


def test_lama_tables_are_written_twice_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        lama_tables.main(["--games", "400", "--figure-games", "8", "--out", str(out)])
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


def test_lama_agrees_with_the_published_tables() -> None:
    """72 numbers. The third strategy is better than the first, but less than published, in any reading of the rules."""
    published = json.loads((ROOT / "experiments" / "data" / "lama_tables.json").read_text())
    result = lama_tables.study(20_000, 4, 3, published)
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
def test_the_committed_tables_are_what_the_script_gives(tmp_path: Path) -> None:
    lama_tables.main(["--out", str(tmp_path)])
    for name in ("tables.json", "tables.md"):
        committed = ROOT / "experiments" / "results" / "lama_tables" / name
        assert (tmp_path / name).read_bytes() == committed.read_bytes()


def test_shares_by_hand() -> None:
    """Wilson's interval of 5 in 10, and two shares a known number of standard errors apart."""
    assert lama_tables.share(5, 10) == {"value": 0.5, "ci": [0.23659, 0.76341], "n": 10}
    ours = {"value": 0.6, "n": 100}  # pooled 0.5, standard error sqrt(0.25 * 2 / 100)
    assert lama_tables.distance_of_shares(ours, 0.4, 100) == pytest.approx(0.2 / 0.005**0.5, abs=0.01)
    scores = np.array([[3, 1, 1], [0, 5, 9]], np.int32)
    assert lama_tables.winners(scores).tolist() == [[False, True, True], [True, False, False]]


# --------------------------------------------------------------------------------------------- skipbo_duels


def test_skipbo_duels_are_written_twice_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        skipbo_duels.main(["--difference", "0.2", "--out", str(out), "--csv", str(tmp_path / f"{out.name}.csv")])
    for name in ("duels.json", "duels.md"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert (first / "duels.png").stat().st_size > 10_000
    lines = (tmp_path / "first.csv").read_text()
    assert lines == (tmp_path / "second.csv").read_text()

    report = json.loads((first / "duels.json").read_text())
    deals, bots = report["deals"], skipbo_duels.BOTS
    assert len(report["duels"]) == len(bots) * (len(bots) - 1) // 2
    assert len(lines.splitlines()) == 1 + 2 * deals * len(report["duels"])
    assert set(bots) == set(env.make("skipbo").bots) == {row["bot"] for row in report["ladder"]}
    for row in report["duels"]:
        assert row["wins"] + row["draws"] + row["losses"] == row["n"] == 2 * deals
        for low, high in (row["wilson"], row["clopper_pearson"]):
            assert low <= row["rate"] <= high
            assert low < high
        assert row["p_holm"] >= row["p"]
    for row in report["seats"]:
        assert sum(seat["rate"] for seat in row["seats"]) == pytest.approx(1, abs=1e-4)
    assert [row["players"] for row in report["seats"]] == [2, 3, 4, 5, 6]


def test_the_number_of_skipbo_deals_is_a_power_analysis() -> None:
    """By hand: z of 0.05 / 56 / 2 is 3.322, of 0.8 0.842; two games per deal."""
    z, power = 3.3224, 0.8416
    games = (z / 2 + power * (0.51 * 0.49) ** 0.5) ** 2 / 0.01**2
    assert skipbo_duels.deals_wanted(0.01) == pytest.approx(games / 2, rel=1e-3)


def test_a_skipbo_duel_by_hand() -> None:
    """Two deals: a wins both games of the first, the second is a draw and a loss."""
    games = skipbo_duels.Duel(
        points=np.array([1, 1, 0.5, 0]),
        turns=np.array([11, 21, 0, 31], np.int32),
        deadlocks=np.array([False, False, True, False]),
        completed=np.array([1, 2, 3, 4], np.int32),
        decisions=np.array([100, 200, 300, 400], np.int32),
    )
    row = skipbo_duels.summarize("x", "y", games)
    assert (row["rate"], row["wins"], row["draws"], row["losses"]) == (0.625, 2, 1, 1)
    assert row["rounds_a"] == {"median": 15, "iqr": [12.5, 17.5], "mean": 15, "wins": 2}
    assert row["rounds_b"] == {"median": 30, "iqr": [30, 30], "mean": 30, "wins": 1}
    assert (row["deadlocks"], row["start"], row["turns_effect"]) == (0.25, 0.25, 0)
    assert skipbo_duels.correct([row]) == 2
    assert row["p_holm"] == 1
