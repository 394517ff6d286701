"""Small networks and random batches for tests of losses and learner."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from muzero.data.replay_buffer import Batch
from muzero.data.targets import rank_target, winner_target
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.training.losses import LOSSES, window_losses

P, B, K = 3, 5, 3
MASKS = ("policy_mask", "value_mask", "reward_mask", "outcome_mask", "after_mask", "live")


def make(
    variant: str = "belief", latent: str = "slots", encoder: str = "columns", players: int = P, **changes: Any
) -> Network:
    """Network of a few weights for Skyjo."""
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), width=16, feedforward=16, latent_dim=24, hidden=24, layers=1)
    config = replace(config, latent=latent, encoder="transformer" if latent == "flat" else encoder, **changes)
    return Network(GameSpec.of("skyjo", players), config)


def shaken(network: Network) -> Network:
    """Add noise to all weights: heads that start at 0 predict the same whatever they are to learn."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return network


def a_batch(seed: int = 0, windows: int = B, unroll: int = K, players: int = P, game: str = "skyjo") -> Batch:
    """Batch with observations of a game and random targets; half of the masks are 0."""
    rng = np.random.default_rng(seed)
    tables, steps = env.make(game, windows, players, seed=seed + 1), unroll + 1
    A = tables.num_actions
    seen, hidden = [], []
    for _ in range(steps):
        seen.append(tables.obs.copy())
        hidden.append(tables.true_cards(tables.to_play))
        tables.random_steps(5)
    shifts = rng.integers(0, players, (windows, unroll))
    results = {2: [[1, 2], [2, 1], [1, 1], [1, 2]], 3: [[1, 2, 3], [2, 1, 3], [1, 1, 3], [2, 2, 1]]}[players]
    ranks = np.array(results, np.int8)[rng.integers(0, 4, (windows, steps))]

    def mask(columns: int) -> NDArray[np.float32]:
        return (rng.random((windows, columns)) < 0.5).astype(np.float32)

    batch = Batch(
        actions=rng.integers(0, A, (windows, unroll)),
        shifts=shifts,
        to_play=np.concatenate([np.zeros((windows, 1), np.int64), shifts.cumsum(1) % players], 1),
        value=rng.uniform(-2.5, 2.5, (windows, steps, players)).astype(np.float32),
        value_mask=mask(steps),
        reward=rng.uniform(-1, 1, (windows, unroll, players)).astype(np.float32),
        reward_mask=mask(unroll),
        policy=rng.dirichlet(np.ones(A), (windows, steps)).astype(np.float32),
        policy_mask=mask(steps),
        winner=winner_target(ranks),
        rank=rank_target(ranks),
        outcome_mask=mask(steps),
        outcomes=rng.integers(0, tables.info.num_outcomes, (windows, unroll)),
        points=rng.uniform(-40, 40, (windows, steps, players)).astype(np.float32),
        after=np.zeros(windows, np.int64),
        after_mask=(np.arange(windows) > 0).astype(np.float32),
        obs=np.stack(seen, 1),
        hidden=np.stack(hidden, 1),
        live=mask(steps),
        weights=rng.uniform(0.2, 1, windows).astype(np.float32),
        index=np.arange(windows),
        stamp=np.zeros(windows, np.int64),
    )
    known = batch.value_mask[:, 1:] * batch.reward_mask
    return replace(batch, after=known.argmax(1))


def tensors(batch: Batch) -> dict[str, Tensor]:
    """Fields of a batch as tensors."""
    return {f.name: torch.from_numpy(getattr(batch, f.name)) for f in fields(batch)}


def losses(network: Network, batch: Batch) -> dict[str, NDArray[np.float64]]:
    """Losses of each window by name, without one-step values."""
    with torch.no_grad():
        found, _ = window_losses(network, tensors(batch))
    return dict(zip(LOSSES, found.double().numpy(), strict=True))


def changed(batch: Batch, **arrays: NDArray[Any]) -> Batch:
    """Batch with some fields replaced, in their dtypes."""
    return replace(batch, **{name: array.astype(getattr(batch, name).dtype) for name, array in arrays.items()})
