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
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from muzero.config.fields import require
from muzero.runs.metrics import METRICS, Record, flatten

MODES = ("online", "offline", "disabled")

_log = logging.getLogger(__name__)


class Wandb:
    """Sends records to wandb from a thread of its own.

    Whatever happens in wandb, the run continues: records that wandb is too slow for are dropped and counted, and after
    an error the sink is off.

    Args:
      run_dir: run directory; wandb's own files go into it too, unless WANDB_DIR says otherwise.
      mode: mode of wandb: "online" (falls back to offline without a key or a network), "offline" or "disabled".
      project, group, name: project, group and name of the run in wandb.
      config: configuration of the run.
      run_id: wandb's id of the run; the same id resumes the same wandb run. By default derived from the directory.
      capacity: number of records that may wait to be sent.

    Attributes:
      dropped: number of records that were not sent.
    """

    def __init__(
        self,
        run_dir: str | Path,
        mode: str = "online",
        *,
        project: str,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
        group: str | None = None,
        run_id: str | None = None,
        capacity: int = 1000,
    ) -> None:
        require(mode in MODES, "logging.wandb", f"one of {', '.join(MODES)}", mode)
        path = Path(run_dir).resolve()
        self.dropped = 0
        self._mode = mode
        self._options = {
            "project": project,
            "group": group,
            "name": name or path.name,
            "id": run_id or default_run_id(path),
            "config": dict(config or {}),
            "dir": os.environ.get("WANDB_DIR", str(path)),
        }
        self._on = mode != "disabled"
        self._queue: queue.Queue[Record | None] = queue.Queue(capacity)
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        if self._on:
            self._thread.start()

    @property
    def active(self) -> bool:
        """Whether records are still accepted."""
        return self._on

    def log(self, record: Record, timings: Record | None = None) -> None:
        """Queues a record, which must not change any more, and returns at once."""
        if not self._on:
            return
        try:
            self._queue.put_nowait({**record, **(timings or {})})
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

            run = self._start(wandb)
            defined: set[str] = set()
            while (record := self._queue.get()) is not None:
                numbers = flatten(record)
                for group in {name.split("/")[0] for name in numbers if "/" in name} - defined:
                    run.define_metric(f"{group}/*", step_metric="iteration")
                    defined.add(group)
                run.log(numbers)
            run.finish()
        except BaseException as error:
            _log.warning("wandb is off from here on: %s: %s", type(error).__name__, error)
        finally:
            self._on = False

    def _start(self, wandb: ModuleType) -> Any:
        """Starts or resumes the wandb run."""
        settings = wandb.Settings(silent=True, console="off", finish_timeout=20, init_timeout=30)
        mode = self._mode
        if mode == "online":
            url = wandb.setup(settings=settings).settings.base_url
            missing = "network" if not _reachable(url) else "key" if not wandb.login(prompt=False, verify=False) else ""
            if missing:
                _log.warning("wandb: no %s, so the run is stored offline (`wandb sync` uploads it)", missing)
                mode = "offline"
        resume = "allow" if mode == "online" else None
        run = wandb.init(mode=mode, resume=resume, settings=settings, **self._options)
        run.define_metric("iteration", hidden=True)
        return run


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
