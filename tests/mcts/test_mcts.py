"""The tree search: trees worked out by hand, solved games, independence of rows, noise and errors."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import mcts
from mcts import PhaseTable, Results, Search
from tests.search_problems import STATES, Problem, World, explore, ours

ALGORITHMS = ("puct", "gumbel")
both = pytest.mark.parametrize("algorithm", ALGORITHMS)


def run(
    world: World | Problem,
    roots: Any,
    legal: NDArray[np.bool_] | None = None,
    *,
    frame: bool = True,
    begin: dict[str, Any] | None = None,
    **settings: Any,
) -> tuple[Search, Results]:
    """A fresh search over the world from the given roots."""
    roots = np.atleast_1d(roots)
    given = {"batch": len(roots), "num_actions": world.next.shape[1], "simulations": 20, **settings}
    search = Search(**given)
    return search, explore(search, world, roots, legal, mover_frame=frame, **(begin or {}))


def play(search: Search, root: Sequence[float], answers: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Searches one game with the answers that a network gives in turn; returns what it was asked: (node, action)."""
    search.begin(np.array([root], np.float32), np.ones((1, search.num_actions), bool))
    asked = []
    for answer in answers:
        requests = search.select()
        asked.append((int(requests.parent[0]), int(requests.action[0])))
        search.expand(np.array([answer], np.float32))
    return asked


def random_world(seed: int, actions: int, players: int) -> World:
    rng = np.random.default_rng(seed)
    return World(
        next=rng.integers(0, STATES, (STATES, actions)),
        reward=rng.normal(size=(STATES, actions, players)).astype(np.float32) * 0.3,
        value=rng.normal(size=(STATES, players)).astype(np.float32),
        logits=rng.normal(size=(STATES, actions)).astype(np.float32),
    )


def logits_of(*priors: float) -> list[float]:
    return [float(np.log(p)) for p in priors]


def fingerprint(search: Search, results: Results, temperature: float = 1.0) -> list[bytes]:
    """Everything that a search tells, row by row."""
    arrays = (results.policy, results.visits, results.values, results.q, search.choose(temperature))
    return [b"".join(array[row].tobytes() for array in arrays) for row in range(len(results.visits))]


# -------------------------------------------------------------------------------- trees worked out by hand
# With pb_c_init 1 and an endless pb_c_base, an action's score is
#     (q rescaled to 0..1) + sqrt(N) * prior / (1 + n)
# with N the visits of the node, its own evaluation included, and n those of the action. A score in the comments is
# written as its two parts.
PLAIN = {"algorithm": "puct", "batch": 1, "pb_c_init": 1.0, "pb_c_base": 1e18}


@pytest.fixture
def small_tree() -> Search:
    return Search(**PLAIN, num_actions=2, simulations=4, discount=0.5)


# What the network says of the root and of each node: logits, value, and reward on the way there.
ROOT = [*logits_of(0.8, 0.2), 1]
EVEN = logits_of(0.5, 0.5)


def test_puct_tree_by_hand(small_tree: Search) -> None:
    """
    1. N=1, nothing known: 0 + 0.8 against 0 + 0.2: action 0, node 1. Return 1 + 0.5 * 2 = 2.
       Root (1 + 2) / 2 = 1.5; q0 = 2.
    2. N=2; q within 1.5..2, the untried action counts as the root's 1.5:
       1 + 1.414 * 0.8 / 2 against 0 + 1.414 * 0.2: action 0; below, of equals the first: node 2.
       Return to node 1: 0 + 0.5 * -10 = -5, its mean (2 - 5) / 2 = -1.5. Return to the root 1 + 0.5 * -5 = -1.5.
       Root (1 + 2 - 1.5) / 3 = 0.5; q0 = 1 + 0.5 * -1.5 = 0.25.
    3. N=3; q within 0.25..0.5: 0 + 1.732 * 0.8 / 3 = 0.46 against 1 + 1.732 * 0.2: action 1, node 3.
       Return 2 + 0.5 * 4 = 4. Root (1.5 + 4) / 4 = 1.375; q1 = 4.
    4. N=4; q within 0.25..4: 0 + 2 * 0.8 / 3 = 0.53 against 1 + 2 * 0.2 / 2: action 1, then 0, node 4.
       Return to node 3: -1 + 0.5 * 2 = 0, its mean 2. Return to the root 2 + 0.5 * 0 = 2.
       Root (5.5 + 2) / 5 = 1.5; q1 = 2 + 0.5 * 2 = 3.
    """
    asked = play(small_tree, ROOT, [[*EVEN, 2, 1], [*EVEN, -10, 0], [*EVEN, 4, 2], [*EVEN, 2, -1]])
    assert asked == [(0, 0), (1, 0), (0, 1), (3, 0)]
    results = small_tree.results()
    assert results.visits.tolist() == [[2, 2]]
    assert results.policy.tolist() == [[0.5, 0.5]]
    assert results.values == pytest.approx(np.array([[1.5]]))
    assert results.q == pytest.approx(np.array([[0.25, 3]]))
    tree = small_tree.tree()
    assert tree["visits"].tolist() == [[5, 2, 1, 2, 1]]
    assert tree["value"][0, :, 0] == pytest.approx([1.5, -1.5, -10, 2, 2])
    assert tree["parent"].tolist() == [[-1, 0, 1, 0, 3]]
    assert tree["prior"][0, 0, :2] == pytest.approx([0.8, 0.2])
    assert small_tree.levels == 1 + 2 + 1 + 2
    assert small_tree.choose(0) == [1], "of equally visited actions the one with the better value"


