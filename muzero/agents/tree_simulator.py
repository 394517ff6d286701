"""Search of a tree over sampled worlds with the real rules: IS-MCTS and PIMC as agents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import env
from env.world_search import WorldSearch, search_worlds
from muzero.agents.situation import Situation


class TreeSimulator:
    """Agent that plays the best action of a search over sampled worlds (`env.world_search`).

    Args:
      search: settings of the search.
      bot: bot that plays worlds out.
      opponents: bot that plays the other seats, in the tree as well: the agent then looks for the best answer to this
        bot; None: they search too.
      threads: number of threads that share the decisions.
      name: name of the agent in messages.
    """

    def __init__(
        self,
        search: WorldSearch,
        bot: str = "random",
        opponents: str | None = None,
        *,
        threads: int = 1,
        name: str = "tree",
    ) -> None:
        self.name, self.search, self.bot, self.opponents, self.threads = name, search, bot, opponents, threads

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        actions = np.asarray(situation.legal.argmax(1))
        free = np.flatnonzero(situation.legal.sum(1) > 1)
        if len(free):
            actions[free] = self.search.choose(*self.analyse(situation.tables, situation.rows[free]))
        return actions

    def analyse(self, tables: env.VecEnv, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Visits and values [N, A] of the actions at some tables, see `env.world_search.search_worlds`."""
        others = None if self.opponents is None else tables.bot(self.opponents)
        return search_worlds(tables, rows, self.search, tables.bot(self.bot), others, self.threads)
