"""Value functions that are fitted to fewer games, for tests that need one and do not ask how good it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muzero.agents import agent_spec
from muzero.agents.value_model import fit_value_model

GAMES = 1024


@pytest.fixture(scope="module", autouse=True)
def small_fits() -> Iterator[None]:
    """Fits to a quarter of the games; value functions that are kept are forgotten after the tests of a file."""
    agent_spec._load.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fit_value_model.__kwdefaults__, "games", GAMES)
        yield
    agent_spec._load.cache_clear()