def test_untried_action_as_the_lowest_value() -> None:
    """As above up to the third simulation, where the untried action counts as 0.25 instead of 0.5:
    0 + 1.732 * 0.8 / 3 = 0.46 against 0 + 1.732 * 0.2 = 0.35: action 0. In node 1, N=2, its action 0 worth -5 and
    the other taken as that: 0 + 1.414 * 0.5 / 2 against 0 + 1.414 * 0.5: action 1. Return to node 1: 0.5 * 6 = 3,
    its mean (2 - 5 + 3) / 3 = 0; to the root 1 + 0.5 * 3 = 2.5. Root (1 + 2 - 1.5 + 2.5) / 4 = 1; q0 = 1.
    """
    search = Search(**PLAIN, num_actions=2, simulations=3, discount=0.5, unvisited="lowest")
    asked = play(search, ROOT, [[*EVEN, 2, 1], [*EVEN, -10, 0], [*EVEN, 6, 0]])
    assert asked == [(0, 0), (1, 0), (1, 1)]
    assert search.results().values == pytest.approx(np.array([[1.0]]))
    assert search.results().q == pytest.approx(np.array([[1.0, 0]]))


# Two players who alternate. The network lists values from the seat to move, rewards from the seat that moved.
DUEL = [
    [*EVEN, 3, -1, 1, 2],  # node 1, seat 1 to move: values (-1, 3) by seat, rewards (1, 2)
    [*EVEN, 4, 2, -3, 5],  # node 2, seat 0 to move: values (4, 2), rewards (5, -3)
    [*EVEN, 0, 4, 1, -1],  # node 3, seat 0 to move: values (0, 4), rewards (-1, 1)
]


def by_seat(answers: Sequence[Sequence[float]]) -> list[list[float]]:
    """DUEL as a network would say it that lists the players from the root's on."""
    (_, _, a1, a0, b0, b1), *others = answers
    return [[*EVEN, a0, a1, b0, b1]] + [[*EVEN, v0, v1, r0, r1] for _, _, v0, v1, r1, r0 in others]


@pytest.mark.parametrize("mover_frame", [True, False])
def test_two_players_by_hand(mover_frame: bool) -> None:
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
    search = Search(
        **PLAIN,
        num_actions=2,
        num_players=2,
        simulations=3,
        discount=0.5,
        phase_table=PhaseTable.trivial(2, turn_passes=True),
        mover_frame=mover_frame,
    )
    asked = play(search, [*logits_of(0.8, 0.2), 0, 0], DUEL if mover_frame else by_seat(DUEL))
    assert asked == [(0, 0), (1, 0), (1, 1)]
    assert search.results().values == pytest.approx(np.array([[5.5 / 4, 2.0]]))
    assert search.results().q == pytest.approx(np.array([[1 + 2.5 / 3, 0]]))
    tree = search.tree()
    assert tree["to_play"].tolist() == [[0, 1, 0, 0]]
    assert tree["value"][0, 1] == pytest.approx([5 / 3, 4 / 3])
    assert tree["q"][0, 1, :2] == pytest.approx([-2, 3])
    assert tree["reward"][0].tolist() == [[0, 0], [1, 2], [5, -3], [-1, 1]]


def test_three_players_with_turns_of_two_decisions() -> None:
    """A chain of forced moves: phase 0 keeps the turn, phase 1 passes it on. Each network output lists 10, 20, 30 as
    values and 1, 2, 3 as rewards from the seat of its mover on."""
    table = PhaseTable(np.ones((2, 1), bool), np.array([[1], [0]], np.uint8), np.array([[False], [True]]))
    search = Search(batch=1, num_actions=1, num_players=3, simulations=7, phase_table=table, algorithm="puct")
    search.begin(np.array([[0, 10, 20, 30]], np.float32), np.ones((1, 1), bool))
    to_play, shift = [], []
    for _ in range(7):
        asked = search.select()
        to_play.append(int(asked.to_play[0]))
        shift.append(int(asked.shift[0]))
        search.expand(np.array([[0, 10, 20, 30, 1, 2, 3]], np.float32))
    assert to_play == [0, 1, 1, 2, 2, 0, 0]
    assert shift == [0, 1, 0, 1, 0, 1, 0]
    tree = search.tree()
    assert tree["phase"].tolist() == [[0, 1, 0, 1, 0, 1, 0, 1]]
    assert tree["reward"][0, 1:].tolist() == [
        [1, 2, 3],  # by seat 0
        [1, 2, 3],
        [3, 1, 2],  # by seat 1: its own is the 1
        [3, 1, 2],
        [2, 3, 1],  # by seat 2
        [2, 3, 1],
        [1, 2, 3],  # by seat 0 again
    ]
    assert tree["value"][0, 7].tolist() == [10, 20, 30]
    # Node 6 follows seat 2's turn; node 7 was made by seat 0: its value and reward both list seat 0 first.
    assert tree["value"][0, 6] == pytest.approx([(10 + 11) / 2, (20 + 22) / 2, (30 + 33) / 2])


def test_ego_counts_one_value_at_every_node() -> None:
    """The same two nodes as in the duel, but only seat 0's numbers: now node 1's untried action counts as its mean 3
    against 7 for the first: 1 + 1.414 * 0.5 / 2 against 0 + 1.414 * 0.5: action 0 again."""
    search = Search(
        **PLAIN,
        num_actions=2,
        num_players=2,
        simulations=3,
        discount=0.5,
        phase_table=PhaseTable.trivial(2, turn_passes=True),
        backup="ego",
    )
    asked = play(search, [*logits_of(0.8, 0.2), 0], [[*EVEN, -1, 1], [*EVEN, 4, 5], [*EVEN, 0, -1]])
    assert asked == [(0, 0), (1, 0), (2, 0)]
    assert search.results().values.shape == (1, 1)


