"""muzero.training.joint_adamw: the same steps as torch's AdamW, with parameters that stay usable one by one."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from muzero.training.joint_adamw import JointAdamW


def a_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def groups(network: nn.Module) -> list[dict[str, Any]]:
    matrices = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    return [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]


def loss(network: nn.Module, step: int) -> Tensor:
    x = torch.randn(11, 5, generator=torch.Generator().manual_seed(step))
    return network(x).square().mean()  # type: ignore[no-any-return]


def train(network: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        optimizer.zero_grad()
        loss(network, step).backward()  # type: ignore[no-untyped-call]
        if isinstance(optimizer, JointAdamW):
            optimizer.clip(0.5)
        else:
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()


def assert_close(one: nn.Module, other: nn.Module) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_steps_with_clipped_gradients_are_those_of_adamw() -> None:
    joint, plain = a_network(), a_network()
    train(joint, JointAdamW(groups(joint), 0.02), 0, 30)
    train(plain, torch.optim.AdamW(groups(plain), lr=0.02), 0, 30)
    assert_close(joint, plain)


def test_clip_returns_the_norm_of_all_gradients_and_leaves_small_ones_alone() -> None:
    network = a_network()
    optimizer = JointAdamW(groups(network), 0.02)
    loss(network, 0).backward()  # type: ignore[no-untyped-call]
    before = [p.grad.clone() for p in network.parameters() if p.grad is not None]
    norm = torch.cat([g.flatten() for g in before]).norm()
    torch.testing.assert_close(optimizer.clip(1e6), norm)
    assert all(torch.equal(p.grad, g) for p, g in zip(network.parameters(), before, strict=True) if p.grad is not None)
    optimizer.clip(float(norm) / 2)
    torch.testing.assert_close(optimizer.clip(1e6), norm / 2)


def test_parameters_are_views_of_the_joint_arrays_and_gradients_return_to_theirs() -> None:
    network = a_network()
    optimizer = JointAdamW(groups(network), 0.02)
    network.zero_grad(set_to_none=True)  # as others do
    optimizer.zero_grad()
    loss(network, 0).backward()  # type: ignore[no-untyped-call]
    assert torch.equal(optimizer.gradients[0][:35], network[0].weight.grad.flatten())  # type: ignore[union-attr, operator]
    optimizer.values[1].fill_(3.0)
    assert (network[2].bias == 3.0).all()


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    whole, first = a_network(), a_network()
    train(whole, JointAdamW(groups(whole), 0.02), 0, 20)
    optimizer = JointAdamW(groups(first), 0.02)
    train(first, optimizer, 0, 8)
    second = a_network()
    second.load_state_dict(first.state_dict())
    later = JointAdamW(groups(second), 0.02)
    later.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(second, later, 8, 20)
    for a, b in zip(second.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_state_without_memory_starts_anew() -> None:
    used, new = a_network(), a_network()
    optimizer = JointAdamW(groups(used), 0.02)
    train(used, optimizer, 0, 5)
    used.load_state_dict(a_network().state_dict())
    optimizer.load_state_dict({"state": {}, "param_groups": optimizer.state_dict()["param_groups"]})
    train(used, optimizer, 0, 3)
    train(new, JointAdamW(groups(new), 0.02), 0, 3)
    for a, b in zip(used.parameters(), new.parameters(), strict=True):
        assert torch.equal(a, b)
