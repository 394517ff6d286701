"""Encoders: symmetries, ignored fields, shared cards, equal cards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from muzero.model.encoders import EqualCards, TransformerBlocks
from muzero.model.spec import GameSpec
from tests.model.helpers import permute_slots, played_tables, random_network, random_symmetry, slots_of, variants


@variants
def test_columns_encoder_is_equivariant_to_permuted_slots(variant: str) -> None:
    """Permuted slots give permuted slot vectors and policies, and the same values, also one step later."""
    P, network = 3, random_network("slots", "columns", variant).double()
    spec, rng = network.spec, np.random.default_rng(5)
    obs = torch.from_numpy(played_tables().obs)
    for _ in range(5):
        orders = [random_symmetry(spec, rng) for _ in range(P)]
        inverse = np.argsort(orders[0])
        plain, moved = network.represent(obs), network.represent(permute_slots(obs, spec, orders))
        D, per = network.config.slot_dim, spec.num_slots // P
        cut = spec.num_slots * D
        slots = slots_of(network, plain).view(16, P, per, D)
        expected = torch.stack([slots[:, p, order] for p, order in enumerate(orders)], 1)
        torch.testing.assert_close(slots_of(network, moved).view(16, P, per, D), expected)
        torch.testing.assert_close(moved[:, cut:], plain[:, cut:])

        # Actions follow the mover's own slots: action 4 + old slot becomes 4 + its new place.
        rename = np.arange(16)
        rename[4:] = 4 + inverse
        zero = torch.zeros(16, dtype=torch.int64)
        policy, value = network.predict(plain, zero)[:2]
        policy_moved, value_moved = network.predict(moved, zero)[:2]
        torch.testing.assert_close(policy_moved[:, rename], policy)
        torch.testing.assert_close(value_moved, value)

        action = torch.arange(16)
        then = network.predict(network.step(plain, action, action % 2, zero), zero)
        then_moved = network.predict(network.step(moved, torch.from_numpy(rename), action % 2, zero), zero)
        torch.testing.assert_close(then_moved.reward, then.reward)
        torch.testing.assert_close(then_moved.value, then.value)


def test_transformer_encoder_is_not_equivariant() -> None:
    """The test above can fail."""
    network = random_network("slots", "transformer", "baseline")
    obs = torch.from_numpy(played_tables().obs)
    moved = permute_slots(
        obs, network.spec, [random_symmetry(network.spec, np.random.default_rng(1)) for _ in range(3)]
    )
    zero = torch.zeros(16, dtype=torch.int64)
    first, second = (network.predict(network.represent(o), zero).value for o in (obs, moved))
    assert not torch.allclose(first, second)


def test_the_first_token_alone_is_that_of_the_whole_transformer() -> None:
    """The flat latent reads one token: computing it alone changes neither its output nor any gradient."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
    blocks = TransformerBlocks(layer, 3).double()
    tokens = torch.randn(5, 7, 32, dtype=torch.float64, requires_grad=True)
    gradients = []
    for found in (blocks(tokens)[:, 0], blocks.first_token(tokens)):
        gradients.append(torch.autograd.grad(found.square().sum(), [tokens, *blocks.parameters()]))
        torch.testing.assert_close(found, blocks(tokens)[:, 0])
    for whole, alone in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, alone)


