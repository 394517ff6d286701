"""Networks with random weights, tables to look at, and symmetries of observations, for the tests of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import env
from muzero.model.encoders import block_order
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec

KINDS = [("flat", "transformer"), ("slots", "transformer"), ("slots", "columns")]
kinds = pytest.mark.parametrize(("latent", "encoder"), KINDS)
variants = pytest.mark.parametrize("variant", VARIANTS)
# Card beliefs need networks that are told the outcomes of chance events.
TOLD = [
    (name, chance) for name in VARIANTS for chance in ("none", "game") if chance == "game" or name != "belief_cards"
]
variants_and_chance = pytest.mark.parametrize(("variant", "chance"), TOLD)


def random_network(latent: str, encoder: str, variant: str, players: int = 3, **changes: object) -> Network:
    """A tiny network for Skyjo; all weights are random, biases and LayerNorms too, so that nothing is symmetric by
    accident."""
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder, **changes)  # type: ignore[arg-type]
    network = Network(GameSpec.of("skyjo", players), config).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def played_tables(players: int = 3, batch: int = 16) -> env.VecEnv:
    """Tables of Skyjo at different stages of a game, after random moves."""
    made = env.make("skyjo", batch, players, seed=3)
    for moment in range(40):
        actions = made.sample_actions(2)
        actions[np.arange(batch) * 2 < moment] = env.SKIP
        made.step(actions)
    return made


def most_players(game: str, at_most: int) -> int:
    """Largest number of players that the game admits, up to `at_most`."""
    return min(at_most, env.make(game, 1, 2).info.max_players)


def seats(batch: int, players: int) -> Tensor:
    """Seats [B] 0, 1, 2, ... in turn."""
    return torch.arange(batch) % players


def slots_of(network: Network, latent: Tensor) -> Tensor:
    """Vectors of the slots [B, S, D] in the order of the tokens."""
    S, D = network.spec.num_slots, network.config.slot_dim
    return latent[:, : S * D].view(len(latent), S, D)[:, block_order(network.spec).argsort()]


def permute_slots(obs: Tensor, spec: GameSpec, orders: list[list[int]]) -> Tensor:
    """The same positions with each player's slots in another order; fields of other groups stay as they are."""
    board = next(g for g in spec.groups if g.slots)
    out, fields = obs.clone(), len(board.vocabulary)
    tokens = obs[:, board.offset : board.offset + board.count * fields].view(len(obs), spec.num_players, -1, fields)
    moved = tokens.clone()
    for player, order in enumerate(orders):
        for field in range(fields):
            if not board.place[field]:
                moved[:, player, :, field] = tokens[:, player, order, field]
    out[:, board.offset : board.offset + board.count * fields] = moved.view(len(obs), -1)
    return out


def random_symmetry(spec: GameSpec, rng: np.random.Generator) -> list[int]:
    """Random order of a player's slots in which blocks, and the slots of each block, trade places.

    Returns:
      order[new slot] = old slot.
    """
    order = np.zeros(spec.blocks.size, np.int64)
    for new, old in enumerate(rng.permutation(len(spec.blocks))):
        order[spec.blocks[new]] = rng.permutation(spec.blocks[old])
    return order.tolist()  # type: ignore[no-any-return]
