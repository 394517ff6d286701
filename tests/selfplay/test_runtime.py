"""muzero.selfplay.runtime: the configuration names the runtime."""

from __future__ import annotations

from muzero.selfplay.local_runtime import ChildProcessRuntime, SyncRuntime
from muzero.selfplay.runtime import make_runtime
from tests.selfplay.workers import runtime_settings


def test_the_configuration_names_the_runtime() -> None:
    assert isinstance(make_runtime(runtime_settings()), SyncRuntime)
    child = make_runtime(runtime_settings(mode="async"))
    assert isinstance(child, ChildProcessRuntime)
    child.close()
