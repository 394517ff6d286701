"""Fitness of a network that was read from a file: whether it speaks in numbers, and whether its search has room."""

from __future__ import annotations

import os

import torch

import env
from muzero.config import SearchConfig
from muzero.config.fields import require
from muzero.model.interface import BaseNetwork


@torch.inference_mode()
def require_finite_outputs(key: str, network: BaseNetwork) -> None:
    """Refuse a network whose weights are finite, but so large that what it says of a new game is no number."""
    tables = env.make(network.spec.game, 1, network.spec.num_players)
    outputs = network.initial(torch.from_numpy(tables.obs).to(next(network.parameters()).device), "maxn")
    good = all(bool(torch.isfinite(part).all()) for part in outputs)
    require(good, f"{key}, its weights", "finite outputs for a new game", "NaN or infinity")


def require_memory(key: str, network: BaseNetwork, search: SearchConfig, batch: int) -> None:
    """Refuse a search whose hidden states alone would not fit into half of the machine's memory."""
    each = 4 * network.latent_dim * batch
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    most = max(1, room // each)
    require(
        search.simulations <= most,
        f"{key}, simulations",
        f"at most {most} for {batch} games at a time",
        search.simulations,
    )
