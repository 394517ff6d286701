"""Ray runtime: self-play workers as actors, on one machine or a cluster.

Weights go through Ray's object store once per version. An actor that dies is replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from muzero.config import Config, cores
from muzero.config.fields import require
from muzero.runs.memory import settle_memory
from muzero.runs.processes import WorkerDied, first_line, join_ray, leave_ray
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
from muzero.selfplay.worker import PlayRequest, PlayResult, make_worker

_log = logging.getLogger(__name__)
_MAX_DEATHS = 20  # number of actors that may die without a result in between,
_MAX_SECONDS = 600.0  # and seconds without a result: past both limits the run is given up
_PATIENCE = 60.0  # seconds without a first result after which a warning says what is missing


class _Actor:
    """Ray actor: a worker with its own threads."""

    def __init__(
        self, config: Config, worker: int, workers: int, generation: int, exploited: MakeOpponent | None = None
    ) -> None:
        torch.set_num_threads(config.runtime.worker_threads)
        settle_memory()
        device = "cuda" if config.runtime.worker_gpus > 0 else "cpu"
        found = f"none that torch {torch.__version__} can use"
        require(device == "cpu" or torch.cuda.is_available(), "runtime.worker_gpus", "a GPU on the node", found)
        self.worker = make_worker(config, worker, workers, device, exploited)
        self.worker.begin_at(generation * GENERATION_GAMES)

    def play(self, request: PlayRequest, weights: dict[str, Any], past_self: dict[str, Any] | None) -> PlayResult:
        """Play the games of a request with these weights."""
        self.worker.load_weights(weights_from_numpy(weights), weights_from_numpy(past_self) if past_self else None)
        return self.worker.play(request)

    def state(self) -> dict[str, NDArray[Any]]:
        """State of the games in progress."""
        return self.worker.state()

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue the games of a saved state."""
        self.worker.load({name: np.array(array) for name, array in state.items()})


