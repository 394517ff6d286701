"""What became of the jobs of a study, in files of its directory:

study.json   the settings
jobs.json    by job: who took it (local, slurm), and its process or exit code, or its number in the queue
lock         held by whoever submits or runs the study
logs/        what jobs printed
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muzero.runs.run_directory import try_lock

STUDY, JOBS, LOCK, LOGS = "study.json", "jobs.json", "lock", "logs"
FREE = ("submit", "dir", "workers", "at_once")  # settings that may differ from one command to the next


class Records:
    """Of a study.

    Args:
      home: its directory.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobs: dict[str, dict[str, Any]] = _read(home / JOBS)

    @property
    def settings(self) -> dict[str, Any]:
        """As stored; empty if there are none."""
        return _read(self.home / STUDY)

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Stores the settings of a new study; refuses others than those stored."""
        kept = {name: value for name, value in settings.items() if name not in FREE}
        stored = self.settings
        different = [f"{k}: {stored.get(k)!r} != {v!r}" for k, v in kept.items() if stored and stored.get(k) != v]
        if different:
            raise ValueError("\n  ".join([f"{self.home}: holds another study (stored != yours)", *different]))
        _write(self.home / STUDY, kept)

    def note(self, job: str, **what: Any) -> None:
        """Records what became of a job, in place of what was known."""
        self.jobs[job] = what
        _write(self.home / JOBS, self.jobs)

    def log(self, job: str) -> Path:
        """Where a local job's output goes."""
        return self.home / LOGS / f"{job.replace('/', '-')}.log"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps others from submitting or running this study."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / LOCK).open("a") as file:
            if not try_lock(file.fileno(), self.home):
                raise ValueError(f"{self.home}: another process is running this study")
            yield

    @property
    def is_locked(self) -> bool:
        """Whether somebody is running the study."""
        try:
            with self.lock():
                return False
        except ValueError:
            return True


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Replaces a file: there is always the one or the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.draft-{os.getpid()}")
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(path)
