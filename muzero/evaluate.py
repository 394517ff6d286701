"""Matches between two agents: every deal is played twice, with seats swapped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import env
from muzero.agents import Agent, Situation


@dataclass(frozen=True)
class PairedGames:
    """Games of agents a and b, [N], the two of a deal next to each other.

    Attributes:
      scores_a, scores_b: final scores, lower is better.
      truncated: games that reached the cap on decisions.
    """

    scores_a: NDArray[np.int64]
    scores_b: NDArray[np.int64]
    truncated: NDArray[np.bool_]

    @property
    def points(self) -> float:
        """Games won by a, draws half."""
        return float((self.scores_a < self.scores_b).sum() + (self.scores_a == self.scores_b).sum() / 2)

    @property
    def win_rate(self) -> float:
        """Share of `points`."""
        return self.points / len(self.scores_a)

    def wilson(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson interval of the win rate; a half point counts as half a success."""
        n = len(self.scores_a)
        low = binomtest(int(np.floor(self.points)), n).proportion_ci(confidence, "wilson").low
        high = binomtest(int(np.ceil(self.points)), n).proportion_ci(confidence, "wilson").high
        return float(low), float(high)


def paired_games(
    a: Agent,
    b: Agent,
    deals: int,
    *,
    game: str,
    rules: env.vector.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    batch: int = 256,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> PairedGames:
    """Plays deals first_deal, first_deal + 1, ... of a seed, two players, both ways.

    Args:
      batch: games in lockstep.
      progress: called with the number of games finished.
    """
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]] = []
    for start in range(0, deals, batch // 2):
        count = min(batch // 2, deals - start)
        tables = env.make(game, 2 * count, 2, rules, seed, auto_reset=False, threads=threads)
        tables.reset(deals=[first_deal + start + i // 2 for i in range(2 * count)])
        seat_of_a = np.arange(2 * count) % 2
        while not tables.done.all():
            actions = np.full(2 * count, env.SKIP, np.int64)
            for agent, seat in ((a, seat_of_a), (b, 1 - seat_of_a)):
                rows = np.flatnonzero(~tables.done & (tables.to_play == seat))
                if len(rows):
                    actions[rows] = agent.act(Situation.at(tables, rows, seed))
            tables.step(actions)
        row = np.arange(2 * count)
        scores = tables.scores.astype(np.int64)
        parts.append((scores[row, seat_of_a], scores[row, 1 - seat_of_a], tables.truncated.copy()))
        if progress:
            progress(2 * (start + count))
    return PairedGames(*(np.concatenate(part) for part in zip(*parts, strict=True)))