def test_virtual_loss_by_hand() -> None:
    """Two leaves a step, even priors, pb_c_init 4.

    1. 4 * 1 * 0.5 of equals the first: action 0. Then N=2, it is under way: 0 + 4 * 1.414 * 0.5 / 2 against
       0 + 4 * 1.414 * 0.5: action 1. Returns 2 and 0: root 2 / 3, q = (2, 0).
    2. N=3: 1 + 4 * 1.732 * 0.5 / 2 against 0 + 4 * 1.732 * 0.5 / 2: action 0. Then N=4 and one of its two visits is
       under way: half its value is lost, 0.5 + 4 * 2 * 0.5 / 3 = 1.83 against 0 + 4 * 2 * 0.5 / 2 = 2: action 1.
       Without virtual loss 1 + 1.33 = 2.33: action 0.
    """
    for loss, second in ((1.0, 1), (0.0, 0)):
        search = Search(**PLAIN | {"pb_c_init": 4.0}, num_actions=2, simulations=4, leaves=2, virtual_loss=loss)
        search.begin(np.array([[*EVEN, 0]], np.float32), np.ones((1, 2), bool))
        asked = search.select()
        assert asked.action.tolist() == [0, 1]
        search.expand(np.array([[*EVEN, 2, 0], [*EVEN, 0, 0]], np.float32))
        assert search.results().values == pytest.approx(np.array([[2 / 3]]))
        asked = search.select()
        assert asked.parent.tolist()[0] == 1
        search.expand(np.zeros((2, 4), np.float32))
        assert search.results().visits.tolist() == [[2 + (second == 0), 1 + (second == 1)]]


def test_leaves_that_meet_count_twice() -> None:
    """Both leaves of the step find priors 0.9 and 0.1 (N=2: 1.414 * 0.9 / 2 against 1.414 * 0.1): the same node is
    asked for twice, its first answer is taken and weighs twice: root (1 + 2 * 4) / 3 = 3."""
    search = Search(**PLAIN, num_actions=2, simulations=2, leaves=2)
    search.begin(np.array([[*logits_of(0.9, 0.1), 1]], np.float32), np.ones((1, 2), bool))
    asked = search.select()
    assert (asked.parent.tolist(), asked.action.tolist()) == ([0, 0], [0, 0])
    search.expand(np.array([[*EVEN, 3, 1], [*EVEN, 99, 99]], np.float32))
    assert search.results().visits.tolist() == [[2, 0]]
    assert search.results().values == pytest.approx(np.array([[3.0]]))
    assert search.results().q == pytest.approx(np.array([[4.0, 0]]))


@pytest.mark.parametrize("unvisited", ["neutral", "lowest"])
@pytest.mark.parametrize(("pb_c_base", "pb_c_init"), [(19652.0, 1.25), (1.0, 0.0), (3.0, 0.5)])
def test_puct_follows_its_formula(pb_c_base: float, pb_c_init: float, unvisited: str) -> None:
    """Trees of every size up to 12 simulations: the next action at the root is the best by the formula."""
    problem = Problem(seed=23, batch=100, actions=5)
    for simulations in range(12):
        settings = {"algorithm": "puct", "pb_c_base": pb_c_base, "pb_c_init": pb_c_init, "unvisited": unvisited}
        _, now = run(problem, problem.root, problem.legal, simulations=simulations, **settings)
        _, then = run(problem, problem.root, problem.legal, simulations=simulations + 1, **settings)
        for row in range(100):
            legal, visits = problem.legal[row], now.visits[row].astype(float)
            prior = np.where(legal, np.exp(problem.logits[problem.root[row]].astype(float)), 0)
            own, tried = float(now.values[row, 0]), visits > 0
            known = [own, *now.q[row, tried].tolist()]
            spread = max(max(known) - min(known), 1e-8)
            untried = (own - min(known)) / spread if unvisited == "neutral" else 0.0
            value = np.where(tried, (now.q[row] - min(known)) / spread, untried)
            total = 1 + visits.sum()
            explore = np.sqrt(total) * (pb_c_init + np.log((total + pb_c_base + 1) / pb_c_base))
            score = np.where(legal, value + explore * prior / prior.sum() / (1 + visits), -np.inf)
            taken = np.flatnonzero(then.visits[row] - now.visits[row])
            assert len(taken) == 1
            assert score[taken[0]] >= score.max() - 1e-4


# ------------------------------------------------------------------------------------------------- gumbel


