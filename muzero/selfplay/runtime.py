"""Who runs the self-play workers, and how weights reach them.

`local` runs one worker: in this process, in turn with the learner, or beside it in a child process (threads of one
process would wait for each other in Python). `ray` runs actors, on one machine or a cluster; weights go through the
object store once per version, and an actor that dies is replaced.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muzero.config import Config, cores, require
from muzero.runs.memory import settle_memory
from muzero.selfplay.worker import MixedSelfPlay, PlayRequest, PlayResult, SelfPlay, make_worker

Weights = Mapping[str, Tensor]
_log = logging.getLogger(__name__)
_MOST_DEATHS, _MOST_SECONDS = 20, 600.0  # of actors, and since a result: with more of both a run is given up
_MOST_CHILDREN = 3  # that die one after the other
_PATIENCE = 60.0  # seconds without a first result after which is said what is being waited for
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)  # what these mean is the parent's decision
_GENERATION = 1 << 32  # games between the deals of an actor and of the one that replaces it


class Runtime(Protocol):
    """Runs self-play."""

    def request(self, orders: PlayRequest, weights: Weights, rival: Weights | None) -> None:
        """Asks for games; at most `runtime.in_flight` requests are under way."""
        ...

    def gather(self) -> list[PlayResult]:
        """Waits for games that were asked for: in sync mode all of them, in async mode one request's worth."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Games under way, for a checkpoint; call it when nothing is being played."""
        ...

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """Continues from a checkpoint; without the games under way, with deals that were not among `games` games."""
        ...

    def close(self) -> None:
        """Stops the workers."""
        ...


def make_runtime(config: Config) -> Runtime:
    """The one that the configuration names."""
    if config.runtime.kind == "ray":
        return RayRuntime(config)
    return SyncRuntime(config) if config.train.mode == "sync" else ChildProcessRuntime(config)


