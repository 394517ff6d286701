"""muzero.selfplay.runtime: whoever runs the workers, the same orders and weights give the same games."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from muzero.config import Config, RuntimeConfig, TrainConfig
from muzero.selfplay.runtime import ChildProcessRuntime, RayRuntime, Runtime, SyncRuntime, make_runtime, pick_device
from muzero.selfplay.worker import PlayResult
from tests.selfplay.test_worker import MIXED, orders, same, settings, weights

ray = pytest.importorskip("ray")


def a_config(kind: str = "local", mode: str = "sync", workers: int = 1, tables: int = 4) -> Config:
    runtime = RuntimeConfig(kind=kind, device="cpu", threads=1, workers=workers)
    return replace(settings(tables=tables), runtime=runtime, train=TrainConfig(mode=mode))


def ask(runtime: Runtime, config: Config, episodes: int = 4, moves: int = 0) -> list[PlayResult]:
    runtime.request(replace(orders(episodes, MIXED), moves=moves), weights(config), weights(config, seed=1))
    return runtime.gather()


def names(played: list[PlayResult]) -> list[bytes]:
    """Of games: what was seen in each. No two deals look the same all the way."""
    return [episode.obs.tobytes() for part in played for episode in part.episodes]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A small Ray on this machine alone."""
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="warning",
        _node_ip_address="127.0.0.1",
        object_store_memory=80 * 2**20,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def local() -> list[PlayResult]:
    """What a worker in this process plays: two requests."""
    config = a_config()
    runtime = SyncRuntime(config)
    return [part for _ in range(2) for part in ask(runtime, config)]


def test_the_configuration_names_the_runtime() -> None:
    assert isinstance(make_runtime(a_config()), SyncRuntime)
    beside = make_runtime(a_config(mode="async"))
    assert isinstance(beside, ChildProcessRuntime)
    beside.close()


def test_freed_memory_is_kept() -> None:
    """In a process of its own: an array that was freed still counts."""
    program = """
import sys
import numpy as np
from muzero.runs.memory import settle_memory, resident_megabytes
if sys.argv[1] == "keep":
    settle_memory()
parts = [np.full(2**20, 1, np.uint8) for _ in range(100)]
full = resident_megabytes()
del parts
print(full - resident_megabytes())
"""
    given_back = {
        how: float(subprocess.run([sys.executable, "-c", program, how], capture_output=True, check=True).stdout)
        for how in ("keep", "return")
    }
    assert given_back["keep"] < 5
    if sys.platform == "linux":
        assert given_back["return"] > 50


def test_scraps_of_memory_are_given_back() -> None:
    """In a process of its own: freed arrays between others that stay."""
    program = """
import numpy as np
from muzero.runs.memory import give_back_memory, settle_memory, resident_megabytes
settle_memory()
parts = [np.full(2**16, 1, np.uint8) for _ in range(2000)]
del parts[::2]
before = resident_megabytes()
give_back_memory()
print(before - resident_megabytes())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    if sys.platform == "linux":
        assert float(done.stdout) > 40, "of 62"


def test_devices() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ValueError, match=r"runtime.device: expected auto, cpu or a device of this machine, got 'moon'"):
        pick_device("moon")


def test_local_keeps_its_threads_and_goes_on_from_its_state(local: list[PlayResult]) -> None:
    config = a_config()
    first, second = SyncRuntime(config), SyncRuntime(config)
    ask(first, config)
    second.load(first.state(), games=4)
    (after,) = ask(second, config)
    assert same(after, local[1])
    assert torch.get_num_threads() == 1
    with pytest.raises(AssertionError, match="nothing has been requested"):
        second.gather()


def test_beside_plays_the_same_games_and_after_a_restart_others(local: list[PlayResult]) -> None:
    config = a_config(mode="async")
    runtime = ChildProcessRuntime(config)
    try:
        found = [part for _ in range(2) for part in ask(runtime, config)]
        assert all(same(one, other) for one, other in zip(found, local, strict=True))
        assert runtime.state() == {}
        runtime.load({}, games=8)
        assert not set(names(ask(runtime, config))) & set(names(found))
    finally:
        runtime.close()


def die(*_: Any) -> None:
    """In place of playing."""
    os._exit(1)


def test_a_dead_self_play_process_is_replaced(local: list[PlayResult], monkeypatch: pytest.MonkeyPatch) -> None:
    config = a_config(mode="async")
    runtime = ChildProcessRuntime(config)
    try:
        ask(runtime, config)
        for when in ("playing", "idle"):
            assert runtime._child is not None
            (process,) = runtime._child._processes.values()
            os.kill(process.pid, signal.SIGSTOP if when == "playing" else signal.SIGKILL)
            if when == "idle":
                process.join()
            runtime.request(orders(4, MIXED), weights(config), weights(config, seed=1))
            process.kill()
            (part,) = runtime.gather()
            assert len(part.episodes) >= 4
            assert not set(names([part])) & set(names(local)), "new deals"
        assert runtime.restarts == runtime.generation == 2
        monkeypatch.setattr("muzero.selfplay.runtime._play_in_child", die)
        runtime.request(orders(4), weights(config), None)
        with pytest.raises(RuntimeError, match="3 self-play processes have died one after the other"):
            runtime.gather()
    finally:
        runtime.close()


def test_a_self_play_process_hears_no_signals_from_the_start() -> None:
    """As those to the whole group, which are the parent's to obey; even before it has imported anything."""
    config = a_config(mode="async")
    runtime = ChildProcessRuntime(config)
    try:
        runtime.request(orders(4), weights(config), None)
        assert runtime._child is not None
        (process,) = runtime._child._processes.values()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            os.kill(process.pid, number)
        assert len(runtime.gather()[0].episodes) >= 4
        assert runtime.restarts == 0
    finally:
        runtime.close()


