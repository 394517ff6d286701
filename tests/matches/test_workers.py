"""Worker pools: the same games in every pool, and what happens when a worker dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from muzero.matches.games import Games, concatenate
from muzero.matches.match import _followed, chunks, play_match
from muzero.matches.match_config import with_defaults
from muzero.matches.workers import (
    InProcess,
    MatchChunk,
    ProcessPool,
    RayPool,
    WorkerPool,
    make_worker_pool,
    play_chunk,
)
from tests.matches.games_of_bots import BOTS, assert_same_games


def check_counting(pool: WorkerPool, a: str) -> None:
    config = with_defaults(replace(BOTS, a=a, games=20, batch=8))
    assert pool.counter is not None
    before = pool.counter.total()
    games = concatenate(list(pool.play([config.chunk(*chunk) for chunk in chunks(config, 0)])))
    assert pool.counter.total() == (before[0] + 20, before[1] + games.won.sum())
    shown: list[tuple[float, float]] = []
    with _followed(pool.counter, 4, 2.0, lambda *numbers: shown.append(numbers)):
        pool.counter.add(3, 1.5)
        until = time.monotonic() + 30
        while not shown and time.monotonic() < until:
            time.sleep(0.05)
    assert set(shown) == {(7, 3.5)}, "and what had been played before"


@pytest.mark.parametrize("a", ["random", "bot:greedy"])
def test_games_are_counted_as_they_end(a: str) -> None:
    check_counting(InProcess(), a)


@pytest.mark.xdist_group("processes")
def test_games_are_counted_as_they_end_in_other_processes(processes: ProcessPool) -> None:
    check_counting(processes, "random")


def die(chunk: MatchChunk) -> Games:
    """Replacement for `play_chunk` that kills its process."""
    os._exit(1)


def play_if_let(chunk: MatchChunk) -> Games:
    """Replacement for `play_chunk`: all chunks but the first wait for a file."""
    while chunk.first and not Path(os.environ["MAY_PLAY"]).exists():
        time.sleep(0.01)
    return play_chunk(chunk)


def test_games_of_a_process_that_died_are_played_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_defaults(replace(BOTS, a="random", games=20, batch=4))
    work = [config.chunk(*chunk) for chunk in chunks(config, 0)]
    expected = [play_chunk(chunk) for chunk in work]
    monkeypatch.setenv("MAY_PLAY", str(tmp_path / "now"))
    monkeypatch.setattr("muzero.matches.workers.play_chunk", play_if_let)
    pool = ProcessPool(1)
    playing = pool.play(work)
    found = [next(playing)]
    for process in pool._pool._processes.values():
        process.kill()
    (tmp_path / "now").touch()
    found += playing
    assert 4 <= pool.failures <= 8, "one chunk, and a second if it was submitted before the death was seen"
    assert [games.scores.tolist() for games in found] == [games.scores.tolist() for games in expected]
    monkeypatch.setattr("muzero.matches.workers.play_chunk", die)
    with pytest.raises(RuntimeError, match="a process that played deals 0 to 1 has died, twice"):
        list(pool.play(work))
    pool.close()


OWNER = """
import os, time
from muzero.matches.workers import ProcessPool
if __name__ == "__main__":
    print(ProcessPool(1)._pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_processes_do_not_outlive_a_killed_owner(tmp_path: Path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    worker = Path("/proc") / owner.stdout.readline().strip()
    assert (worker / "status").exists()
    owner.kill()
    owner.wait()
    end = time.monotonic() + 60
    while worker.exists():
        assert time.monotonic() < end, worker
        time.sleep(0.1)


def test_the_pool_suits_the_agents_and_the_settings() -> None:
    pool = make_worker_pool(["bot:greedy", "bot:naive"], workers=3)
    assert isinstance(pool, InProcess)
    assert pool.threads == 3, "bots play inside the C++ core, which has threads"
    assert isinstance(make_worker_pool(["bot:greedy", "random"], workers=1), InProcess)
    pool = make_worker_pool(["bot:greedy", "random"], workers=2)
    assert isinstance(pool, ProcessPool)
    pool.close()
    for arguments, message in (
        ((-1,), "workers: expected 0 or more"),
        ((1, "cloud"), "runtime: expected one of local"),
    ):
        with pytest.raises(ValueError, match=message):
            make_worker_pool(["random"], *arguments)
    with pytest.raises(ValueError, match="address: expected none without runtime=ray"):
        make_worker_pool(["random"], address="auto")


def dies_once(chunk: MatchChunk, mark: str) -> Games:
    """Replacement for `play_chunk` whose first call kills its process."""
    if not Path(mark).exists():
        Path(mark).touch()
        os._exit(1)
    return play_chunk(chunk)


@pytest.mark.slow
def test_ray_plays_the_same_games_and_repeats_those_of_a_task_that_died(tmp_path: Path) -> None:
    config = with_defaults(replace(BOTS, a="random", games=20, batch=10))
    work = [config.chunk(*chunk) for chunk in chunks(config, 0)]
    expected = [play_chunk(chunk) for chunk in work]
    pool = make_worker_pool([config.a, config.b], 1, "ray")
    assert isinstance(pool, RayPool)
    try:
        _, games = play_match(replace(config, runtime="ray"), quiet=True, pool=pool)
        assert_same_games(concatenate(expected), games)
        assert pool.failures == 0
        task = pool._ray.remote(max_retries=0)(dies_once)
        pool._play = SimpleNamespace(remote=lambda chunk: task.remote(chunk, str(tmp_path / "died")))
        for found, games in zip(pool.play(work), expected, strict=True):
            assert_same_games(found, games)
        assert pool.failures == 10
    finally:
        pool.close()
