"""Layers that several parts of the networks use: linear layers, sums, categorical numbers, ego conditioning.

`muzero.model.network` explains the words and the letters of the shapes.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor, nn

MAX_PLAYERS = 8  # number of rows of the embeddings of seats, whatever the game's number of players

SeatIndices = dict[str, tuple[int, Tensor]]
"""Parameter -> (dimension, indices along it that belong to the first seats); see `Network.seat_indices`."""


class PackedLinear(nn.Linear):
    """Linear layer that multiplies with weights packed once for MKL, on a CPU and without gradients.

    A plain matrix product packs the weights at every call, which is a good part of its work for a few hundred rows.
    The results are the same.
    """

    _WORTH_IT = 1 << 16  # least number of weights for which packing pays
    _ROWS = 64  # least number of rows for which packing pays

    def forward(self, x: Tensor) -> Tensor:
        """x [..., inputs] -> [..., outputs]"""
        rows = x.numel() // x.shape[-1]
        if self.weight.numel() < self._WORTH_IT or rows < self._ROWS or not self._can_pack(x):
            return super().forward(x)
        packed = self._packed(rows)
        flat = x.reshape(rows, -1)
        out: Tensor = torch.ops.mkl._mkl_linear(flat, packed, self.weight, self.bias, rows)
        return out.view(*x.shape[:-1], -1)

    def _can_pack(self, x: Tensor) -> bool:
        plain = x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        return plain and HAS_MKL and not torch.is_grad_enabled() and not torch.compiler.is_compiling()

    def _packed(self, rows: int) -> Tensor:
        """Weights packed for a number of rows; kept until the weights change."""
        version = (self.weight._version, self.weight.data_ptr())
        kept: dict[int, Tensor]
        known, kept = self.__dict__.setdefault("_kept", (version, {}))
        if known != version or len(kept) > 4:
            kept = {}
            self.__dict__["_kept"] = version, kept
        if rows not in kept:
            kept[rows] = torch.ops.mkl._mkl_reorder_linear_weight(self.weight.detach(), rows)
        return kept[rows]


HAS_MKL: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """MLP with one hidden layer."""
    return nn.Sequential(PackedLinear(inputs, hidden), nn.GELU(), PackedLinear(hidden, outputs))


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
