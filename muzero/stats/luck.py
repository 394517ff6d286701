"""Luck adjustment: results of games with the luck of chance events taken out, and how much that saves.

The luck of a game is the sum, over its chance events, of the value of what came minus the mean of the values of what
might have come. Every term has mean 0 given what was known before it, whatever the value function (Burch and others,
AIVAT, 2018), so a multiple of the luck may be subtracted from a result without a bias. How much is subtracted is
learned from the match itself: for each deal from the other deals only, so that it is independent of the deal's luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_count, require_inside_unit
from muzero.stats.intervals import Interval
from muzero.stats.paired_deals import deals_of, paired_bootstrap

FOLDS = 10  # parts of a match; the weights for one part are fitted to the others
_MOST_BOOTSTRAPPED = 2000  # deals up to which the interval is the bootstrap's; beyond, means are normal
_BLOCK = 32  # deals after which `sequential_adjustment` first uses luck


@dataclass(frozen=True)
class LuckAdjusted:
    """Mean result with the luck taken out.

    Attributes:
      interval: estimate and interval of the mean, with the deal as the unit.
      factor: number of plain games that are as precise as one adjusted game: ratio of the variances by deals.
      correlation: correlation by deals between the result and the luck that is subtracted from it.
      deals: [D] adjusted mean result of each deal.
    """

    interval: Interval
    factor: float
    correlation: float
    deals: Floats


def adjust_for_luck(games: ArrayLike, luck: ArrayLike, per_deal: int = 2, confidence: float = 0.95) -> LuckAdjusted:
    """Take the luck out of the results of a match.

    Args:
      games: [n D] result of each game, the n games of a deal next to each other: share of the win, or score margin.
      luck: [n D, C] kinds of luck in each game, each with mean 0.
      per_deal: number of games of a deal, n.
      confidence: confidence of the interval.
    """
    results, lucks = _by_deal(games, luck, per_deal)
    require(len(results) >= 2, "games", "two deals or more", f"{len(results)} deal")
    require_inside_unit("confidence", confidence)
    share = np.empty(len(results))
    fold = np.arange(len(results)) % min(FOLDS, len(results))
    for number in range(fold.max() + 1):
        here = fold == number
        share[here] = lucks[here] @ luck_weights(results[~here], lucks[~here])
    adjusted = results - share
    plain, left = results.var(ddof=1), adjusted.var(ddof=1)
    factor = plain / left if left > 0 else (math.inf if plain > 0 else 1.0)
    spread = float(np.sqrt(plain * share.var(ddof=1)))
    correlation = float(np.cov(results, share)[0, 1] / spread) if spread > 0 else 0.0
    return LuckAdjusted(_interval(adjusted, confidence), float(factor), correlation, adjusted)


def luck_weights(results: Floats, lucks: Floats) -> Floats:
    """Weights [C] with which kinds of luck [D, C] explain results [D]; small for few deals.

    Least squares with a penalty: the weights are pulled to 0 as if C deals had shown no connection.
    """
    if len(results) < 2:
        return np.zeros(lucks.shape[1])
    x, y = lucks - lucks.mean(0), results - results.mean()
    inner = x.T @ x
    scale = np.diag(inner) / len(x)
    used = np.flatnonzero(scale > 1e-12)
    weights = np.zeros(lucks.shape[1])
    penalty = len(used) * np.diag(scale[used])
    weights[used] = np.linalg.solve(inner[np.ix_(used, used)] + penalty, x[:, used].T @ y)
    return weights


def sequential_adjustment(games: ArrayLike, luck: ArrayLike, per_deal: int = 2) -> Floats:
    """Results of deals [D] with the luck taken out, from -1 to 2, for tests that may stop at any time.

    The part of the luck that is subtracted from a deal depends on earlier deals only, and is the same however many
    deals follow; so the adjusted deals have the mean of the plain ones given all that happened before.

    Args:
      games: [n D] share of the win in each game, 0 to 1.
      luck: [n D] luck of each game in shares of the win, -1 to 1.
      per_deal: number of games of a deal, n.
    """
    results, lucks = _by_deal(games, np.asarray(luck, np.float64)[..., None], per_deal)
    bad = np.abs(lucks) > 1 + 1e-9
    require(not bad.any(), "luck", "numbers from -1 to 1", lucks[bad][:1])
    adjusted, start = results.copy(), _BLOCK
    while start < len(results):
        end = min(len(results), start + max(_BLOCK, start // 4))
        weight = float(np.clip(luck_weights(results[:start], lucks[:start])[0], 0, 1))
        adjusted[start:end] -= weight * lucks[start:end, 0]
        start = start + max(_BLOCK, start // 4)
    return adjusted


def _by_deal(games: ArrayLike, luck: ArrayLike, per_deal: int) -> tuple[Floats, Floats]:
    """Mean results [D] and kinds of luck [D, C] of deals."""
    require_count("per_deal", per_deal, 1)
    results = deals_of(games, per_deal).mean(1)
    lucks: NDArray[np.float64] = np.asarray(luck, np.float64)
    good = lucks.ndim == 2 and len(lucks) == len(results) * per_deal
    require(good, "luck", f"shape ({len(results) * per_deal}, kinds of luck)", lucks.shape)
    require(bool(np.isfinite(lucks).all()), "luck", "finite numbers", "NaN or infinity")
    return results, lucks.reshape(len(results), per_deal, -1).mean(1)


def _interval(deals: Floats, confidence: float) -> Interval:
    if len(deals) <= _MOST_BOOTSTRAPPED:
        return paired_bootstrap(deals, confidence, per_deal=1)
    mean, error = float(deals.mean()), float(deals.std(ddof=1)) / math.sqrt(len(deals))
    reach = float(student.isf((1 - confidence) / 2, len(deals) - 1)) * error
    return Interval(mean, mean - reach, mean + reach, confidence)
