"""Plays matches, one by one or several at once; a match that was interrupted resumes.

A match is cut into chunks of deals, which a worker pool plays. `muzero.matches.match_config` has the settings,
`muzero.matches.results` the figures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import env
from muzero import stats
from muzero.matches.games import Games, concatenate
from muzero.matches.results import Row, report, sequential_row
from muzero.matches.workers import GameCounter, WorkerPool, make_worker_pool, only_bots
from muzero.runs.files import writing

if TYPE_CHECKING:
    from muzero.matches.chunk import MatchChunk
    from muzero.matches.match_config import MatchConfig
    from muzero.matches.store import MatchStore

_LOOKS = 8  # least number of times that a match with the setting `stop` tests its results
_BOT_BATCH = 1 << 13  # games that bots play at a time: about a second's worth
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def chunks(config: MatchConfig, done: int) -> Iterator[tuple[int, int]]:
    """First deal and number of deals of each chunk that is left after `done` deals.

    Chunks have equal sizes and an even number, so that workers finish together. They are cut at the same deals whatever
    the number of workers, and wherever an earlier process stopped.
    """
    writer = config.record_writer
    recorded = min(writer.deals, config.deals) if writer else 0
    fast = only_bots(config.a, config.b) and not config.stop and not config.luck
    parts = [(0, recorded, config.batch), (recorded, config.deals, max(config.batch, _BOT_BATCH))]
    most = min(config.batch, -(-config.deals // _LOOKS) * config.players) if config.stop else config.batch
    for start, end, batch in parts if fast else [(0, config.deals, most)]:
        count = -(-(end - start) // max(1, batch // config.players))
        each = -(-(end - start) // (count + count % 2)) if count > 1 else end - start
        for first in range(start, end, max(1, each)):
            last, first = min(first + each, end), max(first, done)
            if first < last:
                yield first, last - first


def unrecorded(config: MatchConfig, done: int) -> Iterator[tuple[int, int]]:
    """Chunks, as `chunks` gives them, of finished deals whose game records are asked for and missing."""
    writer = config.record_writer
    if writer is None:
        return
    seats = range(config.players)
    rules = env.describe(config.game, config.players, config.rules).rule_values
    each = max(1, config.batch // config.players)
    for first in range(0, min(done, writer.deals), each):
        deals = min(each, done - first)
        wanted = range(first, min(first + deals, writer.deals))
        if not all(writer.has(deal, seat, config.seed, rules) for deal in wanted for seat in seats):
            yield first, deals


def _make_chunk(config: MatchConfig, store: MatchStore, first: int, deals: int) -> MatchChunk:
    """Make a chunk; if it takes long (networks play), its games in flight are saved, except on Ray's machines."""
    slow = (bool(config.luck) or not only_bots(config.a, config.b)) and config.runtime == "local"
    return replace(config.chunk(first, deals), in_flight=store.in_flight(first, deals) if slow else None)


def play_match(config: MatchConfig, quiet: bool = False, pool: WorkerPool | None = None) -> tuple[Row, Games]:
    """Play a match, or the rest of one; return its figures and its games.

    Args:
      config: settings of the match, with defaults filled in (`with_defaults`).
      quiet: whether to show no progress.
      pool: worker pool; by default the pool that the configuration asks for is made.
    """
    own, store = pool is None, config.store()
    pool = pool or make_worker_pool([config.a, config.b], config.workers, config.runtime, config.address, config.luck)
    try:
        result = _play_match(config, store, quiet, pool)
    finally:
        if own:
            pool.close()
    if config.stop and own:
        store.finish()
    return result


