"""muzero.training.learner: the loss against a slow one, and what a step does."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

import env
from muzero.config import LearnerConfig
from muzero.data.replay_buffer import Batch
from muzero.data.targets import rank_target, winner_target
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.training.learner import LOSSES, DivergedError, Learner, _value_shares, turned, window_losses

P, B, K = 3, 5, 3
MASKS = ("policy_mask", "value_mask", "reward_mask", "outcome_mask", "live")
Arrays = dict[str, NDArray[Any]]


def make(variant: str = "belief", latent: str = "slots", encoder: str = "columns") -> Network:
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), width=16, feedforward=16, latent_dim=24, hidden=24, layers=1)
    config = replace(config, latent=latent, encoder="transformer" if latent == "flat" else encoder)
    return Network(GameSpec.of("skyjo", P), config)


def shaken(network: Network) -> Network:
    """With random weights everywhere: heads that begin at 0 say the same whatever they are to learn."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return network


def a_batch(seed: int = 0, windows: int = B, unroll: int = K) -> Batch:
    """Observations of a game, all else at random; half of the masks are 0."""
    rng = np.random.default_rng(seed)
    tables, steps = env.make("skyjo", windows, P, seed=seed + 1), unroll + 1
    A = tables.num_actions
    seen = []
    for _ in range(steps):
        seen.append(tables.obs.copy())
        tables.random_steps(5)
    shifts = rng.integers(0, P, (windows, unroll))
    ranks = np.array([[1, 2, 3], [2, 1, 3], [1, 1, 3], [2, 2, 1]], np.int8)[rng.integers(0, 4, (windows, steps))]

    def mask(columns: int) -> NDArray[np.float32]:
        return (rng.random((windows, columns)) < 0.5).astype(np.float32)

    return Batch(
        actions=rng.integers(0, A, (windows, unroll)),
        shifts=shifts,
        to_play=np.concatenate([np.zeros((windows, 1), np.int64), shifts.cumsum(1) % P], 1),
        value=rng.uniform(-2.5, 2.5, (windows, steps, P)).astype(np.float32),
        value_mask=mask(steps),
        reward=rng.uniform(-1, 1, (windows, unroll, P)).astype(np.float32),
        reward_mask=mask(unroll),
        policy=rng.dirichlet(np.ones(A), (windows, steps)).astype(np.float32),
        policy_mask=mask(steps),
        winner=winner_target(ranks),
        rank=rank_target(ranks),
        outcome_mask=mask(steps),
        obs=np.stack(seen, 1),
        live=mask(steps),
        weights=rng.uniform(0.2, 1, windows).astype(np.float32),
        index=np.arange(windows),
        stamp=np.zeros(windows, np.int64),
    )


def tensors(batch: Batch) -> dict[str, Tensor]:
    return {f.name: torch.from_numpy(getattr(batch, f.name)) for f in fields(batch)}


def losses(network: Network, batch: Batch) -> dict[str, NDArray[np.float64]]:
    with torch.no_grad():
        found, _ = window_losses(network, tensors(batch))
    return dict(zip(LOSSES, found.double().numpy(), strict=True))


def changed(batch: Batch, **arrays: NDArray[Any]) -> Batch:
    return replace(batch, **{name: array.astype(getattr(batch, name).dtype) for name, array in arrays.items()})


# ---- the loss, slowly --------------------------------------------------------------------------------------------


def entropy(logits: Tensor, target: Any) -> float:
    """Cross entropy of one distribution, number by number."""
    numbers = [float(x) for x in logits]
    log_sum = math.log(sum(math.exp(x) for x in numbers))
    return -sum(float(p) * (x - log_sum) for p, x in zip(target, numbers, strict=True))


def two_hot(network: Network, number: float) -> list[float]:
    bins = [float(b) for b in network.support.bins]
    number = min(max(number, bins[0]), bins[-1])
    width = bins[1] - bins[0]
    return [max(0.0, 1 - abs(number - b) / width) for b in bins]


