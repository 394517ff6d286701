"""Live display of a training run: a panel in a terminal, a line per iteration elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muzero.runs.metrics import Record, plain


class Display:
    """Progress of a run: a panel that refreshes itself in a terminal, else one line per iteration.

    Args:
      total: number of iterations of the run, if known.
      start: number of iterations already done when this process began.
      seconds: time limit of this process in seconds, if there is one.
      console: console to write to; by default stdout.
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
        self._marks = deque([(start, time.monotonic())], maxlen=30)  # (iterations done, time) of the last iterations
        self._started = time.monotonic()
        self._record: dict[str, Any] = {}
        self._win_rates: dict[str, tuple[float, ...]] = {}
        self._live: Live | None = None
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4)
            self._live.start()

    def update(self, record: Record, timings: Record | None = None) -> None:
        """Shows a record with the groups of `muzero.runs.metrics`; groups that it lacks keep their last values."""
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
        """Stops refreshing; the last state stays on the screen."""
        if self._live:
            self._live.stop()

    def announce(self, text: str) -> None:
        """Writes a message at once, above the panel in a terminal; to stderr if the display shows nothing."""
        if self.console.quiet:
            print(text, file=sys.stderr, flush=True)
        else:
            self.console.print(text, soft_wrap=True, highlight=False)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def remaining(self) -> float | None:
        """Estimated seconds to the end, at the speed of the last iterations; None if unknown."""
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


_CLOCKS = {"time": "seconds", "self-play": "concurrent_selfplay"}
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
    """Mean of the running win rates against the curriculum's bots in self-play."""
    found = [v for name, v in _group(record, "diagnostics").items() if name.startswith("win_rate_") and v is not None]
    if found:
        yield "bots in training", sum(found) / len(found)


def _shares(record: Record, group: str) -> Iterator[tuple[str, float]]:
    seconds = {name: value for name, value in _group(record, group).items() if value}
    for name, value in seconds.items():
        yield name, value / sum(seconds.values())


def _bar(shares: list[tuple[str, float]], width: int = 40) -> Text:
    """Bar of coloured blocks in proportion to shares, with a legend."""
    bar, drawn, total = Text(), 0, 0.0
    for index, (_, share) in enumerate(shares):
        total += share
        bar.append("█" * (round(total * width) - drawn), _COLOURS[index % len(_COLOURS)])
        drawn = round(total * width)
    for index, (name, share) in enumerate(shares):
        bar.append(f"  {name} {share:.0%}", _COLOURS[index % len(_COLOURS)])
    return bar


def sparkline(shares: Iterable[float]) -> str:
    """Text with one character per share of 1: the higher the share, the taller the block."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, max(0, int(8 * share)))] for share in shares)


def short(value: float) -> str:
    """Number with three digits and a unit: 12345 -> 12.3k."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Time as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
