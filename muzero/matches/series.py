"""Several matches at once: their pieces share the workers, so that short matches keep all of them busy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from muzero.matches.match import MatchConfig, MatchStore, chunks, report
from muzero.matches.paired_games import Games, concatenate
from muzero.matches.workers import MatchChunk, WorkerPool


def play_matches(
    configs: Sequence[MatchConfig], pool: WorkerPool, quiet: bool = False
) -> Iterator[tuple[MatchConfig, dict[str, Any], Games]]:
    """Plays what is left of every match; yields each with its figures and games, in order, as soon as it is over.

    Matches with `out` keep what has been played beside it, so that a repeated call goes on. Nothing stops early, and
    there are no replays: those are for single matches.
    """
    work: list[tuple[int, MatchChunk]] = []
    played: list[list[Games]] = []
    stores = [MatchStore(config) for config in configs]
    for index, config in enumerate(configs):
        if config.out:
            Path(config.out).parent.mkdir(parents=True, exist_ok=True)
        played.append(stores[index].load(config.deals))
        done = len(played[index][0]) // config.players if played[index] else 0
        work += [(index, stores[index].piece(config, *chunk)) for chunk in chunks(config, done)]
    left = [sum(number == index for number, _ in work) for index in range(len(configs))]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=quiet) as bar:
        task = bar.add_task("games", total=sum(piece.deals * piece.players for _, piece in work))
        results = pool.play([piece for _, piece in work])
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
