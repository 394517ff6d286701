"""Statistics of matches: intervals, tests, ratings, early stopping and calibration.

A result is `points` out of `n` games, where a draw counts as half a point. Everything built on the binomial
distribution treats half points conservatively, in two ways: where a method needs whole successes, the points are
rounded away from a claim (the ends of an interval outwards, a p-value upwards), and a game that can be drawn varies
less than the win-or-loss game of the same mean that the binomial distribution assumes (by a quarter of the share of
draws).

These methods also assume that games are independent. Two games of one deal with the seats swapped are not: good cards
usually win for the agent that holds them, which correlates the two games negatively and makes a binomial interval too
wide. (A positive correlation, which `variance_reduction` shows, would make it too narrow.) The methods for paired deals
use the deal as the unit instead. They expect `games`, [2 D]: one number per game, the two games of a deal next to each
other, agent a in the first seat and then in the second.

Tests are two-sided. Bad input is never clipped, guessed or dropped: it is a ValueError that names the argument.
"""

from muzero.stats.better_by import BetterByTest, better_by_test
from muzero.stats.calibration import Brier, Reliability, ReliabilityBin, brier, reliability_curve
from muzero.stats.comparisons import (
    Holm,
    MannWhitney,
    SampleSize,
    holm,
    mann_whitney,
    sample_size,
    sample_size_of_match,
)
from muzero.stats.curves import LEAST_RUNS, CurveOfRuns, curve_of_runs, interquartile_mean, rolling_mean
from muzero.stats.intervals import (
    Interval,
    Test,
    binomial_test,
    clopper_pearson,
    two_proportion_test,
    wilson,
    z_test,
)
from muzero.stats.luck import LuckAdjusted, adjust_for_luck, luck_weights, sequential_adjustment
from muzero.stats.paired_deals import (
    McNemar,
    VarianceReduction,
    deals_of,
    mcnemar,
    mcnemar_deals,
    paired_bootstrap,
    variance_reduction,
    win_rate_of_deals,
)
from muzero.stats.rankings import NashAverage, TableRatings, equilibrium, nash_average, plackett_luce
from muzero.stats.ratings import ELO_PER_LOGIT, Ladder, Rating, elo, elo_of_rate, ladder, rate_of_elo
from muzero.stats.sequential import BETS, SequentialTest, sequential_p_values, sequential_test

__all__ = [
    "BETS",
    "ELO_PER_LOGIT",
    "LEAST_RUNS",
    "BetterByTest",
    "Brier",
    "CurveOfRuns",
    "Holm",
    "Interval",
    "Ladder",
    "LuckAdjusted",
    "MannWhitney",
    "McNemar",
    "NashAverage",
    "Rating",
    "Reliability",
    "ReliabilityBin",
    "SampleSize",
    "SequentialTest",
    "TableRatings",
    "Test",
    "VarianceReduction",
    "adjust_for_luck",
    "better_by_test",
    "binomial_test",
    "brier",
    "clopper_pearson",
    "curve_of_runs",
    "deals_of",
    "elo",
    "elo_of_rate",
    "equilibrium",
    "holm",
    "interquartile_mean",
    "ladder",
    "luck_weights",
    "mann_whitney",
    "mcnemar",
    "mcnemar_deals",
    "nash_average",
    "paired_bootstrap",
    "plackett_luce",
    "rate_of_elo",
    "reliability_curve",
    "rolling_mean",
    "sample_size",
    "sample_size_of_match",
    "sequential_adjustment",
    "sequential_p_values",
    "sequential_test",
    "two_proportion_test",
    "variance_reduction",
    "wilson",
    "win_rate_of_deals",
    "z_test",
]
