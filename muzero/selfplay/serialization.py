"""Weights and worker states as plain arrays, for other processes and for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Weights = Mapping[str, Tensor]
"""Parameters of a network by name."""

GENERATION_GAMES = 1 << 32
"""Games of a generation. A worker whose games in progress are lost is replaced by one of the next generation, which
begins with a deal so far ahead that no deal is played twice."""


def weights_to_numpy(weights: Weights) -> dict[str, NDArray[Any]]:
    """Copy weights into numpy arrays, which can be sent to other processes."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in weights.items()}


def weights_from_numpy(weights: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Copy numpy arrays into tensors."""
    return {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}


def pack_states(states: list[dict[str, NDArray[Any]]], generations: list[int]) -> dict[str, NDArray[Any]]:
    """Combine the states of workers, and the generation of each, into one mapping."""
    merged = {f"{i}.{name}": array for i, state in enumerate(states) for name, array in state.items()}
    return {**merged, "generation": np.array(generations)}


def unpack_states(
    state: Mapping[str, NDArray[Any]], workers: int
) -> tuple[list[dict[str, NDArray[Any]]], list[int]] | None:
    """Undo `pack_states`; None if no state was saved or if it was saved with another number of workers."""
    if "generation" not in state or len(state["generation"]) != workers:
        return None
    split = [name.partition(".") for name in state if name != "generation"]
    states = [{n: state[f"{i}.{n}"] for i, _, n in split if i == str(worker)} for worker in range(workers)]
    return states, [int(g) for g in state["generation"]]


def unplayed_generation(state: Mapping[str, NDArray[Any]], games: int) -> int:
    """Generation whose deals have not been played: later than those of a packed state and than `games` replacements."""
    return 1 + games + int(max(state["generation"], default=0) if "generation" in state else 0)
