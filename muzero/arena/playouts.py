"""Analysis with the real rules: every action is played in the same sampled worlds, by a bot to the end of the round.

It needs no trained network, so it is there for every game and number of players. A world is a deal of the hidden cards
that the player to move thinks possible; the end of a round is judged by a fitted value function (`ValueModel`), so all
numbers are chances to win. All actions meet the same worlds: their differences are much surer than their values.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import env
from muzero.agents.value_model import PublicFeatures, ValueModel, fit_value_model
from muzero.arena.levels import strongest_bot
from muzero.arena.position import Position, belief_report

WORLDS = 64  # of an analysis during a game
_FIT_GAMES = 512  # games that a value function is fitted to: a fraction of a second
_MOST_MODELS = 16  # value functions that are kept: rules may be chosen by people
_RESAMPLES = 200  # of the worlds, by which the chance that an action is the best is found

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Playouts:
    """Worlds in which every legal action of a position was played; W worlds, L legal actions, P players.

    Attributes:
      seat: seat of the player to move.
      legal: [L] legal actions.
      chances: [W, L, P] chance of each seat to win at the end of the round, or its share of the win.
      ranks: [L, P, P] share of the worlds in which each seat (second axis) ended with each rank, the best first;
        None if the games were not played to their ends.
    """

    seat: int
    legal: tuple[int, ...]
    chances: Floats
    ranks: Floats | None = None

    def own(self) -> Floats:
        """Chances [W, L] of the player to move."""
        return np.asarray(self.chances[:, :, self.seat])

    def best(self) -> int:
        """Action with the highest mean chance for the player to move."""
        return self.legal[int(self.own().mean(0).argmax())]

    def gain(self, action: int, other: int, worlds: slice = slice(None)) -> tuple[float, float]:
        """Mean by which an action is better than another one in the same worlds, and its standard error."""
        own = self.own()[worlds]
        difference = own[:, self.legal.index(action)] - own[:, self.legal.index(other)]
        return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))

    def chance_best(self) -> Floats:
        """Chance [L] that each action is the best one, by a bootstrap over the worlds."""
        own = self.own()
        count = len(own)
        weights = np.random.default_rng(0).multinomial(count, [1 / count] * count, size=_RESAMPLES)
        means = weights @ own  # [resamples, L]
        ties = means >= means.max(1, keepdims=True) - 1e-9
        return np.asarray((ties / ties.sum(1, keepdims=True)).mean(0))


def play_out(tables: env.VecEnv, model: ValueModel, worlds: int, seed: int, *, ranks: bool = False) -> Playouts:
    """Play every legal action at a single table in sampled worlds.

    Args:
      tables: table whose game is not over; only what its player to move knows is used.
      model: value function of the table's game, number of players and rules.
      worlds: number of worlds.
      seed: seed of the worlds.
      ranks: whether to play on to the end of the game, for the ranks.
    """
    seat, players = int(tables.to_play[0]), tables.num_players
    legal = tuple(int(action) for action in np.flatnonzero(tables.legal[0]))
    count = worlds * len(legal)
    copies = env.make(tables.game, count, players, tables.rules, auto_reset=False)
    copies.copy_from(tables, np.zeros(count, np.int64))
    number = np.repeat(np.arange(worlds, dtype=np.uint64), len(legal)) ^ np.uint64(seed & ~0xFFFFFFFF)
    copies.determinize(np.full(count, seat, np.int8), number)
    copies.step(np.tile(np.array(legal, np.int64), worlds))
    bots = [copies.bot(strongest_bot(tables.game) or copies.default_bot)] * players
    copies.playout(bots, until="round")
    chances = model.values(copies, np.arange(count))[:, :, 0].reshape(worlds, len(legal), players)
    if not ranks:
        return Playouts(seat, legal, chances)
    copies.playout(bots, until="end")
    ended = copies.ranks.reshape(worlds, len(legal), players, 1) == np.arange(1, players + 1)
    return Playouts(seat, legal, chances, ended.mean(0))


class PlayoutAnalyst:
    """Analyses positions of any game by playouts; value functions are fitted when they are first needed.

    Args:
      worlds: number of worlds of an analysis.
    """

    def __init__(self, worlds: int = WORLDS) -> None:
        self.worlds = worlds
        self._models: OrderedDict[str, ValueModel] = OrderedDict()

    def model(self, tables: env.VecEnv) -> ValueModel:
        """Value function of a table's game, number of players and rules."""
        key = f"{tables.game} {tables.num_players} {tables.rules}"
        if key not in self._models:
            features = PublicFeatures(tables.info)
            self._models[key] = fit_value_model(
                features, tables.game, tables.num_players, tables.rules, games=_FIT_GAMES
            )
            if len(self._models) > _MOST_MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        return self._models[key]

    def play_out(self, tables: env.VecEnv, seed: int, worlds: int | None = None, *, ranks: bool = False) -> Playouts:
        """Playouts of the position at a single table."""
        return play_out(tables, self.model(tables), worlds or self.worlds, seed, ranks=ranks)

    def analyse(self, given: Sequence[env.VecEnv]) -> list[dict[str, Any]]:
        """Reports of the positions at single tables; keys as in docs/engine.md, without what only a network has.

        The worlds are drawn with fresh random numbers, so that a report says nothing about the cards beyond what its
        player sees: whatever the hidden cards are, its distribution is the same.
        """
        played = [self.play_out(each, secrets.randbits(63), ranks=True) for each in given]
        return [playout_report(Position.at(each), found) for each, found in zip(given, played, strict=True)]


def playout_report(position: Position, found: Playouts) -> dict[str, Any]:
    """Report of a position from playouts; values are 2 x chance - 1, as a network counts them."""
    own, names = found.own(), position.info.action_names
    mean, share = own.mean(0), found.chance_best()
    best = int(mean.argmax())
    error = (own - own[:, [best]]).std(0, ddof=1) / np.sqrt(len(own))
    winner = found.chances[:, best].mean(0)
    return {
        "to_play": position.to_play,
        "phase": position.info.phase_names[position.phase],
        "action": found.legal[best],
        "name": names[found.legal[best]],
        "actions": [
            {
                "action": action,
                "name": names[action],
                "prior": None,
                "visits": len(own),
                "q": round(float(2 * mean[i] - 1), 4),
                "error": round(float(2 * error[i]), 4),
                "policy": round(float(share[i]), 4),
            }
            for i, action in enumerate(found.legal)
        ],
        "values": [round(float(2 * chance - 1), 4) for chance in winner],
        "winner": [round(float(chance), 4) for chance in winner],
        "ranks": None if found.ranks is None else np.round(found.ranks[best], 4).tolist(),
        "belief": belief_report(position),
        "line": [],
    }
