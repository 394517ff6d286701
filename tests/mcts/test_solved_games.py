"""Games with known solutions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mcts import PhaseTable
from tests.mcts.worlds import World, both_algorithms, run, take_away, take_away_value


@pytest.mark.parametrize("mover_frame", [True, False])
def test_puct_solves_the_take_away_game(mover_frame: bool) -> None:
    """Visits go to the winning move where there is one, and the root's value approaches the known one."""
    world, stones = take_away(9, 3), np.arange(1, 10)
    exact = np.array([take_away_value(n, 3) for n in stones])
    assert exact.tolist() == [1, 1, 1, -1, 1, 1, 1, -1, 1]
    error = {}
    for simulations in (50, 400, 3000):
        search, results = run(
            world,
            2 * stones,
            frame=mover_frame,
            simulations=simulations,
            algorithm="puct",
            num_players=2,
            phase_table=PhaseTable.trivial(3, turn_passes=True),
            mover_frame=mover_frame,
        )
        error[simulations] = np.abs(results.values[:, 0] - exact)
        assert results.values[:, 0] == pytest.approx(-results.values[:, 1], abs=1e-5)
    assert (error[3000] < error[400]).all()
    assert error[3000].max() < 0.15
    chosen = search.choose(0)
    for row, left in enumerate(stones):
        winning = [a for a in range(3) if take_away_value(max(0, left - a - 1), 3) == -1]
        if winning:
            assert chosen[row] in winning
            assert results.visits[row, winning].sum() / 3000 > 0.95
            assert results.q[row, chosen[row]] == pytest.approx(1, abs=0.15)


def test_gumbel_solves_the_take_away_game() -> None:
    world, stones = take_away(9, 3), np.array([1, 2, 3, 5, 6, 7, 9])
    search, results = run(
        world, 2 * stones, simulations=2000, num_players=2, phase_table=PhaseTable.trivial(3, turn_passes=True)
    )
    for row, left in enumerate(stones):
        chosen = int(search.choose()[row])
        assert take_away_value(max(0, left - chosen - 1), 3) == -1
        assert results.q[row, chosen] == pytest.approx(1, abs=0.1)
        assert results.policy[row, chosen] > 0.3


# Nim with two heaps: a turn is two decisions, which heap and how many. Taking from an empty heap loses at once.
HEAP = range(5)
NIM_STATES = [*itertools.product(HEAP, HEAP, range(2), (None, 0, 1)), None]  # heaps, mover, heap chosen; or over
NIM_TABLE = PhaseTable(
    possible=np.array([[True, True, False], [True, True, True]]),
    next_phase=np.array([[1, 1, 1], [0, 0, 0]], np.uint8),
    turn_passes=np.array([[False] * 3, [True] * 3]),
)


def nim_step(state: Any, action: int) -> tuple[Any, NDArray[np.float32]]:
    nothing = np.zeros(2, np.float32)
    if state is None:
        return None, nothing
    *heaps, mover, chosen = state
    if chosen is None:
        return (*heaps, mover, min(action, 1)), nothing
    win = np.array([1, -1] if mover == 0 else [-1, 1], np.float32)
    if heaps[chosen] == 0:
        return None, -win
    heaps[chosen] = max(0, heaps[chosen] - action - 1)
    return (None, win) if sum(heaps) == 0 else ((*heaps, 1 - mover, None), nothing)


def nim_value(first: int, second: int) -> int:
    """+1 if the player to move wins, by brute force."""
    best = -1
    for heaps, taken in itertools.product(((first, second), (second, first)), (1, 2, 3)):
        mine, other = heaps
        if mine > 0:
            best = max(best, 1 if max(0, mine - taken) + other == 0 else -nim_value(max(0, mine - taken), other))
    return best


