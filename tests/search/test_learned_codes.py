"""Searches with learned codes of chance (`model.chance=learned`): chance nodes after every action."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import env
from muzero.agents.agents import Searcher
from muzero.agents.analysis import analyse_rows
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.planner import Plan, Planner

B, CODES = 12, 5
KINDS = [("slots", "columns"), ("flat", "transformer")]


def make(game: str = "skyjo", kind: tuple[str, str] = KINDS[0], players: int = 2) -> Network:
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", "belief"), latent=kind[0], encoder=kind[1])
    network = Network(GameSpec.of(game, players), replace(config, chance="learned", codes=CODES)).eval()
    for parameter in network.parameters():  # outputs that differ: first weights are too much alike
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return network


def tables(game: str = "skyjo", players: int = 2, steps: int = 12) -> env.VecEnv:
    found = env.make(game, B, players, seed=5)
    found.random_steps(steps, seed=3)
    return found


def plan(planner: Planner, t: env.VecEnv) -> Plan:
    return planner.plan(t.obs, t.legal_bits, t.phase, t.decision_keys(7))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind[0]))
def test_shapes_of_codes(kind: tuple[str, str]) -> None:
    network, t = make(kind=kind), tables()
    assert network.learned_codes
    assert network.num_outcomes == CODES + 1
    seen = torch.from_numpy(t.obs.copy())
    zero = torch.zeros(B, dtype=torch.int64)
    with torch.no_grad():
        latent = network.represent(seen)
        assert network.outcome_codes(latent).shape == (B, CODES)
        by_code = [network.step(latent, zero, zero, torch.full((B,), code)) for code in range(CODES + 1)]
        weights = torch.nn.functional.one_hot(torch.full((B,), 3), CODES + 1).float()
        assert torch.allclose(network.step(latent, zero, zero, weights), by_code[3], atol=1e-5)
        outcome = network.predict(by_code[0], zero).outcome
        assert outcome is not None
        assert outcome.shape == (B, CODES + 1)
    apart = [(one - by_code[0]).abs().max() for one in by_code[1:]]
    assert min(apart) > 1e-3


@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_every_game_is_searched_the_same_way_twice_and_row_by_row(game: str, algorithm: str) -> None:
    network, t = make(game), tables(game, steps=1 if game == "kuhn" else 12)
    config = SearchConfig(simulations=24, algorithm=algorithm, backend="eager")
    one, two = (plan(Planner(network, config, B), t) for _ in range(2))
    assert (one.actions == two.actions).all()
    assert (one.policy == two.policy).all()
    alone = Planner(network, config, 1).plan(t.obs[4:5], t.legal_bits[4:5], t.phase[4:5], t.decision_keys(7)[4:5])
    assert alone.policy[0] == pytest.approx(one.policy[4], abs=1e-4)


def test_chance_nodes_follow_every_action_and_all_codes_are_told() -> None:
    network, t = make(), tables()
    with torch.no_grad():
        assert isinstance(network.outcome, torch.nn.Linear)
        network.outcome.weight.zero_()
        network.outcome.bias.zero_()
        network.outcome.bias[0] = -30.0
    told: list[tuple[int, int]] = []
    network.dynamics.register_forward_pre_hook(
        lambda _, given: told.extend(zip(given[1].tolist(), given[3].tolist(), strict=True))
    )
    planner = Planner(network, SearchConfig(simulations=60, backend="eager"), B)
    plan(planner, t)
    assert {code for _, code in told} == set(range(CODES + 1))
    asked_first = {action for action, code in told if code == 0}
    assert {action for action, code in told if code} <= asked_first, "afterstates come first"
    tree = planner.lanes[0].trees.tree()
    parents = np.take_along_axis(tree["chance"], np.maximum(tree["parent"], 0), 1) > 0
    used = tree["parent"] >= 0
    assert (tree["chance"][used] > 0).tolist() == (~parents[used]).tolist()


def test_priors_of_chance_nodes_are_what_the_network_expects_after_the_action() -> None:
    network, t = make("lama", players=3), tables("lama", 3)
    planner = Planner(network, SearchConfig(simulations=30, backend="eager", skip_forced=False), B)
    plan(planner, t)
    tree = planner.lanes[0].trees.tree()
    compared = 0
    for game, node in zip(*np.nonzero(tree["parent"] == 0), strict=True):
        action, seat = int(tree["edge"][game, node]), torch.tensor([int(tree["to_play"][game, node])])
        with torch.no_grad():
            latent = network.represent(torch.from_numpy(t.obs[game : game + 1].copy()))
            after = network.step(latent, torch.tensor([action]), seat, torch.zeros(1, dtype=torch.int64))
            outcome = network.predict(after, seat).outcome
        assert outcome is not None
        found = tree["prior"][game, node, : CODES + 1]
        assert found == pytest.approx(outcome.softmax(1)[0].numpy(), abs=1e-4)
        compared += 1
    assert compared > B


def test_native_step_agrees_with_torch() -> None:
    network, t = make(), tables()
    found = [plan(Planner(network, SearchConfig(simulations=24, backend=name), B), t) for name in ("eager", "native")]
    assert (found[0].actions == found[1].actions).mean() > 0.9
    assert found[0].policy == pytest.approx(found[1].policy, abs=2e-3)


@pytest.mark.parametrize("source", ["exact", "cards"])
def test_sources_that_count_cards_are_refused(source: str) -> None:
    message = "search.chance_source: expected learned or uniform with model.chance=learned, got"
    with pytest.raises(ValueError, match=message):
        Planner(make(), SearchConfig(chance_source=source), B)


def test_an_analysis_takes_no_code_for_a_card() -> None:
    network, t = make(), tables()
    agent = Searcher(network, SearchConfig(simulations=40, backend="eager"), B)
    found = analyse_rows(agent.planner, t.obs, t.legal_bits, t.phase, t.to_play, t.decision_keys(7))
    assert found.outcomes is None
    assert (found.lines[:, :, 1] <= 0).all()
    assert (found.lines[:, 0, 0] == found.actions).all()