def test_the_first_token_alone_is_the_same_with_packed_weights() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 512, 0.0, "gelu", batch_first=True, norm_first=True)
    blocks, tokens = TransformerBlocks(layer, 2).eval(), torch.randn(70, 3, 256)
    expected = blocks.first_token(tokens).detach()
    with torch.inference_mode():
        torch.testing.assert_close(blocks.first_token(tokens), expected, rtol=1e-4, atol=1e-5)
        blocks.layers[0].linear1.weight.mul_(0.5)
        changed = blocks.first_token(tokens)
    torch.testing.assert_close(changed, blocks.first_token(tokens).detach(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(changed, expected, atol=1e-3)


@pytest.mark.parametrize("kind", [("slots", "columns"), ("slots", "transformer"), ("flat", "transformer")])
def test_ignored_groups_and_fields_have_no_influence(kind: tuple[str, str]) -> None:
    obs = torch.from_numpy(played_tables().obs)
    groups = {g.name: g for g in random_network(*kind, "baseline").spec.groups}
    counts, score, rest = groups["counts"], groups["score"], groups["global"]
    changes = {
        "counts": obs.clone(),
        "score": obs.clone(),
        "global.round": obs.clone(),
    }
    changes["counts"][:, counts.offset :] = (obs[:, counts.offset :] + 1) % 32
    changes["score"][:, score.offset + 1] = 3
    changes["global.round"][:, rest.offset + rest.fields.index("round")] = 9
    for ignore in ([], ["counts"], ["score", "global.round"], ["score.to_go", "counts", "score.owner"]):
        network = random_network(*kind, "baseline", ignore=ignore)
        for name, other in changes.items():
            read = name not in ignore and f"{name}.to_go" not in ignore
            assert torch.equal(network.represent(obs), network.represent(other)) != read, (ignore, name)


def test_unknown_names_to_ignore_are_refused() -> None:
    for name in ("cards", "global.weather", "board"):
        with pytest.raises(
            ValueError, match=r"model.ignore: expected groups or fields of skyjo: .*global\.round.* got"
        ):
            random_network("slots", "columns", "baseline", ignore=[name])


def test_slot_vectors_do_not_depend_on_their_owners_seat() -> None:
    """The frame turns with the mover, and slots that no action touches only change their position in the latent."""
    network = random_network("slots", "columns", "baseline")
    obs = torch.from_numpy(played_tables().obs)
    group = next(g for g in network.spec.groups if g.slots)
    other = obs.clone()
    owner = group.offset + group.fields.index("owner")
    other[:, owner : group.offset + group.count * len(group.fields) : len(group.fields)] = 0
    assert not torch.equal(obs, other)
    assert torch.equal(network.represent(obs), network.represent(other))
    assert network.decoder is not None
    assert network.decoder.vocabulary == [3, 16]  # visibility and value, neither position nor owner


def test_shared_cards_are_encoded_like_cards_in_slots() -> None:
    """The top of the discard pile and the card in hand have vectors after those of slots and players."""
    network = random_network("slots", "columns", "baseline")
    spec, D = network.spec, network.config.slot_dim
    assert [(g.name, g.fields[f]) for g, f in spec.shared_cards] == [("discard", "top"), ("decision", "hand")]
    (pile, top), (decision, hand) = spec.shared_cards
    obs = torch.from_numpy(played_tables().obs)[:1].clone()
    vectors = []
    for card in (4, 4, 9, 16):  # the last one is a card that is not to be seen
        obs[:, decision.offset + hand] = card
        obs[:, pile.offset + top] = min(card, 15)
        start = spec.num_slots * D + spec.num_players * network.config.player_dim
        vectors.append(network.represent(obs)[0, start : start + 2 * D].view(2, D))
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.isclose(vectors[0], vectors[2]).all(1).any()
    obs[:, decision.offset + hand] = 0
    unseen = network.represent(obs)[0, start + D : start + 2 * D]
    assert torch.equal(unseen, vectors[3][1])
    assert GameSpec.of("skipbo", 2).shared_cards == ()


def test_equal_cards_are_counted_in_blocks_and_with_shared_cards() -> None:
    """Two boards of three rows and four columns, card codes by position; 0 is face down."""
    spec = GameSpec.of("skyjo", 2)
    obs = torch.zeros(1, spec.width, dtype=torch.int16)
    board = next(g for g in spec.groups if g.slots)
    value = board.offset + board.fields.index("value")
    cards = [5, 7, 0, 2, 5, 7, 0, 3, 9, 7, 4, 4] + [5] + [0] * 11
    obs[0, value : value + 24 * len(board.fields) : len(board.fields)] = torch.tensor(cards, dtype=torch.int16)
    group, field = spec.shared_cards[0]
    obs[0, group.offset + field] = 5  # the discard pile's; the hand is empty
    equal = EqualCards(spec)
    alike, matches = equal.in_block(obs), equal.with_shared(obs)
    assert alike[0, 0].tolist() == [[2, 2, 1], [3, 3, 3], [0, 0, 1], [1, 1, 1]]
    assert alike[0, 1].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    one_hot = {(0, 0): [0, 1, 0], (1, 0): [1, 0, 0]}
    for player in range(2):
        for column in range(4):
            expected = [*one_hot.get((player, column), [0, 0, 0]), 0, 0, 0]
            assert matches[0, player, column].tolist() == expected
