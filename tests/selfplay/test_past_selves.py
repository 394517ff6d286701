"""muzero.selfplay.past_selves: a game that began against a past network ends against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from muzero.search.planner import Plan, Planner
from muzero.selfplay.opponents import PAST_SELF, OpponentMix
from muzero.selfplay.past_selves import NOBODY
from muzero.selfplay.worker import PlayResult, SelfPlay
from tests.selfplay.workers import request, same, settings, weights

OFTEN = OpponentMix(0.8, (0.0, 0.0))


def tag(weights: dict[str, Tensor]) -> float:
    return float(sum(tensor.double().sum() for tensor in weights.values()))


class TaggedWorker(SelfPlay):
    """Worker that notes, for each game, the weights of the past networks that have decided in it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.versions: dict[int, set[float]] = {}

    def _plan(self, planner: Planner, rows: NDArray[np.int64], keys: NDArray[np.uint64], temperature: float) -> Plan:
        if planner.network is not self.network:
            for row in rows.tolist():
                own = tag({name: p.detach() for name, p in planner.network.named_parameters()})
                self.versions.setdefault(int(self.deals[row]), set()).add(own)
        return super()._plan(planner, rows, keys, temperature)


def play_on(worker: SelfPlay, seeds: range, steps: int) -> list[PlayResult]:
    """Results of requests of so many steps, each with other weights of a past network."""
    config, results = worker.config, []
    for seed in seeds:
        worker.load_weights(weights(config), weights(config, seed))
        results.append(worker.play(request(0, OFTEN, steps)))
    return results


def test_a_game_meets_one_version_of_the_network_from_beginning_to_end() -> None:
    worker = TaggedWorker(settings(tables=8))
    played = play_on(worker, range(1, 60), steps=8)  # a game is far longer than a request
    games = [kind for result in played for kind in result.opponents]
    assert games.count(PAST_SELF) >= 8
    assert max(len(e) for result in played for e in result.episodes) > 30
    assert len(worker.versions) >= 10
    assert all(len(versions) == 1 for versions in worker.versions.values())
    assert len(set().union(*worker.versions.values())) >= 3, "later games meet later versions"


def test_new_weights_are_taken_when_no_game_needs_the_old_ones() -> None:
    config = settings()
    past = SelfPlay(config).past_selves
    one, two, three = (weights(config, seed) for seed in (1, 2, 3))

    def holds(index: int, expected: dict[str, Tensor]) -> bool:
        found = dict(past.network(index).named_parameters())
        return all(torch.equal(found[name], tensor) for name, tensor in expected.items())

    assert past.offer(one)
    assert past.offer(two), "no game has begun"
    assert (past.current, holds(0, two)) == (0, True)
    past.met[:] = [0, NOBODY, 0, NOBODY]
    assert past.offer(three)
    assert (past.current, holds(0, two), holds(1, three)) == (1, True, True)
    past.met[1] = 1
    assert not past.offer(one), "both networks are needed"
    assert (past.current, holds(0, two), holds(1, three)) == (1, True, True)
    past.met[[0, 2]] = NOBODY
    assert past.offer(one)
    assert (past.current, holds(0, one), holds(1, three)) == (0, True, True)


def test_a_checkpoint_in_the_middle_of_games_against_two_versions_changes_nothing() -> None:
    config = settings(tables=8)
    first, second = SelfPlay(config), SelfPlay(config)
    play_on(first, range(1, 12), steps=12)
    assert set(first.past_selves.met) >= {0, 1}
    second.load({name: array.copy() for name, array in first.state().items()})
    one, other = (play_on(worker, range(12, 24), steps=12) for worker in (first, second))
    assert sum(len(result.episodes) for result in one) > 4
    assert all(same(a, b) for a, b in zip(one, other, strict=True) if a.episodes)


def test_a_checkpoint_without_past_networks_can_be_loaded() -> None:
    """Games against the past go on against the next version that comes: the checkpoint does not have theirs."""
    config = settings(tables=8)
    first, second = SelfPlay(config), TaggedWorker(config)
    play_on(first, range(1, 2), steps=12)
    second.load({name: array for name, array in first.state().items() if not name.startswith("past_")})
    assert (second.past_selves.met == 0).sum() == (first.kind == PAST_SELF).sum() > 0
    play_on(second, range(5, 6), steps=4)
    assert set().union(*second.versions.values()) == {tag(weights(config, 5))}


State = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def saved() -> State:
    """State of a worker with games against two past networks."""
    worker = SelfPlay(settings(tables=8))
    play_on(worker, range(1, 12), steps=12)
    assert set(worker.past_selves.met) >= {0, 1}
    return worker.state()


def first_weight(state: State) -> str:
    return next(name for name in state if name.startswith("past_1."))


def with_number(number: float) -> Callable[[State], State]:
    def change(state: State) -> State:
        array = state[first_weight(state)].copy()
        array.reshape(-1)[0] = number
        return {first_weight(state): array}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_number(np.nan), r"self-play: tensor past_1\..*: expected finite numbers, got 1 of"),
        (with_number(1e30), r"self-play: tensor past_1\..*: expected finite numbers, got 1 of"),
        (lambda s: {first_weight(s): s[first_weight(s)][:-1]}, r"self-play: past_1\..*: expected float32"),
        (lambda s: {first_weight(s): s[first_weight(s)].astype(np.float64)}, r"past_1\..*, got float64"),
        (lambda s: {"past_1.extra": np.zeros(3, np.float32)}, "past_1.extra: expected only"),
        (lambda s: {"past_2.extra": np.zeros(3, np.float32)}, "past_2.extra: expected only"),
        (lambda s: {"past_met": s["past_met"].astype(np.int64)}, "past_met: expected int8"),
        (lambda s: {"past_met": np.abs(2 * s["past_met"])}, "past_met: .*-1 to 1"),
        (lambda s: {"past_met": np.full_like(s["past_met"], -1)}, "past_met: expected a past network where one plays"),
        (lambda s: {"past_current": np.array([2])}, "past_current: expected 0 to 1"),
        (lambda s: {"owner": np.full_like(s["owner"], PAST_SELF)}, "past_met: expected a past network where one plays"),
    ],
)
def test_past_networks_that_do_not_fit_are_refused(
    change: Callable[[State], State], message: str, saved: State
) -> None:
    worker = SelfPlay(settings(tables=8))
    with pytest.raises(ValueError, match=message):
        worker.load({**saved, **change(saved)})


@pytest.mark.parametrize("missing", ["past_met", "past_current", "a weight"])
def test_past_networks_without_all_their_arrays_are_refused(missing: str, saved: State) -> None:
    name = first_weight(saved) if missing == "a weight" else missing
    worker = SelfPlay(settings(tables=8))
    with pytest.raises(ValueError, match=f"self-play: {name}: expected an array, got none"):
        worker.load({other: array for other, array in saved.items() if other != name})
