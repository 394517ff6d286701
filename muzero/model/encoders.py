"""Encoders, which turn an observation into a latent: a transformer over tokens, or sets of blocks of slots (columns).

Both take an observation row [B, W] of integers as `muzero.model.spec.GameSpec` describes it. `muzero.model.network`
explains the words and the letters of the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.config.fields import require
from muzero.config.parts import PREFIX, import_part
from muzero.model.layers import PackedWeights, SeatIndices, sum_of_pair_products

if TYPE_CHECKING:
    from muzero.config import ModelConfig
    from muzero.model.spec import GameSpec, Group


class TokenEmbedding(nn.Module):
    """Embedding of an observation's tokens: a token is the sum of its fields' embeddings, from one table for all."""

    shift: Tensor
    columns: Tensor

    def __init__(self, groups: list[Group], width: int, ignore: Collection[str], places: bool) -> None:
        """Make the table.

        Args:
          groups: groups of tokens to read.
          width: size of an embedding.
          ignore: names of fields not to read, as group.field.
          places: whether to read the fields that name slots and the owners of tokens.
        """
        super().__init__()
        self.groups = groups
        row = max(g.offset + g.count * len(g.vocabulary) for g in groups)
        shift = torch.zeros(row, dtype=torch.int64)
        total = 0
        columns: list[int] = []  # indices into an observation row, ordered by group and token
        self.fields: list[int] = []  # number of fields read per token, by group
        for g in groups:
            wanted = [f"{g.name}.{name}" not in ignore for name in g.fields]
            owned = g.slots or g.per_player
            allowed = [places or not (place or (owned and seat)) for place, seat in zip(g.place, g.seat, strict=True)]
            read = [f for f in range(len(g.fields)) if wanted[f] and allowed[f]]
            for f in read:
                shift[g.offset + f : g.offset + g.count * len(g.vocabulary) : len(g.vocabulary)] = total
                total += g.vocabulary[f]
            self.fields.append(len(read))
            columns += [g.offset + t * len(g.vocabulary) + f for t in range(g.count) for f in read]
        self.register_buffer("shift", shift, persistent=False)
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.table = nn.Parameter(torch.randn(total, width) * 0.5)

    def forward(self, obs: Tensor) -> list[Tensor]:
        """obs [B, W] integers -> tokens of each group [B, count, width]"""
        index = obs[:, : len(self.shift)].to(torch.int64) + self.shift
        out = []
        sizes = [g.count * fields for g, fields in zip(self.groups, self.fields, strict=True)]
        parts = torch.split(self.columns, sizes)
        for g, fields, columns in zip(self.groups, self.fields, parts, strict=True):
            if fields == len(g.vocabulary):
                tokens = index[:, g.offset : g.offset + g.count * fields]
            else:
                tokens = index[:, columns]
            bags = F.embedding_bag(tokens.reshape(-1, fields), self.table, mode="sum")
            out.append(bags.view(len(obs), g.count, -1))
        return out


def groups_read(spec: GameSpec, config: ModelConfig) -> list[Group]:
    """Groups of an observation that the encoder reads, at least in part; refuses unknown names in `config.ignore`."""
    fields = {f"{g.name}.{name}": g for g in spec.groups for name in g.fields}
    known = {g.name for g in spec.groups if not g.slots} | set(fields)
    for name in config.ignore:
        require(name in known, "model.ignore", f"groups or fields of {spec.game}: {', '.join(sorted(known))}", name)
    left = {g.name for name, g in fields.items() if name not in config.ignore}
    return [g for g in spec.groups if g.name in left and g.name not in config.ignore]


class TransformerEncoder(nn.Module):
    """Pre-norm transformer over the tokens, with a learnable [CLS] token in front.

    A flat latent is the output of [CLS] after LayerNorm, Linear and Tanh. In a slots latent that output is the global
    vector; the vectors of slots, players and shared cards come from their own tokens in the same way.
    """

    def __init__(self, spec: GameSpec, config: ModelConfig, groups: list[Group]) -> None:
        super().__init__()
        width, self.num_players = config.width, spec.num_players
        self.embed = TokenEmbedding(groups, width, config.ignore, places=True)
        self.is_slot = [g.slots for g in groups]
        self.cls = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, sum(g.count for g in groups), width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, config.heads, config.feedforward, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = TransformerBlocks(layer, config.layers)
        self.slots = config.latent == "slots"
        self.arrange = BlockOrder(spec) if self.slots else None
        self.shared = [[h.name for h in groups].index(g.name) for g, _ in spec.shared_cards if g in groups]
        rest = config.global_dim if self.slots else config.latent_dim
        self.to_rest = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, rest), nn.Tanh())
        if self.slots:
            self.to_slots = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, config.slot_dim), nn.Tanh())
            self.per_player = [g.per_player and not g.slots for g in groups]
            if any(self.per_player):
                self.to_players = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, config.player_dim), nn.Tanh())

    def seat_indices(self, players: int) -> SeatIndices:
        """See `Network.seat_indices`: positions belong to tokens, and some tokens to seats."""
        return {"position": (1, tokens_for_fewer_players(self.embed.groups, self.num_players, players))}

    def forward(self, obs: Tensor) -> Tensor:
        """obs [B, W] -> latent [B, L]"""
        groups = self.embed(obs)
        tokens = torch.cat(groups, 1) + self.position
        tokens = torch.cat([self.cls.expand(len(obs), -1, -1), tokens], 1)
        if self.arrange is None:
            return self.to_rest(self.blocks.first_token(tokens))  # type: ignore[no-any-return]
        tokens = self.blocks(tokens)
        rest: Tensor = self.to_rest(tokens[:, 0])
        parts = tokens[:, 1:].split([g.shape[1] for g in groups], 1)
        slots = self.to_slots(torch.cat([p for p, slot in zip(parts, self.is_slot, strict=True) if slot], 1))
        shared = [self.to_slots(parts[g][:, 0]) for g in self.shared]
        theirs = [
            split_by_player(part, self.num_players) for part, own in zip(parts, self.per_player, strict=True) if own
        ]
        players = [self.to_players(torch.cat(theirs, 2).mean(2)).flatten(1)] if theirs else []
        return torch.cat([self.arrange(slots).flatten(1), *players, *shared, rest], 1)


class TransformerBlocks(nn.TransformerEncoder):
    """Blocks of a pre-norm transformer with GELU and without dropout, which can compute the output of one token alone.

    Args:
      layer: block of the kind to stack; its weights are not used.
      count: number of blocks.
    """

    def __init__(self, layer: nn.TransformerEncoderLayer, count: int) -> None:
        super().__init__(layer, count, enable_nested_tensor=False)
        self._packed = [[PackedWeights() for _ in range(4)] for _ in range(count)]

    def first_token(self, tokens: Tensor) -> Tensor:
        """tokens [B, T, X] -> output of the first token [B, X]

        The result is that of `forward`. The last block computes keys and values of all tokens, and the rest for the
        first token alone.
        """
        for index in range(len(self.layers) - 1):
            tokens = self._block(index, tokens, tokens)
        return self._block(len(self.layers) - 1, tokens[:, :1], tokens)[:, 0]

    def _block(self, index: int, asking: Tensor, tokens: Tensor) -> Tensor:
        """Output [B, Q, X] of block `index` for the tokens [B, Q, X] that ask, the first of all tokens [B, T, X]."""
        layer: Any = self.layers[index]
        project, merge, widen, narrow = self._packed[index]
        attention, width, wanted = layer.self_attn, tokens.shape[2], asking.shape[1]
        weight, bias = attention.in_proj_weight, attention.in_proj_bias
        seen = layer.norm1(tokens)
        if wanted == tokens.shape[1]:
            parts = project(seen, weight, bias).chunk(3, -1)
        else:
            question = F.linear(seen[:, :wanted], weight[:width], bias[:width])
            parts = question, *project(seen, weight[width:], bias[width:]).chunk(2, -1)
        heads = [part.view(*part.shape[:2], attention.num_heads, -1).transpose(1, 2) for part in parts]
        mixed = attend(*heads).transpose(1, 2).flatten(2)
        asking = asking + merge(mixed, attention.out_proj.weight, attention.out_proj.bias)
        hidden = widen(layer.norm2(asking), layer.linear1.weight, layer.linear1.bias, gelu=True)
        return asking + narrow(hidden, layer.linear2.weight, layer.linear2.bias)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """query [B, heads, Q, X], key and value [B, heads, T, X] -> mixed values [B, heads, Q, X]

    On a CPU, torch's fused attention is made for long sequences: for tens of tokens its gradient in bfloat16 takes ten
    times as long as that of the plain products.
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value)
    asked, seen, given = (part.flatten(0, 1) for part in (query, key, value))
    weights = torch.bmm(asked * query.shape[-1] ** -0.5, seen.transpose(1, 2)).softmax(-1)
    return torch.bmm(weights, given).view(query.shape)


