"""Training runs in processes of their own, for tests that stop, kill, resume and compare them."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muzero.matches import bot_evaluation
from muzero.runs import checkpoint, metrics
from muzero.runs.ray_watchdog import descendants, processes
from muzero.search.planner import Planner
from muzero.train import main
from muzero.training.learner import Learner
from tests.forked import WAIT, fork, redirect
from tests.own_time import OwnTime
from tests.training.follow import follow

TINY = [
    "preset=smoke",
    "+variant=belief",
    "selfplay.tables=4",
    "selfplay.games_per_iteration=4",
    "selfplay.pool.every=3",
    "search.simulations=2",
    "search.max_considered=2",
    "search.backend=native",
    "game.bots=[greedy_value]",
    "game.held_out_bots=[]",
    "+game.rules.episode=round",
    "+game.rules.max_decisions=100",
    "evaluation.every=2",
    "evaluation.games=2",
    "evaluation.simulations=2",
    "evaluation.value_positions=2",
    "replay.warm_up=100",
    "learner.batch=8",
    "train.iterations=6",
    "train.checkpoint_every=2",
]


@dataclass(frozen=True)
class Death:
    """Moment of a process's suicide: after so many iterations, calls of a function and seconds more."""

    iterations: int
    during: str
    calls: int
    seconds: float

    def prepare(self) -> None:
        """Arm the process that calls this."""
        left = [self.iterations, self.calls]

        def watch(kind: Any, name: str, what: int) -> None:
            function = getattr(kind, name)

            def counted(*given: Any, **options: Any) -> Any:
                if what == 0 or left[0] <= 0:
                    left[what] -= 1
                if left[1] == 0:
                    threading.Timer(self.seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
                return function(*given, **options)

            setattr(kind, name, counted)

        watch(metrics.Metrics, "log", 0)
        watch(*MOMENTS[self.during], 1)


MOMENTS: dict[str, tuple[Any, str]] = {
    "starting": (checkpoint, "load_latest"),
    "playing": (Planner, "plan"),
    "learning": (Learner, "step"),
    "evaluating": (bot_evaluation, "evaluate_bots"),
    "logging": (metrics.Metrics, "log"),
    "saving": (checkpoint, "write"),
    "thinning": (checkpoint, "_remove_old"),
}


def _main(log: str, where: str, argv: list[str], death: Death | None) -> None:
    """Body of a process: `python -m muzero.train ARGV` in a directory, its output in a file."""
    if death:
        death.prepare()
    for stream in (1, 2):
        redirect(stream, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faulthandler.register(signal.SIGUSR2, open(2, "w", closefd=False))  # noqa: SIM115
    os.chdir(where)
    sys.argv = ["muzero.train", *argv]
    main()


def _peer(log: str, rank: int, port: int, given: tuple[str, ...]) -> None:
    """Body of one of two processes that share a learner, with the variables that torchrun sets."""
    for stream in (1, 2):
        redirect(stream, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    follow(*given)


def run_peers(port: int, path: str, latent: str, backend: str) -> None:
    """Run the two processes of `tests.training.follow` to their end, connected through a port."""
    log = Path(f"{path}.log")
    peers = [fork.Process(target=_peer, args=(str(log), rank, port, (path, latent, backend))) for rank in range(2)]
    for peer in peers:
        peer.start()
    for peer in peers:
        peer.join(WAIT)
        peer.kill()
    assert [peer.exitcode for peer in peers] == [0, 0], log.read_text()


class Run:
    """A training process in a directory of its own."""

    def __init__(
        self, home: Path, *argv: str, settings: list[str] = TINY, name: str = "run", death: Death | None = None
    ) -> None:
        home.mkdir(exist_ok=True)
        self.path, self._log = home / name, home / "log"
        self._log.unlink(missing_ok=True)
        directory = [] if name == "" else [f"run_dir={self.path}"]
        options = sorted((*settings, *directory, *argv), key=lambda word: not word.startswith("--"))  # those first
        given = (str(self._log), str(home), options, death)
        self.process = fork.Process(target=_main, args=given)
        self.process.start()

    @property
    def log(self) -> str:
        """Output so far."""
        return self._log.read_text() if self._log.exists() else ""

    @property
    def lines(self) -> int:
        """Iterations logged."""
        file = self.path / metrics.METRICS
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def wait_until(self, true: Callable[[], bool]) -> bool:
        """Whether it became true before the process ended."""
        clock = OwnTime(self._processes)
        while self.process.is_alive() and not true():
            assert clock.seconds() < WAIT, self.log
            time.sleep(0.01)
        return self.process.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self, wait: float = WAIT) -> int:
        """Wait for the end, for so many seconds of the process's own time; returns the exit code."""
        clock = OwnTime(self._processes)
        while self.process.exitcode is None and clock.seconds() < wait:
            self.process.join(0.1)
        code = self.process.exitcode
        if code is None:  # say where it hangs
            self.send(signal.SIGUSR2)
            self.process.join(2)
            self.process.kill()
        assert code is not None, self.log
        return code

    def _processes(self) -> list[int]:
        """The process and those below it."""
        assert self.process.pid is not None
        return [pid for pid, _ in descendants({self.process.pid}, processes())]

    def done(self, wait: float = WAIT) -> Run:
        """Wait for an end with exit code 0."""
        assert self.end(wait) == 0, self.log
        return self


def result(path: Path) -> dict[str, bytes]:
    """Bytes that must not depend on how a run came about: metrics, and the last checkpoint without its clock."""
    last = checkpoint.checkpoints(path)[-1]
    files = [path / metrics.METRICS, *(f for f in last.iterdir() if f.suffix in (".safetensors", ".npz"))]
    assert len(files) >= 4  # metrics, weights, optimiser, games under way; perhaps a replay buffer and averages
    state = json.loads((last / checkpoint.STATE).read_text())["state"]
    assert state.pop("elapsed") > 0
    return {last.name: json.dumps(state).encode(), **{file.name: file.read_bytes() for file in files}}


def same(one: dict[str, bytes], other: dict[str, bytes]) -> bool:
    """Whether two results are equal; an error if they hold different files."""
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]] == []
