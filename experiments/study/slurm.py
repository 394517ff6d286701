"""Submits the jobs of a study to SLURM: an array or a single job per stage, each after the stages that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from experiments.study.plan import Stage
from experiments.study.records import LOGS, Records
from muzero.config import require

T = TypeVar("T")
RUNNING = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "SIGNALING")


def queue() -> dict[str, str]:
    """States of all jobs and array tasks of this user in SLURM's queue, by number."""
    if shutil.which("squeue") is None:
        raise ValueError("squeue: not found; is this a machine of the cluster?")
    command = ["squeue", "--noheader", "--array", "--me", "--format=%i %T"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"squeue: {done.stderr.strip()}")
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.strip())


def submit(stages: Sequence[Stage], root: Path, records: Records, pack: int = 1) -> None:
    """Submits all jobs that are neither done nor in the queue.

    Args:
      stages: stages of the study.
      root: directory of the project.
      records: records in which the numbers of jobs are stored.
      pack: training runs per task of an array.
    """
    waiting = queue()
    numbers: dict[str, list[str]] = {}  # numbers of jobs in the queue, by stage
    again: set[str] = set()  # stages with jobs that are submitted now
    for stage in stages:
        size = pack if stage.can_pack else 1
        left = [job for job in stage.jobs if not job.done]
        if again.intersection(stage.needs):  # jobs that wait for a failed job would be cancelled with it
            _cancel([number for job in left if waiting.get(number := records.number(job.name)) == "PENDING"], waiting)
        queued = _unique([number for job in left if (number := records.number(job.name)) in waiting])
        fresh = [job for job in left if records.number(job.name) not in waiting]
        numbers[stage.name] = queued
        for job in left if fresh else ():
            was = records.jobs.get(job.name, {}).get("pack", 1)
            hint = f"{was} while jobs that were packed so are in the queue"
            require(records.number(job.name) not in waiting or was == size, "pack", hint, size)
        if fresh:
            again.add(stage.name)
            after = [number for need in stage.needs for number in numbers[need]]
            tasks = _unique([stage.jobs.index(job) // size for job in fresh])
            number = _sbatch(stage, tasks, size, after, root, records.home)
            numbers[stage.name] = [*queued, number]
            for job in fresh:
                task = f"{number}_{stage.jobs.index(job) // size}" if stage.is_array else number
                records.note(job.name, by="slurm", number=task, **({"pack": size} if size > 1 else {}))
            told = f", {len(tasks)} tasks" if stage.is_array else ""
            told += f" of up to {size} runs" if size > 1 else ""
            print(f"{stage.name}: job {number}{told}{' after ' + ', '.join(after) if after else ''}", flush=True)


def _unique(values: Sequence[T]) -> list[T]:
    """Values in their order, each once."""
    return list(dict.fromkeys(values))


def _cancel(jobs: Sequence[str], waiting: dict[str, str]) -> None:
    """Removes jobs from the queue, and from `waiting`."""
    if jobs:
        done = subprocess.run(["scancel", *jobs], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"scancel: {done.stderr.strip()}")
    for number in jobs:
        del waiting[number]


def command(stage: Stage, tasks: Sequence[int], after: Sequence[str], root: Path) -> list[str]:
    """Command line that submits tasks of a stage."""
    options = [f"--job-name={stage.name}"]
    if stage.is_array:
        options.append(f"--array={','.join(map(str, tasks))}")
    if after:
        options += [f"--dependency=afterok:{':'.join(after)}", "--kill-on-invalid-dep=yes"]
    return [str(root / "slurm" / "submit.sh"), *options, stage.file, *stage.arguments]


def _sbatch(stage: Stage, tasks: Sequence[int], size: int, after: Sequence[str], root: Path, home: Path) -> str:
    packed = {"PACK": str(size)} if stage.can_pack else {}
    settings: Mapping[str, str] = {**os.environ, **stage.settings, **packed, "LOGS": str(home / LOGS)}
    words = command(stage, tasks, after, root)
    done = subprocess.run(words, env=settings, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{stage.name}: sbatch refused the job: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]