class ColumnsEncoder(nn.Module):
    """Encoder of slots as sets of blocks of slots, equivariant to the symmetries that the game declares.

    A block is computed from the sum of its slots and the sum of their pairwise products; a slot's vector from its
    token, its block, and the number of cards in the block that equal its own; a player's vector from the player's other
    tokens; the global vector from the tokens that belong to no player. Neither a slot's vector nor a player's depends
    on whose turn it is, so that they stay right when the turn passes and the frame turns. Shared cards get vectors as
    slots do.
    """

    def __init__(self, spec: GameSpec, config: ModelConfig, groups: list[Group]) -> None:
        super().__init__()
        width, hidden, self.num_players = config.width, config.hidden, spec.num_players
        self.embed = TokenEmbedding(groups, width, config.ignore, places=False)
        self.is_slot = [g.slots for g in groups]
        self.arrange = BlockOrder(spec)
        self.is_player = [g.per_player and not g.slots for g in groups]
        others = sum(g.count for g in groups if not (g.slots or g.per_player))
        own = sum(g.count // spec.num_players for g in groups if g.per_player and not g.slots)
        self.equal = EqualCards(spec) if spec.shared_cards else None
        self.block = nn.Linear(2 * width, width)
        if self.equal is not None:
            self.alike = nn.Embedding(self.equal.most + 1, width)
        if own:
            self.player = nn.Sequential(
                nn.Linear(own * width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, config.player_dim),
                nn.LayerNorm(config.player_dim),
            )
        self.rest = nn.Sequential(
            nn.Linear(others * width, hidden),
            nn.GELU(),
            nn.Linear(hidden, config.global_dim),
            nn.LayerNorm(config.global_dim),
        )
        self.slot_own = nn.Linear(width, width)
        self.slot_block = nn.Linear(width, width, bias=False)
        self.to_slot = nn.Sequential(nn.GELU(), nn.Linear(width, config.slot_dim), nn.LayerNorm(config.slot_dim))
        self.shared = SharedCards(spec, self.embed) if spec.shared_cards else None

    def seat_indices(self, players: int) -> SeatIndices:
        """See `Network.seat_indices`: there are no such parts, since all players share the same weights."""
        return {}

    def forward(self, obs: Tensor) -> Tensor:
        """obs [B, W] -> latent [B, L]"""
        groups = self.embed(obs)
        slots = torch.cat([g for g, slot in zip(groups, self.is_slot, strict=True) if slot], 1)
        unowned = [not (slot or own) for slot, own in zip(self.is_slot, self.is_player, strict=True)]
        others = torch.cat([g for g, wanted in zip(groups, unowned, strict=True) if wanted], 1)
        theirs = [
            split_by_player(g, self.num_players).flatten(2)
            for g, own in zip(groups, self.is_player, strict=True)
            if own
        ]
        slots = self.arrange(slots)  # vectors (B, P, blocks, size, width)
        if self.equal is not None:
            slots = slots + self.alike(self.equal.in_block(obs))
        blocks = F.gelu(self.block(torch.cat([slots.sum(3), sum_of_pair_products(slots, 3)], -1)))
        players = [self.player(torch.cat(theirs, 2)).flatten(1)] if theirs else []
        rest = self.rest(others.flatten(1))
        vectors = self.to_slot(self.slot_own(slots) + self.slot_block(blocks).unsqueeze(3))
        parts = [vectors.flatten(1), *players]
        if self.shared is not None:
            parts.append(self.to_slot(self.slot_own(self.shared(obs, self.embed.table))).flatten(1))
        return torch.cat([*parts, rest], 1)


class EqualCards(nn.Module):
    """Numbers of equal cards: inside a block, and between a block and each shared card."""

    slots: Tensor
    shared: Tensor

    def __init__(self, spec: GameSpec) -> None:
        super().__init__()
        cards = [
            g.offset + t * len(g.vocabulary) + g.card.index(True)
            for g in spec.groups
            if g.slots
            for t in range(g.count)
        ]
        slots = torch.tensor(cards)[torch.from_numpy(block_order(spec))].view(spec.num_players, *spec.blocks.shape)
        self.register_buffer("slots", slots, persistent=False)  # indices into an observation row
        self.register_buffer("shared", torch.tensor([g.offset + f for g, f in spec.shared_cards]), persistent=False)
        self.most = spec.blocks.shape[1]
        self.width = len(spec.shared_cards) * self.most

    def in_block(self, obs: Tensor) -> Tensor:
        """Count, for each slot, the cards of its block that equal its own, itself included.

        Args:
          obs: [B, W] observations.

        Returns:
          Counts [B, P, blocks, size]; 0 where the code is 0, which means no visible card.
        """
        seen = obs[:, self.slots]
        return ((seen.unsqueeze(-1) == seen.unsqueeze(-2)) & (seen > 0).unsqueeze(-1)).sum(-1)

    def with_shared(self, obs: Tensor) -> Tensor:
        """obs [B, W] -> cards of a block that equal each shared card [B, P, blocks, width], one-hot, 0 as zeros"""
        seen, cards = obs[:, self.slots].unsqueeze(3), obs[:, self.shared]
        matches = ((seen == cards[:, None, None, :, None]) & (seen > 0)).sum(-1)
        number = torch.arange(1, self.most + 1, device=obs.device)
        return (matches.unsqueeze(-1) == number).flatten(3).float()


class SharedCards(nn.Module):
    """Embedding of the shared cards with the table of the cards in slots, so that equal cards look alike."""

    columns: Tensor

    def __init__(self, spec: GameSpec, embed: TokenEmbedding) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor([g.offset + f for g, f in spec.shared_cards]), persistent=False)
        self.place = nn.Parameter(torch.randn(len(spec.shared_cards), embed.table.shape[1]) * 0.5)
        group = next(g for g in spec.groups if g.slots and any(g.card))
        field = group.card.index(True)
        self.first = int(embed.shift[group.offset + field])  # row of the table that embeds code 0
        self.codes = group.vocabulary[field]

    def forward(self, obs: Tensor, table: Tensor) -> Tensor:
        """obs [B, W], the table of embeddings -> [B, C, width]; a card hidden from the observer looks like no card"""
        code = obs[:, self.columns].to(torch.int64)
        return table[self.first + torch.where(code < self.codes, code, 0)] + self.place


