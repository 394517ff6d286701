"""Games between agents on paired deals: every deal is played once with the first agent in each seat."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import env
from muzero.agents.bots import Bot, Random
from muzero.agents.situation import Agent, Situation
from muzero.agents.value_model import ValueModel
from muzero.matches.games import Games, concatenate
from muzero.matches.luck import LuckTracker

if TYPE_CHECKING:
    from muzero.matches.store import GameRecordWriter, InFlightStore

Ints = NDArray[np.int64]
Watcher = Callable[[Situation], None]  # function that is called with every decision of the first agent
Counter = Callable[[int, float], None]  # called with the number of games that have just ended and a's points


def against_each(
    a: Agent,
    opponents: Sequence[Agent],
    deals: int,
    *,
    game: str,
    players: int = 2,
    rules: env.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    threads: int = 1,
    watch: Watcher | None = None,
    count: Counter | None = None,
    record_writer: GameRecordWriter | None = None,
    in_flight: InFlightStore | None = None,
    luck: ValueModel | None = None,
) -> list[Games]:
    """Play the same deals against each opponent, all at the same time: networks are fastest with large batches.

    Games between bots of the same seed are played inside the C++ core, unless they are observed or recorded, or their
    luck is measured.

    Args:
      a: the first agent, which plays in each seat in turn.
      opponents: agents, each of which takes all other seats of its own games.
      deals: number of deals per opponent, from `first_deal` on.
      game, players, rules, seed: arguments of `env.make`, which makes the tables.
      first_deal: number of the first deal.
      threads: number of threads that step the tables.
      watch: function that is called with every decision of a.
      count: function that is called when games end, see `Counter`.
      record_writer: writer of the games as game records; for one opponent only.
      in_flight: store that saves the games in flight, from which they are resumed.
      luck: value function by which the luck of a is measured; None measures none.
    """
    assert record_writer is None or len(opponents) == 1, "record files are named for one opponent"
    bots = [agent for agent in (a, *opponents) if isinstance(agent, Bot)]
    only_bots = len(bots) == 1 + len(opponents) and len({bot.seed for bot in bots}) == 1
    if only_bots and watch is None and record_writer is None and luck is None:
        settings: dict[str, Any] = {"game": game, "players": players, "rules": rules, "seed": seed, "threads": threads}
        found = [_bot_games(bots[0], b, deals, first_deal=first_deal, **settings) for b in bots[1:]]
        if count:
            count(sum(map(len, found)), float(sum(games.won.sum() for games in found)))
        return found
    each = deals * players
    rows = np.arange(len(opponents) * each)
    seat, opponent = rows % players, rows // each
    tables = env.make(game, len(rows), players, rules, seed, auto_reset=False, threads=threads)
    deal = first_deal + rows % each // players
    tables.reset(deals=deal.tolist())
    step = Stepper(tables, luck)
    made = _resume(step, deal, in_flight.load()) if in_flight else []
    if count and tables.done.any():
        count(int(tables.done.sum()), float(_won(tables, seat)[tables.done].sum()))
    agents, saved = [a, *opponents], time.monotonic()
    while not tables.done.all():
        whose = np.where(tables.done, -1, np.where(tables.to_play == seat, 0, 1 + opponent))
        actions = np.full(len(rows), env.SKIP, np.int64)
        for number in next_to_act(agents, whose):
            theirs = np.flatnonzero(whose == number)
            situation = Situation.at(tables, theirs, seed)
            actions[theirs] = agents[number].act(situation)
            if watch and number == 0:
                watch(situation)
        earlier = tables.done.copy()
        step(actions)
        ended = np.flatnonzero(tables.done & ~earlier)
        if count and len(ended):
            count(len(ended), float(_won(tables, seat)[ended].sum()))
        if record_writer or in_flight:
            made.append(actions)
        if in_flight and time.monotonic() - saved > in_flight.every:
            in_flight.save(made)
            saved = time.monotonic()
    if record_writer:
        record_writer.write(tables, deal, seat, made)
    games = replace(_finished(tables, deal, seat), luck=step.luck(seat))
    return [games.select(opponent == number) for number in range(len(opponents))]


class Stepper:
    """Carries out actions at tables and, given a value function, measures the luck of every seat."""

    def __init__(self, tables: env.VecEnv, value_model: ValueModel | None) -> None:
        self.tables, self._value_model = tables, value_model
        self._tracker = LuckTracker(value_model, tables) if value_model else None

    def __call__(self, actions: Ints) -> None:
        """Step all tables by their actions, [B]."""
        if self._tracker:
            self._tracker.step(self.tables, actions)
        else:
            self.tables.step(actions)

    def restart(self, deals: Ints) -> None:
        """Deal all games again."""
        self.tables.reset(deals=deals.tolist())
        self._tracker = LuckTracker(self._value_model, self.tables) if self._value_model else None

    def luck(self, seats: Ints) -> NDArray[np.float64]:
        """Luck [B, C] of a seat at each table; C = 0 without a value function."""
        rows = np.arange(self.tables.num_envs)
        return self._tracker.luck[rows, seats] if self._tracker else np.zeros((len(rows), 0))


def _resume(step: Stepper, deals: Ints, actions: list[Ints]) -> list[Ints]:
    """Repeat the actions of an earlier process and return them; if one is illegal, deal again and return none."""
    try:
        for made in actions:
            step(made)
    except ValueError as error:
        warnings.warn(f"saved actions do not fit, the games start again: {error}", RuntimeWarning, stacklevel=2)
        step.restart(deals)
        return []
    return actions


def next_to_act(agents: Sequence[Agent], whose: Ints) -> list[int]:
    """Indices of the agents that act next; `whose` [B] is the agent that each table waits for (-1: none).

    Fast agents act at once. When none of them is waited for, the agent that most tables wait for acts alone: tables
    that wait make the batches of networks large.
    """
    waiting = np.bincount(whose[whose >= 0], minlength=len(agents))
    quick = [n for n, agent in enumerate(agents) if waiting[n] and isinstance(agent, Bot | Random)]
    return quick or [int(waiting.argmax())]


def _bot_games(
    a: Bot,
    b: Bot,
    deals: int,
    *,
    game: str,
    players: int,
    rules: env.Rules,
    seed: int,
    first_deal: int,
    threads: int,
) -> Games:
    """Play games of two bots inside the C++ core; the results equal those of playing step by step."""
    tables = env.make(game, deals, players, rules, seed, auto_reset=False, threads=threads)
    numbers = first_deal + np.arange(deals)
    parts = []
    for seat in range(players):
        tables.reset(deals=numbers.tolist())
        tables.playout([tables.bot(a.name if s == seat else b.name) for s in range(players)], a.seed)
        parts.append(_finished(tables, numbers, np.full(deals, seat)))
    return concatenate(parts).select(np.arange(players * deals).reshape(players, deals).T.ravel())


def _finished(tables: env.VecEnv, deals: Ints, seats: Ints) -> Games:
    """Results of the games at all tables, with a in the given seats."""
    rows = np.arange(tables.num_envs)
    scores = tables.scores.astype(np.float64)
    own = scores[rows, seats]
    return Games(
        won=_won(tables, seats),
        scores_a=own,
        scores_b=(scores.sum(1) - own) / (tables.num_players - 1),
        truncated=tables.truncated.copy(),
        decisions=tables.stats[:, tables.stat_names.index("decisions")].astype(np.int64),
        deals=deals,
        seats=seats,
        scores=tables.scores.astype(np.int64),
        stats=tables.stats.astype(np.int64),
    )


def _won(tables: env.VecEnv, seats: Ints) -> NDArray[np.float64]:
    """Share of the win that each table's given seat got; only meaningful for tables whose game is over."""
    best = tables.ranks == 1
    share: NDArray[np.float64] = best[np.arange(tables.num_envs), seats] / np.maximum(best.sum(1), 1)
    return share


