"""Benchmarks: they run in small and write their numbers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import env
from experiments.bench_search import main as bench_search_main
from tests.forked import run_module


@pytest.mark.parametrize("game", env.games())
def test_bench_env_writes_its_numbers(game: str, tmp_path: Path) -> None:
    """Every rate is positive, and no median is above its best."""
    target = tmp_path / "bench.json"
    done = run_module("experiments.bench_env", "--game", game, "--seconds", "0.05", "--json", str(target))
    assert done.returncode == 0, done.stderr
    assert "x oracle" in done.stdout

    report = json.loads(target.read_text())
    for name in ("rules", "obs", "python_1", "python_1024", "python_8192", "all_cores", "oracle"):
        assert 0 < report[f"{name}_steps_per_s"] <= report[f"{name}_steps_per_s_best"]
    assert report["bytes_per_table"] == env.make(game).info.state_bytes
    assert {"cpu", "cores", "python", "command"} <= report.keys()
    assert not any(isinstance(value, dict | list) for name, value in report.items() if name != "provenance")


def test_bench_search_writes_its_numbers(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    done = run_module("experiments.bench_search", "--quick", "--seconds", "0.05", "--json", str(target))
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    for name in ("tiny_b64_sims_per_s", "tiny_flat_b64_sims_per_s", "tree_us_per_level", "sgemm_gflops"):
        assert report[name] > 0
    assert not any(isinstance(value, dict | list) for name, value in report.items() if name != "provenance")


def test_bench_paper_network_writes_its_numbers(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    done = run_module("experiments.bench_paper_network", "--quick", "--repetitions", "1", "--json", str(target))
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    for name in ("attention_fused_bf16_ms", "attention_plain_single_ms", "learner_all_tokens_s", "learner_bf16_s"):
        assert report[name] > 0
        assert name in done.stdout
    assert any(name.startswith("search_") and name.endswith("sims_per_s") for name in report)
    assert not any(isinstance(value, dict | list) for name, value in report.items() if name != "provenance")


def bench_search(tmp_path: Path, *options: str) -> tuple[dict[str, float], str]:
    """Figures and output of a comparison in small."""
    target = tmp_path / "bench.json"
    short = ["--quick", "--seconds", "0.1", "--rounds", "1", "--threads", "1", "--json", str(target)]
    done = run_module("experiments.bench_search", *short, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(target.read_text()), done.stdout


def test_bench_search_compares_a_busy_machine_with_an_idle_one(tmp_path: Path) -> None:
    report, _ = bench_search(tmp_path, "--busy")
    for algorithm in ("gumbel", "puct"):
        name = f"busy_tiny_{algorithm}_b8"
        share = report[f"{name}_busy_sims_per_s"] / report[f"{name}_idle_sims_per_s"]
        assert report[f"{name}_busy_share"] == pytest.approx(share)
        assert report["busy_share"] <= share


@pytest.mark.slow
def test_bench_search_compares_engines_and_names_those_that_are_missing(tmp_path: Path) -> None:
    report, told = bench_search(tmp_path, "--engine", "--no-compile")
    for engine in ("native", "eager"):
        assert report[f"engine_tiny_b8_{engine}_roots_per_s"] > 0
        assert report[f"engine_tiny_b8_{engine}_steps_per_s"] > 0
    assert "compiled: not measured: switched off by --no-compile" in told
    assert ("engine_tiny_b8_onnx_roots_per_s" in report) != ("onnx: not measured: onnx" in told)


@pytest.mark.slow
def test_bench_search_compares_with_mctx(tmp_path: Path) -> None:
    """The two networks compute the same, or the command would fail."""
    pytest.importorskip("mctx", reason="install the extra: pip install -c constraints.txt -e '.[mctx]'")
    report, told = bench_search(tmp_path, "--peer", "mctx", "--busy")
    assert "largest difference of the two networks' numbers" in told
    for condition in ("idle", "busy"):
        ratios = []
        for algorithm in ("gumbel", "puct"):
            name = f"peer_{algorithm}_b8_{condition}"
            ratios.append(report[f"{name}_sims_per_s"] / report[f"{name}_mctx_sims_per_s"])
            assert report[f"{name}_ratio"] == pytest.approx(ratios[-1])
            assert report[f"{name}_products_per_s"] > 0
            best = max(report[key] for key in (f"{name}_sims_per_s", f"{name}_bf16_sims_per_s") if key in report)
            assert report[f"{name}_best_ratio"] <= best / report[f"{name}_mctx_sims_per_s"] * 1.001
        assert report[f"peer_{condition}_ratio"] == pytest.approx(min(ratios))


def test_bench_search_names_the_extra_that_a_peer_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that is None in sys.modules cannot be imported, whether it is installed or not."""
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setattr(sys, "argv", ["bench_search", "--quick", "--threads", "1", "--peer", "mctx"])
    assert bench_search_main() == 2
    expected = r"error: --peer=mctx: jax is missing: .*belief-muzero\[mctx\].*\n"
    assert re.fullmatch(expected, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--busy", "--rounds", "0"), "error: --rounds: expected 1 or more, got 0"),
        (("--peer", "mctx", "--simulations", "0"), "error: --simulations: expected 1 or more, got 0"),
        (("--engine", "--busy"), "error: --engine: expected"),
    ],
)
def test_bench_search_refuses_bad_options_in_one_line(
    options: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_search", *options])
    assert bench_search_main() == 2
    error = capsys.readouterr().err
    assert error.startswith(told)
    assert error.count("\n") == 1


@pytest.mark.slow
def test_bench_training_compares_a_busy_machine_with_an_idle_one(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    short = ["--busy", "--quick", "--seconds", "0.4", "--rounds", "1", "--threads", "1", "--json", str(target)]
    done = run_module("experiments.bench_training", *short)
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    units = {"cpu_iterations": "per_s", "cpu_learner": "steps_per_s", "paper_learner": "steps_per_s"}
    shares = []
    for name, unit in units.items():
        shares.append(report[f"busy_{name}_busy_{unit}"] / report[f"busy_{name}_idle_{unit}"])
        assert report[f"busy_{name}_busy_share"] == pytest.approx(shares[-1])
    assert report["busy_share"] == pytest.approx(min(shares))


@pytest.mark.slow
def test_bench_training_writes_its_numbers(tmp_path: Path) -> None:
    """Every stage of both presets is measured, and the projection is the sum of its parts."""
    target = tmp_path / "bench.json"
    options = ["--quick", "--seconds", "0.1", "--threads", "1", "--json", str(target)]
    done = run_module("experiments.bench_training", *options)
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
    assert not any(isinstance(value, dict | list) for name, value in report.items() if name != "provenance")


@pytest.mark.slow
def test_bench_arena_writes_its_numbers(tmp_path: Path) -> None:
    """People get answers from a server of their own, and the bare planner is measured beside it."""
    target = tmp_path / "bench.json"
    done = run_module("experiments.bench_arena", "--quick", "--json", str(target))
    assert done.returncode == 0, done.stderr
    report = json.loads(target.read_text())
    assert report["answers"] > 0
    assert 0 < report["answer_p50_ms"] <= report["answer_p95_ms"] <= report["answer_p99_ms"]
    assert 0 < report["planner_share"] < 1
    assert not any(isinstance(value, dict | list) for name, value in report.items() if name != "provenance")