def test_a_cluster_that_is_not_there_is_named() -> None:
    program = """
from tests.selfplay.test_runtime import RayRuntime, a_config, replace
config = a_config("ray")
for change in ({"address": "127.0.0.1:1"}, {"worker_gpus": 99.0}):
    try:
        RayRuntime(replace(config, runtime=replace(config.runtime, **change)))
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "runtime.address: expected a Ray cluster that can be reached, got '127.0.0.1:1'" in done.stdout, done.stderr
    said = "runtime.worker_gpus=99 for runtime.workers=1: expected 99 GPUs on this machine, got '0'"
    assert said in done.stdout, done.stderr


@pytest.mark.usefixtures("cluster")
def test_one_ray_actor_plays_the_same_games(local: list[PlayResult]) -> None:
    config = a_config("ray")
    runtime = make_runtime(config)
    assert isinstance(runtime, RayRuntime)
    found = ask(runtime, config)
    state = runtime.state()
    found += ask(runtime, config)
    assert all(same(one, other) for one, other in zip(found, local, strict=True))
    runtime.load({name: array.copy() for name, array in state.items()}, games=4)
    (again,) = ask(runtime, config)
    assert same(again, local[1])
    runtime.load({}, games=8)  # games under way unknown: other deals
    assert not set(names(ask(runtime, config))) & set(names(found))
    runtime.close()
    assert ray.is_initialized()  # it was here before


def number_of(actor: Any) -> int:
    """Of its process."""
    return int(ray.get(actor.__ray_call__.remote(lambda self: os.getpid())))


@pytest.mark.usefixtures("cluster")
def test_actors_share_the_games_and_a_dead_one_is_replaced() -> None:
    config = a_config("ray", workers=2)
    runtime = RayRuntime(config)
    found = ask(runtime, config, episodes=3)
    assert [len(part.episodes) >= 2 for part in found] == [True, True]  # two each: a half, rounded up
    process = number_of(runtime.actors[1])
    os.kill(process, signal.SIGSTOP)  # so that it cannot be done before it dies
    runtime.request(orders(6), weights(config), weights(config, seed=1))
    os.kill(process, signal.SIGKILL)
    after = runtime.gather()
    assert runtime.restarts == 1
    assert runtime.generation == [0, 1]
    assert [len(part.episodes) >= 3 for part in after] == [True, True]
    found += after + ask(runtime, config, episodes=4)
    seen = names(found)
    assert len(set(seen)) == len(seen) >= 4 + 6 + 4
    assert runtime.restarts == 1
    runtime.close()


@pytest.mark.usefixtures("cluster")
def test_a_checkpoint_does_not_need_every_actor() -> None:
    """One that has died is noticed by the next games, not by whoever saves."""
    config = a_config("ray", workers=2)
    runtime = RayRuntime(config)
    ask(runtime, config)
    ray.kill(runtime.actors[0])
    assert runtime.state() == {}
    assert [len(part.episodes) >= 2 for part in ask(runtime, config)] == [True, True]
    assert (runtime.restarts, runtime.generation) == (1, [1, 0])
    assert "generation" in runtime.state()
    runtime.close()


@pytest.mark.usefixtures("cluster")
def test_games_that_are_lost_with_a_node_are_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    config = a_config("ray")
    runtime, get, lost = RayRuntime(config), ray.get, []

    def get_after_a_loss(result: Any, **options: Any) -> Any:
        if not lost:
            lost.append(result)
            raise ray.exceptions.ObjectLostError(result.hex(), "", "")
        return get(result, **options)

    monkeypatch.setattr(ray, "get", get_after_a_loss)
    (part,) = ask(runtime, config)
    assert len(part.episodes) >= 4
    assert (len(lost), runtime.restarts) == (1, 0)
    monkeypatch.undo()
    runtime.close()


@pytest.mark.usefixtures("cluster")
def test_async_takes_an_iterations_worth() -> None:
    """Requests beyond `in_flight` are not made; a gathering returns as many results as there are actors."""
    config = a_config("ray", mode="async", workers=2)
    config = replace(config, runtime=replace(config.runtime, in_flight=2))
    runtime = RayRuntime(config)
    for version in range(3):
        runtime.request(replace(orders(4), version=version), weights(config), None)
    assert len(runtime._flights) == 4
    assert runtime.state() == {}
    for left in (2, 0):
        found = runtime.gather()
        assert len(found) == 2
        assert {part.version for part in found} <= {0, 1}
        assert len(runtime._flights) == left
    runtime.close()


def test_actors_that_only_die_are_an_error(caplog: pytest.LogCaptureFixture) -> None:
    runtime = RayRuntime.__new__(RayRuntime)
    runtime._deaths, runtime._landed_at = 0, time.monotonic() - 700
    for _ in range(20):
        runtime._note_death(1, RuntimeError("killed by the kernel\nand more"))
    assert caplog.messages[-1] == "self-play actor 1 died and is replaced: killed by the kernel"
    with pytest.raises(RuntimeError, match="21 self-play actors have died one after the other; the last: killed"):
        runtime._note_death(1, RuntimeError("killed"))
    runtime._landed_at = time.monotonic()  # they may yet have time to start
    runtime._note_death(1, RuntimeError("killed"))


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_death_with_several_requests_under_way_is_one_death() -> None:
    config = a_config("ray", mode="async")
    config = replace(config, runtime=replace(config.runtime, in_flight=2))
    runtime, landed = RayRuntime(config), 0
    process = number_of(runtime.actors[0])
    os.kill(process, signal.SIGSTOP)
    for _ in range(2):
        runtime.request(orders(4), weights(config), None)
    os.kill(process, signal.SIGKILL)
    while runtime._flights:
        landed += len(runtime.gather())
    runtime.close()
    assert (landed, runtime.restarts) == (2, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_actor_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config, replace_ = a_config("ray"), RayRuntime._replace

    def patient(self: RayRuntime, index: int) -> None:
        assert self.restarts < 5, "replaced again and again"
        replace_(self, index)

    monkeypatch.setattr(RayRuntime, "_replace", patient)
    runtime = RayRuntime(replace(config, game=replace(config.game, bots=["a stranger"])))
    with pytest.raises(Exception, match="a stranger"):
        ask(runtime, config)
    runtime.close()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_actors_killed_for_two_minutes() -> None:
    """Every few seconds one dies: the games go on, and no deal comes twice."""
    config = a_config("ray", mode="async", workers=2)
    runtime, seen, rng = RayRuntime(config), [], np.random.default_rng(0)
    end, due = time.monotonic() + 120, time.monotonic() + 10
    while time.monotonic() < end:
        runtime.request(orders(4), weights(config), None)
        if time.monotonic() > due:
            ray.kill(runtime.actors[int(rng.integers(2))])
            due = time.monotonic() + rng.uniform(4, 8)
        seen += names(runtime.gather())
    assert runtime.restarts >= 5
    assert len(set(seen)) == len(seen) > 20
    runtime.close()


def test_ray_is_stopped_by_whoever_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **given: calls.append(given))
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0})
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    monkeypatch.setattr(RayRuntime, "_actor", lambda self, index: None)
    RayRuntime(a_config("ray", workers=3, tables=6)).close()
    assert calls[0]["_node_ip_address"] == "127.0.0.1"
    assert calls[0]["num_cpus"] >= 3
    elsewhere = a_config("ray", workers=3, tables=6)
    RayRuntime(replace(elsewhere, runtime=replace(elsewhere.runtime, address="auto"))).close()
    assert calls[1:] == ["shutdown", calls[2], "shutdown"]
    assert calls[2]["address"] == "auto"
    assert "num_cpus" not in calls[2]
