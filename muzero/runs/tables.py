"""Tables of Markdown pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of a Markdown table; the first column is aligned to the left, the others to the right."""
    marks = [":--", *["--:"] * (len(titles) - 1)]
    return [f"| {' | '.join(str(cell) for cell in cells)} |" for cells in (titles, marks, *rows)]