@pytest.mark.parametrize(
    ("considered", "simulations", "expected"),
    [
        # 4 actions in 2 rounds of 8: 2 visits each, then 4 for each of the best 2.
        (4, 16, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        # ceil(log2 3) = 2 rounds of 6: 2 visits each, then 3 for each of the best 2 (never fewer).
        (3, 12, [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]),
        # A budget that is no multiple goes to further rounds of the last 2, and is cut.
        (2, 5, [0, 0, 1, 1, 2]),
        # 20 / (3 * 8) and 20 / (3 * 4) are rounded to 1 visit, 20 / (3 * 2) to 3.
        (8, 20, [0] * 8 + [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5]),
        (4, 3, [0, 0, 0]),
        (1, 5, [0, 1, 2, 3, 4]),
        (0, 3, [0, 1, 2]),
        (7, 0, []),
    ],
)
def test_halving_schedule_by_hand(considered: int, simulations: int, expected: list[int]) -> None:
    assert mcts.considered_visits(considered, simulations) == expected


def test_root_visits_follow_the_schedule() -> None:
    """16 simulations among 4 of 6 actions: 6 + 6 + 2 + 2, whatever the values; forced moves take all."""
    problem = Problem(seed=1, batch=64, actions=6)
    legal = np.ones((64, 6), bool)
    legal[32:, 1:] = False
    _, results = run(problem, problem.root, legal, simulations=16, max_considered=4)
    visits = np.sort(results.visits, 1)[:, ::-1]
    assert (visits[:32] == [6, 6, 2, 2, 0, 0]).all()
    assert (visits[32:] == [16, 0, 0, 0, 0, 0]).all()


@pytest.mark.parametrize("considered", [1, 3, 5])
def test_considered_actions_are_the_top_of_noise_plus_logit(considered: int) -> None:
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
def test_improved_policy_and_recommendation(simulations: int, weights: tuple[float, float, bool]) -> None:
    """Against the formula: softmax(logit + sigma(q)); and of the most visited actions the one with the highest
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


# ------------------------------------------------------------------------------------ what mctx has found

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "mctx_golden.json").read_text())


@pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda g: f"{g['algorithm']}-{g['actions']}-{g['simulations']}-{g['discount']}"
)
def test_same_visits_as_mctx_had(golden: dict[str, Any]) -> None:
    """tests/make_mctx_golden.py has written them; tests/test_mctx.py compares with a live mctx."""
    visits = np.array(golden["visits"])
    problem = Problem(golden["seed"], *visits.shape)
    if golden["algorithm"] == "gumbel":
        problem.gumbel = np.array(golden["gumbel"], np.float32)
    results, chosen = ours(problem, golden["algorithm"], golden["simulations"], golden["discount"])
    assert (results.visits == visits).all()
    assert results.values[:, 0] == pytest.approx(np.array(golden["value"]), abs=1e-5)
    if golden["algorithm"] == "gumbel":
        assert (chosen == golden["action"]).all()
    else:  # mctx draws lots among the most visited
        rows = np.arange(len(visits))
        assert (visits[rows, chosen] == visits[rows, golden["action"]]).all()


def test_golden_file_covers_both_algorithms() -> None:
    assert {golden["algorithm"] for golden in GOLDEN} == set(ALGORITHMS)


# ------------------------------------------------------------------------------------------- independence

NOISY = {"dirichlet_fraction": 0.25, "discount": 0.9, "max_considered": 6}


def some_keys(count: int, seed: int = 0) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**63, count).astype(np.uint64)


@both
@pytest.mark.parametrize("leaves", [1, 3])
def test_changing_a_row_leaves_the_others(algorithm: str, leaves: int) -> None:
    settings = NOISY | {"algorithm": algorithm, "leaves": leaves}
    problem = Problem(seed=3, batch=12, actions=8)
    keys = some_keys(12)
    before = fingerprint(*run(problem, problem.root, problem.legal, begin={"keys": keys}, **settings))
    problem.root[5] = (problem.root[5] + 1) % STATES
    problem.legal[5] = True
    keys[5] += np.uint64(1)
    after = fingerprint(*run(problem, problem.root, problem.legal, begin={"keys": keys}, **settings))
    assert [row for row in range(12) if before[row] != after[row]] == [5]


@both
@pytest.mark.parametrize("leaves", [1, 3])
def test_rows_may_come_in_any_order_and_batch(algorithm: str, leaves: int) -> None:
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


@both
@pytest.mark.parametrize("leaves", [1, 3])
def test_threads_change_nothing(algorithm: str, leaves: int) -> None:
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
                threads=threads,
                **NOISY,
            )
        )
        for threads in (1, 2, 3)
    ]
    assert prints[0] == prints[1] == prints[2]


@both
def test_the_arena_is_reused(algorithm: str) -> None:
    """Searches in one object equal searches in fresh ones, and nothing grows or moves."""
    settings = NOISY | {"algorithm": algorithm, "simulations": 30, "leaves": 2}
    problems = [Problem(seed, batch=40, actions=8) for seed in (6, 7, 8)]
    search = Search(batch=40, num_actions=8, **settings)
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


@both
def test_a_search_may_be_given_up(algorithm: str) -> None:
    """`begin` works at any time, also between select and expand."""
    problem = Problem(seed=9, batch=4, actions=5)
    roots = np.concatenate([problem.logits[problem.root], problem.value[problem.root, None]], 1)
    search, results = run(problem, problem.root, problem.legal, algorithm=algorithm)
    expected = fingerprint(search, results)
    search.begin(roots, problem.legal)
    search.select()
    assert fingerprint(search, explore(search, problem, problem.root, problem.legal)) == expected


@both
def test_keys_are_the_randomness(algorithm: str) -> None:
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
    assert (search.choose(1.0) == search.choose(1.0)).all(), "choosing twice is choosing once"


# ------------------------------------------------------------------------------------------- solved games


def take_away(stones: int, most: int) -> World:
    """Two players in turn take 1 to `most` stones; whoever takes the last one wins. State: 2 stones + mover."""
    size = 2 * (stones + 1)
    following = np.zeros((size, most), np.int64)
    reward = np.zeros((size, most, 2), np.float32)
    for left, mover, action in itertools.product(range(stones + 1), range(2), range(most)):
        rest = max(0, left - (action + 1))
        following[2 * left + mover, action] = 2 * rest + 1 - mover
        if left > 0 and rest == 0:
            reward[2 * left + mover, action, mover] = 1
            reward[2 * left + mover, action, 1 - mover] = -1
    return World(following, reward, np.zeros((size, 2), np.float32), np.zeros((size, most), np.float32))


def take_away_value(stones: int, most: int) -> int:
    """+1 if the player to move wins."""
    if stones == 0:
        return -1
    return max(-take_away_value(max(0, stones - taken), most) for taken in range(1, most + 1))


@pytest.mark.parametrize("mover_frame", [True, False])
def test_take_away_is_solved(mover_frame: bool) -> None:
    """Visits go to the winning move where there is one, and the root's value goes to the known one."""
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


def test_take_away_by_gumbel() -> None:
    world, stones = take_away(9, 3), np.array([1, 2, 3, 5, 6, 7, 9])
    search, results = run(
        world, 2 * stones, simulations=2000, num_players=2, phase_table=PhaseTable.trivial(3, turn_passes=True)
    )
    for row, left in enumerate(stones):
        chosen = int(search.choose()[row])
        assert take_away_value(max(0, left - chosen - 1), 3) == -1
        assert results.q[row, chosen] == pytest.approx(1, abs=0.1)
        assert results.policy[row, chosen] > 0.3


# Nim with two heaps: a turn is two decisions, which heap and how many. Who takes from an empty heap loses at once.
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


def test_nim_where_a_turn_is_two_decisions() -> None:
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


# Dice nobody sees: in turn each of two players throws one of three dice, and whoever brings the total to 6 or more
# pays 1 to the other. As nobody sees a throw, a state is the dice thrown so far, and an edge's reward is the chance
# that the game ends by it: chance is in the rewards, exactly.
DICE: list[dict[int, float]] = [{1: 1.0}, {1: 0.5, 3: 0.5}, {2: 0.75, 5: 0.25}]
LIMIT = 6


def expected_payoff(thrown: tuple[int, ...]) -> float:
    """What the first player earns by these dice: all outcomes spelled out."""
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


def test_unseen_dice() -> None:
    states = [counts for counts in itertools.product(range(LIMIT + 2), repeat=3) if sum(counts) <= LIMIT + 1]
    index = {counts: number for number, counts in enumerate(states)}

    def still_below(counts: tuple[int, ...]) -> float:
        """The chance that the total is below the limit: convolve, and forget what is over."""
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
        simulations=8000,
        algorithm="puct",
        num_players=2,
        phase_table=PhaseTable.trivial(3, turn_passes=True),
    )
    values = [dice_value((die,)) for die in range(3)]
    best, second = np.argsort(values)[:-3:-1]
    assert values[best] - values[second] > 0.05, "a clear case"
    assert search.choose(0) == [best]
    assert results.visits[0, best] / 8000 > 0.7
    assert results.q[0, best] == pytest.approx(values[best], abs=0.05)
    assert results.values[0] == pytest.approx([values[best], -values[best]], abs=0.1)


