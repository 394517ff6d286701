"""Agents that search a tree over sampled worlds: descriptions, and play in matches."""

from __future__ import annotations

import numpy as np
import pytest

import env
from env.world_search import WorldSearch
from muzero.agents.agent_spec import AgentSpec, build, resolve
from muzero.agents.agents import Bot, Situation
from muzero.agents.simulator import Simulator
from muzero.agents.tree_simulator import TreeSimulator
from muzero.matches.paired_games import paired_games


def described(text: str, game: str = "skyjo", players: int = 2) -> TreeSimulator:
    agent = build(resolve(AgentSpec.parse(text)), game, players, batch=8)
    assert isinstance(agent, TreeSimulator)
    return agent


def test_options_become_settings() -> None:
    agent = described("simulator:64,tree=ismcts,exploration=1.5,until=end,observers=all,seed=3,bot=random")
    assert agent.search == WorldSearch(iterations=64, own_views=True, exploration=1.5, until="end", seed=3)
    assert (agent.bot, agent.opponents) == ("random", None)
    agent = described("simulator:64,tree=pimc,worlds=8,opponents=greedy")
    assert agent.search == WorldSearch(iterations=64, worlds=8)
    assert (agent.bot, agent.opponents) == (env.make("skyjo").default_bot, "greedy")
    assert described("simulator:64,tree=pimc").search.worlds == 16
    assert described("simulator:4,tree=pimc").search.worlds == 4
    assert isinstance(build(AgentSpec.parse("simulator:9,tree=rollout"), "skyjo", 2, batch=1), Simulator)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("tree=minimax", "tree: expected one of rollout, ismcts, pimc, expectimax, got 'minimax'"),
        ("exploration=1", "exploration: expected none with tree=rollout, only with ismcts or pimc, got '1'"),
        ("tree=ismcts,worlds=4", "worlds: expected none with tree=ismcts, only with pimc, got '4'"),
        ("tree=pimc,observers=all", "observers: expected none with tree=pimc, only with ismcts, got 'all'"),
        ("tree=ismcts,observers=two", "observers: expected one or all, got 'two'"),
        ("tree=pimc,worlds=0", "worlds: expected 1 or more with tree=pimc, got 0"),
        ("tree=pimc,worlds=many", "worlds: expected a number, got 'many'"),
        ("tree=ismcts,exploration=-1", "exploration: expected 0 or more, got -1.0"),
        ("tree=ismcts,bot=nobody", "bot: skyjo has no bot 'nobody'"),
        ("tree=ismcts,opponents=nobody", "opponents: skyjo has no bot 'nobody'"),
        ("tree=ismcts,network=agent:skyjo-belief", "network: expected none with tree=ismcts"),
        ("depth=3", "expected options among bot, network, tree, exploration"),
    ],
)
def test_bad_options_are_refused_by_name(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        described(f"simulator:16,{options}")
    assert f"agent 'simulator:16,{options}'" in str(error.value)


@pytest.mark.parametrize("tree", ["ismcts", "pimc"])
def test_choices_are_those_of_the_search_and_depend_on_nothing_else(tree: str) -> None:
    tables = env.make("lama", 12, 3, seed=4)
    tables.random_steps(5)
    agent = described(f"simulator:40,tree={tree}", "lama", 3)
    chosen = agent.act(Situation.at(tables))
    visits, values = agent.analyse(tables, np.arange(12))
    best = visits.argmax(1) if tree == "ismcts" else np.nan_to_num(values, nan=-np.inf).argmax(1)
    tied = tree == "ismcts" and (visits == visits.max(1, keepdims=True)).sum(1) > 1
    free = tables.legal.sum(1) > 1
    assert ((chosen == best) | tied)[free].all()
    assert tables.legal[np.arange(12), chosen].all()
    assert agent.act(Situation.at(tables, np.array([5]))) == chosen[5]


@pytest.mark.parametrize("tree", ["ismcts", "pimc"])
def test_trees_keep_good_cards_and_discard_bad_ones(tree: str) -> None:
    tables = env.make("skyjo", 400, 2, {"episode": "round"}, seed=2)
    tables.step(np.zeros(400, np.int64))
    hands = np.array([tables.inspect(i)["hand"][0] for i in range(400)])
    low, high = np.flatnonzero(hands == 1)[:6], np.flatnonzero(hands == 15)[:8]
    agent = described(f"simulator:300,tree={tree},bot=greedy")
    assert (agent.act(Situation.at(tables, low)) == 2).all()
    assert (agent.act(Situation.at(tables, high)) == 3).mean() > 0.6


@pytest.mark.parametrize(
    ("game", "players", "rules"),
    [("skyjo", 2, {"episode": "round"}), ("lama", 4, {"episode": "round"}), ("skipbo", 2, {"stock": 3})],
)
def test_trees_with_random_playouts_beat_random_play(game: str, players: int, rules: dict[str, object]) -> None:
    agent = described("simulator:48,tree=ismcts,bot=random", game, players)
    games = paired_games(agent, Bot("random"), 24 // players, game=game, players=players, rules=rules, seed=3)
    assert games.win_rate > 1 / players + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["ismcts", "pimc"])
def test_trees_beat_the_bot_that_plays_their_worlds_out(tree: str) -> None:
    agent = described(f"simulator:400,tree={tree},bot=threshold")
    games = paired_games(agent, Bot("threshold"), 150, game="skyjo", rules={"episode": "round"}, seed=3)
    assert games.wilson()[0] > 0.5