class BlockOrder(nn.Module):
    """Order of the slots in a latent: by player, by symmetric block, by slot of the block."""

    order: Tensor

    def __init__(self, spec: GameSpec) -> None:
        super().__init__()
        self.shape = (spec.num_players, *spec.blocks.shape)
        self.register_buffer("order", torch.from_numpy(block_order(spec)), persistent=False)

    def forward(self, slots: Tensor) -> Tensor:
        """slots [B, S, X] in the order of the tokens -> [B, P, blocks, size, X]"""
        return slots[:, self.order].view(len(slots), *self.shape, -1)


def block_order(spec: GameSpec) -> NDArray[np.int64]:
    """Slot (number in the order of the tokens) at each position of a latent, [S]."""
    per_player = spec.blocks.size
    complete = per_player * spec.num_players == spec.num_slots
    require(complete, "symmetric_blocks", f"all of a player's {spec.num_slots // spec.num_players} slots", per_player)
    return np.concatenate([spec.blocks.reshape(-1) + seat * per_player for seat in range(spec.num_players)])


def split_by_player(tokens: Tensor, num_players: int) -> Tensor:
    """tokens [B, P n, X], ordered by player -> [B, P, n, X]"""
    return tokens.view(len(tokens), num_players, -1, tokens.shape[2])