def pick_device(name: str) -> torch.device:
    """ "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"runtime.device: expected auto, cpu or a device of this machine, got {name!r} ({reason})"
        ) from None
    return device


class SyncRuntime:
    """One worker, in turn with the learner."""

    def __init__(self, config: Config) -> None:
        self.worker = make_worker(config, device=str(pick_device(config.runtime.device)))
        self.threads = config.runtime.threads or cores()
        self.lanes = config.search.lanes
        self.generation = 0
        self._asked: tuple[PlayRequest, Weights, Weights | None] | None = None

    def request(self, orders: PlayRequest, weights: Weights, rival: Weights | None) -> None:
        """See `Runtime`."""
        assert self._asked is None, "the last request has not been gathered"
        self._asked = orders, weights, rival

    def gather(self) -> list[PlayResult]:
        """See `Runtime`."""
        assert self._asked is not None, "nothing has been requested"
        (orders, weights, rival), self._asked = self._asked, None
        self.worker.load_weights(weights, rival)
        # Lanes are threads of their own; torch's would only get in their way.
        torch.set_num_threads(1 if self.lanes > 1 else self.threads)
        try:
            return [self.worker.play(orders)]
        finally:
            torch.set_num_threads(self.threads)

    def state(self) -> dict[str, NDArray[Any]]:
        """See `Runtime`."""
        return _pack([self.worker.state()], [self.generation])

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """See `Runtime`."""
        found = _unpack(state, 1)
        if found:
            (own,), (self.generation,) = found
            self.worker.load(own)
        else:
            self.generation = _fresh(state, games)
            self.worker.begin_at(self.generation * _GENERATION)

    def close(self) -> None:
        """See `Runtime`."""


class ChildProcessRuntime:
    """One worker in a child process, at the same time as the learner. One that dies is replaced."""

    def __init__(self, config: Config) -> None:
        threads = config.runtime.threads or cores()
        self._config, self._threads = config, max(1, threads - threads // 2)
        self.generation = self.restarts = 0
        self._child: ProcessPoolExecutor | None = None  # until somebody asks for games
        self._asked: tuple[Any, ...] | None = None
        self._running: Future[PlayResult] | None = None

    def _start(self) -> ProcessPoolExecutor:
        given = (os.getpid(), self._config, self._threads, self.generation * _GENERATION)
        child = ProcessPoolExecutor(1, get_context("spawn"), initializer=_start_child, initargs=given)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)  # inherited, until it can ignore them itself
        try:
            child.submit(os.getpid)  # starts the process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return child

    def request(self, orders: PlayRequest, weights: Weights, rival: Weights | None) -> None:
        """See `Runtime`."""
        assert self._asked is None, "the last request has not been gathered"
        self._asked = orders, _arrays(weights), _arrays(rival) if rival else None
        self._launch()

    def _launch(self) -> None:
        assert self._asked is not None
        self._child = self._child or self._start()
        try:
            self._running = self._child.submit(_play_in_child, *self._asked)
        except BrokenProcessPool:  # it has died since it was last asked
            self._running = None

    def gather(self) -> list[PlayResult]:
        """See `Runtime`."""
        assert self._asked is not None, "nothing has been requested"
        deaths = 0
        while True:
            try:
                if self._running is not None:
                    played = self._running.result()
                    self._asked = self._running = None
                    return [played]
            except BrokenProcessPool:
                pass
            self.close()
            deaths += 1
            if deaths == _MOST_CHILDREN:
                raise RuntimeError(f"{deaths} self-play processes have died one after the other (out of memory?)")
            _log.warning("the self-play process has died (out of memory?) and is replaced; its games are lost")
            self.generation += 1
            self.restarts += 1
            self._launch()

    def state(self) -> dict[str, NDArray[Any]]:
        """See `Runtime`. Games are always under way: they are not saved."""
        return {}

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """See `Runtime`."""
        self.close()
        self.generation = _fresh(state, games)

    def close(self) -> None:
        """See `Runtime`. What is under way is given up."""
        if self._child is not None:
            for process in list((self._child._processes or {}).values()):
                process.kill()
            self._child.shutdown(cancel_futures=True)
            self._child = None


_child: SelfPlay | MixedSelfPlay | None = None  # the worker, in a child process


def _start_child(parent: int, config: Config, threads: int, first_game: int) -> None:
    global _child
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    settle_memory()
    die_with(parent)
    torch.set_num_threads(threads if config.search.lanes == 1 else 1)
    _child = make_worker(config, device=str(pick_device(config.runtime.device)))
    _child.begin_at(first_game)


def die_with(parent: int) -> None:
    """Ends this process soon after its parent, however that ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _play_in_child(orders: PlayRequest, weights: dict[str, Any], rival: dict[str, Any] | None) -> PlayResult:
    assert _child is not None
    _child.load_weights(_tensors(weights), _tensors(rival) if rival else None)
    return _child.play(orders)


def _pack(states: list[dict[str, NDArray[Any]]], generation: list[int]) -> dict[str, NDArray[Any]]:
    """States of workers as one."""
    merged = {f"{i}.{name}": array for i, state in enumerate(states) for name, array in state.items()}
    return {**merged, "generation": np.array(generation)}


def _unpack(state: Mapping[str, NDArray[Any]], workers: int) -> tuple[list[dict[str, NDArray[Any]]], list[int]] | None:
    """The other way; None if there are no games to continue, or those of another number of workers."""
    if "generation" not in state or len(state["generation"]) != workers:
        return None
    split = [name.partition(".") for name in state if name != "generation"]
    states = [{n: state[f"{i}.{n}"] for i, _, n in split if i == str(worker)} for worker in range(workers)]
    return states, [int(g) for g in state["generation"]]


def _fresh(state: Mapping[str, NDArray[Any]], games: int) -> int:
    """A generation whose deals nobody has played: later than any before it."""
    return 1 + games + int(max(state["generation"], default=0) if "generation" in state else 0)


def _arrays(weights: Weights) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in weights.items()}


def _tensors(weights: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}


