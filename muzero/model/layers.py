"""Layers that several parts of the networks use: linear layers, sums, categorical numbers, ego conditioning.

`muzero.model.network` explains the words and the letters of the shapes.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_PLAYERS = 8  # number of rows of the embeddings of seats, whatever the game's number of players

SeatIndices = dict[str, tuple[int, Tensor]]
"""Parameter -> (dimension, indices along it that belong to the first seats); see `Network.seat_indices`."""


class PackedWeights:
    """Weights of a linear layer, packed once for the processor's matrix products, and kept until they change.

    A plain matrix product packs the weights at every call, which is a good part of its work for a few hundred rows.
    Processors with AVX-512 multiply with oneDNN, which uses it on all of them and adds the activation while a result is
    in a register; other processors multiply with MKL, which uses AVX-512 on Intel's alone. Autocast to bfloat16 packs
    the weights in bfloat16.
    """

    _WORTH_IT = 1 << 16  # least number of weights for which packing pays
    _FEWEST_ROWS = 2  # least number of rows for which packing for oneDNN pays
    _FEWEST_ROWS_MKL = 64  # the same for MKL, which packs anew for every number of rows
    _MOST_KEPT = 4  # numbers of rows for which MKL's packed weights are kept

    def __init__(self) -> None:
        self._version: tuple[int, ...] = ()
        self._kept: dict[tuple[int | torch.dtype, int], tuple[Tensor, Tensor | None]] = {}

    def __reduce__(self) -> tuple[type[PackedWeights], tuple[()]]:
        """Copy of a network packs its own weights: packed ones can neither be copied nor saved."""
        return PackedWeights, ()

    def __call__(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, gelu: bool = False, outputs: int | None = None
    ) -> Tensor:
        """x [..., inputs] -> x weight^T + bias [..., outputs], through GELU if asked for.

        Packed only on a CPU, without gradients, and where it pays. `outputs` computes the first outputs alone.
        """
        rows, few = x.numel() // x.shape[-1], self._FEWEST_ROWS if PACKS_FOR_ONEDNN else self._FEWEST_ROWS_MKL
        if weight.numel() < self._WORTH_IT or rows < few or weight.is_inference() or not _can_pack(x):
            out = F.linear(x, weight[:outputs], bias[:outputs] if bias is not None else None)
            return F.gelu(out) if gelu else out
        version = (weight._version, weight.data_ptr(), bias._version if bias is not None else 0)
        if self._version != version:
            self._version, self._kept = version, {}
        flat = x.reshape(rows, -1)
        if PACKS_FOR_ONEDNN:
            kind = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
            key: tuple[int | torch.dtype, int] = (kind, outputs or len(weight))
            if key not in self._kept:
                given = weight.detach()[:outputs].to(kind)
                packed = torch.ops.mkldnn._reorder_linear_weight(given, rows)
                self._kept[key] = packed, bias.detach()[:outputs].to(kind) if bias is not None else None
            activation, how = ("gelu", "none") if gelu else ("none", "")
            out = torch.ops.mkldnn._linear_pointwise(flat.to(kind), *self._kept[key], activation, [], how)
        else:
            key = (rows, outputs or len(weight))
            weight, bias = weight[:outputs], bias[:outputs] if bias is not None else None
            if key not in self._kept:
                if len(self._kept) > self._MOST_KEPT:
                    self._kept = {}
                self._kept[key] = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), rows), None
            out = torch.ops.mkl._mkl_linear(flat, self._kept[key][0], weight, bias, rows)
            out = F.gelu(out) if gelu else out
        return out.view(*x.shape[:-1], -1)


def _can_pack(x: Tensor) -> bool:
    """Tell whether a product with these rows can use packed weights."""
    if x.device.type != "cpu" or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if torch.is_autocast_enabled("cpu"):
        known = x.dtype in (torch.float32, torch.bfloat16)
        return PACKS_FOR_ONEDNN and known and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return x.dtype == torch.float32 and (PACKS_FOR_ONEDNN or HAS_MKL)


HAS_MKL: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
PACKS_FOR_ONEDNN: bool = torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_supported()  # type: ignore[no-untyped-call]


class PackedLinear(nn.Linear):
    """Linear layer that multiplies with packed weights, on a CPU and without gradients. The results are the same."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self._packed = PackedWeights()

    def forward(self, x: Tensor, gelu: bool = False, outputs: int | None = None) -> Tensor:
        """x [..., inputs] -> [..., outputs], through GELU if asked for; all outputs, or the first so many"""
        return self._packed(x, self.weight, self.bias, gelu, outputs)


class PackedMLP(nn.Sequential):
    """MLP of `PackedLinear` layers with GELU between them, which packed products compute on the way.

    Args:
      sizes: number of inputs, of the units of each hidden layer, and of outputs.
    """

    def __init__(self, *sizes: int) -> None:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [PackedLinear(inputs, outputs), nn.GELU()]
        super().__init__(*layers[:-1])

    def forward(self, x: Tensor, outputs: int | None = None) -> Tensor:
        """x [..., inputs] -> [..., outputs]; all outputs, or the first so many"""
        *hidden, last = list(self)[::2]
        for layer in hidden:
            x = layer(x, gelu=True)
        return last(x, outputs=outputs)  # type: ignore[no-any-return]


