"""Failures of the world around a run: a full disk, a directory that is gone, damaged state, processes that die."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muzero.runs import checkpoint, metrics
from muzero.runs.files import fingerprint, json_text, read_json
from muzero.runs.provenance import PROVENANCE, read_provenance, recorded
from muzero.runs.ray_watchdog import descendants, processes
from muzero.runs.tensors import read_tensors, write_tensors
from muzero.search.lane import Lane
from muzero.training.command import train
from tests.forked import WAIT
from tests.fuzz.samples import configuration
from tests.own_time import OwnTime, none_left, state
from tests.training.processes import TINY


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files cannot grow beyond a size, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_full_disk_is_one_line_with_the_file_the_need_and_the_last_good_checkpoint(
    one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)
    capsys.readouterr()
    with largest_file(20_000):
        assert train(configuration(run, 2)) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert line.startswith(
        f"error: {run}/checkpoints/.draft-000002/weights.safetensors: cannot be written: File too large"
    )
    assert "it needs 0." in line
    assert "MB are free in" in line
    assert line.endswith(f"last good checkpoint: {run}/checkpoints/000001")
    assert train(configuration(run, 2)) == 0, "with room, the same command goes on"
    assert len(metrics.read(run)) == 2


@pytest.mark.parametrize("at", ["start", "saving"])
def test_place_that_cannot_be_written_to_is_named(
    at: str, one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file stands where a directory is needed; permissions would not stop root."""
    if at == "start":
        (tmp_path / "file").write_text("")
        assert train(configuration(tmp_path / "file" / "run", 1)) == 1
        assert f"error: {tmp_path}/file/run: cannot be written: Not a directory" in capsys.readouterr().err
        return
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)
    (run / "records").rename(run / "before")
    (run / "records").write_text("")
    capsys.readouterr()
    assert train(configuration(run, 2)) == 1
    error = capsys.readouterr().err
    assert f"error: {run}/records/000002-0.json: cannot be written: " in error
    assert "Traceback" not in error


