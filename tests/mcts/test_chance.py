"""Chance nodes: requests, probabilities, choice of outcomes, backup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mcts import PhaseTable, Search
from tests.mcts.chance_problems import ChanceProblem, explore_chance
from tests.mcts.reference import ChanceWorld
from tests.mcts.worlds import ALGORITHMS, all_legal, both_algorithms, fingerprint, make_search

CHOICES = ("spread", "prior")
both_choices = pytest.mark.parametrize("choice", CHOICES)


def chance_search(chance: Any, outcomes: int, pool: Any = None, **settings: Any) -> Search:
    """Search of one game and one phase in which events follow the actions marked in `chance`."""
    marked = np.array([chance], bool)
    table = replace(PhaseTable.trivial(marked.shape[1]), chance=marked, pool=None if pool is None else np.array([pool]))
    sizes = {"batch": 1, "num_actions": marked.shape[1], "num_outcomes": outcomes, "phase_table": table}
    return make_search(**sizes | settings)


def log(probabilities: Any) -> NDArray[np.float32]:
    """Logits of probabilities, with a very small one for 0."""
    return np.log(np.maximum(np.array(probabilities, np.float64), 1e-30)).astype(np.float32)


@both_algorithms
def test_requests_of_chance_nodes_and_outcomes_name_the_decision_above(algorithm: str) -> None:
    """The only action passes the turn and an event follows: chance node 1 (not told), then an outcome of it, node 2."""
    table = replace(PhaseTable.trivial(1, turn_passes=True), chance=np.ones((1, 1), bool))
    search = make_search(
        batch=1,
        num_actions=1,
        num_players=2,
        num_outcomes=3,
        phase_table=table,
        simulations=3,
        algorithm=algorithm,
        discount=0.5,
    )
    search.begin(np.array([[0, 10, 20]], np.float32), all_legal(1, 1))
    asked = []
    # Logit, outcome logits (always code 2), values and rewards, both from the seat that moves at the new node on.
    for values, rewards in (((4, 6), (1, 2)), ((8, 12), (3, 5)), ((0, 0), (0, 0))):
        requests = search.select()
        names = ("parent", "action", "shift", "to_play", "outcome")
        asked.append(tuple(int(getattr(requests, name)[0]) for name in names))
        search.expand(np.array([[0, -90, -90, 0, *values, *rewards]], np.float32))
    assert asked == [(0, 0, 1, 1, 0), (0, 0, 1, 1, 2), (2, 0, 1, 0, 0)]
    tree = search.tree()
    assert tree["chance"].tolist() == [[0, 1, 0, 1]]
    assert tree["edge"].tolist() == [[-1, 0, 2, 0]]
    assert tree["to_play"].tolist() == [[0, 1, 1, 0]]
    # By seat. Node 3 is worth 0. Node 2: (12 + 0) / 2, (8 + 0) / 2, and its reward (5, 3). Node 1: its own (2, 1) +
    # 0.5 * (6, 4), then (5, 3) + 0.5 * (12, 8), then (5, 3) + 0; its reward is part of its value. Edges into chance
    # nodes are not discounted, so the root's value is the mean of its own and the same returns.
    assert tree["value"][0, 2].tolist() == [6, 4]
    assert tree["reward"][0].tolist() == [[0, 0], [0, 0], [5, 3], [0, 0]]
    assert tree["value"][0, 1] == pytest.approx([(5 + 11 + 5) / 3, (3 + 7 + 3) / 3])
    assert search.results().q[0, 0] == pytest.approx(7)
    assert search.results().values[0] == pytest.approx([(10 + 21) / 4, (20 + 13) / 4])


def test_actions_without_events_lead_to_decision_nodes() -> None:
    world = ChanceWorld.random(0, 4, 3, 1)
    search = chance_search([1, 0, 1, 0], 3, simulations=200, algorithm="puct")
    explore_chance(search, world, np.array([5]), legal=all_legal(1, 4))
    tree = search.tree()
    kinds = set()
    for node in range(1, search.nodes):
        parent = tree["parent"][0, node]
        from_chance, edge = bool(tree["chance"][0, parent]), int(tree["edge"][0, node])
        assert bool(tree["chance"][0, node]) == (not from_chance and edge in (0, 2))
        kinds.add((from_chance, bool(tree["chance"][0, node])))
    assert len(kinds) == 3


def root_event(source: str, logits: Any, counts: Any = None, pool: Any = None, choice: str = "spread") -> Search:
    """Search in which both actions draw a card, with the same outcome logits everywhere."""
    search = chance_search(
        [1, 1], len(logits), pool, algorithm="puct", simulations=400, chance_source=source, chance_choice=choice
    )
    given = None if counts is None else np.array([counts], np.int16)
    search.begin(np.zeros((1, 3), np.float32), all_legal(1, 2), counts=given)
    rng = np.random.default_rng(0)
    for _ in range(search.steps):
        search.select()
        search.expand(np.array([[0, 0, *logits, rng.normal(), 0]], np.float32))
    return search


def chance_nodes(search: Search) -> list[int]:
    return np.flatnonzero(search.tree()["chance"][0]).tolist()


def test_learned_and_uniform_probabilities_match_hand_computation() -> None:
    logits = log([0.2, 0.1, 0.3, 0.4])
    search = root_event("learned", logits)
    for node in chance_nodes(search):
        assert search.tree()["prior"][0, node, :4] == pytest.approx([0.2, 0.1, 0.3, 0.4])
    search = root_event("uniform", logits)
    for node in chance_nodes(search):
        assert search.tree()["prior"][0, node, :4] == pytest.approx([0.2, 0.8 / 3, 0.8 / 3, 0.8 / 3])


@both_choices
@pytest.mark.parametrize(
    ("counts", "pool"),
    [([[2, 0, 1]], None), ([[2, 0, 1], [2, 0, 1]], [0, 1]), ([[2, 0, 1], [1, 1, 2]], [0, 1])],
)
def test_exact_probabilities_leave_out_cards_drawn_on_the_path(counts: Any, pool: Any, choice: str) -> None:
    """Pools with equal counts are the same cards; where no card is left, the learned probabilities stand."""
    learned = [0.25, 0.25, 0.25, 0.25]
    search = root_event("exact", log(learned), counts, pool, choice)
    tree = search.tree()
    shared, exhausted = len({tuple(row) for row in counts}) == 1, 0

    def pool_of(node: int) -> int:
        return 0 if pool is None else pool[tree["edge"][0, node]]

    for node in chance_nodes(search):
        left = list(counts[pool_of(node)])
        at = tree["parent"][0, node]
        while at > 0:
            up, drawn = tree["parent"][0, at], int(tree["edge"][0, at])
            if tree["chance"][0, up] and drawn and (shared or pool_of(up) == pool_of(node)):
                left[drawn - 1] = max(0, left[drawn - 1] - 1)
            at = up
        exhausted += sum(left) == 0
        expected = [0.25, *(0.75 * n / sum(left) for n in left)] if sum(left) else learned
        assert tree["prior"][0, node, :4] == pytest.approx(expected)
        assert (tree["edge_visits"][0, node, :4][np.array(expected) == 0] == 0).all()
    assert exhausted > 0 or not shared


@both_choices
def test_outcomes_of_probability_zero_are_never_visited(choice: str) -> None:
    search = root_event("learned", log([0, 0.5, 0, 0.5, 0]), choice=choice)
    visits = search.tree()["edge_visits"][0, chance_nodes(search)]
    assert visits[:, [1, 3]].sum() > 300
    assert not visits[:, [0, 2, 4]].any()


@both_choices
def test_visits_of_outcomes_approach_their_probabilities(choice: str) -> None:
    """At the most visited event, visits differ from their expectation by a few at most, where random ones vary by 5."""
    probabilities = np.array([0.05, 0.5, 0.15, 0.3])
    search = root_event("learned", log(probabilities), choice=choice)
    visits = max(search.tree()["edge_visits"][0, chance_nodes(search), :4], key=lambda row: float(row.sum()))
    assert visits.sum() > 100
    assert np.abs(visits - visits.sum() * probabilities).max() < 3


PROBABILITIES, REWARDS = np.array([0.1, 0.55, 0.05, 0.3]), np.array([-3.0, -1.0, 0.5, 10.0])


def three_visits(choice: str, keys: int, **settings: Any) -> NDArray[np.float32]:
    """Estimates of an event's value from three visits, one per key."""
    world = ChanceWorld(
        next=np.zeros((1, 1, 4), np.int64),
        reward=REWARDS.astype(np.float32).reshape(1, 1, 4, 1),
        value=np.zeros((1, 1), np.float32),
        logits=np.zeros((1, 1), np.float32),
        outcome_logits=log(PROBABILITIES)[None],
    )
    world = replace(  # state 1 comes after the event; nothing happens there
        world,
        next=np.ones((2, 1, 4), np.int64),
        reward=np.concatenate([world.reward, np.zeros_like(world.reward)]),
        value=np.zeros((2, 1), np.float32),
        logits=np.zeros((2, 1), np.float32),
        outcome_logits=np.repeat(world.outcome_logits, 2, 0),
    )
    search = chance_search([1], 4, simulations=4, chance_choice=choice, batch=keys, **settings)
    drawn = np.random.default_rng(0).integers(0, 2**63, keys).astype(np.uint64)
    found = explore_chance(search, world, np.zeros(keys, np.int64), legal=all_legal(keys, 1), keys=drawn)
    # The mean of four returns contains the chance node's own: the position in which nothing has been told.
    return (4 * found.q[:, 0] - np.float32(REWARDS[0])) / 3


