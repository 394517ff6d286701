"""Claimed and paid values of actions: exact at last decisions, biased for a network that promises too much."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import action_values, skyjo_planner
from muzero.agents.agent_spec import AgentSpec, load_network
from muzero.agents.agents import Policy

RULES = ["episode=round", "round_reward=2.0", "max_decisions=400"]


def test_claims_are_rewards_and_values_of_legal_actions() -> None:
    network, _ = load_network(AgentSpec.of("agent", "skyjo-belief"), "skyjo", 2)
    last = skyjo_planner.collect(Policy(network), "last", 32, 3).tables
    claimed = action_values.claimed_values(network, last)
    assert (np.isnan(claimed) == ~last.legal).all()
    exact = skyjo_planner.action_values(skyjo_planner.Positions(last, np.zeros(32, np.int64)), 200, 1)
    seen = ~np.isnan(claimed)
    assert np.corrcoef(claimed[seen], exact[seen])[0, 1] > 0.7


def test_a_network_that_promises_too_much_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--agents", "agent:skyjo-belief", "--rules", *RULES, "--games", "48", "--worlds", "4"]
    assert action_values.main([*options, "--out", str(tmp_path / "honest")]) == 0
    claimed = action_values.claimed_values

    def promise(*given: object) -> action_values.Floats:
        return claimed(*given) + 0.5  # type: ignore[arg-type]

    monkeypatch.setattr(action_values, "claimed_values", promise)
    torch.manual_seed(0)
    assert action_values.main([*options, "--out", str(tmp_path / "boasting")]) == 0
    honest, boasting = (
        json.loads((tmp_path / name / "action_values.json").read_text())["agents"]["agent:skyjo-belief"]
        for name in ("honest", "boasting")
    )
    for name in action_values.CHOICES:
        assert boasting[name]["all"]["mean"] == pytest.approx(honest[name]["all"]["mean"] + 0.5, abs=1e-9)
        assert boasting[name]["paid"] == honest[name]["paid"]
    assert "| highest value |" in (tmp_path / "honest" / "action_values.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--agents", "bot:greedy"], "--agents: expected agents with a network, got 'bot:greedy'"),
        (["--agents", "agent:skyjo-belief", "--rules", "round"], "--rules: expected KEY=VALUE, got 'round'"),
        (["--agents", "agent:skyjo-belief", "--worlds", "1"], "--worlds: expected 2 or more, got 1"),
    ],
)
def test_bad_input_is_named(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert action_values.main([*options, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
