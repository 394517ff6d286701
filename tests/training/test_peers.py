"""muzero.training.peers: a learner over several processes learns what one process learns from the joint batch."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from muzero.runs import checkpoint, metrics
from muzero.training.command import train as run_command
from muzero.training.peers import join_peers, own_device, rank_and_size
from tests.composing import compose_raw
from tests.forked import WAIT
from tests.training.follow import make_learner, train
from tests.training.processes import TINY, result, run_peers, same

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]


def free_port() -> int:
    """Port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def torchrun() -> list[str]:
    """Start of a command that torchrun runs twice, connected through a free port."""
    return [*TORCHRUN, f"--master_port={free_port()}", "-m"]


@pytest.mark.parametrize(
    ("start", "latent", "backend"),
    [("torchrun", "slots", "auto"), ("fork", "slots", "torch"), ("fork", "flat", "torch")],
)
def test_two_processes_learn_what_one_learns_from_the_joint_batch(
    start: str, latent: str, backend: str, tmp_path: Path
) -> None:
    """Started by torchrun, or forked with the variables that torchrun sets, which is sooner done."""
    file = tmp_path / "weights"
    if start == "torchrun":
        command = [*torchrun(), "tests.training.follow", str(file), latent, backend]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
        assert done.returncode == 0, done.stderr
    else:
        run_peers(free_port(), str(file), latent, backend)
    found, expected = load_file(file), train(make_learner(None, latent, backend))
    before = {f"weights/{n}": p.detach() for n, p in make_learner(None, latent, backend).network.named_parameters()}
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=2e-5, msg=name)
    moved = max(float((expected[name] - tensor).abs().max()) for name, tensor in before.items())
    assert moved > 1e-5, "the steps have changed nothing"


@pytest.mark.slow
def test_torchrun_trains_with_the_same_metrics_every_time_and_resumes(tmp_path: Path) -> None:
    settings = ["preset=smoke", "+variant=belief", "runtime.device=cpu", "logging.display=lines"]
    results = []
    for name, parts in (("whole", [4]), ("again", [4]), ("resumed", [2, 4])):
        for iterations in parts:
            command = [*torchrun(), "muzero.train", *settings, f"run_dir={tmp_path / name}"]
            command.append(f"train.iterations={iterations}")
            done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("training belief in") + done.stdout.count("resuming belief in") == 1
        results.append(result(tmp_path / name))
    assert len(metrics.read(tmp_path / "whole")) == 4
    assert results[0] == results[1]
    assert results[0] == results[2]
    alone = [sys.executable, "-m", "muzero.train", *settings, f"run_dir={tmp_path / 'alone'}"]
    subprocess.run(alone, check=True, capture_output=True, timeout=WAIT)
    two, one = metrics.read(tmp_path / "whole"), metrics.read(tmp_path / "alone")
    learned = next(index for index, record in enumerate(one) if record["losses"])
    assert two[learned]["losses"] == pytest.approx(one[learned]["losses"], rel=1e-3, abs=1e-5)
    steps = [
        json.loads((checkpoint.checkpoints(tmp_path / n)[-1] / checkpoint.STATE).read_text())["state"]["steps"]
        for n in ("whole", "alone")
    ]
    assert steps[0] == steps[1] > 0


@pytest.mark.slow
def test_tasks_of_slurm_stop_at_a_signal_and_resume(tmp_path: Path) -> None:
    """As train_multi_gpu.sbatch starts them: a signal reaches all tasks, and the exit code of rank 0 is the run's."""
    settings = [*TINY, "runtime.device=cpu", "search.backend=eager"]

    def start(name: str) -> list[subprocess.Popen[str]]:
        shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        command = [sys.executable, "-m", "muzero.train", *settings, f"run_dir={tmp_path / name}"]
        tasks = [{**shared, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(2)]
        return [subprocess.Popen(command, env=task, stdout=subprocess.PIPE, text=True) for task in tasks]

    whole = start("whole")
    assert [process.wait(WAIT) for process in whole] == [0, 0]
    stopped = start("stopped")
    end = time.monotonic() + WAIT
    while not (tmp_path / "stopped" / metrics.METRICS).exists() or not metrics.read(tmp_path / "stopped"):
        assert time.monotonic() < end
        time.sleep(0.05)
    for process in stopped:
        process.send_signal(signal.SIGUSR1)
    assert [process.wait(WAIT) for process in stopped] == [75, 0]
    resumed = start("stopped")
    assert [process.wait(WAIT) for process in resumed] == [0, 0]
    assert same(result(tmp_path / "whole"), result(tmp_path / "stopped"))
    killed = start("killed")
    while not (tmp_path / "killed" / metrics.METRICS).exists() or not metrics.read(tmp_path / "killed"):
        assert time.monotonic() < end + WAIT
        time.sleep(0.05)
    killed[0].kill()
    assert killed[1].wait(WAIT) != 0, "a process whose rank 0 has gone must not stay"


def test_a_process_started_without_torchrun_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert rank_and_size() == (0, 1)
    assert join_peers(16, torch.device("cpu")) is None
    monkeypatch.setenv("SLURM_PROCID", "3")  # a task of a job whose tasks are runs of their own
    assert rank_and_size() == (0, 1)
    assert own_device(torch.device("cuda")) == torch.device("cuda")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE: expected a number of processes, got 'two'"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK: expected 0 to 1, as torchrun sets it, got '2'"),
        ({"WORLD_SIZE": "2"}, "RANK: expected 0 to 1, as torchrun sets it, got ''"),
        ({"WORLD_SIZE": "3", "RANK": "0"}, "learner.batch: expected a multiple of the number of processes"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "here"}, "MASTER_PORT: expected where rank 0 listens"),
    ],
)
def test_environments_that_make_no_sense_are_refused(
    variables: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a user sees it: one line and exit code 2."""
    for name in ("RANK", "SLURM_PROCID", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run_command(compose_raw("preset=smoke", f"run_dir={tmp_path / 'run'}")) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {message}")
    assert printed.count("\n") == 1
