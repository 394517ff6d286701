"""Searches that weigh chance by beliefs about hidden cards (`search.chance_source=cards`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.lane import Lane
from muzero.search.planner import Planner

B = 16
latents = pytest.mark.parametrize("latent", ["flat", "slots"])


def make(latent: str = "slots", variant: str = "belief_cards", game: str = "skyjo", players: int = 2) -> Network:
    torch.manual_seed(0)
    encoder = "transformer" if latent == "flat" else "columns"
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder, chance="game")
    network = Network(GameSpec.of(game, players), config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return network


def played(game: str = "skyjo", players: int = 2) -> env.VecEnv:
    tables = env.make(game, B, players, seed=1)
    tables.random_steps(20)
    return tables


def searched(planner: Planner, t: env.VecEnv) -> list[NDArray[Any]]:
    found = planner.analyse(t.obs, t.legal_bits, t.phase, t.decision_keys(7))
    return [found.policy, found.values, found.visits]


def by_hand(network: Network, t: env.VecEnv) -> NDArray[np.float32]:
    """Expected number of cards of each kind that the player to move cannot see, slot by slot, for both pools."""
    with torch.no_grad():
        said = network.predict(network.represent(torch.from_numpy(t.obs)), torch.zeros(B, dtype=torch.int64)).cards
    assert said is not None
    shares = said.softmax(2).numpy()
    counts = np.zeros((B, 2, network.num_outcomes - 1), np.float32)
    for slot in range(network.spec.num_slots):
        counts += shares[:, None, slot, 1:]
    return counts


@latents
def test_trees_are_given_the_expected_counts(latent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is the one that a planner makes whose counts are given by hand."""
    network, t = make(latent), played()
    config = SearchConfig(simulations=40, backend="eager")
    cards, learned, uniform = (
        searched(Planner(network, replace(config, chance_source=source), B), t)
        for source in ("cards", "learned", "uniform")
    )
    given = by_hand(network, t)
    monkeypatch.setattr(Lane, "_counts", lambda self, obs, latent: given[: len(obs)])
    expected = searched(Planner(network, replace(config, chance_source="exact"), B), t)
    for one, other in zip(cards, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)
    for source in (learned, uniform):
        assert not np.allclose(cards[1], source[1], atol=1e-4)


def test_outcomes_that_the_network_does_not_believe_in_are_not_told() -> None:
    network, t = make(), played()
    assert network.cards is not None
    assert isinstance(network.cards.kinds, torch.nn.Linear)
    with torch.no_grad():
        network.cards.kinds.weight.zero_()
        network.cards.kinds.bias.fill_(-100.0)
        network.cards.kinds.bias[[3, 9]] = 0.0
    asked: list[int] = []
    network.dynamics.register_forward_pre_hook(lambda _, given: asked.extend(given[3].tolist()))
    searched(Planner(network, SearchConfig(simulations=40, chance_source="cards", backend="eager"), B), t)
    assert set(asked) - {0} == {3, 9}


@pytest.mark.parametrize(("game", "players"), [("skyjo", 3), ("lama", 3), ("skipbo", 2), ("kuhn", 2)])
def test_every_game_can_be_searched_with_beliefs(game: str, players: int) -> None:
    network, t = make(game=game, players=players), played(game, players)
    native, eager = (
        searched(Planner(network, SearchConfig(simulations=16, chance_source="cards", backend=backend), B), t)
        for backend in ("native", "eager")
    )
    assert np.isfinite(native[1]).all()
    assert np.abs(native[0] - eager[0]).mean() < 0.01
    assert native[2].sum(1) == pytest.approx(np.full(B, 16), abs=1e-4)


def test_sources_that_there_are_no_counts_for_are_refused() -> None:
    without = make(variant="belief")
    message = "search.chance_source: expected another source without model.card_beliefs, got 'cards'"
    with pytest.raises(ValueError, match=message):
        Planner(without, SearchConfig(chance_source="cards"), B)
    Planner(without, SearchConfig(chance_source="exact"), B)
    without.spec = replace(without.spec, groups=tuple(g for g in without.spec.groups if g.name != "counts"))
    message = "search.chance_source: expected another source: skyjo shows no counts of unseen cards, got 'exact'"
    with pytest.raises(ValueError, match=message):
        Planner(without, SearchConfig(chance_source="exact"), B)


def test_a_network_that_is_told_no_outcomes_has_no_use_for_a_source() -> None:
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 2), load_model_config("tiny", "belief")).eval()
    t, found = played(), []
    for source in ("learned", "cards", "exact"):
        found.append(searched(Planner(network, SearchConfig(simulations=8, chance_source=source), B), t))
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other, strict=True))
