"""Search over sampled worlds with the real rules: information-set UCT, and UCT in worlds in which all is known.

A world is a copy of a table in which everything that the player to decide cannot know is dealt anew. `world_search.h`
explains both searches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from env.vector import Bot, VecEnv

MOST_ITERATIONS = 1 << 17  # a node of the tree takes a kilobyte at most
_AT_ONCE = 1 << 13  # walks per call into the core, which does not notice Ctrl-C


@dataclass(frozen=True)
class WorldSearch:
    """Settings of a search.

    Attributes:
      iterations: number of walks down the tree per decision, over all worlds.
      worlds: number of worlds with a tree each, in which all players see everything (PIMC); 0 for a world per walk and
        one tree of information sets (IS-MCTS).
      own_views: whether nodes are what the player who decides there sees (multiple observers), instead of what the
        player at the root sees (single observer); only without `worlds`.
      exploration: weight of the upper confidence bound; values are scaled to 0..1 within a tree.
      margin: weight of the score margin in units of the game's score scale; a win instead of a loss is worth 2.
      until: how far worlds are played, to the end of the "round" or to the "end" of the game.
      seed: seed of worlds and walks, 0 or more.
    """

    iterations: int = 256
    worlds: int = 0
    own_views: bool = False
    exploration: float = 0.7
    margin: float = 4.0
    until: str = "round"
    seed: int = 0

    def __post_init__(self) -> None:
        _require(1 <= self.iterations <= MOST_ITERATIONS, "iterations", f"1 to {MOST_ITERATIONS}", self.iterations)
        _require(0 <= self.worlds <= self.iterations, "worlds", "0 to the number of iterations", self.worlds)
        _require(not (self.own_views and self.worlds), "own_views", "false with worlds, which show everything", True)
        _require(0 <= self.exploration < float("inf"), "exploration", "0 or more", self.exploration)
        _require(abs(self.margin) < float("inf"), "margin", "a finite number", self.margin)
        _require(self.until in ("round", "end"), "until", "round or end", self.until)
        _require(0 <= self.seed < 2**64, "seed", "0 to 2**64 - 1", self.seed)

    def choose(self, visits: NDArray[np.int32], values: NDArray[np.float32]) -> NDArray[np.int64]:
        """Best actions [N] by the visits and values [N, A] of a search.

        A tree of information sets recommends its most visited action, which is the surest. Worlds that are known in
        full are averaged by value: what is at stake differs between them, and all have the same number of visits.
        """
        allowed = visits > 0 if self.worlds else visits == visits.max(1, keepdims=True)
        return np.asarray(np.where(allowed, values, -np.inf).argmax(1))


def _require(good: bool, key: str, expected: str, given: object) -> None:
    if not good:
        raise ValueError(f"{key}: expected {expected}, got {given!r}")


def search_worlds(
    tables: VecEnv,
    rows: NDArray[np.int64],
    search: WorldSearch,
    playout: Bot,
    opponents: Bot | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Search the decisions at some tables whose games are not over; the tables stay as they are.

    Args:
      tables: environment of the tables.
      rows: [N] indices of the tables.
      search: settings of the search.
      playout: bot that plays worlds to their end from where the tree ends.
      opponents: bot that plays all seats but the searching player's, in the tree as well; None: they search too.
      threads: number of threads; it changes no result.

    Returns:
      Visits [N, A] of the actions, and their mean values [N, A] to the player to move, NaN where an action was never
      tried: illegal, equivalent to another one, or left out by a search that is too short.
    """
    visits = np.zeros((len(rows), tables.num_actions), np.int32)
    values = np.full((len(rows), tables.num_actions), np.nan, np.float32)
    each = max(threads, _AT_ONCE // search.iterations)
    for start in range(0, len(rows), each):
        part = slice(start, start + each)
        tables._native.search_worlds(
            [int(row) for row in rows[part]],
            visits[part],
            values[part],
            playout.native,
            None if opponents is None else opponents.native,
            iterations=search.iterations,
            worlds=search.worlds,
            own_views=search.own_views,
            until_round=search.until == "round",
            exploration=search.exploration,
            margin=search.margin,
            seed=search.seed,
            threads=threads,
        )
    return visits, values
