"""Fixtures that the tests of this package share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muzero.matches.workers import ProcessPool
from tests.agents.untrained_run import save_untrained_run
from tests.small_fits import small_fits as small_fits


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run directory with a checkpoint of an untrained network."""
    return save_untrained_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessPool]:
    """Pool of two worker processes, which take seconds to start."""
    pool = ProcessPool(2)
    yield pool
    pool.close()
