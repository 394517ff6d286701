"""Statistics against published and textbook values, and their error rates by exact sums and by simulation."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom, bootstrap

from muzero import stats

# Tables 3 and 4 of the SkyNet paper, 1000 games each: wins, draws, Wilson interval, Elo. The paper counts a draw as a
# loss, so its numbers reproduce from the wins alone.
PUBLISHED = [
    (360, 0, 0.331, 0.390, -99),
    (422, 0, 0.392, 0.453, -55),
    (668, 0, 0.638, 0.696, 120),
    (742, 6, 0.714, 0.768, 184),
    (753, 7, 0.725, 0.779, 194),
    (690, 5, 0.661, 0.718, 139),
    (811, 8, 0.786, 0.834, 253),
]
# What 400 log10(p / (1 - p)) gives where the paper prints something else.
WRONG_ELOS = {360: -99.95, 668: 121.46}

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

IntervalOf = Callable[[float, int], stats.Interval]


def paired(rng: np.random.Generator, deals: int, rate: float, split: float) -> NDArray[np.float64]:
    """Points of a match: a deal is split (a win each, by seat) with this probability, else one agent wins both."""
    both = rng.random(deals) < (rate - split / 2) / (1 - split)
    first_seat = rng.random(deals) < 0.5
    games = np.where((rng.random(deals) < split)[:, None], np.stack([first_seat, ~first_seat], 1), both[:, None])
    return games.astype(np.float64).ravel()


# Published values.


@pytest.mark.parametrize(("wins", "draws", "low", "high", "elo"), PUBLISHED)
def test_the_papers_intervals_and_elos(wins: int, draws: int, low: float, high: float, elo: int) -> None:
    interval = stats.wilson(wins, 1000)
    assert (round(interval.low, 3), round(interval.high, 3)) == (low, high)
    difference = stats.elo(wins, 1000).estimate
    assert difference == pytest.approx(WRONG_ELOS.get(wins, difference), abs=0.005)
    assert (abs(difference - elo) > 0.5) == (wins in WRONG_ELOS)
    assert (stats.wilson(wins + draws / 2, 1000).high > high + 0.0005) == (draws > 0)


@pytest.mark.parametrize(("wins", "z"), [(753, 16.0), (668, 10.6), (690, 12.0), (811, 19.7)])
def test_the_papers_z(wins: int, z: float) -> None:
    test = stats.z_test(wins, 1000)
    assert round(test.statistic, 1) == z
    assert stats.z_test(1000 - wins, 1000).statistic == pytest.approx(-test.statistic)
    assert test.p_value == pytest.approx(math.erfc(test.statistic / math.sqrt(2)), rel=1e-9)


def test_the_skip_bo_papers_example_is_not_its_formula() -> None:
    size = stats.sample_size(0.55, 0.50)
    assert (size.per_arm, size.total) == (1562, 3124)  # printed: roughly 6500
    assert 6500 / size.total > 2.08
    assert stats.sample_size(0.55, 0.50, power=0.95).total == 5172
    assert stats.sample_size(0.50, 0.55) == size
    assert stats.sample_size_of_match(0.55) == stats.SampleSize(783, 1)


# Textbook values.


@pytest.mark.parametrize(
    ("wins", "n", "wilson", "exact"),
    [
        (81, 263, (0.2553, 0.3662), (0.2527, 0.3676)),
        (15, 148, (0.0624, 0.1605), (0.0578, 0.1617)),
        (0, 20, (0.0000, 0.1611), (0.0000, 0.1684)),
        (1, 29, (0.0061, 0.1718), (0.0009, 0.1776)),
    ],
)
def test_intervals_of_newcombe_1998(wins: int, n: int, wilson: tuple[float, float], exact: tuple[float, float]) -> None:
    for method, expected in ((stats.wilson, wilson), (stats.clopper_pearson, exact)):
        interval = method(wins, n)
        assert (interval.low, interval.high) == pytest.approx(expected, abs=5e-5)
        mirrored = method(n - wins, n)
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx(expected, abs=5e-5)
        assert interval.estimate == wins / n


def test_binomial_test() -> None:
    assert stats.binomial_test(51, 235, 1 / 6).p_value == pytest.approx(0.04375, abs=5e-6)  # 51 sixes, R's binom.test
    assert stats.binomial_test(8, 10).p_value == pytest.approx(2 * (45 + 10 + 1) / 1024)


def test_two_proportion_test() -> None:
    test = stats.two_proportion_test(60, 100, 40, 100)
    assert test.statistic == pytest.approx(0.2 / math.sqrt(0.5 * 0.5 * 2 / 100))
    assert test.p_value == pytest.approx(0.004678, abs=1e-6)
    assert stats.two_proportion_test(10, 10, 20, 20) == stats.Test(0.0, 1.0)


def test_elo() -> None:
    assert stats.elo_of_rate(0.75) == pytest.approx(190.85, abs=0.005)
    assert stats.elo_of_rate(10 / 11) == pytest.approx(400)
    assert stats.rate_of_elo(-400) == pytest.approx(1 / 11)
    none, every = stats.elo(0, 50), stats.elo(50, 50)
    assert (none.estimate, none.low, every.estimate, every.high) == (-math.inf, -math.inf, math.inf, math.inf)
    assert none.high == pytest.approx(-every.low)
    assert none.high == pytest.approx(stats.elo_of_rate(stats.wilson(0, 50).high))
    assert (stats.rate_of_elo(math.inf), stats.rate_of_elo(-math.inf)) == (1, 0)


def test_mcnemar() -> None:
    test = stats.mcnemar(121, 59, 134)  # the example of Wikipedia's article: chi-squared 21.35
    assert test.z**2 == pytest.approx(21.35, abs=0.01)
    assert stats.mcnemar(8, 2).p_value == pytest.approx(2 * (45 + 10 + 1) / 1024)
    assert stats.mcnemar(0, 0, 5) == stats.McNemar(0, 0, 5, 0.0, 1.0)


def test_mcnemar_counts_deals_by_points() -> None:
    games = [1, 1, 1, 0.5, 1, 0, 0.5, 0.5, 0, 1, 0, 0.5, 1, 1]
    assert stats.mcnemar_deals(games) == stats.mcnemar(3, 1, 3)


def test_mann_whitney() -> None:
    test = stats.mann_whitney([19, 22, 16, 29, 24], [20, 11, 17, 12])  # the example of scipy's documentation
    assert (test.u, test.effect) == (17, 0.85)
    assert test.p_value == pytest.approx(0.1111, abs=5e-5)
    assert stats.mann_whitney([1, 2], [2, 3]).effect == pytest.approx(0.5 / 4)
    assert stats.mann_whitney([5, 6, 7], [5, 6, 7]).effect == 0.5


def test_holm() -> None:
    result = stats.holm([0.01, 0.04, 0.03, 0.005])
    assert result.adjusted == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert result.rejected == (True, False, False, True)
    assert stats.holm([0.6, 0.7]).adjusted == (1, 1)
    assert stats.holm([0.01, 0.04, 0.03, 0.005], alpha=0.07).rejected == (True,) * 4


def test_ladder_of_agresti() -> None:
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


def test_a_circle_of_winners_does_not_fit_on_a_ladder() -> None:
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


def test_brier_and_reliability_by_hand() -> None:
    p, won = [0.1, 0.1, 0.3, 0.9, 1.0], [0, 1, 0.5, 1, 1]
    score = stats.brier(p, won)
    assert score.score == pytest.approx((0.01 + 0.81 + 0.04 + 0.01 + 0) / 5)
    assert score.reference == pytest.approx(0.16)
    assert score.skill == pytest.approx(1 - 0.174 / 0.16)
    curve = stats.reliability_curve(p, won)
    assert [(part.low, part.high, part.count) for part in curve.bins] == [(0.1, 0.2, 2), (0.3, 0.4, 1), (0.9, 1.0, 2)]
    assert [part.predicted for part in curve.bins] == pytest.approx([0.1, 0.3, 0.95])
    assert [part.observed for part in curve.bins] == [stats.wilson(1, 2), stats.wilson(0.5, 1), stats.wilson(2, 2)]
    assert curve.calibration_error == pytest.approx((2 * 0.4 + 0.2 + 2 * 0.05) / 5)
    assert stats.brier([0.5, 0.5], [1, 1]).skill == 0


def test_rolling_mean() -> None:
    assert stats.rolling_mean([1, 2, 6, 3], 2).tolist() == [1, 1.5, 4, 4.5]
    assert stats.rolling_mean([1, 2, 6], 9).tolist() == [1, 1.5, 3]
    assert stats.rolling_mean([1, 2, 6], 1).tolist() == [1, 2, 6]


# Draws.


@pytest.mark.parametrize("method", [stats.wilson, stats.clopper_pearson])
def test_half_points_widen_an_interval(method: IntervalOf) -> None:
    half, down, up = (method(points, 100) for points in (60.5, 60, 61))
    assert (half.estimate, half.low, half.high) == (0.605, down.low, up.high)
    thirds = method(0.7 + 0.2 + 0.1, 10)  # a little less than 1
    assert (thirds.low, thirds.high) == (method(1, 10).low, method(1, 10).high)


def test_half_points_take_the_larger_p_value() -> None:
    assert stats.binomial_test(60.5, 100).p_value == stats.binomial_test(60, 100).p_value
    assert stats.binomial_test(39.5, 100).p_value == stats.binomial_test(40, 100).p_value


# Error rates.


def covering(method: IntervalOf, n: int, p: float) -> tuple[float, float]:
    """The least and the most points, in halves, whose interval covers p: both ends rise with the points."""
    halves = range(2 * n + 1)
    least = bisect_left(halves, True, key=lambda half: method(half / 2, n).high >= p)
    most = bisect_left(halves, True, key=lambda half: method(half / 2, n).low > p) - 1
    return least / 2, most / 2


def exact_coverage(method: IntervalOf, n: int, p: float) -> float:
    """Sum of the binomial probabilities of the wins whose interval covers p."""
    least, most = covering(method, n, p)
    return float(binom.cdf(math.floor(most), n, p) - binom.cdf(math.ceil(least) - 1, n, p))


@pytest.mark.parametrize("p", [0.05, 0.2, 0.36, 0.5, 0.55, 0.75, 0.9, 0.99])
def test_coverage_of_wilson_and_clopper_pearson(p: float) -> None:
    assert 0.94 <= exact_coverage(stats.wilson, 1000, p) <= 0.965
    assert 0.95 <= exact_coverage(stats.clopper_pearson, 1000, p) <= 0.98
    low, high = 0.5 * p, 0.5 + 0.5 * p
    assert exact_coverage(lambda k, n: stats.Interval(0, low, high, 0), 1000, p) > 0.999  # the sum itself


@pytest.mark.parametrize("p", [0.2, 0.5, 0.75])
@pytest.mark.parametrize("method", [stats.wilson, stats.clopper_pearson])
def test_draws_make_intervals_conservative(method: IntervalOf, p: float) -> None:
    draws = 0.2
    counts = np.random.default_rng(0).multinomial(1000, [p - draws / 2, draws, 1 - p - draws / 2], 20_000)
    points = counts[:, 0] + counts[:, 1] / 2
    least, most = covering(method, 1000, p)
    assert 0.955 <= ((least <= points) & (points <= most)).mean() < 1


@pytest.mark.parametrize("p", [0.36, 0.5, 0.9])
def test_coverage_of_elo_is_that_of_wilson(p: float) -> None:
    difference = stats.elo_of_rate(p)

    def rates(points: float, n: int) -> stats.Interval:
        interval = stats.elo(points, n)
        low, high = (stats.rate_of_elo(end) for end in (interval.low, interval.high))
        assert (low <= p <= high) == (interval.low <= difference <= interval.high)
        return stats.Interval(points / n, low, high, 0.95)

    assert exact_coverage(rates, 1000, p) == exact_coverage(stats.wilson, 1000, p)


def bootstrap_coverage(runs: int, rate: float, split: float) -> float:
    rng = np.random.default_rng(1)
    intervals = [stats.paired_bootstrap(paired(rng, 1000, rate, split), resamples=800, seed=i) for i in range(runs)]
    return sum(interval.low <= rate <= interval.high for interval in intervals) / runs


@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.3), (0.55, 0.5), (0.9, 0.1)])
def test_coverage_of_the_paired_bootstrap(rate: float, split: float) -> None:
    assert 0.94 <= bootstrap_coverage(1000, rate, split) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.0), (0.5, 0.9), (0.55, 0.5), (0.75, 0.4), (0.95, 0.05)])
def test_coverage_of_the_paired_bootstrap_closely(rate: float, split: float) -> None:
    assert 0.943 <= bootstrap_coverage(10_000, rate, split) <= 0.957


def test_wilson_is_conservative_for_deals_that_split() -> None:
    rng = np.random.default_rng(2)
    results = [stats.wilson(paired(rng, 500, 0.55, 0.7).sum(), 1000) for _ in range(200)]
    assert sum(result.low <= 0.55 <= result.high for result in results) / 200 > 0.98


def round_robin(rng: np.random.Generator, logits: NDArray[np.float64], games: int) -> NDArray[np.float64]:
    wins = np.triu(rng.binomial(games, expit(logits[:, None] - logits)), 1)
    return wins + np.triu(games - wins, 1).T


def ladder_coverage(runs: int, spread: float) -> float:
    """Share of intervals that cover, over all pairs of four players; the pairs with the anchor by their rows."""
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
def test_coverage_of_the_ladder(spread: float) -> None:
    assert 0.94 <= ladder_coverage(300, spread) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.2, 0.5, 1.2, 1.6])
def test_coverage_of_the_ladder_closely(spread: float) -> None:
    assert 0.945 <= ladder_coverage(4000, spread) <= 0.955


def test_power_at_the_sample_size() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.binomial(1562, 0.55, 2000), rng.binomial(1562, 0.50, 2000)
    found = [stats.two_proportion_test(x, 1562, y, 1562).p_value < 0.05 for x, y in zip(a, b, strict=True)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)
    found = [stats.z_test(x, 783).p_value < 0.05 for x in rng.binomial(783, 0.55, 2000)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)


def test_mcnemar_keeps_its_error_rate() -> None:
    rng = np.random.default_rng(5)
    p = [stats.mcnemar_deals(paired(rng, 300, 0.5, 0.4)).p_value for _ in range(500)]
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.055
    assert stats.mcnemar_deals(paired(rng, 300, 0.65, 0.4)).p_value < 1e-4


def false_alarms(runs: int, deals: int, rate: float, split: float) -> float:
    """Share of matches in which somebody who looks after every deal ever rejects the true mean at 5 %."""
    rng = np.random.default_rng(6)
    matches = (paired(rng, deals, rate, split).reshape(-1, 2).mean(1) for _ in range(runs))
    return float(np.mean([stats.sequential_p_values(match, rate).min() <= 0.05 for match in matches]))


@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.5), (0.7, 0.2)])
def test_sequential_test_keeps_its_error_rate(rate: float, split: float) -> None:
    assert 0.005 < false_alarms(400, 1000, rate, split) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "split"), [(0.5, 0.0), (0.5, 0.5), (0.5, 0.9), (0.7, 0.2), (0.95, 0.05)])
def test_sequential_test_keeps_its_error_rate_for_long(rate: float, split: float) -> None:
    assert 0.005 < false_alarms(2000, 3000, rate, split) <= 0.05


def test_looking_often_at_a_plain_test_does_not() -> None:
    """What the sequential test is for: the same matches, and a z test after each hundredth deal."""
    rng = np.random.default_rng(7)
    looks = np.arange(100, 1501, 100)
    wins = rng.binomial(100, 0.5, (200, len(looks))).cumsum(1)
    p = [[stats.z_test(int(k), int(n)).p_value for k, n in zip(row, looks, strict=True)] for row in wins]
    assert (np.min(p, axis=1) <= 0.05).mean() > 0.12


# Properties.


def test_who_has_won_every_deal_may_yet_lose_one() -> None:
    assert stats.win_rate_of_deals([1.0] * 200) == stats.wilson(100, 100)
    assert stats.win_rate_of_deals([0.5] * 300, per_deal=3) == stats.wilson(50, 100)
    assert stats.win_rate_of_deals([1, 1, 0, 1]) == stats.paired_bootstrap([1, 1, 0, 1])


def test_paired_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(8)
    games = rng.normal(2, 5, 400) + np.repeat(rng.normal(0, 3, 200), 2)
    ours = stats.paired_bootstrap(games, 0.9, resamples=5000)
    means = games.reshape(-1, 2).mean(1)
    theirs = bootstrap(
        (means,), np.mean, confidence_level=0.9, n_resamples=5000, method="BCa", rng=rng
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.estimate == pytest.approx(games.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.04 * width)
    assert stats.paired_bootstrap(games, seed=1) == stats.paired_bootstrap(games, seed=1)
    assert stats.paired_bootstrap(games, seed=1) != stats.paired_bootstrap(games, seed=2)


def test_paired_bootstrap_of_skewed_rates_agrees_with_scipy() -> None:
    """By more than plain percentiles would, which are too high here."""
    rng = np.random.default_rng(5)
    ours, theirs, plain = [], [], []
    for _ in range(10):
        games = rng.choice([0, 0.5, 1.0], 1000, p=[0.05, 0.02, 0.93])
        found = stats.paired_bootstrap(games, resamples=4000)
        ours.append((found.low, found.high))
        for method, kept in (("BCa", theirs), ("percentile", plain)):
            means = (games.reshape(-1, 2).mean(1),)
            ends = bootstrap(means, np.mean, n_resamples=4000, method=method, rng=rng).confidence_interval
            kept.append((ends.low, ends.high))
    assert np.mean(ours, 0) == pytest.approx(np.mean(theirs, 0), abs=5e-4)
    assert (np.mean(plain, 0) > np.mean(theirs, 0) + 5e-4).all()


def test_variance_reduction() -> None:
    rng = np.random.default_rng(9)
    runs = [paired(rng, 400, 0.6, 0.6) for _ in range(2000)]
    reduction = stats.variance_reduction(np.concatenate(runs))
    deal_variance = 0.6 * 0.5**2 + 0.4 * 0.75 - 0.6**2  # a deal's mean is 1/2, or 1 in three of four others
    assert reduction.factor == pytest.approx(0.24 / 2 / deal_variance, rel=0.01)
    assert reduction.correlation == pytest.approx(2 * deal_variance / 0.24 - 1, abs=0.01)
    assert reduction.effective_games == pytest.approx(reduction.factor * 2000 * 800)
    assert reduction.unpaired_error == pytest.approx(math.sqrt(0.24 / (2000 * 800)), rel=0.01)
    assert reduction.seat_effect == pytest.approx(0, abs=0.01)
    spread = np.std([run.mean() for run in runs])
    assert stats.variance_reduction(runs[0]).paired_error == pytest.approx(spread, rel=0.1)


def test_variance_reduction_at_its_limits() -> None:
    luck = stats.variance_reduction([1, 0, 0, 1, 1, 0])
    assert (luck.paired_error, luck.factor, luck.correlation) == (0, math.inf, pytest.approx(-1))
    assert luck.seat_effect == pytest.approx(1 / 3)
    won = stats.variance_reduction([1, 1, 1, 1])
    assert (won.factor, won.correlation, won.unpaired_error, won.effective_games) == (1, 0, 0, 4)
    seat = stats.variance_reduction([1, 0, 1, 1, 1, 0])
    assert (seat.correlation, seat.factor) == (0, pytest.approx(1))


def test_ladder_of_two_is_the_elo_of_their_match() -> None:
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


def test_ladder_with_a_player_who_always_wins() -> None:
    points = [[0, 10, 10], [0, 0, 6], [0, 4, 0]]
    result = stats.ladder("abc", points, "b")
    assert result.separated
    assert result.ratings[0].name == "a"
    assert 300 < result.ratings[0].elo < 1000
    assert result.ratings[0].high - result.ratings[0].low > 500
    assert stats.ladder("abc", points, "b", prior=0.01).ratings[0].elo > result.ratings[0].elo + 300
    with pytest.raises(ValueError, match="prior"):
        stats.ladder("abc", points, "b", prior=0)


@pytest.mark.parametrize("rate", [0.5, 0.53, 0.6, 0.9])
def test_sequential_decision_interval_and_p_agree(rate: float) -> None:
    deals = paired(np.random.default_rng(10), 1500, rate, 0.1).reshape(-1, 2).mean(1)
    path = stats.sequential_p_values(deals)
    for n in (1, 10, 100, 400, 1500):
        test = stats.sequential_test(deals[:n])
        assert test.p_value == pytest.approx(path[n - 1])
        assert (test.decision == "higher") == (test.low > 0.5)
        assert (test.decision in ("higher", "lower")) == (test.p_value < 0.05)
        assert 0 <= test.low < test.mean < test.high <= 1 or test.mean in (0, 1)
        assert stats.sequential_test(deals[:n], test.low).p_value == pytest.approx(0.05, rel=1e-4) or test.low == 0
        assert stats.sequential_test(np.sort(deals[:n])).low == pytest.approx(test.low)
        mirrored = stats.sequential_test(1 - deals[:n])
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((test.low, test.high))


def test_sequential_test_by_hand() -> None:
    """After one deal won the wealth is the average of 1 + g (1 / m - 1)."""
    share = stats.BETS.mean()
    assert stats.sequential_p_values([1.0], 0.1).tolist() == pytest.approx([2 / (1 + 9 * share)])
    assert stats.sequential_test([1.0]).low == pytest.approx(1 / (1 + 39 / share))
    assert stats.sequential_test([1.0]).high == 1


def test_sequential_test_stops() -> None:
    rng = np.random.default_rng(11)
    better = paired(rng, 2500, 0.55, 0.5).reshape(-1, 2).mean(1)
    assert stats.sequential_test(better).decision == "higher"
    assert stats.sequential_test(1 - better).decision == "lower"
    stops = [
        np.argmax(stats.sequential_p_values(paired(rng, 2500, 0.55, 0.5).reshape(-1, 2).mean(1)) <= 0.05)
        for _ in range(100)
    ]
    assert 300 < np.median(stops) < 650  # a fixed match needs 391 deals for power 0.8, if it is known what to look for
    even = paired(rng, 12_000, 0.5, 0.5).reshape(-1, 2).mean(1)
    assert stats.sequential_test(even, margin=0.03).decision == "equal"
    assert stats.sequential_test(even).decision == "continue"
    assert stats.sequential_test(even[:200], margin=0.03).decision == "continue"


def test_equal_needs_both_ends_inside_the_margin() -> None:
    deals = np.repeat([0.0, 0.5, 1.0], [1060, 2000, 940])  # mean 0.485
    test = stats.sequential_test(deals)
    assert 0.44 < test.low < 0.47
    assert 0.50 < test.high < 0.53
    for x in (deals, 1 - deals):
        assert stats.sequential_test(x, margin=0.03).decision == "continue"
        assert stats.sequential_test(x, margin=0.06).decision == "equal"


# Refusals.


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.wilson(-1, 10), "points"),
        (lambda: stats.wilson(11, 10), "points"),
        (lambda: stats.wilson(math.nan, 10), "points"),
        (lambda: stats.wilson(0, 0), "n"),
        (lambda: stats.clopper_pearson(1, 2.5), "n"),  # type: ignore[arg-type]
        (lambda: stats.clopper_pearson(5, 10, 1.0), "confidence"),
        (lambda: stats.binomial_test(5, 10, 1.5), "null"),
        (lambda: stats.z_test(5, 10, 0.0), "null"),
        (lambda: stats.two_proportion_test(5, 10, 11, 10), "points"),
        (lambda: stats.elo(11, 10), "points"),
        (lambda: stats.elo_of_rate(1.01), "rate"),
        (lambda: stats.rate_of_elo(math.nan), "difference"),
        (lambda: stats.paired_bootstrap([]), "games"),
        (lambda: stats.paired_bootstrap([1, 0, 1]), "games"),
        (lambda: stats.paired_bootstrap([1, 0], resamples=0), "resamples"),
        (lambda: stats.paired_bootstrap([1, math.nan]), "games"),
        (lambda: stats.mcnemar(-1, 2), "better"),
        (lambda: stats.mcnemar(1, -2), "worse"),
        (lambda: stats.mcnemar_deals([0.3, 1]), "games"),
        (lambda: stats.variance_reduction([1, 0]), "games"),
        (lambda: stats.mann_whitney([], [1]), "first"),
        (lambda: stats.mann_whitney([1], [math.inf]), "second"),
        (lambda: stats.holm([0.1, 1.1]), "p_values"),
        (lambda: stats.holm([]), "p_values"),
        (lambda: stats.sample_size(0.5, 0.5), "rates"),
        (lambda: stats.sample_size(1.2, 0.5), "the first rate"),
        (lambda: stats.sample_size_of_match(0.55, power=1.0), "power"),
        (lambda: stats.ladder(["a"], [[0]], "a"), "names"),
        (lambda: stats.ladder("aa", np.ones((2, 2)) - np.eye(2), "a"), "names"),
        (lambda: stats.ladder("ab", [[0, 1, 1], [1, 0, 1]], "a"), "points"),
        (lambda: stats.ladder("ab", [[0, -1], [1, 0]], "a"), "points"),
        (lambda: stats.ladder("ab", [[1, 1], [1, 0]], "a"), "points"),
        (lambda: stats.ladder("abc", [[0, 1, 0], [1, 0, 0], [0, 0, 0]], "a"), "points.*none for c"),
        (lambda: stats.ladder("ab", [[0, 1], [1, 0]], "z"), "anchor"),
        (lambda: stats.ladder("ab", [[0, 1], [1, 0]], "a", prior=-1), "prior"),
        (lambda: stats.ladder("ab", [[0, 1], [1, 0]], "a").difference("a", "z"), "b"),
        (lambda: stats.sequential_test([]), "deals"),
        (lambda: stats.sequential_test([0.5, 1.5]), "deals"),
        (lambda: stats.sequential_test([0.5], 1.0), "null"),
        (lambda: stats.sequential_test([0.5], margin=-0.1), "margin"),
        (lambda: stats.sequential_test([0.5], alpha=0.0), "alpha"),
        (lambda: stats.sequential_p_values([2.0]), "deals"),
        (lambda: stats.brier([1.2], [1]), "probabilities"),
        (lambda: stats.brier([0.2], [-1]), "outcomes"),
        (lambda: stats.brier([0.2, 0.3], [1]), "outcomes"),
        (lambda: stats.reliability_curve([], []), "probabilities"),
        (lambda: stats.reliability_curve([0.2], [1], bins=0), "bins"),
        (lambda: stats.rolling_mean([1], 0), "window"),
        (lambda: stats.rolling_mean([], 2), "values"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        call()
