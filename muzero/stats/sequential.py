"""Sequential test: a match may stop at any time, and the error rate still holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_inside_unit, to_vector

# Shares of the wealth that `sequential_test` bets; an equal part of the wealth follows each of them. The best share for
# an advantage d over 1/2 is about d / (2 variance): these suit advantages from below 0.01 up.
BETS = np.geomspace(0.005, 0.95, 32)


@dataclass(frozen=True)
class SequentialTest:
    """State of a match that may be stopped at any time.

    Attributes:
      decision: verdict: "higher" or "lower" than the null, "equal" (within the margin of it), or "continue".
      mean: mean result over the deals so far.
      low, high: interval that covers the true mean at all times simultaneously with probability 1 - alpha.
      p_value: always valid p-value: below any alpha at any time with probability at most alpha if the null is true.
      deals: number of deals so far.
    """

    decision: str
    mean: float
    low: float
    high: float
    p_value: float
    deals: int


def sequential_test(deals: ArrayLike, null: float = 0.5, margin: float = 0.0, alpha: float = 0.05) -> SequentialTest:
    """Test a running match, as often as one likes, and say whether it may stop.

    A confidence sequence by betting (Waudby-Smith and Ramdas 2023). For a claimed mean m a gambler bets a share g of
    the wealth that deals come out above m, which multiplies it by 1 + g (x / m - 1); a second gambler bets on below m.
    If the mean is m, the wealth is a martingale, and by Ville's inequality the probability that it ever reaches
    2 / alpha is at most alpha / 2. The interval consists of all m at which neither gambler's wealth did. The wealth is
    averaged over a fixed set of shares (`BETS`), so it depends on how often each value occurred, not on the order.
    The first gambler's wealth falls as m rises and the second's grows, so each end of the interval is the only root of
    a monotone function.

    Why not an SPRT: the guarantee here needs no model of draws and of the dependence between the two games of a deal
    (any values in [0, 1] will do, if deals are independent), no hypotheses about Elo that must be fixed in advance, and
    it holds for every number of deals and any reason to stop, while that of the GSPRT used for chess engines is
    asymptotic. The price is more games than an SPRT tuned to the true difference needs.

    Args:
      deals: [D] share of the points that a got in each deal, 0 to 1: `deals_of(games).mean(1)`.
      null: mean under the null hypothesis.
      margin: distance from the null that still counts as equal; 0 never decides "equal".
      alpha: chance of a wrong decision, however often the test is repeated.
    """
    x = to_vector("deals", deals, 0, 1)
    require_inside_unit("null", null)
    require_inside_unit("alpha", alpha)
    require(0 <= margin < 1, "margin", "at least 0 and below 1", margin)
    values, counts = np.unique(x, return_counts=True)
    low = _lowest_mean(values, counts, alpha)
    high = 1 - _lowest_mean(1 - values, counts, alpha)
    p_value = float(_always_valid_p(values, counts, null))
    return SequentialTest(_decide(low, high, null, margin), float(x.mean()), low, high, p_value, len(x))


def sequential_p_values(deals: ArrayLike, null: float = 0.5) -> Floats:
    """Always valid p-values of `sequential_test` after each deal, [D]."""
    x = to_vector("deals", deals, 0, 1)
    require_inside_unit("null", null)
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
    """Log wealth [...] from betting on above `mean`, by counts [..., V] of values [V]; it falls as the mean rises."""
    growth = np.log1p(BETS * (values[:, None] / mean - 1))  # [V, bets]
    return logsumexp(counts @ growth, axis=-1) - math.log(len(BETS))


def _lowest_mean(values: Floats, counts: NDArray[np.int64], alpha: float) -> float:
    """Low end of the interval: the mean at which the wealth is 2 / alpha; 0 if the wealth is smaller everywhere."""
    observed = float(counts @ values / counts.sum())
    bound = math.log(2 / alpha)

    def excess(mean: float) -> float:
        return float(_log_wealth(values, counts, mean)) - bound

    tiny = 1e-12
    if observed <= tiny or excess(tiny) < 0:
        return 0.0
    return float(brentq(excess, tiny, observed, xtol=1e-12))  # at the observed mean the wealth is at most 1


def _always_valid_p(values: Floats, counts: NDArray[np.int64], null: float) -> Floats:
    wealth = np.maximum(_log_wealth(values, counts, null), _log_wealth(1 - values, counts, 1 - null))
    return np.asarray(np.minimum(1, 2 * np.exp(-wealth)))