def test_puct_solves_nim_with_turns_of_two_decisions() -> None:
    index = {state: number for number, state in enumerate(NIM_STATES)}
    steps = [[nim_step(state, action) for action in range(3)] for state in NIM_STATES]
    world = World(
        next=np.array([[index[after] for after, _ in row] for row in steps]),
        reward=np.array([[reward for _, reward in row] for row in steps]),
        value=np.zeros((len(NIM_STATES), 2), np.float32),
        logits=np.zeros((len(NIM_STATES), 3), np.float32),
    )
    heaps = [(1, 0), (1, 1), (2, 1), (2, 2), (3, 1), (3, 2)]
    roots = [index[(*pair, 0, None)] for pair in heaps]
    legal = np.array([[pair[0] > 0, pair[1] > 0, False] for pair in heaps])
    results = {}
    for frame in (True, False):
        search, results[frame] = run(
            world,
            roots,
            legal,
            frame=frame,
            simulations=3000,
            algorithm="puct",
            num_players=2,
            phase_table=NIM_TABLE,
            mover_frame=frame,
        )
    exact = np.array([nim_value(*pair) for pair in heaps])
    assert exact.tolist() == [1, -1, 1, -1, 1, 1]
    assert results[True].values[:, 0] == pytest.approx(exact, abs=0.2)
    assert (results[True].visits == results[False].visits).all()
    assert (results[True].values == results[False].values).all()
    tree = search.tree()
    for row in range(len(heaps)):
        placed = tree["parent"][row] >= 0
        above = tree["parent"][row][placed]
        passes = tree["to_play"][row][placed] != tree["to_play"][row][above]
        assert (passes == (tree["phase"][row][above] == 1)).all()


# Unseen dice: two players in turn throw one of three dice, and the one who brings the total to 6 or more pays 1 to the
# other. As nobody sees a throw, a state is the list of the dice thrown so far, and the reward of an action contains the
# exact probability that the game ends by it.
DICE: list[dict[int, float]] = [{1: 1.0}, {1: 0.5, 3: 0.5}, {2: 0.75, 5: 0.25}]
LIMIT = 6


def expected_payoff(thrown: tuple[int, ...]) -> float:
    """Expected payoff of the first player for these dice, by enumeration of all outcomes."""
    total = 0.0
    for faces in itertools.product(*(DICE[die].items() for die in thrown)):
        chance = float(np.prod([probability for _, probability in faces]))
        sums = np.cumsum([face for face, _ in faces])
        loser = next((turn % 2 for turn, reached in enumerate(sums) if reached >= LIMIT), None)
        total += {0: -chance, 1: chance, None: 0.0}[loser]
    return total


def dice_value(thrown: tuple[int, ...] = ()) -> float:
    """The first player's expected payoff if both choose well."""
    if sum(min(DICE[die]) for die in thrown) >= LIMIT:
        return expected_payoff(thrown)
    best = max if len(thrown) % 2 == 0 else min
    return best(dice_value((*thrown, die)) for die in range(3))


def test_puct_solves_a_game_of_unseen_dice() -> None:
    states = [counts for counts in itertools.product(range(LIMIT + 2), repeat=3) if sum(counts) <= LIMIT + 1]
    index = {counts: number for number, counts in enumerate(states)}

    def still_below(counts: tuple[int, ...]) -> float:
        """Probability that the total is below the limit, by convolution."""
        chance = np.eye(1, LIMIT)[0]
        for die, times in enumerate(counts):
            for _ in range(times):
                faces = np.zeros(LIMIT)
                for face, probability in DICE[die].items():
                    faces[face] = probability
                chance = np.convolve(chance, faces)[:LIMIT]
        return float(chance.sum())

    following = np.zeros((len(states), 3), np.int64)
    reward = np.zeros((len(states), 3, 2), np.float32)
    for number, counts in enumerate(states):
        for die in range(3):
            after = tuple(n + (die == d) for d, n in enumerate(counts))
            following[number, die] = index.get(after, number)
            if after in index:
                mover = sum(counts) % 2
                lost = still_below(counts) - still_below(after)
                reward[number, die, [mover, 1 - mover]] = -lost, lost
    zeros = np.zeros((len(states), 3), np.float32)
    world = World(following, reward, zeros[:, :2], zeros)
    search, results = run(
        world,
        index[0, 0, 0],
        simulations=4000,
        algorithm="puct",
        num_players=2,
        phase_table=PhaseTable.trivial(3, turn_passes=True),
    )
    values = [dice_value((die,)) for die in range(3)]
    best, second = np.argsort(values)[:-3:-1]
    assert values[best] - values[second] > 0.05, "the best die is clearly better"
    assert search.choose(0) == [best]
    assert results.visits[0, best] / 4000 > 0.7
    assert results.q[0, best] == pytest.approx(values[best], abs=0.05)
    assert results.values[0] == pytest.approx([values[best], -values[best]], abs=0.1)


