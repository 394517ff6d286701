"""Flat latents."""

from __future__ import annotations

import torch

from tests.model.helpers import played_tables, random_network, variants


def test_flat_latent_keeps_the_frame_of_the_root() -> None:
    network = random_network("flat", "transformer", "baseline")
    hidden = network.represent(torch.from_numpy(played_tables().obs))
    action = torch.arange(16)
    one, other = (network.step(hidden, action, shift, action * 0) for shift in (action * 0, action % 3))
    assert torch.equal(one, other)
    assert network.frame == "root"


@variants
def test_flat_network_has_no_boards_and_conditions_the_whole_latent(variant: str) -> None:
    network = random_network("flat", "transformer", variant)
    latent = network.represent(torch.from_numpy(played_tables().obs))
    boards, conditioned = network.trunk.split(latent)
    assert boards is None
    assert conditioned is latent
    assert network.trunk.touched(latent, torch.zeros(16, dtype=torch.int64)) is None
    assert network.decoder is None
    assert network.latent_dim == network.config.latent_dim == latent.shape[1]


@variants
def test_flat_network_is_told_who_is_to_move_in_every_variant(variant: str) -> None:
    """The frame does not turn, so nothing else says whose policy is wanted."""
    network = random_network("flat", "transformer", variant)
    with torch.no_grad():
        latent = network.represent(torch.from_numpy(played_tables().obs))
        policies = [network.predict(latent, torch.full((16,), mover)).policy for mover in range(3)]
    assert not torch.allclose(policies[0], policies[1])
    assert not torch.allclose(policies[1], policies[2])
    assert network.condition.turns
    assert not random_network("slots", "columns", variant).condition.turns, "the frame turns there"


def test_rewards_of_fewer_players_are_those_of_the_first_seats() -> None:
    """The reward head lists N logits for each seat in turn."""
    network = random_network("flat", "transformer", "baseline", 4)
    N = network.config.value_bins
    assert not network.dynamics.seat_indices(2)
    indices = network.seat_indices(2)
    for dim, index in (indices["reward.2.weight"], indices["reward.2.bias"]):
        assert dim == 0
        assert index.tolist() == list(range(2 * N))
