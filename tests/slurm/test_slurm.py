"""The batch files and the study on a real SLURM: arrays, dependencies, preemption, lost nodes.

The scheduler is installed from Debian's packages and runs in a temporary directory, see throwaway.sh.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.study import accounting
from experiments.study.accounting import Account
from muzero.runs import checkpoint, metrics
from tests.slurm.throwaway import ROOT, Slurm, reason_to_skip, wait_until
from tests.training.processes import TINY, Run, result, same

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip()),
]
LONG = [*TINY, "+game.rules.max_decisions=200", "train.iterations=12"]
CLOCK = ("seconds", "seconds_per_game", "minutes", "provenance", "origins")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    home = Path(tempfile.mkdtemp(prefix="slurm-"))
    home.chmod(0o755)  # everybody must be able to reach munge's socket, unlike pytest's directories
    cluster = Slurm(home)
    yield cluster
    cluster.stop()
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    return Run(tmp_path_factory.mktemp("reference"), settings=LONG).done().path


def iterations(run: Path) -> int:
    file = run / metrics.METRICS
    return file.read_bytes().count(b"\n") if file.exists() else 0


def start_job(slurm: Slurm, run: Path, *options: str) -> str:
    """Starts a training job and waits until it has done two of its iterations."""
    number = slurm.submit(*options, "train.sbatch", *LONG, f"run_dir={run}")
    wait_until(lambda: iterations(run) >= 2, lambda: slurm.log(number))
    assert iterations(run) < 12
    return number


# ---- jobs that are stopped ---------------------------------------------------------------------------------------


def test_a_preempted_job_saves_and_resumes(slurm: Slurm, reference: Path, tmp_path: Path) -> None:
    """The preempting job is in a partition with a higher priority and needs every node."""
    run = tmp_path / "run"
    number = start_job(slurm, run)
    words = ("--parsable", "--partition=high", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    urgent = slurm.command("sbatch", *words)
    slurm.wait_for(urgent, "COMPLETED")
    shown = slurm.wait_for(number, "COMPLETED")
    assert shown["Restarts"] == "1"
    assert re.search("SIG(TERM|USR1): saved", slurm.log(number))  # sent by SLURM, or passed on by the batch file
    assert "back to the queue" in slurm.log(number)
    assert "resuming belief" in slurm.log(number)
    assert same(result(reference), result(run))


def test_a_job_signalled_before_its_time_limit_saves_and_resumes(slurm: Slurm, reference: Path, tmp_path: Path) -> None:
    """The signal of --signal=B:USR1@... is sent to the batch shell."""
    run = tmp_path / "run"
    number = start_job(slurm, run)
    slurm.command("scancel", "--batch", "--signal=USR1", number)
    shown = slurm.wait_for(number, "COMPLETED")
    assert shown["Restarts"] == "1"
    assert "SIGUSR1: saved" in slurm.log(number)
    assert same(result(reference), result(run))


def test_a_job_killed_at_random_moments_ends_with_the_same_bytes(slurm: Slurm, reference: Path, tmp_path: Path) -> None:
    run, rng = tmp_path / "run", random.Random(0)
    number = start_job(slurm, run)
    for kill in (1, 2):
        time.sleep(rng.uniform(0, 1))
        nodes = ("node1", "node2", "node3")
        (process,) = [p for node in nodes for p in slurm.processes(node, "-m", str(run), program="python")]
        os.kill(process, signal.SIGKILL)
        slurm.wait_for(number, "FAILED")
        slurm.command("scontrol", "requeue", number)
        started = slurm.log(number).count("resuming belief")
        if kill == 1:
            wait_until(
                lambda before=started: slurm.log(number).count("resuming belief") > before, lambda: slurm.log(number)
            )  # type: ignore[misc]
    slurm.wait_for(number, "COMPLETED")
    assert same(result(reference), result(run))


def test_a_cancelled_job_stays_cancelled(slurm: Slurm, tmp_path: Path) -> None:
    """The trainer saves and returns the exit code for requeueing, which must be ignored."""
    run = tmp_path / "run"
    number = start_job(slurm, run)
    slurm.command("scancel", number)
    slurm.wait_for(number, "CANCELLED", "COMPLETING")
    wait_until(lambda: slurm.show(number)["JobState"] == "CANCELLED", lambda: slurm.log(number))
    time.sleep(3)
    assert slurm.show(number)["JobState"] == "CANCELLED"
    assert iterations(run) < 12


# ---- the study ---------------------------------------------------------------------------------------------------


def study(slurm: Slurm, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "experiments.study", *words]
    return subprocess.run(command, env=slurm.environment, cwd=ROOT, capture_output=True, text=True, check=False)


def table(home: Path, path: Path) -> Any:
    """JSON of a result in the directory of a study, without times and the name of the directory."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in CLOCK}
        return [plain(v) for v in value] if isinstance(value, list) else value

    return plain(json.loads((home / path).read_text().replace(str(home), "STUDY")))


