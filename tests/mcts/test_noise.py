"""Root noise and the choice of actions. Keys are fixed, so that the tests always give the same answer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from mcts import Search
from tests.mcts.worlds import Problem, World, all_legal, logits_of, make_search, pack, random_world, run


def test_temperature_changes_actions_of_puct_but_not_of_gumbel() -> None:
    problem = Problem(seed=19, batch=256, actions=6)
    for algorithm, same in (("puct", False), ("gumbel", True)):
        search, _ = run(problem, problem.root, problem.legal, algorithm=algorithm)
        actions = [search.choose(temperature).tobytes() for temperature in (0.0, 0.5, 1.0, 5.0)]
        assert (len(set(actions)) == 1) == same


def begun(keys: int, logits: Sequence[float], legal: Sequence[bool], **settings: Any) -> Search:
    """Roots that differ by key alone, without any simulation."""
    search = make_search(batch=keys, num_actions=len(logits), simulations=0, **settings)
    outputs = np.tile(np.array([*logits, 0], np.float32), (keys, 1))
    search.begin(outputs, pack(np.tile(np.array(legal), (keys, 1))))
    return search


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 4.0])
def test_dirichlet_noise_has_the_right_distribution(alpha: float) -> None:
    """Each legal action's share has the right mean, variance and (beta) distribution; the others get none."""
    count, fraction, prior = 20_000, 0.25, np.array([0.5, 0.3, 0, 0.15, 0.05])
    legal = prior > 0
    logits = np.log(np.where(legal, prior, 1))
    search = begun(count, logits, legal, algorithm="puct", dirichlet_alpha=alpha, dirichlet_fraction=fraction)
    found = search.tree()["prior"][:, 0, :5].astype(float)
    assert found.sum(1) == pytest.approx(1, abs=1e-5)
    assert not found[:, 2].any()
    mean = (1 - fraction) * prior + fraction * legal / 4
    variance = fraction**2 * (1 / 4) * (3 / 4) / (4 * alpha + 1)
    for action in np.flatnonzero(legal):
        share = found[:, action]
        assert abs(share.mean() - mean[action]) < 4 * np.sqrt(variance / count)
        squares = (share - mean[action]) ** 2
        assert abs(squares.mean() - variance) < 4 * squares.std() / np.sqrt(count)
    pure = begun(count, logits, legal, algorithm="puct", dirichlet_alpha=alpha, dirichlet_fraction=1.0)
    for action in np.flatnonzero(legal):
        share = pure.tree()["prior"][:, 0, action]
        assert stats.kstest(share, stats.beta(alpha, 3 * alpha).cdf).pvalue > 1e-3


def test_given_dirichlet_noise_is_mixed_into_the_prior() -> None:
    search = make_search(
        batch=1, num_actions=2, simulations=0, algorithm="puct", dirichlet_alpha=9, dirichlet_fraction=0.25
    )
    outputs = np.array([[*logits_of(0.8, 0.2), 0]], np.float32)
    search.begin(outputs, all_legal(1, 2), noise=np.array([[0.4, 0.6]], np.float32))
    assert search.results().policy == pytest.approx(np.array([[0.75 * 0.8 + 0.1, 0.75 * 0.2 + 0.15]]))


def noise_differences(count: int, first: int, second: int, scale: float) -> NDArray[np.float64]:
    """noise[first] - noise[second] of each key: the extra logit with which the second is just taken, by bisection."""
    search = make_search(batch=count, num_actions=3, simulations=0, gumbel_scale=scale)
    legal = np.zeros((count, 3), bool)
    legal[:, [first, second]] = True
    low, high = np.full(count, -60.0), np.full(count, 60.0)
    outputs = np.zeros((count, 4), np.float32)
    for _ in range(32):
        outputs[:, second] = (low + high) / 2
        search.begin(outputs, pack(legal))
        taken = search.choose() == second
        low, high = np.where(taken, low, outputs[:, second]), np.where(taken, outputs[:, second], high)
    return low


def test_gumbel_noise_has_the_right_distribution() -> None:
    """Differences of independent Gumbel numbers are logistic. Two differences that share a number have a correlation of
    1/2."""
    one, two = (noise_differences(5000, 0, other, 1.0) for other in (1, 2))
    for sample in (one, two, one - two):
        assert stats.kstest(sample, stats.logistic.cdf).pvalue > 1e-3
    assert stats.pearsonr(one, two).statistic == pytest.approx(0.5, abs=0.05)
    assert noise_differences(5000, 0, 1, 2.5) == pytest.approx(2.5 * one, abs=1e-4)


def test_gumbel_considers_pairs_in_proportion_to_the_prior() -> None:
    """The two actions are drawn without replacement in proportion to the prior (Plackett and Luce)."""
    count, prior = 20_000, np.array([0.4, 0.3, 0.2, 0.1])
    world = World(
        next=np.zeros((1, 4), np.int64),
        reward=np.zeros((1, 4, 1), np.float32),
        value=np.zeros((1, 1), np.float32),
        logits=np.log(prior)[None].astype(np.float32),
    )
    _, results = run(world, np.zeros(count, np.int64), simulations=2, max_considered=2)
    pairs = list(itertools.combinations(range(4), 2))
    expected = [prior[a] * prior[b] * (1 / (1 - prior[a]) + 1 / (1 - prior[b])) for a, b in pairs]
    observed = [int(results.visits[:, pair].all(1).sum()) for pair in pairs]
    assert sum(observed) == count
    assert stats.chisquare(observed, np.array(expected) * count).pvalue > 1e-3


def test_actions_are_drawn_by_visits_to_the_power_of_one_over_temperature() -> None:
    count, world = 20_000, random_world(20, actions=5, players=1)
    search, results = run(world, np.full(count, 3), algorithm="puct", simulations=14, pb_c_init=4.0)
    visits = results.visits[0].astype(float)
    assert (results.visits == visits).all()
    assert (visits > 0).sum() >= 4
    for temperature in (0.25, 0.5, 1.0, 3.0):
        weights = visits ** (1 / temperature)
        observed = np.bincount(search.choose(temperature), minlength=5)
        assert not observed[visits == 0].any()
        tried = visits > 0
        expected = count * weights / weights.sum()
        assert stats.chisquare(observed[tried], expected[tried]).pvalue > 1e-3


def test_temperature_zero_takes_the_most_visited_action_with_the_best_value() -> None:
    problem = Problem(seed=21, batch=500, actions=6)
    search, results = run(problem, problem.root, problem.legal, algorithm="puct", simulations=9)
    most = results.visits == results.visits.max(1, keepdims=True)
    assert (most.sum(1) > 1).any(), "the test needs ties"
    assert (search.choose(0) == np.where(most, results.q, -np.inf).argmax(1)).all()