# Three players move once each: the root's has 3 actions, the others 2. What everybody gets, in tenths.
PAYOFFS = np.array(
    [
        [[[5, 6, 5], [0, 9, 0]], [[1, 2, 3], [6, 1, 2]]],  # good if the others look after themselves
        [[[3, 5, 1], [4, 0, 0]], [[3, 4, 4], [4, 2, 2]]],  # never bad
        [[[9, 0, 0], [1, 4, 6]], [[2, 3, 5], [8, 1, 1]]],  # best if the others were to help
    ]
)


def three_moves() -> tuple[World, PhaseTable]:
    """States: the root, after one move, after two, and over."""
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
    """The payoffs that play from here leads to, by brute force over all paths."""
    if len(path) == 3:
        return PAYOFFS[path]
    options = [backed_up(kind, (*path, action)) for action in range(2 if path else 3)]
    if kind == "maxn":
        return max(options, key=lambda payoffs: payoffs[len(path)])
    best = min if kind == "paranoid" and path else max
    return best(options, key=lambda payoffs: payoffs[0])


def test_maxn_paranoid_and_ego_choose_differently() -> None:
    best = {
        kind: int(np.argmax([backed_up(kind, (action,))[0] for action in range(3)]))
        for kind in ("maxn", "paranoid", "ego")
    }
    assert best == {"maxn": 0, "paranoid": 1, "ego": 2}


@both
@pytest.mark.parametrize("mover_frame", [True, False])
def test_search_finds_the_maxn_move(algorithm: str, mover_frame: bool) -> None:
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


@both
def test_search_for_the_ego_alone_hopes_for_help(algorithm: str) -> None:
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


# ------------------------------------------------------------------------------------ masks, sizes, leaves


@both
@pytest.mark.parametrize("simulations", [0, 1, 30])
def test_all_but_one_masked(algorithm: str, simulations: int) -> None:
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


@both
@pytest.mark.parametrize("leaves", [1, 4])
def test_phase_masks_hold_inside(algorithm: str, leaves: int) -> None:
    """Random phase tables: a node's phase and player follow from its parent's; impossible actions have no prior and
    are never taken."""
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
                assert tree["prior"][game, node].sum() == pytest.approx(1, abs=1e-5)
                tried = np.flatnonzero(tree["child"][game, node] >= 0)
                assert allowed[tried].all()
                for action in tried:
                    child = tree["child"][game, node, action]
                    rule = tree["phase"][game, node], action
                    assert tree["phase"][game, child] == table.next_phase[rule]
                    seat = (tree["to_play"][game, node] + table.turn_passes[rule]) % players
                    assert tree["to_play"][game, child] == seat
                    nodes.append(child)


@both
def test_no_simulation_gives_the_prior(algorithm: str) -> None:
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


@both
def test_one_simulation(algorithm: str) -> None:
    """Puct takes the highest prior, gumbel the highest noise + logit; the root's value is the mean of two."""
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


def consistent(search: Search, results: Results, simulations: int) -> None:
    """Visits add up at every node, and every number is finite."""
    tree = search.tree()
    assert (results.visits.sum(1) == simulations).all()
    for game in range(search.active):
        reached = [0]
        for node in reached:
            children = tree["child"][game, node]
            reached += children[children >= 0].tolist()
            own = tree["visits"][game, node] - tree["edge_visits"][game, node].sum()
            assert own == 1 if search.leaves == 1 or node == 0 else own >= 1
            assert (
                tree["visits"][game, children[children >= 0]] == tree["edge_visits"][game, node][children >= 0]
            ).all()
        for field in ("value", "reward", "q", "prior"):
            assert np.isfinite(tree[field][game, reached]).all()


@both
def test_a_thousand_simulations(algorithm: str) -> None:
    problem = Problem(seed=15, batch=2, actions=10)
    search, results = run(problem, problem.root, problem.legal, algorithm=algorithm, simulations=1000)
    assert (search.steps, search.nodes) == (1000, 1001)
    consistent(search, results, 1000)
    raw = problem.value[problem.root]
    mean = (raw + (results.visits * results.q).sum(1)) / 1001
    assert results.values[:, 0] == pytest.approx(mean, abs=1e-4)


@both
@pytest.mark.parametrize(("simulations", "leaves", "steps"), [(10, 4, 3), (8, 4, 2), (1, 5, 1), (7, 7, 1)])
def test_simulations_are_rounded_up_to_leaves(algorithm: str, simulations: int, leaves: int, steps: int) -> None:
    problem = Problem(seed=16, batch=8, actions=6)
    search, results = run(
        problem, problem.root, problem.legal, algorithm=algorithm, simulations=simulations, leaves=leaves
    )
    assert (search.steps, search.nodes) == (steps, 1 + steps * leaves)
    consistent(search, results, steps * leaves)


