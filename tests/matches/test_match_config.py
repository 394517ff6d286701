"""Defaults of a match, which come from its agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from muzero.matches.command import read_arguments
from muzero.runs import checkpoint


def test_a_network_of_another_game_is_refused_by_name(run: Path) -> None:
    with pytest.raises(ValueError, match="game: expected lama as in this match, got 'skyjo'"):
        read_arguments([f"a=policy:{run}", "b=bot:strategy_1", "game=lama"])


def test_a_runs_newest_checkpoint_is_resolved_to_its_iteration(run: Path) -> None:
    config = read_arguments([f"a=policy:{run}", "b=bot:naive"])
    assert config.a == f"policy:{run},iteration=7", "so that a resumed match cannot change agents"
    place = run / checkpoint.CHECKPOINTS / "000007"
    assert read_arguments([f"a=policy:{place}", "b=bot:naive"]).a == f"policy:{place}"


def test_networks_trained_for_different_rules_are_refused_unless_rules_are_given(run: Path, tmp_path: Path) -> None:
    found = checkpoint.load_weights(run)
    agent = {**found.agent, "rules": {"episode": "match", "target": 50}}
    del agent["format"], agent["iteration"]
    checkpoint.save(tmp_path, 3, tensors={"weights": found.weights}, arrays={}, state={}, agent=agent)
    both = [f"a=policy:{run}", f"b=policy:{tmp_path}"]
    with pytest.raises(ValueError, match=r"rules: expected episode=round, target=100 as the other agent.*target=50"):
        read_arguments(both)
    assert read_arguments([*both, "rules.target=80"]).rules == {"target": 80}, "unless they were asked for"
