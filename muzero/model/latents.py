"""What a latent is, how actions change it and what heads read of it: one vector (flat), or one per slot (slots).

A slots latent is [slots of all players from the mover's on, players' vectors, shared cards as slots, global part]. The
two kinds have the same parts, which `muzero.model.network` puts together: dynamics, a trunk that feeds the heads, a
policy head. Shapes: B batch, P players, A actions, L latent, S slots, D slot, G global, E egos, N bins, M hidden units
of a slot, V a player's vector, C shared cards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.config import ModelConfig
from muzero.model.encoders import EqualCards, SeatParts, add_up, block_order, groups_read, pairs
from muzero.model.spec import GameSpec

MAX_PLAYERS = 8
_PAIR_DIM = 16  # of a slot in a role, compared with another


class PackedLinear(nn.Linear):
    """A Linear that, without gradients and on a CPU, multiplies with weights which MKL has laid out once.

    A plain matrix product lays them out anew at every call, which for a few hundred rows is a good part of its work.
    The numbers are the same.
    """

    _WORTH_IT = 1 << 16  # weights
    _ROWS = 64

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]"""
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
        """The weights for a number of rows; kept until they change."""
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


def at_least_single(x: Tensor) -> Tensor:
    """What autocast has computed in half precision, in single precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """One hidden layer."""
    return nn.Sequential(PackedLinear(inputs, hidden), nn.GELU(), PackedLinear(hidden, outputs))


class Support(nn.Module):
    """Numbers as distributions over equally spaced bins."""

    bins: Tensor

    def __init__(self, low: float, high: float, count: int) -> None:
        super().__init__()
        self.register_buffer("bins", torch.linspace(low, high, count), persistent=False)

    def expectation(self, logits: Tensor) -> Tensor:
        """[..., N] -> [...]"""
        return logits.float().softmax(-1) @ self.bins

    def two_hot(self, numbers: Tensor) -> Tensor:
        """[...] -> [..., N]: all weight on the two bins around each number; beyond the ends, on the last bin."""
        low, high, count = self.bins[0], self.bins[-1], len(self.bins)
        place = (numbers.clamp(low, high) - low) / (high - low) * (count - 1)
        lower = place.floor().clamp(max=count - 2)
        weight = (place - lower).unsqueeze(-1)
        index = lower.long().unsqueeze(-1)
        out = torch.zeros(*numbers.shape, count, device=numbers.device)
        return out.scatter(-1, index, 1 - weight).scatter(-1, index + 1, weight)


def rest_dim(spec: GameSpec, config: ModelConfig) -> int:
    """Of the part of a slots latent that is no player's: cards that all share, each as a slot, and the global part."""
    return len(spec.shared_cards) * config.slot_dim + config.global_dim


def player_dim(spec: GameSpec, config: ModelConfig) -> int:
    """Of the vectors of players in a slots latent: 0 if nothing is read of them but their slots."""
    return config.player_dim if any(g.per_player and not g.slots for g in groups_read(spec, config)) else 0


def touched_places(spec: GameSpec) -> tuple[Tensor, Tensor, Tensor]:
    """Per action, [A, K]: places in a latent that it touches, their roles, and whether the entry counts.

    Entries that do not count name places that the action does not touch, so that writing them back changes nothing.
    """
    place_of = np.argsort(block_order(spec))
    places, roles = spec.action_slots.copy(), spec.action_roles.clip(min=0)
    for row in places:
        used = [int(place_of[slot]) for slot in row if slot >= 0]
        spare = [place for place in range(spec.num_slots) if place not in used]
        row[:] = used + spare[: len(row) - len(used)]
    return torch.from_numpy(places), torch.from_numpy(roles), torch.from_numpy(spec.action_slots >= 0)


