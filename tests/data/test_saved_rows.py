"""muzero.data.saved_rows: what no game could have brought is refused by the name of its field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import env
from muzero.data.saved_rows import check_rows
from muzero.data.trajectory import DECISION, schema
from muzero.model.spec import GameSpec

SPEC = GameSpec.of("kuhn", 2)
FLOATS = [field.name for field in schema(DECISION) if field.dtype.kind == "f"]


def rows() -> dict[str, NDArray[Any]]:
    """Three first decisions, each of them passing."""
    tables = env.make("kuhn", 3, 2, {}, seed=1)
    count, found = 3, {}
    for field in schema(DECISION):
        shape = field.shape(SPEC.num_players, SPEC.width, SPEC.num_actions, SPEC.num_slots)
        found[field.name] = np.zeros((count, *shape), field.dtype)
    found["obs"] = tables.obs.astype(np.int16)
    found["legal"] = np.full(count, 3, np.uint64)
    return found


def refusal(changed: Mapping[str, NDArray[Any]]) -> str:
    with pytest.raises(ValueError, match="expected") as error:
        check_rows("file: ", rows() | changed, SPEC)
    return str(error.value)


def test_rows_of_a_game_are_accepted() -> None:
    check_rows("file: ", rows(), SPEC)
    assert {"rewards", "luck", "policy", "values"} <= set(FLOATS)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e30])
def test_numbers_that_no_game_brings_are_refused(name: str, value: float) -> None:
    sick = rows()[name]
    sick[1, 0] = value
    if name == "values" and np.isnan(value):
        check_rows("file: ", rows() | {name: sick}, SPEC)  # a move that nobody searched for has no values
        return
    assert refusal({name: sick}).startswith(f"file: {name}: expected ")


@pytest.mark.parametrize("name", ["action", "to_play", "phase", "outcome", "hidden", "obs"])
def test_indices_out_of_range_are_refused(name: str) -> None:
    wrong = rows()[name]
    wrong.reshape(-1)[0] = 99
    assert refusal({name: wrong}).startswith(f"file: {name}")
