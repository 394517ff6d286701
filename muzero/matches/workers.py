"""Who plays the games of matches: this process, several of this machine, or Ray's, here or on a cluster.

A match is cut into pieces, and whoever plays a piece, the games are the same. A worker keeps the agents that it has
built, so that one pool can play many matches.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, Protocol

import torch

from muzero.agents import agent_spec as players
from muzero.agents.agents import Agent
from muzero.config import cores, require
from muzero.matches.paired_games import GameRecordWriter, Games, InFlightStore, paired_games
from muzero.runs.memory import settle_memory
from muzero.runs.processes import die_with, first_line, join_ray

RUNTIMES = ("local", "ray")
_log = logging.getLogger(__name__)
_AGENTS_KEPT = 4  # per process; each has an arena of hidden states


@dataclass(frozen=True)
class MatchChunk:
    """Some deals of a match.

    Attributes:
      a, b: agents, see `muzero.agents.agent_spec`.
      game, players, rules, seed: of the match.
      batch: games at a time.
      first, deals: the first deal's number, and how many.
      recorder: keeps games as replays.
      keeper: keeps games under way.
    """

    a: str
    b: str
    game: str
    players: int
    rules: Any
    seed: int
    batch: int
    first: int
    deals: int
    recorder: GameRecordWriter | None = None
    keeper: InFlightStore | None = None


@lru_cache(_AGENTS_KEPT)
def _agent(text: str, game: str, seats: int, rules: str, batch: int) -> Agent:
    """Rules are in the key because a simulator keeps tables."""
    return players.build(players.parse(text), game, seats, batch=batch)


def play_piece(piece: MatchChunk, threads: int = 1) -> Games:
    """Plays it in this process; `threads` are for hand-written players, who need no network."""
    torch.set_num_threads(1)  # networks run one to a core
    a, b = (_agent(text, piece.game, piece.players, repr(piece.rules), piece.batch) for text in (piece.a, piece.b))
    return paired_games(
        a,
        b,
        piece.deals,
        game=piece.game,
        players=piece.players,
        rules=piece.rules,
        seed=piece.seed,
        first_deal=piece.first,
        batch=piece.batch,
        threads=threads,
        count=_tally.add if _tally else None,
        recorder=piece.recorder,
        keeper=piece.keeper,
    )


class GameCounter:
    """Games that have ended so far, at tables of pieces under way too. For people to look at.

    A process counts in a place that it has by its number, without a lock, which one that is killed might hold. Two
    processes that have the same place may lose a count, and games that are played again are counted again.
    """

    _PLACES = 64

    def __init__(self) -> None:
        self._numbers = get_context("spawn").RawArray("d", 2 * self._PLACES)

    def add(self, games: int, points: float) -> None:
        """Games that have just ended, and the points of agent a."""
        place = 2 * (os.getpid() % self._PLACES)
        self._numbers[place] += games
        self._numbers[place + 1] += points

    def total(self) -> tuple[float, float]:
        """Games and points, of which there are never more."""
        points = sum(self._numbers[1::2])
        return max(points, sum(self._numbers[::2])), points


_tally: GameCounter | None = None  # of this process


def _begin(parent: int, tally: GameCounter | None) -> None:
    """In a new process."""
    global _tally
    _tally = tally
    settle_memory()
    die_with(parent)


class WorkerPool(Protocol):
    """Plays pieces.

    Attributes:
      failures: games that had to be played again because who played them died.
      tally: of the games that it has played, if somebody counts them.
    """

    failures: int
    tally: GameCounter | None

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """The games of each piece, in order; not all are started at once, so that a match can stop early."""
        ...

    def close(self) -> None:
        """Lets the workers go."""
        ...


class InProcess:
    """This process."""

    def __init__(self, threads: int = 1) -> None:
        self.threads, self.failures = threads, 0
        self.tally: GameCounter | None = GameCounter()

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """See `WorkerPool`."""
        global _tally
        for piece in work:
            _tally = self.tally
            yield play_piece(piece, self.threads)

    def close(self) -> None:
        """See `WorkerPool`."""
        _agent.cache_clear()


class ProcessPool:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count, self.failures = count, 0
        self.tally: GameCounter | None = GameCounter()
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        given = os.getpid(), self.tally
        return ProcessPoolExecutor(self.count, get_context("spawn"), initializer=_begin, initargs=given)

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """See `WorkerPool`. Pieces of a process that dies are played again, once."""
        left, waiting, died_at = deque(work), deque[tuple[MatchChunk, Future[Games]]](), None
        try:
            while left or waiting:
                try:
                    while left and len(waiting) <= self.count:
                        waiting.append((left[0], self._pool.submit(play_piece, left[0])))
                        left.popleft()
                    games = waiting[0][1].result()
                except BrokenProcessPool:
                    piece = waiting[0][0] if waiting else left[0]
                    deals = f"deals {piece.first} to {piece.first + piece.deals - 1}"
                    if piece == died_at:
                        raise RuntimeError(f"a process that played {deals} has died, twice (out of memory?)") from None
                    _log.warning("a process that played games has died; %s and later ones are played again", deals)
                    died_at, self._pool = piece, self._start()
                    waiting = deque((p, f if _is_good(f) else self._again(p)) for p, f in waiting)
                    continue
                waiting.popleft()
                yield games
        finally:
            for _, future in waiting:
                future.cancel()

    def _again(self, piece: MatchChunk) -> Future[Games]:
        self.failures += piece.deals * piece.players
        return self._pool.submit(play_piece, piece)

    def close(self) -> None:
        """See `WorkerPool`. What is under way, after an early stop, is given up."""
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(cancel_futures=True)


def _is_good(future: Future[Games]) -> bool:
    return future.done() and future.exception() is None


class RayPool:
    """Ray tasks, one core each, and a share of a GPU if there are any."""

    def __init__(self, count: int, address: str = "") -> None:
        """`count` tasks at a time; 0 for one per core, of the cluster if there is an address."""
        import ray

        self._ray, self.failures = ray, 0
        self.tally: GameCounter | None = None
        self._started_here = join_ray("address", address, count or cores())
        there = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.count = count or max(1, int(there.get("CPU", 1)))
        gpus = there.get("GPU", 0) / self.count
        self._play = ray.remote(num_cpus=1, num_gpus=min(1.0, gpus), max_retries=0)(play_piece)

    def play(self, work: Sequence[MatchChunk]) -> Iterator[Games]:
        """See `WorkerPool`. A piece whose task dies is played again, once."""
        left, waiting = deque(work), deque[tuple[MatchChunk, Any]]()
        try:
            while left or waiting:
                while left and len(waiting) <= self.count:
                    waiting.append((left[0], self._play.remote(left[0])))
                    left.popleft()
                piece, reference = waiting[0]
                try:
                    games = self._ray.get(reference)
                except _deaths(self._ray) as error:
                    games = self._again(piece, error)
                waiting.popleft()
                yield games
        finally:
            for _, reference in waiting:
                self._ray.cancel(reference)

    def _again(self, piece: MatchChunk, error: Exception) -> Games:
        deals = f"deals {piece.first} to {piece.first + piece.deals - 1}"
        _log.warning("a task that played games has died; %s are played again: %s", deals, first_line(error))
        self.failures += piece.deals * piece.players
        try:
            games: Games = self._ray.get(self._play.remote(piece))
        except _deaths(self._ray) as again:
            raise RuntimeError(f"a task that played {deals} has died, twice: {first_line(again)}") from None
        return games

    def close(self) -> None:
        """See `WorkerPool`."""
        if self._started_here:
            self._ray.shutdown()


def _deaths(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises when a task is lost, and not its own error."""
    errors = ray.exceptions
    return errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError, errors.OutOfMemoryError


def only_bots(*agents: str) -> bool:
    """Whether all are hand-written: their games are played inside the core, by threads."""
    return all(players.parse(agent).kind == "bot" for agent in agents)


def make_worker_pool(agents: Sequence[str], workers: int = 0, runtime: str = "local", address: str = "") -> WorkerPool:
    """Whoever suits the agents.

    Args:
      agents: all that will play.
      workers: processes, tasks or threads; 0 for one per core.
      runtime: one of `RUNTIMES`.
      address: of a Ray cluster; "" starts one here.
    """
    require(workers >= 0, "workers", "0 or more", workers)
    require(runtime in RUNTIMES, "runtime", f"one of {', '.join(RUNTIMES)}", runtime)
    require(runtime == "ray" or not address, "address", "none without runtime=ray", address)
    if runtime == "ray":
        return RayPool(workers, address)
    count = workers or cores()
    if only_bots(*agents):
        return InProcess(threads=count)
    return ProcessPool(count) if count > 1 else InProcess()
