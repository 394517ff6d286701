"""The recurrent step of a slots network in C++, for searches on a CPU.

What torch does in some eighty operations, each over all rows, slot_kernel.h does for a few dozen rows at a time with
everything in the cache. `muzero.model.latents` stays the definition of the network: this only lays its weights out.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from mcts import Requests
from muzero.config import require
from muzero.model.native import _native
from muzero.model.network import Network
from muzero.model.slots import SlotDynamics, SlotPolicy, SlotTrunk

BF16 = "bf16"  # the kernel for bfloat16
_ALIGN = 16  # numbers that a part of a latent or a layer must be a multiple of
_NEVER = -1e9  # logit of a bin that only fills up a vector


def unsupported_reason(network: Network, bf16: bool = False) -> str | None:
    """What of a network the native step cannot do, as "expected ..., got ...", or None."""
    config = network.config
    if config.latent != "slots":
        return f"expected model.latent=slots, got {config.latent}"
    for name in ("slot_dim", "player_dim", "global_dim", "slot_hidden", "hidden"):
        if getattr(config, name) % _ALIGN:
            return f"expected a multiple of {_ALIGN} for model.{name}, got {getattr(config, name)}"
    if not network.spec.num_slots:
        return f"expected a game with slots, got {network.spec.game}"
    device = next(network.parameters()).device.type
    if device != "cpu":
        return f"expected a network on the CPU, got {device}"
    if bf16 and BF16 not in _native.kernels():
        return "expected search.bf16=false on a CPU that does not multiply in bfloat16, got true"
    return None


class SlotStep:
    """`Network.recurrent` for the rows of a search, by one of the kernels that this CPU can run.

    Args:
      network: a slots network on the CPU; see `unsupported_reason`.
      kernel: one of `_native.kernels()`; by default the first one, the quickest in single precision.
    """

    def __init__(self, network: Network, kernel: str = "") -> None:
        kernel = kernel or _native.kernels()[0]
        reason = unsupported_reason(network, kernel == BF16)
        require(reason is None, "network", reason or "", network.config.latent)
        self.network, self.kernel = network, kernel
        assert isinstance(network.dynamics, SlotDynamics)
        assert isinstance(network.trunk, SlotTrunk)
        assert isinstance(network.policy, SlotPolicy)
        self._parts = network.dynamics, network.trunk, network.policy
        self._native = _native.SlotNetwork(kernel, self._sizes(), self._indices())
        self._taken: list[tuple[nn.Parameter, int]] = []  # parameters and their versions
        self._ablation = ""
        self.refresh()

    def refresh(self) -> None:
        """Takes over weights that have changed since the last time."""
        now, ablation = [(p, p._version) for p in self.network.parameters()], self.network.condition.ablation
        same = all(p is q and n == m for (p, n), (q, m) in zip(now, self._taken, strict=False))
        if same and len(now) == len(self._taken) and ablation == self._ablation:
            return
        with torch.no_grad():
            weights = {name: _floats(tensor) for name, tensor in self._weights().items()}
        self._native.load(weights)
        self._taken, self._ablation = now, ablation

    def advance(
        self,
        latents: NDArray[np.float32],
        asked: Requests,
        first: int,
        games: int,
        backup: str,
        outputs: NDArray[np.float32],
    ) -> None:
        """Computes nodes.

        Args:
          latents: [nodes, B, L]; rows of the new nodes are written.
          asked: N rows.
          first: node that the first `games` rows become; the next ones become the next node, and so on.
          games: searched.
          backup: "maxn" or "ego".
          outputs: [N, A + 2 V], written: policy logits, values, rewards.
        """
        self._native.advance(
            latents, asked.parent, asked.action, asked.shift, asked.to_play, first, games, backup == "ego", outputs
        )

    def _sizes(self) -> dict[str, int]:
        dynamics, trunk, policy = self._parts
        config, spec = self.network.config, self.network.spec
        return {
            "players": spec.num_players,
            "slots": spec.num_slots,
            "slot_dim": config.slot_dim,
            "player_dim": dynamics.player_dim,
            "shared": dynamics.shared,
            "global_dim": config.global_dim,
            "slot_hidden": config.slot_hidden,
            "hidden": config.hidden,
            "bins": _padded(config.value_bins),
            "actions": spec.num_actions,
            "touches": dynamics.touched.shape[1],
            "touched_blocks": trunk.blocks_of.shape[1],
            "blocks": trunk.shape[1],
            "block_size": trunk.shape[2],
            "kinds": _padded(spec.num_kinds),
            "roles": spec.num_roles,
            "scored": policy.scored,
            "egos": spec.num_players if config.ego else 1,
            "turns": int(trunk.turns),
            "pairs": int(trunk.pairs),
            "pair_dim": policy.of_pairs.in_features if policy.compares else 0,
        }

    def _indices(self) -> dict[str, NDArray[np.int32]]:
        dynamics, trunk, policy = self._parts
        actions = self.network.spec.num_actions
        said = [policy.said_by[:, a].nonzero().flatten().tolist() for a in range(actions)]
        both: list[list[list[int]]] = [[] for _ in range(actions)]
        if policy.compares:
            count = len(policy.known)
            together = policy.together.view(count, count, actions)
            both = [policy.known[together[:, :, a].nonzero()].tolist() for a in range(actions)]
        return {
            "touched": _integers(dynamics.touched),
            "present": _integers(dynamics.present.squeeze(2)),
            "source": _integers(dynamics.source),
            "blocks_of": _integers(torch.where(trunk.touches.squeeze(2) > 0, trunk.blocks_of, -1)),
            "kind_of": _integers(dynamics.kinds),
            "said": np.array([place for places in said for place in places], np.int32),
            "said_from": np.cumsum([0, *map(len, said)], dtype=np.int32),
            "both": np.array([pair for pairs in both for pair in pairs], np.int32).reshape(-1, 2),
            "both_from": np.cumsum([0, *map(len, both)], dtype=np.int32),
        }

    def _weights(self) -> dict[str, Tensor]:
        dynamics, trunk, policy = self._parts
        network, spec = self.network, self.network.spec
        P, N, fill = spec.num_players, network.config.value_bins, _padded(network.config.value_bins)
        weights: dict[str, Tensor] = {}

        def layer(name: str, weight: Tensor, bias: Tensor | None) -> None:
            weights[name] = weight
            if bias is not None:
                weights[f"{name}_bias"] = bias

        def norm(name: str, module: nn.Module) -> None:
            if isinstance(module, nn.LayerNorm):
                weights[f"{name}_scale"], weights[f"{name}_shift"] = module.weight, module.bias

        def with_bins(rows: Tensor, value: float) -> Tensor:
            """[heads * N, ...] -> [heads * fill, ...]: every head's outputs filled up."""
            split = rows.reshape(-1, N, *rows.shape[1:])
            filled = torch.full((len(split), fill, *split.shape[2:]), value)
            filled[:, :N] = split
            return filled.flatten(0, 1)

        plain = {
            "look": trunk.slot,
            "block": trunk.block,
            "slot_in": dynamics.slot_in,
            "compare": dynamics.compare,
            "hidden": dynamics.hidden,
            "slot_out": dynamics.slot_out,
            "mix": trunk.mix,
            "policy_slot": policy.slot,
            "policy_block": policy.block,
            "score": policy.score,
        }
        if dynamics.pass_on is not None:
            plain["pass_on"] = dynamics.pass_on
        if policy.compares:
            plain["in_role"] = policy.in_role
        for name, module in plain.items():
            layer(name, module.weight, module.bias)
        layer("enter", torch.cat([dynamics.rest_in.weight, dynamics.gather.weight], 1), dynamics.rest_in.bias)
        before = sum(dynamics.parts[:3])
        out = dynamics.consequences
        layer(
            "consequences",
            torch.cat([out.weight[:before], with_bins(out.weight[before:], 0.0)]),
            torch.cat([out.bias[:before], with_bins(out.bias[before:], _NEVER)]),
        )
        layer("boards", trunk.boards.weight, trunk.rest.bias)  # the two are added
        layer("rest", trunk.rest.weight, None)
        value = network.value
        assert isinstance(value, nn.Linear)
        layer("value", with_bins(value.weight, 0.0), with_bins(value.bias, _NEVER))
        spare = _padded(spec.num_kinds) - spec.num_kinds
        layer(
            "speak",
            torch.cat([F.pad(policy.kind.weight, (0, 0, 0, spare)), policy.context.weight]),
            F.pad(policy.kind.bias, (0, spare + len(policy.context.weight))),
        )
        norm("slot_norm", dynamics.slot_norm)
        norm("player_norm", dynamics.player_norm)
        norm("rest_norm", dynamics.rest_norm)
        norm("condition", network.condition.norm)

        roles, kinds = dynamics.roles, dynamics.kinds[:, None]
        counts = F.pad(dynamics.present, (0, 0, 0, dynamics.shared), value=1.0)  # (A, K + C, 1)
        stays = torch.diag_embed(dynamics.stays[kinds, roles])
        moves = dynamics.moves[kinds.unsqueeze(2), roles.unsqueeze(2), roles.unsqueeze(1)]
        weights |= {
            "role": dynamics.role(roles),
            "role_factor": dynamics.role_factor(roles) * counts,
            "moved": (stays + moves) * counts.transpose(1, 2),
            "kind": F.pad(dynamics.kind.weight, (0, 0, 0, spare)),
            "turn": dynamics.turn.weight,
            "ego": self._egos(P),
            "pair_scale": trunk.pair_scale if trunk.pairs else torch.zeros(0),
            "of_pairs": policy.of_pairs.weight if policy.compares else torch.zeros(0),
            "support": F.pad(network.support.bins, (0, fill - N)),
        }
        return weights

    def _egos(self, players: int) -> Tensor:
        """What the conditioning adds for each ego, the mover's seat being the first, [egos, C D + G]."""
        condition = self.network.condition
        seats = torch.arange(players)
        if not condition.on:
            return torch.zeros(1, *condition.norm.normalized_shape)
        if condition.ablation == "zero_all":
            return torch.zeros(players, *condition.norm.normalized_shape)
        seats = (seats + 1) % players if condition.ablation == "wrong_ego" else seats
        egos = condition.ego(seats) * (condition.ablation != "no_ego")
        added: Tensor = egos + condition.current.weight[0] + condition.players.weight[players]
        return added


def _padded(count: int) -> int:
    return -(-count // _ALIGN) * _ALIGN


def _floats(tensor: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().numpy(), np.float32)


def _integers(tensor: Tensor) -> NDArray[np.int32]:
    return np.ascontiguousarray(tensor.numpy().astype(np.int32))