def test_spread_visits_are_unbiased_and_prior_visits_are_not() -> None:
    exact = float(PROBABILITIES @ REWARDS)
    estimates = three_visits("spread", 20_000)
    error = float(estimates.std()) / np.sqrt(len(estimates))
    assert abs(float(estimates.mean()) - exact) < 4 * error
    one_visit = np.sqrt(PROBABILITIES @ (REWARDS - exact) ** 2)
    assert estimates.std() < 0.7 * one_visit / np.sqrt(3), "three visits vary less than three independent draws"
    always = three_visits("prior", 100)
    assert len(set(always.tolist())) == 1
    assert abs(always[0] - exact) > 0.3


def test_corrected_values_do_not_depend_on_the_outcomes_drawn() -> None:
    """Nothing happens after the event, so the afterstate's own value is all that there is to know of it."""
    estimates = three_visits("spread", 100, correct_luck=True)
    np.testing.assert_allclose(estimates, REWARDS[0], atol=1e-6)


def test_corrected_values_contain_what_the_search_finds_below_an_outcome() -> None:
    """After either outcome, of network value 1 and 3, one of two actions pays 5: worth 4 and 2 more than expected."""
    reward = np.zeros((4, 2, 3, 1), np.float32)
    reward[[1, 2], 1] = 5.0  # the second action at both positions after the event, which ends the game
    following = np.full((4, 2, 3), 3)
    following[0, :, 1], following[0, :, 2] = 1, 2
    logits = np.zeros((4, 2), np.float32)
    logits[0] = 20.0, -20.0
    value = np.array([[0.0], [1.0], [3.0], [0.0]], np.float32)
    world = ChanceWorld(following, reward, value, logits, np.repeat(log(np.array([0.0, 0.5, 0.5]))[None], 4, 0))
    search = chance_search([1, 1], 3, simulations=400, discount=1.0, correct_luck=True, value_scale=1.0)
    found = explore_chance(search, world, np.zeros(1, np.int64), legal=all_legal(1, 2))
    # The afterstate is position 3, whose value is 0; below the outcomes, nearly all visits pay 5.
    assert found.q[0, 0] == pytest.approx((5 - 1) / 2 + (5 - 3) / 2, abs=0.15)