@both
@pytest.mark.parametrize("virtual_loss", [0.0, 0.5, 1.0])
def test_more_leaves_than_actions(algorithm: str, virtual_loss: float) -> None:
    """Of 8 leaves and 2 actions some must meet in the first step."""
    problem = Problem(seed=17, batch=16, actions=5)
    legal = np.zeros((16, 5), bool)
    legal[:, [1, 3]] = True
    search, results = run(
        problem, problem.root, legal, algorithm=algorithm, simulations=64, leaves=8, virtual_loss=virtual_loss
    )
    consistent(search, results, 64)
    raw = problem.value[problem.root]
    assert results.values[:, 0] == pytest.approx((raw + (results.visits * results.q).sum(1)) / 65, abs=1e-4)
    # The second and later nodes of the first step that met an earlier one are not in the tree.
    assert (search.tree()["visits"][:, 1] > 1).any()


@both
@pytest.mark.parametrize("leaves", [2, 5, 8])
def test_several_leaves_find_the_same_easy_move(algorithm: str, leaves: int) -> None:
    stones = np.array([3, 5, 6, 7])
    search, _ = run(
        take_away(9, 3),
        2 * stones,
        simulations=800,
        algorithm=algorithm,
        leaves=leaves,
        num_players=2,
        phase_table=PhaseTable.trivial(3, turn_passes=True),
    )
    assert search.choose(0).tolist() == [2, 0, 1, 2]


# ------------------------------------------------------------------------------------------------ options

PUCT, GUMBEL = {"algorithm": "puct"}, {"algorithm": "gumbel"}
OPTIONS: list[tuple[dict[str, Any], str, Any, Any]] = [
    (PUCT, "discount", 1.0, 0.5),
    (GUMBEL, "discount", 1.0, 0.5),
    (PUCT, "simulations", 20, 21),
    (PUCT, "pb_c_init", 1.25, 5.0),
    (PUCT, "pb_c_base", 19652.0, 1e-3),
    (PUCT, "dirichlet_fraction", 0.0, 0.25),
    (PUCT | {"dirichlet_fraction": 0.5}, "dirichlet_alpha", 0.3, 3.0),
    (PUCT, "unvisited", "neutral", "lowest"),
    (PUCT, "leaves", 1, 4),
    (GUMBEL, "leaves", 1, 4),
    (PUCT | {"leaves": 4}, "virtual_loss", 1.0, 0.0),
    (GUMBEL, "max_considered", 16, 2),
    (GUMBEL, "gumbel_scale", 1.0, 0.0),
    (GUMBEL, "value_scale", 0.1, 1.0),
    (GUMBEL, "maxvisit_init", 50.0, 5.0),
    (GUMBEL, "rescale_values", True, False),
    (PUCT, "mover_frame", True, False),
    (GUMBEL, "mover_frame", True, False),
    (PUCT, "backup", "maxn", "ego"),
    (GUMBEL, "backup", "maxn", "ego"),
    ({}, "algorithm", "puct", "gumbel"),
    (PUCT, "phase_table", PhaseTable.trivial(6, True), PhaseTable.trivial(6, False)),
]


@pytest.mark.parametrize(("settings", "name", "usual", "other"), OPTIONS)
def test_every_option_changes_the_search(settings: dict[str, Any], name: str, usual: Any, other: Any) -> None:
    """The same answers of a network to 64 games, one setting changed."""
    settings = {"num_players": 2, "phase_table": PhaseTable.trivial(6, turn_passes=True), **settings}
    found = []
    for value in (usual, other):
        world = random_world(18, actions=6, players=2)
        if value == "ego":
            world.reward, world.value = world.reward[:, :, 0], world.value[:, 0]
        roots = np.random.default_rng(1).integers(0, STATES, 64)
        search, results = run(world, roots, **{**settings, name: value})
        found.append((results.visits.tobytes(), results.policy.tobytes(), search.choose().tobytes()))
    assert found[0][0] != found[1][0], "visits"
    assert found[0][1] != found[1][1], "policy"


def test_temperature_changes_what_puct_takes_but_not_gumbel() -> None:
    problem = Problem(seed=19, batch=256, actions=6)
    for algorithm, same in (("puct", False), ("gumbel", True)):
        search, _ = run(problem, problem.root, problem.legal, algorithm=algorithm)
        actions = [search.choose(temperature).tobytes() for temperature in (0.0, 0.5, 1.0, 5.0)]
        assert (len(set(actions)) == 1) == same


# -------------------------------------------------------------------------------------------------- noise
# The keys are fixed, so that these tests always give the same answer; the levels say how surprising that is.


def begun(keys: int, logits: Sequence[float], legal: Sequence[bool], **settings: Any) -> Search:
    """Roots that differ by key alone, without any simulation."""
    search = Search(batch=keys, num_actions=len(logits), simulations=0, **settings)
    outputs = np.tile(np.array([*logits, 0], np.float32), (keys, 1))
    search.begin(outputs, np.tile(np.array(legal), (keys, 1)))
    return search


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 4.0])
def test_dirichlet_noise(alpha: float) -> None:
    """Mean, variance and the whole (beta) distribution of each legal action's share; nothing for the others."""
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


def test_given_dirichlet_noise_is_mixed_in() -> None:
    search = Search(batch=1, num_actions=2, simulations=0, algorithm="puct", dirichlet_alpha=9, dirichlet_fraction=0.25)
    outputs = np.array([[*logits_of(0.8, 0.2), 0]], np.float32)
    search.begin(outputs, np.ones((1, 2), bool), noise=np.array([[0.4, 0.6]], np.float32))
    assert search.results().policy == pytest.approx(np.array([[0.75 * 0.8 + 0.1, 0.75 * 0.2 + 0.15]]))


def noise_differences(count: int, first: int, second: int, scale: float) -> NDArray[np.float64]:
    """noise[first] - noise[second] of each key, by bisection: how much more logit does the second need to be taken?"""
    search = Search(batch=count, num_actions=3, simulations=0, gumbel_scale=scale)
    legal = np.zeros((count, 3), bool)
    legal[:, [first, second]] = True
    low, high = np.full(count, -60.0), np.full(count, 60.0)
    outputs = np.zeros((count, 4), np.float32)
    for _ in range(32):
        outputs[:, second] = (low + high) / 2
        search.begin(outputs, legal)
        taken = search.choose() == second
        low, high = np.where(taken, low, outputs[:, second]), np.where(taken, outputs[:, second], high)
    return low


