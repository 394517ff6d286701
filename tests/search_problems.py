"""Worlds to search: deterministic models as tables, and what drives a search through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mcts

STATES = 64


@dataclass
class World:
    """What a network would say of each of S states; players are seats relative to the root's.

    Attributes:
      next: [S, A] the state that follows.
      reward: [S, A, V] on the way there.
      value: [S, V].
      logits: [S, A].
    """

    next: NDArray[np.int64]
    reward: NDArray[np.float32]
    value: NDArray[np.float32]
    logits: NDArray[np.float32]


class Problem:
    """A random world of 64 states for one player (V is left out), and roots to search from."""

    def __init__(self, seed: int, batch: int, actions: int) -> None:
        rng = np.random.default_rng(seed)
        self.next = rng.integers(0, STATES, (STATES, actions))
        self.reward = rng.normal(size=(STATES, actions)).astype(np.float32) * 0.3
        self.value = rng.normal(size=STATES).astype(np.float32)
        self.logits = rng.normal(size=(STATES, actions)).astype(np.float32) * 1.5
        self.root = rng.integers(0, STATES, batch)
        self.legal = rng.random((batch, actions)) < 0.7
        self.legal[np.arange(batch), rng.integers(0, actions, batch)] = True
        self.gumbel = rng.gumbel(size=(batch, actions)).astype(np.float32)


def explore(
    search: mcts.Search,
    world: World | Problem,
    roots: NDArray[np.int64],
    legal: NDArray[np.bool_] | None = None,
    mover_frame: bool = True,
    **begin: Any,
) -> mcts.Results:
    """A whole search from the states `roots`; `mover_frame` is how the world's numbers are handed over."""
    count, actions, players = len(roots), search.num_actions, search.num_values
    values = world.value.reshape(-1, players)
    rewards = world.reward.reshape(-1, actions, players)

    def seen_from(seat: NDArray[np.int64], numbers: NDArray[np.float32]) -> NDArray[np.float32]:
        order = (seat[:, None] + np.arange(players)) % players
        return np.take_along_axis(numbers, order, 1) if mover_frame else numbers

    states = np.zeros((search.nodes, search.batch), np.int64)
    states[0, :count] = roots
    legal = np.ones((count, actions), bool) if legal is None else legal
    search.begin(np.concatenate([world.logits[roots], values[roots]], 1), legal, **begin)
    for step in range(search.steps):
        asked = search.select()
        before = states.reshape(-1)[asked.parent]
        after = world.next[before, asked.action]
        fresh = 1 + step * search.leaves
        states[fresh : fresh + search.leaves, :count] = after.reshape(search.leaves, count)
        mover = (asked.to_play - asked.shift) % players
        search.expand(
            np.concatenate(
                [
                    world.logits[after],
                    seen_from(asked.to_play, values[after]),
                    seen_from(mover, rewards[before, asked.action]),
                ],
                1,
            )
        )
    return search.results()


def ours(problem: Problem, algorithm: str, simulations: int, discount: float) -> tuple[mcts.Results, NDArray[np.int64]]:
    """Our search with the settings of mctx: what it found, and the actions it takes."""
    batch, actions = problem.legal.shape
    search = mcts.Search(
        batch=batch,
        num_actions=actions,
        simulations=simulations,
        algorithm=algorithm,
        discount=discount,
        unvisited="lowest",
        max_considered=8,
    )
    noise = problem.gumbel if algorithm == "gumbel" else None
    results = explore(search, problem, problem.root, problem.legal, noise=noise)
    return results, search.choose(temperature=0)
