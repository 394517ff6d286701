"""Opponents in self-play: the network itself, bots while they are hard to beat, past networks, an agent to exploit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import env
from muzero.config import Config, CurriculumConfig, PoolConfig

# Kinds of opponent: the current network, a past network, games of bots against each other, and the agent that is to be
# exploited; 0, 1, ... are the bots.
SELF, PAST_SELF, BOT_VS_BOT, EXPLOITED = -1, -2, -3, -4
NEVER = np.iinfo(np.int64).max  # `takeover_decision` of a game that the network does not take over
_LEAST_NEED = 0.02  # need for games against a bot once the goal against it is met


class Opponent(Protocol):
    """Agent that never learns, as a function."""

    def __call__(self, tables: env.VecEnv, rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Choose an action at some tables, [N] rows -> [N] actions; the same seed and positions give the same ones."""
        ...


MakeOpponent = Callable[[Config], Opponent]
"""Function that makes the agent that `exploit` names, for the tables of a configuration. Other processes import it by
its name."""


@dataclass(frozen=True)
class OpponentMix:
    """Probability of each kind of opponent; the rest is self-play.

    Attributes:
      past_self: probability of a game against a past network.
      bots: probability of a game against each bot.
      bot_vs_bot: probability of a game that bots play against each other.
      takeover_after: mean number of decisions after which the network takes all seats of a game of bots; 0 is never.
      exploited: probability of a game against the agent that is to be exploited.
    """

    past_self: float
    bots: tuple[float, ...]
    bot_vs_bot: float = 0.0
    takeover_after: float = 0.0
    exploited: float = 0.0

    def draw(self, key: Sequence[int]) -> int:
        """Kind of opponent, drawn at random; the same key gives the same kind."""
        point = float(np.random.default_rng(list(key)).random())
        kinds = [PAST_SELF, *range(len(self.bots)), BOT_VS_BOT, EXPLOITED]
        for kind, share in zip(kinds, (self.past_self, *self.bots, self.bot_vs_bot, self.exploited), strict=True):
            if point < share:
                return int(kind)
            point -= share
        return SELF

    def seat(self, kind: int, agent: int, players: int, key: Sequence[int]) -> list[int]:
        """Player of each seat: the current network at seat `agent` and its opponent elsewhere, or random bots."""
        if kind == BOT_VS_BOT:
            return [int(bot) for bot in np.random.default_rng([*key, 1]).integers(len(self.bots), size=players)]
        return [SELF if seat == agent else kind for seat in range(players)]

    def takeover_decision(self, kind: int, key: Sequence[int]) -> int:
        """Number of decisions until the network takes all seats; geometrically distributed, fixed by the key."""
        if kind != BOT_VS_BOT or not self.takeover_after:
            return NEVER
        return int(np.random.default_rng([*key, 2]).geometric(1 / self.takeover_after))


class Curriculum:
    """Curriculum of bots: games against each become rarer as the win rate against it approaches a goal.

    Args:
      config: settings: share of games, goal, and number of games over which win rates are averaged.
      bots: names of the bots.

    Attributes:
      rates: running win rate against each bot, scaled to two players: a fair share is 0.5 at tables of any size.
      games: number of games played against each bot.
    """

    def __init__(self, config: CurriculumConfig, bots: Sequence[str]) -> None:
        self.config, self.bots = config, tuple(bots)
        self.rates = [0.0] * len(self.bots)
        self.games = [0] * len(self.bots)

    def note(self, bot: int, points: float, players: int = 2) -> None:
        """Count a game against a bot at a table for `players`; `points` is the network's share of the win, 0 to 1."""
        self.games[bot] += 1
        weight = max(1 / self.games[bot], 1 / self.config.games_averaged)
        self.rates[bot] += weight * (points * players / 2 - self.rates[bot])

    def shares(self) -> tuple[float, ...]:
        """Probability of a game against each bot; bots that are hard to beat get the shares of the others."""
        if not self.bots:
            return ()
        need = [self._need(bot) for bot in range(len(self.bots))]
        return tuple(self.config.share * max(need) * own / (sum(need) or 1.0) for own in need)

    def bot_vs_bot(self) -> float:
        """Probability of a game of bots against each other."""
        return self.config.bot_vs_bot * max((self._need(bot) for bot in range(len(self.bots))), default=0.0)

    def _need(self, bot: int) -> float:
        """Need for games against a bot: 1 far below the goal, almost 0 at the goal.

        The need is never 0, because the win rate against a bot that is never met could not be seen to fall.
        """
        if self.games[bot] < self.config.games_averaged:
            return 1.0
        goal = self.config.goal
        return float(np.clip((goal - self.rates[bot]) / goal * 2, _LEAST_NEED, 1.0))

    def state(self) -> dict[str, Any]:
        """State of the curriculum, for a checkpoint."""
        return {"bots": list(self.bots), "rates": self.rates, "games": self.games}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        if state["bots"] != list(self.bots):
            raise ValueError(f"curriculum: the checkpoint has the bots {state['bots']}, expected {list(self.bots)}")
        self.rates, self.games = list(state["rates"]), list(state["games"])


class Pool:
    """Pool of past networks: iterations whose weights are kept as opponents. The weights are in the run directory."""

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.members: list[int] = []

    def wants(self, iteration: int) -> bool:
        """Whether the weights after this iteration become a member of the pool."""
        return self.config.share > 0 and iteration > 0 and iteration % self.config.every == 0

    def add(self, iteration: int) -> None:
        """Add a member. If there are too many, drop the one with the nearest neighbours, so that ages stay spread."""
        self.members.append(iteration)
        if self.config.size == 1:
            self.members = [iteration]
        elif len(self.members) > self.config.size:
            gaps = [after - before for before, after in zip(self.members, self.members[2:], strict=False)]
            del self.members[1 + int(np.argmin(gaps))]

    def draw(self, rng: np.random.Generator) -> int | None:
        """Draw a member uniformly; None if the pool is still empty."""
        return int(rng.choice(self.members)) if self.members else None
