"""Experiment on the bias of luck adjustment, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import luck_bias
from muzero.matches.games import Games
from tests.experiments.untrained_runs import run_script


def test_parts_are_kept_and_a_repeated_command_plays_only_what_is_missing(tmp_path: Path) -> None:
    size = ("--cases", "lama", "--part", 60, "--workers", 1)
    found = run_script("luck_bias", tmp_path, *size, "--games", 60)
    (row,) = found["cases"]
    assert (row["games"], row["parts"], row["deals"]) == (60, 1, 30)
    first = tmp_path / "parts" / "lama-0000.json"
    stamp = first.stat().st_mtime_ns
    more = run_script("luck_bias", tmp_path, *size, "--games", 120)
    assert (more["cases"][0]["games"], more["cases"][0]["parts"]) == (120, 2)
    assert first.stat().st_mtime_ns == stamp
    assert "Bias of luck adjustment" in (tmp_path / "luck_bias.md").read_text()
    stored = json.loads(first.read_text())
    assert stored["seed"] == 0
    assert json.loads((tmp_path / "parts" / "lama-0001.json").read_text())["seed"] == 1


def test_time_limit_begins_no_further_parts(tmp_path: Path) -> None:
    found = run_script(
        "luck_bias", tmp_path, "--cases", "lama", "--part", 40, "--workers", 1, "--games", 4000, "--minutes", 1e-9
    )
    assert found["cases"][0]["parts"] == 1, "one part of every case is always played"


def test_bias_is_the_mean_difference_with_its_interval() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(0.01, 0.2, 1000)
    parts = [
        {"deals": 500, "games": 1000, "win_rate": 0.5, **dict.fromkeys(("game", "a", "b", "players", "luck"), 0)}
        | {name: {"sum": float(half.sum()), "squares": float((half**2).sum())} for name in ("win", "score")}
        for half in (numbers[:500], numbers[500:])
    ]
    row = luck_bias.summary("case", parts)
    error = numbers.std(ddof=1) / np.sqrt(1000)
    assert row["win"]["bias"] == pytest.approx(numbers.mean())
    assert row["win"]["high"] - row["win"]["low"] == pytest.approx(2 * 1.96 * error)
    assert row["win"]["z"] == pytest.approx(numbers.mean() / error)


def test_luck_that_is_not_of_mean_zero_would_show() -> None:
    """Adjusted minus plain results of games whose luck is off by 0.1, and explains the result in full."""
    rng = np.random.default_rng(1)
    luck = rng.normal(0, 0.3, (4000, 10))
    won = np.clip(0.5 + luck[:, 0] + luck[:, 1], 0, 1)
    zeros = np.zeros(4000)
    whole = np.zeros((4000, 2))
    shifted = luck + 0.1
    games = Games(won, zeros, zeros, zeros.astype(bool), zeros, zeros, zeros, whole, whole, shifted)  # type: ignore[arg-type]
    difference, _ = luck_bias.differences(games, 2)
    mean, error = difference.mean(), difference.std() / np.sqrt(len(difference))
    assert mean / error < -5


def test_parts_of_other_settings_and_unknown_cases_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path), "--workers", "1", "--cases", "lama", "--games", "40"]
    assert luck_bias.main([*out, "--part", "40"]) == 0
    capsys.readouterr()
    assert luck_bias.main([*out, "--part", "20"]) == 2
    assert "lama-0000.json: expected a part with the same settings" in capsys.readouterr().err
    assert luck_bias.main([*out[:4], "--cases", "chess"]) == 2
    assert "--cases: expected some of skyjo" in capsys.readouterr().err
    assert luck_bias.main([*out, "--part", "2"]) == 2
    assert "--part: expected 4 or more, got 2" in capsys.readouterr().err
    (tmp_path / "parts" / "lama-0000.json").write_text("{")
    assert luck_bias.main([*out, "--part", "40"]) == 2
    assert "expected a part of this experiment" in capsys.readouterr().err
