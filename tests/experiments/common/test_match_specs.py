"""Matches of an experiment: those with a stored result are not played again."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments import common
from tests.experiments.untrained_runs import SHORT, make_run


def test_a_match_with_a_stored_result_is_not_played_again(tmp_path: Path) -> None:
    """The agent's stored name has the precision that this machine has chosen for long searches."""
    place = make_run(tmp_path / "run", "belief", iterations=(4,), rules={**SHORT, "max_decisions": 12})
    agent = common.agent_of(common.Run.read(place), 4, simulations=100, backend="eager")
    options = argparse.Namespace(
        out=tmp_path, games=2, seed=0, batch=4, workers=1, runtime="local", address="", rules=[]
    )
    spec = common.MatchSpec("one", agent, "bot:naive", 2, {})
    (first,) = common.play_match_specs([spec], options)
    assert first["a"].startswith(f"{agent},bf16=o")
    stamp = (tmp_path / "parts" / "one.json").stat().st_mtime_ns
    assert common.play_match_specs([spec], options) == [first]
    assert (tmp_path / "parts" / "one.json").stat().st_mtime_ns == stamp


def test_a_stored_result_of_another_experiment_gets_the_labels_of_this_one(tmp_path: Path) -> None:
    options = argparse.Namespace(
        out=tmp_path, games=2, seed=0, batch=4, workers=1, runtime="local", address="", rules=["episode=round"]
    )
    one, other = ({"iteration": 1}, {"iteration": 2, "simulations": 4})
    specs = [common.MatchSpec("same", "bot:greedy", "bot:naive", 2, labels) for labels in (one, other)]
    (first,), (second,) = (common.play_match_specs([spec], options) for spec in specs)
    assert (first["iteration"], second["iteration"], second["simulations"]) == (1, 2, 4)
    assert {**first, **other} == second
