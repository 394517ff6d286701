"""Runs of an experiment: reading them, and refusing those that cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import common
from tests.experiments.untrained_runs import make_run


def test_a_run_is_described_by_its_configuration_and_checkpoints(runs: dict[str, Path]) -> None:
    found = common.Run.read(runs["belief1"])
    assert (found.variant, found.seed, found.game, found.players, found.ego) == ("belief", 1, "skyjo", 2, True)
    assert (found.bots, found.iterations) == (("random", "naive"), (2, 4))
    agent = common.agent_of(found, 4, simulations=None, ablation="no_ego")
    assert agent.endswith("belief1,iteration=4,ablation=no_ego")
    assert "/" not in found.label


def test_runs_that_cannot_be_compared_are_refused_by_name(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected different runs, got 'the same one twice'"):
        common.read_runs([runs["belief0"], runs["belief0"]])
    with pytest.raises(ValueError, match=r"three: expected 2 players, as .*belief0, got 3"):
        common.same_players(common.read_runs([runs["belief0"], runs["three"]]))
    belief = common.Run.read(runs["belief0"])
    with pytest.raises(ValueError, match=r"belief0: expected a checkpoint of iteration 3, got 'those of \[2, 4\]'"):
        common.iterations_of([belief], [3])
    late = common.Run.read(make_run(tmp_path / "late", "baseline", iterations=(5,)))
    with pytest.raises(ValueError, match="expected a checkpoint of the same iteration"):
        common.iterations_of([belief, late], None)
    assert common.iterations_of([belief], None) == [2, 4]
