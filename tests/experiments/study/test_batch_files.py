"""Batch files of slurm/: they run the commands of the plan, handle signals and submit what was asked."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.experiments.study.fake_cluster import SLURM, FakeCluster
from tests.experiments.study.samples import smoke_plan


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.mark.parametrize("settings", [(), ("overrides=[learner.batch=4]", "workers=2", "iterations=[2]")])
def test_batch_files_run_the_commands_of_the_plan(
    settings: tuple[str, ...], cluster: FakeCluster, tmp_path: Path
) -> None:
    for stage in smoke_plan(tmp_path, *settings).values():
        for index, job in enumerate(stage.jobs):
            task = {"SLURM_ARRAY_TASK_ID": str(index)} if stage.is_array else {}
            done = cluster.run(stage.file, *stage.arguments, **stage.settings, **task)
            assert done.returncode == 0, done.stderr
            assert cluster.arguments == job.command
        if stage.is_array:
            assert cluster.run(stage.file, "count", **stage.settings).stdout == f"{len(stage.jobs)}\n"
            beyond = {"SLURM_ARRAY_TASK_ID": str(len(stage.jobs))}
            done = cluster.run(stage.file, *stage.arguments, **stage.settings, **beyond)
            assert (done.returncode, done.stderr) == (2, f"task {index + 1}: there are only {index + 1} tasks\n")


def test_wandb_is_offline_unless_disabled(cluster: FakeCluster) -> None:
    cluster.run("train.sbatch", "+variant=belief", WANDB_MODE="offline")
    assert cluster.arguments == ("-m", "muzero.train", "logging.wandb=offline", "+variant=belief")


@pytest.mark.parametrize(
    ("settings", "requeued"),
    [
        ({"CODE": "0"}, False),
        ({"CODE": "3"}, False),  # diverged
        ({"CODE": "75"}, True),
        ({"CODE": "143"}, True),  # a preempted job's step
        ({"CODE": "75", "STATE": "COMPLETING"}, False),  # it was cancelled
        ({"CODE": "75", "SLURM_RESTART_COUNT": "2", "MAX_REQUEUES": "2"}, False),
    ],
)
def test_jobs_that_were_stopped_go_back_to_the_queue(
    settings: dict[str, str], requeued: bool, cluster: FakeCluster
) -> None:
    done = cluster.run("train.sbatch", **settings)
    assert done.returncode == int(settings["CODE"])
    assert cluster.requeued == requeued
    assert ("given up: MAX_REQUEUES=2" in done.stderr) == ("MAX_REQUEUES" in settings)


def test_a_task_is_requeued_without_its_array(cluster: FakeCluster) -> None:
    """The number of the last task of an array is also that of the array."""
    task = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}
    cluster.run("train_array.sbatch", CODE="75", **task)
    assert cluster.calls.read_text().splitlines() == ["scontrol show job --oneliner 5_3", "scontrol requeue 5_3"]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_the_batch_shell_passes_signals_on(number: signal.Signals, cluster: FakeCluster) -> None:
    """The shell waits until the program has saved. It never passes SIGTERM on, because srun would kill its step."""
    saving = f'trap "sleep 0.3; echo USR1 >{cluster.home}/got; exit 75" USR1'
    cluster.program("python", f"{saving}; touch {cluster.home}/up; for i in {{1..600}}; do sleep 0.1; done")
    shell = subprocess.Popen(["bash", str(SLURM / "train.sbatch")], env=cluster.environment())
    end = time.monotonic() + 60
    while not (cluster.home / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    shell.send_signal(number)
    assert shell.wait(60) == 75
    assert (cluster.home / "got").read_text() == "USR1\n"
    assert cluster.requeued


def test_a_comparison_is_an_array_and_a_job_that_merges_it(cluster: FakeCluster) -> None:
    cluster.program("sbatch", f'echo "$@" >>{cluster.home}/sbatch; echo "12;cluster"')
    lists = {"A_RUNS": "a0 a1", "B_RUNS": "b0 b1", "ITERATIONS": "2 4 6", "ARRAY_LIMIT": "3"}
    done = cluster.run("head_to_head.sh", "--batch", "8", **lists, OUT="out", LOGS=str(cluster.home))
    assert done.returncode == 0, done.stderr
    array, merge = (cluster.home / "sbatch").read_text().splitlines()
    assert "--array=0-5%3" in array.split()
    assert array.endswith("head_to_head_array.sbatch --batch 8")
    assert "--dependency=afterok:12" in merge.split()
    assert merge.endswith("python.sbatch -m experiments.head_to_head --merge --out out")
    assert cluster.run("head_to_head.sh").returncode == 2


def test_the_probes_batch_file_runs_the_experiment(cluster: FakeCluster) -> None:
    assert cluster.run("probes.sbatch", "--runs", "a", "--out", "b").returncode == 0
    assert cluster.arguments == ("-m", "experiments.latent_probes", "--runs", "a", "--out", "b")


def test_modules_are_loaded_and_the_container_is_used(cluster: FakeCluster) -> None:
    cluster.program("module", f'echo "module $*" >>{cluster.calls}; [[ -z $not_set_anywhere ]]')
    cluster.program("apptainer", f'echo "apptainer $*" >>{cluster.calls}')
    settings = {"MODULES": "gcc cuda/12.4", "CONTAINER": "image.sif", "CONTAINER_OPTIONS": "--nv --bind /scratch"}
    done = cluster.run("train.sbatch", "preset=smoke", **settings)
    assert done.returncode == 0, done.stderr
    loaded, cuda, ran = cluster.calls.read_text().splitlines()
    assert (loaded, cuda) == ("module load gcc", "module load cuda/12.4")
    python = f"{cluster.bin}/python"
    assert ran == f"apptainer exec --nv --bind /scratch image.sif {python} -m muzero.train preset=smoke"


def test_offline_runs_are_uploaded(cluster: FakeCluster, tmp_path: Path) -> None:
    for run in ("one", "two"):
        (tmp_path / "runs" / run / "wandb" / f"offline-run-{run}").mkdir(parents=True)
    assert cluster.run("sync_wandb.sh", str(tmp_path / "runs")).returncode == 0
    places = [str(tmp_path / "runs" / run / "wandb" / f"offline-run-{run}") for run in ("one", "two")]
    assert cluster.arguments == ("-m", "wandb", "sync", "--include-synced", *places)
    nothing = cluster.run("sync_wandb.sh", str(tmp_path / "bin"))
    assert (nothing.returncode, nothing.stderr) == (1, f"{tmp_path}/bin: no wandb/offline-run-* there\n")


def test_submit_passes_the_settings_to_sbatch(cluster: FakeCluster) -> None:
    cluster.program("sbatch", f'env >{cluster.home}/env; printf "%s\\n" "$@" >{cluster.home}/sbatch; echo "12;cluster"')
    settings = {"GPUS": "a100:1", "PARTITION": "gpu", "TIME": "1:00:00", "SEEDS": "0 1 2", "GRACE": "60"}
    settings |= {"LOGS": str(cluster.home / "logs"), "SBATCH_OPTIONS": "--exclude=node7"}
    done = cluster.run("submit.sh", "--qos=fast", "train_array.sbatch", "preset=paper", **settings)
    assert done.stdout == "12;cluster\n", done.stderr
    given = (cluster.home / "sbatch").read_text().splitlines()
    assert given[-2:] == [str(SLURM / "train_array.sbatch"), "preset=paper"]
    expected = ["--signal=B:USR1@60", "--gpus-per-node=a100:1", "--partition=gpu", "--time=1:00:00", "--qos=fast"]
    assert {*expected, "--exclude=node7", "--array=0-5", "--requeue"} <= set(given)
    assert not any(word.startswith("--account") for word in given)
    kept = (cluster.home / "env").read_text().splitlines()
    assert {"SEEDS=0 1 2", "VARIANTS=baseline belief", "MAX_REQUEUES=100"} <= set(
        kept
    )  # the file may change before the job runs
    assert cluster.run("submit.sh", "strange.sbatch").returncode == 2


def test_gpus_can_be_asked_for_as_gres(cluster: FakeCluster) -> None:
    cluster.program("sbatch", f'printf "%s\\n" "$@" >{cluster.home}/sbatch; echo 12')
    logs = {"LOGS": str(cluster.home / "logs")}
    assert cluster.run("submit.sh", "train.sbatch", GRES="gpu:a100:1", **logs).returncode == 0
    given = (cluster.home / "sbatch").read_text().splitlines()
    assert "--gres=gpu:a100:1" in given
    assert not any(word.startswith("--gpus") for word in given)
    assert cluster.run("submit.sh", "train.sbatch", GRES="none", GPUS="1", **logs).returncode == 0
    assert not any(word.startswith("--gres") for word in (cluster.home / "sbatch").read_text().splitlines())
    both = cluster.run("submit.sh", "train.sbatch", GRES="gpu:1", GPUS="1", **logs)
    assert (both.returncode, both.stderr) == (2, "GRES, GPUS: expected one of them, got GRES=gpu:1 and GPUS=1\n")


def test_small_runs_are_packed_into_fewer_tasks(cluster: FakeCluster) -> None:
    """Five runs, two per task: the last task has one run."""
    cluster.program("sbatch", f'printf "%s\\n" "$@" >{cluster.home}/sbatch; echo 12')
    lists = {"VARIANTS": "baseline", "SEEDS": "0 1 2 3 4", "PACK": "2", "LOGS": str(cluster.home / "logs")}
    assert cluster.run("submit.sh", "train_array.sbatch", GPUS="1", **lists).returncode == 0
    given = (cluster.home / "sbatch").read_text().splitlines()
    assert {"--array=0-2", "--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=1"} <= set(given)
    # srun that runs every task, one after the other, and reports the highest exit code
    each = 'for ((SLURM_PROCID = 0; SLURM_PROCID < n; SLURM_PROCID++)); do export SLURM_PROCID; "$@" || worst $?; done'
    options = "while [[ $1 == --* ]]; do [[ $1 != --ntasks=* ]] || n=${1#*=}; shift; done"
    cluster.program("srun", f"code=0; worst() {{ ((code > $1)) || code=$1; }}; {options}; {each}; exit $code")
    cluster.program("python", f'echo "$@" >>{cluster.home}/called; exit ${{CODE:-0}}')
    for task, seeds in ((0, (0, 1)), (2, (4,))):
        (cluster.home / "called").unlink(missing_ok=True)
        done = cluster.run("train_array.sbatch", "preset=cpu", **lists, RUNS="r", SLURM_ARRAY_TASK_ID=str(task))
        assert done.returncode == 0, done.stderr
        called = (cluster.home / "called").read_text().splitlines()
        assert called == [
            f"-m muzero.train +variant=baseline seed={s} run_dir=r/baseline-s{s} preset=cpu" for s in seeds
        ]
    failed = cluster.run("train_array.sbatch", **lists, SLURM_ARRAY_TASK_ID="1", CODE="3")
    assert failed.returncode == 1
    assert not cluster.requeued
    saved = cluster.run("train_array.sbatch", **lists, SLURM_ARRAY_TASK_ID="1", CODE="75")
    assert saved.returncode == 75
    assert cluster.requeued
    assert cluster.run("submit.sh", "train_array.sbatch", **{**lists, "PACK": "0"}).stderr == (
        "PACK: expected 1 or more, got 0\n"
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "--include-dashboard=false"),
        ({"RAY_DASHBOARD": "8265"}, "--include-dashboard=true --dashboard-host=127.0.0.1 --dashboard-port=8265"),
    ],
)
def test_dashboard_of_ray_is_off_unless_a_port_is_given(
    given: dict[str, str], shown: str, cluster: FakeCluster
) -> None:
    """With a port it is reached from the node itself only; programs record their arguments, and training is none."""
    cluster.program("python", f'echo "$@" >>{cluster.home}/called; [[ $* != *"start --block"* ]] || sleep 2')
    cluster.program("scontrol", "echo node1")
    port = _listening()
    settings = {"RAY_PORT": str(port.getsockname()[1]), "RAY_ADDRESSES": "127.0.0.1", "SLURM_JOB_NODELIST": "node1"}
    done = cluster.run("ray_cluster.sbatch", "preset=smoke", **settings, **given)
    port.close()
    assert done.returncode == 0, done.stderr
    (started,) = [line for line in (cluster.home / "called").read_text().splitlines() if " --head " in line]
    assert started.endswith(shown)
    assert ("http://127.0.0.1:8265" in done.stdout) == bool(given)


def test_dashboard_needs_a_port_and_the_packages_of_ray(cluster: FakeCluster) -> None:
    cluster.program("scontrol", "echo node1")
    cluster.program("python", "[[ $* != *optional_deps* ]]")
    settings = {"RAY_ADDRESSES": "127.0.0.1", "SLURM_JOB_NODELIST": "node1"}
    wrong = cluster.run("ray_cluster.sbatch", **settings, RAY_DASHBOARD="yes")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "RAY_DASHBOARD: expected the number of a port, such as 8265, or nothing, got yes\n",
    )
    bare = cluster.run("ray_cluster.sbatch", **settings, RAY_DASHBOARD="8265")
    assert bare.returncode == 2
    assert "RAY_DASHBOARD: expected a Ray with its dashboard: pip install" in bare.stderr


def _listening() -> socket.socket:
    """Socket that listens on a free port, in place of Ray's head."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen()
    return made