def tokens_for_fewer_players(groups: list[Group], num_players: int, players: int) -> Tensor:
    """Indices of the tokens, among those of a game for `num_players`, that the game for fewer players has, too."""
    kept: list[int] = []
    start = 0
    for g in groups:
        kept += range(start, start + (g.count // num_players * players if g.per_player else g.count))
        start += g.count
    return torch.tensor(kept)


# ---- encoders by name ------------------------------------------------------------------------------------------------

EncoderFactory = Callable[..., nn.Module]

ENCODERS: dict[str, EncoderFactory] = {"transformer": TransformerEncoder, "columns": ColumnsEncoder}
"""Encoders by name; `register_encoder` adds to them."""


def register_encoder(name: str, factory: EncoderFactory) -> None:
    """Add an encoder for `model.encoder`; `python:MODULE:CLASS` does without, in commands and worker processes, too.

    Args:
      name: name of the encoder, not used before.
      factory: class or function of (spec, config, groups) that makes a module: observations [B, W] -> latents [B, L].
        A method `seat_indices`, as `TransformerEncoder` has it, is needed for runs with several numbers of players if
        parameters have a part for each seat.
    """
    require(name not in ENCODERS, "name of an encoder", f"a new name beside {', '.join(ENCODERS)}", name)
    ENCODERS[name] = factory


def make_encoder(spec: GameSpec, config: ModelConfig, groups: list[Group]) -> nn.Module:
    """Make the encoder that a configuration names."""
    name = config.encoder
    known = f"{' or '.join(ENCODERS)}, or python:MODULE:CLASS"
    require(name in ENCODERS or name.startswith(PREFIX), "model.encoder", known, name)
    factory = ENCODERS[name] if name in ENCODERS else import_part("model.encoder", name)
    made = factory(spec, config, groups)
    require(isinstance(made, nn.Module), "model.encoder", "a class or function that makes a torch module", name)
    return made
