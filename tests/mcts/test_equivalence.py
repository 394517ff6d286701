"""Equivalent actions, which are searched as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcts import ActionTable, PhaseTable, Search
from tests.mcts.chance_problems import explore_chance
from tests.mcts.reference import ChanceWorld
from tests.mcts.worlds import all_legal, both_algorithms, fingerprint, make_search, pack

# Two players with two columns of two cells each. Action i acts on the mover's cell i and touches the other cell of the
# column too; action 4 touches nothing, action 5 is a copy of action 4.
CELLS = ActionTable(
    kind=np.array([0, 0, 0, 0, 1, 1]),
    slots=np.array([[0, 1], [1, 0], [2, 3], [3, 2], [-1, -1], [-1, -1]]),
    roles=np.array([[0, 1], [0, 1], [0, 1], [0, 1], [-1, -1], [-1, -1]]),
    block_of=np.array([0, 0, 1, 1]),
)


def cells_search(**settings: Any) -> Search:
    given = {"batch": 1, "num_actions": 6, "num_players": 2, "equivalence": CELLS, "simulations": 60}
    return make_search(**{"phase_table": PhaseTable.trivial(6, turn_passes=True)} | given | settings)


def searched(search: Search, classes: Any, legal: int = 63) -> Search:
    """Run a search with random network outputs from a root whose slots have these classes."""
    rng = np.random.default_rng(0)
    width = 6 + 2 * search.num_values
    search.begin(
        rng.normal(size=(1, 6 + search.num_values)).astype(np.float32),
        np.array([legal], np.uint64),
        classes=np.array([classes], np.uint8),
    )
    for _ in range(search.steps):
        search.select()
        search.expand(rng.normal(size=(search.leaves, width)).astype(np.float32))
    return search


def open_actions(search: Search, node: int) -> list[int]:
    """Actions that are searched at a node."""
    return np.flatnonzero(search.tree()["prior"][0, node]).tolist()


@both_algorithms
@pytest.mark.parametrize(
    ("classes", "legal", "expected"),
    [
        ([0, 0, 0, 0], 0b111111, [0, 4, 5]),  # nothing is known of any cell; actions without slots stay apart
        ([0, 1, 2, 3], 0b111111, [0, 1, 2, 3, 4, 5]),
        ([0, 1, 0, 1], 0b111111, [0, 1, 4, 5]),  # columns alike
        ([0, 1, 1, 0], 0b111111, [0, 1, 4, 5]),  # columns alike in another order
        ([0, 0, 0, 0], 0b001110, [1]),  # only among legal actions
        ([0, 1, 0, 2], 0b111111, [0, 1, 2, 3, 4, 5]),  # cells alike beside cells that differ
    ],
)
def test_actions_on_cells_of_the_same_classes_are_one(
    algorithm: str, classes: Any, legal: int, expected: list[int]
) -> None:
    search = searched(cells_search(algorithm=algorithm), [*classes, 0, 0, 0, 0], legal)
    assert open_actions(search, 0) == expected
    found = search.results()
    assert found.visits.sum() == pytest.approx(60)
    assert found.policy.sum() == pytest.approx(1, abs=1e-5)
    assert search.choose()[0] in expected
    legal_actions = [a for a in range(6) if legal >> a & 1]
    groups: dict[Any, list[int]] = {}
    for a in legal_actions:
        other = a ^ 1
        groups.setdefault(a if a > 3 else (classes[a], classes[other]), []).append(a)
    for copies in groups.values():
        assert len(set(found.policy[0, copies].tolist())) == 1
        assert len(set(found.visits[0, copies].tolist())) == 1
        assert len(set(found.q[0, copies].tolist())) == 1
    assert not np.delete(found.policy[0], legal_actions).any()


def test_classes_are_inherited_by_children_and_boards_turn() -> None:
    """All cells alike. After action 0 of the first player cell 0 is special, cell 1 lies beside it, cells 2 and 3 stay
    alike; the second player's board, which moves next, is untouched."""
    search = searched(cells_search(algorithm="puct", pb_c_init=20.0, simulations=400), [0] * 8)
    tree = search.tree()
    node = int(tree["child"][0, 0, 0])
    assert open_actions(search, node) == [0, 4, 5]
    reply = int(tree["child"][0, node, 0])
    assert tree["to_play"][0, [node, reply]].tolist() == [1, 0]
    assert open_actions(search, reply) == [0, 1, 2, 4, 5]
    nothing = int(tree["child"][0, node, 4])
    assert open_actions(search, nothing) == [0, 1, 2, 4, 5]
    after_nothing = int(tree["child"][0, int(tree["child"][0, 0, 4]), 4])
    assert after_nothing > 0
    assert open_actions(search, after_nothing) == [0, 4, 5]


