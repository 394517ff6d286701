"""Agents choose legal actions, and the same ones every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Agent, Bot, Policy, Random, Searcher, Situation
from muzero.agents.simulator import Simulator
from muzero.config import SearchConfig
from muzero.matches.paired_games import against_each, paired_games
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec


def network(players: int) -> Network:
    torch.manual_seed(0)
    return Network(GameSpec.of("skyjo", players), load_model_config("tiny", "belief")).eval()


def agents(players: int) -> list[Agent]:
    net = network(players)
    return [
        Random(),
        Bot("threshold(t=2)"),
        Policy(net),
        Policy(net, temperature=1.0),
        Searcher(net, SearchConfig(simulations=4), batch=5),
        Simulator(24, "threshold"),
        Simulator(24, "threshold", net),
    ]


@pytest.mark.parametrize("players", [2, 3])
def test_agents_play_legal_actions_and_repeat_them(players: int) -> None:
    tables = env.make("skyjo", 12, players, seed=1)
    for agent in agents(players):
        for steps in (0, 7, 20):
            tables.random_steps(steps)
            situation = Situation.at(tables)
            actions = agent.act(situation)
            assert actions.shape == (12,)
            assert situation.legal[np.arange(12), actions].all(), agent
            assert (agent.act(situation) == actions).all(), agent


def test_a_decision_does_not_depend_on_the_other_tables_of_the_situation() -> None:
    """The tables are in several phases, with different numbers of legal actions."""
    tables = env.make("skyjo", 60, 2, seed=1)
    tables.random_steps(9)
    tables.step(np.where(np.arange(60) % 2 == 0, tables.sample_actions(seed=3), -1))
    choices = tables.legal.sum(1)
    few = np.flatnonzero(choices == choices[choices > 1].min())
    assert choices.max() > 2 * choices[few[0]]
    for agent in [*agents(2), Simulator(256, "greedy", caution=0.0)]:
        everywhere = agent.act(Situation.at(tables))
        for rows in (np.array([2, 5, 11]), few):
            some = agent.act(Situation.at(tables, rows))
            has_network = isinstance(agent, Searcher | Policy) or getattr(agent, "network", None) is not None
            if not has_network:  # products in batches of another size may differ in the last bits
                assert (some == everywhere[rows]).all(), agent


def test_random_agent_is_uniform_over_the_legal_actions() -> None:
    tables = env.make("skyjo", 8000, 2, seed=1)
    shares = np.bincount(Random().act(Situation.at(tables)), minlength=2) / 8000
    assert shares[:2] == pytest.approx([0.5, 0.5], abs=0.03)


class FirstLegal:
    """Agent as a user would write it: one method, and no base class."""

    def act(self, situation: Situation) -> NDArray[np.int64]:
        return situation.legal.argmax(1)


class Illegal:
    def act(self, situation: Situation) -> NDArray[np.int64]:
        return situation.legal.argmin(1)


def test_a_class_with_an_act_method_plays_a_match() -> None:
    settings: dict[str, Any] = {"game": "skyjo", "players": 3, "rules": {"episode": "round"}, "seed": 5}
    games = paired_games(FirstLegal(), Bot("greedy"), 10, **settings)
    assert games.seats.tolist() == [0, 1, 2] * 10
    assert not games.truncated.any()
    assert games.win_rate < 1 / 3
    (reverse,) = against_each(Bot("greedy"), [FirstLegal()], 10, **settings)
    assert reverse.win_rate > 1 / 3
    assert (paired_games(FirstLegal(), Bot("greedy"), 10, batch=6, **settings).scores == games.scores).all()


def test_an_illegal_action_of_an_agent_is_an_error() -> None:
    with pytest.raises(ValueError, match="illegal"):
        paired_games(Illegal(), Bot("greedy"), 2, game="skyjo")
