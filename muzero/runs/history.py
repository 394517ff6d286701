"""Rows of a run's history as dashboards show them: every number of an iteration, and the axes to draw it over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from muzero.runs import metrics
from muzero.runs.files import wrap_errors
from muzero.runs.metrics import Record, flatten
from muzero.runs.provenance import PROVENANCE, starts

AXES = ("axes/steps", "axes/games", "axes/decisions", "axes/hours")
"""Numbers in every row that charts may have on their x axis instead of the iteration."""


class History:
    """Rows of a run, one after the other: its numbers, with learner steps, games, decisions and hours as axes.

    The same files of a run give the same rows at the same times, whoever reads them.

    Args:
      run_dir: run directory, whose provenance.jsonl tells when the run began.

    Attributes:
      decisions: number of decisions of self-play so far.
      elapsed: seconds of training so far.
    """

    def __init__(self, run_dir: Path) -> None:
        begun = [facts["started"] for facts in starts(run_dir) if "started" in facts]
        with wrap_errors(run_dir / PROVENANCE):
            self._start = datetime.fromisoformat(begun[0]).timestamp() if begun else 0.0
        self.decisions = self.elapsed = 0.0

    @property
    def time(self) -> float:
        """Time of the last row in seconds since 1970, as if the run had never been interrupted."""
        return self._start + self.elapsed

    def row(self, record: Record, timings: Record | None = None) -> dict[str, float]:
        """Numbers of the next iteration by name, such as losses/value, with the axes that are known."""
        numbers = flatten({**record, **(timings or {})})
        self.decisions += numbers.get("speed/decisions", 0.0) * numbers.get("iteration_seconds", 0.0)
        self.elapsed = numbers.get("elapsed", self.elapsed)
        known = {
            "axes/steps": numbers.get("diagnostics/steps"),
            "axes/games": numbers.get("diagnostics/games"),
            "axes/decisions": float(round(self.decisions)) if self.decisions else None,
            "axes/hours": self.elapsed / 3600 if self.elapsed else None,
        }
        return numbers | {name: value for name, value in known.items() if value is not None}

    def replay(self, run_dir: Path) -> Iterator[dict[str, float]]:
        """Rows of the iterations in metrics.jsonl and timings.jsonl, none if there is no such file."""
        if not (run_dir / metrics.METRICS).is_file():
            return
        records = metrics.read(run_dir)
        known = (run_dir / metrics.TIMINGS).is_file()
        clocks: list[dict[str, Any]] = metrics.read(run_dir, metrics.TIMINGS) if known else []
        for index, record in enumerate(records):
            yield self.row(record, clocks[index] if index < len(clocks) else None)


def is_win_rate(name: str) -> bool:
    """Whether a number is a win rate, of which the highest is what counts."""
    return name.rpartition("/")[2] in ("win_rate", "mean_win_rate")


def opponents_table(run_dir: Path) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table with every evaluation of a run against every opponent."""
    columns = ["iteration", "players", "opponent", "win_rate", "games", "score_difference", "length", "truncated"]
    rows: list[list[Any]] = []
    for record in metrics.read(run_dir):
        sizes: Mapping[str, Any] = record.get("by_players") or {"": record}
        for players, found in sizes.items():
            for opponent, result in (found.get("evaluation") or {}).items():
                figures = (result.get(name) for name in columns[3:])
                rows.append([record["iteration"], players, opponent, *figures])
    return columns, rows
