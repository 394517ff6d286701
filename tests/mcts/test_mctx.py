"""Our search against mctx on the same random problems: same visits, same actions. Needs the extra `mctx`.

`make test-all` installs mctx and runs these tests; test_golden.py compares with stored results of mctx by default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mcts
from tests.mcts.chance_problems import explore_chance
from tests.mcts.reference import ChanceWorld
from tests.mcts.worlds import Problem, make_search, ours, pack

mctx = pytest.importorskip("mctx", reason="install the extra: pip install -c constraints.txt -e '.[mctx]'")
jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = pytest.mark.slow


def theirs(problem: Problem, algorithm: str, simulations: int, discount: float) -> Any:
    batch, _ = problem.legal.shape
    root = mctx.RootFnOutput(
        prior_logits=jnp.asarray(problem.logits[problem.root]),
        value=jnp.asarray(problem.value[problem.root]),
        embedding=jnp.asarray(problem.root),
    )
    tables = [jnp.asarray(x) for x in (problem.next, problem.reward, problem.value, problem.logits)]

    def recurrent(params: Any, key: Any, action: Any, state: Any) -> Any:
        following, reward, value, logits = tables
        after = following[state, action]
        output = mctx.RecurrentFnOutput(
            reward=reward[state, action],
            discount=jnp.full(batch, discount),
            prior_logits=logits[after],
            value=value[after],
        )
        return output, after

    common = {
        "params": (),
        "rng_key": jax.random.PRNGKey(0),
        "root": root,
        "recurrent_fn": recurrent,
        "num_simulations": simulations,
        "invalid_actions": jnp.asarray(~problem.legal),
    }
    if algorithm == "puct":
        return mctx.muzero_policy(**common, dirichlet_fraction=0.0, temperature=0.0)
    return mctx.gumbel_muzero_policy(**common, max_num_considered_actions=8, gumbel_scale=1.0)


def with_their_gumbel(problem: Problem) -> Problem:
    """mctx draws its own noise from the key; ours takes the same numbers."""
    _, gumbel_key = jax.random.split(jax.random.PRNGKey(0))
    problem.gumbel = np.asarray(jax.random.gumbel(gumbel_key, problem.gumbel.shape, jnp.float32))
    return problem


@pytest.mark.parametrize("simulations", [1, 7, 16, 50])
@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
def test_same_visits_and_actions_as_mctx(algorithm: str, discount: float, simulations: int) -> None:
    """1,000 problems of every size in all: 16 settings of 64 games each."""
    for actions in (2, 16):
        problem = with_their_gumbel(Problem(simulations * 100 + actions, batch=64, actions=actions))
        results, chosen = ours(problem, algorithm, simulations, discount)
        expected = theirs(problem, algorithm, simulations, discount)
        visits = np.asarray(expected.search_tree.summary().visit_counts)
        same = (results.visits == visits).all(1)
        assert same.all(), f"visits differ in {(~same).sum()} of {len(same)} games"
        assert results.policy == pytest.approx(np.asarray(expected.action_weights), abs=2e-5)
        assert results.values[:, 0] == pytest.approx(np.asarray(expected.search_tree.node_values[:, 0]), abs=1e-5)
        if algorithm == "gumbel":
            assert (chosen == np.asarray(expected.action)).all()
        else:
            assert (visits[np.arange(64), chosen] == visits.max(1)).all()


@pytest.mark.parametrize("simulations", [1, 4, 16, 33, 200])
def test_same_halving_schedule_as_mctx(simulations: int) -> None:
    from mctx._src import seq_halving

    for considered in range(17):
        expected = seq_halving.get_sequence_of_considered_visits(considered, simulations)
        assert mcts.considered_visits(considered, simulations) == list(expected)


def their_stochastic_search(world: ChanceWorld, problem: Problem, simulations: int, discount: float) -> Any:
    """Stochastic MuZero of mctx, in which every action leads to a chance node."""
    batch, actions = problem.legal.shape
    following, reward, value, logits, outcome_logits = (
        jnp.asarray(x)
        for x in (world.next, world.reward[..., 0], world.value[:, 0], world.logits, world.outcome_logits)
    )

    def decide(params: Any, key: Any, action: Any, state: Any) -> Any:
        action = jnp.clip(action, 0, actions - 1)  # mctx calls both functions at every node and drops one result
        told_nothing = following[state, action, 0]
        output = mctx.DecisionRecurrentFnOutput(
            chance_logits=outcome_logits[told_nothing],
            afterstate_value=reward[state, action, 0] + discount * value[told_nothing],
        )
        return output, state * actions + action

    def happen(params: Any, key: Any, outcome: Any, afterstate: Any) -> Any:
        state, action = afterstate // actions, afterstate % actions
        outcome = jnp.clip(outcome, 0, outcome_logits.shape[1] - 1)
        after = following[state, action, outcome]
        output = mctx.ChanceRecurrentFnOutput(
            action_logits=logits[after],
            value=value[after],
            reward=reward[state, action, outcome],
            discount=jnp.full(batch, discount),
        )
        return output, after

    return mctx.stochastic_muzero_policy(
        params=(),
        rng_key=jax.random.PRNGKey(0),
        root=mctx.RootFnOutput(
            prior_logits=logits[problem.root], value=value[problem.root], embedding=jnp.asarray(problem.root)
        ),
        decision_recurrent_fn=decide,
        chance_recurrent_fn=happen,
        num_simulations=simulations,
        invalid_actions=jnp.asarray(~problem.legal),
        dirichlet_fraction=0.0,
        temperature=0.0,
    )


@pytest.mark.parametrize("simulations", [7, 40])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_same_visits_and_values_as_stochastic_muzero_of_mctx(discount: float, simulations: int) -> None:
    """1,024 problems: 8 settings of 128 games each."""
    for actions, outcomes in ((3, 6), (9, 4)):
        problem = Problem(simulations * 100 + actions, batch=128, actions=actions)
        world = ChanceWorld.random(simulations + actions, actions, outcomes, 1)
        table = mcts.PhaseTable.trivial(actions)
        search = make_search(
            batch=128,
            num_actions=actions,
            num_outcomes=outcomes,
            phase_table=replace(table, chance=np.ones((1, actions), bool)),
            simulations=simulations,
            algorithm="puct",
            discount=discount,
            unvisited="lowest",
            chance_choice="prior",
        )
        results = explore_chance(search, world, problem.root, legal=pack(problem.legal))
        expected = their_stochastic_search(world, problem, simulations, discount)
        visits = np.asarray(expected.search_tree.summary().visit_counts)[:, :actions]
        same = (results.visits == visits).all(1)
        assert same.all(), f"visits differ in {(~same).sum()} of {len(same)} games"
        assert results.values[:, 0] == pytest.approx(np.asarray(expected.search_tree.node_values[:, 0]), abs=1e-5)
