"""Local runtimes: one self-play worker on this machine, in this process or in a child process."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch
from numpy.typing import NDArray

from muzero.config import Config, cores
from muzero.runs.memory import settle_memory, spare_present_objects
from muzero.runs.processes import WorkerDied, die_with, last_words, pick_device, reason_of_death
from muzero.selfplay.opponents import MakeOpponent
from muzero.selfplay.serialization import (
    GENERATION_GAMES,
    Weights,
    pack_states,
    unpack_states,
    unplayed_generation,
    weights_from_numpy,
    weights_to_numpy,
)
from muzero.selfplay.worker import MixedSelfPlay, PlayRequest, PlayResult, SelfPlay, make_worker

_log = logging.getLogger(__name__)
_MAX_DEATHS = 3  # number of child processes that may die in a row before the run is given up
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)  # signals that only the parent handles


class SyncRuntime:
    """Runtime with one worker in this process, alternating with the learner. See `Runtime` for the methods."""

    def __init__(self, config: Config, exploited: MakeOpponent | None = None) -> None:
        self.worker = make_worker(config, device=str(pick_device(config.runtime.device)), exploited=exploited)
        self.threads = config.runtime.threads or cores()
        self.lanes = config.search.lanes
        self.generation = 0
        self._requested: tuple[PlayRequest, Weights, Weights | None] | None = None

    def request(self, request: PlayRequest, weights: Weights, past_self: Weights | None) -> None:
        """Remember a request; `gather` plays its games."""
        assert self._requested is None, "the last request has not been gathered"
        self._requested = request, weights, past_self

    def gather(self) -> list[PlayResult]:
        """Play the games that were requested."""
        assert self._requested is not None, "nothing has been requested"
        (request, weights, past_self), self._requested = self._requested, None
        self.worker.load_weights(weights, past_self)
        # Each lane of the search has a thread of its own; more threads of torch would only compete with them.
        torch.set_num_threads(1 if self.lanes > 1 else self.threads)
        try:
            return [self.worker.play(request)]
        finally:
            torch.set_num_threads(self.threads)

    @property
    def idle(self) -> bool:
        """See `Runtime.idle`: games are played while the learner waits."""
        return True

    def state(self) -> dict[str, NDArray[Any]]:
        """Games in progress, for a checkpoint."""
        return pack_states([self.worker.state()], [self.generation])

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """Continue from a checkpoint."""
        found = unpack_states(state, 1)
        if found:
            (own,), (self.generation,) = found
            self.worker.load(own)
        else:
            self.generation = unplayed_generation(state, games)
            self.worker.begin_at(self.generation * GENERATION_GAMES)

    def close(self) -> None:
        """Do nothing: there is no other process."""


class ChildProcessRuntime:
    """Runtime with one worker in a child process, which plays while the learner learns. See `Runtime` for the methods.

    The child is a process and not a thread, because threads of one Python process would wait for each other. A child
    that dies is replaced.
    """

    def __init__(self, config: Config, exploited: MakeOpponent | None = None) -> None:
        threads = config.runtime.threads or cores()
        self._exploited = exploited
        self._config, self._threads = config, max(1, threads - threads // 2)
        self.generation = self.restarts = 0
        self._child: ProcessPoolExecutor | None = None  # child process, started by the first request
        self._requested: tuple[Any, ...] | None = None
        self._running: Future[PlayResult] | None = None

    def _start(self) -> ProcessPoolExecutor:
        self._words, words = get_context("spawn").Pipe(duplex=False)
        given = (os.getpid(), self._config, self._threads, self.generation * GENERATION_GAMES, words, self._exploited)
        child = ProcessPoolExecutor(1, get_context("spawn"), initializer=_start_child, initargs=given)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # the child inherits the mask, then ignores them
        try:
            child.submit(os.getpid)  # the first task starts the process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return child

    def request(self, request: PlayRequest, weights: Weights, past_self: Weights | None) -> None:
        """Let the child process play the games of a request."""
        assert self._requested is None, "the last request has not been gathered"
        self._requested = request, weights_to_numpy(weights), weights_to_numpy(past_self) if past_self else None
        self._launch()

    def _launch(self) -> None:
        assert self._requested is not None
        self._child = self._child or self._start()
        try:
            self._running = self._child.submit(_play_in_child, *self._requested)
        except BrokenProcessPool:  # the child has died since the last request
            self._running = None

    def gather(self) -> list[PlayResult]:
        """Wait for the child's result, replacing the child if it dies."""
        assert self._requested is not None, "nothing has been requested"
        deaths = 0
        while True:
            try:
                if self._running is not None:
                    played = self._running.result()
                    self._requested = self._running = None
                    return [played]
            except BrokenProcessPool:
                pass
            reason = self._reason()
            self.close()
            deaths += 1
            if deaths == _MAX_DEATHS:
                raise WorkerDied(f"{deaths} self-play processes have died one after the other; the last: {reason}")
            _log.warning("the self-play process has died (%s) and is replaced; its games are lost", reason)
            self.generation += 1
            self.restarts += 1
            self._launch()

    def _reason(self) -> str:
        """Reason why the child has died."""
        assert self._child is not None
        (process,) = (self._child._processes or {}).values()
        return reason_of_death(process, self._words)

    @property
    def idle(self) -> bool:
        """See `Runtime.idle`: whether the child has played all that was requested."""
        return self._running is None or self._running.done()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return {}: the child is always playing, so its games in progress are not saved."""
        return {}

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """Continue from a checkpoint, with new games."""
        self.close()
        self.generation = unplayed_generation(state, games)

    def close(self) -> None:
        """Stop the child; the games that it is playing are lost."""
        if self._child is not None:
            for process in list((self._child._processes or {}).values()):
                process.kill()
            self._child.shutdown(cancel_futures=True)
            self._child = None


_worker: SelfPlay | MixedSelfPlay | None = None  # worker of this child process


def _start_child(
    parent: int, config: Config, threads: int, first_game: int, words: Connection, exploited: MakeOpponent | None
) -> None:
    """Initialise a child process; `words` tells the parent why it could not."""
    global _worker
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with last_words(words):
        settle_memory()
        die_with(parent)
        torch.set_num_threads(threads if config.search.lanes == 1 else 1)
        _worker = make_worker(config, device=str(pick_device(config.runtime.device)), exploited=exploited)
        _worker.begin_at(first_game)
        spare_present_objects()


def _play_in_child(request: PlayRequest, weights: dict[str, Any], past_self: dict[str, Any] | None) -> PlayResult:
    """Play the games of a request in a child process."""
    assert _worker is not None
    _worker.load_weights(weights_from_numpy(weights), weights_from_numpy(past_self) if past_self else None)
    return _worker.play(request)
