"""Gumbel: sequential halving at the root, the improved policy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mcts import Results, considered_visits
from tests.mcts.worlds import Problem, World, run


@pytest.mark.parametrize(
    ("considered", "simulations", "expected"),
    [
        # 4 actions in 2 rounds of 8: 2 visits each, then 4 for each of the best 2.
        (4, 16, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        # ceil(log2 3) = 2 rounds of 6: 2 visits each, then 3 for each of the best 2 (never fewer).
        (3, 12, [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]),
        # Simulations that are left over go to further rounds of the last 2 actions.
        (2, 5, [0, 0, 1, 1, 2]),
        # 20 / (3 * 8) and 20 / (3 * 4) are rounded to 1 visit, 20 / (3 * 2) to 3.
        (8, 20, [0] * 8 + [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5]),
        (4, 3, [0, 0, 0]),
        (1, 5, [0, 1, 2, 3, 4]),
        (0, 3, [0, 1, 2]),
        (7, 0, []),
    ],
)
def test_halving_schedule_matches_hand_computation(considered: int, simulations: int, expected: list[int]) -> None:
    assert considered_visits(considered, simulations) == expected


def test_root_visits_follow_the_halving_schedule() -> None:
    """16 simulations among 4 of 6 actions are split 6 + 6 + 2 + 2, whatever the values; a forced move takes all."""
    problem = Problem(seed=1, batch=64, actions=6)
    legal = np.ones((64, 6), bool)
    legal[32:, 1:] = False
    _, results = run(problem, problem.root, legal, simulations=16, max_considered=4)
    visits = np.sort(results.visits, 1)[:, ::-1]
    assert (visits[:32] == [6, 6, 2, 2, 0, 0]).all()
    assert (visits[32:] == [16, 0, 0, 0, 0, 0]).all()


@pytest.mark.parametrize("considered", [1, 3, 5])
def test_considered_actions_have_the_highest_noise_plus_logit(considered: int) -> None:
    problem = Problem(seed=2, batch=256, actions=9)
    for scale in (1.0, 0.3, 0.0):
        _, results = run(
            problem,
            problem.root,
            problem.legal,
            begin={"noise": problem.gumbel},
            simulations=considered,
            max_considered=considered,
            gumbel_scale=scale,
        )
        score = problem.gumbel * np.float32(scale) + problem.logits[problem.root]
        score[~problem.legal] = -np.inf
        for row in range(256):
            expected = [a for a in np.argsort(-score[row])[:considered] if problem.legal[row, a]]
            assert set(np.flatnonzero(results.visits[row])) == set(expected)


def weighted_q(
    results: Results,
    logits: NDArray[np.float32],
    raw: NDArray[np.float32],
    legal: NDArray[np.bool_],
    row: int,
    value_scale: float,
    maxvisit_init: float,
    rescale_values: bool,
) -> NDArray[np.float64]:
    """sigma(completed q) of a root, in the terms of Danihelka et al. (2022), appendix D."""
    visits, q = results.visits[row].astype(float), results.q[row].astype(float)
    prior = np.where(legal[row], np.exp(logits[row] - logits[row][legal[row]].max()), 0.0)
    prior /= prior.sum()
    tried = visits > 0
    known = (prior[tried] * q[tried]).sum() / prior[tried].sum() if tried.any() else 0.0
    mixed = (raw[row] + visits.sum() * known) / (1 + visits.sum())
    completed = np.where(tried, q, mixed)
    rescaled = (completed - completed.min()) / (max(np.ptp(completed), 1e-8) if rescale_values else 1.0)
    return (maxvisit_init + visits.max()) * value_scale * rescaled


@pytest.mark.parametrize("simulations", [0, 1, 5, 40])
@pytest.mark.parametrize("weights", [(0.1, 50.0, True), (1.0, 3.0, True), (0.2, 20.0, False)])
def test_improved_policy_and_action_match_the_formula(simulations: int, weights: tuple[float, float, bool]) -> None:
    """The policy is softmax(logit + sigma(q)). Of the most visited actions, the one with the highest
    noise + logit + sigma(q) is taken."""
    problem = Problem(seed=simulations, batch=100, actions=7)
    search, results = run(
        problem,
        problem.root,
        problem.legal,
        begin={"noise": problem.gumbel},
        simulations=simulations,
        max_considered=4,
        discount=0.9,
        value_scale=weights[0],
        maxvisit_init=weights[1],
        rescale_values=weights[2],
    )
    chosen = search.choose()
    logits, raw = problem.logits[problem.root], problem.value[problem.root]
    for row in range(100):
        legal = problem.legal[row]
        sigma = weighted_q(results, logits, raw, problem.legal, row, *weights)
        score = np.where(legal, logits[row] + sigma, -np.inf)
        policy = np.exp(score - score.max())
        assert results.policy[row] == pytest.approx(policy / policy.sum(), abs=1e-5)
        most = legal & (results.visits[row] == results.visits[row].max())
        assert chosen[row] == np.argmax(np.where(most, score + problem.gumbel[row], -np.inf))


@pytest.mark.parametrize(("rescale_values", "found"), [(True, 0.5), (False, 1.0)])
def test_rescaling_keeps_inner_nodes_from_trying_a_second_action(rescale_values: bool, found: float) -> None:
    """A forced move, then two actions with even priors that win 0.5 and 1; the network values everything as 0.

    Action 0 is tried first. The untried one counts as the mixed value (0 + n * 0.5) / (n + 1), which is lower, however
    little; rescaled to 0..1, action 0 leads by (50 + n) * 0.1 > 5 and so has a policy above 0.993, which its share of
    the visits, n / (n + 1), exceeds only after 140 visits, when it leads by 19. Without rescaling it leads by
    (50 + n) * 0.1 * 0.5 / (n + 1), and action 1 is tried after the first visits. mctx defines it the same way.
    """
    world = World(
        next=np.array([[1, 1], [2, 2], [2, 2]]),
        reward=np.array([[[0], [0]], [[0.5], [1]], [[0], [0]]], np.float32),
        value=np.zeros((3, 1), np.float32),
        logits=np.zeros((3, 2), np.float32),
    )
    legal = np.array([[True, False]])
    search, results = run(world, 0, legal, simulations=1000, rescale_values=rescale_values)
    inner = int(search.tree()["child"][0, 0, 0])
    assert (search.tree()["edge_visits"][0, inner, 1] > 0) == (not rescale_values)
    assert results.q[0, 0] == pytest.approx(found, abs=0.05)
