"""Value functions for luck adjustment: chances of winning and score margins of all seats at a position.

A `ValueModel` is a small fitted model on features of a position. The features are either what the players see, counted
(`PublicFeatures`, needs no network), or the outputs of a network (`NetworkFeatures`). The model is fitted to games of
the game's default bot. It need not be right: a bad value function makes luck adjustment useless, never biased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from muzero.data.seats import from_seats
from muzero.model.interface import BaseNetwork

if TYPE_CHECKING:
    from muzero.search.judge import NativeValues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COMPONENTS = ("win", "win_if_better", "win_if_worse", "score", "length")
"""Numbers that a value function gives for each seat.

Share of the win among equal players; the same for a player who gains, or loses, `_HANDICAP` on the others in a whole
match; margin over the others; mean total of all players, which tells how much of a match is left. Points are in units
of the score scale.
"""

_LARGEST = 128  # fields of observations with more values than this are left out
_KINDS = 32  # values of a field that are told apart: 0 to 30, and more
_FIT_GAMES, _FIT_POSITIONS = 4096, 8  # games that a model is fitted to, and positions of each
_HANDICAP = 0.3  # margin that a better player gains in a whole match
_RIDGE = 10.0  # strength of the penalty on weights, in positions


class Features(Protocol):
    """Features of positions, for every seat.

    Attributes:
      size: number of features, F.
    """

    size: int

    def read(self, tables: env.VecEnv, rows: Ints) -> NDArray[np.float32]:
        """Features [n, P, F] of the seats at some tables, whose games are not over."""
        ...

    def weigh(self, tables: env.VecEnv, rows: Ints, weights: Floats) -> Floats:
        """Weighted sums [n, P, K] of the features of each seat, for weights [F, K]."""
        ...


class PublicFeatures:
    """Counts of what each player sees of the own board, and what the player to move sees of the table.

    Every field of a token is a category; tokens whose order has no meaning in the game are counted together. A seat's
    own tokens are read from its own view, so that a drawn card counts for the player who holds it.
    """

    def __init__(self, info: env.GameDescription) -> None:
        self._columns: list[int] = []
        self._offsets: list[int] = []
        self._of_mover: list[bool] = []
        self.size = 1  # feature 0 stands for nothing
        for group in info.groups:
            if group.per_player:
                tokens = group.count // info.num_players
            elif group.count == 1:
                tokens = 1
            else:
                continue
            pooled = group.per_player and info.symmetric and group.slots
            for number, field in enumerate(group.fields):
                if field.seat or field.place or field.vocabulary > _LARGEST:
                    continue
                kinds = min(field.vocabulary, _KINDS)
                for token in range(tokens):
                    self._columns.append(group.offset + token * len(group.fields) + number)
                    self._offsets.append(self.size + (0 if pooled else token * kinds))
                    self._of_mover.append(not group.per_player)
                self.size += kinds if pooled else kinds * tokens

    def _codes(self, tables: env.VecEnv, rows: Ints) -> Ints:
        """Indices [n, P, T] of the features that are present; 0 for none."""
        codes = np.empty((len(rows), tables.num_players, len(self._columns)), np.int64)
        of_mover = np.array(self._of_mover)
        for seat in range(tables.num_players):
            seen = tables.observe(seat)[rows][:, self._columns].astype(np.int64)
            found = np.minimum(seen, _KINDS - 1) + self._offsets
            waits = tables.to_play[rows] != seat
            codes[:, seat] = np.where(waits[:, None] & of_mover, 0, found)
        return codes

    def read(self, tables: env.VecEnv, rows: Ints) -> NDArray[np.float32]:
        """See `Features`."""
        codes = self._codes(tables, rows)
        lines = np.arange(codes.shape[0] * codes.shape[1]).reshape(*codes.shape[:2], 1) * self.size
        counts = np.bincount((lines + codes).ravel(), minlength=codes.shape[0] * codes.shape[1] * self.size)
        return counts.reshape(*codes.shape[:2], self.size).astype(np.float32)

    def weigh(self, tables: env.VecEnv, rows: Ints, weights: Floats) -> Floats:
        """See `Features`."""
        codes = self._codes(tables, rows)
        return np.stack([column.take(codes).sum(2) for column in np.ascontiguousarray(weights.T)], 2)


class NetworkFeatures:
    """Outputs of a network: value, and where it predicts them the chance to win and the points to come.

    In games without lasting private information the player to move speaks for all seats; in others every seat is
    judged from its own view.
    """

    def __init__(self, network: BaseNetwork, score_scale: float, native: NativeValues | None = None) -> None:
        self.network, self.scale = network, score_scale
        self.size = 5
        self._device = next(network.parameters()).device
        self._native = native

    def read(self, tables: env.VecEnv, rows: Ints) -> NDArray[np.float32]:
        """See `Features`."""
        players = tables.num_players
        if not self.network.spec.private:
            seen, observer = tables.obs[rows], tables.to_play[rows].astype(np.int64)
            return np.asarray(from_seats(self._outputs(seen), -observer, axis=-2))
        own = [self._outputs(tables.observe(seat)[rows])[:, 0] for seat in range(players)]
        return np.stack(own, 1)

    @torch.inference_mode()
    def _outputs(self, obs: NDArray[np.int16]) -> NDArray[np.float32]:
        """Features [n, P, F] of observations [n, W], seats counted from the observer."""
        value, points, winner = self._judge(obs)
        out = torch.zeros(len(obs), self.network.num_players, self.size)
        out[:, :, 0] = self.network.support.expectation(value)
        out[:, 0, 1] = out[:, :, 4] = 1.0
        if winner is not None:
            chance = winner.float().softmax(-1)
            egos = chance.shape[1] > 1
            out[:, :, 2] = chance[:, :, 0] if egos else chance[:, 0]
        if points is not None:
            out[:, :, 3] = self.network.points_support.expectation(points) / self.scale
        return out.cpu().numpy()

    def _judge(self, obs: NDArray[np.int16]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits of values, points and winner for observations [n, W], in C++ where it can compute the network."""
        if self._native is not None:
            return self._native.judge(obs)
        seen = torch.from_numpy(np.ascontiguousarray(obs)).to(self._device)
        latent = self.network.represent(seen)
        found = self.network.predict(latent, torch.zeros(len(obs), dtype=torch.int64, device=self._device))
        return found.value, found.points, found.winner

    def weigh(self, tables: env.VecEnv, rows: Ints, weights: Floats) -> Floats:
        """See `Features`."""
        return np.asarray(self.read(tables, rows) @ weights)