def touched_blocks(spec: GameSpec) -> list[list[int]]:
    """Per action, the blocks of a latent that it touches, all players' numbered through."""
    touched, _, present = touched_places(spec)
    size = spec.blocks.shape[1]
    return [sorted(set((row[there] // size).tolist())) for row, there in zip(touched, present, strict=True)]


def _rows_of(x: Tensor, index: Tensor) -> Tensor:
    """x [B, N, D], index [B, K] -> [B, K, D]"""
    B, N, D = x.shape
    row = torch.arange(B, device=x.device).unsqueeze(1)
    if torch.compiler.is_compiling():  # else it divides for every number that it copies
        return x[row, index]
    return x.reshape(B * N, D).index_select(0, (row * N + index).view(-1)).view(*index.shape, D)  # a quick gradient


class FlatDynamics(nn.Module):
    """The paper's: action embedding, MLP with two hidden layers, residual, LayerNorm; a reward head."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        L, H, self.bins = config.latent_dim, config.hidden, config.value_bins
        self.action = nn.Embedding(spec.num_actions, config.action_dim)
        self.body = nn.Sequential(
            PackedLinear(L + config.action_dim, H), nn.GELU(), PackedLinear(H, H), nn.GELU(), PackedLinear(H, L)
        )
        self.norm = nn.LayerNorm(L)
        self.reward = mlp(L, H, spec.num_players * config.value_bins)

    def first_seats(self, players: int) -> SeatParts:
        """See `Network.first_seats`."""
        logits = torch.arange(players * self.bins)
        return {"reward.2.weight": (0, logits), "reward.2.bias": (0, logits)}

    def forward(self, latent: Tensor, action: Tensor, shift: Tensor, block: Tensor | None) -> tuple[Tensor, Tensor]:
        """latent [B, L], action [B] -> next latent, reward logits [B, P N]; the frame stays."""
        change = self.body(torch.cat([latent, self.action(action)], 1))
        following = self.norm(latent + change)
        return following, self.reward(following)


class SlotDynamics(nn.Module):
    """Updates the slots that an action touches, the shared cards and the global part; then turns the frame to the next
    mover."""

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
        roles = torch.cat([roles, spec.num_roles + torch.arange(C).expand(len(roles), C)], 1)  # every action may
        self.register_buffer("touched", touched, persistent=False)  # (A, K)
        self.register_buffer("roles", roles, persistent=False)  # (A, K + C)
        self.register_buffer("present", present.float().unsqueeze(-1), persistent=False)
        self.register_buffer("kinds", torch.from_numpy(spec.kinds), persistent=False)
        turn, seat, place = torch.arange(P)[:, None], torch.arange(P), torch.arange(self.slots)
        per_player = self.slots // P
        moved = (place // per_player - turn) % P * per_player + place % per_player
        self.register_buffer("seat_from", (seat + turn) % P, persistent=False)  # (P, P) by turn and new seat
        # By action, turn and new place: the old place, or one beyond them all for a slot that was touched.
        source = moved.argsort(1).repeat(len(touched), 1, 1)
        became = moved[:, touched].permute(1, 0, 2)  # (A, P, K) new places of those
        source.scatter_(2, became, (self.slots + torch.arange(touched.shape[1])).expand(became.shape))
        self.register_buffer("source", source, persistent=False)  # (A, P, S)

        self.kind = nn.Embedding(spec.num_kinds, H)
        self.turn = nn.Embedding(P, H)
        self.role = nn.Embedding(spec.num_roles + C, M)
        self.role_factor = nn.Embedding(spec.num_roles + C, M)
        nn.init.ones_(self.role_factor.weight)
        self.moves = nn.Parameter(torch.zeros(spec.num_kinds, spec.num_roles + C, spec.num_roles + C))
        self.stays = nn.Parameter(torch.ones(spec.num_kinds, spec.num_roles + C))
        self.slot_in = nn.Linear(D, M)
        self.pass_on = nn.Linear(C * D, M, bias=False) if C else None
        self.gather = nn.Linear(4 * M, H, bias=False)
        self.compare = nn.Linear(G + C * D, M)
        self.rest_in = nn.Linear(P * V + G + C * D, H)
        self.hidden = nn.Linear(H, H)
        # Change of the rest, what touched slots are told, change of the players' vectors, reward logits.
        self.parts = [G, M, P * V, P * config.value_bins]
        self.consequences = nn.Linear(H, sum(self.parts))
        self.rest_norm = nn.LayerNorm(G)
        self.player_norm = nn.LayerNorm(V) if V else nn.Identity()
        self.slot_out = nn.Linear(M, D)
        self.slot_norm = nn.LayerNorm(D)

    def first_seats(self, players: int) -> SeatParts:
        """See `Network.first_seats`."""
        P, (rest, told, boards, logits) = len(self.seat_from), self.parts
        kept = [
            torch.arange(rest + told),
            rest + told + torch.arange(boards // P * players),
            rest + told + boards + torch.arange(logits // P * players),
        ]
        outputs = torch.cat(kept)
        inputs = torch.cat([kept[1] - rest - told, torch.arange(boards, self.rest_in.in_features)])
        return {
            "turn.weight": (0, torch.arange(players)),
            "rest_in.weight": (1, inputs),
            "consequences.weight": (0, outputs),
            "consequences.bias": (0, outputs),
        }

    def forward(self, latent: Tensor, action: Tensor, shift: Tensor, block: Tensor | None) -> tuple[Tensor, Tensor]:
        """latent [B, L], action, shift [B], block [B, M] that the action touches -> next latent in the next mover's
        frame, reward logits [B, P N]."""
        assert block is not None
        B, S, D, P, V = len(latent), self.slots, self.slot_dim, len(self.seat_from), self.player_dim
        slots, players, rest = torch.split(latent, [S * D, P * V, latent.shape[1] - S * D - P * V], 1)
        touched, present = self.touched[action], self.present[action]  # (B, K), (B, K, 1)
        shared, whole = torch.split(rest, [self.shared * D, rest.shape[1] - self.shared * D], 1)
        slots = slots.view(B, S, D)
        old = _rows_of(slots, touched)
        old = torch.cat([old, shared.reshape(B, self.shared, D)], 1)
        present = F.pad(present, (0, 0, 0, self.shared), value=1.0)
        seen = self.slot_in(old) + self.role(self.roles)[action]
        there = seen * self.role_factor(self.roles)[action] * present
        sums = [add_up(F.relu(there), 1), add_up(there, 1) * self.compare(rest), pairs(there, 1)]
        summary = torch.cat([*sums, block], 1)
        beyond = self.rest_in(latent[:, S * D :])
        hidden = F.gelu(beyond + self.gather(summary) + self.kind(self.kinds[action]) + self.turn(shift))
        hidden = F.gelu(self.hidden(hidden))
        rest_change, spread, players_change, reward = self.consequences(hidden).split(self.parts, 1)
        spread = spread if self.pass_on is None else spread + self.pass_on(shared)
        new = self.slot_norm(self._moved(old * present, action) + self.slot_out(F.relu(seen + spread.unsqueeze(1))))
        new = torch.where(present > 0, new, old)
        new, shared = torch.split(new, [touched.shape[1], self.shared], 1)
        rest = torch.cat([shared.flatten(1), self.rest_norm(whole + rest_change)], 1)
        players = _rows_of(self.player_norm((players + players_change).view(B, P, V)), self.seat_from[shift])
        slots = _rows_of(torch.cat([slots, new.to(slots.dtype)], 1), self.source[action, shift])
        return torch.cat([slots.flatten(1), players.flatten(1), rest], 1), reward

    def _moved(self, old: Tensor, action: Tensor) -> Tensor:
        """What lies in the touched slots and the shared ones, [B, K + C, D], once cards have moved between them.

        How much of each stays and goes where depends on the kind of action and on the roles of the two.
        """
        kinds, roles = self.kinds[:, None], self.roles
        stays = torch.diag_embed(self.stays[kinds, roles])
        moves = self.moves[kinds.unsqueeze(2), roles.unsqueeze(2), roles.unsqueeze(1)]  # (A, K + C, K + C)
        return torch.bmm((stays + moves)[action], old)


class EgoConditioning(nn.Module):
    """LayerNorm(h + e_ego + e_current + e_players); without ego conditioning, LayerNorm(h)."""

    def __init__(self, width: int, ego: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ablation = "none"
        self.on = ego
        if ego:
            self.ego = nn.Embedding(MAX_PLAYERS, width)
            self.current = nn.Embedding(MAX_PLAYERS, width)
            self.players = nn.Embedding(MAX_PLAYERS + 1, width)
            for table in (self.ego, self.current, self.players):
                nn.init.normal_(table.weight, std=0.1)

    def forward(self, h: Tensor, ego: Tensor, current: Tensor, players: int) -> Tensor:
        """h [B, X], ego [B, E] or [1, E], current [B] or [1] -> [B, E, X]; seats are of the frame."""
        h = h.unsqueeze(1)
        if not self.on:
            return self.norm(h)  # type: ignore[no-any-return]
        if self.ablation == "zero_all":
            return self.norm(h.expand(-1, ego.shape[1], -1))  # type: ignore[no-any-return]
        if self.ablation == "wrong_ego":
            ego = (ego + 1) % players
        h = h + self.current(current).unsqueeze(1) + self.players.weight[players]
        h = h.expand(-1, ego.shape[1], -1) if self.ablation == "no_ego" else h + self.ego(ego)
        return self.norm(h)  # type: ignore[no-any-return]


class Boards(NamedTuple):
    """What a slots latent says of players and their slots.

    Attributes:
      slots: [B, S, D].
      blocks: [B, P, blocks, M].
      players: [B, P, V].
    """

    slots: Tensor
    blocks: Tensor
    players: Tensor


class FlatTrunk(nn.Module):
    """Feeds the flat latent to the heads. The heads themselves are MLPs, as in the paper."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dim = config.latent_dim

    def touched(self, latent: Tensor, action: Tensor) -> None:
        """No block."""

    def split(self, latent: Tensor) -> tuple[None, Tensor]:
        """-> (no boards, the part that is conditioned)"""
        return None, latent

    def forward(self, boards: Boards | None, conditioned: Tensor, egos: Tensor) -> Tensor:
        """conditioned [B, E, L] -> features [B, E, L]"""
        return conditioned


class FlatPolicy(nn.Module):
    """A logit per action from the features."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        self.head = mlp(config.latent_dim, config.hidden, spec.num_actions)

    def forward(self, boards: Boards | None, features: Tensor) -> Tensor:
        """features [B, L] -> [B, A]"""
        return self.head(features)  # type: ignore[no-any-return]


class SlotTrunk(nn.Module):
    """Pools slots into blocks and boards, and joins the players' vectors and the global part.

    A block sees sums, so that symmetries do not matter: of its slots, of the products of pairs of them, and of their
    products with each shared card. Products tell equal cards from different ones. Where blocks are single slots and no
    cards are shared, boards see the products of pairs of their slots: cards that fit on piles. What boards are like is
    computed here, from the slots, and nowhere else in a latent: it stays true whatever an action has changed.

    Where slots are their owners' alone, an ego is shown its own board first. A root knows one hand, the mover's, which
    the positions imagined from it have in other seats: what it is worth need not be learned for each of them.
    """

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        D, H, M = config.slot_dim, config.hidden, config.slot_hidden
        self.slots, self.shared, self.slot_dim, self.dim = spec.num_slots, len(spec.shared_cards), D, H
        self.shape = (spec.num_players, *spec.blocks.shape)
        self.turns = config.ego and spec.private
        self.slot = nn.Linear(D, M)
        self.block = nn.Linear((2 + self.shared) * M, M)
        V = player_dim(spec, config)
        self.players_dim = spec.num_players * V
        self.pairs = self.shape[2] == 1 and not self.shared
        if self.pairs:  # there are many; small at first, or they drown everything else
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

    def split(self, latent: Tensor) -> tuple[Boards, Tensor]:
        """-> (boards, the part that is conditioned [B, C D + G])"""
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
        """-> slots [B, S, D], players' vectors [B, P V], shared cards [B, C, D], rest [B, C D + G]"""
        B, D = len(latent), self.slot_dim
        sizes = [self.slots * D, self.players_dim]
        slots, players, rest = torch.split(latent, [*sizes, latent.shape[1] - sum(sizes)], 1)
        shared = rest[:, : self.shared * D].reshape(B, self.shared, D)
        return slots.view(B, self.slots, D), players, shared, rest

    def forward(self, boards: Boards | None, conditioned: Tensor, egos: Tensor) -> Tensor:
        """conditioned [B, E, C D + G], egos [B, E] or [1, E] seats of the frame -> features [B, E, H]"""
        assert boards is not None
        parts = [add_up(boards.blocks, 2), boards.players]
        if self.pairs:
            seen = self.slot(boards.slots).unflatten(1, self.shape[:2])
            parts.insert(0, pairs(at_least_single(seen), 2) * self.pair_scale)
        pooled = torch.cat(parts, 2)  # (B, P, M + V), or 2 M + V
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
        seen = at_least_single(self.slot(slots))  # differences of squares: half precision would leave nothing
        total = add_up(seen, 3)
        products = 0.5 * (total * total - add_up(seen * seen, 3))  # of pairs
        parts = [add_up(F.relu(seen), 3), products]
        if self.shared:
            parts += [total * card[:, None, None] for card in self.slot(shared).unbind(1)]
        return F.relu(self.block(torch.cat(parts, -1)))


class SlotPolicy(nn.Module):
    """A logit per kind of action, plus what each slot that the action touches says in its role: of itself, compared
    with the rest by products, and of its block. Where actions touch several blocks, such as the place that a card
    leaves and the one it goes to, also what pairs of them say: their products in their roles."""

    said_by: Tensor
    of_kind: Tensor
    known: Tensor
    together: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        H, M, R = config.hidden, config.slot_hidden, spec.num_roles
        touched, roles, present = touched_places(spec)
        self.scored = int(touched[present].max()) + 1 if present.any() else 0  # places that some action touches
        action, k = present.nonzero().T
        said_by = torch.zeros(self.scored * R, spec.num_actions)  # 1 where a place in a role speaks of an action
        said_by[touched[action, k] * R + roles[action, k], action] = 1.0
        of_kind = F.one_hot(torch.from_numpy(spec.kinds), spec.num_kinds).T.float()
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
            known, which = torch.unique((touched * R + roles)[present], return_inverse=True)  # places in roles
            n = len(known)
            together = torch.zeros(
                n, n, spec.num_actions
            )  # 1 where an action touches both, the first one's number less
            for one, other in torch.combinations(torch.arange(len(action))).tolist():
                if action[one] == action[other]:
                    together[min(which[one], which[other]), max(which[one], which[other]), action[one]] = 1.0
            self.register_buffer("known", known, persistent=False)
            self.register_buffer("together", together.flatten(0, 1), persistent=False)
            self.in_role = nn.Linear(config.slot_dim, R * _PAIR_DIM)
            self.of_pairs = nn.Linear(_PAIR_DIM, 1, bias=False)
            nn.init.zeros_(self.of_pairs.weight)  # dozens of pairs: else some policies are as good as certain at first

    def forward(self, boards: Boards | None, features: Tensor) -> Tensor:
        """features [B, H] -> [B, A]"""
        assert boards is not None
        factor, context = self.context(features).unsqueeze(1).chunk(2, -1)
        blocks = boards.blocks.flatten(1, 2)[:, : -(-self.scored // self.size)]
        around = self.block(blocks).unsqueeze(2).expand(-1, -1, self.size, -1).flatten(1, 2)[:, : self.scored]
        seen = self.slot(boards.slots[:, : self.scored])
        hidden = F.relu(seen + seen * factor + around + context)
        logits: Tensor = self.kind(features) @ self.of_kind + self.score(hidden).flatten(1) @ self.said_by
        if self.compares:  # every two places in roles, once, whichever actions touch them
            in_role = self.in_role(boards.slots[:, : self.scored]).view(len(features), -1, _PAIR_DIM)
            there = in_role.index_select(1, self.known)
            alike = torch.bmm(there * self.of_pairs.weight, there.transpose(1, 2))  # (B, n, n)
            logits = logits + alike.flatten(1) @ self.together
        return logits


class SlotDecoder(nn.Module):
    """Reads the fields of each slot's token back from its vector, so that the dynamics learn what is to be seen; and
    from blocks, how many of their cards equal each shared card."""

    columns: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        # Of the first slot group's fields: those that do not just name the slot, or its player as seen by the mover.
        groups = [g for g in spec.groups if g.slots]
        same = all(g.vocabulary == groups[0].vocabulary and g.place == groups[0].place for g in groups)
        assert same, [g.name for g in groups]
        fields = [f for f in range(len(groups[0].fields)) if not (groups[0].place[f] or groups[0].seat[f])]
        self.vocabulary = [groups[0].vocabulary[f] for f in fields]
        rows = [[g.offset + t * len(g.vocabulary) + f for f in fields] for g in groups for t in range(g.count)]
        columns = torch.tensor(rows)[torch.from_numpy(block_order(spec))]
        self.register_buffer("columns", columns, persistent=False)  # (S, fields) of an observation row
        self.head = nn.Linear(config.slot_dim, sum(self.vocabulary))
        self.equal = EqualCards(spec) if spec.shared_cards else None
        if self.equal is not None:
            self.matches = nn.Linear(config.slot_hidden, self.equal.width)

    def forward(self, boards: Boards, obs: Tensor) -> Tensor:
        """boards, obs [B, W] in the same frame -> cross entropy [B]"""
        logits = self.head(boards.slots).float().split(self.vocabulary, -1)
        seen = obs[:, self.columns].long()  # (B, S, fields)
        losses = [
            F.cross_entropy(field.flatten(0, 1), seen[..., f].flatten(), reduction="none").view(seen.shape[:2])
            for f, field in enumerate(logits)
        ]
        total = torch.stack(losses).sum(0).mean(1)
        if self.equal is not None:
            said, counts = self.matches(boards.blocks).float(), self.equal.with_shared(obs)
            total = total + F.binary_cross_entropy_with_logits(said, counts, reduction="none").sum(3).mean((1, 2))
        return total
