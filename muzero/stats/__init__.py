"""Statistics of matches: intervals, tests, ratings, early stopping and calibration.

A result is `points` out of `n` games, a draw counting half a point. Everything that is built on the binomial
distribution treats half points conservatively, in two ways: where a method needs whole successes the points are
rounded away from a claim (an interval's ends outwards, a p-value upwards), and a game that can be drawn varies less
than the win-or-loss game of the same mean that the binomial assumes (by a quarter of the share of draws).

These methods also take the games as independent. Games of one deal with the seats swapped are not: good cards usually
win for whoever holds them, which correlates the two games negatively and makes a binomial interval too wide. (A
positive correlation, which `variance_reduction` shows, would make it too narrow.) The methods for paired deals take
the deal as the unit instead. They expect `games`, [2 D]: one number per game, the two games of a deal next to each
other, agent a in the first seat and then in the second.

Tests are two-sided. Nothing here clips, guesses or drops bad input: it is a ValueError that names the argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logsumexp, xlogy
from scipy.stats import binomtest, chi2, mannwhitneyu, norm

from muzero.config import require

Floats = NDArray[np.float64]

ELO_PER_LOGIT = 400 / math.log(10)
_MISFIT = 0.01  # p-value of a ladder's deviance below which its ratings do not explain the pairings

# The shares of the wealth that `sequential_test` bets, each with an equal part of it. The best share for an advantage
# d over 1/2 is about d / (2 variance): these serve advantages from below 0.01 up.
BETS = np.geomspace(0.005, 0.95, 32)


# Checks of arguments.


def _number_between(key: str, value: float, low: float, high: float) -> None:
    require(low <= value <= high, key, f"a number from {low:g} to {high:g}", value)


def _inside_unit(key: str, value: float) -> None:
    require(0 < value < 1, key, "a number between 0 and 1, both excluded", value)


def _record(points: float, n: int) -> None:
    _count("n", n, 1)
    require(0 <= points <= n, "points", f"from 0 to n = {n}", points)


def _count(key: str, value: int, least: int) -> None:
    require(isinstance(value, int | np.integer) and value >= least, key, f"an integer of {least} or more", value)


def _vector(key: str, values: ArrayLike, low: float = -math.inf, high: float = math.inf) -> Floats:
    """Values as a non-empty vector of finite numbers between two bounds."""
    array = np.asarray(values, np.float64)
    require(array.ndim == 1 and array.size > 0, key, "a vector that is not empty", f"shape {array.shape}")
    bad = ~np.isfinite(array) | (array < low) | (array > high)
    expected = "finite numbers" if math.isinf(low) else f"numbers from {low:g} to {high:g}"
    require(not bad.any(), key, expected, f"{array[bad][:1]} at index {np.flatnonzero(bad)[:1]}")
    return array


# One proportion.


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that covers the truth with this confidence."""

    estimate: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Test:
    """A test statistic (for the exact binomial test the observed rate) and its two-sided p-value."""

    __test__ = False  # not a test class for pytest

    statistic: float
    p_value: float


def _whole(points: float) -> tuple[int, int]:
    """Points rounded down and up, after removing what sums of thirds leave behind."""
    exact = round(points, 9)
    return math.floor(exact), math.ceil(exact)


def _binomial_interval(points: float, n: int, confidence: float, method: str) -> Interval:
    _record(points, n)
    _inside_unit("confidence", confidence)
    down, up = _whole(points)
    low = binomtest(down, n).proportion_ci(confidence, method).low
    high = binomtest(up, n).proportion_ci(confidence, method).high
    return Interval(points / n, float(low), float(high), confidence)


