"""Statistics whose unit is the deal, which is played once with agent a in each seat."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, norm

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_count, require_inside_unit, to_vector
from muzero.stats.intervals import Interval, wilson


@dataclass(frozen=True)
class McNemar:
    """Result of McNemar's test.

    Attributes:
      better, worse, tied: numbers of deals won by a, won by b, and tied.
      z: test statistic, (better - worse) / sqrt(better + worse), whose square is McNemar's chi-squared.
      p_value: p-value of the exact sign test over the deals that were not tied.
    """

    better: int
    worse: int
    tied: int
    z: float
    p_value: float


@dataclass(frozen=True)
class VarianceReduction:
    """Gain in precision from playing each deal twice.

    Attributes:
      correlation: correlation between the two games of a deal; pairing helps if it is negative. 0 if the results in one
        seat are all equal.
      unpaired_error: standard error of the mean for as many games on separate deals, half of them in each seat.
      paired_error: standard error of the mean over deals.
      factor: ratio of the variances, (unpaired_error / paired_error)^2; infinite if all deals have the same mean, 1 if
        all games are equal.
      effective_games: number of games on separate deals that would give the same precision.
      seat_effect: mean in the first seat minus mean in the second.
    """

    correlation: float
    unpaired_error: float
    paired_error: float
    factor: float
    effective_games: float
    seat_effect: float


def deals_of(games: ArrayLike, per_deal: int = 2) -> Floats:
    """Arrange games [n D], the n games of a deal next to each other, by deal and seat: [D, n]."""
    array = to_vector("games", games)
    require(len(array) % per_deal == 0, "games", f"{per_deal} per deal, a multiple of that", len(array))
    return array.reshape(-1, per_deal)


def paired_bootstrap(
    games: ArrayLike, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0, per_deal: int = 2
) -> Interval:
    """Mean per game and its bootstrap interval (BCa, Efron 1987), resampling deals, each of `per_deal` games.

    `games` may be any number per game: points, score differences, or the difference of two agents' results against
    the same opponent on the same deals. Deals of equal value are exchangeable, so a resample is drawn as multinomial
    counts of the distinct values: this is the exact bootstrap, not an approximation, and its cost grows with the number
    of distinct values instead of the number of deals. Win rates near 0 or 1 have skewed distributions, for which the
    plain percentile interval covers too seldom.
    """
    means = deals_of(games, per_deal).mean(1)
    require_inside_unit("confidence", confidence)
    require_count("resamples", resamples, 1)
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
    """Quantiles of the resamples that are the two ends of the BCa interval of a mean."""
    ends = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    squares = float(counts @ deviations**2)
    if squares == 0:
        return ends
    slack = 1e-12 * (1 + abs(estimate))  # sums in a different order differ by rounding
    below = np.mean(sample < estimate - slack) + np.mean(np.abs(sample - estimate) <= slack) / 2
    bias = norm.ppf(np.clip(below, 1 / len(sample), 1 - 1 / len(sample)))
    acceleration = float(counts @ deviations**3) / (6 * squares**1.5)
    shifted = bias + norm.ppf(ends)
    moved: NDArray[np.float64] = norm.cdf(bias + shifted / (1 - acceleration * shifted))
    return moved


def win_rate_of_deals(
    points: ArrayLike, per_deal: int = 2, confidence: float = 0.95, resamples: int = 10_000
) -> Interval:
    """Win rate and its interval with the deal as the unit; `points` are 0 to 1 per game.

    The interval is the bootstrap's. If all deals are equal, resampling tells nothing, and the interval is Wilson's for
    as many games as there are deals.
    """
    found = paired_bootstrap(points, confidence, resamples, per_deal=per_deal)
    if found.low < found.high:
        return found
    deals = deals_of(points, per_deal)
    return wilson(float(deals.mean(1).sum()), len(deals), confidence)


def mcnemar(better: int, worse: int, tied: int = 0) -> McNemar:
    """McNemar's test from counts of discordant pairs; tied pairs say nothing about which agent is stronger."""
    for key, count in (("better", better), ("worse", worse), ("tied", tied)):
        require_count(key, count, 0)
    decided = better + worse
    if not decided:
        return McNemar(better, worse, tied, 0.0, 1.0)
    p_value = float(binomtest(better, decided).pvalue)
    return McNemar(better, worse, tied, (better - worse) / math.sqrt(decided), p_value)


def mcnemar_deals(games: ArrayLike) -> McNemar:
    """McNemar's test of a match; `games` are a's points, 0, 0.5 or 1.

    The same cards are played once by a and once by b. The agent that takes more than one of the two points wins the
    deal; one point each is a tie. Equally strong agents are equally likely to win a deal.
    """
    points = deals_of(games)
    bad = points[~np.isin(points, (0, 0.5, 1))]
    require(not bad.size, "games", "points of 0, 0.5 or 1", bad[:1])
    totals = points.sum(1)
    return mcnemar(int((totals > 1).sum()), int((totals < 1).sum()), int((totals == 1).sum()))


def variance_reduction(games: ArrayLike) -> VarianceReduction:
    """Compare the match as played with one whose games are all on separate deals, half of them in each seat."""
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