@dataclass(frozen=True)
class ValueModel:
    """Fitted value function of one game, number of players and rule set.

    The margin is that of the scores so far plus a weighted sum of features, which predicts the points until the scores
    change next. The chance to win is logistic in the margins, with a slope that depends on how far the match has come.

    Attributes:
      features: features of positions.
      weights: [F, 2] weights of the features for a seat's points to come, less those of the others, and for the mean of
        all seats' points to come.
      slopes: weights of the logistic model, see `_lead_features`.
      scale: points of a unit of the margin.
    """

    features: Features
    weights: Floats
    slopes: Floats
    scale: float

    def values(self, tables: env.VecEnv, rows: Ints) -> Floats:
        """Values [n, P, C] of positions for every seat, see `COMPONENTS`; results where the game is over."""
        out = np.empty((len(rows), tables.num_players, len(COMPONENTS)))
        over = tables.done[rows]
        ended, going = rows[over], rows[~over]
        out[over, :, :3] = win_shares(tables.ranks[ended])[:, :, None]
        scores = tables.scores[rows] / self.scale
        out[:, :, 3] = -contrast(scores)
        out[:, :, 4] = scores.mean(1, keepdims=True)
        if len(going):
            to_come = self.features.weigh(tables, going, self.weights)
            margin = -contrast(scores[~over] + to_come[:, :, 0])
            out[~over, :, :3] = self._chances(margin, scores[~over].max(1))
            out[~over, :, 3] = margin
            out[~over, :, 4] += to_come[:, :, 1].mean(1, keepdims=True)
        return out

    def _chances(self, margin: Floats, progress: Floats) -> Floats:
        """Chances to win [n, P, 3] of every seat: among equals, if it is better, if it is worse."""
        found = []
        rest = _HANDICAP * np.clip(1 - progress, 0, 1)[:, None, None]
        for better in (0, 1, -1):
            shifted = margin[:, None, :] + better * rest * np.eye(margin.shape[1])  # [n, seat that differs, P]
            n, players = margin.shape
            logits = _logits(shifted.reshape(-1, players), np.repeat(progress, players), self.slopes)
            chance = _logistic(logits).reshape(n, players, players)
            chance /= chance.sum(2, keepdims=True)
            found.append(np.diagonal(chance, axis1=1, axis2=2))
        return np.stack(found, 2)


def win_shares(ranks: NDArray[np.int8]) -> Floats:
    """Share of the win of every seat, [n, P], from the ranks."""
    best = ranks == 1
    return np.asarray(best / np.maximum(best.sum(1, keepdims=True), 1))


def contrast(numbers: NDArray[Any]) -> Floats:
    """Each seat's number minus the mean of the others', [n, P, ...]."""
    players = numbers.shape[1]
    return np.asarray((numbers * players - numbers.sum(1, keepdims=True)) / (players - 1), np.float64)


def margins(scores: NDArray[np.int32]) -> Floats:
    """Mean score of the others minus the own, [n, P]: positive for a player who is ahead."""
    return -contrast(scores.astype(np.float64))


