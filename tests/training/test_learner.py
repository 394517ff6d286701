"""muzero.training.learner: what a step changes, reports and refuses."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from muzero.config import LearnerConfig
from muzero.data.replay_buffer import Batch
from muzero.model.network import Network
from muzero.model.presets import VARIANTS
from muzero.model.spec import GameSpec
from muzero.training.learner import DivergedError, Learner
from muzero.training.losses import LOSSES
from tests.training.batches import MASKS, P, a_batch, changed, losses, make


@pytest.mark.parametrize(
    ("latent", "encoder"), [("flat", "transformer"), ("slots", "transformer"), ("slots", "columns")]
)
def test_bfloat16_gives_nearly_the_same_losses(latent: str, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU autocast leaves LayerNorm in single precision; here the test makes it so."""
    norm = F.layer_norm

    def single(x: Tensor, *rest: Any) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return norm(x.float(), *rest)

    monkeypatch.setattr(F, "layer_norm", single)
    reports = []
    for bf16 in (False, True):
        torch.manual_seed(0)
        network = make("belief", latent, encoder)
        learner = Learner(network, LearnerConfig(bf16=bf16, one_step_share=0.3, consistency_weight=1.0))
        learner.step(a_batch(), 0)
        reports.append(learner.report())
        assert all(p.dtype == torch.float32 for p in network.parameters())
    for name in LOSSES:
        assert reports[1][name] == pytest.approx(reports[0][name], rel=0.05, abs=0.02), name


def test_gradients_in_bfloat16_point_where_those_in_single_precision_do() -> None:
    """A flat network wide enough for the processor's products in bfloat16; eight bits of every number remain."""
    gradients = []
    for bf16 in (False, True):
        torch.manual_seed(0)
        network = make("belief", "flat", players=2, width=64, feedforward=128, latent_dim=64, hidden=64, layers=2)
        learner = Learner(network, LearnerConfig(bf16=bf16, warm_up_steps=0, clip=1e9))
        learner.step(a_batch(windows=64, players=2), 0)
        gradients.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
        assert all(p.dtype == gradients[-1][name].dtype == torch.float32 for name, p in network.named_parameters())
    whole = torch.cat([g.flatten() for g in gradients[0].values()])
    rough = torch.cat([g.flatten() for g in gradients[1].values()])
    assert F.cosine_similarity(whole, rough, 0) > 0.999
    assert rough.norm() == pytest.approx(float(whole.norm()), rel=0.02)
    for name, exact in gradients[0].items():
        error = (gradients[1][name] - exact).norm()
        assert error < 0.1 * exact.norm() + 1e-4 * whole.norm(), name


def test_steps_in_bfloat16_are_the_same_bytes_again() -> None:
    results = []
    for _ in range(2):
        network = make("belief", "flat", players=2, width=64, feedforward=128, latent_dim=64, hidden=64)
        learner = Learner(network, LearnerConfig(bf16=True, warm_up_steps=0))
        for seed in range(3):
            learner.step(a_batch(seed, windows=64, players=2), 0)
        results.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(*results)


def test_learner_skips_losses_of_weight_zero() -> None:
    config = LearnerConfig(reconstruction_weight=0.0, consistency_weight=1.0)
    assert Learner(make(), config).skipped == ("reconstruction",)


def test_outcome_weights_ramp_and_others_are_constant() -> None:
    learner = Learner(make(), LearnerConfig(winner_weight=[0.1, 0.5], rank_weight=[0.2, 0.1], ramp_iterations=100))
    found = [(learner.weights(i)["winner"], learner.weights(i)["rank"]) for i in (0, 50, 100, 1000)]
    assert found == [pytest.approx(pair) for pair in [(0.1, 0.2), (0.3, 0.15), (0.5, 0.1), (0.5, 0.1)]]
    at_once = Learner(make(), LearnerConfig(ramp_iterations=0))
    assert at_once.weights(0)["winner"] == 0.5
    names = ("value", "reward", "reconstruction", "consistency", "points", "afterstate", "outcome", "cards")
    config = LearnerConfig(**{f"{name}_weight": float(3 + i) for i, name in enumerate(names)})  # type: ignore[arg-type]
    fixed = Learner(make(), config).weights(7)
    assert [fixed[name] for name in ("policy", *names)] == [1, 3, 4, 5, 6, 7, 8, 9, 10]


