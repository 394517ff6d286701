"""Several leaves per tree and step."""

from __future__ import annotations

import numpy as np
import pytest

from mcts import PhaseTable, considered_visits
from tests.mcts.worlds import (
    BARE_PUCT,
    EVEN,
    Problem,
    all_legal,
    assert_consistent,
    both_algorithms,
    logits_of,
    make_search,
    run,
    take_away,
)


def test_virtual_loss_matches_hand_computation() -> None:
    """Two leaves a step, even priors, pb_c_init 4.

    1. 4 * 1 * 0.5 of equals the first: action 0. Then N=2, it is under way: 0 + 4 * 1.414 * 0.5 / 2 against
       0 + 4 * 1.414 * 0.5: action 1. Returns 2 and 0: root 2 / 3, q = (2, 0).
    2. N=3: 1 + 4 * 1.732 * 0.5 / 2 against 0 + 4 * 1.732 * 0.5 / 2: action 0. Then N=4 and one of its two visits is
       under way: half its value is lost, 0.5 + 4 * 2 * 0.5 / 3 = 1.83 against 0 + 4 * 2 * 0.5 / 2 = 2: action 1.
       Without virtual loss 1 + 1.33 = 2.33: action 0.
    """
    for loss, second in ((1.0, 1), (0.0, 0)):
        search = make_search(
            **BARE_PUCT | {"pb_c_init": 4.0}, num_actions=2, simulations=4, leaves=2, virtual_loss=loss
        )
        search.begin(np.array([[*EVEN, 0]], np.float32), all_legal(1, 2))
        requested = search.select()
        assert requested.action.tolist() == [0, 1]
        search.expand(np.array([[*EVEN, 2, 0], [*EVEN, 0, 0]], np.float32))
        assert search.results().values == pytest.approx(np.array([[2 / 3]]))
        requested = search.select()
        assert requested.parent.tolist()[0] == 1
        search.expand(np.zeros((2, 4), np.float32))
        assert search.results().visits.tolist() == [[2 + (second == 0), 1 + (second == 1)]]


def test_node_selected_twice_in_a_step_counts_twice() -> None:
    """Both leaves of the step find priors 0.9 and 0.1 (N=2: 1.414 * 0.9 / 2 against 1.414 * 0.1) and request the same
    node. Its first output is used and weighs twice: root (1 + 2 * 4) / 3 = 3."""
    search = make_search(**BARE_PUCT, num_actions=2, simulations=2, leaves=2)
    search.begin(np.array([[*logits_of(0.9, 0.1), 1]], np.float32), all_legal(1, 2))
    requested = search.select()
    assert (requested.parent.tolist(), requested.action.tolist()) == ([0, 0], [0, 0])
    search.expand(np.array([[*EVEN, 3, 1], [*EVEN, 99, 99]], np.float32))
    assert search.results().visits.tolist() == [[2, 0]]
    assert search.results().values == pytest.approx(np.array([[3.0]]))
    assert search.results().q == pytest.approx(np.array([[4.0, 0]]))


@pytest.mark.parametrize("considered", range(2, 9))
@pytest.mark.parametrize("simulations", [8, 12, 16, 24, 32, 48])
def test_two_leaves_make_the_gumbel_search_of_one_leaf(considered: int, simulations: int) -> None:
    """Without rescaling, visits, values, policy and action are those of one leaf, unless the last round has a single
    visit: it is given before the last value is known, and all actions of the round before are compared in the end."""
    problem = Problem(considered, batch=100, actions=8)
    found = []
    for leaves in (1, 2):
        search, results = run(
            problem,
            problem.root,
            begin={"noise": problem.gumbel},
            simulations=simulations,
            max_considered=considered,
            leaves=leaves,
            rescale_values=False,
        )
        found.append((results, search.choose()))
    (one, action), (two, other) = found
    sequence = considered_visits(considered, simulations)
    if sequence.count(sequence[-1]) > 1:
        assert (one.visits == two.visits).all()
        assert one.values == pytest.approx(two.values, abs=1e-5)
        assert one.policy == pytest.approx(two.policy, abs=1e-5)
        assert (action == other).all()
    else:  # apart from the single visit, they differ by what follows from it
        assert np.abs(one.visits - two.visits).sum(1).max() <= 2
        rows = np.arange(100)
        assert (two.visits[rows, other] >= two.visits.max(1) - 1).all()


@both_algorithms
@pytest.mark.parametrize(("simulations", "leaves", "steps"), [(10, 4, 3), (8, 4, 2), (1, 5, 1), (7, 7, 1)])
def test_simulations_are_rounded_up_to_a_multiple_of_leaves(
    algorithm: str, simulations: int, leaves: int, steps: int
) -> None:
    problem = Problem(seed=16, batch=8, actions=6)
    search, results = run(
        problem, problem.root, problem.legal, algorithm=algorithm, simulations=simulations, leaves=leaves
    )
    assert (search.steps, search.nodes) == (steps, 1 + steps * leaves)
    assert_consistent(search, results, steps * leaves)


@both_algorithms
@pytest.mark.parametrize("virtual_loss", [0.0, 0.5, 1.0])
def test_statistics_add_up_with_more_leaves_than_actions(algorithm: str, virtual_loss: float) -> None:
    """With 8 leaves and 2 actions, some leaves meet in the first step."""
    problem = Problem(seed=17, batch=16, actions=5)
    legal = np.zeros((16, 5), bool)
    legal[:, [1, 3]] = True
    search, results = run(
        problem, problem.root, legal, algorithm=algorithm, simulations=64, leaves=8, virtual_loss=virtual_loss
    )
    assert_consistent(search, results, 64)
    raw = problem.value[problem.root]
    assert results.values[:, 0] == pytest.approx((raw + (results.visits * results.q).sum(1)) / 65, abs=1e-4)
    # A leaf that meets an earlier one of its step adds a visit to that node, and no node to the tree.
    assert (search.tree()["visits"][:, 1] > 1).any()


@both_algorithms
@pytest.mark.parametrize("leaves", [2, 5, 8])
def test_several_leaves_find_the_winning_move(algorithm: str, leaves: int) -> None:
    stones = np.array([3, 5, 6, 7])
    search, _ = run(
        take_away(9, 3),
        2 * stones,
        simulations=800,
        algorithm=algorithm,
        leaves=leaves,
        num_players=2,
        phase_table=PhaseTable.trivial(3, turn_passes=True),
    )
    assert search.choose(0).tolist() == [2, 0, 1, 2]
