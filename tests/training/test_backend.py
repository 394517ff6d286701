"""muzero.training.backend: which code computes gradients, and that it makes no difference to a step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from muzero.config import LearnerConfig
from muzero.training import backend as backend_module
from muzero.training.learner import Learner
from tests.training.batches import a_batch, make, shaken


def test_auto_takes_native_passes_where_they_support_the_network() -> None:
    assert Learner(make(hidden=32), LearnerConfig()).native is not None
    assert Learner(make(hidden=24), LearnerConfig()).native is None
    assert Learner(make(hidden=32), LearnerConfig(backend="torch")).native is None
    assert Learner(make(hidden=32), LearnerConfig(bf16=True)).native is None


@pytest.mark.parametrize("native", [True, False])
def test_auto_bf16_is_bfloat16_where_torch_computes_on_a_processor_that_has_it(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "multiplies_bf16", lambda device: native)
    settings = LearnerConfig(auto_bf16=True)
    assert Learner(make(latent="flat"), settings).config.bf16 == native
    assert not Learner(make(latent="flat"), LearnerConfig()).config.bf16
    in_cpp = Learner(make(hidden=32), settings)
    assert (in_cpp.native is not None, in_cpp.config.bf16) == (True, False), "native passes are in single precision"
    asked = Learner(make(latent="flat"), LearnerConfig(bf16=True, auto_bf16=True))
    assert asked.config.bf16, "bf16=true does not ask the processor"


@pytest.mark.parametrize(
    ("hidden", "settings", "reason"),
    [
        (24, {}, "expected a multiple of 16 for model.hidden, got 24"),
        (32, {"bf16": True}, "expected learner.bf16=false, got true"),
        (32, {"compile": True}, "expected learner.compile=false, got true"),
    ],
)
def test_native_is_refused_where_it_cannot_be_had(hidden: int, settings: dict[str, bool], reason: str) -> None:
    with pytest.raises(ValueError, match=f"learner.backend=native: {reason}"):
        Learner(make(hidden=hidden), LearnerConfig(backend="native", **settings))  # type: ignore[arg-type]


def test_steps_of_both_backends_agree() -> None:
    """Ten steps on the same batches give the same losses and nearly the same parameters."""
    reports, parameters = [], []
    for backend in ("torch", "native"):
        network = make(hidden=32, players=2, chance="game")
        learner = Learner(network, LearnerConfig(backend=backend, lr=1e-3, warm_up_steps=0, consistency_weight=1.0))
        for seed in range(10):
            learner.step(a_batch(seed, windows=30, players=2), 0)
        reports.append(learner.report())
        parameters.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert reports[1] == pytest.approx(reports[0], rel=1e-3)
    moved = (parameters[0] - parameters[1]).abs().mean() / 1e-3
    assert moved < 0.05  # of a step's length, on average


def test_batches_of_smaller_tables_use_native_passes_too() -> None:
    """The gradient of a batch with 2 players reaches the weights of the network for 3."""
    gradients = []
    for backend in ("torch", "native"):
        network = shaken(make(hidden=32, players=3, chance="game"))
        smaller = [make(hidden=32, players=2, chance="game")]
        learner = Learner(network, LearnerConfig(backend=backend, lr=1e-9, warm_up_steps=0), smaller)
        learner.step(a_batch(windows=30, players=2), 0)
        gradients.append({name: p.grad.numpy() for name, p in network.named_parameters() if p.grad is not None})
    assert set(gradients[0]) == set(gradients[1])
    for name, true in gradients[0].items():
        np.testing.assert_allclose(
            gradients[1][name], true, rtol=0, atol=0.02 * np.abs(true).max() + 1e-6, err_msg=name
        )


def test_number_of_threads_can_change_between_steps_and_changes_no_byte() -> None:
    """The learner uses more cores once self-play is idle."""
    results = []
    for counts in ((1, 1, 1), (3, 1, 2)):
        network = make(hidden=32, players=2, chance="game")
        learner = Learner(network, LearnerConfig(warm_up_steps=0), threads=3)
        for seed, threads in enumerate(counts):
            learner.use_threads(threads)
            learner.step(a_batch(seed, windows=200, players=2), 0)
        results.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(*results)
