"""Refusal of unsound network outputs, wrong arrays and calls out of order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mcts import ActionTable, PhaseTable, Requests, Search
from tests.mcts.worlds import (
    all_legal,
    both_algorithms,
    explore_zeros,
    fingerprint,
    four_games,
    make_search,
    random_world,
    run,
)

UNSOUND = [(np.nan, "is not a number"), (np.inf, "is infinite"), (-np.inf, "is infinite"), (-3e38, "is too large")]


@both_algorithms
@pytest.mark.parametrize(("number", "complaint"), UNSOUND)
@pytest.mark.parametrize(
    ("column", "what"), [(2, "policy logit 2"), (3, "value 0"), (4, "value 1"), (5, "reward 0"), (6, "reward 1")]
)
def test_unsound_network_outputs_are_refused_by_name(
    algorithm: str, number: float, complaint: str, column: int, what: str
) -> None:
    search, roots, legal = four_games(algorithm=algorithm)
    if column < 5:
        bad = roots.copy()
        bad[2, column] = number
        with pytest.raises(ValueError, match=f"game 2: the network's {what} {complaint}"):
            search.begin(bad, legal)
    search.begin(roots, legal)
    search.select()
    answers = np.zeros((4, 7), np.float32)
    answers[1, column] = number
    with pytest.raises(ValueError, match=f"game 1: the network's {what} {complaint}"):
        search.expand(answers)
    # The search can be used again.
    search.begin(roots, legal)
    for _ in range(3):
        search.select()
        search.expand(np.zeros((4, 7), np.float32))
    assert np.isfinite(search.results().values).all()
    assert (search.results().visits.sum(1) == 3).all()


@both_algorithms
def test_refused_outputs_end_the_search(algorithm: str) -> None:
    """Some trees may have taken their outputs: only `begin` can follow, as before the first search."""
    search, roots, legal = four_games(algorithm=algorithm)
    answers = np.zeros((4, 7), np.float32)

    def nothing_works() -> None:
        for call in (search.select, search.results, search.choose, lambda: search.expand(answers)):
            with pytest.raises(RuntimeError, match="no search is under way"):
                call()

    nothing_works()
    bad = roots.copy()
    bad[0, 3] = np.nan
    with pytest.raises(ValueError, match="game 0"):
        search.begin(bad, legal)
    nothing_works()
    expected = fingerprint(search, explore_zeros(search, roots, legal))
    search.begin(roots, legal)
    search.select()
    answers[3, 3] = np.nan
    with pytest.raises(ValueError, match="game 3"):
        search.expand(answers)
    answers[3, 3] = 0
    nothing_works()
    assert fingerprint(search, explore_zeros(search, roots, legal)) == expected


def test_unsound_output_names_its_game_with_leaves_and_threads() -> None:
    search = make_search(batch=100, num_actions=3, simulations=6, leaves=2, tree_threads=3)
    search.begin(np.zeros((100, 4), np.float32), all_legal(100, 3))
    search.select()
    answers = np.zeros((200, 5), np.float32)
    answers[100 + 57, 3] = np.nan
    with pytest.raises(ValueError, match="game 57: the network's value 0 is not a number"):
        search.expand(answers)


def test_logits_of_illegal_actions_are_ignored() -> None:
    search, roots, legal = four_games()
    expected = fingerprint(search, explore_zeros(search, roots, legal & np.uint64(3)))
    roots[:, 2] = np.nan
    assert fingerprint(search, explore_zeros(search, roots, legal & np.uint64(3))) == expected


@both_algorithms
def test_results_stay_finite_for_enormous_outputs(algorithm: str) -> None:
    world = random_world(22, actions=5, players=2)
    world.value *= 1e15
    world.reward *= 1e15
    world.logits *= 1e29
    _, results = run(world, np.arange(20), algorithm=algorithm, simulations=50, num_players=2)
    for array in (results.policy, results.visits, results.values, results.q):
        assert np.isfinite(array).all()
    assert results.policy.sum(1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": np.zeros((4, 6), np.float32)}, r"outputs: expected .* float32 .* shape \(4, 5\)"),
        ({"outputs": np.zeros((4, 5))}, r"outputs: expected a contiguous float32 array.*got float64"),
        ({"outputs": np.zeros((5, 4), np.float32).T}, "got non-contiguous float32"),
        ({"outputs": np.zeros((5, 5), np.float32)}, r"shape \(4, 5\), got float32 of shape \(5, 5\)"),
        ({"outputs": np.zeros((0, 5), np.float32)}, r"float32 of shape \(0, 5\)"),
        ({"outputs": np.zeros((3, 5), np.float32)}, r"legal: expected .* shape \(3,\)"),
        ({"legal": np.ones((4, 3), bool)}, "legal: expected a contiguous uint64 array"),
        ({"legal": np.ones(5, np.uint64)}, r"legal: expected .* shape \(4,\)"),
        ({"phase": np.zeros(4, np.int64)}, "phase: expected a contiguous int8 array"),
        ({"phase": np.zeros(3, np.int8)}, r"phase: expected .* shape \(4,\)"),
        ({"keys": np.zeros(4, np.int64)}, "keys: expected a contiguous uint64 array"),
        ({"keys": np.zeros((4, 1), np.uint64)}, r"keys: expected .* shape \(4,\)"),
        ({"noise": np.zeros((4, 3))}, "noise: expected a contiguous float32 array"),
        ({"noise": np.zeros((4, 5), np.float32)}, r"noise: expected .* shape \(4, 3\)"),
        ({"legal": np.array([7, 0, 7, 0], np.uint64)}, "game 1: no action is legal"),
        ({"legal": np.array([7, 7, 8, 7], np.uint64)}, "game 2: action 3 is legal, expected actions 0 to 2"),
        ({"phase": np.array([0, 0, 1, 0], np.int8)}, "game 2: phase 1, expected 0 to 0"),
        ({"phase": np.array([0, -1, 0, 0], np.int8)}, "game 1: phase -1, expected 0 to 0"),
    ],
)
def test_wrong_roots_are_refused_and_change_nothing(change: dict[str, Any], message: str) -> None:
    """The current search continues as if `begin` had not been called."""
    search, roots, legal = four_games()
    expected = fingerprint(search, explore_zeros(search, roots, legal))
    search.begin(roots, legal)
    search.select()
    with pytest.raises(ValueError, match=message):
        search.begin(**({"outputs": roots, "legal": legal} | change))
    search.expand(np.zeros((4, 7), np.float32))
    for _ in range(2):
        search.select()
        search.expand(np.zeros((4, 7), np.float32))
    assert fingerprint(search, search.results()) == expected


def exact_search() -> tuple[Search, NDArray[np.float32], NDArray[np.uint64]]:
    """Four games with three actions, two players and outcomes 0 to 4, which are drawn from two pools of cards."""
    table = PhaseTable.trivial(3)
    table = replace(table, chance=np.ones((1, 3), bool), pool=np.array([[0, 1, 1]]))
    slots = np.array([[0], [1], [-1]])
    actions = ActionTable(np.zeros(3, int), slots, np.where(slots < 0, -1, 0), np.zeros(2, int))
    return four_games(num_outcomes=5, phase_table=table, chance_source="exact", equivalence=actions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": None}, "counts: expected unseen cards, because chance_source is exact or cards, got None"),
        ({"counts": np.ones((4, 1, 4), np.int16)}, r"counts: expected .* float32 .* shape \(4, 2, 4\)"),
        ({"counts": np.ones((4, 2, 5), np.int16)}, r"counts: expected .* float32 .* shape \(4, 2, 4\)"),
        ({"counts": np.full((4, 2, 4), np.nan)}, "game 0: counts: expected 0 to 1000000, got nan"),
        ({"counts": np.full((4, 2, 4), -1, np.int16)}, "game 0: counts: expected 0 to 1000000, got -1"),
        ({"classes": np.zeros((4, 2), np.uint8)}, r"classes: expected .* uint8 .* shape \(4, 4\)"),
        ({"classes": np.zeros((4, 4), np.int64)}, "classes: expected a contiguous uint8 array"),
    ],
)
def test_wrong_counts_and_classes_are_refused(change: dict[str, Any], message: str) -> None:
    search, roots, legal = exact_search()
    good: dict[str, Any] = {"counts": np.ones((4, 2, 4), np.int16), "classes": np.zeros((4, 4), np.uint8)}
    search.begin(roots, legal, **good)
    with pytest.raises(ValueError, match=message):
        search.begin(roots, legal, **good | change)
    search.select()


def test_classes_without_an_action_table_are_refused() -> None:
    search, roots, legal = four_games()
    with pytest.raises(ValueError, match="classes: expected None, because the search has no action table"):
        search.begin(roots, legal, classes=np.zeros((4, 0), np.uint8))


@pytest.mark.parametrize(
    ("absent", "message"),
    [
        ([0, 1, 0, 0], "game 1: the player to move is passed over"),
        ([0, 2, 4, 0], "game 2: player 2 is passed over, expected players 1 to 1"),
        ([0, 0, 0], r"absent: expected .* uint64 .* shape \(4,\)"),
    ],
)
def test_wrong_absent_players_are_refused(absent: list[int], message: str) -> None:
    leaving = {"leaves_round": np.ones((1, 3), bool), "last_phase": np.zeros((1, 3), np.uint8)}
    search, roots, legal = four_games(phase_table=replace(PhaseTable.trivial(3), **leaving))
    search.begin(roots, legal, absent=np.array([0, 2, 0, 2], np.uint64))
    with pytest.raises(ValueError, match=message):
        search.begin(roots, legal, absent=np.array(absent, np.uint64))
    search.select()


def test_absent_players_are_refused_where_nobody_can_leave_a_round() -> None:
    search, roots, legal = four_games()
    with pytest.raises(ValueError, match="absent: expected None, because no action of the phase table leaves"):
        search.begin(roots, legal, absent=np.zeros(4, np.uint64))


@pytest.mark.parametrize(("number", "complaint"), UNSOUND)
def test_unsound_outcome_logits_are_refused_at_chance_nodes_only(number: float, complaint: str) -> None:
    search, roots, legal = exact_search()
    counts = np.ones((4, 2, 4), np.int16)
    search.begin(roots, legal, counts=counts)
    search.select()
    with pytest.raises(ValueError, match=r"outputs: expected .* shape \(4, 12\)"):
        search.expand(np.zeros((4, 7), np.float32))
    answers = np.zeros((4, 12), np.float32)
    answers[:, 2] = number  # a policy logit, which a chance node has no use for
    search.expand(answers)
    answers[:] = 0
    search.begin(roots, legal, counts=counts)
    search.select()
    answers[3, 3 + 4] = number
    with pytest.raises(ValueError, match=f"game 3: the network's outcome logit 4 {complaint}"):
        search.expand(answers)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (np.zeros((4, 5), np.float32), r"outputs: expected .* shape \(4, 7\), got float32 of shape \(4, 5\)"),
        (np.zeros((8, 7), np.float32), r"got float32 of shape \(8, 7\)"),
        (np.zeros((4, 7)), "got float64"),
        (np.zeros((4, 14), np.float32)[:, ::2], "got non-contiguous float32"),
        (np.zeros(28, np.float32), r"got float32 of shape \(28,\)"),
    ],
)
def test_wrong_network_outputs_are_refused(answers: NDArray[Any], message: str) -> None:
    search, roots, legal = four_games()
    search.begin(roots, legal)
    search.select()
    with pytest.raises(ValueError, match=message):
        search.expand(answers)
    search.expand(np.zeros((4, 7), np.float32))


def test_wrong_request_buffers_are_refused() -> None:
    search, roots, legal = four_games()
    search.begin(roots, legal)
    good = search.requests()
    fields = ("parent", "action", "shift", "to_play", "outcome")
    for field in fields:
        for bad in (np.zeros(3, np.int64), np.zeros(4, np.int32), np.zeros(8, np.int64)[::2]):
            given = {name: getattr(good, name) for name in fields}
            with pytest.raises(ValueError, match=f"{field}: expected a contiguous int64 array"):
                search.select(Requests(**(given | {field: bad})))
    assert search.select(good) is good


def test_calls_out_of_order_are_refused() -> None:
    search, roots, legal = four_games()
    answers = np.zeros((4, 7), np.float32)
    search.begin(roots, legal)
    with pytest.raises(RuntimeError, match="expand: nothing has been selected"):
        search.expand(answers)
    search.select()
    with pytest.raises(RuntimeError, match="select: the last step has not been expanded"):
        search.select()
    search.expand(answers)
    with pytest.raises(RuntimeError, match="expand: nothing has been selected"):
        search.expand(answers)
    for _ in range(2):
        search.select()
        search.expand(answers)
    with pytest.raises(RuntimeError, match="select: all simulations have been made"):
        search.select()
    assert (search.results().visits.sum(1) == 3).all(), "the refused calls have left no trace"


@pytest.mark.parametrize("temperature", [-1.0, np.nan])
@both_algorithms
def test_negative_temperature_is_refused(algorithm: str, temperature: float) -> None:
    search, roots, legal = four_games(algorithm=algorithm)
    search.begin(roots, legal)
    with pytest.raises(ValueError, match="temperature: expected 0 or more"):
        search.choose(temperature)
