"""Parts of a network whose latent is a vector per slot (`model.latent=slots`): dynamics, trunk, policy and decoder.

A slots latent is the concatenation of
  - a vector of size D for each slot, ordered by player from the mover on, by block, and by slot of the block;
  - a vector of size V for each player, in the same order;
  - a vector of size D for each of the C shared cards, the visible cards that belong to no player;
  - a global vector of size G.
The last two are called the *rest*. The frame turns with the player to move. Two more letters: M is the number of hidden
units per slot, K the largest number of slots that an action touches, and X = C, or C + 1 where the dynamics are told
the outcomes of chance events; `muzero.model.network` explains the words and the other letters of the shapes.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.model.encoders import EqualCards, block_order, groups_read
from muzero.model.layers import (
    SeatIndices,
    at_least_float32,
    embedded_outcome,
    gather_rows,
    sum_of_pair_products,
    sum_over,
)

if TYPE_CHECKING:
    from muzero.config import ModelConfig
    from muzero.model.spec import GameSpec

_PAIR_DIM = 16  # size of a slot's vector in a role, which is compared with another slot's


def rest_dim(spec: GameSpec, config: ModelConfig) -> int:
    """Size of the rest of a slots latent: the shared cards and the global vector, C D + G."""
    return len(spec.shared_cards) * config.slot_dim + config.global_dim


def player_dim(spec: GameSpec, config: ModelConfig) -> int:
    """Size of a player's vector in a slots latent, V; 0 if the encoder reads nothing about players but their slots."""
    return config.player_dim if any(g.per_player and not g.slots for g in groups_read(spec, config)) else 0


def touched_places(spec: GameSpec) -> tuple[Tensor, Tensor, Tensor]:
    """Positions in a latent of the slots that each action touches.

    Returns:
      Positions [A, K]; roles [A, K]; whether each entry counts [A, K]. Entries that do not count name positions that
      the action does not touch, so that writing them back changes nothing.
    """
    place_of = np.argsort(block_order(spec))
    places, roles = spec.action_slots.copy(), spec.action_roles.clip(min=0)
    for row in places:
        used = [int(place_of[slot]) for slot in row if slot >= 0]
        spare = [place for place in range(spec.num_slots) if place not in used]
        row[:] = used + spare[: len(row) - len(used)]
    return torch.from_numpy(places), torch.from_numpy(roles), torch.from_numpy(spec.action_slots >= 0)


