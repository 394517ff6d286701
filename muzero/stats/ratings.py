"""Elo differences, and Elo ladders of round robins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, xlogy
from scipy.stats import chi2, norm

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_between, require_inside_unit
from muzero.stats.intervals import Interval, wilson

ELO_PER_LOGIT = 400 / math.log(10)
_MISFIT = 0.01  # p-value of the deviance below which the ratings do not explain the pairings


def elo_of_rate(rate: float) -> float:
    """Elo difference of an expected score: 400 log10(rate / (1 - rate)), minus infinity at 0, infinity at 1."""
    require_between("rate", rate, 0, 1)
    if rate in (0, 1):
        return math.inf if rate else -math.inf
    return 400 * math.log10(rate / (1 - rate))


def rate_of_elo(difference: float) -> float:
    """Expected score at an Elo difference, which may be infinite."""
    require(not math.isnan(difference), "difference", "a number", difference)
    return float(expit(difference / ELO_PER_LOGIT))


def elo(points: float, n: int, confidence: float = 0.95) -> Interval:
    """Elo difference of a match; its interval is the image of the Wilson interval, so both cover in the same cases.

    With no points the estimate and the low end are minus infinity and the high end is finite; with all points, the
    opposite.
    """
    rate = wilson(points, n, confidence)
    return Interval(elo_of_rate(rate.estimate), elo_of_rate(rate.low), elo_of_rate(rate.high), confidence)


@dataclass(frozen=True)
class Rating:
    """Elo of one player relative to the anchor, its interval, and the points and games behind it."""

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
      anchor: name of the player whose Elo is 0 by definition; intervals are intervals of the difference to it.
      separated: whether some rating would be infinite without the prior (a group of players won or lost everything
        against the others); the ratings on both sides of the gap then depend on the prior.
      names, covariance: names of the players in the order given, [P], and the covariance of their Elos, [P, P].
      deviance, freedom: deviance of the pairings from the ratings' predictions, and its degrees of freedom.
      fit: p-value of the deviance: small if no single number per player explains who beats whom.
      dispersion: factor by which the variances were multiplied because of a bad fit; 1 if the ratings fit.
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
        """Elo of a minus Elo of b, with the interval of that difference, which the two rows' intervals do not give."""
        for key, name in (("a", a), ("b", b)):
            require(name in self.names, key, f"one of {', '.join(self.names)}", name)
        of = {rating.name: rating.elo for rating in self.ratings}
        contrast = np.array([(name == a) - float(name == b) for name in self.names])
        reach = _standard_errors(self.confidence) * math.sqrt(contrast @ self.covariance @ contrast)
        estimate = of[a] - of[b]
        return Interval(estimate, estimate - reach, estimate + reach, self.confidence)


def ladder(
    names: Sequence[str], points: ArrayLike, anchor: str, prior: float = 1.0, confidence: float = 0.95
) -> Ladder:
    """Elo ladder of a round robin, in which pairings may be missing: Bradley-Terry by penalised maximum likelihood.

    P(i beats j) = 1 / (1 + 10^((elo_j - elo_i) / 400)); a draw is half a win and half a loss. The prior is `prior`
    drawn games added to every pairing that was played: it keeps ratings finite and moves a win rate p over n games by
    about (1/2 - p) prior / n. The intervals are normal, from the observed information; draws make them conservative.
    If the pairings deviate from the model (p < `_MISFIT`), a rating depends on who else took part: the variances are
    then multiplied by the deviance per degree of freedom (quasi-likelihood), so that the intervals also hold for
    other opponents of this kind.

    Args:
      names: [P] names of the players.
      points: [P, P] points of the row's player against the column's; the diagonal is 0.
      anchor: name of the player whose Elo is 0.
      prior: number of drawn games added per pairing. 0 is plain maximum likelihood, an error without a finite solution.
      confidence: confidence of the intervals.
    """
    scored = _round_robin(names, points)
    require(anchor in names, "anchor", f"one of {', '.join(names)}", anchor)
    require(0 <= prior < math.inf, "prior", "0 or more", prior)
    require_inside_unit("confidence", confidence)
    separated = bool(connected_components(scored > 0, connection="strong")[0] > 1)
    require(prior > 0 or not separated, "prior", "more than 0, as some players won or lost everything", prior)
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
    reach = _standard_errors(confidence) * ELO_PER_LOGIT * np.sqrt(np.diag(covariance))
    columns: tuple[Any, ...] = (elos, elos - reach, elos + reach, scored.sum(1), played.sum(1))
    rows = [Rating(name, *map(float, row)) for name, *row in zip(names, *columns, strict=True)]
    ratings = tuple(sorted(rows, key=lambda rating: -rating.elo))
    full = ELO_PER_LOGIT**2 * covariance
    return Ladder(ratings, anchor, separated, confidence, tuple(names), full, deviance, freedom, fit, dispersion)


def _round_robin(names: Sequence[str], points: ArrayLike) -> Floats:
    """Convert the points of a round robin to an array; refuse impossible ones and players without any link."""
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

    Computed by Newton's method on a concave function; steps that do not make the gradient smaller are halved.
    """
    games = points + points.T
    block = np.ix_(free, free)

    def slope(logits: Floats) -> tuple[Floats, Floats]:
        """Gradient and information of the log-likelihood with respect to the free players' ratings."""
        expected = expit(logits[:, None] - logits)
        weight = games * expected * expected.T
        surplus = points * expected.T - points.T * expected  # equals points - games * expected, without cancellation
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


def _standard_errors(confidence: float) -> float:
    """Half the width of a normal interval, in standard errors."""
    return float(norm.isf((1 - confidence) / 2))