@pytest.mark.parametrize("place", ["loop", "pipe", "directory", "device"])
def test_provenance_that_cannot_be_written_is_named_and_nothing_hangs(
    place: str, one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(one_iteration, tmp_path / "run")
    file = tmp_path / "run" / PROVENANCE
    file.unlink()
    if place == "loop":
        file.symlink_to(file)
    elif place == "pipe":
        os.mkfifo(file)
    elif place == "directory":
        file.mkdir()
    else:
        file.symlink_to("/dev/null")
    capsys.readouterr()
    assert train(configuration(tmp_path / "run", 2)) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert line.startswith(f"error: {file}: cannot be written: ")
    assert line.endswith("; nothing has been trained")


def test_end_of_a_run_on_a_full_disk_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with recorded(tmp_path) as closing:
        closing["code"] = 1
        size = (tmp_path / PROVENANCE).stat().st_size
        stack = ExitStack()
        stack.enter_context(largest_file(size))
    stack.close()
    assert capsys.readouterr().err.startswith(f"warning: {tmp_path / PROVENANCE}: cannot be written: File too large")
    assert [facts["event"] for facts in read_provenance(tmp_path)] == ["start"]


def changed_state(run: Path, **changes: Any) -> None:
    """Change the state of the only complete checkpoint, and make its manifest fit."""
    (place,) = checkpoint.checkpoints(run)
    content = read_json(place / checkpoint.STATE)
    content["state"] |= changes
    (place / checkpoint.STATE).write_text(json_text(content))
    sign(place)


def sign(place: Path) -> None:
    manifest = read_json(place / checkpoint.MANIFEST)
    manifest["files"] = {name: fingerprint(place / name) for name in manifest["files"]}
    (place / checkpoint.MANIFEST).write_text(json_text(manifest))


@pytest.fixture(scope="module")
def one_iteration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Home of a run of one iteration, to be copied."""
    home = tmp_path_factory.mktemp("one")
    assert train(configuration(home / "run", 1)) == 0
    return home / "run"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"games": "many"}, "games: expected a whole number from 0 to 2147483648, got 'many'"),
        ({"optimizer": []}, "optimizer: expected an object of at most 1000 entries, got empty list"),
        ({"pool": [3]}, "pool: expected rising iterations up to 1, got [3]"),
        ({"elapsed": float("nan")}, "elapsed: expected a number from 0 to 1e+12, got nan"),
        (
            {"rng": {"state": {}, "seed": {"pool_size": 10**9}}},
            "rng.state.bit_generator: expected a value, got nothing",
        ),
        ({"metrics_offset": -1}, "metrics_offset: expected a whole number from 0"),
        ({"value_rmse": "small"}, "value_rmse: expected a number from 0 to 1e+30, got 'small'"),
        ({"value_rmse": -0.1}, "value_rmse: expected a number from 0 to 1e+30, got -0.1"),
    ],
)
def test_state_that_does_not_fit_is_refused_with_file_and_key(
    changes: dict[str, Any], message: str, one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)
    changed_state(run, **changes)
    assert train(configuration(run, 2)) == 2
    assert f"error: {run}/checkpoints/000001/state.json: {message}" in capsys.readouterr().err


def test_weights_that_are_not_finite_are_refused(
    one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)
    file = run / "checkpoints" / "000001" / "weights.safetensors"
    tensors, about = read_tensors(file)
    name = next(iter(tensors))
    tensors[name].view(-1)[0] = torch.nan
    file.unlink()
    write_tensors(file, tensors, about)
    sign(file.parent)
    assert train(configuration(run, 2)) == 2
    assert f"{file}: tensor {name}: expected finite numbers, got 1 of " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["weights", "ema"])
def test_weights_too_large_for_numbers_are_refused(
    name: str, one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)
    file = run / "checkpoints" / "000001" / f"{name}.safetensors"
    tensors, about = read_tensors(file)
    file.unlink()
    write_tensors(file, {name: torch.full_like(tensor, 9e8) for name, tensor in tensors.items()}, about)
    sign(file.parent)
    assert train(configuration(run, 2)) == 2
    assert f"error: {file}, its weights: expected finite outputs for a new game" in capsys.readouterr().err


def test_games_in_progress_that_do_not_fit_are_refused_with_their_file(
    one_iteration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)
    file = run / "checkpoints" / "000001" / "selfplay.npz"
    with np.load(file) as saved:
        arrays = {name: saved[name] for name in saved.files}
    arrays["0.trajectory_luck"][...] = np.nan
    np.savez(file, **arrays)
    sign(file.parent)
    assert train(configuration(run, 2)) == 2
    assert f"error: {file}: self-play luck: expected numbers up to 1e+06, got [nan" in capsys.readouterr().err


def test_network_that_speaks_no_numbers_in_self_play_ends_the_run_as_diverged(
    one_iteration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_iteration, run)

    def refuse(*given: Any) -> Any:
        raise ValueError("game 0: the network's policy logit 0 is not a number")

    monkeypatch.setattr(Lane, "plan", refuse)
    assert train(configuration(run, 2)) == 3
    last = run / "checkpoints" / "000001"
    said = "error: expected a network whose outputs are numbers, got game 0: the network's policy logit 0 is not a "
    assert f"{said}number\nlast good checkpoint: {last}" in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_of_ray_outlives_a_killed_run(tmp_path: Path) -> None:
    """At a random moment after the start of Ray; the seed is printed."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    more = ["train.iterations=100000", "evaluation.every=0", "runtime=ray", "runtime.workers=2"]
    command = [sys.executable, "-m", "muzero.train", *TINY, *more, f"run_dir={tmp_path / 'run'}"]
    with subprocess.Popen(command, start_new_session=True) as run:
        started: set[tuple[int, str]] = set()
        clock = OwnTime(lambda: _below(run.pid))
        while not any("raylet" in there[2] for there in _below(run.pid).values()) and clock.seconds() < WAIT:
            time.sleep(0.1)
        end = time.monotonic() + random.Random(seed).uniform(1, 15)
        while time.monotonic() < end:
            started |= descendants({run.pid}, processes())
            time.sleep(0.1)
        assert run.poll() is None, "the run has ended too early"
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    assert len(started) > 5
    assert none_left(lambda: _left(started), 15), [f"{pid} {processes().get(pid)}" for pid in _left(started)]


def _below(pid: int) -> dict[int, tuple[int, str, str]]:
    there = processes()
    return {process: there[process] for process, _ in descendants({pid}, there)}


def _left(started: set[tuple[int, str]]) -> list[int]:
    """Processes that still run, zombies that nobody has collected left out."""
    there = processes()
    same = [pid for pid, start in started if pid in there and there[pid][1] == start]
    return [pid for pid in same if state(pid) != "Z"]
