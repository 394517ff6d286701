"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_MARKS = {"l": ":--", "r": "--:", "c": ":-:"}


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[Any]], align: str = "") -> list[str]:
    """Lines of a Markdown table.

    Args:
      titles: titles of the columns.
      rows: cells of each row, one per column.
      align: letters of the columns' alignment, "l", "r" or "c"; by default the first is left-aligned, all others right.
    """
    align = align or "l" + "r" * (len(titles) - 1)
    assert len(align) == len(titles), (align, titles)
    marks = [_MARKS[letter] for letter in align]
    lines = []
    for cells in (titles, marks, *rows):
        assert len(cells) == len(titles), (titles, cells)
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return lines
