"""Knowledge of the planner in Skyjo: collected positions, exact values of actions, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import skyjo_planner
from experiments.skyjo_planner import DECK, POSITION, TAKE
from muzero.agents.bots import Bot
from muzero.agents.situation import Situation
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from tests.experiments.untrained_runs import make_run, run_script

collect = skyjo_planner.collect


def greedy() -> Bot:
    """A player whose rounds end soon."""
    return Bot("greedy")


def test_collected_positions_are_of_the_sort_that_was_asked_for() -> None:
    ending = skyjo_planner.collect(greedy(), "ending", 40, 1)
    after = skyjo_planner.tables_like(ending.tables, np.arange(40))
    after.step(ending.actions)
    assert after.done.all()
    assert np.abs(after.rewards).max() > 0
    source = skyjo_planner.collect(greedy(), "source", 20, 1)
    assert (source.tables.phase == skyjo_planner.SOURCE).all()
    assert source.tables.legal[:, [DECK, TAKE]].all()
    last = skyjo_planner.collect(greedy(), "last", 20, 1)
    assert (last.tables.phase == POSITION).all()
    for action in range(4, 16):
        legal = np.flatnonzero(last.tables.legal[:, action])
        if len(legal):
            tried = skyjo_planner.tables_like(last.tables, legal)
            tried.step(np.full(len(legal), action))
            assert tried.done.all(), "whatever the action, the round is over"


def test_values_of_last_actions_are_mean_rewards_and_regret_is_the_distance_from_the_best() -> None:
    last = skyjo_planner.collect(greedy(), "last", 12, 2)
    values = skyjo_planner.action_values(last, 60, 3)
    assert (np.isfinite(values) == last.tables.legal).all()
    more = skyjo_planner.action_values(last, 600, 4)
    legal = last.tables.legal
    assert np.abs(values - more)[legal].mean() < 0.15

    class Oracle:
        """Plays the best of these actions, or the worst."""

        def __init__(self, sign: float) -> None:
            self.best = np.where(legal, sign * np.nan_to_num(values), -np.inf).argmax(1)

        def act(self, situation: Situation) -> np.ndarray:
            return self.best

    found = skyjo_planner.regret_figures({"best": Oracle(1.0), "worst": Oracle(-1.0), "greedy": greedy()}, last, 60, 3)
    assert found["best"]["mean"] == pytest.approx(0.0, abs=1e-9)
    assert 0 <= found["greedy"]["mean"] <= found["worst"]["mean"]
    assert found["worst"]["mean"] > 0.1


def test_a_policy_that_ends_no_rounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Draws:
        """Draws and puts cards back, for ever."""

        def act(self, situation: Situation) -> np.ndarray:
            return situation.legal.argmax(1)

    monkeypatch.setattr(skyjo_planner, "MOST_DECISIONS", 20)
    with pytest.raises(ValueError, match=r"expected 5 in 20 decisions of 256 tables, from a network .*, got 0"):
        collect(Draws(), "last", 5, 0)


@pytest.mark.filterwarnings("ignore:invalid value")  # the correlation with a constant
def test_rewards_are_asked_for_as_the_search_asks() -> None:
    """A network that always predicts a reward of 1 for the first seat of its frame, the next mover's, and -1 for the
    other one: the mover of the last decision, after which the turn passes, is promised -1."""
    torch.manual_seed(0)
    promising = Network(GameSpec.of("skyjo", 2), load_model_config("tiny", "baseline")).eval()
    ends = skyjo_planner.collect(greedy(), "ending", 16, 1)
    bins = promising.support.bins
    with torch.no_grad():
        promising.reward.weight.zero_()
        logits = torch.full((2, len(bins)), -30.0)
        logits[0, (bins - 1).abs().argmin()] = logits[1, (bins + 1).abs().argmin()] = 30.0
        promising.reward.bias.copy_(logits.flatten())
    passes = promising.spec.phase_table.turn_passes[ends.tables.phase, ends.actions]
    found = skyjo_planner.reward_figures(promising, ends)
    assert found["told"]["mean"] == pytest.approx(float(np.where(passes, -1.0, 1.0).mean()), abs=1e-4)
    after = skyjo_planner.tables_like(ends.tables, np.arange(16))
    mover = after.to_play.copy()
    after.step(ends.actions)
    assert found["paid"] == pytest.approx(float(after.rewards[np.arange(16), mover].mean()))


@pytest.mark.parametrize("chance", [pytest.param("none", marks=pytest.mark.slow), "game"])
def test_page_has_all_figures_of_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chance: str) -> None:
    for name, count in (("ENDINGS", 6), ("LAST_DECISIONS", 4), ("SOURCES", 3), ("WORLDS", 5)):
        monkeypatch.setattr(skyjo_planner, name, count)
    monkeypatch.setattr(skyjo_planner, "collect", lambda policy, *rest: collect(greedy(), *rest))
    runs = [make_run(tmp_path / variant, variant, iterations=(2,), chance=chance) for variant in ("belief", "baseline")]
    found = run_script("skyjo_planner", tmp_path / "out", "--runs", *runs, "--counts", 2, 4, plot=False)
    assert [row["variant"] for row in found["rows"]] == ["belief", "baseline"]
    for row in found["rows"]:
        assert row["value"]["n"] == 4
        assert row["reward"]["n"] == 6
        assert set(row["regret"]) == {"n", "worlds", "greedy", "policy", "2", "4"}
        assert row["deck_take"]["n"] == 3
        same = row["reward"]["told"] == row["reward"]["afterstate"]
        assert same == (chance == "none"), "outcomes are told to networks that know them"
    page = (tmp_path / "out" / "skyjo_planner.md").read_text()
    assert "| value RMSE |" in page
    assert "| regret of the last placing, greedy |" in page
    assert "| Q(deck) - Q(take), 4 simulations |" in page
