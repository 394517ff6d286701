"""Simulator: search with the real rules."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import env
from muzero.agents.agents import Bot, Situation
from muzero.agents.simulator import Simulator
from muzero.matches.paired_games import paired_games
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec


def network(players: int) -> Network:
    torch.manual_seed(0)
    return Network(GameSpec.of("skyjo", players), load_model_config("tiny", "belief")).eval()


def test_simulator_reuses_its_worlds_for_tables_of_the_same_rules() -> None:
    agent, made = Simulator(24, "threshold"), []
    for rules in ({"episode": "round"}, {}, {"episode": "round"}, {}):
        agent.act(Situation.at(env.make("skyjo", 4, 2, rules, seed=1)))
        made.append(len(agent._worlds))
    assert made[0] < made[1] == made[2] == made[3]


@pytest.mark.parametrize("judge", ["rollout", "network"])
def test_simulator_uses_only_what_its_seat_knows(judge: str) -> None:
    """Face-down cards and the order of the draw pile make no difference to its choice."""
    tables = env.make("skyjo", 40, 2, seed=1)
    tables.random_steps(11)
    agent = Simulator(48, "threshold", network(2) if judge == "network" else None)
    seats, keys = tables.to_play.copy(), tables.decision_keys()
    chosen = agent.act(Situation.at(tables))
    changed = 0
    for seed in range(3):
        tables.determinize(seats, seed)
        assert (tables.decision_keys() != keys).all()
        changed += (agent.act(Situation.at(tables)) != chosen).sum()
    assert changed < 0.5 * 3 * 40  # the samples of the same belief differ, and so do some choices


def test_simulator_finds_the_obvious_move() -> None:
    """It keeps a -2 that it has drawn, and discards a 12."""
    tables = env.make("skyjo", 400, 2, {"episode": "round"}, seed=2)
    tables.step(np.zeros(400, np.int64))
    hands = np.array([tables.inspect(i)["hand"][0] for i in range(400)])
    low, high = np.flatnonzero(hands == 1), np.flatnonzero(hands == 15)
    agent = Simulator(128, "greedy")
    assert (agent.act(Situation.at(tables, low)) == 2).all()
    assert (agent.act(Situation.at(tables, high)) == 3).mean() > 0.8


@pytest.mark.slow
def test_simulator_beats_its_own_bot() -> None:
    games = paired_games(
        Simulator(256, "threshold"), Bot("threshold"), 200, game="skyjo", rules={"episode": "round"}, seed=3
    )
    assert games.wilson()[0] > 0.5
