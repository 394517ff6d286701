"""A finished run that the tests of this package share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.processes import Run


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of an uninterrupted run; tests that start a process in it copy it first."""
    return Run(tmp_path_factory.mktemp("reference")).done().path