def touched_blocks(spec: GameSpec) -> list[list[int]]:
    """Blocks that each action touches; blocks are numbered consecutively over all players."""
    touched, _, present = touched_places(spec)
    size = spec.blocks.shape[1]
    return [sorted(set((row[there] // size).tolist())) for row, there in zip(touched, present, strict=True)]


class Boards(NamedTuple):
    """Parts of a slots latent that belong to players.

    Attributes:
      slots: [B, S, D] vectors of the slots.
      blocks: [B, P, blocks, M] features that the trunk computes from the slots of each block.
      players: [B, P, V] vectors of the players.
    """

    slots: Tensor
    blocks: Tensor
    players: Tensor


class SlotDynamics(nn.Module):
    """Update of the slots that an action touches, the players, the shared cards and the global vector.

    Afterwards the frame turns to the next player to move.
    """

    touched: Tensor
    roles: Tensor
    present: Tensor
    kinds: Tensor
    seat_from: Tensor
    source: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        P, self.slots, self.slot_dim = spec.num_players, spec.num_slots, config.slot_dim
        D, G, H, M = config.slot_dim, config.global_dim, config.hidden, config.slot_hidden
        C, V = len(spec.shared_cards), player_dim(spec, config)
        self.shared, self.player_dim = C, V
        touched, roles, present = touched_places(spec)
        # Every action may use the shared cards and the card that a chance event shows; each has a role of its own.
        outcomes = spec.outcomes_told(config)
        X = C + (outcomes > 1)
        roles = torch.cat([roles, spec.num_roles + torch.arange(X).expand(len(roles), X)], 1)
        self.register_buffer("touched", touched, persistent=False)  # (A, K)
        self.register_buffer("roles", roles, persistent=False)  # (A, K + X)
        self.register_buffer("present", present.float().unsqueeze(-1), persistent=False)
        self.register_buffer("kinds", torch.tensor(spec.kinds), persistent=False)
        turn, seat, place = torch.arange(P)[:, None], torch.arange(P), torch.arange(self.slots)
        per_player = self.slots // P
        moved = (place // per_player - turn) % P * per_player + place % per_player
        self.register_buffer("seat_from", (seat + turn) % P, persistent=False)  # (P, P) old seat, by shift and new seat
        # Old position by action, shift and new position; S + k for the k-th slot that the action touches.
        source = moved.argsort(1).repeat(len(touched), 1, 1)
        became = moved[:, touched].permute(1, 0, 2)  # (A, P, K) new positions of the touched slots
        source.scatter_(2, became, (self.slots + torch.arange(touched.shape[1])).expand(became.shape))
        self.register_buffer("source", source, persistent=False)  # (A, P, S)

        self.kind = nn.Embedding(spec.num_kinds, H)
        self.turn = nn.Embedding(P, H)
        self.role = nn.Embedding(spec.num_roles + X, M)
        self.role_factor = nn.Embedding(spec.num_roles + X, M)
        nn.init.ones_(self.role_factor.weight)
        self.moves = nn.Parameter(torch.zeros(spec.num_kinds, spec.num_roles + X, spec.num_roles + X))
        self.stays = nn.Parameter(torch.ones(spec.num_kinds, spec.num_roles + X))
        self.outcome = nn.Embedding(outcomes, D, padding_idx=0) if outcomes > 1 else None
        self.slot_in = nn.Linear(D, M)
        self.pass_on = nn.Linear(C * D, M, bias=False) if C else None
        self.gather = nn.Linear(4 * M, H, bias=False)
        self.compare = nn.Linear(G + C * D, M)
        self.rest_in = nn.Linear(P * V + G + C * D, H)
        self.hidden = nn.Linear(H, H)
        # Change of the global vector, message to the touched slots, change of the players' vectors.
        self.parts = [G, M, P * V]
        self.consequences = nn.Linear(H, sum(self.parts))
        self.rest_norm = nn.LayerNorm(G)
        self.player_norm = nn.LayerNorm(V) if V else nn.Identity()
        self.slot_out = nn.Linear(M, D)
        self.slot_norm = nn.LayerNorm(D)

    def seat_indices(self, players: int) -> SeatIndices:
        """See `Network.seat_indices`."""
        P, (rest, told, boards) = len(self.seat_from), self.parts
        kept = torch.arange(boards // P * players)
        outputs = torch.cat([torch.arange(rest + told), rest + told + kept])
        inputs = torch.cat([kept, torch.arange(boards, self.rest_in.in_features)])
        return {
            "turn.weight": (0, torch.arange(players)),
            "rest_in.weight": (1, inputs),
            "consequences.weight": (0, outputs),
            "consequences.bias": (0, outputs),
        }

    def forward(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor, block: Tensor | None) -> Tensor:
        """Take one action in each row.

        Args:
          latent: [B, L] latents in the mover's frame.
          action: [B] actions to take.
          shift: [B] number of seats by which the turn moves on; 0 if the same player moves again.
          outcome: [B] outcomes of chance events; 0 for none, or not told.
          block: [B, M] sum of the blocks that the action touches; see `SlotTrunk.touched`.

        Returns:
          Next latent [B, L] in the frame of the next mover.
        """
        assert block is not None
        B, S, D, P, V = len(latent), self.slots, self.slot_dim, len(self.seat_from), self.player_dim
        slots, players, rest = torch.split(latent, [S * D, P * V, latent.shape[1] - S * D - P * V], 1)
        touched, present = self.touched[action], self.present[action]  # (B, K), (B, K, 1)
        shared, whole = torch.split(rest, [self.shared * D, rest.shape[1] - self.shared * D], 1)
        slots = slots.view(B, S, D)
        entries = [gather_rows(slots, touched), shared.reshape(B, self.shared, D)]
        if self.outcome is not None:  # the card that chance has shown, which the action may move to another entry
            entries.append(embedded_outcome(self.outcome, outcome).unsqueeze(1))
        old = torch.cat(entries, 1)  # (B, K + X, D)
        present = F.pad(present, (0, 0, 0, old.shape[1] - present.shape[1]), value=1.0)
        seen = self.slot_in(old) + self.role(self.roles)[action]
        there = seen * self.role_factor(self.roles)[action] * present
        sums = [sum_over(F.relu(there), 1), sum_over(there, 1) * self.compare(rest), sum_of_pair_products(there, 1)]
        summary = torch.cat([*sums, block], 1)
        beyond = self.rest_in(latent[:, S * D :])
        hidden = F.gelu(beyond + self.gather(summary) + self.kind(self.kinds[action]) + self.turn(shift))
        hidden = F.gelu(self.hidden(hidden))
        rest_change, spread, players_change = self.consequences(hidden).split(self.parts, 1)
        spread = spread if self.pass_on is None else spread + self.pass_on(shared)
        kept = touched.shape[1] + self.shared  # entries that belong to the latent
        change = self.slot_out(F.relu(seen[:, :kept] + spread.unsqueeze(1)))
        new = self.slot_norm(self._moved(old * present, action) + change)
        new = torch.where(present[:, :kept] > 0, new, old[:, :kept])
        new, shared = torch.split(new, [touched.shape[1], self.shared], 1)
        rest = torch.cat([shared.flatten(1), self.rest_norm(whole + rest_change)], 1)
        players = gather_rows(self.player_norm((players + players_change).view(B, P, V)), self.seat_from[shift])
        slots = gather_rows(torch.cat([slots, new.to(slots.dtype)], 1), self.source[action, shift])
        return torch.cat([slots.flatten(1), players.flatten(1), rest], 1)

    def _moved(self, old: Tensor, action: Tensor) -> Tensor:
        """Vectors [B, K + C, D] of the touched slots and the shared cards after cards have moved between them.

        The share of a vector that stays, and the share that goes to another place, are learned for each kind of action
        and each role, or pair of roles. The card that chance has shown, the last of X further entries, can only go.

        Args:
          old: [B, K + X, D] vectors before, 0 where an entry does not count.
          action: [B] actions taken.
        """
        return torch.bmm(self.shares_moved()[action], old)

    def shares_moved(self) -> Tensor:
        """Share of each vector before an action in each vector after it, [A, K + C, K + X]."""
        kinds, roles = self.kinds[:, None], self.roles
        stays = torch.diag_embed(self.stays[kinds, roles])
        moves = self.moves[kinds.unsqueeze(2), roles.unsqueeze(2), roles.unsqueeze(1)]  # (A, K + X, K + X)
        return (stays + moves)[:, : self.touched.shape[1] + self.shared]


class SlotTrunk(nn.Module):
    """Trunk that pools slots into blocks and boards and adds the players' vectors and the conditioned rest.

    A block is computed from sums, so that the order of its slots has no influence: the sum of its slots, of the
    products of pairs of them, and of their products with each shared card. Products tell equal cards from different
    ones. Where blocks are single slots and no cards are shared, boards get the products of pairs of their slots, which
    tell whether cards fit on piles. The latent itself stores nothing about blocks or boards: they are computed here,
    from the slots, so that they are right whatever an action has changed.

    Where slots are seen by their owners alone, the trunk shows each ego its own board first (`model.ego_boards`). A
    root knows one hand, the mover's, and positions imagined from it have that hand in other seats: the worth of a hand
    is then learned once, not again for each seat.
    """

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        D, H, M = config.slot_dim, config.hidden, config.slot_hidden
        self.slots, self.shared, self.slot_dim, self.dim = spec.num_slots, len(spec.shared_cards), D, H
        self.shape = (spec.num_players, *spec.blocks.shape)
        self.turns = config.ego and config.ego_boards and spec.private
        self.slot = nn.Linear(D, M)
        self.block = nn.Linear((2 + self.shared) * M, M)
        V = player_dim(spec, config)
        self.players_dim = spec.num_players * V
        self.pairs = self.shape[2] == 1 and not self.shared
        if self.pairs:  # pairs are many terms: they start small, or they would outweigh everything else
            self.pair_scale = nn.Parameter(torch.full((M,), 0.1 / self.shape[1]))
        self.boards = nn.Linear(spec.num_players * (M + self.pairs * M + V), H, bias=False)
        self.rest = nn.Linear(rest_dim(spec, config), H)
        self.mix = nn.Linear(H, H)
        blocks = touched_blocks(spec)
        most = max(1, *map(len, blocks))
        blocks_of = torch.tensor([known + [0] * (most - len(known)) for known in blocks])
        touches = torch.tensor([[float(k < len(known)) for k in range(most)] for known in blocks])
        self.register_buffer("blocks_of", blocks_of, persistent=False)  # (A, most blocks of an action)
        self.register_buffer("touches", touches.unsqueeze(2), persistent=False)

    blocks_of: Tensor
    touches: Tensor

    def kept_of_latent(self, size: int, players: int) -> Tensor:
        """Places in a latent of this size of what a latent for fewer players has: their parts and the rest."""
        P, boards = self.shape[0], self.slots * self.slot_dim
        slots, vectors = torch.arange(boards // P * players), torch.arange(self.players_dim // P * players)
        return torch.cat([slots, boards + vectors, torch.arange(boards + self.players_dim, size)])

    def split(self, latent: Tensor) -> tuple[Boards, Tensor]:
        """latent [B, L] -> boards, and the rest [B, C D + G], which is to be conditioned"""
        B, P = len(latent), self.shape[0]
        slots, players, shared, rest = self._parts(latent)
        return Boards(slots, self._blocks(slots.view(B, *self.shape, -1), shared), players.reshape(B, P, -1)), rest

    def touched(self, latent: Tensor, action: Tensor) -> Tensor:
        """latent [B, L], action [B] -> sum of the blocks that the action touches [B, M]"""
        B, size = len(latent), self.shape[2]
        slots, _, shared, _ = self._parts(latent)
        of = self.blocks_of[action].unsqueeze(2).expand(-1, -1, size * self.slot_dim)  # (B, blocks, size D)
        there = slots.view(B, -1, size * self.slot_dim).gather(1, of)
        blocks = self._blocks(there.view(B, 1, -1, size, self.slot_dim), shared)[:, 0]
        return (blocks * self.touches[action]).sum(1)

    def _parts(self, latent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """latent [B, L] -> slots [B, S, D], players' vectors [B, P V], shared cards [B, C, D], rest [B, C D + G]"""
        B, D = len(latent), self.slot_dim
        sizes = [self.slots * D, self.players_dim]
        slots, players, rest = torch.split(latent, [*sizes, latent.shape[1] - sum(sizes)], 1)
        shared = rest[:, : self.shared * D].reshape(B, self.shared, D)
        return slots.view(B, self.slots, D), players, shared, rest

    def forward(self, boards: Boards | None, conditioned: Tensor, egos: Tensor) -> Tensor:
        """conditioned [B, E, C D + G], egos [B, E] or [1, E] seats in the frame -> features [B, E, H]"""
        assert boards is not None
        parts = [sum_over(boards.blocks, 2), boards.players]
        if self.pairs:
            seen = self.slot(boards.slots).unflatten(1, self.shape[:2])
            parts.insert(0, sum_of_pair_products(at_least_float32(seen), 2) * self.pair_scale)
        pooled = torch.cat(parts, 2)  # (B, P, M + V), with pairs (B, P, 2 M + V)
        if self.turns:
            seats = (egos.unsqueeze(2) + torch.arange(pooled.shape[1], device=egos.device)) % pooled.shape[1]
            seats = seats.expand(len(pooled), -1, -1).flatten(1)  # (B, E P)
            turned = pooled.gather(1, seats.unsqueeze(2).expand(-1, -1, pooled.shape[2]))
            seen = self.boards(turned.view(*conditioned.shape[:2], -1))
        else:
            seen = self.boards(pooled.flatten(1)).unsqueeze(1)
        features = F.gelu(seen + self.rest(conditioned))
        return features + F.gelu(self.mix(features))

    def _blocks(self, slots: Tensor, shared: Tensor) -> Tensor:
        """slots [B, P, blocks, size, D], shared [B, C, D] -> [B, P, blocks, M]"""
        seen = at_least_float32(self.slot(slots))  # differences of squares lose everything in half precision
        total = sum_over(seen, 3)
        products = 0.5 * (total * total - sum_over(seen * seen, 3))  # sum of the products of pairs
        parts = [sum_over(F.relu(seen), 3), products]
        if self.shared:
            parts += [total * card[:, None, None] for card in self.slot(shared).unbind(1)]
        return F.relu(self.block(torch.cat(parts, -1)))


class SlotPolicy(nn.Module):
    """Policy head: the logit of an action is the sum of a logit for its kind and a score for each slot that it touches.

    A slot's score depends on its role in the action, its vector, the product of this with the features, and its block.
    Where actions touch several blocks, such as the place that a card leaves and the place it goes to, each pair of
    touched slots adds a score, too: the product of their vectors in their roles.
    """

    said_by: Tensor
    of_kind: Tensor
    known: Tensor
    together: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        H, M, R = config.hidden, config.slot_hidden, spec.num_roles
        touched, roles, present = touched_places(spec)
        # Slots that get a score: all up to the last one that an action touches.
        self.scored = int(touched[present].max()) + 1 if present.any() else 0
        action, k = present.nonzero().T
        said_by = torch.zeros(self.scored * R, spec.num_actions)  # 1 where an action touches a slot in a role
        said_by[touched[action, k] * R + roles[action, k], action] = 1.0
        of_kind = F.one_hot(torch.tensor(spec.kinds), spec.num_kinds).T.float()
        self.register_buffer("said_by", said_by, persistent=False)
        self.register_buffer("of_kind", of_kind, persistent=False)  # (kinds, A)
        self.kind = nn.Linear(H, spec.num_kinds)
        self.size = spec.blocks.shape[1]
        self.slot = nn.Linear(config.slot_dim, M)
        self.block = nn.Linear(M, M, bias=False)
        self.context = nn.Linear(H, 2 * M, bias=False)
        self.score = nn.Linear(M, R)
        self.compares = max(map(len, touched_blocks(spec))) > 1
        if self.compares:
            known, which = torch.unique((touched * R + roles)[present], return_inverse=True)  # pairs (slot, role)
            n = len(known)
            together = torch.zeros(n, n, spec.num_actions)  # 1 where an action touches both, lower number first
            for a in range(spec.num_actions):
                for one, other in combinations(sorted(which[action == a].tolist()), 2):
                    together[one, other, a] = 1.0
            self.register_buffer("known", known, persistent=False)
            self.register_buffer("together", together.flatten(0, 1), persistent=False)
            self.in_role = nn.Linear(config.slot_dim, R * _PAIR_DIM)
            self.of_pairs = nn.Linear(_PAIR_DIM, 1, bias=False)
            nn.init.zeros_(self.of_pairs.weight)  # or dozens of pairs make some initial policies nearly deterministic

    def forward(self, boards: Boards | None, features: Tensor) -> Tensor:
        """boards, features [B, H] of the player to move -> logits [B, A]"""
        assert boards is not None
        factor, context = self.context(features).unsqueeze(1).chunk(2, -1)
        blocks = boards.blocks.flatten(1, 2)[:, : -(-self.scored // self.size)]
        around = self.block(blocks).unsqueeze(2).expand(-1, -1, self.size, -1).flatten(1, 2)[:, : self.scored]
        seen = self.slot(boards.slots[:, : self.scored])
        hidden = F.relu(seen + seen * factor + around + context)
        logits: Tensor = self.kind(features) @ self.of_kind + self.score(hidden).flatten(1) @ self.said_by
        if self.compares:  # compute each pair of (slot, role) once, however many actions touch it
            in_role = self.in_role(boards.slots[:, : self.scored]).view(len(features), -1, _PAIR_DIM)
            there = in_role.index_select(1, self.known)
            alike = torch.bmm(there * self.of_pairs.weight, there.transpose(1, 2))  # (B, n, n)
            logits = logits + alike.flatten(1) @ self.together
        return logits


class SlotCardBeliefs(nn.Module):
    """Head of the cards that the player to move cannot see: a distribution over kinds for each slot, 0 for no card."""

    order: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        self.slot = nn.Linear(config.slot_dim, config.slot_hidden)
        self.context = nn.Linear(config.hidden, config.slot_hidden, bias=False)
        self.kinds = nn.Linear(config.slot_hidden, spec.num_outcomes)
        order = torch.from_numpy(np.argsort(block_order(spec)))
        self.register_buffer("order", order, persistent=False)  # place in the latent of each slot of an observation

    def forward(self, boards: Boards | None, features: Tensor) -> Tensor:
        """boards, features [B, H] of the player to move -> logits [B, S, O], slots in the order of observations"""
        assert boards is not None
        seen = F.relu(self.slot(boards.slots) + self.context(features).unsqueeze(1))
        return self.kinds(seen)[:, self.order]  # type: ignore[no-any-return]


class SlotDecoder(nn.Module):
    """Decoder that predicts what is visible in the slots, so that the dynamics learn what actions change there.

    It predicts the fields of each slot's token from the slot's vector and, from each block, how many of its cards equal
    each shared card.
    """

    columns: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        # Fields to predict: all but those that name the slot, or its player relative to the mover.
        groups = [g for g in spec.groups if g.slots]
        same = all(g.vocabulary == groups[0].vocabulary and g.place == groups[0].place for g in groups)
        assert same, [g.name for g in groups]
        fields = [f for f in range(len(groups[0].fields)) if not (groups[0].place[f] or groups[0].seat[f])]
        self.vocabulary = [groups[0].vocabulary[f] for f in fields]
        rows = [[g.offset + t * len(g.vocabulary) + f for f in fields] for g in groups for t in range(g.count)]
        columns = torch.tensor(rows)[torch.from_numpy(block_order(spec))]
        self.register_buffer("columns", columns, persistent=False)  # (S, fields) indices into an observation row
        self.head = nn.Linear(config.slot_dim, sum(self.vocabulary))
        self.equal = EqualCards(spec) if spec.shared_cards else None
        if self.equal is not None:
            self.matches = nn.Linear(config.slot_hidden, self.equal.width)

    def forward(self, boards: Boards, obs: Tensor) -> Tensor:
        """boards, obs [B, W] in the same frame -> cross entropy [B], the mean over slots"""
        logits = self.head(boards.slots).float().split(self.vocabulary, -1)
        seen = obs[:, self.columns].long()  # (B, S, fields)
        losses = [
            F.cross_entropy(field.flatten(0, 1), seen[..., f].flatten(), reduction="none").view(seen.shape[:2])
            for f, field in enumerate(logits)
        ]
        total = torch.stack(losses).sum(0).mean(1)
        if self.equal is not None:
            match_logits, counts = self.matches(boards.blocks).float(), self.equal.with_shared(obs)
            total = total + F.binary_cross_entropy_with_logits(match_logits, counts, reduction="none").sum(3).mean(
                (1, 2)
            )
        return total
