"""Visits that mctx found on stored problems; make_mctx_golden.py writes them, test_mctx.py runs mctx itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mcts.worlds import ALGORITHMS, Problem, ours

GOLDEN = json.loads((Path(__file__).parent / "mctx_golden.json").read_text())


@pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda g: f"{g['algorithm']}-{g['actions']}-{g['simulations']}-{g['discount']}"
)
def test_visits_equal_the_stored_ones_of_mctx(golden: dict[str, Any]) -> None:
    visits = np.array(golden["visits"])
    problem = Problem(golden["seed"], *visits.shape)
    if golden["algorithm"] == "gumbel":
        problem.gumbel = np.array(golden["gumbel"], np.float32)
    results, chosen = ours(problem, golden["algorithm"], golden["simulations"], golden["discount"])
    assert (results.visits == visits).all()
    assert results.values[:, 0] == pytest.approx(np.array(golden["value"]), abs=1e-5)
    if golden["algorithm"] == "gumbel":
        assert (chosen == golden["action"]).all()
    else:  # mctx draws one of the most visited actions
        rows = np.arange(len(visits))
        assert (visits[rows, chosen] == visits[rows, golden["action"]]).all()


def test_stored_problems_cover_both_algorithms() -> None:
    assert {golden["algorithm"] for golden in GOLDEN} == set(ALGORITHMS)
