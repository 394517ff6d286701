"""Parameters and indices of the encoder of a slots network, for the passes in C++ of the search and of the learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from muzero.model.encoders import ColumnsEncoder, block_order

if TYPE_CHECKING:
    from muzero.model.network import Network


def encoder_tensors(network: Network) -> dict[str, Tensor]:
    """Parameters of the encoder, under the names that they have in C++."""
    encoder = network.representation
    assert isinstance(encoder, ColumnsEncoder)
    tensors: dict[str, Tensor] = {"table": encoder.embed.table}
    if encoder.equal is not None:
        tensors["alike"] = encoder.alike.weight
    if encoder.shared is not None:
        tensors["place"] = encoder.shared.place
    layers = {
        "block": encoder.block,
        "slot_own": encoder.slot_own,
        "slot_block": encoder.slot_block,
        "to_slot": encoder.to_slot[1],
        "slot_norm": encoder.to_slot[2],
        "rest_in": encoder.rest[0],
        "rest_out": encoder.rest[2],
        "rest_norm": encoder.rest[3],
    }
    if any(encoder.is_player):
        layers |= {f"player_{name}": encoder.player[k] for k, name in ((0, "in"), (2, "out"), (3, "norm"))}
    return tensors | of_layers(layers)


def of_layers(layers: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Weights [inputs, outputs] and biases of linear layers, weights and biases of LayerNorms, by name."""
    tensors = {}
    for name, layer in layers.items():
        weight, bias = cast("Tensor", layer.weight), cast("Tensor | None", layer.bias)
        tensors[f"{name}.weight"] = weight.t() if weight.ndim == 2 else weight
        if bias is not None:
            tensors[f"{name}.bias"] = bias
    return tensors


def encoder_indices(network: Network) -> tuple[dict[str, int], dict[str, NDArray[np.int32]]]:
    """Sizes of the encoder, and the columns of observations that its tokens read."""
    encoder, spec = network.representation, network.spec
    assert isinstance(encoder, ColumnsEncoder)
    shift = encoder.embed.shift.numpy()
    slots: list[list[int]] = []
    others: list[list[int]] = []
    own: list[list[list[int]]] = [[] for _ in range(spec.num_players)]
    limits: dict[int, int] = {}
    columns = encoder.embed.columns.tolist()
    for g, fields in zip(encoder.embed.groups, encoder.embed.fields, strict=True):
        tokens = [columns[t * fields : (t + 1) * fields] for t in range(g.count)]
        columns = columns[g.count * fields :]
        for token in tokens:
            limits |= {column: g.vocabulary[(column - g.offset) % len(g.vocabulary)] for column in token}
        if g.slots:
            slots += tokens
        elif g.per_player:
            each = g.count // spec.num_players
            for seat in range(spec.num_players):
                own[seat] += tokens[seat * each : (seat + 1) * each]
        else:
            others += tokens
    slots = [slots[slot] for slot in block_order(spec)]
    shared = encoder.shared
    cards = encoder.equal.slots.flatten().tolist() if encoder.equal is not None else []
    shared_columns = shared.columns.tolist() if shared is not None else []
    for column in (*cards, *shared_columns):
        limits.setdefault(column, 1 << 15)
    owned = [token for tokens in own for token in tokens]
    sizes = {
        "encoder.width": network.config.width,
        "encoder.row": spec.width,
        "encoder.table_rows": len(encoder.embed.table),
        "encoder.slot_fields": len(slots[0]),
        "encoder.others": len(others),
        "encoder.own": len(own[0]),
        "encoder.alike_rows": encoder.alike.num_embeddings if encoder.equal is not None else 0,
        "encoder.code_first": shared.first if shared is not None else 0,
        "encoder.codes": shared.codes if shared is not None else 0,
    }
    indices = {
        "card_column": cards,
        "shared_column": shared_columns,
        "columns": list(limits),
        "limits": list(limits.values()),
    }
    for name, tokens in (("slot", slots), ("other", others), ("own", owned)):
        read = [column for token in tokens for column in token]
        indices |= {f"{name}_column": read, f"{name}_shift": shift[read].tolist() if read else []}
        if name != "slot":
            indices[f"{name}_start"] = np.cumsum([0, *map(len, tokens)]).tolist()
    return sizes, {f"encoder.{name}": np.array(numbers, np.int32) for name, numbers in indices.items()}