def test_total_is_the_weighted_sum_of_importance_weighted_means() -> None:
    config = LearnerConfig(value_weight=0.7, reward_weight=0.3, reconstruction_weight=0.2, ramp_iterations=10)
    config = replace(config, points_weight=0.4, afterstate_weight=0.6, outcome_weight=0.9, cards_weight=0.8)
    network, batch = make("belief_cards", points=30.0), a_batch()
    before = losses(network, batch)
    learner = Learner(network, config)
    learner.step(batch, iteration=5)
    report = learner.report()
    means = {name: np.average(before[name], weights=batch.weights) for name in LOSSES}
    means["consistency"] = 0.0  # not computed, because its weight is 0
    assert {name: report[name] for name in LOSSES} == pytest.approx(means, rel=1e-4)
    factors = {"policy": 1, "value": 0.7, "reward": 0.3, "reconstruction": 0.2, "winner": 0.3, "rank": 0.175}
    factors |= {"points": 0.4, "afterstate": 0.6, "outcome": 0.9, "cards": 0.8, "consistency": 0.0}
    assert min(means[name] for name in ("points", "afterstate", "outcome", "cards")) > 0
    assert report["total"] == pytest.approx(sum(factors[name] * means[name] for name in LOSSES), rel=1e-4)


def test_report_is_the_mean_since_the_last_report() -> None:
    network, batch = make(), a_batch()
    learner, totals = Learner(network, LearnerConfig(lr=1e-3, warm_up_steps=0)), []
    for _ in range(3):
        factors = learner.weights(0)
        found = losses(network, batch)
        totals.append(sum(factors[name] * np.average(found[name], weights=batch.weights) for name in LOSSES))
        learner.step(batch, 0)
        if len(totals) == 1:
            learner.report()
    assert learner.report()["total"] == pytest.approx(np.mean(totals[1:]), rel=1e-4)


def test_window_of_weight_zero_changes_nothing() -> None:
    one, other = a_batch(windows=2), a_batch(seed=9, windows=2)
    mixed = {f.name: np.stack([getattr(one, f.name)[0], getattr(other, f.name)[1]]) for f in fields(Batch)}
    weights = []
    for batch in (one, Batch(**mixed)):
        network = make("belief", "flat")
        learner = Learner(network, LearnerConfig())
        learner.step(changed(batch, weights=np.array([1.0, 0.0])), 0)
        weights.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(*weights)


FEW = [("baseline", "slots"), ("belief_cards", "slots"), ("belief", "flat")]
MORE = [(variant, latent) for variant in VARIANTS for latent in ("flat", "slots") if (variant, latent) not in FEW]


@pytest.mark.parametrize(("variant", "latent"), [*FEW, *(pytest.param(*kind, marks=pytest.mark.slow) for kind in MORE)])
def test_steps_lower_the_loss_of_a_fixed_batch(variant: str, latent: str) -> None:
    batch, network = a_batch(windows=8), make(variant, latent, chance="game", points=30.0)
    learner = Learner(network, LearnerConfig(lr=1e-2, warm_up_steps=0, consistency_weight=3.0))
    learner.step(batch, 0)
    first = learner.report()
    for _ in range(38):
        learner.step(batch, 0)
    learner.report()
    learner.step(batch, 0)
    last = learner.report()
    assert last["total"] < 0.8 * first["total"]
    for name in LOSSES:
        assert last[name] < first[name] or first[name] == 0, name
    assert learner.steps == 40


def test_step_returns_the_errors_of_the_movers_value() -> None:
    network, batch = make(), a_batch()
    with torch.no_grad():
        _, outputs = network.initial(torch.from_numpy(batch.obs[:, 0]), "maxn")
    expected = np.abs(outputs[:, -P].numpy() - batch.value[:, 0, 0])
    learner = Learner(network, LearnerConfig())
    assert learner.step(batch, 0) == pytest.approx(expected, abs=1e-5)
    assert learner.report()["td_error"] == pytest.approx(expected.mean(), abs=1e-5)


def test_weight_decay_applies_to_matrices_only() -> None:
    network = make()
    learner = Learner(network, LearnerConfig(lr=0.1, weight_decay=0.5, warm_up_steps=0))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    silent = changed(a_batch(), **{name: np.zeros_like(getattr(a_batch(), name)) for name in MASKS})
    learner.step(silent, 0)
    for name, p in network.named_parameters():
        if p.grad is not None:
            assert torch.allclose(p, before[name] * (0.95 if p.ndim > 1 else 1.0)), name


def test_gradient_is_clipped_to_the_largest_norm() -> None:
    network = make()
    learner = Learner(network, LearnerConfig(clip=0.01))
    learner.step(a_batch(), 0)
    norm = torch.stack([p.grad.norm() for p in network.parameters() if p.grad is not None]).norm()
    assert float(norm) == pytest.approx(0.01, rel=1e-3)
    assert learner.report()["gradient"] > 0.1  # the norm before clipping


