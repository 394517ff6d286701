"""What a run reports. metrics.jsonl is the truth; wandb and the display are shown the same records.

A record is a nested dict of numbers. These groups are known, others are kept and passed on:

    record  = {"iteration": 12,
               "losses": {"total": 1.23, "value": 0.4, ...},
               "diagnostics": {"replay_fill": 0.5, "win_rate_BOT": 0.4, ...},
               "evaluation": {opponent: {"win_rate": 0.61, ...}, ...}}
    timings = {"speed": {"games": 31.0, "simulations": 9e4, ...},             per second
               "seconds": {"env": 0.4, "tree": 1.0, "network": 3.1, ...},     of the iteration, by who used them
               "beside": {"env": 0.4, "tree": 1.0, "network": 3.1}}           of self-play at the same time

The clock is kept out of metrics.jsonl: what it says depends on the seed alone, and timings.jsonl has the rest, line by
line.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import queue
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muzero.config import require

METRICS, TIMINGS = "metrics.jsonl", "timings.jsonl"
MODES = ("online", "offline", "disabled")

Record = Mapping[str, Any]

_log = logging.getLogger(__name__)


class Metrics:
    """Appends to a run's metrics.jsonl and timings.jsonl.

    Args:
      run_dir: of the run.
      offset: bytes of metrics.jsonl that stay: the checkpoint's `offset`, or 0 if the run starts from scratch. What
        was logged after it is cut off both files, for the run is about to log it again; if nothing stays, the files
        are kept under other names, for there may be no such run.
    """

    def __init__(self, run_dir: str | Path, *, offset: int) -> None:
        path, timings = Path(run_dir) / METRICS, Path(run_dir) / TIMINGS
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
            file.write(line)
            file.flush()

    @property
    def offset(self) -> int:
        """Bytes of metrics.jsonl, which are on the disk when this returns. For the checkpoint."""
        for file in self._files:
            os.fsync(file.fileno())
        return self._files[-1].tell()

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            file.close()


def read(run_dir: str | Path, file: str = METRICS) -> list[dict[str, Any]]:
    """The records of a run, without a last line that is only half written."""
    path = Path(run_dir) / file
    records = []
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith(b"\n"):
            break
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return records


def plain(value: Any, key: str = "record") -> Any:
    """A value as JSON has it: numbers of numpy and torch become Python's, what is not finite None."""
    if isinstance(value, Mapping):
        return {str(name): plain(part, f"{key}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, f"{key}[{index}]") for index, part in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), key)
    require(value is None or isinstance(value, bool | int | float | str), key, "a number or text", value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def flatten(record: Record, prefix: str = "") -> dict[str, float]:
    """The finite numbers of a nested record: {"losses": {"value": 1}} -> {"losses/value": 1}."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and math.isfinite(value):
            found[f"{prefix}{name}"] = value
    return found


def _cut(path: Path, offset: int) -> int:
    """Cuts a file to `offset` bytes, whole lines; returns how many."""
    with open(path, "a+b") as file:
        size = file.tell()
        require(0 <= offset <= size, f"{path}, offset", f"0 to {size}, the size of the file", offset)
        file.seek(0)
        head = file.read(offset)
        require(not head or head.endswith(b"\n"), f"{path}, offset", "the end of a line", offset)
        file.truncate(offset)
    return head.count(b"\n")


def _keep_lines(path: Path, count: int) -> None:
    """Cuts a file to `count` lines; empty records stand in for lines that were lost."""
    with open(path, "a+b") as file:
        file.seek(0)
        lines = [line for line in file if line.endswith(b"\n")][:count]
        file.truncate(sum(len(line) for line in lines))
        file.write(b"{}\n" * (count - len(lines)))


class Wandb:
    """Passes records on to wandb, from a thread of its own. Whatever happens there, the run goes on: records that
    wandb is too slow for are dropped and counted, and after an error the sink is off.

    Args:
      run_dir: of the run; wandb's own files go there too, unless WANDB_DIR says otherwise.
      mode: "online" (falls back to offline without a key or a network), "offline" or "disabled".
      project, group, name: as in wandb.
      config: of the run.
      run_id: the same one resumes the same wandb run; by default made from the directory.
      capacity: records that may wait.

    Attributes:
      dropped: records that were not sent.
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
        """Whether records are still taken."""
        return self._on

    def log(self, record: Record, timings: Record | None = None) -> None:
        """Hands over a record, which must not change any more; returns at once."""
        if not self._on:
            return
        try:
            self._queue.put_nowait({**record, **(timings or {})})
        except queue.Full:
            self.dropped += 1

    def close(self, timeout: float = 30.0) -> None:
        """Sends what waits, for at most `timeout` seconds."""
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
            _log.warning("wandb has not finished in %g seconds, the run does not wait for it", timeout)
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
    """A wandb id that is the same whenever the same directory is used."""
    path = Path(run_dir).resolve()
    return f"{re.sub('[^A-Za-z0-9_-]', '-', path.name)[:80]}-{hashlib.sha256(bytes(path)).hexdigest()[:8]}"


def _reachable(url: str, seconds: float = 5.0) -> bool:
    """Whether somebody answers at an address, or at the proxy on the way there."""
    scheme = urlsplit(url).scheme
    parts = urlsplit(getproxies().get(scheme) or url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), seconds).close()
    except (OSError, ValueError):
        return False
    return True


class Display:
    """Progress for whoever is watching: a panel that renews itself in a terminal, else a line per iteration.

    Args:
      total: iterations of the run, if that is known.
      start: iterations already done when this process began.
      seconds: after which the run ends, if that may come first.
      console: where to, by default stdout.
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        start: int = 0,
        seconds: float | None = None,
        console: Console | None = None,
    ) -> None:
        self.total = total
        self.seconds = seconds
        self.console = console or Console()
        self._marks = deque([(start, time.monotonic())], maxlen=30)  # iterations and when they were done
        self._started = time.monotonic()
        self._record: dict[str, Any] = {}
        self._win_rates: dict[str, tuple[float, ...]] = {}
        self._live: Live | None = None
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4)
            self._live.start()

    def update(self, record: Record, timings: Record | None = None) -> None:
        """Shows a record, with the groups that the module's docstring names; what it lacks, the last one had."""
        shown: dict[str, Any] = plain({**record, **(timings or {})})
        if "iteration" in shown:
            self._marks.append((shown["iteration"], time.monotonic()))
        for opponent, rate in (*_in_training(shown), *_win_rates(shown)):
            self._win_rates[opponent] = (*self._win_rates.get(opponent, ()), rate)[-12:]
        if self._live:
            self._record = {**self._record, **shown}
        elif not self.console.quiet:
            self.console.file.write(self._line(shown) + "\n")
            self.console.file.flush()

    def close(self) -> None:
        """Leaves the last state on the screen."""
        if self._live:
            self._live.stop()

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def remaining(self) -> float | None:
        """Seconds to the end at the pace of the last iterations."""
        (first, then), (last, now) = self._marks[0], self._marks[-1]
        left = None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self._started))
        if self.total is None or last <= first:
            return left
        pace = max(0, self.total - last) * (now - then) / (last - first)
        return pace if left is None else min(pace, left)

    def _progress(self) -> dict[str, str]:
        shown = {"iteration": f"{self._marks[-1][0]}" + (f"/{self.total}" if self.total is not None else "")}
        shown["elapsed"] = duration(time.monotonic() - self._started)
        if self.remaining is not None:
            shown["eta"] = duration(self.remaining)
        return shown

    def _line(self, record: Record) -> str:
        parts = [f"{name} {value}" for name, value in self._progress().items()]
        parts += [f"{name} {value}" for name, value in (*_losses(record), *_speeds(record))]
        parts += [f"{opponent} {rate:.1%}" for opponent, rate in (*_in_training(record), *_win_rates(record))]
        for title, group in _CLOCKS.items():
            shares = [f"{name} {share:.0%}" for name, share in _shares(record, group)]
            parts += [f"{title}: " + " ".join(shares)] if shares else []
        return "  ".join(parts)

    def _panel(self) -> Group:
        table = Table.grid(padding=(0, 2))
        rows = {
            "progress": [f"{name} {value}" for name, value in self._progress().items()],
            "speed": [f"{value} {name}" for name, value in _speeds(self._record)],
            "losses": [f"{name} {value}" for name, value in _losses(self._record)],
        }
        for title, cells in rows.items():
            if cells:
                table.add_row(Text(title, style="bold"), Text("  ".join(cells)))
        for opponent, rates in list(self._win_rates.items()):
            table.add_row(Text(opponent, style="bold"), Text(f"{rates[-1]:6.1%}  {sparkline(rates)}"))
        for title, group in _CLOCKS.items():
            shares = list(_shares(self._record, group))
            if shares:
                table.add_row(Text(title, style="bold"), _bar(shares))
        return Group(table)


