"""Elo and ladders, against Agresti's baseball example and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from muzero import stats

# American League East, 1987: wins of the row against the column, with the abilities and standard errors of the
# Bradley-Terry model relative to Baltimore (Agresti, Categorical Data Analysis, 10.6; R package BradleyTerry2).
TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")


BASEBALL = np.array(
    [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ]
)


ABILITIES = {
    "Milwaukee": (1.5814, 0.3433),
    "Detroit": (1.4364, 0.3396),
    "Toronto": (1.2945, 0.3367),
    "New York": (1.2476, 0.3359),
    "Boston": (1.1077, 0.3339),
    "Cleveland": (0.6839, 0.3319),
}


def test_elo_and_rate_are_inverse_and_infinite_at_the_ends() -> None:
    assert stats.elo_of_rate(0.75) == pytest.approx(190.85, abs=0.005)
    assert stats.elo_of_rate(10 / 11) == pytest.approx(400)
    assert stats.rate_of_elo(-400) == pytest.approx(1 / 11)
    none, every = stats.elo(0, 50), stats.elo(50, 50)
    assert (none.estimate, none.low, every.estimate, every.high) == (-math.inf, -math.inf, math.inf, math.inf)
    assert none.high == pytest.approx(-every.low)
    assert none.high == pytest.approx(stats.elo_of_rate(stats.wilson(0, 50).high))
    assert (stats.rate_of_elo(math.inf), stats.rate_of_elo(-math.inf)) == (1, 0)


def test_ladder_equals_agrestis_baseball_example() -> None:
    ladder = stats.ladder(TEAMS, BASEBALL, "Baltimore", prior=0)
    assert [rating.name for rating in ladder.ratings] == list(TEAMS)
    for rating in ladder.ratings[:-1]:
        ability, error = ABILITIES[rating.name]
        assert rating.elo / stats.ELO_PER_LOGIT == pytest.approx(ability, abs=5e-4)
        assert (rating.high - rating.low) / 2 / 1.959964 / stats.ELO_PER_LOGIT == pytest.approx(error, abs=5e-4)
    last = ladder.ratings[-1]
    assert (last.elo, last.low, last.high, last.points, last.games) == (0, 0, 0, 18, 78)
    assert not ladder.separated
    assert (ladder.deviance, ladder.freedom) == (pytest.approx(15.7, abs=0.05), 15)
    assert ladder.fit == pytest.approx(0.4, abs=0.01)


def test_cyclic_results_do_not_fit_and_widen_the_intervals() -> None:
    circle = stats.ladder(["rock", "paper", "scissors"], [[0, 20, 80], [80, 0, 20], [20, 80, 0]], "rock")
    assert circle.freedom == 1
    assert circle.fit < 1e-9
    assert circle.dispersion == circle.deviance > 10
    even = stats.ladder(["rock", "paper", "scissors"], [[0, 50, 50], [50, 0, 50], [50, 50, 0]], "rock")
    assert even.dispersion == 1
    wide, narrow = (found.difference("paper", "scissors") for found in (circle, even))
    assert wide.high == pytest.approx(narrow.high * circle.dispersion**0.5, rel=1e-6)
    assert circle.ratings[1].high == pytest.approx(wide.high, rel=1e-6)
    assert stats.ladder(["a", "b"], [[0, 3], [1, 0]], "a").fit == 1, "nothing is left to explain"


def round_robin(rng: np.random.Generator, logits: NDArray[np.float64], games: int) -> NDArray[np.float64]:
    wins = np.triu(rng.binomial(games, expit(logits[:, None] - logits)), 1)
    return wins + np.triu(games - wins, 1).T


def ladder_coverage(runs: int, spread: float) -> float:
    """Share of intervals that cover the truth, over all pairs of four players (with the anchor: its rating)."""
    rng = np.random.default_rng(3)
    logits = dict(zip("abcd", spread * np.array([0.0, 1.0, -1.0, 2.0]), strict=True))
    covered = []
    for _ in range(runs):
        result = stats.ladder("abcd", round_robin(rng, np.array(list(logits.values())), 1000), "a")
        found = [(rating.name, "a", rating) for rating in result.ratings if rating.name != "a"]
        for x, y, interval in [*found, *((x, y, result.difference(x, y)) for x, y in ("bc", "bd", "cd"))]:
            covered.append(interval.low <= stats.ELO_PER_LOGIT * (logits[x] - logits[y]) <= interval.high)
    return float(np.mean(covered))


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.2])
def test_ladder_intervals_cover_at_the_nominal_rate(spread: float) -> None:
    assert 0.94 <= ladder_coverage(300, spread) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.2, 0.5, 1.2, 1.6])
def test_ladder_intervals_cover_closely_at_the_nominal_rate(spread: float) -> None:
    assert 0.945 <= ladder_coverage(4000, spread) <= 0.955


def test_ladder_of_two_players_equals_the_elo_of_their_match() -> None:
    result = stats.ladder(["baseline", "belief"], [[0, 247], [753, 0]], "baseline", prior=0)
    best = result.ratings[0]
    assert (best.name, best.points, best.games) == ("belief", 753, 1000)
    assert best.elo == pytest.approx(stats.elo(753, 1000).estimate)
    assert (best.low, best.high) == pytest.approx((stats.elo(753, 1000).low, stats.elo(753, 1000).high), abs=1.5)
    with_prior = stats.ladder(["baseline", "belief"], [[0, 247], [753, 0]], "baseline")
    assert with_prior.ratings[0].elo == pytest.approx(stats.elo_of_rate(753.5 / 1001))


def test_ladder_does_not_depend_on_the_anchor() -> None:
    by_first, by_last = (stats.ladder(TEAMS, BASEBALL, anchor) for anchor in ("Milwaukee", "Baltimore"))
    one, other = (result.difference("Detroit", "Boston") for result in (by_first, by_last))
    assert (one.estimate, one.low, one.high) == pytest.approx((other.estimate, other.low, other.high))
    row = next(rating for rating in by_last.ratings if rating.name == "Boston")
    boston = by_first.difference("Boston", "Baltimore")
    assert (row.elo, row.low, row.high) == pytest.approx((boston.estimate, boston.low, boston.high))


def test_ladder_is_marked_separated_if_one_player_always_wins() -> None:
    points = [[0, 10, 10], [0, 0, 6], [0, 4, 0]]
    result = stats.ladder("abc", points, "b")
    assert result.separated
    assert result.ratings[0].name == "a"
    assert 300 < result.ratings[0].elo < 1000
    assert result.ratings[0].high - result.ratings[0].low > 500
    assert stats.ladder("abc", points, "b", prior=0.01).ratings[0].elo > result.ratings[0].elo + 300
    with pytest.raises(ValueError, match="prior"):
        stats.ladder("abc", points, "b", prior=0)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.elo(11, 10), "points"),
        (lambda: stats.elo_of_rate(1.01), "rate"),
        (lambda: stats.rate_of_elo(math.nan), "difference"),
        (lambda: stats.ladder(["a"], [[0]], "a"), "names"),
        (lambda: stats.ladder("aa", np.ones((2, 2)) - np.eye(2), "a"), "names"),
        (lambda: stats.ladder("ab", [[0, 1, 1], [1, 0, 1]], "a"), "points"),
        (lambda: stats.ladder("ab", [[0, -1], [1, 0]], "a"), "points"),
        (lambda: stats.ladder("ab", [[1, 1], [1, 0]], "a"), "points"),
        (lambda: stats.ladder("abc", [[0, 1, 0], [1, 0, 0], [0, 0, 0]], "a"), "points.*none for c"),
        (lambda: stats.ladder("ab", [[0, 1], [1, 0]], "z"), "anchor"),
        (lambda: stats.ladder("ab", [[0, 1], [1, 0]], "a", prior=-1), "prior"),
        (lambda: stats.ladder("ab", [[0, 1], [1, 0]], "a").difference("a", "z"), "b"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
