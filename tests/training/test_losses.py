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
from muzero.model.head_losses import per_ego
from muzero.model.layers import Support
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.training.losses import LOSSES, value_shares, window_losses
from tests.training.batches import MASKS, B, K, P, a_batch, changed, losses, make, shaken, tensors


def entropy(logits: Tensor, target: Any) -> float:
    """Cross-entropy of one distribution, number by number."""
    numbers = [float(x) for x in logits]
    log_sum = math.log(sum(math.exp(x) for x in numbers))
    return -sum(float(p) * (x - log_sum) for p, x in zip(target, numbers, strict=True))


def two_hot(support: Support, number: float) -> list[float]:
    bins = [float(b) for b in support.bins]
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
                action, shift, outcome = (torch.from_numpy(a[i, k - 1 : k]) for a in (b.actions, b.shifts, b.outcomes))
                before, latent = latent, network.step(latent, action, shift, outcome)
            predicted = network.predict(latent, torch.from_numpy(b.to_play[i, k : k + 1]))
            if k:
                rewards = [two_hot(network.support, b.reward[i, k - 1, s]) for s in range(P)]
                per_seat = [entropy(predicted.reward[0, s], rewards[s]) for s in range(P)]
                out["reward"][i] += np.mean(per_seat) * b.reward_mask[i, k - 1] / K
                if network.num_outcomes > 1 and b.after[i] == k - 1 and b.after_mask[i]:
                    after = network.step(before, action, shift, outcome * 0)
                    then = network.predict(after, torch.from_numpy(b.to_play[i, k : k + 1]))
                    known = b.value_mask[i, k] * b.reward_mask[i, k - 1]
                    for s in range(P):
                        value = entropy(then.value[0, s], two_hot(network.support, b.value[i, k, s]))
                        out["afterstate"][i] += known * (value + entropy(then.reward[0, s], rewards[s])) / P
                    assert then.outcome is not None
                    code = [float(c == b.outcomes[i, k - 1]) for c in range(network.num_outcomes)]
                    out["outcome"][i] += entropy(then.outcome[0], code)
            if predicted.points is not None:
                points = [two_hot(network.points_support, b.points[i, k, s]) for s in range(P)]
                per_seat = [entropy(predicted.points[0, s], points[s]) for s in range(P)]
                out["points"][i] += share * b.outcome_mask[i, k] * b.live[i, k] * np.mean(per_seat)
            out["policy"][i] += share * b.policy_mask[i, k] * entropy(predicted.policy[0], b.policy[i, k])
            targets = [float(b.value[i, k, s]) for s in range(P)]
            if k < K and b.live[i, k + 1]:
                nobody = torch.zeros(1, dtype=torch.int64)
                then = network.predict(network.represent(torch.from_numpy(b.obs[i, k + 1 : k + 2])), nobody)
                mover = int(b.to_play[i, k + 1] if network.frame == "root" else b.shifts[i, k])
                shifted = 0 if network.frame == "root" else mover  # rewards are listed as after the action
                for s in range(P):
                    later = float(network.support.expectation(then.value[0, (s - mover) % P]))
                    paid = float(b.reward[i, k, (s - shifted) % P])
                    targets[s] += one_step_share * (paid + discount * later - targets[s])
            per_seat = [entropy(predicted.value[0, s], two_hot(network.support, targets[s])) for s in range(P)]
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
            if network.decoder is not None and k and i < few:
                off = latent - network.represent(torch.from_numpy(b.obs[i, k : k + 1]))
                out["consistency"][i] += share * b.live[i, k] * float(off.square().mean()) * len(b.actions) / few
            if predicted.cards is not None and (network.frame == "mover" or b.to_play[i, k] == 0):
                codes = np.eye(network.num_outcomes)[b.hidden[i, k]]
                per_slot = [entropy(logits, code) for logits, code in zip(predicted.cards[0], codes, strict=True)]
                out["cards"][i] += share * b.live[i, k] * np.mean(per_slot)
    return out, values


