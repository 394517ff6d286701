"""Chance to win a match from its standing: the utility of a round for players who want to win the match.

The rest of a match is imagined as rounds that change the totals as rounds of bots did, whoever is behind. For two
players the chances of all standings are the solution of one equation, found by iteration over a grid of totals; for
more players they are the mean over a fixed sample of such matches. Shapes: n standings, P players.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
from numpy.typing import NDArray

import env
from muzero.config import GameConfig
from muzero.config.fields import require

Floats = NDArray[np.float64]

_ROUNDS = 1024  # rounds of bots that a table is fitted to
_SEED = 1 << 61  # seed of their deals, far from those of training and of matches
_MATCHES = 512  # imagined matches of more than two players
_LONGEST = 256  # most rounds of an imagined match; a match that goes on is won by the leader
_LARGEST_GRID = 512  # most totals of a grid; matches to larger targets are imagined
_PRECISION = 1e-6  # change of the chances at which the iteration ends
_AT_ONCE = 32  # standings that are computed at a time
_DRAWS = 64  # draws of the points of a round of more than two players
_MOST_KEPT = 1 << 17  # standings whose chances are remembered


class MatchTable:
    """Chances to win a match.

    Args:
      changes: int [N, P] changes of the totals in N rounds, each as likely as the others. Seats are equal: every round
        stands for all its rotations around the table.
      target: total that ends a match; the lowest total then wins.
      least: lowest total that there is, or None if totals may fall without limit.
      seed: seed of the imagined matches.
    """

    def __init__(self, changes: NDArray[np.int64], target: int, least: int | None = None, seed: int = 0) -> None:
        require(changes.ndim == 2 and changes.size > 0, "changes", "rounds by players", changes.shape)
        require(changes.shape[1] >= 2, "changes", "two or more players", changes.shape[1])
        require(bool((changes.max(0) > 0).any()), "changes", "rounds that bring points", int(changes.max()))
        players = changes.shape[1]
        self.target, self.num_players = target, players
        turned = np.concatenate([np.roll(changes, turn, 1) for turn in range(players)]).astype(np.int64)
        self._low = -target // 2 if least is None else least
        self._grid: Floats | None = None
        self._known: dict[bytes, Floats] = {}
        if players == 2 and target - self._low + int(np.ptp(turned)) <= _LARGEST_GRID:
            self._grid = _solve(turned, target, self._low)
        else:
            pick = np.random.default_rng(seed).integers(len(turned), size=(_LONGEST, _MATCHES))
            self._rounds = turned[pick].astype(np.int32)  # [rounds, matches, P]

    def shares(self, scores: NDArray[np.int32]) -> Floats:
        """Expected share of the win of each player, [n, P], given the totals [n, P] after a round."""
        require(scores.ndim == 2 and scores.shape[1] == self.num_players, "scores", "[n, players]", scores.shape)
        out = np.empty(scores.shape)
        over = scores.max(1, initial=-(1 << 30)) >= self.target
        out[over] = _results(scores[over])
        going = np.flatnonzero(~over)
        if self._grid is not None:
            own, other = np.maximum(scores[going] - self._low, 0).T
            out[going, 0] = self._grid[own, other]
            out[going, 1] = 1 - out[going, 0]
        else:
            out[going] = self._imagined(scores[going])
        return out

    def shares_after(self, scores: NDArray[np.int32], points: NDArray[np.int64], likely: Floats) -> Floats:
        """Expected shares of the win, [n, P], before a round whose points are not known yet.

        Args:
          scores: [n, P] totals before the round.
          points: [M] points that a player may get.
          likely: [n, P, M] probabilities of these points; players are taken to be independent of each other.
        """
        n, P, M = likely.shape
        if P == 2:  # all pairs of points
            pairs = np.stack(np.meshgrid(points, points, indexing="ij"), -1).reshape(1, -1, 2)
            weight = (likely[:, 0, :, None] * likely[:, 1, None, :]).reshape(n, -1, 1)
        else:
            luck = np.random.default_rng(0).permuted(np.tile((np.arange(_DRAWS) + 0.5) / _DRAWS, (P, 1)), axis=1)
            drawn = (likely.cumsum(2)[:, :, None] < luck[None, :, :, None]).sum(3).clip(max=M - 1)  # [n, P, draws]
            pairs, weight = points[drawn].transpose(0, 2, 1), np.full((n, _DRAWS, 1), 1 / _DRAWS)
        after = (scores[:, None] + pairs).astype(np.int32)
        return np.asarray((self.shares(after.reshape(-1, P)).reshape(n, -1, P) * weight).sum(1))

    def utility(self, scores: NDArray[np.int32]) -> Floats:
        """Utility of totals [n, P], 1 for a match that is won and -1 for one that is lost: linear in the shares."""
        return 2 * self.shares(scores) - 1

    def rewards(self, tables: env.VecEnv) -> NDArray[np.float32]:
        """Rewards [B, P] of the last step at tables that play single rounds: at the end of a round the utility of the
        new standing takes the place of the reward for having the fewest points. Without meaning where the game was
        over before."""
        paid: NDArray[np.float32] = tables.rewards
        over = np.flatnonzero(tables.done & ~tables.truncated)
        if len(over):
            paid = paid.copy()
            best = tables.ranks[over] == 1
            won = best / best.sum(1, keepdims=True)
            paid[over] += (2 * (self.shares(tables.scores[over]) - won)).astype(np.float32)
        return paid

    def _imagined(self, scores: NDArray[np.int32]) -> Floats:
        """Shares [n, P] of the win in imagined matches that go on from standings [n, P]; known ones are looked up."""
        rows = np.ascontiguousarray(np.maximum(scores, self._low), np.int32)
        keys = [row.tobytes() for row in rows]
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        new = list({key: at for at, key in enumerate(keys) if key not in self._known}.values())
        for start in range(0, len(new), _AT_ONCE):
            part = new[start : start + _AT_ONCE]
            for at, share in zip(part, self._play(rows[part]), strict=True):
                self._known[keys[at]] = share
        return np.array([self._known[key] for key in keys]).reshape(rows.shape)

    def _play(self, rows: NDArray[np.int32]) -> Floats:
        """Mean shares [n, P] of the win in the sampled matches from standings [n, P] on."""
        totals = np.repeat(rows[:, None], _MATCHES, 1)  # [n, matches, P]
        going = np.ones(totals.shape[:2], bool)
        for changes in self._rounds:
            totals = np.where(going[..., None], np.maximum(totals + changes, self._low), totals)
            going = totals.max(2) < self.target
            if not going.any():
                break
        return np.asarray(_results(totals).mean(1))


def _results(totals: NDArray[np.int32]) -> Floats:
    """Shares of the win [..., P] at the end of a match: players with the lowest total share it."""
    best = totals == totals.min(-1, keepdims=True, initial=1 << 30)
    return np.asarray(best / np.maximum(best.sum(-1, keepdims=True), 1))


def _solve(changes: NDArray[np.int64], target: int, low: int) -> Floats:
    """Chances [G, G] that a player with total low + i wins against one with total low + j.

    The chance is the mean, over all rounds, of the chance after the round: a correlation with the distribution of the
    changes, computed by Fourier transforms and repeated until nothing changes.

    Args:
      changes: [N, 2] changes of the totals; with every change its mirror image.
      target: total that ends a match.
      low: lowest total of the grid; totals below it count as this one.
    """
    least, most, size = int(changes.min()), int(changes.max()), target - low
    width = size + most - least
    likely = np.zeros((width, width))
    np.add.at(likely, tuple((changes - least).T), 1 / len(changes))
    kernel = np.conj(np.fft.rfft2(likely))
    after = low + least + np.arange(width)  # totals after a round
    own, other = after[:, None], after[None, :]
    ended = np.maximum(own, other) >= target
    result = np.where(own < other, 1.0, np.where(own == other, 0.5, 0.0))
    place = np.clip(after - low, 0, size - 1)
    chances = np.full((size, size), 0.5)
    for _ in range(_LONGEST):
        expected = np.where(ended, result, chances[np.ix_(place, place)])
        found = np.fft.irfft2(np.fft.rfft2(expected) * kernel, s=(width, width))[:size, :size]
        found = np.clip((found + 1 - found.T) / 2, 0, 1)
        moved = np.abs(found - chances).max()
        chances = found
        if moved < _PRECISION:
            break
    return chances


def require_rounds(game: GameConfig) -> None:
    """Raises a ValueError if `game.utility` asks for the match where training does not play rounds of a match."""
    if game.utility != "match":
        return
    values = env.describe(game.name, game.players, game.rules_for_training()).rule_values
    expected = "round for a game without matches of several rounds"
    require("target" in values and "episode" in values, "game.utility", expected, game.utility)
    expected = "round unless game.training.episode=round: a match that is played to its end needs no other utility"
    require(values["episode"] == "round", "game.utility", expected, game.utility)


def match_table(game: GameConfig) -> MatchTable | None:
    """Fit the table of chances that `game.utility` asks for, at tables for `game.players`; None if it asks for none."""
    if game.utility != "match":
        return None
    require_rounds(game)
    return _fitted(game.name, game.players, json.dumps(game.rules_for_training(), sort_keys=True))


@cache
def _fitted(game: str, players: int, rules: str) -> MatchTable:
    return fit_match_table(game, players, json.loads(rules))


def fit_match_table(
    game: str, players: int, rules: env.Rules, *, bot: str = "", rounds: int = _ROUNDS, seed: int = _SEED
) -> MatchTable:
    """Fit chances to win to rounds of bots.

    Args:
      game, players, rules: tables to play at; an episode is a round. Rounds begin at totals as the rules say, and
        changes of the totals are taken to be independent of them.
      bot: bot in all seats; the game's default bot if empty.
      rounds: number of rounds.
      seed: seed of the deals.
    """
    tables = env.make(game, rounds, players, rules, seed, auto_reset=False)
    target = tables.rules["target"]
    assert isinstance(target, int)
    before = tables.scores.astype(np.int64)
    tables.playout([tables.bot(bot or tables.default_bot)] * players, until="round")
    after = tables.scores[~tables.truncated].astype(np.int64)
    require(len(after) > 0, "max_decisions", "enough for bots to finish a round", tables.rules["max_decisions"])
    least = 0 if after.min() >= 0 else None  # in some games totals never fall below 0
    return MatchTable(after - before[~tables.truncated], target, least)