def test_the_smoke_study_gives_the_same_tables_on_slurm_and_locally(slurm: Slurm, tmp_path: Path) -> None:
    """Two variants, two seeds, two checkpoints; submitted again, there is nothing left to do."""
    here, there = tmp_path / "here", tmp_path / "there"
    words = ("preset=smoke", "workers=1")
    submitted = study(slurm, "submit=slurm", f"dir={there}", *words)
    assert submitted.returncode == 0, submitted.stderr
    local = study(slurm, "submit=local", f"dir={here}", *words)
    assert local.returncode == 0, local.stdout + local.stderr
    assert "all done" in local.stdout

    def status() -> str:
        return study(slurm, "status", f"dir={there}").stdout

    def over() -> bool:
        assert "failed" not in status().splitlines()[-2:], status()
        return slurm.command("squeue", "--noheader", "--format=%i") == ""

    wait_until(over, status)
    assert "all done" in status(), status() + "".join(p.read_text() for p in (there / "logs").iterdir())
    names = ("belief-against-baseline/head_to_head", "bot_eval/bot_eval", "ego_ablation/ego_ablation")
    for name in (*names, "latent_probes/latent_probes", "report/report"):
        path = Path(f"{name}.json")
        assert table(here, path) == table(there, path), path
    for run in sorted((here / "train").iterdir()):
        assert same(result(run), result(there / "train" / run.name))
    used = study(slurm, "usage", f"dir={there}").stdout.splitlines()
    assert [line.split()[2] for line in used[1:-1]] == ["COMPLETED"] * 13, used  # 4 runs, 4 matches, 5 single jobs
    again = study(slurm, "submit=slurm", f"dir={there}", *words)
    assert "job" not in again.stdout
    assert "all done" in again.stdout


# ---- accounts and packed runs ------------------------------------------------------------------------------------


def account(slurm: Slurm, number: str, monkeypatch: pytest.MonkeyPatch) -> Account:
    """Account of a job that has ended, as soon as SLURM's database has it."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    found: dict[str, Account] = {}

    def ended() -> bool:
        read, why_not = accounting.accounts([number])
        assert why_not == ""
        found.update(read)
        return number in found and found[number].state not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED")

    wait_until(ended, lambda: f"{found}: {slurm.log(number)}")
    return found[number]


def test_time_limits_memory_limits_and_errors_are_told_apart(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM rounds time limits to minutes; the first job ignores the signal that asks it to save."""
    deaf = "import signal, time; signal.signal(signal.SIGUSR1, signal.SIG_IGN); time.sleep(600)"
    late = slurm.submit("python.sbatch", "-c", deaf, TIME="1", GRACE="30")
    greedy = slurm.submit("python.sbatch", "-c", "b = bytearray(400 << 20); import time; time.sleep(60)", MEM="100M")
    wrong = slurm.submit("python.sbatch", "-c", "import time; time.sleep(3); raise SystemExit(3)")
    ended = account(slurm, wrong, monkeypatch)
    assert (ended.state, ended.reason) == ("FAILED", "exit code 3")
    assert 3 <= ended.seconds < 60
    killed = account(slurm, greedy, monkeypatch)
    assert killed.reason.startswith("out of memory")
    assert killed.memory == 100 << 20 < 400 << 20 <= killed.peak
    stopped = account(slurm, late, monkeypatch)
    assert (stopped.state, stopped.reason.partition(":")[0]) == ("TIMEOUT", "time limit reached before it had saved")
    assert stopped.seconds >= 60


