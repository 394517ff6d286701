"""Smoothing of learning curves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from muzero.stats.checks import Floats, require_count, to_vector


def rolling_mean(values: ArrayLike, window: int) -> Floats:
    """Mean of each value and up to window - 1 values before it, [N]; the first means are over fewer values."""
    x = to_vector("values", values)
    require_count("window", window, 1)
    return np.convolve(x, np.ones(window))[: len(x)] / np.minimum(np.arange(len(x)) + 1, window)