def test_gumbel_noise() -> None:
    """Only differences matter, and those of independent Gumbel numbers are logistic; two that share one of three have
    a correlation of 1/2."""
    one, two = (noise_differences(5000, 0, other, 1.0) for other in (1, 2))
    for sample in (one, two, one - two):
        assert stats.kstest(sample, stats.logistic.cdf).pvalue > 1e-3
    assert stats.pearsonr(one, two).statistic == pytest.approx(0.5, abs=0.05)
    assert noise_differences(5000, 0, 1, 2.5) == pytest.approx(2.5 * one, abs=1e-4)


def test_gumbel_considers_pairs_as_often_as_they_should_be() -> None:
    """Two actions drawn without replacement in proportion to the prior (Plackett, Luce)."""
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


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0, 3.0])
def test_temperature_is_the_exponent_of_visits(temperature: float) -> None:
    count, world = 20_000, random_world(20, actions=5, players=1)
    search, results = run(world, np.full(count, 3), algorithm="puct", simulations=14, pb_c_init=4.0)
    visits = results.visits[0].astype(float)
    assert (results.visits == visits).all()
    assert (visits > 0).sum() >= 4
    weights = visits ** (1 / temperature)
    observed = np.bincount(search.choose(temperature), minlength=5)
    assert not observed[visits == 0].any()
    tried = visits > 0
    expected = count * weights / weights.sum()
    assert stats.chisquare(observed[tried], expected[tried]).pvalue > 1e-3


def test_temperature_0_takes_the_most_visited_and_of_these_the_better() -> None:
    problem = Problem(seed=21, batch=500, actions=6)
    search, results = run(problem, problem.root, problem.legal, algorithm="puct", simulations=9)
    most = results.visits == results.visits.max(1, keepdims=True)
    assert (most.sum(1) > 1).any(), "some ties"
    assert (search.choose(0) == np.where(most, results.q, -np.inf).argmax(1)).all()


# ------------------------------------------------------------------------------------------------- errors


def four_games(**settings: Any) -> tuple[Search, NDArray[np.float32], NDArray[np.bool_]]:
    given = {"batch": 4, "num_actions": 3, "num_players": 2, "simulations": 3, **settings}
    return Search(**given), np.zeros((4, 5), np.float32), np.ones((4, 3), bool)


BAD_NUMBERS = [(np.nan, "is not a number"), (np.inf, "is infinite"), (-np.inf, "is infinite"), (-3e38, "is too large")]


@both
@pytest.mark.parametrize(("number", "complaint"), BAD_NUMBERS)
@pytest.mark.parametrize(
    ("column", "what"), [(2, "policy logit 2"), (3, "value 0"), (4, "value 1"), (5, "reward 0"), (6, "reward 1")]
)
def test_what_is_no_number_is_an_error_that_says_so(
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
    # The object stays of use.
    search.begin(roots, legal)
    for _ in range(3):
        search.select()
        search.expand(np.zeros((4, 7), np.float32))
    assert np.isfinite(search.results().values).all()
    assert (search.results().visits.sum(1) == 3).all()


@both
def test_outputs_that_are_refused_end_the_search(algorithm: str) -> None:
    """Some trees may have taken theirs: as before the first `begin`, nothing but `begin` can follow."""
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


def test_a_bad_number_names_its_game_with_leaves_and_threads() -> None:
    search = Search(batch=100, num_actions=3, simulations=6, leaves=2, threads=3)
    search.begin(np.zeros((100, 4), np.float32), np.ones((100, 3), bool))
    search.select()
    answers = np.zeros((200, 5), np.float32)
    answers[100 + 57, 3] = np.nan
    with pytest.raises(ValueError, match="game 57: the network's value 0 is not a number"):
        search.expand(answers)


def test_logits_of_impossible_actions_may_be_anything() -> None:
    search, roots, legal = four_games()
    expected = fingerprint(search, explore_zeros(search, roots, legal & [True, True, False]))
    roots[:, 2] = np.nan
    assert fingerprint(search, explore_zeros(search, roots, legal & [True, True, False])) == expected


def explore_zeros(search: Search, roots: NDArray[np.float32], legal: NDArray[np.bool_]) -> Results:
    search.begin(roots, legal)
    for _ in range(search.steps):
        search.select()
        search.expand(np.zeros((search.leaves * search.active, 7), np.float32))
    return search.results()


@both
def test_enormous_numbers_stay_finite(algorithm: str) -> None:
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
        ({"outputs": np.zeros((3, 5), np.float32)}, r"legal: expected .* shape \(3, 3\)"),
        ({"legal": np.ones((4, 3), np.uint8)}, "legal: expected a contiguous bool array"),
        ({"legal": np.ones((4, 4), bool)}, r"legal: expected .* shape \(4, 3\)"),
        ({"phase": np.zeros(4, np.int64)}, "phase: expected a contiguous int8 array"),
        ({"phase": np.zeros(3, np.int8)}, r"phase: expected .* shape \(4,\)"),
        ({"keys": np.zeros(4, np.int64)}, "keys: expected a contiguous uint64 array"),
        ({"keys": np.zeros((4, 1), np.uint64)}, r"keys: expected .* shape \(4,\)"),
        ({"noise": np.zeros((4, 3))}, "noise: expected a contiguous float32 array"),
        ({"noise": np.zeros((4, 5), np.float32)}, r"noise: expected .* shape \(4, 3\)"),
        ({"legal": np.array([[1, 1, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]], bool)}, "game 1: no action is legal"),
        ({"phase": np.array([0, 0, 1, 0], np.int8)}, "game 2: phase 1, expected 0 to 0"),
        ({"phase": np.array([0, -1, 0, 0], np.int8)}, "game 1: phase -1, expected 0 to 0"),
    ],
)
def test_wrong_roots_are_refused(change: dict[str, Any], message: str) -> None:
    """And the search under way goes on as if nothing had been said."""
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
def test_wrong_answers_are_refused(answers: NDArray[Any], message: str) -> None:
    search, roots, legal = four_games()
    search.begin(roots, legal)
    search.select()
    with pytest.raises(ValueError, match=message):
        search.expand(answers)
    search.expand(np.zeros((4, 7), np.float32))


