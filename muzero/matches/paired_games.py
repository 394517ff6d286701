"""Games between agents on paired deals: every deal is played once with the first agent in each seat.

python -m muzero.evaluate a=checkpoint:runs/x b=bot:greedy games=1000
python -m muzero.evaluate --help
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

import env
from env.game_record import GameRecord, GameRecordError
from muzero import stats
from muzero.agents.agents import Agent, Bot, Random, Situation
from muzero.runs.files import save_whole

Ints = NDArray[np.int64]
Watcher = Callable[[Situation], None]  # told of every decision of the first agent
Counter = Callable[[int, float], None]  # told how many games have just ended, and what the first agent got of them


@dataclass(frozen=True)
class Games:
    """Games of agent a against b in all other seats, [N], those of a deal next to each other.

    Attributes:
      won: share of the win that a got, 0 to 1.
      scores_a: final scores of a.
      scores_b: mean final scores of the other seats.
      truncated: games that reached the cap on decisions.
      decisions: made in each game, by all.
      deals: number of each game's deal.
      seats: a's seat.
      scores: [N, P] by seat.
      stats: [N, S] what the game reports of an episode (`VecEnv.stat_names`).
    """

    won: NDArray[np.float64]
    scores_a: NDArray[np.float64]
    scores_b: NDArray[np.float64]
    truncated: NDArray[np.bool_]
    decisions: NDArray[np.int64]
    deals: NDArray[np.int64]
    seats: NDArray[np.int64]
    scores: NDArray[np.int64]
    stats: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.won)

    @property
    def win_rate(self) -> float:
        """Mean share of the win; a draw of two is half a win."""
        return float(self.won.mean())

    def wilson(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson interval of the win rate; a part of a win counts towards both ends."""
        interval = stats.wilson(float(self.won.sum()), len(self), confidence)
        return interval.low, interval.high


@dataclass(frozen=True)
class GameRecordWriter:
    """Writes games of a against b as replays.

    Attributes:
      directory: of the files, one per game, named by deal and a's seat.
      deals: numbers below this are written.
      a, b: what the agents are called in them.
    """

    directory: Path
    deals: int
    a: str
    b: str

    def path(self, deal: int, seat: int) -> Path:
        """Of a game's file."""
        return self.directory / f"{deal:06d}-seat{seat}.json"

    def has(self, deal: int, seat: int, seed: int, rules: dict[str, Any]) -> bool:
        """Whether the file is there, and of these games, not of others that were written to the same directory."""
        try:
            kept = GameRecord.read(self.path(deal, seat))
        except (OSError, GameRecordError):
            return False
        who = [self.a if place == seat else self.b for place in range(len(kept.agents))]
        return (kept.seed, kept.deal, kept.agents, kept.rules) == (seed, deal, who, rules)

    def write(self, tables: env.VecEnv, deals: Ints, seats: Ints, actions: Sequence[Ints]) -> None:
        """Finished tables; actions [steps][B], `SKIP` where a table's game was over."""
        for row in np.flatnonzero(deals < self.deals).tolist():
            who = [self.a if seat == seats[row] else self.b for seat in range(tables.num_players)]
            made = [int(step[row]) for step in actions if step[row] != env.SKIP]
            replay = GameRecord.of(tables, row, seed=tables.seed, deal=deals[row], agents=who, actions=made)
            replay.save(self.path(int(deals[row]), int(seats[row])))


@dataclass(frozen=True)
class InFlightStore:
    """Keeps the actions of games under way, so that another process can go on with them: agents remember nothing, so
    with the same actions at the same tables the games are the same.

    Attributes:
      path: of the file.
      key: names what is played; a file of something else is not used.
      every: seconds between two savings.
    """

    path: Path
    key: str
    every: float = 20.0

    def load(self) -> list[Ints]:
        """[steps][B], as far as an earlier process has come; nothing if there is nothing to go on with."""
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                return list(saved["actions"].astype(np.int64)) if str(saved["key"]) == self.key else []
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            warnings.warn(f"{self.path} cannot be read, its games begin anew: {error}", RuntimeWarning, stacklevel=2)
            return []

    def save(self, actions: Sequence[Ints]) -> None:
        """Actions [steps][B]."""
        save_whole(self.path, key=np.array(self.key), actions=np.array(actions, np.int16))