def test_packed_runs_save_together_and_end_with_the_bytes_of_single_runs(
    slurm: Slurm, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs share a task with a GPU, are stopped together once, and resume."""
    settings = [word for word in LONG if not word.startswith(("+variant", "seed="))]
    lists = {"VARIANTS": "belief", "SEEDS": "0 1", "RUNS": str(tmp_path)}
    number = slurm.submit("train_array.sbatch", *settings, PACK="2", GRES="gpu:1", **lists)
    runs = [tmp_path / "belief-s0", tmp_path / "belief-s1"]

    def logs() -> str:
        return "".join(path.read_text() for path in sorted((slurm.home / "logs").glob(f"*-{number}_0*.log")))

    wait_until(lambda: all(iterations(run) >= 2 for run in runs), logs)
    assert "TresPerNode=gres:gpu:1" in slurm.command("scontrol", "show", "job", "--oneliner", f"{number}_0")
    slurm.command("scancel", "--batch", "--signal=USR1", f"{number}_0")
    shown = slurm.wait_for(f"{number}_0", "COMPLETED")
    assert (shown["Restarts"], shown["NumTasks"]) == ("1", "2")
    assert logs().count("SIGUSR1: saved") == 2
    assert same(result(reference), result(runs[0]))
    assert iterations(runs[1]) == 12
    ended = account(slurm, f"{number}_0", monkeypatch)
    assert (ended.state, ended.starts, ended.cores) == ("COMPLETED", 2, 2)
    assert 0 < ended.peak <= ended.memory == 2 << 30


def test_a_lost_node_is_named(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is not queued again. The node stays lost, so tests after this one use the others."""
    options = ("--no-requeue", "--nodelist=node3", "python.sbatch", "-c", "import time; time.sleep(600)")
    number = slurm.submit(*options)
    wait_until(lambda: bool(slurm.processes("node3", "time.sleep(600)", program="python")), lambda: slurm.log(number))
    slurm.pull_the_plug("node3")
    lost = account(slurm, number, monkeypatch)
    assert (lost.state, lost.reason.partition(":")[0]) == ("NODE_FAIL", "its node was lost (node3)")


# ---- Ray on two nodes --------------------------------------------------------------------------------------------


def test_training_survives_the_loss_of_a_node(slurm: Slurm, tmp_path: Path) -> None:
    """The actors of the node start again on the other one. This test is the last one, because the node stays lost."""
    run = tmp_path / "run"
    words = [word for word in LONG if not word.startswith("train.iterations")]
    options = ("--nodes=2", "--nodelist=node1,node2", "ray_cluster.sbatch", *words, "train.iterations=20")
    # Ray takes 127.0.0.1 for the machine's address on the network, other loopback addresses as they are.
    addresses = "127.0.0.11 127.0.0.12"
    number = slurm.submit(*options, f"run_dir={run}", RAY_WORKERS="2", RAY_ADDRESSES=addresses, MEM="8G")
    wait_until(lambda: iterations(run) >= 2, lambda: slurm.log(number))
    assert "Ray runs on 2 of 2 nodes" in slurm.log(number)
    actors = {node: slurm.processes(node, "ray::_Actor") for node in ("node1", "node2")}
    assert [len(found) for found in actors.values()] == [1, 1]
    slurm.pull_the_plug("node2")
    lost_at = iterations(run)
    assert lost_at < 18
    slurm.wait_for(number, "COMPLETED")
    assert [record["iteration"] for record in metrics.read(run)] == list(range(1, 21))
    assert int(checkpoint.checkpoints(run)[-1].name) == 20
    assert slurm.show(number)["Restarts"] == "0"
