"""Learned codes of chance (`model.chance=learned`): their losses, gradients, and training with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import env
from muzero.config import LearnerConfig
from muzero.model.network import Network
from muzero.runs import checkpoint, metrics
from muzero.training.learner import Learner
from muzero.training.losses import LOSSES, encode_steps, window_losses
from muzero.training.preflight import preflight
from tests.composing import compose_config
from tests.training.batches import a_batch, make, shaken, tensors
from tests.training.processes import Run

LATENTS = ("slots", "flat")


def learned(latent: str = "slots", **changes: object) -> Network:
    return make("belief", latent, chance="learned", codes=6, **changes)


def code_weights(network: Network) -> Tensor:
    """First weights of the encoder of codes."""
    assert network.codes is not None
    return next(network.codes.parameters())


@pytest.mark.parametrize("latent", LATENTS)
def test_every_step_has_one_code_and_gradients_reach_the_encoder_alone(latent: str) -> None:
    network, batch = shaken(learned(latent)), tensors(a_batch())
    codes = encode_steps(network, batch)
    B, K = batch["actions"].shape
    assert codes.weights.shape == (B, K, 7)
    assert codes.chosen.shape == (B, K)
    assert 1 <= int(codes.chosen.min()) <= int(codes.chosen.max()) <= 6
    hard = torch.nn.functional.one_hot(codes.chosen, 7).float()
    assert torch.allclose(codes.weights, hard, atol=1e-6)
    assert not codes.weights[..., 0].any(), "code 0 is kept for afterstates"
    assert len(codes.chosen.unique()) >= 4, "codes are told apart from the start"
    encoder, seen = code_weights(network), next(network.representation.parameters())
    gradients = torch.autograd.grad(codes.weights[..., 1].sum(), [encoder, seen], allow_unused=True)
    assert gradients[0] is not None
    assert gradients[0].abs().max() > 0
    assert gradients[1] is None


@pytest.mark.parametrize("latent", LATENTS)
def test_every_loss_of_imagined_positions_teaches_the_encoder(latent: str) -> None:
    network, batch = shaken(learned(latent)), tensors(a_batch())
    found, _ = window_losses(network, batch)
    weight = code_weights(network)
    for name in ("policy", "value", "reward", "outcome"):
        (gradient,) = torch.autograd.grad(found[LOSSES.index(name)].sum(), weight, retain_graph=True)
        assert gradient.abs().max() > 0, name
    found, _ = window_losses(network, tensors(a_batch(unroll=1)))
    (gradient,) = torch.autograd.grad(found[LOSSES.index("afterstate")].sum(), weight)
    assert not gradient.any(), "an afterstate is told no code"


def test_the_game_s_own_outcomes_are_not_read() -> None:
    network, batch = shaken(learned()), tensors(a_batch())
    before, _ = window_losses(network, batch)
    batch["outcomes"] = (batch["outcomes"] + 1) % 16
    after, _ = window_losses(network, batch)
    assert torch.equal(before, after)


def test_losses_are_deterministic() -> None:
    found = []
    for _ in range(2):
        network = learned()
        learner = Learner(network, LearnerConfig(warm_up_steps=0))
        for seed in range(3):
            learner.step(a_batch(seed), 0)
        found.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(*found)


def coin(chance: str, latent: str) -> tuple[Network, dict[str, Tensor]]:
    """Toy: one action leads to one of two positions by chance, and the position alone says what was paid."""
    network = make("baseline", latent, chance=chance, codes=4)
    batch = tensors(a_batch(windows=16, unroll=1))
    first, heads, tails = batch["obs"][0, 0].clone(), batch["obs"][1, 0].clone(), batch["obs"][2, 0].clone()
    side = torch.arange(16) % 2
    batch["obs"] = torch.stack([first.expand(16, -1), torch.where(side[:, None] == 1, heads, tails)], 1)
    batch["actions"], batch["shifts"] = torch.full((16, 1), 4), torch.zeros(16, 1, dtype=torch.int64)
    batch["to_play"], batch["after"] = torch.zeros(16, 2, dtype=torch.int64), torch.zeros(16, dtype=torch.int64)
    batch["live"], batch["after_mask"], batch["reward_mask"] = torch.ones(16, 2), torch.ones(16), torch.ones(16, 1)
    batch["value_mask"], batch["value"] = torch.ones(16, 2), torch.zeros_like(batch["value"])
    batch["reward"] = torch.zeros_like(batch["reward"]) + (2 * side - 1)[:, None, None].float()
    return network, batch


def trained_reward(chance: str, latent: str, steps: int = 150) -> tuple[float, Network, dict[str, Tensor]]:
    """Loss of the reward after training on the toy."""
    network, batch = coin(chance, latent)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    factors = torch.tensor([float(name in ("reward", "afterstate", "outcome")) for name in LOSSES])
    for _ in range(steps):
        optimizer.zero_grad()
        found, _ = window_losses(network, batch, skipped=("reconstruction", "consistency"))
        (found.mean(1) * factors).sum().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    return float(found.detach().mean(1)[LOSSES.index("reward")]), network, batch


@pytest.mark.slow
@pytest.mark.parametrize("latent", LATENTS)
def test_codes_tell_what_chance_brought_and_the_prior_knows_how_often(latent: str) -> None:
    """Without codes the two rewards cannot be told apart; with them they are, and both codes are expected half the
    time."""
    plain, _, _ = trained_reward("none", latent)
    told, network, batch = trained_reward("learned", latent)
    assert plain > 0.6, "log 2 is the best that one prediction for both can reach"
    assert told < 0.1
    codes = encode_steps(network, batch).chosen[:, 0]
    one, other = codes[::2].unique(), codes[1::2].unique()
    assert not set(one.tolist()) & set(other.tolist())
    with torch.no_grad():
        zero = torch.zeros(1, dtype=torch.int64)
        root = network.represent(batch["obs"][:1, 0])
        afterstate = network.predict(network.step(root, torch.tensor([4]), zero, zero), zero)
        assert afterstate.outcome is not None
        likely = afterstate.outcome.softmax(1)[0]
        assert float(likely[one].sum()) == pytest.approx(0.5, abs=0.1)
        assert float(likely[other].sum()) == pytest.approx(0.5, abs=0.1)
        after = [network.step(root, torch.tensor([4]), zero, code) for code in (one[:1], other[:1])]
        paid = [float(network.support.expectation(network.predict(one, zero).reward)[0, 0]) for one in after]
    assert paid == pytest.approx([-1, 1], abs=0.2)


def test_native_passes_are_refused_and_auto_falls_back_to_torch() -> None:
    network = learned(hidden=32)
    assert Learner(network, LearnerConfig()).native is None
    with pytest.raises(ValueError, match=r"learner\.backend=native: expected model\.chance=none or game, got learned"):
        Learner(network, LearnerConfig(backend="native"))


def test_batches_of_smaller_tables_teach_the_encoder_of_the_larger_network() -> None:
    network = shaken(learned(players=3))
    learner = Learner(network, LearnerConfig(lr=1e-9, warm_up_steps=0), [learned(players=2)])
    learner.step(a_batch(windows=16, players=2), 0)
    gradient = code_weights(network).grad
    assert gradient is not None
    assert gradient.any(0).float().mean() == pytest.approx(0.67, abs=0.2), "the third player's inputs are not there"


def test_sources_that_count_cards_are_refused() -> None:
    for source in ("exact", "cards"):
        config = compose_config("preset=smoke", "model.chance=learned", f"search.chance_source={source}")
        with pytest.raises(ValueError, match=r"search\.chance_source: expected learned or uniform with model\.chance"):
            preflight(config)
    with pytest.raises(ValueError, match=r"model\.codes: expected 2 to 63, got 64"):
        compose_config("model.codes=64")


GAMES = [pytest.param(game, marks=[] if game == "kuhn" else pytest.mark.slow) for game in env.games()]


@pytest.mark.parametrize("game", GAMES)
def test_every_game_trains_with_learned_codes_and_goes_on_from_a_checkpoint(game: str, tmp_path: Path) -> None:
    settings = ["preset=smoke", "+variant=belief", f"game={game}", "model.chance=learned", "model.codes=8"]
    settings += ["search.simulations=4", "selfplay.tables=4", "evaluation.every=0", "replay.warm_up=50"]
    settings.append(f"selfplay.games_per_iteration={40 if game == 'kuhn' else 4}")
    settings.append("learner.consistency_weight=1")
    run = Run(tmp_path / "run", "train.iterations=1", settings=settings).done()
    again = Run(tmp_path / "run", "train.iterations=2", settings=settings).done()
    once = Run(tmp_path / "once", "train.iterations=2", settings=settings).done()
    assert run.path == again.path
    last = metrics.read(again.path)[-1]["losses"]
    assert last["outcome"] > 0
    assert last["afterstate"] > 0
    one, other = (checkpoint.load_weights(path).weights for path in (again.path, once.path))
    assert "codes.0.weight" in one
    for name, tensor in one.items():
        assert np.array_equal(tensor.numpy(), other[name].numpy()), name