_CLOCKS = {"time": "seconds", "self-play": "beside"}
_COLOURS = ("green", "yellow", "blue", "magenta", "cyan", "white")


def _group(record: Record, name: str) -> Mapping[str, Any]:
    group = record.get(name)
    return group if isinstance(group, Mapping) else {}


def _losses(record: Record) -> Iterator[tuple[str, str]]:
    for name, value in _group(record, "losses").items():
        yield "loss" if name == "total" else name, "-" if value is None else f"{value:.3f}"


def _speeds(record: Record) -> Iterator[tuple[str, str]]:
    for name, value in _group(record, "speed").items():
        yield f"{name}/s", "-" if value is None else short(value)
    fill = _group(record, "diagnostics").get("replay_fill")
    if fill is not None:
        yield "replay", f"{fill:.0%}"


def _win_rates(record: Record) -> Iterator[tuple[str, float]]:
    for opponent, result in _group(record, "evaluation").items():
        rate = result.get("win_rate") if isinstance(result, Mapping) else result
        if rate is not None:
            yield opponent, rate


def _in_training(record: Record) -> Iterator[tuple[str, float]]:
    """Mean of the running win rates against the bots of the curriculum."""
    found = [v for name, v in _group(record, "diagnostics").items() if name.startswith("win_rate_") and v is not None]
    if found:
        yield "bots in training", sum(found) / len(found)


def _shares(record: Record, group: str) -> Iterator[tuple[str, float]]:
    seconds = {name: value for name, value in _group(record, group).items() if value}
    for name, value in seconds.items():
        yield name, value / sum(seconds.values())


def _bar(shares: list[tuple[str, float]], width: int = 40) -> Text:
    """Blocks in proportion, and what they stand for."""
    bar, drawn, total = Text(), 0, 0.0
    for index, (_, share) in enumerate(shares):
        total += share
        bar.append("█" * (round(total * width) - drawn), _COLOURS[index % len(_COLOURS)])
        drawn = round(total * width)
    for index, (name, share) in enumerate(shares):
        bar.append(f"  {name} {share:.0%}", _COLOURS[index % len(_COLOURS)])
    return bar


def sparkline(shares: Iterable[float]) -> str:
    """A character per share of 1, low to high."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, max(0, int(8 * share)))] for share in shares)


def short(value: float) -> str:
    """Three digits and a unit: 12345 -> 12.3k."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
