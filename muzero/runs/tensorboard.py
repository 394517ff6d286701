"""TensorBoard as a sink of metrics: one event file in RUN/tensorboard, which the package tensorboard reads.

    pip install tensorboard && tensorboard --logdir runs

The file is written anew from metrics.jsonl when a process begins, then line by line: iterations that are made again
after an interruption are not there twice, and the same metrics give the same bytes.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from muzero.runs.history import History
from muzero.runs.metrics import Record

DIRECTORY = "tensorboard"
EVENTS = "events.out.tfevents.0000000000.run"  # TensorBoard knows event files by the beginning of their names

_log = logging.getLogger(__name__)


def is_installed() -> bool:
    """Whether the package tensorboard, which has the format of event files, is installed."""
    return find_spec("tensorboard") is not None


class EventFile:
    """Event file of TensorBoard with scalars; replaces an earlier file.

    Args:
      directory: directory of the file, which TensorBoard shows as a run.
    """

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        directory.mkdir(parents=True, exist_ok=True)
        self._event, self._summary = Event, Summary
        self._file: IO[bytes] = (directory / EVENTS).open("wb")
        self._writer = RecordWriter(self._file)
        self._write(Event(wall_time=0.0, file_version="brain.Event:2"))

    def add(self, row: dict[str, float], seconds: float) -> None:
        """Append the numbers of an iteration, at so many seconds since 1970; by steps and by seconds of training."""
        values = [
            self._summary.Value(tag=name, simple_value=float(row[name])) for name in sorted(row) if name != "iteration"
        ]
        step = int(row["iteration"])
        self._write(self._event(wall_time=seconds, step=step, summary=self._summary(value=values)))

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString(deterministic=True))
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_events(run_dir: Path, directory: Path) -> tuple[EventFile, History]:
    """Write the rows of a run so far; returns the open file, and the history to go on with.

    Args:
      run_dir: run directory.
      directory: directory of the event file.
    """
    events, rows = EventFile(directory), History(run_dir)
    for row in rows.replay(run_dir):
        events.add(row, rows.time)
    return events, rows


class TensorBoard:
    """Writes the records of a run to an event file. An error is logged once, and the run continues without.

    Args:
      run_dir: run directory, whose metrics so far are written first.
      on: whether to write at all.
    """

    def __init__(self, run_dir: Path, on: bool) -> None:
        self._events: EventFile | None = None
        if on and not is_installed():
            _log.warning("logging.tensorboard: the package is missing (pip install tensorboard); the run goes on")
        elif on:
            try:
                self._events, self._history = write_events(run_dir, run_dir / DIRECTORY)
            except (OSError, ValueError) as error:
                self._fail(error)

    def log(self, record: Record, timings: Record | None = None) -> None:
        """Append a record."""
        if self._events is None:
            return
        try:
            row = self._history.row(record, timings)
            self._events.add(row, self._history.time)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Close the file."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _fail(self, error: Exception) -> None:
        self._events = None
        _log.warning("tensorboard is off from here on: %s: %s", type(error).__name__, error)
