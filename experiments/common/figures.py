"""Parts of plots that several experiments share."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.common.match_specs import Row
from experiments.common.pooling import interval


def error_bars(rows: Sequence[Row], scale: Sequence[float] | None = None) -> list[list[float]]:
    """Distances of the interval's ends below and above the win rate, as matplotlib's `yerr`.

    Args:
      rows: results with a win rate and its interval.
      scale: factor for each row; by default 1.
    """
    factors = scale or [1.0] * len(rows)
    below = [(row["win_rate"] - interval(row)[0]) * factor for row, factor in zip(rows, factors, strict=True)]
    above = [(interval(row)[1] - row["win_rate"]) * factor for row, factor in zip(rows, factors, strict=True)]
    return [below, above]