def test_learning_rate_warms_up_and_decays_along_a_cosine() -> None:
    learner = Learner(make(), LearnerConfig(lr=1.0, warm_up_steps=4, decay_steps=0))
    found = []
    for steps in (0, 1, 3, 4, 1000):
        learner.steps = steps
        found.append(learner.learning_rate())
    assert found == [0.25, 0.5, 1.0, 1.0, 1.0]
    learner = Learner(make(), LearnerConfig(lr=2.0, warm_up_steps=0, decay_steps=100))
    found = []
    for steps in (0, 50, 100, 500):
        learner.steps = steps
        found.append(learner.learning_rate())
    assert found == pytest.approx([2.0, 1.1, 0.2, 0.2])
    learner.steps = 50
    learner.step(a_batch(), 0)
    assert [group["lr"] for group in learner.optimizer.param_groups] == pytest.approx([1.1, 1.1])


def test_ema_is_the_running_average_that_self_play_uses() -> None:
    network, batch = make(), a_batch()
    learner = Learner(network, LearnerConfig(ema=0.9, lr=1e-2, warm_up_steps=0))
    average = {name: p.detach().clone() for name, p in network.named_parameters()}
    for steps in (1, 2, 3, 1000):  # at first over a tenth of the steps so far
        learner.steps = steps - 1
        learner.step(batch, 0)
        new = {1: 10 / 11, 2: 10 / 12, 3: 10 / 13, 1000: 0.1}[steps]
        for name, p in network.named_parameters():
            average[name] = (1 - new) * average[name] + new * p.detach()
    playing = learner.playing_weights()
    assert playing.keys() == average.keys()
    assert all(torch.allclose(playing[name], average[name], atol=1e-6) for name in average)
    assert any(not torch.allclose(playing[name], p, atol=1e-4) for name, p in network.named_parameters())
    other = Learner(make(), LearnerConfig(ema=0.9))
    other.load_ema(playing)
    assert all(torch.equal(tensor, playing[name]) for name, tensor in other.playing_weights().items())
    newest = Learner(network, LearnerConfig())
    assert newest.ema is None
    assert all(torch.equal(newest.playing_weights()[name], p) for name, p in network.named_parameters())


def test_nan_loss_raises_diverged_error() -> None:
    network = make()
    learner = Learner(network, LearnerConfig())
    learner.step(a_batch(), 0)
    learner.report()
    with torch.no_grad():
        next(network.value.parameters()).fill_(math.nan)
    learner.step(a_batch(), 0)
    with pytest.raises(DivergedError, match=r"after 2 steps.*'value': nan.*'total': nan.*learner.largest_loss=10000"):
        learner.report()


def test_exploding_loss_raises_diverged_error() -> None:
    learner = Learner(make(), LearnerConfig(largest_loss=0.5))
    learner.step(a_batch(), 0)
    with pytest.raises(DivergedError, match=r"after 1 steps the loss is \{'total': [0-9.]+\}.*largest_loss=0.5"):
        learner.report()


def test_same_steps_give_the_same_bytes() -> None:
    ends = []
    for _ in range(2):
        network = make()
        learner = Learner(network, LearnerConfig())
        for seed in range(3):
            learner.step(a_batch(seed), seed)
        ends.append(b"".join(p.detach().numpy().tobytes() for p in network.parameters()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("latent", ["slots", "flat"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_batch_of_a_smaller_table_trains_its_part_of_the_weights(variant: str, latent: str) -> None:
    small = make(variant, latent, chance="game", points=30.0)  # for P players
    large = Network(GameSpec.of("skyjo", P + 2), small.config)
    learner = Learner(large, LearnerConfig(weight_decay=0.0), [Network(small.spec, small.config)])
    small.load_state_dict(large.weights_for(P, dict(large.named_parameters())))
    alone = Learner(small, LearnerConfig(weight_decay=0.0))
    before = {name: p.detach().clone() for name, p in large.named_parameters()}
    batch = a_batch()
    assert learner.step(batch, 0) == pytest.approx(alone.step(batch, 0))
    assert learner.report()["total"] == pytest.approx(alone.report()["total"])
    after = dict(large.named_parameters())
    for name, trained in large.weights_for(P, after).items():
        torch.testing.assert_close(trained, dict(small.named_parameters())[name], rtol=1e-4, atol=1e-6, msg=name)
    for name, (dim, index) in large.seat_indices(P).items():  # and nothing else
        others = torch.tensor([i for i in range(before[name].shape[dim]) if i not in index.tolist()])
        assert torch.equal(after[name].index_select(dim, others), before[name].index_select(dim, others)), name