@torch.no_grad()
def slow_losses(
    network: Network, b: Batch, ahead: float = 0.0, discount: float = 1.0
) -> tuple[dict[str, NDArray[np.float64]], list[float]]:
    """One window, one step, one seat at a time."""
    out = {name: np.zeros(len(b.actions)) for name in LOSSES}
    values = []
    few = math.ceil(len(b.actions) / 4)
    for i in range(len(b.actions)):
        latent = network.represent(torch.from_numpy(b.obs[i, :1]))
        for k in range(K + 1):
            share = 1.0 if k == 0 else 1 / K
            if k:
                action, shift = (torch.from_numpy(a[i, k - 1 : k]) for a in (b.actions, b.shifts))
                latent, reward = network.step(latent, action, shift)
                per_seat = [entropy(reward[0, s], two_hot(network, b.reward[i, k - 1, s])) for s in range(P)]
                out["reward"][i] += np.mean(per_seat) * b.reward_mask[i, k - 1] / K
            said = network.predict(latent, torch.from_numpy(b.to_play[i, k : k + 1]))
            out["policy"][i] += share * b.policy_mask[i, k] * entropy(said.policy[0], b.policy[i, k])
            targets = [float(b.value[i, k, s]) for s in range(P)]
            if k < K and b.live[i, k + 1]:
                nobody = torch.zeros(1, dtype=torch.int64)
                then = network.predict(network.represent(torch.from_numpy(b.obs[i, k + 1 : k + 2])), nobody)
                mover = int(b.to_play[i, k + 1] if network.frame == "root" else b.shifts[i, k])
                for s in range(P):
                    later = float(network.support.expectation(then.value[0, (s - mover) % P]))
                    targets[s] += ahead * (float(b.reward[i, k, s]) + discount * later - targets[s])
            per_seat = [entropy(said.value[0, s], two_hot(network, targets[s])) for s in range(P)]
            out["value"][i] += share * b.value_mask[i, k] * np.mean(per_seat)
            if k == 0:
                values.append(float(network.support.expectation(said.value[0, 0])))
            if said.winner is not None and said.rank is not None:
                winners, ranks = [], []
                for ego in range(said.winner.shape[1]):
                    seats = [(ego + s) % P for s in range(P)]
                    winners.append(entropy(said.winner[0, ego], [b.winner[i, k, s] for s in seats]))
                    ranks += [entropy(said.rank[0, ego, place], b.rank[i, k, s]) for place, s in enumerate(seats)]
                out["winner"][i] += share * b.outcome_mask[i, k] * np.mean(winners)
                out["rank"][i] += share * b.outcome_mask[i, k] * np.mean(ranks)
            if network.decoder is not None and i < few:
                seen = float(network.reconstruction_loss(latent, torch.from_numpy(b.obs[i, k : k + 1])))
                out["reconstruction"][i] += share * b.live[i, k] * seen * len(b.actions) / few
            if network.decoder is not None and k:
                off = latent - network.represent(torch.from_numpy(b.obs[i, k : k + 1]))
                out["consistency"][i] += share * b.live[i, k] * float(off.square().mean())
    return out, values


@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_those_of_a_slow_loop(variant: str, latent: str) -> None:
    network, batch = shaken(make(variant, latent)), a_batch()
    expected, values = slow_losses(network, batch)
    found = losses(network, batch)
    for name in LOSSES:
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name
    with torch.no_grad():
        surprises = window_losses(network, tensors(batch))[1]
    assert surprises.tolist() == pytest.approx(np.abs(np.array(values) - batch.value[:, 0, 0]), abs=1e-5)
    assert (found["winner"].sum() > 0) == VARIANTS[variant].outcome_heads
    assert (found["reconstruction"].sum() > 0) == (found["consistency"].sum() > 0) == (latent == "slots")


def test_what_another_player_sees_is_no_target() -> None:
    """In a game with hands, reconstruction, consistency and the next position's value are of the same observer."""
    assert [GameSpec.of(game, 2).private for game in ("skyjo", "lama", "skipbo")] == [False, True, True]
    network, batch = (
        shaken(make()),
        tensors(changed(a_batch(), live=np.ones((B, K + 1)), value_mask=np.ones((B, K + 1)))),
    )
    own = {**batch, "to_play": batch["to_play"] * 0, "shifts": batch["shifts"] * 0}
    later = {**own, "to_play": own["to_play"].clone(), "shifts": own["shifts"].clone()}
    later["to_play"][:, 1:], later["shifts"][:, 0] = 1, 1  # the turn passes with the first action
    with torch.no_grad():
        public = dict(zip(LOSSES, window_losses(network, later, 0.5)[0], strict=True))
        network.spec = replace(network.spec, groups=tuple(replace(g, owner_only=g.slots) for g in network.spec.groups))
        kept = dict(zip(LOSSES, window_losses(network, own, 0.5)[0], strict=True))
        private = dict(zip(LOSSES, window_losses(network, later, 0.5)[0], strict=True))
        alone = dict(zip(LOSSES, window_losses(network, {**later, "live": _first(later["live"])}, 0.5)[0], strict=True))
    assert kept["consistency"].min() > 0
    assert not private["consistency"].any()
    assert torch.equal(private["reconstruction"], alone["reconstruction"])
    assert (private["reconstruction"] < public["reconstruction"])[0]
    assert not torch.equal(private["value"], public["value"])


