"""Shapes of a network's parameters, without the memory or the time that the parameters themselves take.

A file of weights says how large its network is. That is believed only after the shapes have been compared with the
tensors that are really there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from muzero.config import ModelConfig
from muzero.model.network import make_network
from muzero.model.spec import GameSpec

_MOST_LISTED = 3  # differences that a message lists

_FACTORIES = (torch.empty, torch.randn)
"""Functions that parameters are made with; indices and masks, whose values matter, are made with others."""


class _ParametersWithoutMemory(TorchFunctionMode):
    """Context in which parameters have a shape and a type, but no numbers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func in _FACTORIES:
            options["device"] = "meta"
        return func(*args, **options)


def parameter_shapes(spec: GameSpec, config: ModelConfig) -> dict[str, torch.Size]:
    """Shape of every parameter of a network, by name."""
    with _ParametersWithoutMemory():
        network = make_network(spec, config)
    return {name: parameter.shape for name, parameter in network.named_parameters()}


def misfit(weights: Mapping[str, Tensor], spec: GameSpec, config: ModelConfig) -> str:
    """Differences between weights and the parameters of a network, in words; "" if they fit."""
    expected = parameter_shapes(spec, config)
    found = [f"{name} is missing" for name in expected if name not in weights]
    found += [f"{ascii(name)[1:-1]} is unknown" for name in weights if name not in expected]
    for name, shape in expected.items():
        tensor = weights.get(name)
        if tensor is not None and tensor.shape != shape:
            found.append(f"{name} is {list(tensor.shape)}, expected {list(shape)}")
        elif tensor is not None and not tensor.is_floating_point():
            found.append(f"{name} is of type {tensor.dtype}, expected floating-point numbers")
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return "; ".join(found[:_MOST_LISTED]) + more