def wilson(points: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a win rate: coverage close to nominal (not a bound), conservative with draws.

    With an odd number of draws the low end is that of the points rounded down, the high end of those rounded up.
    """
    return _binomial_interval(points, n, confidence, "wilson")


def clopper_pearson(points: float, n: int, confidence: float = 0.95) -> Interval:
    """Clopper-Pearson interval of a win rate: covers at least nominally without draws (by proof), and with (tested)."""
    return _binomial_interval(points, n, confidence, "exact")


def binomial_test(points: float, n: int, null: float = 0.5) -> Test:
    """Exact test that the win rate is `null`; of the two roundings of a half point the larger p-value."""
    _record(points, n)
    _number_between("null", null, 0, 1)
    p_value = max(binomtest(whole, n, null).pvalue for whole in _whole(points))
    return Test(points / n, float(p_value))


def z_test(points: float, n: int, null: float = 0.5) -> Test:
    """Normal approximation with the variance of the null, (rate - null) / sqrt(null (1 - null) / n)."""
    _record(points, n)
    _inside_unit("null", null)
    z = (points / n - null) / math.sqrt(null * (1 - null) / n)
    return Test(z, _two_sided(z))


def two_proportion_test(points_a: float, n_a: int, points_b: float, n_b: int) -> Test:
    """z test that two independent win rates are equal, with the pooled variance. Not for the two sides of one match."""
    _record(points_a, n_a)
    _record(points_b, n_b)
    pooled = (points_a + points_b) / (n_a + n_b)
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / n_a + 1 / n_b))
    z = (points_a / n_a - points_b / n_b) / deviation if deviation else 0.0  # all won or all lost: equal
    return Test(z, _two_sided(z))


def _two_sided(z: float) -> float:
    return float(2 * norm.sf(abs(z)))


# Elo.


def elo_of_rate(rate: float) -> float:
    """Elo difference with this expected score: 400 log10(rate / (1 - rate)), minus infinity at 0, infinity at 1."""
    _number_between("rate", rate, 0, 1)
    if rate in (0, 1):
        return math.inf if rate else -math.inf
    return 400 * math.log10(rate / (1 - rate))


def rate_of_elo(difference: float) -> float:
    """Expected score at an Elo difference, infinite ones included."""
    require(not math.isnan(difference), "difference", "a number", difference)
    return float(expit(difference / ELO_PER_LOGIT))


def elo(points: float, n: int, confidence: float = 0.95) -> Interval:
    """Elo difference and the image of the Wilson interval, so that it covers exactly when that does.

    With no points the estimate and the low end are minus infinity and the high end is finite; with all, mirrored.
    """
    rate = wilson(points, n, confidence)
    return Interval(elo_of_rate(rate.estimate), elo_of_rate(rate.low), elo_of_rate(rate.high), confidence)


# Paired deals.


@dataclass(frozen=True)
class McNemar:
    """McNemar's test.

    Attributes:
      better, worse, tied: deals that went to a, to b, and to neither.
      z: (better - worse) / sqrt(better + worse), whose square is McNemar's chi-squared.
      p_value: exact, of the sign test among the deals that went to somebody.
    """

    better: int
    worse: int
    tied: int
    z: float
    p_value: float


@dataclass(frozen=True)
class VarianceReduction:
    """What playing each deal twice brought.

    Attributes:
      correlation: between the two games of a deal; negative is what pairing lives on. 0 where a seat never varies.
      unpaired_error: standard error of the mean if as many games had had deals of their own, half of them per seat.
      paired_error: standard error of the mean over deals.
      factor: (unpaired_error / paired_error)^2, infinite if all deals gave the same; 1 if all games did.
      effective_games: how many games with deals of their own would have been as precise.
      seat_effect: mean in the first seat minus mean in the second.
    """

    correlation: float
    unpaired_error: float
    paired_error: float
    factor: float
    effective_games: float
    seat_effect: float


def deals_of(games: ArrayLike, per_deal: int = 2) -> Floats:
    """Games [n D], the n of a deal next to each other, by deal and seat, [D, n]."""
    array = _vector("games", games)
    require(len(array) % per_deal == 0, "games", f"{per_deal} per deal, a multiple of that", len(array))
    return array.reshape(-1, per_deal)


def paired_bootstrap(
    games: ArrayLike, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0, per_deal: int = 2
) -> Interval:
    """Mean per game and its bootstrap interval (BCa, Efron 1987), resampling deals, each of `per_deal` games.

    `games` may be any number per game: points, score differences, or the difference of two agents' results against
    the same opponent in the same deals. Deals of equal value are exchangeable, so a resample is drawn as multinomial
    counts of the distinct values: the bootstrap itself, not an approximation, at the cost of the number of
    distinct values instead of that of deals. Win rates near 0 or 1 are skewed: plain percentiles cover too seldom.
    """
    means = deals_of(games, per_deal).mean(1)
    _inside_unit("confidence", confidence)
    _count("resamples", resamples, 1)
    values, counts = np.unique(means, return_counts=True)
    rng = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // len(values))
    sizes = [min(chunk, resamples - start) for start in range(0, resamples, chunk)]
    shares = counts / len(means)
    sample = np.concatenate([rng.multinomial(len(means), shares, size) @ values for size in sizes]) / len(means)
    estimate = float(shares @ values)
    low, high = np.quantile(sample, _accelerated(sample, estimate, values - estimate, counts, confidence))
    return Interval(estimate, float(low), float(high), confidence)


def _accelerated(
    sample: NDArray[np.float64],
    estimate: float,
    deviations: NDArray[np.float64],
    counts: NDArray[np.int64],
    confidence: float,
) -> NDArray[np.float64]:
    """Which quantiles of the resamples are the ends of an interval of a mean."""
    ends = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    squares = float(counts @ deviations**2)
    if squares == 0:
        return ends
    slack = 1e-12 * (1 + abs(estimate))  # sums in another order
    below = np.mean(sample < estimate - slack) + np.mean(np.abs(sample - estimate) <= slack) / 2
    bias = norm.ppf(np.clip(below, 1 / len(sample), 1 - 1 / len(sample)))
    acceleration = float(counts @ deviations**3) / (6 * squares**1.5)
    shifted = bias + norm.ppf(ends)
    moved: NDArray[np.float64] = norm.cdf(bias + shifted / (1 - acceleration * shifted))
    return moved


def win_rate_of_deals(
    points: ArrayLike, per_deal: int = 2, confidence: float = 0.95, resamples: int = 10_000
) -> Interval:
    """Win rate and its interval with the deal as the unit, `points` being 0 to 1 per game.

    The bootstrap's; where all deals are equal, of which a resample learns nothing, Wilson's of as many games as deals.
    """
    found = paired_bootstrap(points, confidence, resamples, per_deal=per_deal)
    if found.low < found.high:
        return found
    deals = deals_of(points, per_deal)
    return wilson(float(deals.mean(1).sum()), len(deals), confidence)


def mcnemar(better: int, worse: int, tied: int = 0) -> McNemar:
    """McNemar's test from counts of discordant pairs; the tied ones say nothing about who is stronger."""
    for key, count in (("better", better), ("worse", worse), ("tied", tied)):
        _count(key, count, 0)
    decided = better + worse
    if not decided:
        return McNemar(better, worse, tied, 0.0, 1.0)
    p_value = float(binomtest(better, decided).pvalue)
    return McNemar(better, worse, tied, (better - worse) / math.sqrt(decided), p_value)


def mcnemar_deals(games: ArrayLike) -> McNemar:
    """McNemar's test of a match, `games` being a's points, 0, 0.5 or 1.

    The same cards are played once by a and once by b. A deal goes to the agent that made more of them, that is, took
    more than one point of two; if the agents are equally strong both are as likely to. A point each is a tie.
    """
    points = deals_of(games)
    bad = points[~np.isin(points, (0, 0.5, 1))]
    require(not bad.size, "games", "points of 0, 0.5 or 1", bad[:1])
    totals = points.sum(1)
    return mcnemar(int((totals > 1).sum()), int((totals < 1).sum()), int((totals == 1).sum()))


def variance_reduction(games: ArrayLike) -> VarianceReduction:
    """Compares the match as played with one whose games all had deals of their own, half of them in each seat."""
    deals = deals_of(games)
    require(len(deals) >= 2, "games", "two deals or more", f"{len(deals)} deal")
    (first, covariance), (_, second) = np.cov(deals, rowvar=False)
    unpaired = (first + second) / 2 / deals.size
    paired = deals.mean(1).var(ddof=1) / len(deals)
    correlation = covariance / math.sqrt(first * second) if first * second > 0 else 0.0
    factor = unpaired / paired if paired > 0 else (math.inf if unpaired > 0 else 1.0)
    seat_effect = float(np.subtract(*deals.mean(0)))
    errors = math.sqrt(unpaired), math.sqrt(paired)
    return VarianceReduction(float(correlation), *errors, float(factor), float(factor * deals.size), seat_effect)


# Two samples, many tests, and how many games.


@dataclass(frozen=True)
class MannWhitney:
    """Mann-Whitney's test.

    Attributes:
      u: pairs in which the value of the first sample is greater, ties half.
      p_value: exact for small samples without ties, else the normal approximation corrected for ties.
      effect: u as a share of all pairs, the common-language effect size: P(first > second) + P(equal) / 2.
    """

    u: float
    p_value: float
    effect: float


@dataclass(frozen=True)
class Holm:
    """Holm's correction, in the order of the p-values given: adjusted p-values, and which tests are rejected."""

    adjusted: tuple[float, ...]
    rejected: tuple[bool, ...]


@dataclass(frozen=True)
class SampleSize:
    """Games needed for each of the `arms`, and in all."""

    per_arm: int
    arms: int

    @property
    def total(self) -> int:
        """Games in all."""
        return self.per_arm * self.arms


def mann_whitney(first: ArrayLike, second: ArrayLike) -> MannWhitney:
    """Whether values of one sample tend to be greater than those of another (lengths of games, say)."""
    x, y = _vector("first", first), _vector("second", second)
    result = mannwhitneyu(x, y)
    return MannWhitney(float(result.statistic), float(result.pvalue), float(result.statistic / (len(x) * len(y))))


def holm(p_values: ArrayLike, alpha: float = 0.05) -> Holm:
    """Keeps the chance of any false rejection among the tests below alpha, however they depend on each other."""
    p = _vector("p_values", p_values, 0, 1)
    _inside_unit("alpha", alpha)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return Holm(tuple(adjusted.tolist()), tuple((adjusted <= alpha).tolist()))


def sample_size(p1: float, p2: float, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
    """Games to tell two independent win rates apart, as of two agents against a common opponent.

    Per arm (z_{alpha/2} + z_beta)^2 (p1 (1 - p1) + p2 (1 - p2)) / (p1 - p2)^2, equation 1 of the Skip-Bo paper. For
    its example, 0.55 against 0.50 at alpha 0.05 and power 0.8, that is 1,562 per arm and 3,124 in all; the paper
    prints "roughly 6 500 games", 2.1 times the total. (Power 0.95 would need 5,172.)
    """
    _rates_to_tell_apart(p1, p2, alpha, power)
    quantiles = norm.isf(alpha / 2) + norm.ppf(power)
    return SampleSize(math.ceil(quantiles**2 * (p1 * (1 - p1) + p2 * (1 - p2)) / (p1 - p2) ** 2), 2)


def sample_size_of_match(rate: float, null: float = 0.5, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
    """Games of one head-to-head to tell its win rate from `null` by `z_test`: 783 for 0.55 and the defaults.

    A match needs a quarter of the games of `sample_size`, since one side's win is the other's loss.
    """
    _rates_to_tell_apart(rate, null, alpha, power)
    spread = norm.isf(alpha / 2) * math.sqrt(null * (1 - null)) + norm.ppf(power) * math.sqrt(rate * (1 - rate))
    return SampleSize(math.ceil((spread / (rate - null)) ** 2), 1)


def _rates_to_tell_apart(p1: float, p2: float, alpha: float, power: float) -> None:
    for key, value in (("the first rate", p1), ("the second rate", p2), ("alpha", alpha)):
        _inside_unit(key, value)
    require(0.5 <= power < 1, "power", "at least 0.5 and below 1", power)
    require(p1 != p2, "rates", "two that differ", p1)


# Ladder.


@dataclass(frozen=True)
class Rating:
    """A player's Elo relative to the anchor, with its interval, and what it is from."""

    name: str
    elo: float
    low: float
    high: float
    points: float
    games: float


@dataclass(frozen=True)
class Ladder:
    """Ratings, the strongest first.

    Attributes:
      anchor: the player whose Elo is 0 by definition; intervals are of the difference to it.
      separated: without the prior some rating would be infinite (a group of players won or lost everything against
        the others); the ratings on both sides of the gap then depend on the prior.
      names, covariance: of the Elos, in the order given, [P] and [P, P].
      deviance, freedom: of the pairings from what the ratings predict, and its degrees of freedom.
      fit: p-value of the deviance: small where no single number per player explains who beats whom.
      dispersion: what variances were multiplied by for that reason; 1 where the ratings fit.
    """

    ratings: tuple[Rating, ...]
    anchor: str
    separated: bool
    confidence: float
    names: tuple[str, ...]
    covariance: Floats
    deviance: float
    freedom: int
    fit: float
    dispersion: float

    def difference(self, a: str, b: str) -> Interval:
        """Elo of a minus Elo of b. (The difference of two rows' intervals is not its interval.)"""
        for key, name in (("a", a), ("b", b)):
            require(name in self.names, key, f"one of {', '.join(self.names)}", name)
        of = {rating.name: rating.elo for rating in self.ratings}
        contrast = np.array([(name == a) - float(name == b) for name in self.names])
        reach = _reach(self.confidence) * math.sqrt(contrast @ self.covariance @ contrast)
        estimate = of[a] - of[b]
        return Interval(estimate, estimate - reach, estimate + reach, self.confidence)


def ladder(
    names: Sequence[str], points: ArrayLike, anchor: str, prior: float = 1.0, confidence: float = 0.95
) -> Ladder:
    """Elo ladder of a round robin, which may have gaps: Bradley-Terry by penalised maximum likelihood.

    P(i beats j) = 1 / (1 + 10^((elo_j - elo_i) / 400)); a draw is half a win and half a loss. The prior is `prior`
    drawn games added to every pairing that was played: it keeps ratings finite and moves a win rate p over n games by
    about (1/2 - p) prior / n. The intervals are normal, from the observed information; draws make them conservative.
    Where the pairings deviate from the model (p < `_MISFIT`), a rating depends on who else took part: variances are
    then multiplied by the deviance per degree of freedom (quasi-likelihood), so that the intervals speak of other
    opponents of this kind, too.

    Args:
      points: [P, P], what the row's player scored against the column's; the diagonal is 0.
      anchor: the player whose Elo is 0.
      prior: drawn games per pairing. 0 is plain maximum likelihood, an error where that has no finite solution.
    """
    scored = _round_robin(names, points)
    require(anchor in names, "anchor", f"one of {', '.join(names)}", anchor)
    require(0 <= prior < math.inf, "prior", "0 or more", prior)
    _inside_unit("confidence", confidence)
    separated = bool(connected_components(scored > 0, connection="strong")[0] > 1)
    require(prior > 0 or not separated, "prior", "more than 0, as somebody won or lost everything", prior)
    played = scored + scored.T
    free = np.flatnonzero([name != anchor for name in names])
    logits, covariance = _bradley_terry(scored + prior / 2 * (played > 0), free)
    elos = ELO_PER_LOGIT * logits
    expected = expit(logits[:, None] - logits)
    deviance = 2 * float((xlogy(scored, scored / np.maximum(played, 1)) - xlogy(scored, expected)).sum())
    freedom = int(np.triu(played > 0).sum()) - len(free)
    fit = float(chi2.sf(deviance, freedom)) if freedom else 1.0
    dispersion = deviance / freedom if fit < _MISFIT else 1.0
    covariance *= dispersion
    reach = _reach(confidence) * ELO_PER_LOGIT * np.sqrt(np.diag(covariance))
    columns: tuple[Any, ...] = (elos, elos - reach, elos + reach, scored.sum(1), played.sum(1))
    rows = [Rating(name, *map(float, row)) for name, *row in zip(names, *columns, strict=True)]
    ratings = tuple(sorted(rows, key=lambda rating: -rating.elo))
    full = ELO_PER_LOGIT**2 * covariance
    return Ladder(ratings, anchor, separated, confidence, tuple(names), full, deviance, freedom, fit, dispersion)


def _round_robin(names: Sequence[str], points: ArrayLike) -> Floats:
    scored = np.asarray(points, np.float64)
    size = len(names)
    require(size >= 2 and len(set(names)) == size, "names", "two or more that differ", list(names))
    require(scored.shape == (size, size), "points", f"shape {(size, size)}", scored.shape)
    bad = ~(np.isfinite(scored) & (scored >= 0))
    require(not bad.any(), "points", "finite numbers of 0 or more", scored[bad][:1])
    require(not np.diag(scored).any(), "points", "a diagonal of 0, nobody plays himself", np.diag(scored))
    group = connected_components(scored + scored.T > 0, directed=False)[1]
    apart = [name for name, label in zip(names, group, strict=True) if label != group[0]]
    require(not apart, "points", f"games that link everybody to {names[0]}", f"none for {', '.join(apart)}")
    return scored


def _bradley_terry(points: Floats, free: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Ratings in logits [P] and their covariance [P, P]; players that are not free stay at 0.

    Newton's method on a concave function, halving steps that do not make the gradient smaller.
    """
    games = points + points.T
    block = np.ix_(free, free)

    def slope(logits: Floats) -> tuple[Floats, Floats]:
        """Gradient and information of the log-likelihood, of the free players."""
        expected = expit(logits[:, None] - logits)
        weight = games * expected * expected.T
        surplus = points * expected.T - points.T * expected  # points - games * expected, without cancellation
        return surplus.sum(1)[free], (np.diag(weight.sum(1)) - weight)[block]

    logits = np.zeros(len(points))
    for _ in range(200):
        gradient, information = slope(logits)
        step = np.zeros(len(points))
        step[free] = np.linalg.solve(information, gradient)
        if np.abs(step).max() < 1e-9:
            covariance = np.zeros_like(points)
            covariance[block] = np.linalg.inv(information)
            return logits, covariance
        while np.abs(step).max() > 1e-9 and np.linalg.norm(slope(logits + step)[0]) > np.linalg.norm(gradient):
            step /= 2
        logits = logits + step
    raise ValueError("points: expected ratings that can be found, got none in 200 steps (try a larger prior)")


def _reach(confidence: float) -> float:
    """How many standard errors a normal interval reaches."""
    return float(norm.isf((1 - confidence) / 2))


# Early stopping.


@dataclass(frozen=True)
class SequentialTest:
    """State of a match that may stop at any time.

    Attributes:
      decision: "higher" or "lower" than the null, "equal" (within the margin of it), or "continue".
      mean: over the deals so far.
      low, high: interval that covers the true mean at all times at once with probability 1 - alpha.
      p_value: always valid: below any alpha at any time with probability at most alpha if the null is true.
      deals: number of deals so far.
    """

    decision: str
    mean: float
    low: float
    high: float
    p_value: float
    deals: int


def sequential_test(deals: ArrayLike, null: float = 0.5, margin: float = 0.0, alpha: float = 0.05) -> SequentialTest:
    """Looks at a running match, as often as one likes, and says whether it may stop.

    A confidence sequence by betting (Waudby-Smith and Ramdas 2023). For a claimed mean m a gambler bets a share g of
    his wealth that deals come out above m, multiplying it by 1 + g (x / m - 1); another bets on below. If the mean is
    m the wealth is a martingale, and by Ville's inequality it ever reaches 2 / alpha with probability alpha / 2 at
    most. The interval is all m at which neither did. The wealth is averaged over a fixed set of shares (`BETS`), so
    it depends on how often each value came, not on the order. The first gambler's wealth falls as m rises and the
    second's grows, so each end of the interval is the one root of a monotone function.

    Why not an SPRT: the guarantee here needs no model of draws and of how the two games of a deal hang together (any
    values in 0..1 will do, if deals are independent), no hypotheses about Elo to fix beforehand, and holds for every
    number of deals and any reason to stop, while that of the GSPRT used for chess engines is asymptotic. The price is
    more games than an SPRT tuned to the true difference.

    Args:
      deals: [D], a's share of the points in each deal, 0 to 1: `deals_of(games).mean(1)`.
      margin: how close to the null is equal; 0 never decides that.
      alpha: chance of a wrong decision, however often one looks.
    """
    x = _vector("deals", deals, 0, 1)
    _inside_unit("null", null)
    _inside_unit("alpha", alpha)
    require(0 <= margin < 1, "margin", "at least 0 and below 1", margin)
    values, counts = np.unique(x, return_counts=True)
    low = _lowest_mean(values, counts, alpha)
    high = 1 - _lowest_mean(1 - values, counts, alpha)
    p_value = float(_always_valid_p(values, counts, null))
    return SequentialTest(_decide(low, high, null, margin), float(x.mean()), low, high, p_value, len(x))


def sequential_p_values(deals: ArrayLike, null: float = 0.5) -> Floats:
    """The always valid p-value of `sequential_test` after each deal, [D]."""
    x = _vector("deals", deals, 0, 1)
    _inside_unit("null", null)
    values, kinds = np.unique(x, return_inverse=True)
    counts = np.cumsum(kinds[:, None] == np.arange(len(values)), axis=0)
    return _always_valid_p(values, counts, null)


def _decide(low: float, high: float, null: float, margin: float) -> str:
    if low > null:
        return "higher"
    if high < null:
        return "lower"
    return "equal" if null - margin < low and high < null + margin else "continue"


def _log_wealth(values: Floats, counts: NDArray[np.int64], mean: float) -> Any:
    """Log wealth [...] of betting on above `mean` from counts [..., V] of values [V]; falls as the mean rises."""
    growth = np.log1p(BETS * (values[:, None] / mean - 1))  # [V, bets]
    return logsumexp(counts @ growth, axis=-1) - math.log(len(BETS))


def _lowest_mean(values: Floats, counts: NDArray[np.int64], alpha: float) -> float:
    """The low end: where the wealth is 2 / alpha; 0 if it is less everywhere."""
    observed = float(counts @ values / counts.sum())
    bound = math.log(2 / alpha)

    def excess(mean: float) -> float:
        return float(_log_wealth(values, counts, mean)) - bound

    tiny = 1e-12
    if observed <= tiny or excess(tiny) < 0:
        return 0.0
    return float(brentq(excess, tiny, observed, xtol=1e-12))  # at the observed mean the wealth is 1 at most


def _always_valid_p(values: Floats, counts: NDArray[np.int64], null: float) -> Floats:
    wealth = np.maximum(_log_wealth(values, counts, null), _log_wealth(1 - values, counts, 1 - null))
    return np.asarray(np.minimum(1, 2 * np.exp(-wealth)))


# Calibration and curves.


@dataclass(frozen=True)
class Brier:
    """Brier score: mean squared error of probabilities.

    Attributes:
      score: 0 is perfect, 0.25 what always saying 1/2 gets if there are no draws.
      reference: the score of always saying the mean outcome.
      skill: 1 - score / reference: 1 is perfect, 0 no better than the mean; 0 if all outcomes are equal.
    """

    score: float
    reference: float
    skill: float


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions from `low` up to `high`: how many, their mean, and the mean outcome with its Wilson interval."""

    low: float
    high: float
    count: int
    predicted: float
    observed: Interval


@dataclass(frozen=True)
class Reliability:
    """Reliability curve: the bins that are not empty, and the mean gap of predicted to observed weighted by count."""

    bins: tuple[ReliabilityBin, ...]
    calibration_error: float


def _forecasts(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[Floats, Floats]:
    p, y = _vector("probabilities", probabilities, 0, 1), _vector("outcomes", outcomes, 0, 1)
    require(len(p) == len(y), "outcomes", f"as many as probabilities, {len(p)}", len(y))
    return p, y


def brier(probabilities: ArrayLike, outcomes: ArrayLike) -> Brier:
    """Scores probabilities of winning against outcomes: 1 won, 0 lost, a share for a tie."""
    p, y = _forecasts(probabilities, outcomes)
    score, reference = float(np.mean((p - y) ** 2)), float(y.var())
    return Brier(score, reference, 1 - score / reference if reference > 0 else 0.0)


def reliability_curve(
    probabilities: ArrayLike, outcomes: ArrayLike, bins: int = 10, confidence: float = 0.95
) -> Reliability:
    """Mean outcome by predicted probability, in bins of equal width; a probability of 1 is in the last bin.

    The Wilson intervals take the outcomes as independent: use one prediction per game, or read them as too narrow.
    """
    p, y = _forecasts(probabilities, outcomes)
    _count("bins", bins, 1)
    edges = np.arange(bins + 1) / bins
    index = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    curve = []
    for i in np.unique(index):
        inside = index == i
        count = int(inside.sum())
        observed = wilson(float(y[inside].sum()), count, confidence)
        curve.append(ReliabilityBin(float(edges[i]), float(edges[i + 1]), count, float(p[inside].mean()), observed))
    error = sum(part.count * abs(part.predicted - part.observed.estimate) for part in curve) / len(p)
    return Reliability(tuple(curve), error)


def rolling_mean(values: ArrayLike, window: int) -> Floats:
    """Mean of each value and up to window - 1 before it, [N]: the first ones average what there is."""
    x = _vector("values", values)
    _count("window", window, 1)
    return np.convolve(x, np.ones(window))[: len(x)] / np.minimum(np.arange(len(x)) + 1, window)
