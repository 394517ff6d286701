"""Reader of wandb's offline files (`run-ID.wandb`): records of wandb's protocol in blocks as LevelDB's log has them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

_BLOCK, _HEADER = 32768, 7
_FULL, _LAST = 1, 4


def records(path: Path) -> Iterator[Any]:
    """Records of an offline file, in order."""
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    place, parts = _HEADER, b""
    while place + _HEADER <= len(data):
        if _BLOCK - place % _BLOCK < _HEADER:  # the rest of a block is padding
            place += _BLOCK - place % _BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + _HEADER])
        parts += data[place + _HEADER : place + _HEADER + length]
        place += _HEADER + length
        if kind in (_FULL, _LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def _values(items: Any) -> dict[str, Any]:
    """Values of items, nested as their keys are."""
    found: dict[str, Any] = {}
    for item in items:
        inner, names = found, [item.key] if item.key else list(item.nested_key)
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
        inner[names[-1]] = json.loads(item.value_json)
    return found


class OfflineRun:
    """Content of an offline file.

    Attributes:
      run: facts of the run: project, group, tags and so on.
      rows: rows of the history, with wandb's own numbers left out.
      steps: step of each row.
      times: time of each row.
      metrics: definitions of metrics by name or pattern.
      artifacts: artifacts by type.
      summary: numbers of the summary that were set directly.
    """

    def __init__(self, path: Path) -> None:
        self.run: Any = None
        self.rows: list[dict[str, Any]] = []
        self.steps: list[int] = []
        self.times: list[float] = []
        self.metrics: dict[str, Any] = {}
        self.artifacts: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        for record in records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            elif kind == "history":
                row = _values(record.history.item)
                self.times.append(row.pop("_timestamp", 0.0))
                self.steps.append(row.pop("_step", record.history.step.num))
                self.rows.append({name: value for name, value in row.items() if not name.startswith("_")})
            elif kind == "metric":
                self.metrics[record.metric.name or record.metric.glob_name] = record.metric
            elif kind == "artifact":
                self.artifacts[record.artifact.type] = record.artifact
            elif kind == "summary":
                self.summary |= _values(record.summary.update)


def read_offline(directory: Path) -> list[OfflineRun]:
    """Runs of all offline files below a directory, oldest first."""
    return [OfflineRun(path) for path in sorted(directory.rglob("*.wandb"))]
