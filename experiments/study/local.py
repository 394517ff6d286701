"""Runs the jobs of a study on this machine; the same command continues where the last one stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.study.plan import Job, Stage
from experiments.study.records import Records
from muzero.runs.run_directory import EXIT_REQUEUE, Interruption

POLL = 0.1  # seconds between two looks at the jobs


class JobRunner:
    """Runs jobs as processes, several at once. A request to stop is passed on, so that training runs can save.

    Args:
      root: directory of the project, in which commands run.
      records: records in which the state of each job is stored.
      at_once: largest number of processes.
    """

    def __init__(self, root: Path, records: Records, at_once: int) -> None:
        self.root, self.records, self.at_once = root, records, at_once
        self.running: dict[Job, subprocess.Popen[bytes]] = {}
        self.codes: dict[Job, int] = {}
        self.asked = False

    def start(self, job: Job) -> None:
        """Starts a job; its output is appended to its log."""
        log = self.records.log(job.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, *job.command]
        with log.open("ab") as output:
            # The job gets a session of its own: Ctrl-C reaches the job only through `ask_to_stop`.
            process = subprocess.Popen(
                command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.running[job] = process
        self.records.note(job.name, by="local", pid=process.pid)
        print(f"{job.name}: started, output in {log}", flush=True)

    def ask_to_stop(self) -> None:
        """Asks all running jobs to stop, once."""
        if not self.asked:
            self.asked = True
            for process in self.running.values():
                process.terminate()

    def reap(self) -> bool:
        """Records jobs that have ended; returns whether there are any."""
        ended = [(job, code) for job, process in self.running.items() if (code := process.poll()) is not None]
        for job, code in ended:
            del self.running[job]
            if code == 0 and not job.done:
                print(f"{job.name}: ended without an error, but did not write {job.proof}")
                code = 1
            if self.asked and code == -signal.SIGTERM:  # only training runs save and return EXIT_REQUEUE
                code = EXIT_REQUEUE
            self.codes[job] = code
            self.records.note(job.name, by="local", code=code)
            outcome = {0: "done", EXIT_REQUEUE: "stopped"}.get(code, f"failed with code {code}")
            print(f"{job.name}: {outcome}", flush=True)
        return bool(ended)


def run(stages: Sequence[Stage], root: Path, records: Records, at_once: int) -> int:
    """Runs all jobs that are not done, in the order of their needs; a failed job only stops those that need it.

    Returns:
      0 if everything is done, 75 if asked to stop, else 1.
    """
    runner = JobRunner(root, records, at_once)
    with Interruption() as interruption:
        changed = True
        while changed or runner.running:
            if interruption.requested:
                runner.ask_to_stop()
            elif changed:
                for job in ready(stages, {*runner.running, *runner.codes})[: at_once - len(runner.running)]:
                    runner.start(job)
            time.sleep(POLL)
            changed = runner.reap()
    if interruption.requested:
        return EXIT_REQUEUE
    return 0 if all(stage.done for stage in stages) else 1


def ready(stages: Sequence[Stage], taken: set[Job]) -> list[Job]:
    """Jobs that are neither done nor taken, and whose needs are done."""
    done = {stage.name for stage in stages if stage.done}
    open_ = [stage for stage in stages if stage.name not in done and done.issuperset(stage.needs)]
    return [job for stage in open_ for job in stage.jobs if job not in taken and not job.done]
