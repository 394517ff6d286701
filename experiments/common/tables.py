"""Text for the pages of experiments: numbers with intervals, and Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.common.match_specs import Row
from experiments.common.pooling import interval
from muzero.runs.markdown import markdown_table


def rate(row: Row) -> str:
    """Win rate with its interval, as text."""
    low, high = interval(row)
    return f"{row['win_rate']:.3f} [{low:.3f}, {high:.3f}]"


def luck_free_rate(row: Row) -> str:
    """Win rate with the luck taken out, its interval, and how many plain games one game is worth, as text."""
    luck = row["luck"]
    worth = "" if luck["factor"] is None else f", {luck['factor']:.1f} x"
    return f"{luck['win_rate']:.3f} [{luck['low']:.3f}, {luck['high']:.3f}]{worth}"


def seeds(found: Row, form: str = ".3f") -> str:
    """Mean over seeds with its interval, as text; without one, if there is none, but with the values of two seeds."""
    if found["low"] is None:
        values = [f"{value:{form}}" for value in found.get("values", ())]
        each = f": {' and '.join(values)}" if len(values) == 2 else ""
        return f"{found['mean']:{form}} (n = {found['n']}{each})"
    return f"{found['mean']:{form}} [{found['low']:{form}}, {found['high']:{form}}] (n = {found['n']})"


def signed(number: float | None) -> str:
    """Elo difference as text; a dash if it is infinite."""
    return "-" if number is None else f"{number:+.0f}"


def published_matches(rows: Sequence[Sequence[Any]], one: str, other: str) -> list[str]:
    """Lines of a Markdown table with matches published in the paper."""
    cells = [
        [it, won, lost, drawn, f"{r:.3f} [{low:.3f}, {high:.3f}]", elo]
        for it, won, lost, drawn, r, low, high, elo in rows
    ]
    return markdown_table(["iteration", f"{one} won", f"{other} won", "drawn", "win rate", "Elo"], cells)
