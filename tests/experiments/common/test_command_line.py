"""Command lines of experiments: where results go, and that results of record are only replaced when asked to."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from experiments import arena_levels, bench_env, lama_tables, skipbo_duels, skyjo_thresholds
from experiments.common import RESULTS, add_json_options, add_output_options, make_parser, run_experiment

ROOT = Path(__file__).resolve().parents[3]


def output(*arguments: str) -> Path:
    parser = argparse.ArgumentParser()
    add_output_options(parser, "some")
    found: Path = parser.parse_args(arguments).out
    return found


def test_results_go_to_runs_where_they_are_told_or_to_the_record() -> None:
    assert output() == Path("runs/experiments/some")
    assert output("--out", "x/y") == Path("x/y")
    assert output("--record") == ROOT / "experiments" / "results" / "some"
    with pytest.raises(SystemExit):
        output("--record", "--out", "x")


def test_the_figures_of_a_benchmark_go_to_the_file_that_was_named_last() -> None:
    parser = argparse.ArgumentParser()
    add_json_options(parser, "bench_some")
    assert parser.parse_args([]).json is None
    assert parser.parse_args(["--json", "a.json"]).json == Path("a.json")
    assert parser.parse_args(["--json", "a.json", "--record"]).json == RESULTS / "bench_some.json"


def test_an_experiment_writes_to_its_own_directory_in_runs_by_default() -> None:
    given = []

    def experiment(options: argparse.Namespace, command: str) -> None:
        given.append((options.out, command))

    assert run_experiment(make_parser("text"), experiment, ["--games", "3"]) == 0
    name = Path(__file__).stem
    assert given == [(Path("runs/experiments") / name, f"python -m experiments.{name} --games 3")]


def test_a_short_experiment_does_not_change_results_of_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in RESULTS.rglob("*")}
    monkeypatch.chdir(tmp_path)
    skyjo_thresholds.main(["--games", "30", "--bootstrap", "5"])
    made = tmp_path / "runs" / "experiments" / "skyjo_thresholds"
    kinds = {f"thresholds.{kind}" for kind in ("json", "md", "png", "svg")}
    assert {path.name for path in made.iterdir()} == {"provenance.json", *kinds}
    assert {path: path.stat().st_mtime_ns for path in RESULTS.rglob("*")} == before


@pytest.mark.parametrize("script", [arena_levels, bench_env, lama_tables, skipbo_duels, skyjo_thresholds])
def test_the_record_is_an_option(script: object, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        script.main(["--help"])  # type: ignore[attr-defined]
    assert end.value.code == 0
    assert "--record" in capsys.readouterr().out


def test_make_bench_writes_to_runs_unless_told_to_record() -> None:
    done = subprocess.run(["make", "-n", "bench", "bench-gpu"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert '--json "runs/bench/' in done.stdout
    assert "--json runs/bench/gpu_first_look.json" in done.stdout
    assert "--json experiments/results" not in done.stdout
    assert '--json "experiments/results' not in done.stdout
