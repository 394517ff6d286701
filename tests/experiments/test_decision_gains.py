"""Gains of search at single decisions: playouts in shared worlds, and gains over the first agent's choices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments import decision_gains, skyjo_planner
from muzero.agents.bots import Bot
from muzero.agents.situation import Situation


def last_decisions() -> skyjo_planner.Positions:
    return skyjo_planner.collect(Bot("greedy"), "last", 16, 2)


def test_returns_of_last_actions_are_their_rewards() -> None:
    last = last_decisions()
    at, action = np.nonzero(last.tables.legal)
    found = decision_gains.action_returns(Bot("greedy"), last.tables, skyjo_planner.RULES, at, action, 300).mean(1)
    exact = skyjo_planner.action_values(last, 2000, 5)[at, action]
    assert np.abs(found - exact).mean() < 0.05
    assert exact.std() > 0.2


def test_gain_is_what_a_choice_is_paid_more_and_zero_where_choices_agree() -> None:
    last = last_decisions()
    tables, player = last.tables, Bot("greedy")
    values = skyjo_planner.action_values(last, 2000, 5)
    best, worst = np.nanargmax(values, 1), np.nanargmin(values, 1)
    chosen = {"policy": worst, "same": worst.copy(), "best": best}
    found = decision_gains.gains(chosen, player, tables, skyjo_planner.RULES, 300)
    assert (found["same"]["differs"], found["same"]["all"]["mean"]) == (0, 0)
    exact = (np.nanmax(values, 1) - np.nanmin(values, 1)).mean()
    assert found["best"]["all"]["mean"] == pytest.approx(exact, abs=0.1)
    assert found["best"]["all"]["mean"] > 0.3


def test_choices_do_not_depend_on_how_many_are_asked_at_once() -> None:
    tables, player = last_decisions().tables, Bot("greedy")
    whole = player.act(Situation.at(tables))
    assert decision_gains.choices(player, tables, at_once=5).tolist() == whole.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--worlds", "0"], "--worlds: expected 1 or more, got 0"),
        (["--search", "merge"], "--search: expected KEY=VALUE, got 'merge'"),
        ([], "expected a run directory"),
    ],
)
def test_bad_input_is_named(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert decision_gains.main(["--runs", str(tmp_path / "none"), "--out", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