def test_wrong_buffers_for_requests_are_refused() -> None:
    search, roots, legal = four_games()
    search.begin(roots, legal)
    good = search.requests()
    for field in ("parent", "action", "shift", "to_play"):
        for bad in (np.zeros(3, np.int64), np.zeros(4, np.int32), np.zeros(8, np.int64)[::2]):
            given = {name: getattr(good, name) for name in ("parent", "action", "shift", "to_play")}
            with pytest.raises(ValueError, match=f"{field}: expected a contiguous int64 array"):
                search.select(mcts.Requests(**(given | {field: bad})))
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


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("batch", 0, "1 or more, got 0"),
        ("num_actions", 0, "1 to 64, got 0"),
        ("num_actions", 65, "1 to 64, got 65"),
        ("num_players", 0, "1 to 64, got 0"),
        ("num_players", 65, "1 to 64, got 65"),
        ("simulations", -1, "0 to 1048575, got -1"),
        ("simulations", 2**20, "0 to 1048575, got 1048576"),
        ("leaves", 0, "1 to 4096, got 0"),
        ("leaves", 5000, "1 to 4096, got 5000"),
        ("threads", 0, "1 to 1024, got 0"),
        ("discount", -0.1, "0 to 1, got -0.1"),
        ("discount", 1.1, "0 to 1, got 1.1"),
        ("discount", np.nan, "0 to 1, got nan"),
        ("pb_c_base", 0.0, "a positive number, got 0"),
        ("pb_c_base", np.nan, "a positive number, got nan"),
        ("pb_c_base", np.inf, "a positive number, got inf"),
        ("pb_c_init", -1.0, "0 or more, got -1"),
        ("pb_c_init", np.inf, "0 or more, got inf"),
        ("dirichlet_alpha", np.inf, "a positive number, got inf"),
        ("gumbel_scale", np.inf, "0 or more, got inf"),
        ("value_scale", np.inf, "0 or more, got inf"),
        ("maxvisit_init", np.inf, "0 or more, got inf"),
        ("dirichlet_alpha", 0.0, "a positive number, got 0"),
        ("dirichlet_fraction", 1.5, "0 to 1, got 1.5"),
        ("dirichlet_fraction", np.nan, "0 to 1, got nan"),
        ("virtual_loss", -0.5, "0 to 1, got -0.5"),
        ("virtual_loss", 2.0, "0 to 1, got 2"),
        ("max_considered", 0, "1 or more, got 0"),
        ("gumbel_scale", -1.0, "0 or more, got -1"),
        ("value_scale", -1.0, "0 or more, got -1"),
        ("value_scale", np.nan, "0 or more, got nan"),
        ("maxvisit_init", -1.0, "0 or more, got -1"),
        ("algorithm", "uct", "puct or gumbel, got 'uct'"),
        ("backup", "max", "maxn or ego, got 'max'"),
        ("unvisited", "zero", "neutral or lowest, got 'zero'"),
    ],
)
def test_bad_settings_are_named(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected {expected}"):
        four_games(**{name: value})


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="pb_c"):
        four_games(pb_c=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"possible": np.array([[1, 1, 1], [0, 0, 0]], bool)}, "phase table: no action is possible in phase 1"),
        ({"next_phase": np.full((2, 3), 2, np.uint8)}, "phase table: expected a phase of the table, got 2"),
        ({"turn_passes": np.ones((1, 3), bool)}, "phase table: expected .* for each of 3 actions"),
        ({"possible": np.ones((2, 4), bool)}, "phase table: expected .* for each of 3 actions"),
        ({"possible": np.ones((0, 3), bool)}, "phase table: expected 1 to 255 phases"),
    ],
)
def test_bad_phase_tables_are_refused(change: dict[str, Any], message: str) -> None:
    fields = {
        "possible": np.ones((2, 3), bool),
        "next_phase": np.ones((2, 3), np.uint8),
        "turn_passes": np.ones((2, 3), bool),
    }
    four_games(phase_table=PhaseTable(**fields))
    with pytest.raises(ValueError, match=message):
        four_games(phase_table=PhaseTable(**(fields | change)))


@pytest.mark.parametrize("temperature", [-1.0, np.nan])
@both
def test_bad_temperatures_are_refused(algorithm: str, temperature: float) -> None:
    search, roots, legal = four_games(algorithm=algorithm)
    search.begin(roots, legal)
    with pytest.raises(ValueError, match="temperature: expected 0 or more"):
        search.choose(temperature)


@both
@pytest.mark.parametrize("leaves", [1, 3])
def test_expanding_and_selecting_at_once_is_the_same(algorithm: str, leaves: int) -> None:
    rng = np.random.default_rng(5)
    games, actions, steps = 40, 11, 8
    roots = rng.normal(size=(games, actions + 2)).astype(np.float32)
    legal = rng.random((games, actions)) < 0.6
    legal[:, 0] = True
    answers = rng.normal(size=(steps, leaves * games, actions + 4)).astype(np.float32)
    settings = {"batch": games, "num_actions": actions, "num_players": 2, "simulations": steps * leaves}
    table = PhaseTable.trivial(actions, turn_passes=True)
    apart, joined = (Search(**settings, leaves=leaves, algorithm=algorithm, phase_table=table) for _ in range(2))
    for search in (apart, joined):
        search.begin(roots, legal)
    requests = joined.select()
    for step, answer in enumerate(answers):
        expected = apart.select()
        for name in ("parent", "action", "shift", "to_play"):
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
