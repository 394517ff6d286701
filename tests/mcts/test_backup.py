"""Backup of values and rewards by seat, for one to three players."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mcts import PhaseTable
from tests.mcts.worlds import BARE_PUCT, EVEN, all_legal, logits_of, make_search, play

# Two players who alternate. The network lists values and rewards from the seat to move at the new node.
DUEL = [
    [*EVEN, 3, -1, 2, 1],  # node 1, seat 1 to move: values (-1, 3) by seat, rewards (1, 2)
    [*EVEN, 4, 2, 5, -3],  # node 2, seat 0 to move: values (4, 2), rewards (5, -3)
    [*EVEN, 0, 4, -1, 1],  # node 3, seat 0 to move: values (0, 4), rewards (-1, 1)
]


def by_seat(answers: Sequence[Sequence[float]]) -> list[list[float]]:
    """DUEL as given by a network that lists the players from the root's on."""
    (_, _, value1, value0, reward1, reward0), *others = answers
    return [[*EVEN, value0, value1, reward0, reward1], *(list(answer) for answer in others)]


@pytest.mark.parametrize("mover_frame", [True, False])
def test_two_player_backup_matches_hand_computation(mover_frame: bool) -> None:
    """
    1. Action 0. Return by seat (1 + 0.5 * -1, 2 + 0.5 * 3) = (0.5, 3.5); root the half of it: (0.25, 1.75).
    2. Action 0 again (q0 = 0.5, above 0.25), and below, of equals the first: node 2.
       Return to node 1 (5 + 0.5 * 4, -3 + 0.5 * 2) = (7, -2), its mean ((-1 + 7) / 2, (3 - 2) / 2) = (3, 0.5), and
       its q0 is seat 1's: -2. Return to the root (1 + 0.5 * 7, 2 + 0.5 * -2) = (4.5, 1); root (5, 4.5) / 3;
       q0 = 1 + 0.5 * 3 = 2.5.
    3. Action 0 again. In node 1 seat 1's values lie within -2..0.5:
       0 + 1.414 * 0.5 / 2 against 1 + 1.414 * 0.5: action 1 (for seat 0 action 0 would be the better).
       Return to node 1 (-1 + 0.5 * 0, 1 + 0.5 * 4) = (-1, 3), its mean (5, 4) / 3. Return to the root
       (1 + 0.5 * -1, 2 + 0.5 * 3) = (0.5, 3.5); root (5.5, 8) / 4; q0 = 1 + 0.5 * 5 / 3.
    """
    search = make_search(
        **BARE_PUCT,
        num_actions=2,
        num_players=2,
        simulations=3,
        discount=0.5,
        phase_table=PhaseTable.trivial(2, turn_passes=True),
        mover_frame=mover_frame,
    )
    requested = play(search, [*logits_of(0.8, 0.2), 0, 0], DUEL if mover_frame else by_seat(DUEL))
    assert requested == [(0, 0), (1, 0), (1, 1)]
    assert search.results().values == pytest.approx(np.array([[5.5 / 4, 2.0]]))
    assert search.results().q == pytest.approx(np.array([[1 + 2.5 / 3, 0]]))
    tree = search.tree()
    assert tree["to_play"].tolist() == [[0, 1, 0, 0]]
    assert tree["value"][0, 1] == pytest.approx([5 / 3, 4 / 3])
    assert tree["q"][0, 1, :2] == pytest.approx([-2, 3])
    assert tree["reward"][0].tolist() == [[0, 0], [1, 2], [5, -3], [-1, 1]]


def test_values_and_rewards_are_stored_by_seat_when_turns_take_two_decisions() -> None:
    """A chain of forced moves: phase 0 keeps the turn, phase 1 passes it on. Each network output lists 10, 20, 30 as
    values and 1, 2, 3 as rewards from the seat of its mover on."""
    table = PhaseTable(np.ones((2, 1), bool), np.array([[1], [0]], np.uint8), np.array([[False], [True]]))
    search = make_search(batch=1, num_actions=1, num_players=3, simulations=7, phase_table=table, algorithm="puct")
    search.begin(np.array([[0, 10, 20, 30]], np.float32), all_legal(1, 1))
    to_play, shift = [], []
    for _ in range(7):
        requested = search.select()
        to_play.append(int(requested.to_play[0]))
        shift.append(int(requested.shift[0]))
        search.expand(np.array([[0, 10, 20, 30, 1, 2, 3]], np.float32))
    assert to_play == [0, 1, 1, 2, 2, 0, 0]
    assert shift == [0, 1, 0, 1, 0, 1, 0]
    tree = search.tree()
    assert tree["phase"].tolist() == [[0, 1, 0, 1, 0, 1, 0, 1]]
    assert tree["reward"][0, 1:].tolist() == [
        [1, 2, 3],  # by seat; seat 0 moves next: its own is the 1
        [3, 1, 2],  # seat 1 moves next
        [3, 1, 2],
        [2, 3, 1],  # seat 2 moves next
        [2, 3, 1],
        [1, 2, 3],  # seat 0 again
        [1, 2, 3],
    ]
    assert tree["value"][0, 7].tolist() == [10, 20, 30]
    # Seat 0 moves at nodes 6 and 7: their values and rewards list it first.
    assert tree["value"][0, 6] == pytest.approx([(10 + 11) / 2, (20 + 22) / 2, (30 + 33) / 2])


def test_ego_backup_maximises_the_root_players_value_at_every_node() -> None:
    """The nodes are those of DUEL with seat 0's numbers only. The untried action of node 1 counts as the node's mean 3,
    its first action as 7: 1 + 1.414 * 0.5 / 2 against 0 + 1.414 * 0.5: action 0 again."""
    search = make_search(
        **BARE_PUCT,
        num_actions=2,
        num_players=2,
        simulations=3,
        discount=0.5,
        phase_table=PhaseTable.trivial(2, turn_passes=True),
        backup="ego",
    )
    requested = play(search, [*logits_of(0.8, 0.2), 0], [[*EVEN, -1, 1], [*EVEN, 4, 5], [*EVEN, 0, -1]])
    assert requested == [(0, 0), (1, 0), (2, 0)]
    assert search.results().values.shape == (1, 1)
