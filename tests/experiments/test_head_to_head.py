"""Head to head: parts, merging, crossovers and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import head_to_head
from muzero.runs.files import replacing
from tests.experiments.untrained_runs import ONE, run_script


def test_parts_of_an_array_merge_into_the_table_of_a_single_command(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = ["--a", runs["belief0"], runs["belief1"], "--b", runs["baseline0"], runs["baseline1"], *ONE]
    whole = run_script("head_to_head", tmp_path / "whole", *pairs)
    assert [row["iteration"] for row in whole["rows"]] == [2, 4]
    assert [row["pairs"] for row in whole["rows"]] == [2, 2]
    assert [row["games"] for row in whole["rows"]] == [8, 8]
    assert whole["kinds"] == ["belief", "baseline"]
    parts = sorted((tmp_path / "whole" / "parts").glob("*.json"))
    assert len(parts) == 4

    (tmp_path / "array" / "parts").mkdir(parents=True)
    (tmp_path / "array" / "parts" / ".draft-of-another-job.json").write_text("{")
    with replacing(tmp_path / "array" / "parts" / "x.json") as draft:
        left = draft.name
        draft.write_text("{")
    (tmp_path / "array" / "parts" / "x.json").rename(tmp_path / "array" / "parts" / left)
    for iteration in (4, 2):
        one = run_script("head_to_head", tmp_path / "array", *pairs, "--iterations", iteration)
        assert [row["iteration"] for row in one["rows"]] == [iteration], "parts of other jobs are ignored"
    stamp = parts[0].stat().st_mtime_ns
    merged = run_script("head_to_head", tmp_path / "array", "--merge")
    assert merged["rows"] == whole["rows"]
    run_script("head_to_head", tmp_path / "whole", *pairs)
    assert parts[0].stat().st_mtime_ns == stamp, "nothing is played twice"

    all_pairs = run_script("head_to_head", tmp_path / "all", *pairs, "--all-pairs", "--iterations", 4)
    assert all_pairs["rows"][0]["pairs"] == 4
    assert [row["over_pairs"]["low"] for row in all_pairs["rows"]] == [None], (
        "pairs that share runs are not independent"
    )
    odd = ["--a", runs["belief0"], "--b", runs["baseline0"], runs["baseline1"], "--out", tmp_path]
    assert head_to_head.main([str(argument) for argument in odd]) == 2
    assert "--a and --b: expected as many runs" in capsys.readouterr().err


def test_crossovers_are_those_found_by_hand() -> None:
    def line(iteration: int, rate: float) -> dict[str, float]:
        ends = {"wilson_low": rate - 0.05, "wilson_high": rate + 0.05}
        return {"iteration": iteration, "win_rate": rate, "fair_share": 0.5, **ends}

    lines = [line(100, 0.3), line(200, 0.4), line(300, 0.7), line(400, 0.48)]
    up, down = head_to_head.crossover(lines)
    assert up == {"between": [200, 300], "interpolated": 233.3, "upwards": True, "sure": True}
    assert (down["between"], down["upwards"], down["sure"]) == ([300, 400], False, False)
    assert head_to_head.crossover(lines[:2]) == []
    assert head_to_head.crossover([line(1, 0.4), line(2, 0.5), line(3, 0.4)]) == [], (
        "it touches the fair share and returns"
    )
    (through,) = head_to_head.crossover([line(1, 0.4), line(2, 0.5), line(3, 0.6)])
    assert through["between"] == [1, 3]


def test_parts_with_different_settings_are_not_merged(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script("head_to_head", tmp_path, "--a", runs["belief0"], "--b", runs["baseline0"], "--iterations", 4, *ONE)
    arguments = ["--a", runs["belief1"], "--b", runs["baseline1"], "--iterations", 4, "--simulations", 3, *ONE]
    assert head_to_head.main(["--out", str(tmp_path), "--games", "4", *map(str, arguments)]) == 0
    assert head_to_head.main(["--out", str(tmp_path), "--merge"]) == 2
    assert "simulations of the parts: expected the same in all, got '3 and null'" in capsys.readouterr().err


def test_the_same_networks_under_two_names_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(runs["belief0"])
    for a in (runs["belief0"], tmp_path / "link"):
        run_script("head_to_head", tmp_path / "out", "--a", a, "--b", runs["baseline0"], "--iterations", 4, *ONE)
    assert head_to_head.main(["--out", str(tmp_path / "out"), "--merge"]) == 2
    assert "expected every match once, got 'the same networks twice'" in capsys.readouterr().err
