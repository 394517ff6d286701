"""Worlds to search: deterministic models as tables, and functions that run a search through them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mcts import Config, Results, Search

STATES = 64
ALGORITHMS = ("puct", "gumbel")
both_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)

SETTINGS = {field.name for field in Config.fields()}
DEFAULTS = {"discount": 1.0, "dirichlet_fraction": 0.0, "max_considered": 16}

# With pb_c_init 1 and an endless pb_c_base, the score of an action is
#     (q rescaled to 0..1) + sqrt(N) * prior / (1 + n)
# with N the visits of the node, its own evaluation included, and n those of the action. The tests write scores as these
# two parts.
BARE_PUCT = {"algorithm": "puct", "batch": 1, "pb_c_init": 1.0, "pb_c_base": 1e18}


@dataclass
class World:
    """Network outputs for each of S states; players are seats relative to the root's.

    Attributes:
      next: [S, A] next states.
      reward: [S, A, V] rewards of the actions.
      value: [S, V] values.
      logits: [S, A] policy logits.
    """

    next: NDArray[np.int64]
    reward: NDArray[np.float32]
    value: NDArray[np.float32]
    logits: NDArray[np.float32]


class Problem:
    """A random world of 64 states for one player (without the axis V), and roots to search from."""

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


def pack(legal: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Masks [B, A] as bits [B]."""
    bits = legal.astype(np.uint64) << np.arange(legal.shape[1], dtype=np.uint64)
    return np.bitwise_or.reduce(bits, axis=1)


def all_legal(batch: int, actions: int) -> NDArray[np.uint64]:
    """Masks [B] in which every action is legal."""
    return pack(np.ones((batch, actions), bool))


def make_search(**settings: Any) -> Search:
    """A search from settings and sizes together; without discount and root noise unless they are given."""
    given = DEFAULTS | settings
    config = Config(**{name: given.pop(name) for name in list(given) if name in SETTINGS})
    return Search(config, **given)


def explore(
    search: Search,
    world: World | Problem,
    roots: NDArray[np.int64],
    legal: NDArray[np.bool_] | None = None,
    mover_frame: bool = True,
    **begin: Any,
) -> Results:
    """Run a whole search from the states `roots`; `mover_frame` says in which order values are handed over."""
    count, actions, players = len(roots), search.num_actions, search.num_values
    values = world.value.reshape(-1, players)
    rewards = world.reward.reshape(-1, actions, players)

    def seen_from(seat: NDArray[np.int64], numbers: NDArray[np.float32]) -> NDArray[np.float32]:
        order = (seat[:, None] + np.arange(players)) % players
        return np.take_along_axis(numbers, order, 1) if mover_frame else numbers

    states = np.zeros((search.nodes, search.batch), np.int64)
    states[0, :count] = roots
    legal = np.ones((count, actions), bool) if legal is None else legal
    search.begin(np.concatenate([world.logits[roots], values[roots]], 1), pack(legal), **begin)
    for step in range(search.steps):
        requests = search.select()
        before = states.reshape(-1)[requests.parent]
        after = world.next[before, requests.action]
        fresh = 1 + step * search.leaves
        states[fresh : fresh + search.leaves, :count] = after.reshape(search.leaves, count)
        search.expand(
            np.concatenate(
                [
                    world.logits[after],
                    seen_from(requests.to_play, values[after]),
                    seen_from(requests.to_play, rewards[before, requests.action]),
                ],
                1,
            )
        )
    return search.results()


