"""Ratings from tables of several players (Plackett-Luce), and from fields in which strength is no single number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import expit
from scipy.stats import norm

from muzero.config.fields import require
from muzero.stats.checks import Floats, require_inside_unit
from muzero.stats.ratings import ELO_PER_LOGIT, Rating

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TableRatings:
    """Ratings of a field that met at tables of several players, the strongest first.

    Attributes:
      ratings: Elo of each agent relative to the anchor, with intervals of the difference to it; `points` are shares of
        wins, `games` the tables that it sat at (twice, if it had two seats).
      anchor: name of the agent whose Elo is 0.
      names, covariance: names of the agents in the order given, [A], and the covariance of their Elos, [A, A].
    """

    ratings: tuple[Rating, ...]
    anchor: str
    names: tuple[str, ...]
    covariance: Floats


def plackett_luce(
    names: Sequence[str],
    seated: ArrayLike,
    ranks: ArrayLike,
    anchor: str,
    *,
    deals: ArrayLike | None = None,
    prior: float = 1.0,
    confidence: float = 0.95,
) -> TableRatings:
    """Rate agents by the ranks at tables of any number of players: Plackett-Luce by penalised maximum likelihood.

    The winner of a table is each of its players with probability proportional to 10^(Elo / 400), the second is drawn
    likewise from the others, and so on; with two players this is the model of `ladder`. Players who tie for ranks share
    them (Efron's approximation: a tie of k counts as the mean of its orders). The intervals are normal, with a
    covariance that needs neither the model nor independent games of a deal to be right (sandwich estimator, the deal as
    the unit).

    Args:
      names: [A] names of the agents.
      seated: [N, P] index of the agent in each seat of each table; an agent may have several seats.
      ranks: [N, P] ranks of the seats, 1 = best; those who tie have the same rank.
      anchor: name of the agent whose Elo is 0.
      deals: [N] numbers of the deals; tables of the same deal depend on each other. By default all differ.
      prior: number of drawn games of two that every agent is assumed to have played against an average one.
      confidence: confidence of the intervals.
    """
    who, place = np.asarray(seated, np.int64), np.asarray(ranks, np.int64)
    require(len(names) >= 2 and len(set(names)) == len(names), "names", "two or more that differ", list(names))
    require(who.ndim == 2 and who.shape[1] >= 2 and len(who) > 0, "seated", "tables of two or more seats", who.shape)
    require(place.shape == who.shape, "ranks", f"shape {who.shape}", place.shape)
    require(bool(((who >= 0) & (who < len(names))).all()), "seated", f"indices below {len(names)}", who.max())
    require(anchor in names, "anchor", f"one of {', '.join(names)}", anchor)
    require(0 < prior < math.inf, "prior", "more than 0", prior)
    require_inside_unit("confidence", confidence)
    group = np.arange(len(who)) if deals is None else np.unique(np.asarray(deals), return_inverse=True)[1].ravel()
    require(group.shape == (len(who),), "deals", f"{len(who)} numbers", group.shape)
    strengths, covariance = _fit(who, place, len(names), group, prior)
    base = names.index(anchor)
    contrast = np.eye(len(names)) - np.eye(len(names))[base]
    elos = ELO_PER_LOGIT * (strengths - strengths[base])
    full = ELO_PER_LOGIT**2 * covariance
    reach = float(norm.isf((1 - confidence) / 2)) * np.sqrt(np.einsum("ij,jk,ik->i", contrast, full, contrast))
    best = place == place.min(1, keepdims=True)
    points = np.bincount(who.ravel(), (best / best.sum(1, keepdims=True)).ravel(), len(names))
    seats = np.bincount(who.ravel(), minlength=len(names))
    rows = [
        Rating(
            name, float(elos[i]), float(elos[i] - reach[i]), float(elos[i] + reach[i]), float(points[i]), int(seats[i])
        )
        for i, name in enumerate(names)
    ]
    return TableRatings(tuple(sorted(rows, key=lambda r: -r.elo)), anchor, tuple(names), full)


def _fit(who: Ints, ranks: Ints, agents: int, group: Ints, prior: float) -> tuple[Floats, Floats]:
    """Strengths in logits [A] and their covariance [A, A], by Newton's method; information as of a multinomial draw."""
    order = np.argsort(ranks, 1, kind="stable")
    sorted_who, sorted_ranks = np.take_along_axis(who, order, 1), np.take_along_axis(ranks, order, 1)
    seats = np.arange(who.shape[1])
    first = (sorted_ranks[:, :, None] > sorted_ranks[:, None, :]).sum(2)  # [N, P] number of better seats
    tied = sorted_ranks[:, :, None] == sorted_ranks[:, None, :]  # [N, P, P]
    # Weight of seat s in draw k: 1 if it is worse than the k-th or equal, less the part of its tie drawn before.
    share = (seats - first) / tied.sum(2)
    left = (seats[None, None, :] >= first[:, :, None]) - tied * share[:, :, None]
    onto = np.eye(agents)[sorted_who]  # [N, P, A]
    taken = onto.sum(1)
    strengths = np.zeros(agents)
    for _ in range(200):
        weight = left * np.exp(strengths[sorted_who])[:, None, :]
        chance = (weight / weight.sum(2, keepdims=True)) @ onto  # [N, draws, A] chance that each agent is drawn
        each = taken - chance.sum(1)  # [N, A] slopes of the tables
        expected = expit(strengths)
        slope = each.sum(0) + prior * (0.5 - expected)
        information = np.diag(chance.sum((0, 1))) - np.einsum("nka,nkb->ab", chance, chance)
        information += np.diag(prior * expected * (1 - expected))
        step = np.linalg.solve(information, slope)
        strengths = strengths + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    by_deal = np.zeros((group.max() + 1, agents))
    np.add.at(by_deal, group, each)
    inverse = np.linalg.inv(information)
    return strengths, inverse @ (by_deal.T @ by_deal) @ inverse


# ---- fields without a single order -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NashAverage:
    """Agents judged against the equilibrium of the field instead of against everybody alike.

    Attributes:
      names: [A] names of the agents.
      share: [A] weight of each agent in the equilibrium mix; an agent that another one makes superfluous has 0.
      share_low, share_high: [A] intervals of the weights.
      rate: [A] win rate against the equilibrium mix, at most 0.5.
      rate_low, rate_high: [A] intervals of these rates.
    """

    names: tuple[str, ...]
    share: Floats
    share_low: Floats
    share_high: Floats
    rate: Floats
    rate_low: Floats
    rate_high: Floats


def equilibrium(advantage: ArrayLike) -> Floats:
    """Nash equilibrium [A] of the game in which two players each choose an agent; the most even one if there are many.

    Args:
      advantage: [A, A] advantage of the row's agent over the column's, antisymmetric: win rate minus 1/2.

    The most even equilibrium is the mix p of smallest norm with advantage @ p <= 0: a least-distance problem, solved
    exactly by non-negative least squares (Lawson and Hanson 1974, chapter 23).
    """
    game = np.asarray(advantage, np.float64)
    size = len(game)
    require(game.shape == (size, size) and size >= 2, "advantage", "a square of two agents or more", game.shape)
    require(np.allclose(game, -game.T, atol=1e-9), "advantage", "antisymmetric numbers", "others")
    scale = max(float(np.abs(game).max()), 1e-12)
    sums = np.ones((1, size))
    bounds = np.concatenate([-game / scale, np.eye(size), sums, -sums])
    least = np.concatenate([np.full(size, -1e-9), np.zeros(size), [1.0, -1.0]])
    stacked = np.concatenate([bounds.T, least[None]])
    target = np.append(np.zeros(size), 1.0)
    solution, _ = nnls(stacked, target, maxiter=100 * len(least))
    residual = stacked @ solution - target
    mix = np.maximum(-residual[:-1] / residual[-1], 0)
    return np.asarray(mix / mix.sum())


def nash_average(
    names: Sequence[str],
    rates: ArrayLike,
    errors: ArrayLike,
    *,
    resamples: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> NashAverage:
    """Nash averaging (Balduzzi and others 2018) of a round robin, with uncertainty by a parametric bootstrap.

    Elo weighs an agent's results by how often each opponent was met, so copies of a weak agent raise whoever beats it.
    The equilibrium mix does not change if an agent is entered twice, and tells which agents are worth having at all in
    a field where a beats b, b beats c and c beats a.

    Args:
      names: [A] names of the agents.
      rates: [A, A] win rates of the row against the column; the diagonal is not used.
      errors: [A, A] standard errors of these rates.
      resamples: number of tables of win rates that are drawn around the one given.
      seed: seed of these draws.
      confidence: confidence of the intervals.
    """
    given, deviation = np.asarray(rates, np.float64), np.asarray(errors, np.float64)
    size = len(names)
    require(given.shape == deviation.shape == (size, size), "rates and errors", f"shape {(size, size)}", given.shape)
    require_inside_unit("confidence", confidence)
    upper = np.triu_indices(size, 1)
    require(bool(np.isfinite(given[upper]).all()), "rates", "a win rate for every pairing", "NaN")
    rng = np.random.default_rng(seed)

    def judge(noise: Floats) -> tuple[Floats, Floats]:
        game = np.zeros((size, size))
        game[upper] = np.clip(given[upper] + noise, 0, 1) - 0.5
        game -= game.T
        mix = equilibrium(game)
        return mix, 0.5 + game @ mix

    share, rate = judge(np.zeros(len(upper[0])))
    drawn = [judge(deviation[upper] * rng.normal(size=len(upper[0]))) for _ in range(resamples)]
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    share_low, share_high = np.quantile([one[0] for one in drawn], ends, axis=0)
    rate_low, rate_high = np.quantile([one[1] for one in drawn], ends, axis=0)
    return NashAverage(tuple(names), share, share_low, share_high, rate, rate_low, rate_high)
