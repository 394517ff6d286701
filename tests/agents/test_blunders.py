"""Agents made weaker: the share of random decisions is as asked for, and the same decision comes out the same."""

from __future__ import annotations

import numpy as np
import pytest

import env
from muzero.agents.blunders import Blundering, blunder
from muzero.agents.bots import Bot
from muzero.agents.situation import Situation


def test_a_share_of_the_decisions_is_drawn_among_the_legal_actions() -> None:
    legal = np.array([2, 5, 7])
    drawn = [blunder(legal, key, 0.25) for key in range(4000)]
    found = [action for action in drawn if action is not None]
    assert len(found) / len(drawn) == pytest.approx(0.25, abs=0.03)
    assert np.bincount(found, minlength=8)[legal] == pytest.approx([len(found) / 3] * 3, rel=0.15)
    assert blunder(legal, 9, 0.0) is None
    assert blunder(legal, 9, 1.0) in legal


def test_an_agent_with_blunders_differs_from_the_agent_in_that_share_and_repeats_itself() -> None:
    tables = env.make("skyjo", 512, 2, seed=3)
    tables.random_steps(9)
    situation = Situation.at(tables)
    plain = Bot("greedy").act(situation)
    agent = Blundering(Bot("greedy"), 0.5)
    actions = agent.act(situation)
    assert 0.2 < (actions != plain).mean() < 0.5, "some draws are what the agent would have done"
    assert (agent.act(situation) == actions).all()
    assert situation.legal[np.arange(len(actions)), actions].all()
    assert (Blundering(Bot("greedy"), 0.0).act(situation) == plain).all()


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"blunders: expected a share from 0 to 1, got 1\.5"):
        Blundering(Bot("greedy"), 1.5)
