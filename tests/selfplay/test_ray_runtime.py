"""muzero.selfplay.ray_runtime: actors play the games of one worker, and dead ones are replaced."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muzero.selfplay.ray_runtime import RayRuntime
from muzero.selfplay.runtime import make_runtime
from muzero.selfplay.worker import PlayResult
from tests.selfplay.workers import ask, request, runtime_settings, same, seen_in, weights

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")  # one process starts the cluster and its actors


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A small Ray cluster on this machine; room for the actors of all fixtures, and of one test."""
    ray.init(
        num_cpus=5,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="warning",
        _node_ip_address="127.0.0.1",
        object_store_memory=80 * 2**20,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def one_actor(cluster: None) -> Iterator[RayRuntime]:
    runtime = make_runtime(runtime_settings("ray"))
    assert isinstance(runtime, RayRuntime)
    yield runtime
    runtime.close()
    assert ray.is_initialized(), "Ray was started before the runtime"


@pytest.fixture(scope="module")
def two_actors(cluster: None) -> Iterator[RayRuntime]:
    runtime = RayRuntime(runtime_settings("ray", workers=2))
    yield runtime
    runtime.close()


def process_of(actor: Any) -> int:
    """Id of an actor's process."""
    return int(ray.get(actor.__ray_call__.remote(lambda self: os.getpid())))


def test_one_actor_plays_the_same_games_as_a_worker_in_this_process(
    one_actor: RayRuntime, sync_results: list[PlayResult]
) -> None:
    runtime, config = one_actor, one_actor.config
    found = ask(runtime, config)
    state = runtime.state()
    found += ask(runtime, config)
    assert all(same(one, other) for one, other in zip(found, sync_results, strict=True))
    runtime.load({name: array.copy() for name, array in state.items()}, games=4)
    (again,) = ask(runtime, config)
    assert same(again, sync_results[1])
    runtime.load({}, games=8)  # without games in progress: other deals
    assert not set(seen_in(ask(runtime, config))) & set(seen_in(found))


def test_results_that_are_lost_with_a_node_are_played_again(
    one_actor: RayRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, lost, before = ray.get, [], one_actor.restarts

    def get_after_a_loss(result: Any, **options: Any) -> Any:
        if not lost:
            lost.append(result)
            raise ray.exceptions.ObjectLostError(result.hex(), "", "")
        return get(result, **options)

    monkeypatch.setattr(ray, "get", get_after_a_loss)
    (part,) = ask(one_actor, one_actor.config)
    assert len(part.episodes) >= 4
    assert (len(lost), one_actor.restarts) == (1, before)


def test_actors_share_the_games_and_a_dead_one_is_replaced(two_actors: RayRuntime) -> None:
    runtime, config, before = two_actors, two_actors.config, two_actors.restarts
    generation = list(runtime.generation)
    found = ask(runtime, config, games=3)
    assert [len(part.episodes) >= 2 for part in found] == [True, True]  # two each: a half, rounded up
    process = process_of(runtime.actors[1])
    os.kill(process, signal.SIGSTOP)  # so that it cannot finish before it dies
    runtime.request(request(6), weights(config), weights(config, seed=1))
    os.kill(process, signal.SIGKILL)
    after = runtime.gather()
    assert runtime.restarts == before + 1
    assert runtime.generation == [generation[0], generation[1] + 1]
    assert [len(part.episodes) >= 3 for part in after] == [True, True]
    found += after + ask(runtime, config, games=4)
    seen = seen_in(found)
    assert len(set(seen)) == len(seen) >= 4 + 6 + 4
    assert runtime.restarts == before + 1


def test_a_dead_actor_leaves_a_checkpoint_without_games_and_is_replaced_by_the_next_request(
    two_actors: RayRuntime,
) -> None:
    runtime, before, generation = two_actors, two_actors.restarts, list(two_actors.generation)
    ask(runtime, runtime.config)
    process = Path("/proc") / str(process_of(runtime.actors[0]))
    ray.kill(runtime.actors[0])  # returns before the actor is dead
    end = time.monotonic() + 60
    while process.exists():
        assert time.monotonic() < end, process
        time.sleep(0.01)
    assert runtime.state() == {}
    assert [len(part.episodes) >= 2 for part in ask(runtime, runtime.config)] == [True, True]
    assert (runtime.restarts, runtime.generation) == (before + 1, [generation[0] + 1, generation[1]])
    assert "generation" in runtime.state()


def test_async_mode_limits_pending_requests_and_gathers_one_result_per_actor(
    two_actors: RayRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = runtime_settings("ray", mode="async", workers=2)
    config = replace(config, runtime=replace(config.runtime, in_flight=2))
    monkeypatch.setattr(two_actors, "config", config)  # the actors are the same in both modes
    for version in range(3):
        two_actors.request(replace(request(4), version=version), weights(config), None)
    assert len(two_actors._pending) == 4
    assert two_actors.state() == {}
    for left in (2, 0):
        found = two_actors.gather()
        assert len(found) == 2
        assert {part.version for part in found} <= {0, 1}
        assert len(two_actors._pending) == left


@pytest.mark.usefixtures("cluster")
def test_actors_that_this_machine_has_no_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cluster that the runtime takes for its own, as if it had started it."""
    shut_down: list[bool] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **given: None)
    monkeypatch.setattr(ray, "shutdown", lambda: shut_down.append(True))
    config = runtime_settings("ray")
    expected = "runtime.worker_gpus=99 for runtime.workers=1: expected 99 GPUs on this machine, got '0'"
    with pytest.raises(ValueError, match=expected):
        RayRuntime(replace(config, runtime=replace(config.runtime, worker_gpus=99.0)))
    assert shut_down == [True]


def test_actors_that_keep_dying_raise_an_error(caplog: pytest.LogCaptureFixture) -> None:
    runtime = RayRuntime.__new__(RayRuntime)
    runtime._deaths, runtime._last_result = 0, time.monotonic() - 700
    for _ in range(20):
        runtime._note_death(1, RuntimeError("killed by the kernel\nand more"))
    assert caplog.messages[-1] == "self-play actor 1 died and is replaced: killed by the kernel"
    with pytest.raises(RuntimeError, match="21 self-play actors have died one after the other; the last: killed"):
        runtime._note_death(1, RuntimeError("killed"))
    runtime._last_result = time.monotonic()  # not for long enough
    runtime._note_death(1, RuntimeError("killed"))


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_death_with_several_pending_requests_counts_once() -> None:
    config = runtime_settings("ray", mode="async")
    config = replace(config, runtime=replace(config.runtime, in_flight=2))
    runtime, finished = RayRuntime(config), 0
    process = process_of(runtime.actors[0])
    os.kill(process, signal.SIGSTOP)
    for _ in range(2):
        runtime.request(request(4), weights(config), None)
    os.kill(process, signal.SIGKILL)
    while runtime._pending:
        finished += len(runtime.gather())
    runtime.close()
    assert (finished, runtime.restarts) == (2, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_actor_that_cannot_start_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config, replace_ = runtime_settings("ray"), RayRuntime._replace

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
def test_self_play_survives_two_minutes_of_dying_actors() -> None:
    """Every few seconds an actor is killed: games still come, and no deal is played twice. The seed is printed."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    config = runtime_settings("ray", mode="async", workers=2)
    runtime, seen, rng = RayRuntime(config), [], np.random.default_rng(seed)
    end, due = time.monotonic() + 120, time.monotonic() + 10
    while time.monotonic() < end:
        runtime.request(request(4), weights(config), None)
        if time.monotonic() > due:
            ray.kill(runtime.actors[int(rng.integers(2))])
            due = time.monotonic() + rng.uniform(4, 8)
        seen += seen_in(runtime.gather())
    assert runtime.restarts >= 5
    assert len(set(seen)) == len(seen) > 20
    runtime.close()


def test_ray_is_shut_down_by_the_runtime_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setenv("RAY_LOG_MONITOR_MAX_OPEN_FILES", "")  # restored at the end
    monkeypatch.delenv("RAY_LOG_MONITOR_MAX_OPEN_FILES")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **given: calls.append(given))
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0})
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    monkeypatch.setattr(RayRuntime, "_actor", lambda self, index: None)
    RayRuntime(runtime_settings("ray", workers=3, tables=6)).close()
    assert calls[0]["_node_ip_address"] == "127.0.0.1"
    assert calls[0]["num_cpus"] >= 3
    assert os.environ["RAY_LOG_MONITOR_MAX_OPEN_FILES"] == "16", "or Ray keeps files of all actors that ever died open"
    elsewhere = runtime_settings("ray", workers=3, tables=6)
    RayRuntime(replace(elsewhere, runtime=replace(elsewhere.runtime, address="auto"))).close()
    assert calls[1:] == ["shutdown", calls[2], "shutdown"]
    assert calls[2]["address"] == "auto"
    assert "num_cpus" not in calls[2]
