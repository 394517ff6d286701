"""Schema of the state of a run in a checkpoint, and its check against the run that is about to continue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from muzero.config.fields import require
from muzero.data.saved_rows import check_rows
from muzero.model.spec import GameSpec
from muzero.runs.checkpoint import STATE, Checkpoint
from muzero.runs.files import CheckpointError, Json, require_arrays, wrap_errors
from muzero.runs.schema import anything, check_value, either, flag, listing, mapping, maybe, real, record, text, whole

if TYPE_CHECKING:
    from muzero.data.replay_buffer import ReplayBuffer

_NAME = text(300)
_COUNT = whole(0, 10**15)
_BITS = whole(0, 2**256)  # state of a random generator
_WORDS = listing(whole(0, 2**64 - 1), most=64)
_NUMBER = maybe(either(flag, real()))
_SETTING = either(_NUMBER, text(100), listing(_NUMBER, most=8))
_GENERATOR = record(
    {
        "state": record({"bit_generator": text(20), "state": mapping(either(_BITS, _WORDS), most=8)}, others=anything),
        "seed": maybe(
            record(
                {},
                {
                    "entropy": maybe(either(_BITS, _WORDS)),
                    "spawn_key": _WORDS,
                    "pool_size": whole(4, 64),
                    "n_children_spawned": whole(0, 2**31),
                },
            )
        ),
    }
)
_MOST_TENSORS = 100_000
_LARGEST_STEP = 1000.0  # largest average gradient of Adam, in roots of the average square; it is below 10 in truth
_NEGLIGIBLE = 1e-12
_ESSENTIAL = ("lr", "betas", "eps", "weight_decay")  # settings of an optimiser without a default
SCHEMA = record(
    {
        "optimizer": record(
            {
                "groups": listing(
                    record({"names": listing(_NAME, most=_MOST_TENSORS), "settings": mapping(_SETTING, most=100)})
                ),
                "scalars": mapping(mapping(_NUMBER, most=20), most=_MOST_TENSORS),
            }
        ),
        "steps": _COUNT,
        "games": whole(0, 2**31),
        "elapsed": real(0, 1e12),
        "curriculum": record(
            {"bots": listing(_NAME, most=64), "rates": listing(real(0, 64), most=64), "games": listing(_COUNT, most=64)}
        ),
        "pool": listing(whole(0, 10**9), most=100_000),
        "rng": _GENERATOR,
        "metrics_offset": _COUNT,
    },
    {"value_rmse": maybe(real(0))},
    others=anything,
)
"""Schema of `state` in state.json."""


def check_state(found: Checkpoint, bots: list[str]) -> None:
    """Refuse a state whose types or ranges are not those of a run with these bots in its curriculum."""
    with wrap_errors(found.path / STATE):
        check_value(SCHEMA, found.state)
        curriculum, pool = found.state["curriculum"], found.state["pool"]
        require(curriculum["bots"] == bots, "curriculum.bots", f"{bots}, as in this run", curriculum["bots"])
        for name in ("rates", "games"):
            good = len(curriculum[name]) == len(bots)
            require(good, f"curriculum.{name}", f"{len(bots)} numbers, one per bot", len(curriculum[name]))
        rising = pool == sorted(set(pool)) and all(member <= found.iteration for member in pool)
        require(rising, "pool", f"rising iterations up to {found.iteration}", pool[:5])


def group(found: Checkpoint, kind: str, name: str) -> dict[str, Any]:
    """Tensors or arrays of a checkpoint by the name of their group; an error names the file that is missing."""
    groups: Mapping[str, dict[str, Any]] = found.tensors if kind == "safetensors" else found.arrays
    if name not in groups:
        raise CheckpointError(f"{found.path / name}.{kind}: missing")
    return groups[name]


def check_weights(path: Path, weights: Mapping[str, Tensor], network: nn.Module) -> None:
    """Refuse tensors that are not exactly the parameters of a network: names, shapes and types."""
    own = dict(network.named_parameters())
    with wrap_errors(path):
        different = sorted(set(weights) ^ set(own))
        require(not different, "tensors", "the network's", [ascii(name)[1:-1] for name in different[:3]])
        for name, parameter in own.items():
            expected, there = (f"{t.dtype} {list(t.shape)}" for t in (parameter, weights[name]))
            require(expected == there, name, expected, there)


def check_optimizer(path: Path, tensors: Mapping[str, Tensor], state: Json, settings: Iterable[Json]) -> None:
    """Refuse memories and settings that an optimiser could not make a step with.

    Args:
      path: file of the tensors.
      tensors: memories of the optimiser, KEY/PARAMETER.
      state: `optimizer` of the JSON state.
      settings: settings of each group of this run's optimiser; the learning rate alone may differ.
    """
    kinds: dict[str, set[str]] = {}
    with wrap_errors(path):
        for name, tensor in tensors.items():
            key, _, parameter = name.partition("/")
            if key != "group":
                kinds.setdefault(parameter, set()).add(key)
            if key == "step":
                good = tensor.numel() == 1 and tensor.is_floating_point() and float(tensor) >= 0
                require(good, name, "one number, 0 or more", f"{tensor.dtype} {list(tensor.shape)}")
            require(not key.endswith("_sq") or bool((tensor >= 0).all()), name, "0 or more", "negative numbers")
            average = tensors.get(f"exp_avg/{parameter}") if key == "exp_avg_sq" else None
            if average is not None and average.shape == tensor.shape:  # a step of Adam is their ratio
                fits = average.abs() <= _LARGEST_STEP * tensor.sqrt() + _NEGLIGIBLE
                require(bool(fits.all()), f"exp_avg/{parameter}", f"at most {_LARGEST_STEP:g} deviations", "more")
        complete = max(kinds.values(), key=len, default=set())
        for parameter, keys in kinds.items():
            require(keys == complete, f"memory of {parameter}", f"{sorted(complete)}", sorted(keys))
    with wrap_errors(path.with_name(STATE)):
        for parameter, scalars in state["scalars"].items():
            twice = sorted(set(scalars) & kinds.get(parameter, set()))
            require(not twice, f"optimizer.scalars.{parameter}", "nothing that is a tensor, too", twice)
        for index, (saved, own) in enumerate(zip(state["groups"], settings, strict=False)):
            for name, value in own.items():
                key = f"optimizer.groups[{index}].settings.{name}"
                stored = saved["settings"].get(name, "nothing")
                if name not in saved["settings"] and name not in _ESSENTIAL:
                    continue  # a setting of a newer version of torch, which has a default
                if name == "lr":
                    require(type(stored) is float and 0 <= stored < 1e3, key, "a learning rate", stored)
                elif isinstance(value, bool | int | float | tuple | None):
                    value = list(value) if isinstance(value, tuple) else value
                    require(stored == value, key, f"{value}, as in this run", stored)


def check_replay(path: Path, arrays: dict[str, Any], replay: ReplayBuffer, spec: GameSpec) -> None:
    """Refuse arrays that are not those of a replay buffer for this game; `ReplayBuffer.load` checks the rest."""
    fresh = replay.state()
    require_arrays(path, arrays, {n: (a.dtype, (None, *a.shape[1:]) if a.ndim else ()) for n, a in fresh.items()})
    with wrap_errors(path):
        lengths = {len(arrays[name]) for name in ("obs", "action", "legal", "policy", "values", "weight")}
        require(len(lengths) == 1, "arrays", "the same number of decisions", sorted(lengths))
        check_rows("", arrays, spec)
        least = float(arrays["weight"].min(initial=1.0))
        require(least >= 1e-12, "weight", "1e-12 or more: importance weights divide by it", least)
        small = [name for name in ("head", "tail", "added", "seen") if not 0 <= int(arrays[name]) < 2**62]
        require(not small, ", ".join(small), "0 or more", [int(arrays[name]) for name in small])


def check_generations(path: Path, arrays: Mapping[str, Any]) -> None:
    """Refuse a state of self-play workers that does not number their generations; each worker checks its own part."""
    if "generation" not in arrays:  # no games in progress were saved
        return
    with wrap_errors(path):
        found = arrays["generation"]
        good = found.dtype == np.int64 and found.ndim == 1 and len(found) > 0
        require(good, "generation", "one whole number per worker", f"{found.dtype} {list(found.shape)}")
        inside = bool(((found >= 0) & (found < 2**30)).all())
        require(inside, "generation", f"0 to {2**30 - 1}", found[:3].tolist())
