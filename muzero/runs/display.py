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

from muzero.runs.keys import Keys
from muzero.runs.metrics import Record, plain

LEGEND = {
    "progress": "iterations made, time of training over all processes, and the time left at the pace of the last ones",
    "speed": "amounts per second of the last iteration; replay: how full the replay buffer is",
    "losses": "means over the learner's steps of the last iteration; loss is their weighted sum, gradient its norm. "
    "Losses of parts that the network does not have are left out",
    "win rate": "share of games won, draws count half, at the last evaluations (oldest first); in training: running "
    "mean over the curriculum's bots in self-play, rescaled to two players, so that 50% is even",
    "time": "parts of the wall-clock time of the last iteration; self-play: parts of the workers' time in async mode",
}
"""Meaning of the rows of the panel."""


class Display:
    """Progress of a run: a panel that refreshes itself in a terminal, else one line per iteration.

    Args:
      total: number of iterations of the run, if known.
      start: number of iterations already done when this process began.
      elapsed: seconds of training of earlier processes.
      seconds: time limit of this process in seconds, if there is one.
      console: console to write to; by default stdout.
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        start: int = 0,
        elapsed: float = 0.0,
        seconds: float | None = None,
        console: Console | None = None,
    ) -> None:
        self.total = total
        self.elapsed = elapsed
        self.seconds = seconds
        self.console = console or Console()
        self._marks = deque([(start, time.monotonic())], maxlen=30)  # (iterations done, time) of the last iterations
        self._started = time.monotonic()
        self._record: dict[str, Any] = {}
        self._win_rates: dict[str, tuple[float, ...]] = {}
        self._live: Live | None = None
        self._keys: Keys | None = None
        self.legend = False
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4)
            self._live.start()
            self._keys = Keys(self.press)

    def press(self, key: str) -> None:
        """Answer a key: h shows or hides the legend."""
        if key in "hH?":
            self.legend = not self.legend
            if self._live:
                self._live.refresh()

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
        if self._keys:
            self._keys.close()
            self._keys = None
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
        """Iterations, with their number if it is what ends the run, and times."""
        passed, left, iteration = time.monotonic() - self._started, self.remaining, self._marks[-1][0]
        timed = self.seconds is not None and left is not None and left >= self.seconds - passed - 1
        shown = {"iteration": f"{iteration}" + ("" if self.total is None or timed else f"/{self.total}")}
        shown["elapsed"] = duration(self.elapsed + passed)
        if timed and self.seconds is not None:
            shown["elapsed"] += f" of {duration(self.elapsed + self.seconds)}"
        if left is not None:
            shown["left"] = duration(left)
        return shown

    def _line(self, record: Record) -> str:
        parts = [f"{name} {value}" for name, value in self._progress().items()]
        parts += [f"{name} {value}" for name, value in (*_losses(record), *_speeds(record))]
        rates = [f"{opponent} {rate:.1%}" for opponent, rate in (*_in_training(record), *_win_rates(record))]
        parts += ["win rate: " + ", ".join(rates)] if rates else []
        for title, group in _CLOCKS.items():
            shares = [f"{name} {share:.0%}" for name, share in _shares(record, group)]
            parts += [f"{title}: " + " ".join(shares)] if shares else []
        return "  ".join(parts)

    def _panel(self) -> Group:
        """Rows with a title each, in lines that fit the terminal."""
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        width = max(20, self.console.width - _TITLE - 2)
        rows = {
            "progress": [f"{name} {value}" for name, value in self._progress().items()],
            "speed": [f"{value} {name}" for name, value in _speeds(self._record)],
            "losses": [f"{name} {value}" for name, value in _losses(self._record)],
        }
        for title, cells in rows.items():
            if cells:
                table.add_row(Text(f"{title:{_TITLE}}", style="bold"), Text("\n".join(wrap_cells(cells, width))))
        longest = max((len(opponent) for opponent in self._win_rates), default=0)
        name_width = min(longest, width - 22)  # 22: the rate and its line
        for number, (opponent, rates) in enumerate(list(self._win_rates.items())):
            name = opponent if len(opponent) <= name_width else f"{opponent[: name_width - 1]}…"
            text = f"{name:{name_width}} {rates[-1]:6.1%}  {sparkline(rates)}"
            table.add_row(Text("win rate" if number == 0 else "", style="bold"), Text(text))
        for title, group in _CLOCKS.items():
            shares = list(_shares(self._record, group))
            if shares:
                table.add_row(Text(title, style="bold"), _bar(shares, width))
        if self.legend:
            for title, meaning in LEGEND.items():
                table.add_row(Text(title, style="italic"), Text(meaning, style="italic"))
        if self._keys and self._keys.active:
            hint = "h: hide the legend" if self.legend else "h: what these rows mean; Ctrl-C: save and stop"
            table.add_row(Text(""), Text(hint, style="dim"))
        return Group(table)


def wrap_cells(cells: Iterable[str], width: int) -> list[str]:
    """Cells in lines of at most `width` characters, two spaces between cells; no cell is cut in two."""
    lines: list[str] = []
    for cell in cells:
        if lines and len(lines[-1]) + 2 + len(cell) <= width:
            lines[-1] += f"  {cell}"
        else:
            lines.append(cell)
    return lines


_TITLE = 9  # characters of the longest title of a row
_CLOCKS = {"time": "seconds", "self-play": "concurrent_selfplay"}
_COLOURS = ("green", "yellow", "blue", "magenta", "cyan", "white")


def _group(record: Record, name: str) -> Mapping[str, Any]:
    group = record.get(name)
    return group if isinstance(group, Mapping) else {}


def _losses(record: Record) -> Iterator[tuple[str, str]]:
    """Losses, without those of parts that the network does not have, which are 0."""
    for name, value in _group(record, "losses").items():
        if value == 0 and name != "total":
            continue
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


def _bar(shares: list[tuple[str, float]], width: int) -> Text:
    """Bar of coloured blocks in proportion to shares, with a legend, below it if there is no room beside it.

    Args:
      shares: names and shares, which add up to 1.
      width: characters of a line.
    """
    legend = [f"{name} {share:.0%}" for name, share in shares]
    beside = 40 + 2 + len("  ".join(legend)) <= width
    length = min(40, width)
    bar, drawn, total = Text(), 0, 0.0
    for index, (_, share) in enumerate(shares):
        total += share
        bar.append("█" * (round(total * length) - drawn), _COLOURS[index % len(_COLOURS)])
        drawn = round(total * length)
    column = length if beside else width  # beside the bar, or on a line of its own
    for index, text in enumerate(legend):
        if column + 2 + len(text) > width:
            bar.append("\n")
            column = 0
        else:
            bar.append("  ")
            column += 2
        bar.append(text, _COLOURS[index % len(_COLOURS)])
        column += len(text)
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
