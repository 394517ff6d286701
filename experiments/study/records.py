"""Records of a study in its directory: settings, states of jobs, lock and logs.

study.json   settings
jobs.json    for each job: who runs it (local, slurm), and its process, its exit code, or its number in the queue
lock         held by the process that submits or runs the study
logs/        output of the jobs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muzero.runs.files import json_text, read_json, write_whole
from muzero.runs.run_directory import try_lock

STUDY, JOBS, LOCK, LOGS = "study.json", "jobs.json", "lock", "logs"
FREE = ("submit", "dir", "workers", "at_once", "pack")  # settings that may differ from one command to the next


GROWING = ("seeds", "variants", "iterations")  # settings of a study that may get more values


def _extends(key: str, stored: Any, given: Any) -> bool:
    """Whether a list has all stored values and more; all variants are compared with the first, which must stay."""
    if key not in GROWING or not stored or not isinstance(given, list):
        return False
    return set(stored) <= set(given) and (key != "variants" or stored[0] == given[0])


class Records:
    """Settings and states of the jobs of a study.

    Args:
      home: directory of the study.

    Attributes:
      jobs: state of each job, by name.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobs: dict[str, dict[str, Any]] = _read(home / JOBS)

    @property
    def settings(self) -> dict[str, Any]:
        """Stored settings; empty if there are none."""
        return _read(self.home / STUDY)

    def store_settings(self, settings: Mapping[str, Any]) -> None:
        """Stores the settings of a new study, or of one that goes on or is extended.

        Refuses settings that differ from stored ones in any other way than by more seeds, variants or iterations.
        """
        kept = {name: value for name, value in settings.items() if name not in FREE}
        stored = self.settings
        different = [
            f"{key}: {stored.get(key)!r} != {value!r}"
            for key, value in kept.items()
            if stored and stored.get(key) != value and not _extends(key, stored.get(key), value)
        ]
        if different:
            text = (
                f"{self.home}: holds another study, which {', '.join(GROWING)} can only be added to (stored != yours)"
            )
            raise ValueError("\n  ".join([text, *different]))
        _write(self.home / STUDY, kept)

    def note(self, job: str, **what: Any) -> None:
        """Records the state of a job, replacing the one before."""
        self.jobs[job] = what
        _write(self.home / JOBS, self.jobs)

    def number(self, job: str) -> str:
        """Number of a job in SLURM's queue; empty if it was never submitted."""
        return str(self.jobs.get(job, {}).get("number", ""))

    def log(self, job: str) -> Path:
        """File for the output of a local job."""
        return self.home / LOGS / f"{job.replace('/', '-')}.log"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes from submitting or running this study."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / LOCK).open("a") as file:
            if not try_lock(file.fileno(), self.home):
                raise ValueError(f"{self.home}: another process is running this study")
            yield

    @property
    def is_locked(self) -> bool:
        """Whether a process is running the study."""
        try:
            with self.lock():
                return False
        except ValueError:
            return True


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json_text(content) + "\n")
