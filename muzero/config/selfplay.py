"""Settings of self-play: games, opponents and what is recorded of them."""

# ruff: noqa: RUF009  (the functions that declare lists and dicts return a field with a factory)

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muzero.config.fields import Section, listing, number, require, schedule, setting


@dataclass
class CurriculumConfig(Section):
    """Settings of the curriculum: games against bots, and among bots."""

    KEY = "selfplay.curriculum"

    share: float = number(0.3, least=0, most=1, meaning="share of games against bots at the start, over all bots")
    goal: float = number(
        0.7, above=0, most=1, meaning="win rate at which a bot has faded out (at any table, 0.5 is a fair share)"
    )
    games_averaged: int = number(100, least=1, meaning="games that a win rate is averaged over")
    bot_vs_bot: float = number(
        0.0,
        least=0,
        most=1,
        meaning="share of games that bots play among themselves at the start; fades with the bot that is hardest to "
        "beat. They teach values and need no search",
    )
    takeover_after: float = setting(
        0.0,
        "mean number of decisions after which the network takes all seats of a game among bots; 0 for never. It then "
        "learns from positions that it would not reach",
        "0, or 1 or more",
        lambda value: value == 0 or value >= 1,
    )


@dataclass
class PoolConfig(Section):
    """Settings of games against past versions of the network."""

    KEY = "selfplay.pool"

    share: float = number(0.3, least=0, most=1, meaning="share of games against past versions")
    every: int = number(20, least=1, meaning="iterations between versions that join the pool")
    size: int = number(20, least=1, meaning="largest number of versions in the pool")


@dataclass
class SelfPlayConfig(Section):
    """Settings of self-play."""

    KEY = "selfplay"

    players: list[int] = listing(
        (),
        "numbers of players to mix in one run, such as [2, 3, 4], game.players among them; empty for game.players "
        "alone. Tables and replay memory are divided evenly",
    )
    tables: int = number(256, least=1, meaning="tables in lockstep, over all workers")
    games_per_iteration: int = number(
        32, least=1, meaning="games that end an iteration, if steps_per_iteration is 0; more may end in the same step"
    )
    steps_per_iteration: int = number(
        0, least=0, meaning="steps of all tables per iteration; 0 goes by games_per_iteration"
    )
    simulations: list[list[int]] = schedule(
        (), least=1, meaning="schedule of simulations per decision; empty for search.simulations throughout"
    )
    temperature: list[Any] = schedule(
        [[0, 1.0]], least=0, meaning="schedule of the temperature of the choice among visits (puct)"
    )
    explore: float = number(
        0.0,
        least=0,
        most=1,
        meaning="share of the network's decisions at tables where it meets itself that are a random legal action "
        "instead, so that values are learned of positions that it would not reach; value targets before such an action "
        "stop at the search value there",
    )
    judged_outcomes: int = number(
        0,
        least=0,
        most=64,
        meaning="outcomes of each chance event that the network judges, so that the luck of the one that came is not "
        "in the value targets: they stay right on average and vary less; 0 leaves the luck in. Not with private hands",
    )
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    pool: PoolConfig = field(default_factory=PoolConfig)

    def check_together(self) -> None:
        """See `Section`."""
        c, pool = self.curriculum, self.pool.share
        bots = c.share + c.bot_vs_bot
        require(bots <= 1, "selfplay.curriculum.bot_vs_bot", f"at most {1 - c.share:g}", c.bot_vs_bot)
        require(bots + pool <= 1, "selfplay.pool.share", f"at most {1 - bots:g}", pool)