def dice_game(seed: int, actions: int = 3, outcomes: int = 5) -> tuple[ChanceWorld, float]:
    """Two decisions, each followed by an event, rewards of both; and the value if both decisions are the best ones."""
    rng = np.random.default_rng(seed)
    states = 2 + actions * outcomes  # the root, one for each action and outcome, the end
    last = states - 1
    following = np.full((states, actions, outcomes), last)
    following[0] = 1 + np.arange(actions * outcomes).reshape(actions, outcomes)
    reward = np.zeros((states, actions, outcomes, 1), np.float32)
    reward[:last] = rng.uniform(-1, 1, reward[:last].shape)
    reward[:, :, 0] = 0  # nothing is known of the position before the event
    # Outcome logits are those of the position in which nothing is told: state 1 + action * outcomes below the root.
    probabilities = rng.dirichlet(np.ones(outcomes), states)
    probabilities[:, 0] = 0
    probabilities[:, 2] = 0
    probabilities /= probabilities.sum(1, keepdims=True)
    value = np.zeros(states)
    for state in range(last - 1, -1, -1):
        told_nothing = following[state, :, 0]
        worth = probabilities[told_nothing] * (reward[state, :, :, 0] + value[following[state]])
        value[state] = worth.sum(1).max()
    zeros = np.zeros((states, actions), np.float32)
    return ChanceWorld(following, reward, zeros[:, :1], zeros, log(probabilities)), float(value[0])


