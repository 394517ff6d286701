"""Worker pools that play the games of matches: this process, several processes of this machine, or Ray tasks.

A match is cut into chunks; the games of a chunk are the same in every pool. A worker process caches the agents that it
has built, so that one pool can play many matches.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, Protocol

import torch

from muzero.agents.agent_spec import AgentSpec, build, load_value_model
from muzero.agents.situation import Agent
from muzero.config import cores
from muzero.config.fields import require
from muzero.matches.chunk import MatchChunk
from muzero.matches.games import Games
from muzero.matches.paired_games import paired_games
from muzero.runs.memory import settle_memory
from muzero.runs.processes import WorkerDied, die_with, first_line, join_ray, leave_ray, reason_of_death

RUNTIMES = ("local", "ray")
_log = logging.getLogger(__name__)
_AGENTS_CACHED = 4  # agents kept per process; each has an arena of hidden states


@lru_cache(_AGENTS_CACHED)
def _agent(text: str, game: str, players: int, rules: str, batch: int) -> Agent:
    """Build an agent, or take it from the cache; the rules are part of the key because a simulator has tables."""
    return build(AgentSpec.parse(text), game, players, batch=batch)


def play_chunk(chunk: MatchChunk, threads: int = 1) -> Games:
    """Play a chunk in this process; `threads` step the tables, which pays for games of bots only."""
    torch.set_num_threads(1)  # one thread: every core runs a network of its own
    a, b = (_agent(text, chunk.game, chunk.players, repr(chunk.rules), chunk.batch) for text in (chunk.a, chunk.b))
    luck = load_value_model(chunk.luck, chunk.game, chunk.players, chunk.rules) if chunk.luck else None
    return paired_games(
        a,
        b,
        chunk.deals,
        game=chunk.game,
        players=chunk.players,
        rules=chunk.rules,
        seed=chunk.seed,
        first_deal=chunk.first,
        batch=chunk.batch,
        threads=threads,
        count=_counter.add if _counter else None,
        record_writer=chunk.record_writer,
        in_flight=chunk.in_flight,
        luck=luck,
    )


class GameCounter:
    """Count of the games that have ended so far, in unfinished chunks too; for progress bars only.

    A process counts in the slot of its process id, without a lock, which a killed process might hold forever. Two
    processes with the same slot may lose a count, and games that are played again are counted again.
    """

    _SLOTS = 64

    def __init__(self) -> None:
        self._numbers = get_context("spawn").RawArray("d", 2 * self._SLOTS)

    def add(self, games: int, points: float) -> None:
        """Add games that have just ended, and the points of agent a."""
        slot = 2 * (os.getpid() % self._SLOTS)
        self._numbers[slot] += games
        self._numbers[slot + 1] += points

    def total(self) -> tuple[float, float]:
        """Number of games that have ended, and the points of agent a in them, which are never more than the games."""
        points = sum(self._numbers[1::2])
        return max(points, sum(self._numbers[::2])), points


_counter: GameCounter | None = None  # counter of this process


def _start_process(parent: int, counter: GameCounter | None) -> None:
    """Prepare a new worker process."""
    global _counter
    _counter = counter
    settle_memory()
    die_with(parent)


class WorkerPool(Protocol):
    """Plays chunks of matches.

    Attributes:
      failures: number of games that had to be played again because their worker died.
      counter: counter of games as they end; None if the pool cannot count them.
    """

    failures: int
    counter: GameCounter | None

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """Yield the games of each chunk, in order; chunks start one by one, so that a match can stop early."""
        ...

    def close(self) -> None:
        """Stop the workers."""
        ...


class InProcess:
    """Worker pool without workers: this process plays."""

    def __init__(self, threads: int = 1) -> None:
        self.threads, self.failures = threads, 0
        self.counter: GameCounter | None = GameCounter()

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """See `WorkerPool`."""
        global _counter
        for chunk in work:
            _counter = self.counter
            yield play_chunk(chunk, self.threads)

    def close(self) -> None:
        """See `WorkerPool`."""
        _agent.cache_clear()


class ProcessPool:
    """Worker pool of processes on this machine."""

    def __init__(self, count: int) -> None:
        self.count, self.failures = count, 0
        self.counter: GameCounter | None = GameCounter()
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        given = os.getpid(), self.counter
        return ProcessPoolExecutor(self.count, get_context("spawn"), initializer=_start_process, initargs=given)

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """See `WorkerPool`. If a process dies, the unfinished chunks are played again, once."""
        left, waiting, died_at = deque(work), deque[tuple[MatchChunk, Future[Games]]](), None
        try:
            while left or waiting:
                try:
                    while left and len(waiting) <= self.count:
                        waiting.append((left[0], self._pool.submit(play_chunk, left[0])))
                        left.popleft()
                    games = waiting[0][1].result()
                except BrokenProcessPool:
                    chunk = waiting[0][0] if waiting else left[0]
                    deals, reason = f"deals {chunk.first} to {chunk.first + chunk.deals - 1}", self._reason()
                    if chunk == died_at:
                        raise WorkerDied(f"a process that played {deals} has died, twice: {reason}") from None
                    text = "a process that played games has died (%s); %s and later ones are played again"
                    _log.warning(text, reason, deals)
                    died_at, self._pool = chunk, self._start()
                    waiting = deque((p, f if _is_good(f) else self._again(p)) for p, f in waiting)
                    continue
                waiting.popleft()
                yield games
        finally:
            for _, future in waiting:
                future.cancel()

    def _reason(self) -> str:
        """Reason why a process has died; the pool itself has then ended the others with SIGTERM."""
        reasons = [reason_of_death(process) for process in (self._pool._processes or {}).values()]
        return next((reason for reason in reasons if "SIGTERM" not in reason), "killed by SIGTERM")

    def _again(self, chunk: MatchChunk) -> Future[Games]:
        self.failures += chunk.deals * chunk.players
        return self._pool.submit(play_chunk, chunk)

    def close(self) -> None:
        """See `WorkerPool`. Chunks that are still being played, after an early stop, are abandoned."""
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(cancel_futures=True)


def _is_good(future: Future[Games]) -> bool:
    return future.done() and future.exception() is None


class RayPool:
    """Worker pool of Ray tasks, each with one core, and an equal share of the GPUs if there are any."""

    def __init__(self, count: int, address: str = "") -> None:
        """Join or start Ray; `count` tasks run at a time, 0 for one per core of the machine or cluster."""
        import ray

        self._ray, self.failures = ray, 0
        self.counter: GameCounter | None = None
        self._started_here = join_ray("address", address, count or cores())
        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.count = count or max(1, int(resources.get("CPU", 1)))
        gpus = resources.get("GPU", 0) / self.count
        self._play = ray.remote(num_cpus=1, num_gpus=min(1.0, gpus), max_retries=0)(play_chunk)

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """See `WorkerPool`. If a task dies, its chunk is played again, once."""
        left, waiting = deque(work), deque[tuple[MatchChunk, Any]]()
        try:
            while left or waiting:
                while left and len(waiting) <= self.count:
                    waiting.append((left[0], self._play.remote(left[0])))
                    left.popleft()
                chunk, reference = waiting[0]
                try:
                    games = self._ray.get(reference)
                except _deaths(self._ray) as error:
                    games = self._again(chunk, error)
                waiting.popleft()
                yield games
        finally:
            for _, reference in waiting:
                self._ray.cancel(reference)

    def _again(self, chunk: MatchChunk, error: Exception) -> Games:
        deals = f"deals {chunk.first} to {chunk.first + chunk.deals - 1}"
        _log.warning("a task that played games has died; %s are played again: %s", deals, first_line(error))
        self.failures += chunk.deals * chunk.players
        try:
            games: Games = self._ray.get(self._play.remote(chunk))
        except _deaths(self._ray) as again:
            raise WorkerDied(f"a task that played {deals} has died, twice: {first_line(again)}") from None
        return games

    def close(self) -> None:
        """See `WorkerPool`."""
        if self._started_here:
            leave_ray()


def _deaths(ray: Any) -> tuple[type[Exception], ...]:
    """Errors that Ray raises when a task is lost, as opposed to errors of the task itself."""
    errors = ray.exceptions
    return errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError, errors.OutOfMemoryError


def only_bots(*agents: str) -> bool:
    """Tell whether all agents are bots, whose games are played inside the C++ core, by threads."""
    return all(AgentSpec.parse(agent).kind == "bot" for agent in agents)


def make_worker_pool(
    agents: Sequence[str], workers: int = 0, runtime: str = "local", address: str = "", luck: str = ""
) -> WorkerPool:
    """Make the worker pool that suits the agents.

    Args:
      agents: texts of all agents that will play.
      workers: number of processes, tasks or threads; 0 for one per core.
      runtime: name of the runtime, one of `RUNTIMES`.
      address: address of a Ray cluster; "" starts a cluster on this machine.
      luck: name of the value function by which luck is measured, for which processes are better than threads.
    """
    require(workers >= 0, "workers", "0 or more", workers)
    require(runtime in RUNTIMES, "runtime", f"one of {', '.join(RUNTIMES)}", runtime)
    require(runtime == "ray" or not address, "address", "none without runtime=ray", address)
    if runtime == "ray":
        return RayPool(workers, address)
    count = workers or cores()
    if only_bots(*agents) and not luck:
        return InProcess(threads=count)
    return ProcessPool(count) if count > 1 else InProcess()
