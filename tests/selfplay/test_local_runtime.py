"""muzero.selfplay.local_runtime: a worker in this process or in a child process plays the same games."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import torch

from muzero.selfplay.local_runtime import ChildProcessRuntime, SyncRuntime
from muzero.selfplay.worker import PlayResult
from tests.selfplay.dying import die
from tests.selfplay.workers import ask, request, runtime_settings, same, seen_in, weights


def test_a_restored_sync_runtime_continues_and_restores_the_threads_of_torch(sync_results: list[PlayResult]) -> None:
    config = runtime_settings()
    first, second = SyncRuntime(config), SyncRuntime(config)
    ask(first, config)
    second.load(first.state(), games=4)
    (after,) = ask(second, config)
    assert same(after, sync_results[1])
    assert torch.get_num_threads() == 1
    with pytest.raises(AssertionError, match="nothing has been requested"):
        second.gather()


def test_a_child_process_ignores_signals_and_plays_the_same_games(sync_results: list[PlayResult]) -> None:
    """Signals to the whole process group are for the parent to handle; the child ignores them from its very start.

    After a checkpoint, whose games in progress are not saved, it plays other deals.
    """
    config = runtime_settings(mode="async")
    runtime = ChildProcessRuntime(config)
    try:
        runtime.request(request(4), weights(config), weights(config, seed=1))
        assert runtime._child is not None
        (process,) = runtime._child._processes.values()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            os.kill(process.pid, number)
        found = runtime.gather()
        assert runtime.restarts == 0
        found += ask(runtime, config)
        assert all(same(one, other) for one, other in zip(found, sync_results, strict=True))
        assert runtime.state() == {}
        runtime.load({}, games=8)
        assert not set(seen_in(ask(runtime, config))) & set(seen_in(found))
    finally:
        runtime.close()


def test_a_dead_child_process_is_replaced(sync_results: list[PlayResult]) -> None:
    config = runtime_settings(mode="async")
    runtime = ChildProcessRuntime(config)
    try:
        ask(runtime, config)
        for when in ("playing", "idle"):
            assert runtime._child is not None
            (process,) = runtime._child._processes.values()
            os.kill(process.pid, signal.SIGSTOP if when == "playing" else signal.SIGKILL)
            if when == "idle":
                process.join()
            runtime.request(request(4), weights(config), weights(config, seed=1))
            process.kill()
            (part,) = runtime.gather()
            assert len(part.episodes) >= 4
            assert not set(seen_in([part])) & set(seen_in(sync_results)), "new deals"
        assert runtime.restarts == runtime.generation == 2
    finally:
        runtime.close()


def test_child_processes_that_keep_dying_raise_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muzero.selfplay.local_runtime._start_child", die)
    config = runtime_settings(mode="async")
    runtime = ChildProcessRuntime(config)
    try:
        runtime.request(request(4), weights(config), None)
        with pytest.raises(
            RuntimeError, match="3 self-play processes have died one after the other; the last: exit code 1"
        ):
            runtime.gather()
        assert runtime.restarts == 2
    finally:
        runtime.close()


def test_child_that_cannot_start_gives_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muzero.selfplay.local_runtime._MAX_DEATHS", 1)
    config = runtime_settings(mode="async")
    runtime = ChildProcessRuntime(replace(config, game=replace(config.game, bots=["a stranger"])))
    try:
        runtime.request(request(4), weights(config), None)
        with pytest.raises(RuntimeError, match="the last: ValueError: skyjo has no bot 'a stranger'"):
            runtime.gather()
    finally:
        runtime.close()


def test_a_child_is_stopped_while_a_request_is_on_its_way() -> None:
    """A request that is larger than a pipe is being written for as long as the child does not read it."""
    config = runtime_settings()
    runtime = ChildProcessRuntime(config)
    runtime.request(request(4), {**weights(config), "padding": torch.zeros(1_000_000)}, None)
    time.sleep(0.5)  # the request is on its way, and the child still imports its modules
    closing = threading.Thread(target=runtime.close, daemon=True)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
