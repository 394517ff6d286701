"""Runs that are stopped, killed, damaged or started twice go on to the same bytes."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from muzero.runs import checkpoint, metrics
from muzero.runs.run_directory import EXIT_REQUEUE
from tests.forked import WAIT
from tests.own_time import in_group, none_left
from tests.training.processes import TINY, Death, Run, result, same

_ORPHAN = 10.0  # seconds of its own that a process may live on: it imports torch before it looks for its parent
pytestmark = pytest.mark.xdist_group("runs")  # one process has the reference and the fork server


def test_finished_run_has_nothing_left_to_do(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    again = Run(tmp_path).done()
    assert "resuming belief" in again.log
    assert "nothing is left to do; a larger train.iterations=" in again.log
    assert same(result(reference), result(again.path))


def test_signals_save_and_the_same_command_resumes(reference: Path, tmp_path: Path) -> None:
    for number, iteration in ((signal.SIGTERM, 1), (signal.SIGUSR1, 3)):
        run = Run(tmp_path)
        assert run.wait_until(lambda at=iteration, run=run: run.lines >= at)  # type: ignore[misc]
        run.send(number)
        assert run.end() == EXIT_REQUEUE == 75, run.log
        saved = checkpoint.checkpoints(run.path)[-1]
        assert f"{number.name}: saved" in run.log
        assert int(saved.name) == run.lines
        assert run.lines < 6
    run = Run(tmp_path).done()
    assert "resuming belief" in run.log
    assert same(result(reference), result(run.path))


@pytest.mark.slow
def test_signal_to_the_whole_process_group_saves_once(tmp_path: Path) -> None:
    """Schedulers send signals to all processes of a job."""
    command = [sys.executable, "-m", "muzero.train", *TINY, f"run_dir={tmp_path / 'run'}", "train.mode=async"]
    longer = ["selfplay.games_per_iteration=40", "train.iterations=100000"]
    with subprocess.Popen([*command, *longer], start_new_session=True) as process:
        file = tmp_path / "run" / metrics.METRICS
        while not (file.exists() and file.read_bytes()) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)  # it waits for games
        os.killpg(process.pid, signal.SIGTERM)
        assert none_left(lambda: [process.pid] if process.poll() is None else [], WAIT)
        assert process.returncode == 75


def killed(home: Path, deaths: list[Death], *argv: str) -> Path:
    """Directory of a run that died once for each of the deaths, and was then finished."""
    for death in deaths:
        run = Run(home, *argv, death=death)
        assert run.end() == -signal.SIGKILL, (death, run.log)
    return Run(home, *argv).done().path


def test_run_killed_at_any_stage_ends_with_the_same_bytes(reference: Path, tmp_path: Path) -> None:
    """Before its first checkpoint, it starts again and keeps the log; the slow test below dies in other places, too."""
    run = Run(tmp_path, death=Death(1, "playing", 1, 0.0))
    assert run.end() == -signal.SIGKILL
    logged = (run.path / metrics.METRICS).read_bytes()
    assert logged.count(b"\n") == 1
    run = Run(tmp_path, death=Death(1, "saving", 3, 0.0))  # half of the first checkpoint
    assert run.end() == -signal.SIGKILL
    assert f"training belief in {run.path} from the start: nothing had been saved" in run.log
    assert (run.path / "metrics.before.jsonl").read_bytes() == logged
    deaths = [
        Death(1, "thinning", 1, 0.0),  # now there is a checkpoint, of iteration 2
        Death(1, "evaluating", 1, 0.0),  # in iteration 4; there is one of 3, a member of the pool
        Death(0, "learning", 3, 0.01),
    ]
    assert same(result(reference), result(killed(tmp_path, deaths)))


@pytest.mark.slow
def test_run_killed_twenty_times_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """At random moments, three iterations after the start of a process on average; the seed is printed."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    longer, rng = "train.iterations=80", random.Random(seed)
    most = {"starting": 1, "playing": 60, "learning": 4, "evaluating": 1, "logging": 1, "saving": 8, "thinning": 1}
    whole = Run(tmp_path / "whole", longer).done()
    deaths = []
    kinds = [*most, *rng.choices(list(most), k=20 - len(most))]  # each at least once
    rng.shuffle(kinds)
    for during in kinds:
        at = 0 if during == "starting" else rng.randrange(6)
        deaths.append(Death(at, during, rng.randint(1, most[during]), rng.uniform(0, 0.1)))
    path = killed(tmp_path / "killed", deaths, longer)
    assert same(result(whole.path), result(path))


