"""Runs a study's plan on this machine; the same command goes on where the last one stopped."""

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

POLL = 0.1  # seconds


class JobRunner:
    """Processes of jobs, as many at once as allowed; asked to stop, it asks them, which lets those that train save.

    Args:
      root: the project's directory, in which commands run.
      records: what became of each job.
      at_once: processes.
    """

    def __init__(self, root: Path, records: Records, at_once: int) -> None:
        self.root, self.records, self.at_once = root, records, at_once
        self.running: dict[Job, subprocess.Popen[bytes]] = {}
        self.codes: dict[Job, int] = {}
        self.asked = False

    def start(self, job: Job) -> None:
        """Starts a job, its output appended to its log."""
        log = self.records.log(job.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, *job.command]
        with log.open("ab") as output:
            # In a session of its own, so that Ctrl-C reaches it as one request, ours.
            process = subprocess.Popen(
                command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.running[job] = process
        self.records.note(job.name, by="local", pid=process.pid)
        print(f"{job.name}: started, output in {log}", flush=True)

    def ask_to_stop(self) -> None:
        """Once."""
        if not self.asked:
            self.asked = True
            for process in self.running.values():
                process.terminate()

    def reap(self) -> bool:
        """Takes note of jobs that have ended; whether there are any."""
        ended = [(job, code) for job, process in self.running.items() if (code := process.poll()) is not None]
        for job, code in ended:
            del self.running[job]
            if code == 0 and not job.done:
                print(f"{job.name}: ended well, but has not left {job.proof}")
                code = 1
            if self.asked and code == -signal.SIGTERM:  # what does not train does not save
                code = EXIT_REQUEUE
            self.codes[job] = code
            self.records.note(job.name, by="local", code=code)
            said = {0: "done", EXIT_REQUEUE: "stopped"}.get(code, f"failed with code {code}")
            print(f"{job.name}: {said}", flush=True)
        return bool(ended)


def run(stages: Sequence[Stage], root: Path, records: Records, at_once: int) -> int:
    """Runs whatever is not done and can be; a job that fails holds up only what needs it.

    Returns:
      0 if all is done, 75 if asked to stop, else 1.
    """
    crew = JobRunner(root, records, at_once)
    with Interruption() as interruption:
        changed = True
        while changed or crew.running:
            if interruption.requested:
                crew.ask_to_stop()
            elif changed:
                for job in ready(stages, {*crew.running, *crew.codes})[: at_once - len(crew.running)]:
                    crew.start(job)
            time.sleep(POLL)
            changed = crew.reap()
    if interruption.requested:
        return EXIT_REQUEUE
    return 0 if all(stage.done for stage in stages) else 1


def ready(stages: Sequence[Stage], taken: set[Job]) -> list[Job]:
    """Jobs that are neither done nor taken, and wait for nothing."""
    done = {stage.name for stage in stages if stage.done}
    open_ = [stage for stage in stages if stage.name not in done and done.issuperset(stage.needs)]
    return [job for stage in open_ for job in stage.jobs if job not in taken and not job.done]
