"""Heads of hidden cards: the order of their slots, expected counts, and tables of fewer players."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from muzero.model.flat import FlatCardBeliefs
from muzero.model.network import Network
from muzero.model.slots import SlotCardBeliefs
from muzero.model.spec import GameSpec
from tests.model.helpers import kinds, permute_slots, played_tables, random_network, random_symmetry, seats, slots_of

CARDS = "belief_cards"
per_table = pytest.mark.parametrize("players", [2, 3])


@per_table
def test_labels_are_in_the_order_of_the_slots_of_an_observation(players: int) -> None:
    """A slot of the mover's observation shows no card exactly where there is a label."""
    tables = played_tables(players)
    spec = GameSpec.of("skyjo", players)
    board = next(g for g in spec.groups if g.slots)
    tokens = tables.obs[:, board.offset : board.offset + board.count * 4].reshape(16, board.count, 4)
    face_down = tokens[:, :, board.fields.index("visibility")] == 0
    labels = tables.true_cards(tables.to_play)
    assert labels.shape == (16, spec.num_slots)
    np.testing.assert_array_equal(labels > 0, face_down)
    assert 0.1 < face_down.mean() < 0.95
    assert (face_down != np.roll(face_down, 12, 1)).any(), "boards of different players differ"


@per_table
@pytest.mark.parametrize("encoder", ["columns", "transformer"])
def test_belief_about_a_slot_is_read_from_the_vector_of_that_slot(encoder: str, players: int) -> None:
    network = random_network("slots", encoder, CARDS, players)
    head = network.cards
    assert isinstance(head, SlotCardBeliefs)
    with torch.no_grad():
        head.context.weight.zero_()
        latent = network.represent(torch.from_numpy(played_tables(players).obs))
        found = network.predict(latent, seats(16, players)).cards
        vectors = slots_of(network, latent)  # in the order of the tokens
        assert found is not None
        for slot in range(12 * players):
            torch.testing.assert_close(found[:, slot], head.kinds(F.relu(head.slot(vectors[:, slot]))))
    assert not torch.allclose(found[:, 0], found[:, 1])


@per_table
def test_beliefs_are_permuted_with_the_slots(players: int) -> None:
    network = random_network("slots", "columns", CARDS, players).double()
    rng = np.random.default_rng(0)
    obs = torch.from_numpy(played_tables(players).obs)
    orders = [random_symmetry(network.spec, rng) for _ in range(players)]
    with torch.no_grad():
        plain, moved = (
            network.predict(network.represent(o), seats(16, players)).cards
            for o in (obs, permute_slots(obs, network.spec, orders))
        )
    assert plain is not None
    assert moved is not None
    order = np.concatenate([np.array(own) + 12 * player for player, own in enumerate(orders)])
    torch.testing.assert_close(moved, plain[:, order])
    assert not torch.allclose(moved, plain)


@kinds
def test_expected_counts_are_sums_of_the_beliefs(latent: str, encoder: str) -> None:
    network = random_network(latent, encoder, CARDS)
    assert network.cards is not None
    with torch.no_grad():
        for parameter in network.cards.parameters():
            parameter *= 0.1  # not sure of anything
        roots = network.represent(torch.from_numpy(played_tables().obs))
        found = network.card_counts(roots)
        said = network.predict(roots, torch.zeros(16, dtype=torch.int64)).cards
    assert said is not None
    assert found.shape == (16, 15)
    for row in range(16):
        expected = [0.0] * 16
        for slot in range(36):
            for code, share in enumerate(said[row, slot].softmax(0).tolist()):
                expected[code] += share
        assert found[row].tolist() == pytest.approx(expected[1:], rel=1e-4)
    assert (found.sum(1) < 36).all(), "code 0 is no card"


def test_flat_beliefs_at_a_smaller_table_are_those_of_the_first_seats() -> None:
    large, small = (random_network("flat", "transformer", CARDS, players) for players in (4, 2))
    weights = {name: p.detach().clone() for name, p in large.named_parameters()}
    owner = torch.arange(4).repeat_interleave(12)
    weights["cards.head.2.bias"] = (100 * torch.arange(48)[:, None] + torch.arange(16)).flatten().float()
    got = large.weights_for(2, weights)["cards.head.2.bias"].view(-1, 16)
    assert got.tolist() == [[100.0 * slot + code for code in range(16)] for slot in range(48) if owner[slot] < 2]
    small.load_state_dict(large.weights_for(2, weights))
    assert isinstance(small.cards, FlatCardBeliefs)
    features = torch.randn(5, small.latent_dim)
    assert large.cards is not None
    large.load_state_dict(weights)
    torch.testing.assert_close(small.cards(None, features), large.cards(None, features)[:, :24])


def test_slot_beliefs_at_a_smaller_table_are_the_same_function() -> None:
    large, small = (random_network("slots", "columns", CARDS, players) for players in (4, 2))
    small.load_state_dict(large.weights_for(2, dict(large.named_parameters())))
    assert small.cards is not None
    assert large.cards is not None
    for name, parameter in small.cards.named_parameters():
        assert torch.equal(parameter, dict(large.cards.named_parameters())[name]), name


@pytest.mark.parametrize(("game", "there"), [("skyjo", True), ("lama", True), ("skipbo", True), ("kuhn", False)])
def test_only_games_with_outcomes_have_the_head(game: str, there: bool) -> None:
    config = random_network("slots", "columns", CARDS).config
    network = Network(GameSpec.of(game, 2), config)
    assert (network.cards is not None) == (network.num_outcomes > 1) == there