def mlp(inputs: int, hidden: int, outputs: int) -> PackedMLP:
    """MLP with one hidden layer."""
    return PackedMLP(inputs, hidden, outputs)


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision, as autocast computes in, to single precision; leave other types as they are."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def sum_over(tensor: Tensor, dim: int) -> Tensor:
    """Sum over a short dimension. On CPUs a few additions of slices beat a reduction, unless they need gradients."""
    return tensor.sum(dim) if torch.is_grad_enabled() else reduce(torch.add, tensor.unbind(dim))


def sum_of_pair_products(tensor: Tensor, dim: int) -> Tensor:
    """Sum of the products of all pairs along a dimension, by the binomial formula."""
    total = sum_over(tensor, dim)
    return 0.5 * (total * total - sum_over(tensor * tensor, dim))


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """x [B, N, D], index [B, K] -> x[b, index[b, k]], [B, K, D]"""
    B, N, D = x.shape
    row = torch.arange(B, device=x.device).unsqueeze(1)
    if torch.compiler.is_compiling():  # when compiled, the flat index below would cost a division per number copied
        return x[row, index]
    return x.reshape(B * N, D).index_select(0, (row * N + index).view(-1)).view(*index.shape, D)  # quick gradient


def embedded_outcome(table: nn.Embedding, outcome: Tensor) -> Tensor:
    """Embeddings [B, D] of outcome codes [B], or of weights [B, O] of codes; code 0 has none."""
    return outcome @ table.weight if outcome.is_floating_point() else table(outcome)


class Support(nn.Module):
    """Representation of numbers as distributions over equally spaced bins."""

    bins: Tensor

    def __init__(self, low: float, high: float, count: int) -> None:
        super().__init__()
        self.register_buffer("bins", torch.linspace(low, high, count), persistent=False)

    def expectation(self, logits: Tensor) -> Tensor:
        """logits [..., N] -> expected numbers [...]"""
        return logits.float().softmax(-1) @ self.bins

    def two_hot(self, numbers: Tensor) -> Tensor:
        """numbers [...] -> distributions [..., N] on the two bins around it; beyond the ends, on the last bin."""
        low, high, count = self.bins[0], self.bins[-1], len(self.bins)
        place = (numbers.clamp(low, high) - low) / (high - low) * (count - 1)
        lower = place.floor().clamp(max=count - 2)
        weight = (place - lower).unsqueeze(-1)
        index = lower.long().unsqueeze(-1)
        out = torch.zeros(*numbers.shape, count, device=numbers.device)
        return out.scatter(-1, index, 1 - weight).scatter(-1, index + 1, weight)


class EgoConditioning(nn.Module):
    """LayerNorm(h + e_ego + e_current + e_players), or LayerNorm(h) or LayerNorm(h + e_current) without an ego.

    Args:
      width: number of features.
      ego: whether there is ego conditioning.
      turns: whether the player to move differs from latent to latent, so that features are told who it is, with or
        without an ego.

    Attributes:
      on: whether there is ego conditioning.
      ablation: part of the conditioning to leave out at inference; see `Network.set_ablation`.
    """

    def __init__(self, width: int, ego: bool, turns: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ablation = "none"
        self.on, self.turns = ego, turns
        if ego or turns:
            self.current = nn.Embedding(MAX_PLAYERS, width)
        if ego:
            self.ego = nn.Embedding(MAX_PLAYERS, width)
            self.players = nn.Embedding(MAX_PLAYERS + 1, width)
        for table in self.children():
            if isinstance(table, nn.Embedding):
                nn.init.normal_(table.weight, std=0.1)

    def forward(self, h: Tensor, ego: Tensor, current: Tensor, players: int) -> Tensor:
        """Condition features on players; without ego conditioning all egos get the same features, E = 1.

        Args:
          h: [B, X] features.
          ego: [B, E] or [1, E] seats of the egos in the frame.
          current: [B] or [1] seats of the players to move in the frame.
          players: number of players at the table.

        Returns:
          Conditioned features [B, E, X].
        """
        h = h.unsqueeze(1)
        if not self.on:
            return self.norm(h + self.current(current).unsqueeze(1) if self.turns else h)  # type: ignore[no-any-return]
        if self.ablation == "zero_all":
            return self.norm(h.expand(-1, ego.shape[1], -1))  # type: ignore[no-any-return]
        if self.ablation == "wrong_ego":
            ego = (ego + 1) % players
        h = h + self.current(current).unsqueeze(1) + self.players.weight[players]
        h = h.expand(-1, ego.shape[1], -1) if self.ablation == "no_ego" else h + self.ego(ego)
        return self.norm(h)  # type: ignore[no-any-return]
