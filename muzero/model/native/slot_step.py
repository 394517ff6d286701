"""The recurrent step of a slots network in C++, for searches on a CPU.

Torch needs some eighty operations, each over all rows; the C++ kernels compute a few dozen rows at a time with
everything in the cache. `muzero.model.slots` remains the definition of the network: this module hands its weights to
the kernels under the names that they have there. `muzero.search.backend` is the only module that uses this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from mcts import Requests
from muzero.config.fields import require
from muzero.model.encoders import ColumnsEncoder
from muzero.model.flat import FlatDynamics, FlatPolicy, FlatTrunk
from muzero.model.native import _native
from muzero.model.native.slot_encoder import encoder_indices, encoder_tensors
from muzero.model.native.slot_packing import flat
from muzero.model.slots import SlotDynamics, SlotPolicy, SlotTrunk

if TYPE_CHECKING:
    from muzero.model.interface import BaseNetwork
    from muzero.model.network import Network

BF16 = "bf16"  # name of the kernel for bfloat16
_ALIGN = 16  # number that sizes of latents and layers must be multiples of
_NEVER = -1e9  # logit of a padding bin
# Parts of a `muzero.model.network.Network`, by which it is distinguished from other networks.
_PARTS = {
    "dynamics": (SlotDynamics, FlatDynamics),
    "trunk": (SlotTrunk, FlatTrunk),
    "policy": (SlotPolicy, FlatPolicy),
}


class SlotStep:
    """`Network.recurrent` for the rows of a search, by one of the kernels that this CPU can run.

    Args:
      network: slots network to compute, on the CPU; see `unsupported_reason`.
      bf16: whether to multiply in bfloat16.
      kernel: name of the kernel, one of `_native.kernels()`; by default the fastest kernel of the precision.
    """

    def __init__(self, network: BaseNetwork, *, bf16: bool = False, kernel: str = "") -> None:
        kernel = kernel or (BF16 if bf16 else _native.kernels()[0])
        reason = self.unsupported_reason(network, kernel == BF16)
        require(reason is None, "network", reason or "", network.config.latent)
        self.network, self.kernel = cast("Network", network), kernel
        dynamics, trunk, policy = self.network.dynamics, self.network.trunk, self.network.policy
        assert isinstance(dynamics, SlotDynamics)
        assert isinstance(trunk, SlotTrunk)
        assert isinstance(policy, SlotPolicy)
        self._parts = dynamics, trunk, policy
        self._native = _native.SlotNetwork(kernel, self.sizes(), self.indices())
        self._encoder: _native.SlotTrainer | None = None
        if self.encoder_supported(self.network):
            sizes, indices = encoder_indices(self.network)
            self._encoder = _native.SlotTrainer(
                _native.train_kernels()[0], self.sizes() | sizes, self.indices() | indices, 1
            )
        self._encoder_weights: _native.EncoderWeights | None = None
        # Parameters are looked up here before every search, which `network.parameters()` would take longer for.
        self._owned = [module._parameters for module in self.network.modules()]
        self._loaded: list[nn.Parameter] = []  # parameters that were loaded; kept, so that their identities stay theirs
        self._seen: list[tuple[int, int]] = []  # their identities, and their versions when they were loaded
        self._ablation = ""
        self.refresh()

    @staticmethod
    def unsupported_reason(network: BaseNetwork, bf16: bool = False) -> str | None:
        """Reason why the native step cannot run a network, as "expected ..., got ...", or None if it can."""
        if not all(isinstance(getattr(network, part, None), kinds) for part, kinds in _PARTS.items()):
            return f"expected a network with the parts of muzero.model.network.Network, got {type(network).__name__}"
        config = network.config
        if config.network != "muzero":
            return f"expected model.network=muzero, got {config.network}"
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

    def refresh(self) -> None:
        """Load the weights again if they or the ablation have changed since the last call."""
        parameters = [p for owned in self._owned for p in owned.values() if p is not None]
        seen, ablation = [(id(p), p._version) for p in parameters], self.network.condition.ablation
        if seen == self._seen and ablation == self._ablation:
            return
        with torch.no_grad():
            weights = {name: _floats(tensor) for name, tensor in self._weights().items()}
            if self._encoder is not None:
                theta = flat(self._encoder.encoder_layout(), encoder_tensors(self.network))
                self._encoder_weights = self._encoder.pack_encoder(theta.numpy())
        self._native.load(weights)
        self._loaded, self._seen, self._ablation = parameters, seen, ablation

    def advance(
        self,
        latents: NDArray[np.float32],
        requests: Requests,
        first: int,
        games: int,
        backup: str,
        outputs: NDArray[np.float32],
    ) -> None:
        """Compute the latents and outputs of new nodes.

        Args:
          latents: [nodes, B, L] latents of all nodes; the rows of the new nodes are written.
          requests: requests of the search, N rows.
          first: number of the node that the first `games` rows become; the next `games` rows become the next node, ...
          games: number of games searched.
          backup: how values go up the trees, "maxn" or "ego".
          outputs: [N, A + 2 V] or [N, A + O + 2 V] network outputs, which are written: policy logits, outcome logits if
            the network tells outcomes apart, values, rewards.
        """
        columns = requests.parent, requests.action, requests.shift, requests.outcome, requests.to_play
        self._native.advance(latents, *columns, first, games, backup == "ego", outputs)

    @staticmethod
    def encoder_supported(network: Network) -> bool:
        """Whether C++ can compute the encoder of a network."""
        encoder = network.representation
        if type(encoder) is not ColumnsEncoder or network.config.width % _ALIGN:
            return False
        fields = {fields for fields, slots in zip(encoder.embed.fields, encoder.is_slot, strict=True) if slots}
        return len(fields) == 1 and fields != {0}

    def initial(self, obs: NDArray[np.int16], backup: str) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """Evaluate roots as `BaseNetwork.initial` does; None if the encoder is one that C++ cannot compute.

        Args:
          obs: [B, W] observations of the players to move.
          backup: how values go up the trees, "maxn" or "ego".

        Returns:
          Latents [B, L]; outputs [B, A + V], policy logits and values.
        """
        if self._encoder is None or self._encoder_weights is None:
            return None
        spec, rows = self.network.spec, len(obs)
        values = 1 if backup == "ego" else spec.num_players
        outcomes = self.network.num_outcomes if self.network.num_outcomes > 1 else 0
        latents = np.empty((rows, self.network.latent_dim), np.float32)
        outputs = np.empty((rows, spec.num_actions + outcomes + 2 * values), np.float32)
        self._encoder.encoder_forward(self._encoder_weights, np.ascontiguousarray(obs), None, latents)
        self._native.evaluate(latents, np.zeros(rows, np.int64), backup == "ego", outputs)
        numbers = outputs[:, spec.num_actions + outcomes : spec.num_actions + outcomes + values]
        return latents, np.concatenate([outputs[:, : spec.num_actions], numbers], 1)

    def sizes(self) -> dict[str, int]:
        """Sizes of the network, under the names that they have in C++."""
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
            "outcomes": self.network.num_outcomes,
            "scored": policy.scored,
            "egos": spec.num_players if config.ego else 1,
            "turns": int(trunk.turns),
            "pairs": int(trunk.pairs),
            "pair_dim": policy.of_pairs.in_features if policy.compares else 0,
        }

    def indices(self) -> dict[str, NDArray[np.int32]]:
        """Index tables of the network, under the names that they have in C++."""
        dynamics, trunk, policy = self._parts
        actions = self.network.spec.num_actions
        said_by = [policy.said_by[:, a].nonzero().flatten().tolist() for a in range(actions)]
        together: list[list[list[int]]] = [[] for _ in range(actions)]
        if policy.compares:
            count = len(policy.known)
            known_pairs = policy.together.view(count, count, actions)
            together = [policy.known[known_pairs[:, :, a].nonzero()].tolist() for a in range(actions)]
        return {
            "dynamics.touched": _integers(dynamics.touched),
            "dynamics.present": _integers(dynamics.present.squeeze(2)),
            "dynamics.source": _integers(dynamics.source),
            "dynamics.kinds": _integers(dynamics.kinds),
            "trunk.blocks_of": _integers(torch.where(trunk.touches.squeeze(2) > 0, trunk.blocks_of, -1)),
            "policy.said_by": np.array([place for places in said_by for place in places], np.int32),
            "policy.said_by_start": np.cumsum([0, *map(len, said_by)], dtype=np.int32),
            "policy.together": np.array([pair for pairs in together for pair in pairs], np.int32).reshape(-1, 2),
            "policy.together_start": np.cumsum([0, *map(len, together)], dtype=np.int32),
        }

    def _weights(self) -> dict[str, Tensor]:
        dynamics, trunk, policy = self._parts
        network, spec = self.network, self.network.spec
        P, N, fill = spec.num_players, network.config.value_bins, _padded(network.config.value_bins)
        weights: dict[str, Tensor] = {}

        def linear(name: str, weight: Tensor, bias: Tensor | None) -> None:
            weights[f"{name}.weight"] = weight
            if bias is not None:
                weights[f"{name}.bias"] = bias

        def with_bins(rows: Tensor, value: float) -> Tensor:
            """[heads * N, ...] -> [heads * fill, ...]: the outputs of every head, padded with a value."""
            split = rows.reshape(-1, N, *rows.shape[1:])
            filled = torch.full((len(split), fill, *split.shape[2:]), value)
            filled[:, :N] = split
            return filled.flatten(0, 1)

        # Layers that are handed over unchanged, under the names of the torch modules.
        names = {
            "dynamics": ["slot_in", "compare", "hidden", "consequences", "slot_out"],
            "trunk": ["slot", "block", "mix"],
        }
        names["policy"] = ["slot", "block", "score", *(["in_role"] if policy.compares else [])]
        if dynamics.pass_on is not None:
            names["dynamics"].append("pass_on")
        for part, layers in names.items():
            for layer in layers:
                module = getattr(getattr(network, part), layer)
                linear(f"{part}.{layer}", module.weight, module.bias)
        for norm in ("slot_norm", "player_norm", "rest_norm"):
            module = getattr(dynamics, norm)
            if isinstance(module, nn.LayerNorm):
                linear(f"dynamics.{norm}", module.weight, module.bias)
        linear("condition.norm", network.condition.norm.weight, network.condition.norm.bias)

        rest_in, gather = dynamics.rest_in, dynamics.gather
        linear("dynamics.rest_in_and_gather", torch.cat([rest_in.weight, gather.weight], 1), rest_in.bias)
        linear("trunk.boards", trunk.boards.weight, trunk.rest.bias)  # the outputs of the two layers are added
        linear("trunk.rest", trunk.rest.weight, None)
        for name in ("value", "reward"):
            head = getattr(network, name)
            assert isinstance(head, nn.Linear)
            linear(name, with_bins(head.weight, 0.0), with_bins(head.bias, _NEVER))
        if isinstance(network.outcome, nn.Linear):
            linear("outcome", network.outcome.weight, network.outcome.bias)
        spare = _padded(spec.num_kinds) - spec.num_kinds
        linear(
            "policy.kind_and_context",
            torch.cat([F.pad(policy.kind.weight, (0, 0, 0, spare)), policy.context.weight]),
            F.pad(policy.kind.bias, (0, spare + len(policy.context.weight))),
        )

        roles, kinds = dynamics.roles, dynamics.kinds[:, None]
        others = roles.shape[1] - dynamics.present.shape[1]  # entries that every action uses
        counts = F.pad(dynamics.present, (0, 0, 0, others), value=1.0)  # (A, E, 1)
        stays = torch.diag_embed(dynamics.stays[kinds, roles])
        moves = dynamics.moves[kinds.unsqueeze(2), roles.unsqueeze(2), roles.unsqueeze(1)]
        weights |= {
            "dynamics.role": dynamics.role(roles),
            "dynamics.role_factor": dynamics.role_factor(roles) * counts,
            "dynamics.moved": (stays + moves) * counts.transpose(1, 2),
            "dynamics.kind": F.pad(dynamics.kind.weight, (0, 0, 0, spare)),
            "dynamics.turn": dynamics.turn.weight,
            "dynamics.outcome": dynamics.outcome.weight if dynamics.outcome is not None else torch.zeros(0),
            "trunk.pair_scale": trunk.pair_scale if trunk.pairs else torch.zeros(0),
            "policy.of_pairs": policy.of_pairs.weight if policy.compares else torch.zeros(0),
            "condition.ego": self._egos(P),
            "support": F.pad(network.support.bins, (0, fill - N)),
        }
        return weights

    def _egos(self, players: int) -> Tensor:
        """Sum of the embeddings that the conditioning adds for each ego, [egos, C D + G]; the mover comes first."""
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
