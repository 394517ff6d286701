"""Submitting a study to SLURM: dependencies, and only what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.study import command, slurm
from experiments.study.records import Records
from tests.experiments.study.fake_cluster import FakeCluster
from tests.experiments.study.samples import STAGES, smoke_plan, write_run


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


def test_stages_are_submitted_with_dependencies_and_only_if_missing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = f"n=$(($(cat {cluster.home}/n 2>/dev/null || echo 100) + 1)); echo $n >{cluster.home}/n"
    cluster.program("sbatch", f'{counter}; echo "$n $*" >>{cluster.home}/sbatch; echo $n')
    cluster.program("squeue", f"cat {cluster.home}/queue")
    cluster.program("scancel", f'printf "%s\\n" "$@" >>{cluster.home}/scancel')
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    (cluster.home / "queue").write_text("")
    home = tmp_path / "study"
    plan = list(smoke_plan(home).values())
    write_run(home / "train" / "baseline-s1", 4, 9)  # done already
    slurm.submit(plan, command.ROOT, Records(home))

    def submitted() -> dict[str, str]:
        lines = (cluster.home / "sbatch").read_text().splitlines()
        return {line.split("--job-name=")[1].split()[0]: line for line in lines}

    first = submitted()
    assert list(first) == STAGES
    assert "--array=0,2,3 " in first["train"]
    assert "--dependency" not in first["train"]
    assert "--array=0,1,2,3 " in first["head_to_head"]
    assert "--dependency=afterok:101 --kill-on-invalid-dep=yes" in first["head_to_head"]
    assert "--dependency=afterok:102" in first["merge"]
    assert "--dependency=afterok:101" in first["report"]
    assert f"--output={home}/logs/" in first["report"]
    assert Records(home).jobs["train/belief-s1"] == {"by": "slurm", "number": "101_3"}

    (cluster.home / "sbatch").unlink()
    rest = [f"102_{i} PENDING" for i in range(4)] + [f"{n} PENDING" for n in range(103, 108)]
    (cluster.home / "queue").write_text("\n".join(["101_0 RUNNING", "101_2 PENDING", *rest]))
    slurm.submit(plan, command.ROOT, Records(home))
    again = submitted()
    assert list(again) == STAGES  # the failed task, and all stages that waited for its array
    assert "--array=3 " in again["train"]
    assert "--dependency=afterok:101_0:101_2:108 " in again["head_to_head"]
    assert (cluster.home / "scancel").read_text().split() == [
        *(f"102_{i}" for i in range(4)),
        *map(str, range(103, 108)),
    ]

    (cluster.home / "sbatch").write_text("")
    numbers = Records(home).jobs
    queue = [str(entry["number"]) for entry in numbers.values()]
    (cluster.home / "queue").write_text("".join(f"{number} RUNNING\n" for number in queue))
    slurm.submit(plan, command.ROOT, Records(home))
    assert submitted() == {}  # everything is in the queue


def test_training_runs_are_packed_into_tasks_of_the_array(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four runs, three per task. A pack is submitted again if one of its runs is missing; its size stays meanwhile."""
    cluster.program("sbatch", f'echo "PACK=$PACK $*" >>{cluster.home}/sbatch; echo 7')
    cluster.program("squeue", f"cat {cluster.home}/queue")
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    (cluster.home / "queue").write_text("")
    home = tmp_path / "study"
    plan = list(smoke_plan(home).values())
    slurm.submit(plan, command.ROOT, Records(home), pack=3)
    train, after = (cluster.home / "sbatch").read_text().splitlines()[:2]
    assert train.startswith("PACK=3 ")
    assert "--array=0,1 " in train
    assert "--ntasks-per-node=3" in train
    assert after.startswith("PACK=1 ")  # matches are not packed
    assert "--array=0,1,2,3 " in after
    numbers = [Records(home).number(job.name) for job in plan[0].jobs]
    assert numbers == ["7_0", "7_0", "7_0", "7_1"]

    (cluster.home / "queue").write_text("7_0 RUNNING\n")
    with pytest.raises(ValueError, match="pack: expected 3 while jobs that were packed so are in the queue, got 2"):
        slurm.submit(plan, command.ROOT, Records(home), pack=2)


def test_errors_of_sbatch_and_squeue_are_reported(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.program("sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1")
    cluster.program("squeue", "true")
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="train: sbatch refused the job: sbatch: error: invalid partition"):
        slurm.submit(list(smoke_plan(tmp_path).values()), command.ROOT, Records(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="squeue: not found"):
        slurm.queue()
