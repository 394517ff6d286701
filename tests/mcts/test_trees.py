"""Masks and statistics of the trees."""

from __future__ import annotations

import numpy as np
import pytest

from mcts import PhaseTable
from tests.mcts.worlds import STATES, Problem, assert_consistent, both_algorithms, random_world, run


@both_algorithms
@pytest.mark.parametrize("simulations", [0, 1, 30])
def test_single_legal_action_gets_all_visits(algorithm: str, simulations: int) -> None:
    problem = Problem(seed=11, batch=9, actions=9)
    search, results = run(
        problem,
        problem.root,
        np.eye(9, dtype=bool),
        algorithm=algorithm,
        simulations=simulations,
        dirichlet_fraction=0.5,
    )
    assert (results.visits == simulations * np.eye(9)).all()
    assert (results.policy == np.eye(9)).all()
    for temperature in (0.0, 1.0, 10.0):
        assert (search.choose(temperature) == np.arange(9)).all()


@both_algorithms
@pytest.mark.parametrize("leaves", [1, 4])
def test_phase_table_masks_actions_inside_the_tree(algorithm: str, leaves: int) -> None:
    """With random phase tables, the phase and player of a node follow from its parent's, and impossible actions have no
    prior and are never taken."""
    rng = np.random.default_rng(12)
    for _ in range(10):
        actions, players = int(rng.integers(1, 12)), int(rng.integers(1, 5))
        possible = rng.random((4, actions)) < 0.4
        possible[np.arange(4), rng.integers(0, actions, 4)] = True
        table = PhaseTable(possible, rng.integers(0, 4, (4, actions)).astype(np.uint8), rng.random((4, actions)) < 0.5)
        legal = rng.random((6, actions)) < 0.5
        legal[:, 0] = True
        phase = rng.integers(0, 4, 6).astype(np.int8)
        search, results = run(
            random_world(int(rng.integers(1000)), actions, players),
            rng.integers(0, STATES, 6),
            legal,
            begin={"phase": phase},
            algorithm=algorithm,
            simulations=40,
            num_players=players,
            phase_table=table,
            leaves=leaves,
        )
        assert not results.visits[~legal].any()
        assert legal[np.arange(6), search.choose()].all()
        tree = search.tree()
        assert (tree["phase"][:, 0] == phase).all()
        for game in range(6):
            nodes = [0]
            for node in nodes:
                allowed = legal[game] if node == 0 else possible[tree["phase"][game, node]]
                assert not tree["prior"][game, node, :actions][~allowed].any()
                tried = np.flatnonzero(tree["child"][game, node] >= 0)
                priors = 1 if len(tried) else 0  # a node's priors are computed when a walk goes on from it
                assert tree["prior"][game, node].sum() == pytest.approx(priors, abs=1e-5)
                assert allowed[tried].all()
                for action in tried:
                    child = tree["child"][game, node, action]
                    rule = tree["phase"][game, node], action
                    assert tree["phase"][game, child] == table.next_phase[rule]
                    seat = (tree["to_play"][game, node] + table.turn_passes[rule]) % players
                    assert tree["to_play"][game, child] == seat
                    nodes.append(child)


@both_algorithms
def test_no_simulations_give_the_prior(algorithm: str) -> None:
    problem = Problem(seed=13, batch=20, actions=6)
    search, results = run(problem, problem.root, problem.legal, algorithm=algorithm, simulations=0)
    logits = np.where(problem.legal, problem.logits[problem.root].astype(float), -np.inf)
    prior = np.exp(logits - logits.max(1, keepdims=True))
    assert results.policy == pytest.approx(prior / prior.sum(1, keepdims=True), abs=1e-6)
    assert not results.visits.any()
    assert not results.q.any()
    assert (results.values[:, 0] == problem.value[problem.root]).all()
    assert (search.steps, search.nodes, search.levels) == (0, 1, 0)
    if algorithm == "puct":
        assert (search.choose(0) == logits.argmax(1)).all()


@both_algorithms
def test_one_simulation_follows_the_best_prior_or_noise(algorithm: str) -> None:
    """Puct takes the highest prior, gumbel the highest noise + logit; the root's value is the mean of two numbers."""
    problem = Problem(seed=14, batch=50, actions=6)
    noise = problem.gumbel if algorithm == "gumbel" else np.zeros_like(problem.gumbel)
    search, results = run(
        problem, problem.root, problem.legal, begin={"noise": noise}, algorithm=algorithm, simulations=1, discount=0.5
    )
    score = np.where(problem.legal, problem.logits[problem.root] + noise, -np.inf)
    first = score.argmax(1)
    assert (results.visits == np.eye(6)[first]).all()
    after = problem.next[problem.root, first]
    q = problem.reward[problem.root, first] + 0.5 * problem.value[after]
    assert results.q[np.arange(50), first] == pytest.approx(q, abs=1e-6)
    assert results.values[:, 0] == pytest.approx((problem.value[problem.root] + q) / 2, abs=1e-6)
    assert (search.choose(0) == first).all()


@both_algorithms
def test_statistics_add_up_after_a_thousand_simulations(algorithm: str) -> None:
    problem = Problem(seed=15, batch=2, actions=10)
    search, results = run(problem, problem.root, problem.legal, algorithm=algorithm, simulations=1000)
    assert (search.steps, search.nodes) == (1000, 1001)
    assert_consistent(search, results, 1000)
    raw = problem.value[problem.root]
    mean = (raw + (results.visits * results.q).sum(1)) / 1001
    assert results.values[:, 0] == pytest.approx(mean, abs=1e-4)
