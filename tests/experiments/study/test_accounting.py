"""Accounts of SLURM jobs: how they ended, time and memory, read from the lines of sacct."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.study import accounting, command, slurm
from experiments.study.records import Records
from tests.experiments.study.fake_cluster import FakeCluster
from tests.experiments.study.stages import WRITE, make_stage

# Written by SLURM 22.05, except for the task that ran out of memory in a cgroup, which needs more than a test machine.
LINES = """\
7_0|COMPLETED|0:0|3600|02:00:00||16G|4|node1
7_0.batch|COMPLETED|0:0|3600|00:01.000|cpu=00:00:01,mem=10636K,pages=0||4|node1
7_0.0|COMPLETED|0:0|3600|01:59:59|cpu=01:59:59,energy=0,fs/disk=5057520,mem=2097152K,vmem=9356916K||4|node1
7_1|TIMEOUT|0:0|43200|1-00:00:00||16G|4|node2
7_1.0|CANCELLED|0:15|43200|1-00:00:00|cpu=1-00:00:00,mem=3145728K||4|node2
7_2|OUT_OF_MEMORY|0:125|60|00:30.500||1000M|4|node1
7_2.0|OUT_OF_MEMORY|0:125|60|00:30.500|cpu=00:00:30,mem=1023999K||4|node1
7_3|NODE_FAIL|1:0|100|00:00:00||16G|4|node3
7_3|NODE_FAIL|1:0|200|00:00:00||16G|4|node2
7_4|FAILED|3:0|10|00:01.000||16G|4|node1
7_5|FAILED|0:9|1|00:00.001||100M|1|node1
7_5.batch|CANCELLED by 0|0:9|1|00:00.001|cpu=00:00:00,mem=322160K,pages=1||1|node1
7_6|CANCELLED by 1000|0:0|5|00:00:00||4Gc|4|node1
7_7|FAILED|0:11|5|00:00:00||0|4|node1
""".splitlines()


def test_ends_of_jobs_are_told_apart() -> None:
    found = accounting.parse(LINES)
    assert list(found) == [f"7_{i}" for i in range(8)]
    starts = ["ended without", "time limit", "out of memory", "its node was lost (node2)", "exit code 3"]
    starts += ["out of memory", "cancelled", "killed by signal 11"]  # 7_5: killed by SLURM, without a cgroup
    for account, start in zip(found.values(), starts, strict=True):
        assert account.reason.startswith(start), account


def test_time_and_memory_are_those_of_all_starts_and_of_the_largest_step() -> None:
    found = accounting.parse(LINES)
    done, late, lost = found["7_0"], found["7_1"], found["7_3"]
    assert (done.seconds, done.core_seconds, done.cores, done.peak, done.memory) == (3600, 7200, 4, 2 << 30, 16 << 30)
    assert done.used == "1:00:00, 2.00 GB of memory of 16.00 GB"
    assert (late.core_seconds, late.peak) == (86400, 3 << 30)
    assert (lost.starts, lost.seconds, lost.peak) == (2, 300, 0)
    assert lost.used == "0:05:00"
    assert found["7_6"].memory == 16 << 30  # 4 GB per core, as older versions print it


def test_usage_is_a_line_per_job_and_totals() -> None:
    names = {"7_0": ["train/a", "train/b", "train/c"], "7_1": ["train/d"], "9": ["merge"]}
    head, first, second, third, total = accounting.table(names, accounting.parse(LINES)).splitlines()
    assert head.split() == ["job", "number", "state", "starts", "elapsed", "cores", "used", "of", "memory", "of"]
    assert " ".join(first.split()) == "train/a and 2 more 7_0 COMPLETED 1 1:00:00 2.00 4 2.00 GB 16.00 GB"
    assert " ".join(second.split()) == "train/d 7_1 TIMEOUT 1 12:00:00 2.00 4 3.00 GB 16.00 GB"
    assert third.split() == ["merge", "9", "no", "account"]
    assert total == "13.00 hours, 52.00 core hours, 26.00 of them computed"


def test_status_gives_the_reason_of_each_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(tmp_path)
    (tmp_path / "lines").write_text("\n".join(LINES))
    cluster.program("sacct", f'echo "$@" >{tmp_path}/asked; cat {tmp_path}/lines')
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    stages = [make_stage("train", tmp_path, [WRITE] * 4)]
    records = Records(tmp_path / "study")
    for i in range(4):
        records.note(f"train/{i}", by="slurm", number=f"7_{i}")
    monkeypatch.setattr(slurm, "queue", lambda: {"7_0": "RUNNING"})
    lines = command.status(stages, records).splitlines()
    assert lines[3] == "running: train/0 (1:00:00, 2.00 GB of memory of 16.00 GB)"
    assert lines[4].startswith("failed: train/1: time limit reached before it had saved: raise TIME or GRACE")
    assert lines[5].startswith("failed: train/2: out of memory: raise MEM")
    assert lines[5].endswith("(0:01:00, 0.98 GB of memory of 0.98 GB)")
    assert lines[6].startswith("failed: train/3: its node was lost (node2)")
    assert "--parsable2 --duplicates" in (tmp_path / "asked").read_text()
    assert "--jobs=7_0,7_1,7_2,7_3" in (tmp_path / "asked").read_text()
    cluster.program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    assert command.status(stages, records).endswith("is not known: sacct: Slurm accounting storage is disabled")
    with pytest.raises(ValueError, match="keeps no accounts that can be read here: sacct: Slurm accounting storage"):
        command.used(stages, records)


def test_lines_of_another_format_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sacct: expected the fields JobID,State,.*, got '7_0.COMPLETED'"):
        accounting.parse(["7_0|COMPLETED"])


def test_usage_needs_jobs_in_slurm(tmp_path: Path) -> None:
    stages = [make_stage("train", tmp_path, [WRITE])]
    with pytest.raises(
        ValueError, match="expected a study with jobs that were submitted with submit=slurm, got 'none'"
    ):
        command.used(stages, Records(tmp_path))