@pytest.mark.slow
def test_self_play_process_does_not_outlive_a_killed_run(tmp_path: Path) -> None:
    """At a random moment after the first iteration; the seed is printed."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    command = [sys.executable, "-m", "muzero.train", *TINY, f"run_dir={tmp_path / 'run'}", "train.mode=async"]
    with subprocess.Popen([*command, "train.iterations=1000"], start_new_session=True) as process:
        while not (tmp_path / "run" / metrics.METRICS).exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(random.Random(seed).uniform(0, 6))
        process.kill()
        process.wait(WAIT)
        try:
            assert none_left(lambda: in_group(process.pid), _ORPHAN)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("file", ["weights.safetensors", pytest.param("replay_2.npz", marks=pytest.mark.slow)])
def test_damaged_checkpoint_is_passed_over(file: str, reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    before, newest = checkpoint.checkpoints(tmp_path / "run")[-2:]
    damaged = bytearray((newest / file).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (newest / file).write_bytes(damaged)
    run = Run(tmp_path).done()
    assert str(newest / file) in run.log
    assert f"using {before} instead" in run.log
    assert same(result(reference), result(run.path))


def test_directory_of_a_run_that_could_not_start_may_hold_another(tmp_path: Path) -> None:
    run = Run(tmp_path, "runtime=ray", "runtime.address=127.0.0.1:1")
    assert run.end() == 2, run.log
    assert "error: runtime.address: expected a Ray cluster that can be reached, got '127.0.0.1:1'" in run.log
    Run(tmp_path, "seed=5", "train.iterations=1").done()


def test_directory_with_another_configuration_is_refused_and_unchanged(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "run")
    run = Run(tmp_path, "learner.lr=0.5", "train.iterations=9")
    assert run.end() == 2
    assert "holds a run with another configuration (stored != yours)\n  learner.lr: 0.001 != 0.5\n" in run.log
    assert same(result(reference), result(run.path))


def test_resumed_run_may_use_another_search_backend(reference: Path, tmp_path: Path) -> None:
    """A run goes on where there is another compiler or processor."""
    shutil.copytree(reference, tmp_path / "run")
    run = Run(tmp_path, "search.backend=eager", "train.iterations=7").done()
    assert "resuming" in run.log
    assert run.lines == 7


@pytest.mark.slow
def test_resumed_run_may_use_another_runtime(tmp_path: Path) -> None:
    Run(tmp_path, "train.iterations=2").done()
    Run(tmp_path, "train.iterations=3", "runtime=ray", "runtime.workers=1").done()


def test_async_run_stops_at_a_signal_and_resumes(tmp_path: Path) -> None:
    run = Run(tmp_path, "train.mode=async", "evaluation.every=0", "train.iterations=30")
    assert run.wait_until(lambda: run.lines >= 2)
    run.send(signal.SIGTERM)
    assert run.end() == 75, run.log
    made = run.lines
    assert 2 <= made < 30
    run = Run(tmp_path, "train.mode=async", "evaluation.every=0", f"train.iterations={made + 2}").done()
    records = metrics.read(run.path)
    assert [record["iteration"] for record in records] == list(range(1, made + 3))
    games = [record["diagnostics"]["games"] for record in records]
    assert all(np.diff(games) >= 4)
    steps = [record["diagnostics"]["steps"] for record in records]
    assert steps[-1] == steps[made - 1] + 2 * 4
