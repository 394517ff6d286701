"""State of an optimiser and of random generators as named tensors and JSON, for checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from muzero.config.fields import require
from muzero.runs.files import CheckpointError, Json, wrap_errors
from muzero.runs.tensors import Tensors


def optimizer_state(optimizer: torch.optim.Optimizer, network: nn.Module) -> tuple[dict[str, Tensor], Json]:
    """State of an optimiser of some or all of the network's parameters, as named tensors and JSON."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    tensors: dict[str, Tensor] = {}
    groups, scalars = [], {}
    for index, group in enumerate(optimizer.param_groups):
        members = []
        for parameter in group["params"]:
            require(parameter in names, f"optimizer group {index}", "parameters of the network", parameter.shape)
            name = names[parameter]
            members.append(name)
            memory = optimizer.state.get(parameter, {})
            tensors |= {f"{key}/{name}": value for key, value in memory.items() if isinstance(value, Tensor)}
            scalars[name] = {key: value for key, value in memory.items() if not isinstance(value, Tensor)}
        settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
        tensors |= {f"group/{index}/{key}": value for key, value in settings.items() if isinstance(value, Tensor)}
        groups.append({"names": members, "settings": {k: v for k, v in settings.items() if not isinstance(v, Tensor)}})
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}, {"groups": groups, "scalars": scalars}


def restore_optimizer(optimizer: torch.optim.Optimizer, network: nn.Module, tensors: Tensors, state: Json) -> None:
    """Give an optimiser the state and settings that `optimizer_state` took from an optimiser of the same parameters.

    Raises:
      CheckpointError: the parameters differ; the message names them.
    """
    names = {parameter: name for name, parameter in network.named_parameters()}
    groups: list[Json] = state["groups"]
    problems: list[str] = []
    if len(groups) != len(optimizer.param_groups):
        problems.append(f"{len(groups)} parameter groups saved, the optimizer has {len(optimizer.param_groups)}")
    saved_memory: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        key, _, name = path.partition("/")
        saved_memory.setdefault(name, {})[key] = tensor
    memory: list[Json] = []
    restored: list[Json] = []
    for index, (group, saved) in enumerate(zip(optimizer.param_groups, groups, strict=False)):
        members = [names.get(parameter, "(not of the network)") for parameter in group["params"]]
        problems += _differences(f"group {index}", saved["names"], members)
        first = len(memory)
        for name, parameter in zip(members, group["params"], strict=True):
            mine = saved_memory.get(name, {})
            for key, tensor in mine.items():
                if key == "step":
                    problems += _not_a_number(f"step of {name}", tensor)
                elif (tensor.shape, tensor.dtype) != (parameter.shape, parameter.dtype):
                    problems.append(
                        f"{key} of {name}: {tuple(tensor.shape)} {tensor.dtype} saved, "
                        f"the parameter is {tuple(parameter.shape)} {parameter.dtype}"
                    )
            memory.append({key: tensor.clone() for key, tensor in mine.items()} | state["scalars"].get(name, {}))
        settings = {k: tuple(v) if isinstance(group.get(k), tuple) else v for k, v in saved["settings"].items()}
        prefix = f"group/{index}/"
        given = {k.removeprefix(prefix): v.clone() for k, v in tensors.items() if k.startswith(prefix)}
        problems += [problem for k, v in given.items() for problem in _not_a_number(f"{k} of group {index}", v)]
        settings |= given
        extra = {"param_names": group["param_names"]} if "param_names" in group else {}
        restored.append({**settings, **extra, "params": list(range(first, len(memory)))})
    if problems:
        raise CheckpointError("\n  ".join(["the saved optimizer is not of this network", *problems]))
    known = {index: entry for index, entry in enumerate(memory) if entry}
    optimizer.load_state_dict({"state": known, "param_groups": restored})


def _not_a_number(what: str, tensor: Tensor) -> list[str]:
    """Message about a tensor that should be a single real number, if it is none."""
    good = tensor.ndim == 0 and not tensor.is_complex() and tensor.dtype != torch.bool
    return [] if good else [f"{what}: expected one number, got shape {tuple(tensor.shape)} of {tensor.dtype}"]


def _differences(where: str, saved: Sequence[str], here: Sequence[str]) -> list[str]:
    """Messages about two lists of parameter names that should be the same."""
    only_saved, only_here = [n for n in saved if n not in here], [n for n in here if n not in saved]
    found = [f"{where}: {name} was saved, but is not in the network" for name in only_saved]
    found += [f"{where}: {name} is in the network, but was not saved" for name in only_here]
    if not found and list(saved) != list(here):
        found.append(f"{where}: the parameters {', '.join(saved)} were saved in another order")
    return found


_BIT_GENERATORS = {"PCG64": np.random.PCG64, "Philox": np.random.Philox}


def rng_to_json(generator: np.random.Generator) -> Json:
    """State of a generator (PCG64 or Philox), including the state of its `spawn`."""
    bits = generator.bit_generator
    state: Any = bits.state
    require(state["bit_generator"] in _BIT_GENERATORS, "generator", " or ".join(_BIT_GENERATORS), bits)
    seed: Any = bits.seed_seq  # seed sequence; None if the generator was given a key
    plain: Json = json.loads(json.dumps({"state": state, "seed": seed and seed.state}, default=lambda a: a.tolist()))
    return plain


def rng_from_json(saved: Mapping[str, Any]) -> np.random.Generator:
    """Generator that continues where the generator given to `rng_to_json` stopped."""
    with wrap_errors("state of a random generator"):
        seed = saved["seed"] and np.random.SeedSequence(**saved["seed"])
        bits = _BIT_GENERATORS[saved["state"]["bit_generator"]](seed)
        parts = {k: np.array(v, np.uint64) if isinstance(v, list) else v for k, v in saved["state"].items()}
        inner = {k: np.array(v, np.uint64) if isinstance(v, list) else v for k, v in saved["state"]["state"].items()}
        bits.state = {**parts, "state": inner}
        return np.random.Generator(bits)
