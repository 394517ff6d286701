"""Checks of arguments that the statistics share; an error names the argument."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from muzero.config.fields import require

Floats = NDArray[np.float64]


def require_between(key: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside of [low, high]."""
    require(low <= value <= high, key, f"a number from {low:g} to {high:g}", value)


def require_inside_unit(key: str, value: float) -> None:
    """Refuse a number outside of the open interval (0, 1)."""
    require(0 < value < 1, key, "a number between 0 and 1, both excluded", value)


def require_points(points: float, n: int) -> None:
    """Refuse points that n games cannot give."""
    require_count("n", n, 1)
    require(0 <= points <= n, "points", f"from 0 to n = {n}", points)


def require_count(key: str, value: int, least: int) -> None:
    """Refuse anything but an integer of at least `least`."""
    require(isinstance(value, int | np.integer) and value >= least, key, f"an integer of {least} or more", value)


def to_vector(key: str, values: ArrayLike, low: float = -math.inf, high: float = math.inf) -> Floats:
    """Convert values to a vector; refuse an empty one and numbers that are not finite or not in [low, high]."""
    array = np.asarray(values, np.float64)
    require(array.ndim == 1 and array.size > 0, key, "a vector that is not empty", f"shape {array.shape}")
    bad = ~np.isfinite(array) | (array < low) | (array > high)
    expected = "finite numbers" if math.isinf(low) else f"numbers from {low:g} to {high:g}"
    require(not bad.any(), key, expected, f"{array[bad][:1]} at index {np.flatnonzero(bad)[:1]}")
    return array
