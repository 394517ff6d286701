"""Sequential test of "better by d" against "not better": two one-sided bets, valid whenever the match stops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_inside_unit, to_vector

_TARGETED = 0.8  # share of the wealth that is bet as suits an advantage of exactly d; the rest follows the results
_PRIOR_VARIANCE, _PRIOR_DEALS = 0.1, 16.0  # variance of a deal that is assumed at first, and how many deals it counts
_MOST_LOST = 0.9  # largest share of the wealth that one deal may cost


@dataclass(frozen=True)
class BetterByTest:
    """State of a match that is to tell whether a is better than the null by d.

    Attributes:
      decision: verdict: "better" (than the null), "not better" (by d), or "continue".
      mean: mean result over the deals so far.
      p_not_better: always valid p-value of "the mean is at most the null"; small speaks for a.
      p_better: always valid p-value of "the mean is at least null + d"; small speaks against a.
      deals: number of deals so far.
    """

    decision: str
    mean: float
    p_not_better: float
    p_better: float
    deals: int


def better_by_test(
    deals: ArrayLike,
    better_by: float,
    null: float = 0.5,
    alpha: float = 0.05,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> BetterByTest:
    """Test a running match, as often as one likes, and say whether it may stop.

    One gambler bets that results are above the null, a second one that they are below null + d. Each starts with 1;
    the first one's wealth is a supermartingale if the mean is at most the null, the second one's if it is at least
    null + d, so by Ville's inequality either reaches 1 / alpha with probability at most alpha. If the truth is the
    null or less, only "better" is wrong; if it is null + d or more, only "not better"; in between neither is. So each
    gambler may use all of alpha. A two-sided test with a margin must exclude both sides of the null to end a match
    between equals; this one excludes one value only, with bets made for it.

    Bets depend on earlier deals only: they are the best ones for an advantage of d at the variance seen so far, and
    with a fifth of the wealth those for the mean seen so far, which end a match sooner whose difference is large.

    Args:
      deals: [D] result of each deal in order, within the bounds: mean share of the win, plain or adjusted for luck
        (`sequential_adjustment`, bounds -1 to 2).
      better_by: difference d that matters.
      null: mean of an agent that is not better.
      alpha: chance of a wrong decision, however often the test is repeated.
      bounds: smallest and largest possible result of a deal.
    """
    low, high = bounds
    x = to_vector("deals", deals, low, high)
    require_inside_unit("alpha", alpha)
    require_inside_unit("null", null)
    require(0 < better_by < 1 - null, "better_by", f"more than 0 and below {1 - null:g}", better_by)
    above = _best_wealth(x, null, better_by, null - low)
    below = _best_wealth(-x, -(null + better_by), better_by, high - null - better_by)
    p_not_better, p_better = min(1.0, float(np.exp(-above))), min(1.0, float(np.exp(-below)))
    decision = "better" if p_not_better <= alpha else "not better" if p_better <= alpha else "continue"
    return BetterByTest(decision, float(x.mean()), p_not_better, p_better, len(x))


def _best_wealth(x: Floats, mean: float, advantage: float, most_below: float) -> float:
    """Highest log wealth so far from bets on results above `mean`, which they undercut by `most_below` at most."""
    count = np.arange(len(x)) + _PRIOR_DEALS
    before = np.concatenate([[0.0], np.cumsum(x - mean)[:-1]]) / count  # mean advantage of the earlier deals, shrunk
    squares = np.concatenate([[0.0], np.cumsum((x - mean) ** 2)[:-1]])
    variance = (_PRIOR_VARIANCE * _PRIOR_DEALS + squares) / count
    wealth = np.zeros((2, len(x)))
    for number, gain in enumerate((np.full(len(x), advantage), np.maximum(before, 0))):
        share = np.minimum(gain / variance, _MOST_LOST / most_below)
        wealth[number] = np.cumsum(np.log1p(share * (x - mean)))
    return float(np.logaddexp(np.log(_TARGETED) + wealth[0], np.log(1 - _TARGETED) + wealth[1]).max())
