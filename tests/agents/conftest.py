"""Fixtures that the tests of this package share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.untrained_run import save_untrained_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run directory with a checkpoint of an untrained network."""
    return save_untrained_run(tmp_path_factory.mktemp("run"))