class _Actor:
    """What runs in a Ray actor: a worker with its own threads."""

    def __init__(self, config: Config, worker: int, workers: int, generation: int) -> None:
        torch.set_num_threads(config.runtime.worker_threads)
        settle_memory()
        device = "cuda" if config.runtime.worker_gpus > 0 else "cpu"
        found = f"none that torch {torch.__version__} can use"
        require(device == "cpu" or torch.cuda.is_available(), "runtime.worker_gpus", "a GPU on the node", found)
        self.worker = make_worker(config, worker, workers, device)
        self.worker.begin_at(generation * _GENERATION)

    def play(self, orders: PlayRequest, weights: dict[str, Any], rival: dict[str, Any] | None) -> PlayResult:
        """Plays with the weights given."""
        self.worker.load_weights(_tensors(weights), _tensors(rival) if rival else None)
        return self.worker.play(orders)

    def state(self) -> dict[str, NDArray[Any]]:
        """Games under way."""
        return self.worker.state()

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continues games."""
        self.worker.load({name: np.array(array) for name, array in state.items()})


def join_ray(key: str, address: str, cpus: int) -> bool:
    """Connects to a cluster, or without an address starts one of this machine alone; False if there already is a
    connection. `key` is what the address is called in errors."""
    import ray

    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    here = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        _reach(address)
        ray.init(**settings, **({"address": address} if address else here))
    except OSError as error:  # of which ConnectionError is one
        if not address:
            raise
        reason = first_line(error)
        raise ValueError(f"{key}: expected a Ray cluster that can be reached, got {address!r} ({reason})") from None
    return True


def first_line(error: Exception) -> str:
    """Of what an error says: Ray's go on for pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _reach(address: str) -> None:
    """Raises OSError if nobody answers at host:port, for which Ray would wait for good."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


class RayRuntime:
    """Actors on a machine or a cluster."""

    def __init__(self, config: Config) -> None:
        import ray

        self.config, self.ray = config, ray
        r = config.runtime
        cpus = max(cores(), int(np.ceil(r.workers * r.worker_cpus)))
        self._started_here = join_ray("runtime.address", r.address, cpus)
        try:
            self._check_room()
        except ValueError:
            ray.shutdown()
            raise
        self._make = ray.remote(
            num_cpus=r.worker_cpus, num_gpus=r.worker_gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )(_Actor)
        self._deadly = ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError
        self.generation = [0] * r.workers
        self.restarts = 0
        self._deaths = 0  # since the last result,
        self._landed_at = time.monotonic()  # which came at this time,
        self._landed = False  # if there was one at all
        self.actors = [self._actor(i) for i in range(r.workers)]
        self._flights: dict[Any, tuple[int, Any, tuple[Any, ...]]] = {}  # result -> index, actor, what it was asked

    def _check_room(self) -> None:
        """Refuses, or on a cluster, which may grow, warns of, actors that there is no place for."""
        r, there = self.config.runtime, self.ray.cluster_resources()  # type: ignore[no-untyped-call]
        for kind, each in (("CPU", r.worker_cpus), ("GPU", r.worker_gpus)):
            have, wanted = there.get(kind, 0.0), each * r.workers
            key = f"runtime.worker_{kind.lower()}s={each:g} for runtime.workers={r.workers}"
            if wanted > have and self._started_here and not r.address:
                require(False, key, f"{wanted:g} {kind}s on this machine", f"{have:g}")
            elif wanted > have:
                _log.warning("%s: %g %ss, the cluster has %g; actors without a place wait", key, wanted, kind, have)

    def _actor(self, index: int) -> Any:
        return self._make.remote(self.config, index, self.config.runtime.workers, self.generation[index])

    def request(self, orders: PlayRequest, weights: Weights, rival: Weights | None) -> None:
        """See `Runtime`. Actors that have enough to do are left alone."""
        put = self.ray.put(_arrays(weights))
        put_rival = self.ray.put(_arrays(rival)) if rival else None
        share = replace(orders, episodes=-(-orders.episodes // len(self.actors)))
        busy = [index for index, _, _ in self._flights.values()]
        for index in range(len(self.actors)):
            if busy.count(index) < self.config.runtime.in_flight:
                self._launch(index, (share, put, put_rival))

    def _launch(self, index: int, asked: tuple[Any, ...]) -> Any:
        result = self.actors[index].play.remote(*asked)
        self._flights[result] = index, self.actors[index], asked
        return result

    def gather(self) -> list[PlayResult]:
        """See `Runtime`."""
        require(bool(self._flights), "runtime", "a request before gathering", "none")
        # An iteration's worth: what one request asks of all actors together, whoever is first.
        wanted = len(self._flights) if self.config.train.mode == "sync" else len(self.actors)
        landed: dict[Any, PlayResult] = {}
        order = list(self._flights)
        while self._flights and len(landed) < wanted:
            ready, _ = self.ray.wait(list(self._flights), num_returns=1, timeout=_PATIENCE)
            if not ready and not self._landed:
                self._say_what_is_missing()
            for result in ready:
                index, actor, asked = self._flights.pop(result)
                try:
                    landed[result] = self.ray.get(result)
                    self._deaths, self._landed_at, self._landed = 0, time.monotonic(), True
                except self.ray.exceptions.ObjectLostError:  # with the node that kept it
                    order[order.index(result)] = self._launch(index, asked)
                except self._deadly as error:
                    if getattr(error, "actor_init_failed", False):  # it would fail again
                        raise RuntimeError(f"self-play actor {index} cannot start: {error}") from None
                    if actor is self.actors[index]:  # and not replaced already, for another of its results
                        self._note_death(index, error)
                        self._replace(index)
                    order[order.index(result)] = self._launch(index, asked)
        return [landed[result] for result in order if result in landed]

    def _say_what_is_missing(self) -> None:
        r, free = self.config.runtime, self.ray.available_resources()  # type: ignore[no-untyped-call]
        actors = f"{r.workers} actors of {r.worker_cpus:g} CPUs and {r.worker_gpus:g} GPUs each"
        text = "still waiting for the first games of %s; free in the cluster: %g CPUs and %g GPUs"
        _log.warning(text, actors, free.get("CPU", 0), free.get("GPU", 0))

    def _note_death(self, index: int, error: Exception) -> None:
        """Says so; an error if actors only ever die."""
        self._deaths += 1
        what = first_line(error)
        _log.warning("self-play actor %d died and is replaced: %s", index, what)
        if self._deaths > _MOST_DEATHS and time.monotonic() - self._landed_at > _MOST_SECONDS:
            raise RuntimeError(f"{self._deaths} self-play actors have died one after the other; the last: {what}")

    def _replace(self, index: int) -> None:
        """A new actor in place of a dead one; its games under way are lost."""
        self.generation[index] += 1
        self.restarts += 1
        self.actors[index] = self._actor(index)

    def state(self) -> dict[str, NDArray[Any]]:
        """See `Runtime`. If an actor has died, nothing is known of the games under way."""
        if self._flights:
            return {}
        try:
            return _pack(self.ray.get([actor.state.remote() for actor in self.actors]), self.generation)
        except (*self._deadly, self.ray.exceptions.ObjectLostError):
            return {}

    def load(self, state: Mapping[str, NDArray[Any]], games: int) -> None:
        """See `Runtime`."""
        found = _unpack(state, len(self.actors))
        if found:
            states, self.generation = found
            self.ray.get([actor.load.remote(own) for actor, own in zip(self.actors, states, strict=True)])
        else:
            for index in range(len(self.actors)):
                self.generation[index] = _fresh(state, games) - 1
                self.ray.kill(self.actors[index])
                self._replace(index)
            self.restarts = 0

    def close(self) -> None:
        """See `Runtime`."""
        for actor in self.actors:
            self.ray.kill(actor)
        if self._started_here:
            self.ray.shutdown()