class RayRuntime:
    """Runtime with one worker per Ray actor. See `Runtime` for the methods."""

    def __init__(self, config: Config, exploited: MakeOpponent | None = None) -> None:
        import ray

        self.config, self.ray, self._exploited = config, ray, exploited
        r = config.runtime
        cpus = max(cores(), int(np.ceil(r.workers * r.worker_cpus)))
        self._started_here = join_ray("runtime.address", r.address, cpus, r.dashboard)
        try:
            self._check_room()
        except ValueError:
            leave_ray()
            raise
        self._make = ray.remote(
            num_cpus=r.worker_cpus, num_gpus=r.worker_gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )(_Actor)
        self._deadly = ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError
        self.generation = [0] * r.workers
        self.restarts = 0
        self._deaths = 0  # number of actors that have died since the last result
        self._last_result = time.monotonic()  # time of the last result, or of the start
        self._any_result = False
        self.actors = [self._actor(i) for i in range(r.workers)]
        self._pending: dict[Any, tuple[int, Any, tuple[Any, ...]]] = {}  # result -> actor's index, actor, arguments

    def _check_room(self) -> None:
        """Refuse actors that do not fit on this machine; on a cluster, which may grow, only warn."""
        r, there = self.config.runtime, self.ray.cluster_resources()  # type: ignore[no-untyped-call]
        for kind, each in (("CPU", r.worker_cpus), ("GPU", r.worker_gpus)):
            have, wanted = there.get(kind, 0.0), each * r.workers
            key = f"runtime.worker_{kind.lower()}s={each:g} for runtime.workers={r.workers}"
            if wanted > have and self._started_here and not r.address:
                require(False, key, f"{wanted:g} {kind}s on this machine", f"{have:g}")
            elif wanted > have:
                _log.warning("%s: %g %ss, the cluster has %g; actors without a place wait", key, wanted, kind, have)

    def _actor(self, index: int) -> Any:
        workers, generation = self.config.runtime.workers, self.generation[index]
        return self._make.remote(self.config, index, workers, generation, self._exploited)

    def request(self, request: PlayRequest, weights: Weights, past_self: Weights | None) -> None:
        """Share a request among the actors, except those that have `runtime.in_flight` requests already."""
        put = self.ray.put(weights_to_numpy(weights))
        put_past_self = self.ray.put(weights_to_numpy(past_self)) if past_self else None
        share = replace(request, games=-(-request.games // len(self.actors)))
        busy = [index for index, _, _ in self._pending.values()]
        for index in range(len(self.actors)):
            if busy.count(index) < self.config.runtime.in_flight:
                self._launch(index, (share, put, put_past_self))

    def _launch(self, index: int, arguments: tuple[Any, ...]) -> Any:
        result = self.actors[index].play.remote(*arguments)
        self._pending[result] = index, self.actors[index], arguments
        return result

    def gather(self) -> list[PlayResult]:
        """Wait for results, replacing actors that die."""
        require(bool(self._pending), "runtime", "a request before gathering", "none")
        # In async mode, wait for as many results as one request asks of all actors together, whichever come first.
        wanted = len(self._pending) if self.config.train.mode == "sync" else len(self.actors)
        finished: dict[Any, PlayResult] = {}
        order = list(self._pending)
        while self._pending and len(finished) < wanted:
            ready, _ = self.ray.wait(list(self._pending), num_returns=1, timeout=_PATIENCE)
            if not ready and not self._any_result:
                self._warn_about_resources()
            for result in ready:
                index, actor, arguments = self._pending.pop(result)
                try:
                    finished[result] = self.ray.get(result)
                    self._deaths, self._last_result, self._any_result = 0, time.monotonic(), True
                except self.ray.exceptions.ObjectLostError:  # the result was lost with the node that stored it
                    order[order.index(result)] = self._launch(index, arguments)
                except self._deadly as error:
                    if getattr(error, "actor_init_failed", False):  # a new actor would fail, too
                        raise WorkerDied(f"self-play actor {index} cannot start: {error}") from None
                    if actor is self.actors[index]:  # another of its results may have replaced it already
                        self._note_death(index, error)
                        self._replace(index)
                    order[order.index(result)] = self._launch(index, arguments)
        return [finished[result] for result in order if result in finished]

    def _warn_about_resources(self) -> None:
        """Say what the actors need and what is free: without free resources they would wait in silence."""
        r, free = self.config.runtime, self.ray.available_resources()  # type: ignore[no-untyped-call]
        actors = f"{r.workers} actors of {r.worker_cpus:g} CPUs and {r.worker_gpus:g} GPUs each"
        text = "still waiting for the first games of %s; free in the cluster: %g CPUs and %g GPUs"
        _log.warning(text, actors, free.get("CPU", 0), free.get("GPU", 0))

    def _note_death(self, index: int, error: Exception) -> None:
        """Log the death of an actor; raise an error if actors keep dying without any result."""
        self._deaths += 1
        reason = first_line(error)
        _log.warning("self-play actor %d died and is replaced: %s", index, reason)
        if self._deaths > _MAX_DEATHS and time.monotonic() - self._last_result > _MAX_SECONDS:
            raise WorkerDied(f"{self._deaths} self-play actors have died one after the other; the last: {reason}")

    def _replace(self, index: int) -> None:
        """Start a new actor in place of a dead one, whose games in progress are lost."""
        self.generation[index] += 1
        self.restarts += 1
        self.actors[index] = self._actor(index)

    @property
    def idle(self) -> bool:
        """See `Runtime.idle`: Ray shares out the cores, so the learner keeps to its own."""
        return False

    def state(self) -> dict[str, NDArray[Any]]:
        """Games in progress, for a checkpoint; {} while actors play or if one has died."""
        if self._pending:
            return {}
        try:
            return pack_states(self.ray.get([actor.state.remote() for actor in self.actors]), self.generation)
        except (*self._deadly, self.ray.exceptions.ObjectLostError):
            return {}

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """Continue from a checkpoint; without games to continue, with new actors."""
        found = unpack_states(state, len(self.actors))
        if found:
            states, self.generation = found
            try:
                self.ray.get([actor.load.remote(own) for actor, own in zip(self.actors, states, strict=True)])
            except self.ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, ValueError):  # Ray's own message is the actor's traceback
                    raise ValueError(str(error.cause)) from None
                raise
        else:
            for index in range(len(self.actors)):
                self.generation[index] = unplayed_generation(state, games) - 1
                self.ray.kill(self.actors[index])
                self._replace(index)
            self.restarts = 0

    def close(self) -> None:
        """Stop the actors, and Ray if it was started here."""
        for actor in self.actors:
            self.ray.kill(actor)
        if self._started_here:
            leave_ray()
