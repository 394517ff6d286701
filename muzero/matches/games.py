"""Results of games that were played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero import stats


@dataclass(frozen=True)
class Games:
    """Results of N games of agent a against agent b in all other seats; the games of a deal are next to each other.

    Attributes:
      won: [N] share of the win that a got, 0 to 1.
      scores_a: [N] final scores of a.
      scores_b: [N] mean final scores of the other seats.
      truncated: [N] whether each game reached the cap on decisions.
      decisions: [N] number of decisions in each game, of all seats together.
      deals: [N] number that names each game's deal.
      seats: [N] seat of a in each game.
      scores: [N, P] final scores by seat.
      stats: [N, S] statistics that the environment reports for each episode (`VecEnv.stat_names`).
      luck: [N, C] luck of a, columns as `muzero.matches.luck.COLUMNS` lists them; C = 0 if it was not measured.
    """

    won: NDArray[np.float64]
    scores_a: NDArray[np.float64]
    scores_b: NDArray[np.float64]
    truncated: NDArray[np.bool_]
    decisions: NDArray[np.int64]
    deals: NDArray[np.int64]
    seats: NDArray[np.int64]
    scores: NDArray[np.int64]
    stats: NDArray[np.int64]
    luck: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        if not self.luck.size:
            object.__setattr__(self, "luck", np.zeros((len(self.won), 0)))

    def __len__(self) -> int:
        return len(self.won)

    @property
    def win_rate(self) -> float:
        """Mean share of the win; a draw between two players is half a win."""
        return float(self.won.mean())

    def wilson(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson interval of the win rate."""
        interval = stats.wilson(float(self.won.sum()), len(self), confidence)
        return interval.low, interval.high

    def by_deal(self, players: int) -> NDArray[np.float64]:
        """Mean share of the win in each deal, [N / players]."""
        means: NDArray[np.float64] = self.won.reshape(-1, players).mean(1)
        return means

    def select(self, rows: NDArray[Any]) -> Games:
        """Select games by index or by mask."""
        return Games(**{name: array[rows] for name, array in vars(self).items()})


def first_games(games: Games, count: int) -> Games:
    """Return the first `count` games."""
    return games.select(np.arange(count))


def concatenate(parts: Sequence[Games]) -> Games:
    """Join several lists of games into one."""
    return Games(*(np.concatenate(list(column)) for column in zip(*(vars(p).values() for p in parts), strict=True)))
