"""Runs of an experiment: which ones may be compared, and at which iterations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from muzero.agents.agent_spec import AgentSpec
from muzero.config.fields import require
from muzero.runs import run as run_reader
from muzero.runs.provenance import check_pooled, starts
from muzero.runs.run import Run


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Reads run directories; the same one twice, or runs of different games, are an error.

    Warns of runs that were trained by different code.
    """
    runs = run_reader.read_runs(paths)
    for run in runs:
        require(run.game == runs[0].game, str(run.path), f"a run of {runs[0].game}, as {runs[0].path}", run.game)
    known = [facts for run in runs for facts in starts(run.path)]
    if known:  # runs of earlier code have none
        check_pooled("runs", known)
    return runs


def same_players(runs: Sequence[Run]) -> None:
    """Refuses runs for different numbers of players, which cannot play each other."""
    for run in runs:
        expected = f"{runs[0].players} players, as {runs[0].path}"
        require(run.players == runs[0].players, str(run.path), expected, run.players)


def iterations_of(runs: Sequence[Run], wanted: Sequence[int] | None) -> list[int]:
    """Iterations at which all runs have a checkpoint.

    Args:
      runs: runs to compare.
      wanted: exact iterations to use instead; a run without such a checkpoint is an error.
    """
    for iteration in wanted or ():
        for run in runs:
            expected = f"a checkpoint of iteration {iteration}"
            require(iteration in run.iterations, str(run.path), expected, f"those of {list(run.iterations)}")
    shared = sorted(set.intersection(*(set(run.iterations) for run in runs)))
    require(bool(shared), " and ".join(str(run.path) for run in runs), "a checkpoint of the same iteration", "none")
    return list(wanted) if wanted else shared


def agent_of(run: Run, iteration: int, **options: Any) -> str:
    """Name of a run's checkpoint as an agent with search; options that are None are left out."""
    return str(AgentSpec.of("checkpoint", run.path, iteration=iteration, **options))


def iteration_of(run: Run, wanted: int | None) -> int:
    """Iteration of one checkpoint of a run: the wanted one, by default the newest."""
    return iterations_of([run], None if wanted is None else [wanted])[-1]


def variants(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Groups runs by variant, in the order in which variants first appear."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.variant, []).append(run)
    return groups
