"""Error of values and luck in returns: of a trained network, and of one whose values are wrong by a known amount."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import value_error
from muzero.matches import value_check
from muzero.matches.value_check import ValueCheck

OPTIONS = ["--agents", "agent:skyjo-belief", "--rules", "episode=round", "round_reward=2.0", "max_decisions=400"]
SMALL = ["--games", "100", "--playouts", "4", "--rounds", "48", "--outcomes", "0", "8"]


def figures(out: Path) -> dict[str, object]:
    """Figures of the one agent that was measured."""
    assert value_error.main([*OPTIONS, *SMALL, "--out", str(out)]) == 0
    found = json.loads((out / "value_error.json").read_text())["agents"]
    (row,) = found.values()
    assert isinstance(row, dict)
    return row


def test_luck_is_most_of_what_returns_vary_by_and_wrong_values_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = figures(tmp_path / "honest")
    variance = honest["variance"]
    assert isinstance(variance, dict)
    assert all(less < 0.4 * paid for less, paid in zip(variance["8"], variance["0"], strict=True))
    real = value_check.network_values
    monkeypatch.setattr(value_check, "network_values", lambda *given: real(*given) + 0.5)
    wrong = figures(tmp_path / "wrong")
    low, high = wrong["interval"]  # type: ignore[misc]
    assert low < np.hypot(0.5, honest["rmse"]) < high  # type: ignore[call-overload]
    assert wrong["variance"] == variance


def test_intervals_of_the_error_hold_the_truth_as_often_as_they_say() -> None:
    rng, inside = np.random.default_rng(2), 0
    for _ in range(400):
        truth = rng.normal(0, 0.5, 300)
        low, high = ValueCheck(
            truth + rng.normal(0, 0.2, 300), truth[:, None] + rng.normal(size=(300, 8))
        ).rmse_interval
        inside += low <= 0.2 <= high
    assert 0.92 < inside / 400 < 0.98
