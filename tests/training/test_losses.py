"""muzero.training.losses: against a slow loop, with masks, one-step values and private information."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from muzero.data.replay_buffer import Batch
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.training.losses import LOSSES, per_ego, value_shares, window_losses
from tests.training.batches import MASKS, B, K, P, a_batch, changed, losses, make, shaken, tensors


def entropy(logits: Tensor, target: Any) -> float:
    """Cross-entropy of one distribution, number by number."""
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
    network: Network, b: Batch, one_step_share: float = 0.0, discount: float = 1.0
) -> tuple[dict[str, NDArray[np.float64]], list[float]]:
    """Losses and first values, computed one window, one step and one seat at a time."""
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
            predicted = network.predict(latent, torch.from_numpy(b.to_play[i, k : k + 1]))
            out["policy"][i] += share * b.policy_mask[i, k] * entropy(predicted.policy[0], b.policy[i, k])
            targets = [float(b.value[i, k, s]) for s in range(P)]
            if k < K and b.live[i, k + 1]:
                nobody = torch.zeros(1, dtype=torch.int64)
                then = network.predict(network.represent(torch.from_numpy(b.obs[i, k + 1 : k + 2])), nobody)
                mover = int(b.to_play[i, k + 1] if network.frame == "root" else b.shifts[i, k])
                for s in range(P):
                    later = float(network.support.expectation(then.value[0, (s - mover) % P]))
                    targets[s] += one_step_share * (float(b.reward[i, k, s]) + discount * later - targets[s])
            per_seat = [entropy(predicted.value[0, s], two_hot(network, targets[s])) for s in range(P)]
            out["value"][i] += share * b.value_mask[i, k] * np.mean(per_seat)
            if k == 0:
                values.append(float(network.support.expectation(predicted.value[0, 0])))
            if predicted.winner is not None and predicted.rank is not None:
                winners, ranks = [], []
                for ego in range(predicted.winner.shape[1]):
                    seats = [(ego + s) % P for s in range(P)]
                    winners.append(entropy(predicted.winner[0, ego], [b.winner[i, k, s] for s in seats]))
                    ranks += [entropy(predicted.rank[0, ego, place], b.rank[i, k, s]) for place, s in enumerate(seats)]
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
def test_losses_equal_those_of_a_slow_loop(variant: str, latent: str) -> None:
    network, batch = shaken(make(variant, latent)), a_batch()
    expected, values = slow_losses(network, batch)
    found = losses(network, batch)
    for name in LOSSES:
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name
    with torch.no_grad():
        td_errors = window_losses(network, tensors(batch))[1]
    assert td_errors.tolist() == pytest.approx(np.abs(np.array(values) - batch.value[:, 0, 0]), abs=1e-5)
    assert (found["winner"].sum() > 0) == VARIANTS[variant].outcome_heads
    assert (found["reconstruction"].sum() > 0) == (found["consistency"].sum() > 0) == (latent == "slots")


def test_positions_seen_by_another_player_are_no_targets() -> None:
    """In games with hands, reconstruction, consistency and one-step values compare positions of the same observer."""
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
def test_own_value_has_half_of_the_weight_where_hands_are_hidden(game: str, own: float, others: float) -> None:
    network = Network(GameSpec.of(game, 3), load_model_config("tiny", "belief"))
    shares = value_shares(network, torch.arange(3)).expand(3, 3)
    for turn in range(3):  # seats are counted from the one to move, the observer being `turn` seats before
        expected = [own if seat == -turn % 3 else others for seat in range(3)]
        assert shares[turn].tolist() == pytest.approx(expected)


def _first(mask: Tensor) -> Tensor:
    return torch.cat([mask[:, :1], mask[:, 1:] * 0], 1)


def test_skipped_losses_are_zero_and_cost_no_encoder_pass(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("latent", ["flat", "slots"])
def test_one_step_share_mixes_the_next_value_into_value_targets(latent: str) -> None:
    network, batch = shaken(make("belief", latent)), changed(a_batch(), value_mask=np.ones((B, K + 1)))
    expected = slow_losses(network, batch, one_step_share=0.3, discount=0.9)[0]["value"]
    with torch.no_grad():
        found = window_losses(network, tensors(batch), 0.3, 0.9)[0][LOSSES.index("value")].numpy()
    assert found == pytest.approx(expected, rel=1e-4)
    assert np.abs(found - losses(network, batch)["value"]).max() > 0.01


def test_td_error_is_the_largest_one_step_error_of_the_movers_value() -> None:
    """Distance of an imagined position's value from reward plus next value, where the next position is known."""
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


def test_per_ego_rolls_targets_to_each_seat() -> None:
    target = torch.tensor([[1.0, 2.0, 3.0]])
    assert per_ego(target, 3).tolist() == [[[1, 2, 3], [2, 3, 1], [3, 1, 2]]]
    assert per_ego(target, 1).tolist() == [[[1, 2, 3]]]


@pytest.mark.parametrize("latent", ["flat", "slots"])
def test_masked_targets_do_not_matter_and_others_do(latent: str) -> None:
    """Targets matter where a mask is 1 and nowhere else."""
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


def test_positions_past_the_end_are_not_reconstructed() -> None:
    network, batch = make(), changed(a_batch(), live=np.repeat([[1, 1, 0, 0]], B, 0))
    other = batch.obs.copy()
    other[:, 2:] = a_batch(seed=9).obs[:, 2:]
    for name in ("reconstruction", "consistency"):
        assert (losses(network, changed(batch, obs=other))[name] == losses(network, batch)[name]).all()


@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_each_step_of_the_dynamics_passes_half_of_the_gradient_on(latent: str, k: int) -> None:
    """The gradient of position k arrives at the root's latent divided by 2^k."""
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
    predicted = network.predict(latent_, data["to_play"][:, k]).policy
    plain = -(data["policy"][:, k] * predicted.log_softmax(-1)).sum() / K
    (whole,) = torch.autograd.grad(plain, root, retain_graph=True)
    (whole_head,) = torch.autograd.grad(plain, next(network.policy.parameters()))
    assert whole.abs().max() > 1e-5
    assert torch.allclose(halved, whole * 0.5**k, rtol=1e-3, atol=1e-8)
    assert torch.allclose(head, whole_head, rtol=1e-3, atol=1e-7)  # the head itself learns in full
