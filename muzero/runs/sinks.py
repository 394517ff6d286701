"""Sinks for metrics in addition to metrics.jsonl: wandb, optional and never able to block or stop a run."""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from muzero.config.fields import require
from muzero.runs.history import AXES, History, is_win_rate
from muzero.runs.metrics import METRICS, Record
from muzero.runs.wandb_media import log_media

MODES = ("online", "offline", "disabled")

_log = logging.getLogger(__name__)


class Wandb:
    """Sends records to wandb from a thread of its own.

    Whatever happens in wandb, the run continues: records that wandb is too slow for are dropped and counted, and after
    an error the sink is off.

    A run keeps its id, in offline mode too: a process that resumes it writes another offline file under the same id,
    and `wandb sync` joins them. Rows have the iteration as their step, so that iterations that were made again after an
    interruption are not there twice.

    Args:
      run_dir: run directory; wandb's own files go into it too, unless WANDB_DIR says otherwise.
      mode: mode of wandb: "online" (falls back to offline without a key or a network), "offline" or "disabled".
      project, entity, group, name, tags, notes, job_type: where the run is found in wandb, and what it is called.
      config: configuration of the run.
      run_id: wandb's id of the run; the same id resumes the same wandb run. By default derived from the directory.
      capacity: number of records that may wait to be sent.
      media: whether tables and figures are logged at the end.
      artifacts: whether weights and game records are logged at the end, too.

    Attributes:
      dropped: number of records that were not sent.
    """

    def __init__(
        self,
        run_dir: str | Path,
        mode: str = "online",
        *,
        project: str,
        entity: str = "",
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        notes: str = "",
        job_type: str = "train",
        run_id: str | None = None,
        capacity: int = 1000,
        media: bool = True,
        artifacts: bool = False,
    ) -> None:
        require(mode in MODES, "logging.wandb", f"one of {', '.join(MODES)}", mode)
        path = Path(run_dir).resolve()
        self.dropped = 0
        self._path, self._mode, self._media, self._artifacts = path, mode, media, artifacts
        self._options = {
            "project": project,
            "entity": entity or None,
            "group": group,
            "name": name or path.name,
            "tags": list(tags) or None,
            "notes": notes or None,
            "job_type": job_type,
            "id": run_id or os.environ.get("WANDB_RUN_ID") or default_run_id(path),  # agents of sweeps set the variable
            "config": dict(config or {}),
            "dir": os.environ.get("WANDB_DIR", str(path)),
        }
        self._on = mode != "disabled"
        self._history = _history_of(path) if self._on else None
        self._queue: queue.Queue[dict[str, float] | None] = queue.Queue(capacity)
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        if self._on:
            self._thread.start()

    @property
    def active(self) -> bool:
        """Whether records are still accepted."""
        return self._on

    def log(self, record: Record, timings: Record | None = None) -> None:
        """Queues a record, which must not change any more, and returns at once."""
        if not self._on or self._history is None:
            return
        try:
            self._queue.put_nowait(self._history.row(record, timings))
        except queue.Full:
            self.dropped += 1

    def close(self, timeout: float = 30.0) -> None:
        """Sends the waiting records, for at most `timeout` seconds."""
        if not self._thread.is_alive():
            return
        deadline = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
            self._thread.join(max(0.0, deadline - time.monotonic()))
        except queue.Full:
            pass
        if self._thread.is_alive():
            self._on = False
            _log.warning("wandb has not finished within %g seconds; the run does not wait for it", timeout)
        if self.dropped:
            _log.warning("wandb was too slow for %d records; %s has them all", self.dropped, METRICS)

    def _work(self) -> None:
        try:
            import wandb

            run, define = self._start(wandb), Definitions()
            while (numbers := self._queue.get()) is not None:
                define(run, numbers)
                run.log(numbers, step=int(numbers["iteration"]))
            try:
                if self._media:
                    log_media(wandb, run, self._path, self._artifacts)
            finally:
                run.finish()
        except BaseException as error:
            _log.warning("wandb is off from here on: %s: %s", type(error).__name__, error)
        finally:
            self._on = False

    def _start(self, wandb: ModuleType) -> Any:
        """Starts or resumes the wandb run."""
        return start_run(wandb, self._mode, resume="allow", **self._options)


class Definitions:
    """Tells wandb about numbers when they are first seen: their axis, and that the highest win rate counts."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, run: Any, numbers: Mapping[str, float]) -> None:
        """Define the numbers of a row that are new."""
        for name in numbers:
            group = name if is_win_rate(name) else f"{name.split('/')[0]}/*" if "/" in name else ""
            if group in ("", *self._known) or name in AXES:
                continue
            self._known.add(group)
            more = {"summary": "max"} if is_win_rate(name) else {}
            run.define_metric(group, step_metric="iteration", **more)


def start_run(wandb: ModuleType, mode: str, *, resume: str | None, **options: Any) -> Any:
    """Starts a wandb run, offline if there is no key or no network.

    Args:
      wandb: the module wandb.
      mode: "online" or "offline".
      resume: "allow" continues a run of the same id; None replaces it.
      options: further arguments of `wandb.init`.
    """
    settings = wandb.Settings(silent=True, console="off", finish_timeout=20, init_timeout=30)
    if mode == "online":
        url = wandb.setup(settings=settings).settings.base_url
        missing = "network" if not _reachable(url) else "key" if not wandb.login(prompt=False, verify=False) else ""
        if missing:
            _log.warning("wandb: no %s, so the run is stored offline (`wandb sync` uploads it)", missing)
            mode = "offline"
    run = wandb.init(mode=mode, resume=resume, settings=settings, **options)
    run.define_metric("iteration", hidden=True)
    for name in AXES:
        run.define_metric(name, hidden=True)
    return run


def _history_of(path: Path) -> History:
    """History of a run that goes on where its files end."""
    try:
        found = History(path)
        for _ in found.replay(path):
            pass
    except (OSError, ValueError) as error:
        _log.warning("wandb: axes begin at 0, because the run's files cannot be read: %s", error)
        return History(path / "none")
    return found


def group_of(run_dir: str | Path, variant: str) -> str:
    """Group of a run in wandb: the study or the sweep that its directory belongs to, else its variant."""
    for place in Path(run_dir).resolve().parents:
        if (place / "study.json").is_file() or (place / "multirun.yaml").is_file():
            return place.name
    return variant


def default_run_id(run_dir: str | Path) -> str:
    """Id of a wandb run, derived from the run directory alone."""
    path = Path(run_dir).resolve()
    return f"{re.sub('[^A-Za-z0-9_-]', '-', path.name)[:80]}-{hashlib.sha256(bytes(path)).hexdigest()[:8]}"


def _reachable(url: str, seconds: float = 5.0) -> bool:
    """Whether a server accepts connections at an address, or at the proxy that leads there."""
    scheme = urlsplit(url).scheme
    parts = urlsplit(getproxies().get(scheme) or url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), seconds).close()
    except (OSError, ValueError):
        return False
    return True