def against_each(
    a: Agent,
    opponents: Sequence[Agent],
    deals: int,
    *,
    game: str,
    players: int = 2,
    rules: env.vector.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    threads: int = 1,
    watch: Watcher | None = None,
    count: Counter | None = None,
    recorder: GameRecordWriter | None = None,
    keeper: InFlightStore | None = None,
) -> list[Games]:
    """Plays the same deals against each opponent, all at once: a large batch suits a network.

    Games between hand-written players of the same seed are played inside the core, unless somebody watches or
    records them.
    """
    assert recorder is None or len(opponents) == 1, "files are named for one opponent"
    bots = [agent for agent in (a, *opponents) if isinstance(agent, Bot)]
    alone = len(bots) == 1 + len(opponents) and len({bot.seed for bot in bots}) == 1
    if alone and watch is None and recorder is None:
        settings: dict[str, Any] = {"game": game, "players": players, "rules": rules, "seed": seed, "threads": threads}
        found = [_bot_games(bots[0], b, deals, first_deal=first_deal, **settings) for b in bots[1:]]
        if count:
            count(sum(map(len, found)), float(sum(games.won.sum() for games in found)))
        return found
    each = deals * players
    rows = np.arange(len(opponents) * each)
    seat, rival = rows % players, rows // each
    tables = env.make(game, len(rows), players, rules, seed, auto_reset=False, threads=threads)
    deal = first_deal + rows % each // players
    tables.reset(deals=deal.tolist())
    made = _play_again(tables, deal, keeper.load()) if keeper else []
    if count and tables.done.any():
        count(int(tables.done.sum()), float(_won(tables, seat)[tables.done].sum()))
    agents, saved = [a, *opponents], time.monotonic()
    while not tables.done.all():
        whose = np.where(tables.done, -1, np.where(tables.to_play == seat, 0, 1 + rival))
        actions = np.full(len(rows), env.SKIP, np.int64)
        for number in _who_acts(agents, whose):
            theirs = np.flatnonzero(whose == number)
            situation = Situation.at(tables, theirs, seed)
            actions[theirs] = agents[number].act(situation)
            if watch and number == 0:
                watch(situation)
        earlier = tables.done.copy()
        tables.step(actions)
        ended = np.flatnonzero(tables.done & ~earlier)
        if count and len(ended):
            count(len(ended), float(_won(tables, seat)[ended].sum()))
        if recorder or keeper:
            made.append(actions)
        if keeper and time.monotonic() - saved > keeper.every:
            keeper.save(made)
            saved = time.monotonic()
    if recorder:
        recorder.write(tables, deal, seat, made)
    games = _finished(tables, deal, seat)
    return [_rows(games, rival == number) for number in range(len(opponents))]


def _play_again(tables: env.VecEnv, deals: Ints, actions: list[Ints]) -> list[Ints]:
    """Makes the actions of an earlier process, and returns them; if they do not fit, none, and the deals are new."""
    try:
        for step in actions:
            tables.step(step)
    except ValueError as error:
        warnings.warn(f"kept actions do not fit, the games begin anew: {error}", RuntimeWarning, stacklevel=2)
        tables.reset(deals=deals.tolist())
        return []
    return actions


def _who_acts(agents: Sequence[Agent], whose: Ints) -> list[int]:
    """Those of the agents who act next, where `whose` [B] says which one each table waits for (-1: none).

    Whoever takes no time to speak of, at once; when all such have acted, the one that most tables wait for, alone:
    tables that wait make the batches of networks large.
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
    rules: env.vector.Rules,
    seed: int,
    first_deal: int,
    threads: int,
) -> Games:
    """The same games as step by step, without an observation or an action in Python."""
    tables = env.make(game, deals, players, rules, seed, auto_reset=False, threads=threads)
    numbers = first_deal + np.arange(deals)
    parts = []
    for seat in range(players):
        tables.reset(deals=numbers.tolist())
        tables.playout([tables.bot(a.name if s == seat else b.name) for s in range(players)], a.seed)
        parts.append(_finished(tables, numbers, np.full(deals, seat)))
    return _rows(concatenate(parts), np.arange(players * deals).reshape(players, deals).T.ravel())


def _finished(tables: env.VecEnv, deals: Ints, seats: Ints) -> Games:
    """What came of the games at all tables, with a in the given seats."""
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
    """Shares of the win that the given seats got; of tables whose games are over."""
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
    rules: env.vector.Rules = "official",
    seed: int = 0,
    first_deal: int = 0,
    batch: int = 256,
    threads: int = 1,
    count: Counter | None = None,
    recorder: GameRecordWriter | None = None,
    keeper: InFlightStore | None = None,
) -> Games:
    """Plays deals first_deal, first_deal + 1, ... of a seed, with a in each seat in turn.

    Args:
      batch: games at a time.
      count: told of games as they end.
      recorder: keeps games as replays.
      keeper: keeps games under way; of one batch.
    """
    parts: list[Games] = []
    at_once = max(1, batch // players)
    assert keeper is None or deals <= at_once, "a file is of one batch"
    settings: dict[str, Any] = {"game": game, "players": players, "rules": rules, "seed": seed, "threads": threads}
    for start in range(0, deals, at_once):
        some, first = min(at_once, deals - start), first_deal + start
        keep = recorder if recorder and first < recorder.deals else None
        parts += against_each(a, [b], some, first_deal=first, count=count, recorder=keep, keeper=keeper, **settings)
    return concatenate(parts)


def _rows(games: Games, chosen: NDArray[Any]) -> Games:
    return Games(**{name: array[chosen] for name, array in vars(games).items()})


def first_games(games: Games, count: int) -> Games:
    """The first games of a series."""
    return _rows(games, np.arange(count))


def concatenate(parts: Sequence[Games]) -> Games:
    """Several series of games as one."""
    return Games(*(np.concatenate(list(column)) for column in zip(*(vars(p).values() for p in parts), strict=True)))