def _logistic(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30, 30))))


def _lead(margin: Floats) -> Floats:
    """Margin of each seat minus the best one of the others, [n, P]."""
    players = margin.shape[1]
    if players == 2:
        return margin - margin[:, ::-1]
    return np.asarray(margin - np.where(np.eye(players, dtype=bool), -np.inf, margin[:, None, :]).max(2))


def _logits(margin: Floats, progress: Floats, slopes: Floats) -> Floats:
    """Product [n, P] of `_lead_features` and slopes, without the features."""
    m = progress[:, None]
    by_margin, by_lead = (first + second * m + third * m**2 for first, second, third in (slopes[2:5], slopes[5:8]))
    return np.asarray(slopes[0] + slopes[1] * m + margin * by_margin + _lead(margin) * by_lead)


def _lead_features(margin: Floats, progress: Floats) -> Floats:
    """Features [n, P, 8] of the logistic model: margin over the mean and over the best of the others, by progress."""
    m = np.broadcast_to(progress[:, None], margin.shape)
    lead = _lead(margin)
    columns = [np.ones_like(margin), m, margin, margin * m, margin * m**2, lead, lead * m, lead * m**2]
    return np.stack(columns, -1)


# ---- fitting ---------------------------------------------------------------------------------------------------------


def fit_value_model(
    features: Features,
    game: str,
    players: int,
    rules: env.Rules,
    *,
    games: int = _FIT_GAMES,
    positions: int = _FIT_POSITIONS,
    seed: int = 2**62,
) -> ValueModel:
    """Fit a value function to games of the default bot.

    Args:
      features: features of positions.
      game, players, rules: table to play at.
      games: number of games.
      positions: number of positions that are taken of each game, on average.
      seed: seed of the deals; matches should not use it.
    """
    tables = env.make(game, games, players, rules, seed, auto_reset=False)
    bots = [tables.bot(tables.default_bot)] * players
    length = float(tables.play(bots, 64).stats["decisions"].mean())
    rng = np.random.default_rng(0)
    scale = float(tables.info.score_scale)
    # Positions: their tables, changes of the scores so far, scores and features.
    taken: list[tuple[Ints, Ints, NDArray[np.int32], NDArray[np.float32]]] = []
    changes = np.zeros(games, np.int64)
    standings: list[NDArray[np.int32]] = []  # scores after the first, second, ... change of each table
    while not tables.done.all():
        chosen = np.flatnonzero(~tables.done & (rng.random(games) < positions / length)).astype(np.int64)
        if len(chosen):
            scores = tables.scores[chosen].copy()
            taken.append((chosen, changes[chosen], scores, features.read(tables, chosen)))
        before = tables.scores.copy()
        going = ~tables.done
        tables.step(tables.bot_actions(bots))
        changed = np.flatnonzero(going & ((tables.scores != before).any(1) | tables.done))
        for number in np.unique(changes[changed]).tolist():
            if number == len(standings):
                standings.append(np.zeros_like(tables.scores))
            these = changed[changes[changed] == number]
            standings[number][these] = tables.scores[these]
        changes[changed] += 1
    at = np.concatenate([part[0] for part in taken])
    number = np.concatenate([part[1] for part in taken])
    scores = np.concatenate([part[2] for part in taken])
    read = np.concatenate([part[3] for part in taken])
    to_come = (np.stack(standings)[number, at] - scores) / scale
    apart = _ridge(contrast(read).reshape(-1, features.size), contrast(to_come).ravel())
    together = _ridge(read.mean(1, dtype=np.float64), to_come.mean(1))
    weights = np.stack([apart, together], 1)
    margin = -contrast(scores / scale + read @ apart)
    lead = _lead_features(margin, scores.max(1) / scale)
    slopes = _fit_logistic(lead.reshape(-1, lead.shape[-1]), win_shares(tables.ranks)[at].ravel())
    return ValueModel(features, weights, slopes, scale)


def _ridge(x: Floats, y: Floats) -> Floats:
    used = np.flatnonzero(x.any(0))
    weights = np.zeros(x.shape[1])
    inner = x[:, used].T @ x[:, used]
    weights[used] = np.linalg.solve(inner + _RIDGE * np.eye(len(used)), x[:, used].T @ y)
    return weights


def _fit_logistic(x: Floats, y: Floats) -> Floats:
    """Weights of a logistic regression to shares from 0 to 1, by Newton's method with a small penalty."""
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = _logistic(x @ weights)
        gradient = x.T @ (y - p) - 0.1 * weights
        information = (x * (p * (1 - p))[:, None]).T @ x + 0.1 * np.eye(x.shape[1])
        step = np.linalg.solve(information, gradient)
        weights += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-8:
            break
    return weights