@both_choices
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_search_finds_the_exact_value_of_games_of_chance(algorithm: str, choice: str) -> None:
    for seed in range(8):
        world, exact = dice_game(seed)
        search = chance_search(
            [1, 1, 1],
            5,
            simulations=6000,
            algorithm=algorithm,
            chance_choice=choice,
            gumbel_scale=0.0,
            value_scale=0.02,
            maxvisit_init=20.0,
        )
        found = explore_chance(search, world, np.zeros(1, np.int64), legal=all_legal(1, 3))
        best = int(search.choose(0)[0])
        assert found.q[0, best] == pytest.approx(exact, abs=0.06), seed


@both_choices
@pytest.mark.parametrize("leaves", [1, 3])
def test_changing_one_row_changes_no_other_row(choice: str, leaves: int) -> None:
    for seed in range(12):
        problem = ChanceProblem.random(seed, batch=6, chance_choice=choice, leaves=leaves)
        before = fingerprint(*problem.run())
        row = 3
        problem.roots[row] = (problem.roots[row] + 1) % 64
        problem.begin["keys"][row] += np.uint64(1)
        problem.begin["counts"][row] += 1
        problem.begin["noise"][row] += 1
        if problem.begin["classes"] is not None:
            problem.begin["classes"][row] += np.arange(problem.begin["classes"].shape[1], dtype=np.uint8)
        after = fingerprint(*problem.run())
        assert [i for i in range(6) if before[i] != after[i]] == [row]
        alone = fingerprint(*problem.run(slice(4, 5)))
        assert alone == before[4:5]


@both_algorithms
def test_results_are_independent_of_the_number_of_threads(algorithm: str) -> None:
    for seed in range(4):
        problem = ChanceProblem.random(seed, batch=200, algorithm=algorithm, simulations=20)
        prints = [fingerprint(*problem.run(tree_threads=threads)) for threads in (1, 2, 3)]
        assert prints[0] == prints[1] == prints[2]


def test_without_outcomes_the_phase_table_makes_no_chance_nodes() -> None:
    world = ChanceWorld.random(1, 3, 1, 1)
    found = []
    for chance in ([0, 0, 0], [1, 1, 1]):
        search = chance_search(chance, 1, simulations=50)
        found.append(fingerprint(search, explore_chance(search, world, np.array([1]), legal=all_legal(1, 3))))
        assert not search.tree()["chance"].any()
    assert found[0] == found[1]
