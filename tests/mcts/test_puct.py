"""PUCT: trees worked out by hand, and the selection formula."""

from __future__ import annotations

import numpy as np
import pytest

from mcts import Search
from tests.mcts.worlds import BARE_PUCT, EVEN, Problem, logits_of, make_search, play, run


@pytest.fixture
def small_tree() -> Search:
    return make_search(**BARE_PUCT, num_actions=2, simulations=4, discount=0.5)


# Network outputs of the root: logits and value. Those of a node end with the reward of the action that led there.
ROOT = [*logits_of(0.8, 0.2), 1]


def test_puct_tree_matches_hand_computation(small_tree: Search) -> None:
    """
    1. N=1, nothing known: 0 + 0.8 against 0 + 0.2: action 0, node 1. Return 1 + 0.5 * 2 = 2.
       Root (1 + 2) / 2 = 1.5; q0 = 2.
    2. N=2; q within 1.5..2, the untried action counts as the root's 1.5:
       1 + 1.414 * 0.8 / 2 against 0 + 1.414 * 0.2: action 0; below, of equals the first: node 2.
       Return to node 1: 0 + 0.5 * -10 = -5, its mean (2 - 5) / 2 = -1.5. Return to the root 1 + 0.5 * -5 = -1.5.
       Root (1 + 2 - 1.5) / 3 = 0.5; q0 = 1 + 0.5 * -1.5 = 0.25.
    3. N=3; q within 0.25..0.5: 0 + 1.732 * 0.8 / 3 = 0.46 against 1 + 1.732 * 0.2: action 1, node 3.
       Return 2 + 0.5 * 4 = 4. Root (1.5 + 4) / 4 = 1.375; q1 = 4.
    4. N=4; q within 0.25..4: 0 + 2 * 0.8 / 3 = 0.53 against 1 + 2 * 0.2 / 2: action 1, then 0, node 4.
       Return to node 3: -1 + 0.5 * 2 = 0, its mean 2. Return to the root 2 + 0.5 * 0 = 2.
       Root (5.5 + 2) / 5 = 1.5; q1 = 2 + 0.5 * 2 = 3.
    """
    requested = play(small_tree, ROOT, [[*EVEN, 2, 1], [*EVEN, -10, 0], [*EVEN, 4, 2], [*EVEN, 2, -1]])
    assert requested == [(0, 0), (1, 0), (0, 1), (3, 0)]
    results = small_tree.results()
    assert results.visits.tolist() == [[2, 2]]
    assert results.policy.tolist() == [[0.5, 0.5]]
    assert results.values == pytest.approx(np.array([[1.5]]))
    assert results.q == pytest.approx(np.array([[0.25, 3]]))
    tree = small_tree.tree()
    assert tree["visits"].tolist() == [[5, 2, 1, 2, 1]]
    assert tree["value"][0, :, 0] == pytest.approx([1.5, -1.5, -10, 2, 2])
    assert tree["parent"].tolist() == [[-1, 0, 1, 0, 3]]
    assert tree["prior"][0, 0, :2] == pytest.approx([0.8, 0.2])
    assert small_tree.levels == 1 + 2 + 1 + 2
    assert small_tree.choose(0) == [1], "the better one of two equally visited actions"


def test_principal_line_follows_the_most_visited_moves(small_tree: Search) -> None:
    """In the tree worked out above each of the root's actions leads to a node with one child, by action 0."""
    play(small_tree, ROOT, [[*EVEN, 2, 1], [*EVEN, -10, 0], [*EVEN, 4, 2], [*EVEN, 2, -1]])
    end = [-1, -1]
    assert small_tree.principal_lines(np.array([1]), 4).tolist() == [[[1, 0], [0, 0], end, end]]
    assert small_tree.principal_lines(np.array([0]), 1).tolist() == [[[0, 0]]]


def test_unvisited_lowest_matches_hand_computation() -> None:
    """Up to the third simulation this is the tree of the test above. The untried action then counts as 0.25, not 0.5:
    0 + 1.732 * 0.8 / 3 = 0.46 against 0 + 1.732 * 0.2 = 0.35: action 0. In node 1, N=2, its action 0 worth -5 and
    the other taken as that: 0 + 1.414 * 0.5 / 2 against 0 + 1.414 * 0.5: action 1. Return to node 1: 0.5 * 6 = 3,
    its mean (2 - 5 + 3) / 3 = 0; to the root 1 + 0.5 * 3 = 2.5. Root (1 + 2 - 1.5 + 2.5) / 4 = 1; q0 = 1.
    """
    search = make_search(**BARE_PUCT, num_actions=2, simulations=3, discount=0.5, unvisited="lowest")
    requested = play(search, ROOT, [[*EVEN, 2, 1], [*EVEN, -10, 0], [*EVEN, 6, 0]])
    assert requested == [(0, 0), (1, 0), (1, 1)]
    assert search.results().values == pytest.approx(np.array([[1.0]]))
    assert search.results().q == pytest.approx(np.array([[1.0, 0]]))


@pytest.mark.parametrize("unvisited", ["neutral", "lowest"])
@pytest.mark.parametrize(("pb_c_base", "pb_c_init"), [(19652.0, 1.25), (1.0, 0.0), (3.0, 0.5)])
def test_puct_selects_the_best_action_of_its_formula(pb_c_base: float, pb_c_init: float, unvisited: str) -> None:
    """In trees of up to 12 simulations, the next action at the root has the best score of the formula."""
    problem = Problem(seed=23, batch=100, actions=5)
    for simulations in range(12):
        settings = {"algorithm": "puct", "pb_c_base": pb_c_base, "pb_c_init": pb_c_init, "unvisited": unvisited}
        _, now = run(problem, problem.root, problem.legal, simulations=simulations, **settings)
        _, then = run(problem, problem.root, problem.legal, simulations=simulations + 1, **settings)
        for row in range(100):
            legal, visits = problem.legal[row], now.visits[row].astype(float)
            prior = np.where(legal, np.exp(problem.logits[problem.root[row]].astype(float)), 0)
            own, tried = float(now.values[row, 0]), visits > 0
            known = [own, *now.q[row, tried].tolist()]
            spread = max(max(known) - min(known), 1e-8)
            untried = (own - min(known)) / spread if unvisited == "neutral" else 0.0
            value = np.where(tried, (now.q[row] - min(known)) / spread, untried)
            total = 1 + visits.sum()
            explore = np.sqrt(total) * (pb_c_init + np.log((total + pb_c_base + 1) / pb_c_base))
            score = np.where(legal, value + explore * prior / prior.sum() / (1 + visits), -np.inf)
            taken = np.flatnonzero(then.visits[row] - now.visits[row])
            assert len(taken) == 1
            assert score[taken[0]] >= score.max() - 1e-4
