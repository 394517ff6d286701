"""Independence of rows, batches, threads and earlier searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mcts import PhaseTable
from tests.mcts.worlds import STATES, Problem, both_algorithms, explore, fingerprint, make_search, pack, run

NOISY = {"dirichlet_fraction": 0.25, "discount": 0.9, "max_considered": 6}


def some_keys(count: int, seed: int = 0) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**63, count).astype(np.uint64)


@both_algorithms
@pytest.mark.parametrize("leaves", [1, 3])
def test_changing_one_row_changes_no_other_row(algorithm: str, leaves: int) -> None:
    settings = NOISY | {"algorithm": algorithm, "leaves": leaves}
    problem = Problem(seed=3, batch=12, actions=8)
    keys = some_keys(12)
    before = fingerprint(*run(problem, problem.root, problem.legal, begin={"keys": keys}, **settings))
    problem.root[5] = (problem.root[5] + 1) % STATES
    problem.legal[5] = True
    keys[5] += np.uint64(1)
    after = fingerprint(*run(problem, problem.root, problem.legal, begin={"keys": keys}, **settings))
    assert [row for row in range(12) if before[row] != after[row]] == [5]


@both_algorithms
@pytest.mark.parametrize("leaves", [1, 3])
def test_row_result_is_independent_of_order_and_batch(algorithm: str, leaves: int) -> None:
    settings = NOISY | {"algorithm": algorithm, "leaves": leaves}
    problem = Problem(seed=4, batch=64, actions=8)
    keys = some_keys(64)

    def rows(order: Sequence[int], **more: Any) -> list[bytes]:
        root, legal = problem.root[order], problem.legal[order]
        return fingerprint(*run(problem, root, legal, begin={"keys": keys[order]}, **settings, **more))

    together = rows(range(64))
    order = np.random.default_rng(0).permutation(64)
    assert rows(order) == [together[row] for row in order]
    for row in (0, 17, 63):
        assert rows([row]) == [together[row]]
    assert rows(range(10), batch=64) == together[:10], "a batch that is not full"


@both_algorithms
@pytest.mark.parametrize("leaves", [1, 3])
def test_results_are_independent_of_the_number_of_threads(algorithm: str, leaves: int) -> None:
    problem = Problem(seed=5, batch=200, actions=8)
    prints = [
        fingerprint(
            *run(
                problem,
                problem.root,
                problem.legal,
                begin={"keys": some_keys(200)},
                algorithm=algorithm,
                leaves=leaves,
                tree_threads=threads,
                **NOISY,
            )
        )
        for threads in (1, 2, 3)
    ]
    assert prints[0] == prints[1] == prints[2]


@both_algorithms
def test_arena_is_reused_without_traces_of_earlier_searches(algorithm: str) -> None:
    """Searches in one object equal searches in fresh ones, and nothing grows or moves."""
    settings = NOISY | {"algorithm": algorithm, "simulations": 30, "leaves": 2}
    problems = [Problem(seed, batch=40, actions=8) for seed in (6, 7, 8)]
    search = make_search(batch=40, num_actions=8, **settings)
    size = search.bytes
    address = search.tree()["value"].ctypes.data
    for problem, count in zip(problems, (40, 11, 40), strict=True):
        rows = slice(count)
        roots, legal = problem.root[rows], problem.legal[rows]
        fresh = fingerprint(*run(problem, roots, legal, **settings))
        assert fingerprint(search, explore(search, problem, roots, legal)) == fresh
        assert search.bytes == size
        assert search.tree()["value"].ctypes.data == address
        assert search.active == count


@both_algorithms
def test_begin_discards_an_unfinished_search(algorithm: str) -> None:
    """`begin` works at any time, even between select and expand."""
    problem = Problem(seed=9, batch=4, actions=5)
    roots = np.concatenate([problem.logits[problem.root], problem.value[problem.root, None]], 1)
    search, results = run(problem, problem.root, problem.legal, algorithm=algorithm)
    expected = fingerprint(search, results)
    search.begin(roots, pack(problem.legal))
    search.select()
    assert fingerprint(search, explore(search, problem, problem.root, problem.legal)) == expected


@both_algorithms
def test_equal_keys_give_equal_results_and_other_keys_other_noise(algorithm: str) -> None:
    """Rows that differ only by key: equal keys give equal bytes, other keys other noise."""
    problem = Problem(seed=10, batch=1, actions=8)
    roots = np.repeat(problem.root, 32)
    settings = {"algorithm": algorithm, "dirichlet_fraction": 0.5, "max_considered": 3}
    keys = some_keys(32)
    keys[16:] = keys[:16]
    search, results = run(problem, roots, begin={"keys": keys}, **settings)
    prints = fingerprint(search, results)
    assert prints[:16] == prints[16:]
    assert len(set(prints)) >= 12
    assert fingerprint(*run(problem, roots, begin={"keys": keys}, **settings)) == prints
    by_default = fingerprint(*run(problem, roots, **settings))
    numbers = {"keys": np.arange(32, dtype=np.uint64)}
    assert fingerprint(*run(problem, roots, begin=numbers, **settings)) == by_default
    assert (search.choose(1.0) == search.choose(1.0)).all(), "the choice has no side effects"


@both_algorithms
@pytest.mark.parametrize("leaves", [1, 3])
def test_expand_and_select_equals_expand_then_select(algorithm: str, leaves: int) -> None:
    rng = np.random.default_rng(5)
    games, actions, steps = 40, 11, 8
    roots = rng.normal(size=(games, actions + 2)).astype(np.float32)
    legal = rng.random((games, actions)) < 0.6
    legal[:, 0] = True
    answers = rng.normal(size=(steps, leaves * games, actions + 4)).astype(np.float32)
    settings = {"batch": games, "num_actions": actions, "num_players": 2, "simulations": steps * leaves}
    table = PhaseTable.trivial(actions, turn_passes=True)
    apart, joined = (make_search(**settings, leaves=leaves, algorithm=algorithm, phase_table=table) for _ in range(2))
    for search in (apart, joined):
        search.begin(roots, pack(legal))
    requests = joined.select()
    for step, answer in enumerate(answers):
        expected = apart.select()
        for name in ("parent", "action", "shift", "to_play", "outcome"):
            assert (getattr(requests, name) == getattr(expected, name)).all()
        apart.expand(answer)
        if step + 1 < steps:
            joined.expand_and_select(answer, requests)
        else:
            with pytest.raises(RuntimeError, match="all simulations have been made"):
                joined.expand_and_select(answer, requests)
            joined.expand(answer)
    assert fingerprint(apart, apart.results()) == fingerprint(joined, joined.results())
    assert apart.levels == joined.levels
    assert apart.seconds > 0