def ours(problem: Problem, algorithm: str, simulations: int, discount: float) -> tuple[Results, NDArray[np.int64]]:
    """Results and actions of our search with the settings of mctx."""
    batch, actions = problem.legal.shape
    search = make_search(
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


def run(
    world: World | Problem,
    roots: Any,
    legal: NDArray[np.bool_] | None = None,
    *,
    frame: bool = True,
    begin: dict[str, Any] | None = None,
    **settings: Any,
) -> tuple[Search, Results]:
    """Make a search and run it from the given roots."""
    roots = np.atleast_1d(roots)
    given = {"batch": len(roots), "num_actions": world.next.shape[1], "simulations": 20, **settings}
    search = make_search(**given)
    return search, explore(search, world, roots, legal, mover_frame=frame, **(begin or {}))


def play(search: Search, root: Sequence[float], outputs: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Search one game with the given network outputs, one per step; returns the requests as (node, action)."""
    search.begin(np.array([root], np.float32), all_legal(1, search.num_actions))
    requested = []
    for output in outputs:
        requests = search.select()
        requested.append((int(requests.parent[0]), int(requests.action[0])))
        search.expand(np.array([output], np.float32))
    return requested


def random_world(seed: int, actions: int, players: int) -> World:
    """A random world of 64 states for several players."""
    rng = np.random.default_rng(seed)
    return World(
        next=rng.integers(0, STATES, (STATES, actions)),
        reward=rng.normal(size=(STATES, actions, players)).astype(np.float32) * 0.3,
        value=rng.normal(size=(STATES, players)).astype(np.float32),
        logits=rng.normal(size=(STATES, actions)).astype(np.float32),
    )


def logits_of(*priors: float) -> list[float]:
    """Logits of a policy."""
    return [float(np.log(p)) for p in priors]


def fingerprint(search: Search, results: Results, temperature: float = 1.0) -> list[bytes]:
    """All results of a search as bytes, row by row."""
    arrays = (results.policy, results.visits, results.values, results.q, search.choose(temperature))
    return [b"".join(array[row].tobytes() for array in arrays) for row in range(len(results.visits))]


def take_away(stones: int, most: int) -> World:
    """Game in which two players in turn take 1 to `most` stones and the last stone wins. State: 2 stones + mover."""
    size = 2 * (stones + 1)
    following = np.zeros((size, most), np.int64)
    reward = np.zeros((size, most, 2), np.float32)
    for left, mover, action in itertools.product(range(stones + 1), range(2), range(most)):
        rest = max(0, left - (action + 1))
        following[2 * left + mover, action] = 2 * rest + 1 - mover
        if left > 0 and rest == 0:
            reward[2 * left + mover, action, mover] = 1
            reward[2 * left + mover, action, 1 - mover] = -1
    return World(following, reward, np.zeros((size, 2), np.float32), np.zeros((size, most), np.float32))


def take_away_value(stones: int, most: int) -> int:
    """+1 if the player to move wins the take-away game, otherwise -1."""
    if stones == 0:
        return -1
    return max(-take_away_value(max(0, stones - taken), most) for taken in range(1, most + 1))


def assert_consistent(search: Search, results: Results, simulations: int) -> None:
    """Assert that visits add up at every node, and that every number is finite."""
    tree = search.tree()
    assert (results.visits.sum(1) == simulations).all()
    for game in range(search.active):
        reached = [0]
        for node in reached:
            children = tree["child"][game, node]
            reached += children[children >= 0].tolist()
            own = tree["visits"][game, node] - tree["edge_visits"][game, node].sum()
            assert own == 1 if search.leaves == 1 or node == 0 else own >= 1
            assert (
                tree["visits"][game, children[children >= 0]] == tree["edge_visits"][game, node][children >= 0]
            ).all()
        for field in ("value", "reward", "q", "prior"):
            assert np.isfinite(tree[field][game, reached]).all()


def four_games(**settings: Any) -> tuple[Search, NDArray[np.float32], NDArray[np.uint64]]:
    """A search of four games with three actions and two players, and its roots: outputs and legal actions."""
    given = {"batch": 4, "num_actions": 3, "num_players": 2, "simulations": 3, **settings}
    return make_search(**given), np.zeros((4, 5), np.float32), all_legal(4, 3)


def explore_zeros(search: Search, roots: NDArray[np.float32], legal: NDArray[np.uint64]) -> Results:
    """Run a whole search with a network whose outputs are all zero."""
    search.begin(roots, legal)
    for _ in range(search.steps):
        search.select()
        search.expand(np.zeros((search.leaves * search.active, 7), np.float32))
    return search.results()


EVEN = logits_of(0.5, 0.5)
