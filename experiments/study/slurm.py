"""Submits the jobs of a study to SLURM: an array or a single job per stage, each after the stages that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.study.plan import Job, Stage
from experiments.study.records import LOGS, Records

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


def submit(stages: Sequence[Stage], root: Path, records: Records) -> None:
    """Submits all jobs that are neither done nor in the queue."""
    waiting = queue()
    numbers: dict[str, list[str]] = {}  # numbers of jobs in the queue, by stage
    again: set[str] = set()  # stages with jobs that are submitted now
    for stage in stages:
        left = [job for job in stage.jobs if not job.done]
        if again.intersection(stage.needs):  # jobs that wait for a failed job would be cancelled with it
            _cancel([number for job in left if waiting.get(number := number_of(job, records)) == "PENDING"], waiting)
        queued = [number for job in left if (number := number_of(job, records)) in waiting]
        fresh = [job for job in left if number_of(job, records) not in waiting]
        numbers[stage.name] = queued
        if fresh:
            again.add(stage.name)
            after = [number for need in stage.needs for number in numbers[need]]
            number = _sbatch(stage, fresh, after, root, records.home)
            numbers[stage.name] = [*queued, number]
            for job in fresh:
                task = f"{number}_{stage.jobs.index(job)}" if stage.is_array else number
                records.note(job.name, by="slurm", number=task)
            tasks = f", {len(fresh)} tasks" if stage.is_array else ""
            print(f"{stage.name}: job {number}{tasks}{' after ' + ', '.join(after) if after else ''}", flush=True)


def _cancel(jobs: Sequence[str], waiting: dict[str, str]) -> None:
    """Removes jobs from the queue, and from `waiting`."""
    if jobs:
        done = subprocess.run(["scancel", *jobs], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"scancel: {done.stderr.strip()}")
    for number in jobs:
        del waiting[number]


def number_of(job: Job, records: Records) -> str:
    """Number of a job in SLURM's queue; empty if it was never submitted."""
    return str(records.jobs.get(job.name, {}).get("number", ""))


def command(stage: Stage, fresh: Sequence[Job], after: Sequence[str], root: Path) -> list[str]:
    """Command line that submits jobs of a stage."""
    options = [f"--job-name={stage.name}"]
    if stage.is_array:
        options.append(f"--array={','.join(str(stage.jobs.index(job)) for job in fresh)}")
    if after:
        options += [f"--dependency=afterok:{':'.join(after)}", "--kill-on-invalid-dep=yes"]
    return [str(root / "slurm" / "submit.sh"), *options, stage.file, *stage.arguments]


def _sbatch(stage: Stage, fresh: Sequence[Job], after: Sequence[str], root: Path, home: Path) -> str:
    settings: Mapping[str, str] = {**os.environ, **stage.settings, "LOGS": str(home / LOGS)}
    words = command(stage, fresh, after, root)
    done = subprocess.run(words, env=settings, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{stage.name}: sbatch refused the job: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]
