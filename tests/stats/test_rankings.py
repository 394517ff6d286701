"""Plackett-Luce and Nash averaging: against Bradley-Terry, by hand and by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from muzero import stats
from muzero.stats.rankings import equilibrium

NAMES = ["a", "b", "c", "d"]
ELOS = np.array([0.0, 80.0, -60.0, 150.0])


def tables(rng: np.random.Generator, count: int, players: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Agents and ranks at tables of the true model: exponential times with rates 10^(Elo / 400)."""
    seated = np.stack([rng.permutation(len(NAMES))[:players] for _ in range(count)])
    times = rng.exponential(size=seated.shape) / 10 ** (ELOS[seated] / 400)
    return seated, times.argsort(1).argsort(1) + 1


def test_ratings_of_tables_of_three_are_found_and_their_intervals_cover() -> None:
    rng = np.random.default_rng(0)
    inside, errors = 0, []
    for _ in range(150):
        found = stats.plackett_luce(NAMES, *tables(rng, 200, 3), "a")
        for rating in found.ratings:
            truth = ELOS[NAMES.index(rating.name)]
            if rating.name != "a":
                inside += rating.low <= truth <= rating.high
                errors.append(rating.elo - truth)
    assert abs(np.mean(errors)) < 4
    assert 0.92 < inside / 450 < 0.98


def test_tables_of_two_are_rated_as_by_the_ladder() -> None:
    rng = np.random.default_rng(1)
    seated, ranks = tables(rng, 600, 2)
    points = np.zeros((4, 4))
    for pair, rank in zip(seated, ranks, strict=True):
        winner = pair[rank.argmin()]
        points[winner, pair[rank.argmax()]] += 1
    ladder = stats.ladder(NAMES, points, "a", prior=0.001)
    found = stats.plackett_luce(NAMES, seated, ranks, "a", prior=0.001)
    for one, other in zip(found.ratings, ladder.ratings, strict=True):
        assert one.name == other.name
        assert one.elo == pytest.approx(other.elo, abs=0.2)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.15, abs=1e-9)


def test_maximum_of_the_likelihood_by_another_method() -> None:
    rng = np.random.default_rng(2)
    seated, ranks = tables(rng, 80, 4)

    def loss(strength: NDArray[np.float64]) -> float:
        total = 0.0
        for who, rank in zip(seated, ranks, strict=True):
            order = who[rank.argsort()]
            total -= sum(strength[order[k]] - np.log(np.exp(strength[order[k:]]).sum()) for k in range(4))
        return float(
            total + (np.log(2 + 2 * np.cosh(strength)) / 2).sum()
        )  # the prior: a drawn game against strength 0

    best = minimize(loss, np.zeros(4)).x
    found = {r.name: r.elo for r in stats.plackett_luce(NAMES, seated, ranks, "a").ratings}
    expected = 400 / np.log(10) * (best - best[0])
    assert [found[name] for name in NAMES] == pytest.approx(expected, abs=0.1)


def test_tables_where_all_tie_leave_all_equal() -> None:
    found = stats.plackett_luce(["a", "b", "c"], [[0, 1, 2]] * 10, [[1, 1, 1]] * 10, "a")
    assert [rating.elo for rating in found.ratings] == pytest.approx([0, 0, 0], abs=1e-6)
    assert [rating.points for rating in found.ratings] == pytest.approx([10 / 3] * 3)


def test_copies_of_a_deal_do_not_make_ratings_more_certain() -> None:
    rng = np.random.default_rng(3)
    seated, ranks = tables(rng, 100, 3)
    once = stats.plackett_luce(NAMES, seated, ranks, "a")
    copies = stats.plackett_luce(
        NAMES, np.tile(seated, (4, 1)), np.tile(ranks, (4, 1)), "a", deals=np.tile(np.arange(100), 4), prior=4.0
    )
    for one, other in zip(once.ratings, copies.ratings, strict=True):
        assert other.high - other.low == pytest.approx(one.high - one.low, rel=1e-3, abs=1e-9)


def test_an_agent_that_always_wins_has_a_finite_rating() -> None:
    found = stats.plackett_luce(["a", "b"], [[0, 1]] * 20, [[1, 2]] * 20, "b")
    assert 100 < found.ratings[0].elo < 2000


def test_equilibrium_of_rock_paper_scissors_and_of_a_dominated_field() -> None:
    game = np.array([[0, 0.2, -0.1], [-0.2, 0, 0.3], [0.1, -0.3, 0]])
    assert equilibrium(game) == pytest.approx([3 / 6, 1 / 6, 2 / 6], abs=1e-6)
    ordered = np.array([[0, 0.1, 0.2], [-0.1, 0, 0.1], [-0.2, -0.1, 0]])
    assert equilibrium(ordered) == pytest.approx([1, 0, 0], abs=1e-6)
    assert equilibrium(np.zeros((4, 4))) == pytest.approx([0.25] * 4, abs=1e-6)


def test_random_equilibria_cannot_be_exploited() -> None:
    rng = np.random.default_rng(4)
    for size in (2, 3, 5, 8, 12):
        game = rng.normal(size=(size, size)) * 0.1
        game -= game.T
        mix = equilibrium(game)
        assert mix.min() >= 0
        assert mix.sum() == pytest.approx(1)
        assert (game @ mix).max() < 1e-6


def test_a_second_copy_of_an_agent_changes_no_rate() -> None:
    rates = np.array([[0.5, 0.7, 0.4], [0.3, 0.5, 0.8], [0.6, 0.2, 0.5]])
    twice = rates[np.ix_([0, 1, 2, 1], [0, 1, 2, 1])]
    plain = stats.nash_average(["a", "b", "c"], rates, np.full((3, 3), 0.01), resamples=50)
    copied = stats.nash_average(["a", "b", "c", "b2"], twice, np.full((4, 4), 0.01), resamples=50)
    assert copied.rate[:3] == pytest.approx(plain.rate, abs=1e-6)
    assert copied.share[1] + copied.share[3] == pytest.approx(plain.share[1], abs=1e-6)
    assert copied.share[1] == pytest.approx(copied.share[3], abs=1e-6), "the most even equilibrium"


def test_uncertain_rates_give_wide_intervals() -> None:
    rates = np.array([[0.5, 0.52], [0.48, 0.5]])
    sure = stats.nash_average(["a", "b"], rates, np.full((2, 2), 0.001))
    unsure = stats.nash_average(["a", "b"], rates, np.full((2, 2), 0.05))
    assert sure.share_low == pytest.approx([1, 0], abs=1e-6)
    assert unsure.share_low[0] < 0.01 < 0.99 < unsure.share_high[0]
    assert unsure.rate_low[1] < sure.rate_low[1] < 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["a", "a"]}, "names: expected two or more that differ"),
        ({"seated": [[0, 5]]}, "seated: expected indices below 2"),
        ({"ranks": [[1, 2, 3]]}, "ranks: expected shape"),
        ({"anchor": "x"}, "anchor: expected one of"),
        ({"prior": 0.0}, "prior: expected more than 0"),
        ({"deals": [1, 2]}, "deals: expected 1 numbers"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    good = {"names": ["a", "b"], "seated": [[0, 1]], "ranks": [[1, 2]], "anchor": "a"}
    with pytest.raises(ValueError, match=message):
        stats.plackett_luce(**{**good, **change})