# Payoffs in tenths of a game in which three players move once each: the root's player has 3 actions, the others 2.
PAYOFFS = np.array(
    [
        [[[5, 6, 5], [0, 9, 0]], [[1, 2, 3], [6, 1, 2]]],  # good if the others look after themselves
        [[[3, 5, 1], [4, 0, 0]], [[3, 4, 4], [4, 2, 2]]],  # never bad
        [[[9, 0, 0], [1, 4, 6]], [[2, 3, 5], [8, 1, 1]]],  # best if the others were to help
    ]
)


def three_moves() -> tuple[World, PhaseTable]:
    """The game above as a world. States: the root, after one move, after two moves, the end."""
    paths: list[Any] = [(), *itertools.product(range(3)), *itertools.product(range(3), range(2)), "over"]
    index = {path: number for number, path in enumerate(paths)}
    following = np.full((len(paths), 3), index["over"])
    reward = np.zeros((len(paths), 3, 3), np.float32)
    for path, action in itertools.product(paths[:-1], range(3)):
        if len(path) < 2:
            following[index[path], action] = index.get((*path, action), index["over"])
        elif action < 2:
            reward[index[path], action] = PAYOFFS[(*path, action)] / 10
    possible = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 0, 0]], bool)
    ahead = np.repeat(np.array([[1], [2], [3], [3]], np.uint8), 3, 1)
    passes = np.repeat([[True], [True], [True], [False]], 3, 1)
    zeros = np.zeros((len(paths), 3), np.float32)
    return World(following, reward, zeros, zeros), PhaseTable(possible, ahead, passes)


def backed_up(kind: str, path: tuple[int, ...] = ()) -> NDArray[Any]:
    """Payoffs that play from here leads to, by brute force over all paths."""
    if len(path) == 3:
        return PAYOFFS[path]
    options = [backed_up(kind, (*path, action)) for action in range(2 if path else 3)]
    if kind == "maxn":
        return max(options, key=lambda payoffs: payoffs[len(path)])
    best = min if kind == "paranoid" and path else max
    return best(options, key=lambda payoffs: payoffs[0])


def test_maxn_paranoid_and_ego_play_differ_in_the_three_player_game() -> None:
    best = {
        kind: int(np.argmax([backed_up(kind, (action,))[0] for action in range(3)]))
        for kind in ("maxn", "paranoid", "ego")
    }
    assert best == {"maxn": 0, "paranoid": 1, "ego": 2}


@both_algorithms
@pytest.mark.parametrize("mover_frame", [True, False])
def test_maxn_backup_finds_the_maxn_move(algorithm: str, mover_frame: bool) -> None:
    world, table = three_moves()
    search, results = run(
        world,
        0,
        frame=mover_frame,
        simulations=2000,
        algorithm=algorithm,
        num_players=3,
        phase_table=table,
        mover_frame=mover_frame,
        gumbel_scale=0.0,
    )
    assert search.choose(0) == [0]
    assert results.q[0, 0] == pytest.approx(backed_up("maxn", (0,))[0] / 10, abs=0.03)
    if algorithm == "puct":
        assert results.values[0] == pytest.approx(backed_up("maxn") / 10, abs=0.05)
        assert results.policy[0, 0] > 0.9


@both_algorithms
def test_ego_backup_finds_the_move_that_counts_on_help(algorithm: str) -> None:
    world, table = three_moves()
    world.reward, world.value = world.reward[:, :, 0], world.value[:, 0]
    search, results = run(
        world,
        0,
        simulations=2000,
        algorithm=algorithm,
        num_players=3,
        phase_table=table,
        backup="ego",
        gumbel_scale=0.0,
    )
    assert search.choose(0) == [2]
    assert results.q[0, 2] == pytest.approx(backed_up("ego")[0] / 10, abs=0.03)
