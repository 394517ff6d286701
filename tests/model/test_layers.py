"""Layers: packed weights, sums, categorical numbers, ego conditioning."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch.nn import functional as F

from muzero.model import layers
from muzero.model.layers import (
    HAS_MKL,
    MAX_PLAYERS,
    PACKS_FOR_ONEDNN,
    EgoConditioning,
    PackedLinear,
    PackedMLP,
    Support,
    at_least_float32,
    gather_rows,
    sum_of_pair_products,
    sum_over,
)


def test_support_gives_two_hot_distributions_and_their_expectations() -> None:
    support = Support(-2, 2, 5)  # -2, -1, 0, 1, 2
    numbers = torch.tensor([0.25, -2.0, 2.0, 7.0, -1.5])
    expected = torch.tensor(
        [[0, 0, 0.75, 0.25, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0.5, 0.5, 0, 0, 0]]
    )
    torch.testing.assert_close(support.two_hot(numbers), expected)
    torch.testing.assert_close(support.expectation(expected.log()), numbers.clamp(-2, 2))
    wide = Support(-200, 200, 401)
    many = torch.linspace(-200, 200, 1001)
    torch.testing.assert_close(wide.two_hot(many) @ wide.bins, many, rtol=1e-5, atol=1e-4)


packings = pytest.mark.parametrize(
    "onednn",
    [
        pytest.param(True, marks=pytest.mark.skipif(not PACKS_FOR_ONEDNN, reason="no AVX-512")),
        pytest.param(False, marks=pytest.mark.skipif(not HAS_MKL, reason="torch is built without MKL")),
    ],
)


@packings
def test_packed_weights_give_the_same_results_and_follow_changes(onednn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "PACKS_FOR_ONEDNN", onednn)
    torch.manual_seed(0)
    layer, x = PackedLinear(256, 512), torch.randn(96, 3, 256)
    changes = [layer.weight, layer.bias]
    for changed in [*changes, layer.bias]:
        expected = F.linear(x, layer.weight, layer.bias).detach()
        with torch.inference_mode():
            for gelu, wanted in ((False, expected), (True, F.gelu(expected))):
                torch.testing.assert_close(layer(x, gelu), wanted, rtol=1e-5, atol=1e-5)
                torch.testing.assert_close(layer(x[:40], gelu), wanted[:40], rtol=1e-5, atol=1e-5)
            assert layer._packed._kept, "the products were packed"
        assert layer(x).requires_grad, "gradients flow outside of inference mode"
        with torch.no_grad():
            changed.mul_(2.0)


@pytest.mark.skipif(not PACKS_FOR_ONEDNN, reason="no AVX-512")
def test_packed_weights_follow_changes_in_bfloat16_too() -> None:
    torch.manual_seed(0)
    layer, x = PackedLinear(256, 512), torch.randn(96, 256)
    for _ in range(2):
        expected = F.gelu(F.linear(x, layer.weight, layer.bias)).detach()
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            found = layer(x, gelu=True)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)
        with torch.inference_mode():
            torch.testing.assert_close(layer(x, gelu=True), expected, rtol=1e-5, atol=1e-5)
        with torch.no_grad():
            layer.weight.mul_(2.0)


def test_a_packed_mlp_is_the_plain_one_and_can_be_copied_after_packing() -> None:
    torch.manual_seed(0)
    mlp, x = PackedMLP(256, 300, 400, 20), torch.randn(96, 256)
    assert list(mlp.state_dict()) == [f"{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")]
    expected = torch.nn.Sequential.forward(mlp, x)
    torch.testing.assert_close(mlp(x), expected)
    with torch.inference_mode():
        torch.testing.assert_close(mlp(x), expected.detach(), rtol=1e-5, atol=1e-5)
        assert mlp[2]._packed._kept, "the products were packed"  # type: ignore[union-attr]
    copy = deepcopy(mlp)
    with torch.no_grad():
        copy[0].weight.zero_()  # type: ignore[operator,union-attr]
        copy[0].bias.zero_()  # type: ignore[operator,union-attr]
        torch.testing.assert_close(mlp(x), expected.detach(), rtol=1e-5, atol=1e-5)
        assert (copy(x) == copy(x)[0]).all(), "the copy has weights of its own"


def test_sums_over_a_dimension_are_the_same_with_and_without_gradients() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
    expected = [torch.tensor([6.0, 3.5]), torch.tensor([1 * 2 + 1 * 3 + 2 * 3, -0.5 - 4.0 + 2.0])]
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            assert torch.equal(sum_over(x, 1), expected[0])
            assert torch.equal(sum_of_pair_products(x, 1), expected[1])


def test_gather_rows_picks_rows_of_each_batch_entry() -> None:
    x = torch.arange(12.0).view(2, 3, 2)
    picked = gather_rows(x, torch.tensor([[2, 0], [1, 1]]))
    assert picked.tolist() == [[[4.0, 5.0], [0.0, 1.0]], [[8.0, 9.0], [8.0, 9.0]]]


def test_only_half_precision_is_converted_to_single_precision() -> None:
    kinds = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: torch.float32}
    for given, expected in {**kinds, torch.float64: torch.float64}.items():
        assert at_least_float32(torch.zeros(2, dtype=given)).dtype == expected


def test_ego_conditioning_adds_the_embeddings_of_ego_mover_and_number_of_players() -> None:
    torch.manual_seed(0)
    layer, h = EgoConditioning(6, ego=True, turns=False), torch.randn(2, 6)
    ego, current = torch.tensor([[0, 1, 2]]), torch.tensor([2, 1])
    found = layer(h, ego, current, 3)
    for row in range(2):
        for seat in range(3):
            added = layer.ego.weight[seat] + layer.current.weight[current[row]] + layer.players.weight[3]
            torch.testing.assert_close(found[row, seat], layer.norm(h[row] + added))
    assert len(layer.ego.weight) == MAX_PLAYERS
    plain = EgoConditioning(6, ego=False, turns=False)
    torch.testing.assert_close(plain(h, ego, current, 3), plain.norm(h).unsqueeze(1))
    assert {name for name, _ in plain.named_parameters()} == {"norm.weight", "norm.bias"}


def test_features_without_an_ego_are_told_the_mover_where_it_turns() -> None:
    torch.manual_seed(0)
    layer, h = EgoConditioning(6, ego=False, turns=True), torch.randn(2, 6)
    current = torch.tensor([2, 1])
    found = layer(h, torch.tensor([[0, 1, 2]]), current, 3)
    assert found.shape == (2, 1, 6), "all egos have the same features"
    for row in range(2):
        torch.testing.assert_close(found[row, 0], layer.norm(h[row] + layer.current.weight[current[row]]))
    assert {name for name, _ in layer.named_parameters()} == {"norm.weight", "norm.bias", "current.weight"}
    parts = [{name for name, _ in EgoConditioning(6, ego=True, turns=t).named_parameters()} for t in (False, True)]
    assert parts[0] == parts[1], "with an ego the mover is always told"