@both_algorithms
@pytest.mark.parametrize("outcomes", [1, 4])
def test_copies_are_searched_like_one_action_with_their_summed_prior(algorithm: str, outcomes: int) -> None:
    """Actions 2, 3 and 4 are one action under three names; the last action is never legal. The names exist only at the
    root: later positions have a phase without these actions."""
    rng = np.random.default_rng(3)
    games, shares = 40, np.array([0.2, 0.5, 0.3], np.float32)
    base = ChanceWorld.random(7, 4, outcomes, 1)
    order = [0, 1, 2, 2, 2, 3]
    logits = base.logits[:, order].copy()
    logits[:, 2:5] += np.log(shares)
    copied = ChanceWorld(base.next[:, order], base.reward[:, order], base.value, logits, base.outcome_logits)
    slots = np.array([[-1], [-1], [0], [1], [2], [-1]])
    table = ActionTable(np.array([0, 0, 1, 1, 1, 0]), slots, np.where(slots < 0, -1, 0), np.zeros(3, np.int64))
    roots, noise = rng.integers(0, 64, games), rng.gumbel(size=(games, 4)).astype(np.float32)
    keys = rng.integers(0, 2**63, games).astype(np.uint64)
    found, chosen = [], []
    for world, actions in ((base, 4), (copied, 6)):
        possible = np.ones((2, actions), bool)
        possible[1, 2:] = False
        phases = PhaseTable(
            possible, np.ones((2, actions), np.uint8), np.zeros((2, actions), bool), chance=np.ones((2, actions), bool)
        )
        search = make_search(
            batch=games,
            num_actions=actions,
            num_outcomes=outcomes,
            phase_table=phases,
            equivalence=table if actions == 6 else None,
            algorithm=algorithm,
            simulations=40,
            max_considered=3,
            discount=0.9,
        )
        legal = np.ones((games, actions), bool)
        legal[:, -1] = False
        given: dict[str, Any] = {"legal": pack(legal), "keys": keys}
        if actions == 6:
            given["classes"] = np.zeros((games, 3), np.uint8)
        if algorithm == "gumbel":
            given["noise"] = noise if actions == 4 else np.ascontiguousarray(noise[:, order])
        found.append(explore_chance(search, world, roots, **given))
        chosen.append(search.choose(0))
    one, three = found
    for name in ("policy", "visits"):
        expected, got = getattr(one, name), getattr(three, name)
        assert got[:, [0, 1]] == pytest.approx(expected[:, [0, 1]], abs=1e-4)
        assert got[:, 2:5] == pytest.approx(np.repeat(expected[:, 2:3] / 3, 3, 1), abs=1e-4)
    assert three.q[:, 2:5] == pytest.approx(np.repeat(one.q[:, 2:3], 3, 1), abs=1e-5)
    assert three.values == pytest.approx(one.values, abs=1e-5)
    assert (chosen[1] == chosen[0]).all(), "the first of the copies stands for all"


def test_gumbel_counts_copies_once_among_the_actions_considered() -> None:
    """With 12 simulations for 3 considered actions of 3 that differ, no visit is wasted on copies."""
    search = searched(cells_search(simulations=12, max_considered=8), [0] * 8)
    visits = search.results().visits[0]
    assert sorted([visits[:4].sum(), visits[4], visits[5]]) == [2, 5, 5]


def test_search_without_classes_or_with_different_ones_joins_nothing() -> None:
    plain = make_search(
        batch=1, num_actions=6, num_players=2, simulations=60, phase_table=PhaseTable.trivial(6, turn_passes=True)
    )
    world = ChanceWorld.random(2, 6, 1, 2)
    roots = np.array([3])
    expected = fingerprint(plain, explore_chance(plain, world, roots, legal=all_legal(1, 6)))
    search = cells_search()
    joined = explore_chance(search, world, roots, legal=all_legal(1, 6), classes=np.zeros((1, 8), np.uint8))
    assert fingerprint(search, joined) != expected
    different = explore_chance(
        search, world, roots, legal=all_legal(1, 6), classes=np.arange(8, dtype=np.uint8)[None].copy()
    )
    assert fingerprint(search, different) == expected
    without = explore_chance(search, world, roots, legal=all_legal(1, 6))
    assert fingerprint(search, without) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": np.zeros(5, int)}, r"action table: expected kind \[A\], slots \[A, K\] and roles"),
        ({"roles": np.zeros((6, 3), int)}, r"action table: expected kind \[A\], slots \[A, K\] and roles"),
        ({"slots": np.full((6, 2), 8)}, "action table: slots: expected -1 to 7, got 8"),
        ({"slots": np.full((6, 2), -2)}, "action table: slots: expected -1 to 7, got -2"),
        ({"roles": np.full((6, 2), 256)}, "action table: roles: expected 0 to 255, got 256"),
        ({"block_of": np.array([0, 0, 4, 1])}, "action table: block_of: expected 0 to 3, got 4"),
        ({"block_of": np.zeros((2, 2), int)}, r"action table: expected block_of \[slots of a player\]"),
    ],
)
def test_wrong_action_table_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    fields = {name: getattr(CELLS, name) for name in ("kind", "slots", "roles", "block_of")}
    with pytest.raises(ValueError, match=message):
        cells_search(equivalence=ActionTable(**fields | change))


def test_action_table_for_another_number_of_actions_is_refused() -> None:
    with pytest.raises(ValueError, match="action table: expected kind, slots and roles of 4 actions"):
        cells_search(num_actions=4, phase_table=PhaseTable.trivial(4))
