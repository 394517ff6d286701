"""Exhaustive search of a turn: agrees with a slow one, knows no hidden cards, plays endings as well as can be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import env
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.bots import Bot
from muzero.agents.expectimax import Expectimax, TurnSearch
from muzero.agents.situation import Situation
from muzero.matches.paired_games import paired_games
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.judge import make_native_values

DECK, TAKE = 0, 1
RULES = {"preset": "official", "episode": "round", "round_reward": 2.0}


@cache
def network(players: int = 2, latent: str = "slots") -> Network:
    torch.manual_seed(0)
    config = load_model_config("tiny", "belief")
    config.latent = latent
    config.encoder = "columns" if latent == "slots" else "transformer"
    return Network(GameSpec.of("skyjo", players), config).eval()


def played(decisions: int, count: int, players: int = 2, seed: int = 5) -> env.VecEnv:
    """Tables after some decisions of the bot `greedy`."""
    tables = env.make("skyjo", count, players, RULES, seed=seed, auto_reset=False)
    for _ in range(decisions):
        tables.step(tables.bot_actions([tables.bot("greedy")] * players))
    return tables


def copy_of(tables: env.VecEnv) -> env.VecEnv:
    made = env.make("skyjo", 1, tables.num_players, RULES, auto_reset=False)
    made.copy_from(tables, [0])
    return made


def slow_value(tables: env.VecEnv, mover: int, judge: Network) -> float:
    """Value of the table to the mover, one action and one outcome after the other, without merging any."""
    if tables.done[0]:
        return 0.0
    if tables.to_play[0] != mover:
        _, values = judge.values_of_observation(torch.from_numpy(tables.obs))
        return float(values[0, (mover - int(tables.to_play[0])) % tables.num_players])
    return max(slow_action(tables, mover, int(action), judge) for action in np.flatnonzero(tables.legal[0]))


@torch.inference_mode()
def slow_action(tables: env.VecEnv, mover: int, action: int, judge: Network) -> float:
    total, odds = 0.0, tables.odds(np.array([action]))[0].astype(np.float64)
    for outcome in np.flatnonzero(odds):
        after = copy_of(tables)
        after.step(np.array([action]), np.array([outcome]))
        worth = float(after.rewards[0, mover]) + slow_value(after, mover, judge)
        total += float(odds[outcome] / odds.sum()) * worth
    return total


@pytest.mark.parametrize(("players", "latent"), [(2, "slots"), (3, "slots"), (2, "flat")])
def test_values_of_actions_are_those_of_a_slow_search(players: int, latent: str) -> None:
    """Early in a round, where nothing is sampled: choosing a place after taking, and keeping or not after drawing."""
    judge = network(players, latent)
    search = TurnSearch(judge, 1, make_native_values(judge))
    error = 1e-5 if latent == "slots" else 0.02  # a flat network gives equivalent places different values
    for first in (TAKE, DECK):
        tables = played(12, 120, players)
        rows = np.flatnonzero(tables.phase == 0)[:2]
        assert len(rows) == 2
        at_source = env.make("skyjo", len(rows), players, RULES, auto_reset=False)
        at_source.copy_from(tables, rows)
        at_source.step(np.full(len(rows), first))
        count = 2 if first == TAKE else 1
        found = search.action_values(at_source, np.arange(count))
        for row in range(count):
            alone = env.make("skyjo", 1, players, RULES, auto_reset=False)
            alone.copy_from(at_source, [row])
            mover, legal = int(alone.to_play[0]), np.flatnonzero(alone.legal[0])
            expected = {int(a): slow_action(alone, mover, int(a), judge) for a in legal}
            tried = np.flatnonzero(np.isfinite(found[row]))
            assert set(tried) <= set(expected)
            for action in tried:
                assert found[row, action] == pytest.approx(expected[int(action)], abs=error)
            assert np.nanmax(found[row]) == pytest.approx(max(expected.values()), abs=error), "merged ones are equal"


def test_hidden_cards_make_no_difference() -> None:
    tables = played(9, 24)
    rows, seats = np.arange(24), tables.to_play.copy()
    search = TurnSearch(network(), worlds=1)
    before = search.action_values(tables, rows)
    tables.determinize(seats, 3)
    assert np.allclose(search.action_values(tables, rows), before, atol=1e-5, equal_nan=True)


def test_last_placing_is_as_good_as_the_worlds_can_tell() -> None:
    """An action that ends the game is worth its mean reward: no network is asked, and the rules decide."""
    tables = played(0, 256, seed=8)
    bots, before = [tables.bot("greedy")] * 2, env.make("skyjo", 256, 2, RULES, auto_reset=False)
    kept: list[bytes] = []
    while not tables.done.all() and len(kept) < 12:
        before.copy_from(tables, np.arange(256))
        actions = tables.bot_actions(bots)
        tables.step(actions)
        kept += [before.save(t) for t in np.flatnonzero(tables.done & ~before.done & (before.phase == 2))]
    last = env.make("skyjo", 12, 2, RULES, auto_reset=False)
    for table, blob in enumerate(kept[:12]):
        last.load(table, blob)
    rows, movers = np.arange(12), last.to_play.copy()
    found = TurnSearch(network(), worlds=400).action_values(last, rows)
    row, action = np.nonzero(np.isfinite(found))
    worlds = env.make("skyjo", 400 * len(row), 2, RULES, auto_reset=False)
    worlds.copy_from(last, row.repeat(400))
    worlds.determinize(movers[row].repeat(400), np.tile(np.arange(400, dtype=np.uint64) + np.uint64(7777), len(row)))
    worlds.step(action.repeat(400))
    assert worlds.done.reshape(len(row), 400).all(1).mean() > 0.9
    paid = worlds.rewards[np.arange(len(worlds.done)), movers[row].repeat(400)].reshape(len(row), 400)
    ends = worlds.done.reshape(len(row), 400).all(1)
    error = paid.std(1) / 20
    assert (np.abs(found[row, action] - paid.mean(1))[ends] <= 5 * error[ends] + 0.02).all()


def test_agent_plays_legal_actions_the_same_whenever_it_is_asked() -> None:
    tables = played(6, 20)
    agent = Expectimax(network(), worlds=4)
    once = agent.act(Situation.at(tables))
    assert tables.legal[np.arange(20), once].all()
    assert (agent.act(Situation.at(tables, np.arange(20))) == once).all()
    assert agent.act(Situation.at(tables, np.array([7]))) == once[7], "other rows make no difference"


def test_trained_network_is_found_by_name() -> None:
    agent = build(AgentSpec.parse("simulator:8,tree=expectimax,network=agent:skyjo-belief"), "skyjo", 2, batch=8)
    assert isinstance(agent, Expectimax)
    tables = played(4, 6)
    assert tables.legal[np.arange(6), agent.act(Situation.at(tables))].all()


@pytest.mark.slow
def test_turn_search_improves_on_the_greedy_bot() -> None:
    agent = build(AgentSpec.parse("simulator:16,tree=expectimax,network=agent:skyjo-belief"), "skyjo", 2, batch=128)
    games = paired_games(agent, Bot("greedy"), 100, game="skyjo", rules={"episode": "round"}, seed=3)
    assert games.wilson()[0] > 0.5


@pytest.mark.parametrize(
    ("text", "game", "message"),
    [
        ("simulator:4,tree=expectimax", "skyjo", "network: expected a network with tree=expectimax"),
        ("simulator:0,tree=expectimax,network=agent:skyjo-belief", "skyjo", "worlds: expected 1 or more, got 0"),
        ("simulator:4,tree=expectimax,bot=greedy", "skyjo", "bot: expected none with tree=expectimax, only with"),
        ("simulator:4,network=agent:nobody", "skyjo", "agent 'agent:nobody': expected one of lama-belief, "),
    ],
)
def test_bad_descriptions_are_refused_by_name(text: str, game: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(AgentSpec.parse(text), game, 2, batch=1)


def test_games_with_hands_are_refused() -> None:
    torch.manual_seed(0)
    lama = Network(GameSpec.of("lama", 2), load_model_config("tiny", "belief")).eval()
    with pytest.raises(ValueError, match="network: expected none in lama"):
        TurnSearch(lama)
