"""Metrics of a run in metrics.jsonl (results) and timings.jsonl (clock), one line per iteration.

metrics.jsonl is the authoritative record; `sinks` and `display` are given the same records. A record is a nested dict
of numbers. These groups are known, others are kept and passed on:

    record  = {"iteration": 12,
               "losses": {"total": 1.23, "value": 0.4, ...},
               "diagnostics": {"replay_fill": 0.5, "win_rate_BOT": 0.4, ...},
               "evaluation": {opponent: {"win_rate": 0.61, ...}, ...},
               "by_players": {"2": {"evaluation": {...}, "mean_win_rate": 0.5, "calibration": {...}}, ...}}
    timings = {"speed": {"games": 31.0, "simulations": 9e4, ...},             amounts per second
               "seconds": {"env": 0.4, "tree": 1.0, "network": 3.1, ...},     seconds of the iteration, by part
               "concurrent_selfplay": {"env": 0.4, "tree": 1.0, ...}}         seconds of self-play in async mode

Line n of both files is about the same iteration. metrics.jsonl holds nothing that depends on the clock: the same seed
gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from muzero.config.fields import require
from muzero.runs.files import parse_json, read_bytes, wrap_errors, writing
from muzero.runs.schema import Check, anything, listing, mapping, maybe, real, record, refuse, whole

METRICS, TIMINGS = "metrics.jsonl", "timings.jsonl"

Record = Mapping[str, Any]

# ---- schemas of a line -----------------------------------------------------------------------------------------------

_MOST_BYTES = 2**30  # bytes of a file of metrics: a hundred thousand iterations
MOST_OPPONENTS = 64  # opponents in the evaluations of one run
_RATE = real(0, 1)
_LIST = 10_000  # bins of a reliability curve
_OPPONENT = record(
    {"win_rate": _RATE, "games": whole(1, 10**12), "score_difference": real(), "length": real(0), "truncated": _RATE},
    others=maybe(real()),
)
_BINS = record(
    {
        "predicted": listing(_RATE, least=1, most=_LIST),
        "won": listing(_RATE, least=1, most=_LIST),
        "count": listing(whole(1, 10**15), least=1, most=_LIST),
    },
    others=anything,
)
_CALIBRATION = record({"brier": _RATE, "brier_of_the_mean": _RATE, "reliability": _BINS}, others=maybe(real()))
_AT_TABLES = record(
    {"evaluation": mapping(_OPPONENT, most=MOST_OPPONENTS)},
    {"mean_win_rate": maybe(_RATE), "calibration": _CALIBRATION},
    others=anything,
)
_MOST_TABLES = 64  # table sizes of one run
_FIGURE = maybe(real())
_FIGURES = mapping(_FIGURE)


def _diagnostics(value: Any, key: str) -> None:
    """Check of a mapping of figures, texts and lists, in which whatever a report draws is a figure."""
    mapping(anything)(value, key)
    for name, item in value.items():
        if name in ("games", "policy_entropy") or name.startswith("win_rate_"):
            _FIGURE(item, f"{key}.{name}")


SCHEMAS: dict[str, Check] = {
    METRICS: record(
        {"iteration": whole(0, 10**9)},
        {
            "losses": _FIGURES,
            "diagnostics": _diagnostics,
            "evaluation": mapping(_OPPONENT, most=MOST_OPPONENTS),
            "mean_win_rate": maybe(_RATE),
            "calibration": _CALIBRATION,
            "by_players": mapping(_AT_TABLES, most=_MOST_TABLES),
        },
        others=anything,
    ),
    TIMINGS: record({}, {"elapsed": maybe(real(0, 1e12)), "speed": _FIGURES, "seconds": _FIGURES}, others=anything),
}
"""Schema of a line of each file."""


class Metrics:
    """Appends to a run's metrics.jsonl and timings.jsonl.

    Args:
      run_dir: run directory.
      offset: number of bytes of metrics.jsonl to keep: the checkpoint's `offset`, or 0 if the run starts from scratch.
        Later lines are cut off both files, because the run is about to log them again. With 0, existing files are
        renamed (`metrics.before.jsonl`) instead of lost.
    """

    def __init__(self, run_dir: str | Path, *, offset: int) -> None:
        path, timings = Path(run_dir) / METRICS, Path(run_dir) / TIMINGS
        for file in (path, timings):
            require(not file.exists() or file.is_file(), str(file), "a file", "something else, such as a device")
        with writing(path):
            for file in (path, timings):
                if offset == 0 and file.exists() and file.stat().st_size:
                    file.replace(file.with_suffix(f".before{file.suffix}"))
            lines = _cut(path, offset)
            _keep_lines(timings, lines)
            self._files = [open(timings, "ab"), open(path, "ab")]  # noqa: SIM115

    def log(self, record: Record, timings: Record | None = None) -> None:
        """Appends a line to both files. NaN and infinity become null."""
        lines = [json.dumps(plain(part), ensure_ascii=False).encode() + b"\n" for part in (timings or {}, record)]
        for file, line in zip(self._files, lines, strict=True):
            with writing(Path(file.name), len(line)):
                file.write(line)
                file.flush()

    @property
    def offset(self) -> int:
        """Size of metrics.jsonl in bytes, for the checkpoint; all of it is on the disk when this returns."""
        for file in self._files:
            with writing(Path(file.name)):
                os.fsync(file.fileno())
        return self._files[-1].tell()

    def close(self) -> None:
        """Closes the files. A line that could not be written has been reported by `log`, and is given up."""
        for file in self._files:
            with suppress(OSError):
                file.close()


def read(run_dir: str | Path, file: str = METRICS) -> list[dict[str, Any]]:
    """Reads the records of a run, which fit their schema; an incomplete last line is left out."""
    path = Path(run_dir) / file
    records: list[dict[str, Any]] = []
    lines = read_bytes(path, _MOST_BYTES).splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith(b"\n"):
            break
        where = f"{path}, line {number}"
        found: dict[str, Any] = parse_json(where, line, SCHEMAS[file])
        bins = found.get("calibration", {}).get("reliability", {})
        with wrap_errors(where):
            if len({len(found) for found in bins.values() if isinstance(found, list)}) > 1:
                refuse("calibration.reliability", "lists of equal length", {k: len(v) for k, v in bins.items()})
        records.append(found)
    opponents = {bot for found in records for bot in found.get("evaluation", {})}
    with wrap_errors(path):
        if len(opponents) > MOST_OPPONENTS:
            refuse("evaluation", f"at most {MOST_OPPONENTS} opponents in all lines", len(opponents))
    return records


def plain(value: Any, key: str = "record") -> Any:
    """Converts a value to JSON's types: numpy and torch numbers become Python's, NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(name): plain(part, f"{key}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, f"{key}[{index}]") for index, part in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), key)
    require(value is None or isinstance(value, bool | int | float | str), key, "a number or text", value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def flatten(record: Record, prefix: str = "") -> dict[str, float]:
    """Finite numbers of a nested record: {"losses": {"value": 1}} -> {"losses/value": 1}."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and math.isfinite(value):
            found[f"{prefix}{name}"] = value
    return found


def _cut(path: Path, offset: int) -> int:
    """Cuts a file to `offset` bytes, the end of a line; returns the number of lines."""
    with open(path, "a+b") as file:
        size = file.tell()
        require(0 <= offset <= size, f"{path}, offset", f"0 to {size}, the size of the file", offset)
        file.seek(0)
        head = file.read(offset)
        require(not head or head.endswith(b"\n"), f"{path}, offset", "the end of a line", offset)
        file.truncate(offset)
    return head.count(b"\n")


def _keep_lines(path: Path, count: int) -> None:
    """Cuts a file to `count` lines; empty records replace lines that were lost."""
    with open(path, "a+b") as file:
        file.seek(0)
        lines = [line for line in file if line.endswith(b"\n")][:count]
        file.truncate(sum(len(line) for line in lines))
        file.write(b"{}\n" * (count - len(lines)))
