"""Simulated matches whose true win rate is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def paired(rng: np.random.Generator, deals: int, rate: float, split: float) -> NDArray[np.float64]:
    """Points of a match in which a deal is split (one win each) with probability `split`, or one agent wins both."""
    both = rng.random(deals) < (rate - split / 2) / (1 - split)
    first_seat = rng.random(deals) < 0.5
    games = np.where((rng.random(deals) < split)[:, None], np.stack([first_seat, ~first_seat], 1), both[:, None])
    return games.astype(np.float64).ravel()