@pytest.mark.parametrize(("game", "own", "others"), [("skyjo", 1 / 3, 1 / 3), ("lama", 0.5, 0.25)])
def test_where_hands_are_hidden_ones_own_value_counts_most(game: str, own: float, others: float) -> None:
    network = Network(GameSpec.of(game, 3), load_model_config("tiny", "belief"))
    shares = _value_shares(network, torch.arange(3)).expand(3, 3)
    for turn in range(3):  # seats are counted from the one to move, the observer being `turn` seats before
        expected = [own if seat == -turn % 3 else others for seat in range(3)]
        assert shares[turn].tolist() == pytest.approx(expected)


def _first(mask: Tensor) -> Tensor:
    return torch.cat([mask[:, :1], mask[:, 1:] * 0], 1)


def test_losses_without_weight_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch = shaken(make()), tensors(a_batch())
    with torch.no_grad():
        whole = window_losses(network, batch)[0]
        seen: list[int] = []
        represent = network.represent
        monkeypatch.setattr(network, "represent", lambda obs: seen.append(len(obs)) or represent(obs))
        found = window_losses(network, batch, skipped=("reconstruction", "consistency"))[0]
    assert seen == [B]  # the first positions only
    for name, before, after in zip(LOSSES, whole, found, strict=True):
        assert torch.equal(after, before * 0 if name in ("reconstruction", "consistency") else before), name
    config = LearnerConfig(reconstruction_weight=0.0, consistency_weight=1.0)
    assert Learner(network, config)._skipped == ("reconstruction",)