def paired_games(
    a: Agent,
    b: Agent,
    deals: int,
    *,
    game: str,
    players: int = 2,
    rules: env.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    batch: int = 256,
    threads: int = 1,
    count: Counter | None = None,
    record_writer: GameRecordWriter | None = None,
    in_flight: InFlightStore | None = None,
    luck: ValueModel | None = None,
) -> Games:
    """Play deals first_deal, first_deal + 1, ... of a seed, with a in each seat in turn and b in all others.

    Args:
      a, b: agents: any objects with the one method of `Agent`.
      deals: number of deals, each played `players` times.
      game, players, rules, seed: arguments of `env.make`, which makes the tables.
      first_deal: number of the first deal.
      batch: number of games that are played at a time.
      threads: number of threads that step the tables.
      count: function that is called when games end, see `Counter`.
      record_writer: writer of the games as game records.
      in_flight: store that saves the games in flight, from which they are resumed; only for a single batch.
      luck: value function by which the luck of a is measured; None measures none.
    """
    parts: list[Games] = []
    at_once = max(1, batch // players)
    assert in_flight is None or deals <= at_once, "games in flight are saved for one batch only"
    settings: dict[str, Any] = {"game": game, "players": players, "rules": rules, "seed": seed, "threads": threads}
    for start in range(0, deals, at_once):
        some, first = min(at_once, deals - start), first_deal + start
        writer = record_writer if record_writer and first < record_writer.deals else None
        settings |= {"count": count, "record_writer": writer, "in_flight": in_flight, "luck": luck}
        parts += against_each(a, [b], some, first_deal=first, **settings)
    return concatenate(parts)
