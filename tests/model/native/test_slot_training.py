"""muzero.model.native.slot_training: passes in C++ give the losses and gradients of the torch modules."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from muzero.model.head_losses import HEAD_LOSSES, HeadTargets
from muzero.model.native import _native
from muzero.model.native.slot_training import SlotTraining
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.training.losses import window_losses
from tests.training.batches import a_batch, shaken, tensors

KERNELS = _native.train_kernels()


def make(variant: str = "belief", players: int = 2, game: str = "skyjo", **changes: object) -> Network:
    """A network whose parameters have all left their initial values: zeros and ones would hide mistakes."""
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), width=16, hidden=32, chance="game")
    network = Network(GameSpec.of(game, players), replace(config, **changes))  # type: ignore[arg-type]
    return shaken(network)


def gradients(network: Network, compute: Network | SlotTraining, one_step_share: float = 0.3) -> dict[str, Tensor]:
    """Losses and their TD errors, and the gradient of every parameter, under its name."""
    if isinstance(compute, SlotTraining):
        compute.refresh()
    players, game = network.num_players, network.spec.game
    batch = tensors(a_batch(windows=60, players=players, game=game))  # more than a chunk, and a rest
    network.zero_grad(set_to_none=True)
    losses, td_error = window_losses(compute, batch, one_step_share)  # type: ignore[arg-type]
    (losses.mean(1) * torch.arange(1, len(losses) + 1)).sum().backward()  # type: ignore[no-untyped-call]
    found = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    return {"losses": losses.detach(), "td_error": td_error, **found}


def error(found: dict[str, Tensor], true: dict[str, Tensor]) -> float:
    """Largest error of a number, as a share of the largest number of its tensor (at least 0.01)."""
    assert set(found) == set(true)
    return max(
        ((found[name] - tensor).abs().max() / (tensor.abs().max() + 1e-2)).item() for name, tensor in true.items()
    )


def assert_equal_gradients(network: Network, kernel: str = "") -> None:
    """Compare passes in C++ with those of torch.

    A ReLU may be on the other side of 0 by a rounding error, which changes gradients by up to a percent: with one of
    three sets of parameters this must not happen.
    """
    training, errors = SlotTraining(network, kernel=kernel), []
    for _ in range(3):
        errors.append(error(gradients(network, training), gradients(network, network)))
        if errors[-1] < 2e-5:
            return
        assert errors[-1] < 0.05
        shaken(network)
    raise AssertionError(errors)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_losses_and_gradients_equal_those_of_torch(players: int, variant: str, kernel: str) -> None:
    assert_equal_gradients(make(variant, players), kernel)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("game", "players"), [("lama", 3), ("skipbo", 2), ("kuhn", 2)])
def test_gradients_of_other_games_equal_those_of_torch(game: str, players: int, variant: str) -> None:
    network = make(variant, players, game)
    if network.spec.num_slots:
        assert_equal_gradients(network)
    else:
        assert "a game with slots" in (SlotTraining.unsupported_reason(network) or "")


def test_gradients_equal_those_of_torch_whichever_board_comes_first() -> None:
    assert_equal_gradients(make("belief", 3, "lama", ego_boards=False))


@pytest.mark.parametrize(
    "changes",
    [
        {"ignore": ["score", "global.round"]},  # no vectors of players
        {"chance": "none"},
        {"points": 0.0},
        {"slot_dim": 32, "player_dim": 32, "global_dim": 16, "slot_hidden": 48, "hidden": 80, "width": 48},
        {"value_bins": 5},
    ],
)
def test_gradients_equal_those_of_torch_in_other_networks(changes: dict[str, object]) -> None:
    for kernel in KERNELS:
        assert_equal_gradients(make(**changes), kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("variant", "players"), [("belief", 2), ("belief", 5), ("baseline", 3), ("baseline", 8)])
def test_losses_of_heads_and_their_gradients_equal_those_of_torch(variant: str, players: int, kernel: str) -> None:
    """Targets beyond the bins, on their edges, and with no weight on anything; logits of very different sizes."""
    network = make(variant, players, points=60.0)
    training = SlotTraining(network, kernel=kernel)
    rows, generator = 70, torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(rows, *shape, generator=generator)

    latent = draw(network.latent_dim) * 5
    value = draw(players) * 2
    value[0], value[1], value[2] = 99.0, -99.0, network.support.bins[-1]
    policy = draw(network.spec.num_actions).softmax(-1)
    policy[3] = 0
    targets = HeadTargets(
        value=value,
        reward=draw(players),
        shares=draw(players).softmax(-1),
        policy=policy,
        winner=draw(players).softmax(-1),
        rank=draw(players, players).softmax(-1),
        points=draw(players) * 80,
        outcome=torch.arange(rows) % network.num_outcomes,
    )
    weights = torch.rand(len(HEAD_LOSSES), rows, generator=generator)
    found = []
    for compute in (training, network):
        given = latent.clone().requires_grad_()
        judged = compute.compare(given, torch.zeros(rows, dtype=torch.int64), targets)
        (judged.losses * weights).sum().backward()
        assert given.grad is not None
        found.append({"losses": judged.losses.detach(), "value": judged.value, "gradient": given.grad})
    assert error(*found) < 2e-5
    predicted = [name for name, loss in zip(HEAD_LOSSES, found[0]["losses"][:, 4], strict=True) if loss > 0]
    assert predicted == [name for name in HEAD_LOSSES if variant == "belief" or name not in ("winner", "rank")]


def test_losses_of_numbers_that_are_not_finite_are_not_finite() -> None:
    network = make()
    training, rows = SlotTraining(network), 3
    latent = torch.randn(rows, network.latent_dim)
    latent[1] = torch.nan
    zeros = torch.zeros(rows, 2)
    targets = HeadTargets(zeros, zeros, torch.full((1, 2), 0.5))
    losses = training.compare(latent, torch.zeros(rows, dtype=torch.int64), targets).losses
    assert losses[1].isnan().tolist() == [False, True, False]


def test_targets_and_codes_that_do_not_exist_are_named() -> None:
    network = make()
    training, batch = SlotTraining(network), tensors(a_batch(windows=4, players=2))
    nothing = torch.zeros(4, 0, dtype=torch.int64)
    at = torch.zeros(4, dtype=torch.int64)
    unrolled, some, _ = training.unroll(batch["obs"][:, 0], nothing, nothing, nothing, 4, at)
    latent, zeros = unrolled[0], torch.zeros(4, 2)
    targets = HeadTargets(zeros, zeros, torch.full((1, 2), 0.5), outcome=torch.tensor([0, 1, 99, 0]))
    with pytest.raises(IndexError, match=r"outcome target 2: expected 0 to \d+, got 99"):
        training.compare(latent, torch.zeros(4, dtype=torch.int64), targets)
    assert network.decoder is not None
    seen = batch["obs"][:, 0].clone()
    column = int(network.decoder.columns[0, 0])
    seen[1, column] = 77
    with pytest.raises(IndexError, match=rf"observation 1, column {column}: expected a code from 0 to \d+, got 77"):
        training.reconstruction_loss(some[0], seen)


def test_unrolled_latents_and_their_gradients_agree_with_torch() -> None:
    """Gradients of all three results add up, whichever of them there are."""
    network, batch = make(), tensors(a_batch(windows=50, unroll=3, players=2))
    training = SlotTraining(network, threads=2)
    given = batch["obs"][:, 0], batch["actions"], batch["shifts"], batch["outcomes"], 13, batch["after"]
    generator = torch.Generator().manual_seed(0)
    for used in ((0,), (1,), (2,), (0, 1, 2)):
        found: list[dict[str, Tensor]] = []
        weights: dict[int, Tensor] = {}
        for compute in (training, network):
            network.zero_grad()
            if compute is training:
                training.refresh()
            latents = compute.unroll(*given)
            assert [len(part) for part in latents] == [4, 4, 50]
            for which in used:
                weights.setdefault(which, torch.randn(latents[which].shape, generator=generator))
            sum((latents[which] * weights[which]).sum() for which in used).backward()  # type: ignore[union-attr]
            parameters = dict(network.named_parameters()).items()
            gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in parameters}
            found.append({str(i): part.detach() for i, part in enumerate(latents)} | gradients)
        assert error(*found) < 2e-5, used


def test_outcome_that_is_not_told_learns_nothing() -> None:
    network = make()
    found = gradients(network, SlotTraining(network))["dynamics.outcome.weight"]
    assert found[1:].abs().sum() > 0
    assert not found[0].any()


def test_number_of_threads_changes_no_byte() -> None:
    network = make()
    one, three = (gradients(network, SlotTraining(network, threads)) for threads in (1, 3))
    assert all(torch.equal(one[name], three[name]) for name in one)


@pytest.mark.parametrize("threads", [1, 2])
def test_passes_make_no_denormal_numbers_and_leave_the_mode_of_the_thread_alone(threads: int) -> None:
    """On many processors arithmetic with denormal numbers is a hundred times slower."""
    network = make()
    batch = tensors(a_batch(windows=60, players=2, game="skyjo"))
    for compute in (network, SlotTraining(network, threads=threads)):
        network.zero_grad(set_to_none=True)
        losses, _ = window_losses(compute, batch, 0.0)
        (losses.sum() * 1e-36).backward()  # type: ignore[no-untyped-call]
        found = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]).abs()
        denormal = ((found > 0) & (found < torch.finfo(torch.float32).tiny)).sum().item()
        assert (found > 0).any()
        assert (denormal > 1000) == (compute is network)
        assert (torch.tensor([1e-39]) * 1).any()


def test_gradients_follow_the_parameters_after_a_refresh() -> None:
    network = make()
    training = SlotTraining(network)
    before = gradients(network, training)
    shaken(network)
    after = gradients(network, training)
    assert not torch.equal(before["losses"], after["losses"])
    assert error(after, gradients(network, network)) < 0.05


def test_results_without_gradients_equal_those_of_torch() -> None:
    network = make()
    batch = tensors(a_batch(windows=60, players=2))
    training = SlotTraining(network)
    with torch.no_grad():
        latent = training.represent(batch["obs"][:, 0])
        torch.testing.assert_close(latent, network.represent(batch["obs"][:, 0]), rtol=0, atol=2e-5)
        moved = (batch["actions"][:, 0], batch["shifts"][:, 0], batch["outcomes"][:, 0])
        torch.testing.assert_close(training.step(latent, *moved), network.step(latent, *moved), rtol=0, atol=2e-5)
    assert not latent.requires_grad


def test_memory_of_finished_passes_is_used_again() -> None:
    network = make()
    training = SlotTraining(network)
    gradients(network, training)
    kept = {array.data_ptr() for arrays in training._spare.values() for array in arrays}
    gradients(network, training)
    assert {array.data_ptr() for arrays in training._spare.values() for array in arrays} == kept


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hidden": 24}, "expected a multiple of 16 for model.hidden, got 24"),
        ({"width": 24}, "expected a multiple of 16 for model.width, got 24"),
        ({"latent": "flat", "encoder": "transformer"}, "expected model.latent=slots, got flat"),
        ({"encoder": "transformer"}, "expected model.encoder=columns, got transformer"),
    ],
)
def test_unsupported_networks_are_refused_with_a_reason(changes: dict[str, object], reason: str) -> None:
    network = make(**changes)
    assert SlotTraining.unsupported_reason(network) == reason
    with pytest.raises(ValueError, match="network"):
        SlotTraining(network)


@pytest.mark.parametrize(("column", "name"), [(0, "action"), (1, "shift"), (2, "outcome")])
def test_impossible_steps_are_refused(column: int, name: str) -> None:
    training = SlotTraining(make())
    latent = torch.zeros(3, training.latent_dim)
    moved = [torch.zeros(3, dtype=torch.int64) for _ in range(3)]
    moved[column][1] = 99
    with pytest.raises(IndexError, match=f"row 1: no such .*{name}"):
        training.step(latent, *moved)


def test_observations_with_unknown_codes_are_refused() -> None:
    training = SlotTraining(make())
    obs = torch.from_numpy(a_batch(players=2).obs[:, 0].copy())
    obs[2, 2] = 999  # visibility of the first slot
    with pytest.raises(IndexError, match="observation 2, column 2: expected a code from 0 to"):
        training.represent(obs)
