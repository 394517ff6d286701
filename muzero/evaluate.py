"""Games between agents on paired deals: every deal is played once with the first agent in each seat.

python -m muzero.evaluate a=checkpoint:runs/x b=bot:greedy games=1000
python -m muzero.evaluate --help
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import env
from muzero import stats
from muzero.agents import Agent, Situation

Watcher = Callable[[Situation], None]  # told of every decision of the first agent


@dataclass(frozen=True)
class Games:
    """Games of agent a against b in all other seats, [N], those of a deal next to each other.

    Attributes:
      won: share of the win that a got, 0 to 1.
      scores_a: final scores of a.
      scores_b: mean final scores of the other seats.
      truncated: games that reached the cap on decisions.
      decisions: made in each game, by all.
      deals: number of each game's deal.
      seats: a's seat.
      scores: [N, P] by seat.
      stats: [N, S] what the game reports of an episode (`VecEnv.stat_names`).
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

    def __len__(self) -> int:
        return len(self.won)

    @property
    def win_rate(self) -> float:
        """Mean share of the win; a draw of two is half a win."""
        return float(self.won.mean())

    def wilson(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson interval of the win rate; a part of a win counts towards both ends."""
        interval = stats.wilson(float(self.won.sum()), len(self), confidence)
        return interval.low, interval.high


def against_each(
    a: Agent,
    opponents: Sequence[Agent],
    deals: int,
    *,
    game: str,
    players: int = 2,
    rules: env.vector.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    threads: int = 1,
    watch: Watcher | None = None,
) -> list[Games]:
    """Plays the same deals against each opponent, all at once: a large batch suits a network."""
    each = deals * players
    rows = np.arange(len(opponents) * each)
    seat, rival = rows % players, rows // each
    tables = env.make(game, len(rows), players, rules, seed, auto_reset=False, threads=threads)
    deal = first_deal + rows % each // players
    tables.reset(deals=deal.tolist())
    decisions = np.zeros(len(rows), np.int64)
    while not tables.done.all():
        actions = np.full(len(rows), env.SKIP, np.int64)
        open_, mine = ~tables.done, tables.to_play == seat
        decisions += open_
        own = np.flatnonzero(open_ & mine)
        if len(own):
            situation = Situation.at(tables, own, seed)
            actions[own] = a.act(situation)
            if watch:
                watch(situation)
        for number, opponent in enumerate(opponents):
            theirs = np.flatnonzero(open_ & ~mine & (rival == number))
            if len(theirs):
                actions[theirs] = opponent.act(Situation.at(tables, theirs, seed))
        tables.step(actions)
    best, scores = tables.ranks == 1, tables.scores.astype(np.float64)
    own_scores = scores[rows, seat]
    fields = (
        best[rows, seat] / best.sum(1),
        own_scores,
        (scores.sum(1) - own_scores) / (players - 1),
        tables.truncated.copy(),
        decisions,
        deal,
        seat,
        tables.scores.astype(np.int64),
        tables.stats.astype(np.int64),
    )
    return [Games(*(field[rival == number] for field in fields)) for number in range(len(opponents))]


def paired_games(
    a: Agent,
    b: Agent,
    deals: int,
    *,
    game: str,
    players: int = 2,
    rules: env.vector.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    batch: int = 256,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Games:
    """Plays deals first_deal, first_deal + 1, ... of a seed, with a in each seat in turn.

    Args:
      batch: games in lockstep.
      progress: called with the number of games finished.
    """
    parts: list[Games] = []
    at_once = max(1, batch // players)
    for start in range(0, deals, at_once):
        count = min(at_once, deals - start)
        deal = first_deal + start
        (part,) = against_each(
            a, [b], count, game=game, players=players, rules=rules, seed=seed, first_deal=deal, threads=threads
        )
        parts.append(part)
        if progress:
            progress(players * (start + count))
    return joined(parts)


def joined(parts: Sequence[Games]) -> Games:
    """Several series of games as one."""
    return Games(*(np.concatenate(list(column)) for column in zip(*(vars(p).values() for p in parts), strict=True)))


def main() -> None:
    """Entry point of `python -m muzero.evaluate`."""
    from muzero.match import main as play

    play()


if __name__ == "__main__":
    main()
