"""muzero.training.optimizer_state: optimisers and random generators continue as if they had never been saved."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from muzero.runs.checkpoint import load_latest, save
from muzero.runs.files import CheckpointError
from muzero.training.optimizer_state import optimizer_state, restore_optimizer, rng_from_json, rng_to_json
from tests.runs.test_checkpoint import content, same_tensor


def learner(seed: int, **options: Any) -> tuple[nn.Sequential, torch.optim.AdamW]:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    network.register_parameter("unused", nn.Parameter(torch.zeros(3)))
    decay = [p for p in network.parameters() if p.ndim > 1]
    rest = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 0.1, "lr": 0.01}, {"params": rest, "weight_decay": 0.0}]
    return network, torch.optim.AdamW(groups, lr=0.003, betas=(0.8, 0.95), **options)


def train(network: nn.Module, optimizer: torch.optim.Optimizer, steps: int, generator: torch.Generator) -> None:
    for _ in range(steps):
        x = torch.randn(16, 5, generator=generator)
        optimizer.zero_grad()
        (network(x) - x[:, :2] ** 2).square().mean().backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.9


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"foreach": False}, {"fused": True}])
def test_restored_optimizer_continues_bit_for_bit(tmp_path: Path, options: dict[str, Any]) -> None:
    network, optimizer = learner(0, **options)
    stream = torch.Generator().manual_seed(5)
    train(network, optimizer, 3, stream)
    flat, plain = optimizer_state(optimizer, network)
    given = content() | {
        "tensors": {"weights": network.state_dict(), "optimizer": flat},
        "arrays": {"rng": {"stream": stream.get_state().numpy()}},
        "state": {"optimizer": plain},
    }
    save(tmp_path, 3, **given)
    train(network, optimizer, 3, stream)

    found = load_latest(tmp_path)
    assert found is not None
    fresh, continued = learner(1, **options)
    again = torch.Generator()
    untouched = copy.deepcopy(found.tensors["optimizer"])
    fresh.load_state_dict(found.tensors["weights"])
    restore_optimizer(continued, fresh, found.tensors["optimizer"], found.state["optimizer"])
    again.set_state(torch.from_numpy(found.arrays["rng"]["stream"]))
    train(fresh, continued, 3, again)
    for (name, a), b in zip(network.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert same_tensor(a, b), name
    one, other = optimizer_state(optimizer, network), optimizer_state(continued, fresh)
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    assert all(same_tensor(tensor, other[0][name]) for name, tensor in one[0].items())
    assert continued.param_groups[0]["betas"] == (0.8, 0.95)
    assert all(same_tensor(tensor, untouched[name]) for name, tensor in found.tensors["optimizer"].items())


def test_optimizer_without_steps_round_trips(tmp_path: Path) -> None:
    network, optimizer = learner(0)
    flat, plain = optimizer_state(optimizer, network)
    assert not flat
    fresh, other = learner(1)
    restore_optimizer(other, fresh, flat, json.loads(json.dumps(plain)))
    assert not other.state


def test_optimizer_settings_that_are_tensors_are_restored() -> None:
    network = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(network.named_parameters(), lr=torch.tensor(0.01))
    flat, plain = optimizer_state(optimizer, network)
    other = torch.optim.AdamW(network.named_parameters(), lr=torch.tensor(0.5))
    restore_optimizer(other, network, flat, json.loads(json.dumps(plain)))
    assert same_tensor(other.param_groups[0]["lr"], torch.tensor(0.01))


@pytest.mark.parametrize("odd", [torch.ones(1), torch.ones(0), torch.ones((), dtype=torch.complex64)])
def test_steps_that_are_no_single_number_are_refused(odd: Tensor) -> None:
    network = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    tensors, state = optimizer_state(optimizer, network)
    restore_optimizer(optimizer, network, tensors, state)
    with pytest.raises(CheckpointError, match="step of weight: expected one number, got shape"):
        restore_optimizer(optimizer, network, tensors | {"step/weight": odd}, state)
    with pytest.raises(CheckpointError, match="lr of group 0: expected one number, got shape"):
        restore_optimizer(optimizer, network, tensors | {"group/0/lr": odd}, state)


def test_state_of_another_network_is_refused_by_parameter_name() -> None:
    network, optimizer = learner(0)
    train(network, optimizer, 1, torch.Generator())
    flat, plain = optimizer_state(optimizer, network)

    def refused(other: nn.Module, message: str, **options: Any) -> None:
        unlike = torch.optim.AdamW([{"params": [p for p in other.parameters() if p.ndim > 1]}], **options)
        unlike.add_param_group({"params": [p for p in other.parameters() if p.ndim <= 1]})
        with pytest.raises(CheckpointError, match=message):
            restore_optimizer(unlike, other, flat, plain)
        assert not unlike.state

    wide, _ = learner(0)
    wide[3] = nn.Linear(8, 4)
    refused(wide, r"(?s)exp_avg of 3.weight: \(2, 8\) torch.float32 saved, the parameter is \(4, 8\).*3.bias")
    refused(wide.double(), r"exp_avg of 0.weight: .* torch.float32 saved, the parameter is .* torch.float64")
    longer, _ = learner(0)
    longer.append(nn.Linear(2, 2))
    refused(longer, "4.weight is in the network, but was not saved")
    shorter, _ = learner(0)
    del shorter[3]
    refused(shorter, "3.weight was saved, but is not in the network")
    with pytest.raises(CheckpointError, match="2 parameter groups saved, the optimizer has 1"):
        restore_optimizer(torch.optim.AdamW(network.parameters()), network, flat, plain)
    reordered = copy.deepcopy(plain)
    reordered["groups"][0]["names"].reverse()
    with pytest.raises(CheckpointError, match="another order"):
        restore_optimizer(optimizer, network, flat, reordered)
    with pytest.raises(ValueError, match="parameters of the network"):
        optimizer_state(optimizer, nn.Linear(5, 8))


@pytest.mark.parametrize(
    "bits", [np.random.PCG64(3), np.random.Philox(3), np.random.Philox(key=3), np.random.PCG64([2**70, 5])]
)
def test_restored_numpy_generator_continues_its_stream(bits: np.random.BitGenerator) -> None:
    generator = np.random.Generator(bits)
    generator.random(5)
    generator.integers(0, 10, dtype=np.uint32)  # leaves half of a number in the state
    if bits.seed_seq is not None:
        generator.spawn(2)
    again = rng_from_json(json.loads(json.dumps(rng_to_json(generator))))
    assert type(again.bit_generator) is type(bits)
    assert (again.integers(0, 10, 5, np.uint32) == generator.integers(0, 10, 5, np.uint32)).all()
    assert (again.normal(size=100) == generator.normal(size=100)).all()
    if bits.seed_seq is not None:
        assert again.spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_unknown_or_damaged_generator_states_are_refused() -> None:
    with pytest.raises(ValueError, match="PCG64 or Philox"):
        rng_to_json(np.random.Generator(np.random.MT19937(1)))
    good = rng_to_json(np.random.default_rng(1))
    for bad in ({}, good | {"state": {}}, good | {"state": good["state"] | {"bit_generator": "SFC64"}}):
        with pytest.raises(CheckpointError, match="random generator"):
            rng_from_json(bad)