@pytest.mark.parametrize(
    ("latent", "encoder"), [("flat", "transformer"), ("slots", "transformer"), ("slots", "columns")]
)
def test_half_precision_learns_the_same(latent: str, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU autocast leaves LayerNorm in single precision; here it is made to."""
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


@pytest.mark.parametrize("latent", ["flat", "slots"])
def test_values_learn_from_the_next_position(latent: str) -> None:
    network, batch = shaken(make("belief", latent)), changed(a_batch(), value_mask=np.ones((B, K + 1)))
    expected = slow_losses(network, batch, ahead=0.3, discount=0.9)[0]["value"]
    with torch.no_grad():
        found = window_losses(network, tensors(batch), 0.3, 0.9)[0][LOSSES.index("value")].numpy()
    assert found == pytest.approx(expected, rel=1e-4)
    assert np.abs(found - losses(network, batch)["value"]).max() > 0.01


def test_surprise_is_the_largest_step_of_the_movers_value() -> None:
    """From an imagined position to what was paid and met next; where nothing was met, there is none."""
    network, batch = shaken(make("belief")), a_batch()
    with torch.no_grad():
        found = window_losses(network, tensors(batch), 0.5, 0.9)[1]
        for i in range(B):
            latent, steps = network.represent(torch.from_numpy(batch.obs[i, :1])), [0.0]
            for k in range(K):
                value = network.support.expectation(network.predict(latent, torch.zeros(1, dtype=torch.int64)).value)
                ahead = network.initial(torch.from_numpy(batch.obs[i, k + 1 : k + 2]), "maxn")[1][0, -P:]
                later = float(ahead[-int(batch.shifts[i, k]) % P])
                off = abs(float(value[0, 0]) - float(batch.reward[i, k, 0]) - 0.9 * later)
                steps.append(off * float(batch.live[i, k + 1]))
                action, shift = (torch.from_numpy(a[i, k : k + 1]) for a in (batch.actions, batch.shifts))
                latent, _ = network.step(latent, action, shift)
            assert float(found[i]) == pytest.approx(max(steps), abs=1e-4)


def test_targets_turn_to_each_ego() -> None:
    target = torch.tensor([[1.0, 2.0, 3.0]])
    assert turned(target, 3).tolist() == [[[1, 2, 3], [2, 3, 1], [3, 1, 2]]]
    assert turned(target, 1).tolist() == [[[1, 2, 3]]]


@pytest.mark.parametrize("latent", ["flat", "slots"])
def test_masks_leave_out(latent: str) -> None:
    """Where a mask is 0 the target does not matter; where it is 1 it does."""
    network, batch = make("belief", latent), a_batch()
    before, noise = losses(network, batch), a_batch(seed=9)
    parts = {"policy": ["policy"], "value": ["value"], "reward": ["reward"], "outcome": ["winner", "rank"]}
    for mask, names in parts.items():
        on = getattr(batch, f"{mask}_mask")
        for name in names:
            old, new = getattr(batch, name), getattr(noise, name)
            on_ = on.reshape(on.shape + (1,) * (old.ndim - 2)) > 0
            same = losses(network, changed(batch, **{name: np.where(on_, old, new)}))
            other = losses(network, changed(batch, **{name: np.where(on_, new, old)}))
            assert all((same[key] == before[key]).all() for key in LOSSES), name
            assert [key for key in LOSSES if (other[key] != before[key]).any()] == [name]
    silent = changed(batch, **{name: np.zeros_like(getattr(batch, name)) for name in MASKS})
    assert all((loss == 0).all() for loss in losses(network, silent).values())


def test_nothing_is_read_back_past_the_end() -> None:
    network, batch = make(), changed(a_batch(), live=np.repeat([[1, 1, 0, 0]], B, 0))
    other = batch.obs.copy()
    other[:, 2:] = a_batch(seed=9).obs[:, 2:]
    for name in ("reconstruction", "consistency"):
        assert (losses(network, changed(batch, obs=other))[name] == losses(network, batch)[name]).all()


@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_each_step_of_the_dynamics_passes_half_of_the_gradient_on(latent: str, k: int) -> None:
    """At the latent of the root, what position k teaches arrives 2^k times smaller than it is."""
    network, batch = make("baseline", latent), a_batch(windows=4)
    batch = changed(batch, **{name: np.zeros_like(getattr(batch, name)) for name in MASKS})
    only = np.zeros((4, K + 1))
    only[:, k] = 1
    data, caught = tensors(changed(batch, policy_mask=only)), []
    handle = network.representation.register_forward_hook(lambda module, inputs, output: caught.append(output))
    found = window_losses(network, data)[0].sum()
    handle.remove()
    (halved,) = torch.autograd.grad(found, caught[0], retain_graph=True)
    (head,) = torch.autograd.grad(found, next(network.policy.parameters()))
    root = latent_ = caught[0].detach().requires_grad_()
    for step in range(k):
        latent_, _ = network.step(latent_, data["actions"][:, step], data["shifts"][:, step])
    said = network.predict(latent_, data["to_play"][:, k]).policy
    plain = -(data["policy"][:, k] * said.log_softmax(-1)).sum() / K
    (whole,) = torch.autograd.grad(plain, root, retain_graph=True)
    (whole_head,) = torch.autograd.grad(plain, next(network.policy.parameters()))
    assert whole.abs().max() > 1e-5
    assert torch.allclose(halved, whole * 0.5**k, rtol=1e-3, atol=1e-8)
    assert torch.allclose(head, whole_head, rtol=1e-3, atol=1e-7)  # the head itself learns in full


# ---- a step ------------------------------------------------------------------------------------------------------


def test_weights_ramp() -> None:
    learner = Learner(make(), LearnerConfig(winner_weight=[0.1, 0.5], rank_weight=[0.2, 0.1], ramp_iterations=100))
    found = [(learner.weights(i)["winner"], learner.weights(i)["rank"]) for i in (0, 50, 100, 1000)]
    assert found == [pytest.approx(pair) for pair in [(0.1, 0.2), (0.3, 0.15), (0.5, 0.1), (0.5, 0.1)]]
    at_once = Learner(make(), LearnerConfig(ramp_iterations=0))
    assert at_once.weights(0)["winner"] == 0.5
    names = ("value", "reward", "reconstruction", "consistency")
    config = LearnerConfig(**{f"{name}_weight": float(3 + i) for i, name in enumerate(names)})  # type: ignore[arg-type]
    fixed = Learner(make(), config).weights(7)
    assert [fixed[name] for name in ("policy", *names)] == [1, 3, 4, 5, 6]


def test_the_total_is_the_weighted_sum_of_weighted_means() -> None:
    config = LearnerConfig(value_weight=0.7, reward_weight=0.3, reconstruction_weight=0.2, ramp_iterations=10)
    network, batch = make(), a_batch()
    before = losses(network, batch)
    learner = Learner(network, config)
    learner.step(batch, iteration=5)
    report = learner.report()
    means = {name: np.average(before[name], weights=batch.weights) for name in LOSSES}
    means["consistency"] = 0.0  # its weight is 0: it is not computed
    assert {name: report[name] for name in LOSSES} == pytest.approx(means, rel=1e-4)
    factors = {"policy": 1, "value": 0.7, "reward": 0.3, "reconstruction": 0.2, "winner": 0.3, "rank": 0.175}
    factors["consistency"] = 0.0
    assert report["total"] == pytest.approx(sum(factors[name] * means[name] for name in LOSSES), rel=1e-4)


def test_reports_are_means_since_the_last() -> None:
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


def test_a_window_of_no_weight_teaches_nothing() -> None:
    one, other = a_batch(windows=2), a_batch(seed=9, windows=2)
    mixed = {f.name: np.stack([getattr(one, f.name)[0], getattr(other, f.name)[1]]) for f in fields(Batch)}
    weights = []
    for batch in (one, Batch(**mixed)):
        network = make("belief", "flat")
        learner = Learner(network, LearnerConfig())
        learner.step(changed(batch, weights=np.array([1.0, 0.0])), 0)
        weights.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_lower_the_loss_of_a_fixed_batch(variant: str, latent: str) -> None:
    batch = a_batch(windows=8)
    learner = Learner(make(variant, latent), LearnerConfig(lr=3e-3, warm_up_steps=0, consistency_weight=3.0))
    learner.step(batch, 0)
    first = learner.report()
    for _ in range(60):
        learner.step(batch, 0)
    learner.report()
    learner.step(batch, 0)
    last = learner.report()
    assert last["total"] < 0.8 * first["total"]
    for name in LOSSES:
        assert last[name] < first[name] or first[name] == 0, name
    assert learner.steps == 62


def test_priorities_are_errors_of_the_movers_value() -> None:
    network, batch = make(), a_batch()
    with torch.no_grad():
        _, outputs = network.initial(torch.from_numpy(batch.obs[:, 0]), "maxn")
    expected = np.abs(outputs[:, -P].numpy() - batch.value[:, 0, 0])
    learner = Learner(network, LearnerConfig())
    assert learner.step(batch, 0) == pytest.approx(expected, abs=1e-5)
    assert learner.report()["surprise"] == pytest.approx(expected.mean(), abs=1e-5)


def test_only_matrices_decay() -> None:
    network = make()
    learner = Learner(network, LearnerConfig(lr=0.1, weight_decay=0.5, warm_up_steps=0))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    silent = changed(a_batch(), **{name: np.zeros_like(getattr(a_batch(), name)) for name in MASKS})
    learner.step(silent, 0)
    for name, p in network.named_parameters():
        if p.grad is not None:
            assert torch.allclose(p, before[name] * (0.95 if p.ndim > 1 else 1.0)), name


def test_the_gradient_is_clipped() -> None:
    network = make()
    learner = Learner(network, LearnerConfig(clip=0.01))
    learner.step(a_batch(), 0)
    norm = torch.stack([p.grad.norm() for p in network.parameters() if p.grad is not None]).norm()
    assert float(norm) == pytest.approx(0.01, rel=1e-3)
    assert learner.report()["gradient"] > 0.1  # as it was


def test_learning_rate() -> None:
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


def test_an_average_of_the_weights() -> None:
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


def test_a_loss_that_is_no_number_is_an_error() -> None:
    network = make()
    learner = Learner(network, LearnerConfig())
    learner.step(a_batch(), 0)
    learner.report()
    with torch.no_grad():
        next(network.value.parameters()).fill_(math.nan)
    learner.step(a_batch(), 0)
    with pytest.raises(DivergedError, match=r"after 2 steps.*'value': nan.*'total': nan.*learner.largest_loss=10000"):
        learner.report()


def test_an_exploding_loss_is_an_error() -> None:
    learner = Learner(make(), LearnerConfig(largest_loss=0.5))
    learner.step(a_batch(), 0)
    with pytest.raises(DivergedError, match=r"after 1 steps the loss is \{'total': [0-9.]+\}.*largest_loss=0.5"):
        learner.report()


def test_the_same_steps_give_the_same_bytes() -> None:
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
def test_a_batch_of_a_smaller_table_trains_its_part_of_the_weights(variant: str, latent: str) -> None:
    small = make(variant, latent)  # for P players
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