def _play_match(config: MatchConfig, store: MatchStore, quiet: bool, pool: WorkerPool) -> tuple[Row, Games]:
    started, failed = time.perf_counter(), pool.failures
    if store.path is not None:
        with writing(store.path):
            store.path.parent.mkdir(parents=True, exist_ok=True)
    parts, total = store.load(config.deals), config.deals * config.players
    before = len(parts[0]) if parts else 0
    done = before // config.players
    for _ in pool.play([config.chunk(*chunk) for chunk in unrecorded(config, done)]):
        pass  # these games are played once more for their game records
    with Progress(*_COLUMNS, TextColumn("{task.fields[state]}"), disable=quiet) as bar:
        task = bar.add_task("games", total=total, completed=before, state="")

        def show(games: float, points: float) -> None:
            rate = stats.wilson(points, round(games))
            early = " (short games first)" if games < total else ""
            state = f"win rate {rate.estimate:.3f} [{rate.low:.3f}, {rate.high:.3f}]{early}"
            bar.update(task, completed=min(games, total), state=state)

        left = [] if parts and _is_decided(config, parts[0]) else chunks(config, done)
        points = float(parts[0].won.sum()) if parts else 0.0
        with nullcontext() if quiet or pool.counter is None else _followed(pool.counter, before, points, show):
            for part in pool.play([_make_chunk(config, store, *chunk) for chunk in left]):
                parts = [concatenate([*parts, part])]
                store.save(parts[0])
                if pool.counter is None:
                    show(len(parts[0]), float(parts[0].won.sum()))
                if _is_decided(config, parts[0]):
                    break
        show(len(parts[0]), float(parts[0].won.sum()))
    games = parts[0]
    seconds, fresh, failures = time.perf_counter() - started, len(games) - before, pool.failures - failed
    return report(config, games, seconds, fresh, failures), games


def _is_decided(config: MatchConfig, games: Games) -> bool:
    """Tell whether a match that may stop early (`stop`) does so after these games."""
    return bool(config.stop) and sequential_row(config, games)["decision"] != "continue"


@contextmanager
def _followed(
    counter: GameCounter, games: float, points: float, show: Callable[[float, float], None]
) -> Iterator[None]:
    """Show twice a second the games that have ended, in unfinished chunks too, plus `games` and `points` from before.

    Short games end first, so the win rate that is shown is only an impression.
    """
    first, over = counter.total(), threading.Event()

    def follow() -> None:
        while not over.wait(0.5):
            new = [now - then for now, then in zip(counter.total(), first, strict=True)]
            if games + new[0]:
                show(games + new[0], points + new[1])

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def play_matches(
    configs: Sequence[MatchConfig], pool: WorkerPool, quiet: bool = False
) -> Iterator[tuple[MatchConfig, Row, Games]]:
    """Play several matches at once, whose chunks share the workers, so that short matches keep all of them busy.

    Yields each match with its figures and games, in order, as soon as it is over. Matches with `out` save their games
    next to that file, so that a repeated call resumes. No match stops early or writes game records: only single
    matches do.
    """
    work: list[tuple[int, MatchChunk]] = []
    played: list[list[Games]] = []
    stores = [config.store() for config in configs]
    for index, config in enumerate(configs):
        if config.out:
            with writing(Path(config.out)):
                Path(config.out).parent.mkdir(parents=True, exist_ok=True)
        played.append(stores[index].load(config.deals))
        done = len(played[index][0]) // config.players if played[index] else 0
        work += [(index, _make_chunk(config, stores[index], *chunk)) for chunk in chunks(config, done)]
    left = [sum(number == index for number, _ in work) for index in range(len(configs))]
    with Progress(*_COLUMNS, disable=quiet) as bar:
        task = bar.add_task("games", total=sum(chunk.deals * chunk.players for _, chunk in work))
        results = pool.play([chunk for _, chunk in work])
        for index, config in enumerate(configs):
            bar.update(task, description=f"{index + 1}/{len(configs)} {config.a} - {config.b}")
            before, failed = sum(map(len, played[index])), pool.failures
            for _ in range(left[index]):
                part = next(results)
                played[index] = [concatenate([*played[index], part])]
                stores[index].save(played[index][0])
                bar.advance(task, len(part))
            (games,) = played[index]
            fresh, failures = len(games) - before, pool.failures - failed
            yield config, report(config, games, None, fresh, failures), games
            played[index] = []
