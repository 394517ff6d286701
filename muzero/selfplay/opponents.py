"""Who sits at the table in self-play: the current network, hand-written players while they are worth playing, and past
versions of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muzero.config import CurriculumConfig, PoolConfig

SELF, PAST_SELF = -1, -2  # kinds of opponent: the current network, a past one; 0, 1, ... are the bots
BOTS = -3  # kind of a game that bots play among themselves
NEVER = np.iinfo(np.int64).max  # a game that is not handed over
_LEAST_NEED = 0.02  # of a bot whose goal is met


@dataclass(frozen=True)
class OpponentMix:
    """How often each kind of opponent is met: probabilities of the rival, of each bot, and of games that bots play
    among themselves, until the network takes over after `takeover_after` decisions on average, if it is not 0; the rest
    is self-play."""

    rival: float
    bots: tuple[float, ...]
    bot_vs_bot: float = 0.0
    takeover_after: float = 0.0

    def draw(self, key: Sequence[int]) -> int:
        """A kind of opponent, named by the key."""
        point = float(np.random.default_rng(list(key)).random())
        kinds = [PAST_SELF, *range(len(self.bots)), BOTS]
        for kind, share in zip(kinds, (self.rival, *self.bots, self.bot_vs_bot), strict=True):
            if point < share:
                return int(kind)
            point -= share
        return SELF

    def seat(self, kind: int, agent: int, players: int, key: Sequence[int]) -> list[int]:
        """Who sits where: the current network at `agent`, its opponents elsewhere; or bots, drawn by the key."""
        if kind == BOTS:
            return [int(bot) for bot in np.random.default_rng([*key, 1]).integers(len(self.bots), size=players)]
        return [SELF if seat == agent else kind for seat in range(players)]

    def takeover_decision(self, kind: int, key: Sequence[int]) -> int:
        """Decisions after which the network takes all seats of a game; geometrically distributed, named by the key."""
        if kind != BOTS or not self.takeover_after:
            return NEVER
        return int(np.random.default_rng([*key, 2]).geometric(1 / self.takeover_after))


class Curriculum:
    """Bots to train against. Each fades as the win rate against it is met.

    Args:
      config: share of games, the goal, and how fast the running win rates forget.
      bots: names.

    Attributes:
      rates: running win rate against each bot, as of two players: a fair share of the wins is 0.5 at any table.
      games: played against each bot.
    """

    def __init__(self, config: CurriculumConfig, bots: Sequence[str]) -> None:
        self.config, self.bots = config, tuple(bots)
        self.rates = [0.0] * len(self.bots)
        self.games = [0] * len(self.bots)

    def note(self, bot: int, points: float, players: int = 2) -> None:
        """A game against a bot was played, at a table for `players`, for a share of the win, 0 to 1."""
        self.games[bot] += 1
        weight = max(1 / self.games[bot], 1 / self.config.games_averaged)
        self.rates[bot] += weight * (points * players / 2 - self.rates[bot])

    def shares(self) -> tuple[float, ...]:
        """Probability that a new game is against each bot; those that are hard to beat get the shares of the others."""
        if not self.bots:
            return ()
        need = [self._need(bot) for bot in range(len(self.bots))]
        return tuple(self.config.share * max(need) * own / (sum(need) or 1.0) for own in need)

    def bot_vs_bot(self) -> float:
        """Probability that a new game is played by bots alone."""
        return self.config.bot_vs_bot * max((self._need(bot) for bot in range(len(self.bots))), default=0.0)

    def _need(self, bot: int) -> float:
        """1 far below the goal, falling to almost 0 at it: a bot that is never met again could not come back."""
        if self.games[bot] < self.config.games_averaged:
            return 1.0
        goal = self.config.goal
        return float(np.clip((goal - self.rates[bot]) / goal * 2, _LEAST_NEED, 1.0))

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"bots": list(self.bots), "rates": self.rates, "games": self.games}

    def load(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint."""
        if state["bots"] != list(self.bots):
            raise ValueError(f"curriculum: the checkpoint has the bots {state['bots']}, expected {list(self.bots)}")
        self.rates, self.games = list(state["rates"]), list(state["games"])


class Pool:
    """Iterations whose weights are kept as opponents; the weights themselves lie in the run directory."""

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.members: list[int] = []

    def wants(self, iteration: int) -> bool:
        """Whether the weights after so many iterations become a member."""
        return self.config.share > 0 and iteration > 0 and iteration % self.config.every == 0

    def add(self, iteration: int) -> None:
        """Takes a member in. If there are too many, the one with the nearest neighbours leaves, so that ages spread."""
        self.members.append(iteration)
        if self.config.size == 1:
            self.members = [iteration]
        elif len(self.members) > self.config.size:
            gaps = [after - before for before, after in zip(self.members, self.members[2:], strict=False)]
            del self.members[1 + int(np.argmin(gaps))]

    def draw(self, rng: np.random.Generator) -> int | None:
        """A member, uniformly; None if there are none yet."""
        return int(rng.choice(self.members)) if self.members else None