@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("changes", [{}, {"chance": "game", "points": 30.0}])
def test_losses_equal_those_of_a_slow_loop(variant: str, latent: str, changes: dict[str, Any]) -> None:
    network, batch = shaken(make(variant, latent, **changes)), a_batch()
    expected, values = slow_losses(network, batch)
    found = losses(network, batch)
    for name in LOSSES:
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name
    with torch.no_grad():
        td_errors = window_losses(network, tensors(batch))[1]
    assert td_errors.tolist() == pytest.approx(np.abs(np.array(values) - batch.value[:, 0, 0]), abs=1e-5)
    assert (found["winner"].sum() > 0) == VARIANTS[variant].outcome_heads
    told = network.num_outcomes > 1
    assert told == (bool(changes) or VARIANTS[variant].card_beliefs)
    expected_names = {"points": bool(changes), "afterstate": told, "outcome": told}
    expected_names["cards"] = VARIANTS[variant].card_beliefs
    assert {name: found[name].sum() > 0 for name in expected_names} == expected_names
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
    assert (kept["consistency"] > 0).tolist() == [True] * 2 + [False] * 3, "a quarter of the windows, rounded up"
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
                paid = float(batch.reward[i, k, -int(batch.shifts[i, k]) % P])
                off = abs(float(value[0, 0]) - paid - 0.9 * later)
                steps.append(off * float(batch.live[i, k + 1]))
                action, shift = (torch.from_numpy(a[i, k : k + 1]) for a in (batch.actions, batch.shifts))
                latent = network.step(latent, action, shift, action * 0)
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
        taken = data["actions"][:, step], data["shifts"][:, step], data["outcomes"][:, step]
        latent_ = network.step(latent_, *taken)
    predicted = network.predict(latent_, data["to_play"][:, k]).policy
    plain = -(data["policy"][:, k] * predicted.log_softmax(-1)).sum() / K
    (whole,) = torch.autograd.grad(plain, root, retain_graph=True)
    (whole_head,) = torch.autograd.grad(plain, next(network.policy.parameters()))
    assert whole.abs().max() > 1e-5
    assert torch.allclose(halved, whole * 0.5**k, rtol=1e-3, atol=1e-8)
    assert torch.allclose(head, whole_head, rtol=1e-3, atol=1e-7)  # the head itself learns in full


# ---- chance ------------------------------------------------------------------------------------------------------


def test_afterstate_losses_need_their_masks_and_values_those_of_their_step() -> None:
    network, batch = shaken(make(chance="game")), a_batch()
    before = losses(network, batch)
    on = batch.after_mask > 0
    assert (before["outcome"][on] > 0).all()
    assert (before["outcome"][~on] == before["afterstate"][~on]).all()
    assert not before["outcome"][~on].any()
    unknown = losses(network, changed(batch, reward_mask=batch.reward_mask * 0))
    assert not unknown["afterstate"].any()
    assert (unknown["outcome"] == before["outcome"]).all()
    other = losses(network, changed(batch, outcomes=(batch.outcomes + 1) % 16))
    assert (other["outcome"] != before["outcome"])[on].all()


def test_gradient_of_an_afterstate_reaches_heads_dynamics_and_root() -> None:
    network, batch = shaken(make(chance="game")), tensors(a_batch())
    found = window_losses(network, batch)[0]
    for name, head in (("outcome", network.outcome), ("afterstate", network.value), ("afterstate", network.reward)):
        assert head is not None
        parts = [*head.parameters(), network.dynamics.slot_in.weight, next(network.representation.parameters())]
        for part, gradient in zip(
            parts, torch.autograd.grad(found[LOSSES.index(name)].sum(), parts, retain_graph=True), strict=True
        ):
            assert gradient.abs().max() > 0, (name, part.shape)


def test_outcome_head_learns_the_frequencies_of_chance_events() -> None:
    """After action 4 outcome 3 comes with probability 3/4 and outcome 7 with 1/4, after action 5 always outcome 0."""
    network, batch = make("baseline", chance="game"), tensors(a_batch(windows=8, unroll=1))
    batch["obs"] = batch["obs"][:1].expand(8, -1, -1)
    batch["actions"] = torch.tensor([[4]] * 4 + [[5]] * 4)
    batch["outcomes"] = torch.tensor([[3], [3], [3], [7], [0], [0], [0], [0]])
    batch["shifts"], batch["after"] = torch.zeros(8, 1, dtype=torch.int64), torch.zeros(8, dtype=torch.int64)
    batch["to_play"], batch["after_mask"] = torch.zeros(8, 2, dtype=torch.int64), torch.ones(8)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        window_losses(network, batch)[0][LOSSES.index("outcome")].sum().backward()
        optimizer.step()
    with torch.no_grad():
        root, zero = network.represent(batch["obs"][:2, 0]), torch.zeros(2, dtype=torch.int64)
        logits = network.predict(network.step(root, torch.tensor([4, 5]), zero, zero), zero).outcome
    assert logits is not None
    first, second = logits.softmax(1)
    assert first[[3, 7]].tolist() == pytest.approx([0.75, 0.25], abs=0.03)
    assert float(second[0]) > 0.97


def test_points_are_only_learned_where_a_game_goes_on_and_has_ended() -> None:
    network, batch = shaken(make(points=30.0)), a_batch()
    before, on = losses(network, batch)["points"], (batch.outcome_mask * batch.live)[..., None] > 0
    assert before.any()
    same = changed(batch, points=np.where(on, batch.points, 7.0))
    assert (losses(network, same)["points"] == before).all()
    assert (losses(network, changed(batch, points=np.where(on, 7.0, batch.points)))["points"] != before).any()
