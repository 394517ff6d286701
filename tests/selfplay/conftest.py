"""Results that the tests of several runtimes compare with."""

from __future__ import annotations

import pytest

from muzero.selfplay.local_runtime import SyncRuntime
from muzero.selfplay.worker import PlayResult
from tests.selfplay.workers import ask, runtime_settings


@pytest.fixture(scope="session")
def sync_results() -> list[PlayResult]:
    """Results of two requests to a worker in this process."""
    config = runtime_settings()
    runtime = SyncRuntime(config)
    return [part for _ in range(2) for part in ask(runtime, config)]
