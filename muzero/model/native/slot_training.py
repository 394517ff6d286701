"""Forward and backward passes of a slots network in C++, for the learner on a CPU.

Torch needs some six thousand small operations for a step of the learner. Here encoder, dynamics and heads are one
operation each (an autograd function), computed a few dozen rows at a time with everything in the cache.
`muzero.model.slots` and `muzero.model.encoders` remain the definition of the network: this module hands their
parameters to C++ as one array per part, through operations of torch, so that gradients find their way back by
themselves. Only `muzero.training.backend` and `muzero.search.judge` use this module.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.config.fields import require
from muzero.model.head_losses import HeadLosses, HeadTargets
from muzero.model.interface import UNROLL_GRADIENT, BaseNetwork, Prediction
from muzero.model.native import _native
from muzero.model.native.slot_encoder import encoder_indices, encoder_tensors, of_layers
from muzero.model.native.slot_packing import Packing
from muzero.model.native.slot_passes import (
    ALIGN,
    Compare,
    CompareVisible,
    Encode,
    Part,
    Predict,
    Step,
    Unroll,
    padded,
    take_over,
)
from muzero.model.native.slot_step import SlotStep
from muzero.model.network import Network
from muzero.model.slots import Boards, SlotDynamics, SlotPolicy, SlotTrunk


class SlotTraining:
    """Network whose `represent`, `step` and `predict` run in C++, forward and backward.

    It has the attributes of the network that it was made from. Call `refresh` after every change of the parameters.

    Args:
      network: network to train, on the CPU; see `unsupported_reason`.
      threads: largest number of threads.
      kernel: name of the kernel, one of `_native.train_kernels()`; by default the fastest.
    """

    def __init__(self, network: BaseNetwork, threads: int = 1, kernel: str = "") -> None:
        reason = self.unsupported_reason(network)
        require(reason is None, "network", reason or "", network.config.latent)
        self.network = cast("Network", network)
        step = SlotStep(network)
        sizes, indices = encoder_indices(self.network)
        sizes |= step.sizes() | {"heads.numbers": padded(sum(self.head_sizes()))}
        self.native = _native.SlotTrainer(
            kernel or _native.train_kernels()[0], sizes, indices | step.indices(), threads
        )
        layouts = self.native.encoder_layout(), self.native.dynamics_layout(), self.native.heads_layout()
        self._packing = Packing(self.network, layouts, self._tensors, self._computed)
        self._spare: dict[int, list[Tensor]] = {}
        self._blocks: dict[int, Tensor] = {}  # blocks of latents, by their address
        self._again = 0, 0, 0, 0  # addresses of the last unrolled latents, some and all, positions, windows of some
        self._parts: list[tuple[Part, Tensor]] = []  # encoder, dynamics, heads, each with its token

    @staticmethod
    def unsupported_reason(network: BaseNetwork) -> str | None:
        """Reason why the network cannot be trained in C++, as "expected ..., got ...", or None if it can."""
        reason = SlotStep.unsupported_reason(network)
        if reason:
            return reason
        if network.learned_codes:
            return "expected model.chance=none or game, got learned"
        if network.config.encoder != "columns":
            return f"expected model.encoder=columns, got {network.config.encoder}"
        if network.config.width % ALIGN:
            return f"expected a multiple of {ALIGN} for model.width, got {network.config.width}"
        if not SlotStep.encoder_supported(cast("Network", network)):
            return "expected slots that are all read the same way, got others"
        if next(network.parameters()).dtype != torch.float32:
            return "expected parameters in single precision"
        return None

    def use_threads(self, threads: int) -> None:
        """Set the number of threads to use from now on, at most as many as at first; it changes no result."""
        self.native.threads = threads

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def refresh(self) -> None:
        """Hand the present parameters to C++; gradients of all that is computed from now on flow to them."""
        self._blocks.clear()
        self._parts = take_over(self, self._packing)

    def _part(self, which: int) -> tuple[Part, Tensor]:
        if not self._parts:
            self.refresh()
        return self._parts[which]

    def represent(self, obs: Tensor) -> Tensor:
        """See `BaseNetwork.represent`."""
        part, token = self._part(0)
        seen = obs.to(torch.int16).contiguous()
        return cast("Tensor", Encode.apply(token, part, seen))  # type: ignore[no-untyped-call]

    def step(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor) -> Tensor:
        """See `BaseNetwork.step`."""
        part, token = self._part(1)
        told = outcome if self.network.num_outcomes > 1 else torch.zeros_like(outcome)
        rows = (column.contiguous() for column in (action, shift, told))
        given = (token, latent.contiguous(), part, *rows)
        return cast("Tensor", Step.apply(*given))  # type: ignore[no-untyped-call]

    def unroll(
        self, obs: Tensor, actions: Tensor, shifts: Tensor, outcomes: Tensor, few: int, at: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `BaseNetwork.unroll`."""
        (encoder, encoder_token), (dynamics, dynamics_token) = self._part(0), self._part(1)
        told = outcomes if self.network.num_outcomes > 1 else torch.zeros_like(outcomes)
        windows = obs.to(torch.int16), actions, shifts, told, at
        given = encoder_token, dynamics_token, (encoder, dynamics), UNROLL_GRADIENT, few, *windows
        latents, some, picked = Unroll.apply(*given)  # type: ignore[no-untyped-call]
        self._again = some.data_ptr(), latents.data_ptr(), actions.shape[1] + 1, few
        return latents, some, picked

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        """See `BaseNetwork.predict`; the frame of a slots latent is the mover's, so `to_play` changes nothing."""
        network, rows = self.network, len(latent)
        P, N = network.num_players, network.config.value_bins
        policy, numbers, outcome, cards = self._run_heads(latent)
        sizes = self.head_sizes()
        heads = list(torch.split(numbers, [*sizes, numbers.shape[2] - sum(sizes)], 2))
        value, reward = (head.reshape(rows, P, N) for head in (heads.pop(0), heads.pop(0)))
        points = heads.pop(0).reshape(rows, P, N) if network.points is not None else None
        winner = rank = None
        if network.winner is not None:
            winner, rank = heads[0], heads[1].reshape(rows, -1, P, P)
        outcomes = outcome[:, : network.num_outcomes] if network.num_outcomes > 1 else None
        return Prediction(policy, value, winner, rank, reward, outcomes, points, cards)

    def compare(self, latent: Tensor, to_play: Tensor, targets: HeadTargets) -> HeadLosses:
        """See `BaseNetwork.compare`; computes losses and gradients of all heads at once."""
        *predicted, cards = self._run_heads(latent)
        losses, value = Compare.apply(*predicted, self, targets)  # type: ignore[no-untyped-call]
        return HeadLosses(losses, value, cards)

    def _run_heads(self, latent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Outputs of `Predict` for latents: policy, numbers, outcomes; and the logits of hidden cards."""
        network, (part, token) = self.network, self._part(2)
        latent = latent.contiguous()
        policy, numbers, outcome, blocks, own = Predict.apply(token, latent, part)  # type: ignore[no-untyped-call]
        self._blocks[latent.data_ptr()] = blocks
        if network.cards is None:
            return policy, numbers, outcome, None
        boards = Boards(self._slots(latent), blocks, latent)
        return policy, numbers, outcome, cast("Tensor", network.cards(boards, own))

    @cached_property
    def losses(self) -> _native.LossPart:
        """Sizes of the heads' outputs, for the losses in C++."""
        network, sizes = self.network, self.head_sizes()
        outcomes = network.num_outcomes
        counts = {
            "actions": network.spec.num_actions,
            "players": network.num_players,
            "egos": network.num_players if network.config.ego else 1,
            "bins": network.config.value_bins,
            "numbers": padded(sum(sizes)),
            "outcomes": outcomes,
            "outcome_columns": padded(outcomes) if outcomes > 1 else 0,
            "points": int(network.points is not None),
            "ranks": int(network.winner is not None),
        }
        values, points = (
            (float(support.bins[0]), float(support.bins[-1])) for support in (network.support, network.points_support)
        )
        return _native.LossPart(counts, values, points)

    def values_of_observation(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """See `BaseNetwork.values_of_observation`."""
        latent = self.represent(obs)
        value = self.predict(latent, torch.zeros(len(obs), dtype=torch.int64)).value
        return latent, self.network.support.expectation(value)

    def reconstruction_loss(self, latent: Tensor, obs: Tensor) -> Tensor:
        """See `BaseNetwork.reconstruction_loss`; uses blocks of the prediction for the same latents, if there are."""
        blocks = self._blocks_of(latent)
        if blocks is None:
            return self.network.reconstruction_loss(latent, obs)
        decoder = self.network.decoder
        assert decoder is not None
        fields, matches = decoder.head(self._slots(latent)), torch.empty(0)
        if decoder.equal is not None:
            matches = decoder.matches(blocks.view(len(latent), -1, decoder.matches.in_features))
        seen = obs.to(torch.int16).contiguous()
        return cast("Tensor", CompareVisible.apply(fields, matches, self, seen))  # type: ignore[no-untyped-call]

    def _blocks_of(self, latent: Tensor) -> Tensor | None:
        """Blocks that the heads have computed for the windows that `unroll` has returned a second time."""
        some, latents, positions, few = self._again
        blocks = self._blocks.get(latents)
        if latent.data_ptr() != some or blocks is None or len(latent) != positions * few:
            return None
        return blocks.view(positions, -1, blocks.shape[1])[:, :few].reshape(len(latent), -1)

    def _slots(self, latent: Tensor) -> Tensor:
        S, D = self.network.spec.num_slots, self.network.config.slot_dim
        return latent[:, : S * D].view(len(latent), S, D)

    def head_sizes(self) -> list[int]:
        """Outputs for an ego of the heads that every ego has: value, reward, points, winner, rank."""
        return [head.out_features for head in self._number_heads(self.network)]

    @cached_property
    def visible(self) -> _native.Visible:
        """Columns of observations that the decoder predicts, for its losses in C++."""
        decoder, spec = self.network.decoder, self.network.spec
        assert decoder is not None
        cards, shared = np.zeros((0, 0), np.int32), np.zeros(0, np.int32)
        if decoder.equal is not None:
            cards = decoder.equal.slots.flatten(0, 1).numpy().astype(np.int32)
            shared = decoder.equal.shared.numpy().astype(np.int32)
        columns = np.ascontiguousarray(decoder.columns.numpy(), np.int32)
        return _native.Visible(spec.width, np.array(decoder.vocabulary, np.int32), columns, cards, shared)

    # ---- parameters as one array per part ----------------------------------------------------------------

    def _tensors(self, network: Network) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Parameters of encoder, dynamics and heads, under the names that they have in C++."""
        encoder, dynamics, heads = self._computed(network)
        encoder |= encoder_tensors(network)
        return encoder, dynamics | self._dynamics_tensors(network), heads | self._heads_tensors(network)

    def _computed(self, network: Network) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """The part of `_tensors` that torch computes from parameters."""
        dynamics = network.dynamics
        assert isinstance(dynamics, SlotDynamics)
        tensors = {
            "role": dynamics.role(dynamics.roles).flatten(0, 1),
            "role_factor": dynamics.role_factor(dynamics.roles).flatten(0, 1),
            "moved": dynamics.shares_moved().flatten(0, 1),
        }
        if dynamics.outcome is not None:
            told = dynamics.outcome.weight
            tensors["outcome"] = torch.cat([told[:1].detach(), told[1:]])  # code 0 learns nothing
        return {}, tensors, {"ego": self._egos(network)}

    def _dynamics_tensors(self, network: Network) -> dict[str, Tensor]:
        dynamics, trunk = network.dynamics, network.trunk
        assert isinstance(dynamics, SlotDynamics)
        assert isinstance(trunk, SlotTrunk)
        names = ["slot_in", "compare", "rest_in", "gather", "hidden", "consequences", "slot_out"]
        names += ["slot_norm", "rest_norm"]
        names += ["pass_on"] if dynamics.pass_on is not None else []
        names += ["player_norm"] if dynamics.player_dim else []
        layers = {name: getattr(dynamics, name) for name in names}
        layers |= {"trunk.slot": trunk.slot, "trunk.block": trunk.block}
        return of_layers(layers) | {"kind": dynamics.kind.weight, "turn": dynamics.turn.weight}

    def _heads_tensors(self, network: Network) -> dict[str, Tensor]:
        trunk, policy = network.trunk, network.policy
        assert isinstance(trunk, SlotTrunk)
        assert isinstance(policy, SlotPolicy)
        layers = {
            "slot": trunk.slot,
            "block": trunk.block,
            "mix": trunk.mix,
            "policy_slot": policy.slot,
            "policy_block": policy.block,
            "score": policy.score,
            "condition": network.condition.norm,
        }
        if network.outcome is not None:
            layers["outcome"] = network.outcome
        if policy.compares:
            layers["in_role"] = policy.in_role
        heads = self._number_heads(network)
        spare = padded(network.spec.num_kinds) - network.spec.num_kinds
        context = policy.context.weight
        return of_layers(layers) | {
            "boards.weight": trunk.boards.weight.t(),
            "boards.bias": trunk.rest.bias,  # the outputs of the two layers are added
            "rest.weight": trunk.rest.weight.t(),
            "numbers.weight": torch.cat([head.weight for head in heads]).t(),
            "numbers.bias": torch.cat([head.bias for head in heads]),
            "kind_and_context.weight": torch.cat([F.pad(policy.kind.weight, (0, 0, 0, spare)), context]).t(),
            "kind_and_context.bias": F.pad(policy.kind.bias, (0, spare + len(context))),
            **({"pair_scale": trunk.pair_scale} if trunk.pairs else {}),
            **({"of_pairs": policy.of_pairs.weight} if policy.compares else {}),
        }

    def _number_heads(self, network: Network) -> list[nn.Linear]:
        """Heads that every ego has: value, reward, points, winner, rank."""
        heads = (network.value, network.reward, network.points, network.winner, network.rank)
        return [cast("nn.Linear", head) for head in heads if head is not None]

    @staticmethod
    def _egos(network: Network) -> Tensor:
        """Sum of the embeddings that the conditioning adds for each ego, [egos, C D + G]."""
        condition, P = network.condition, network.num_players
        if not condition.on:
            return torch.zeros(1, *condition.norm.normalized_shape)
        return condition.ego.weight[:P] + condition.current.weight[0] + condition.players.weight[P]

    # ---- memory for saved results, used again and again ----------------------------------------------------

    def take(self, size: int) -> Tensor:
        """Take an array of floats; `give` it back when nothing reads it any more."""
        spare = self._spare.get(size)
        return spare.pop() if spare else torch.empty(size)

    def give(self, array: Tensor) -> None:
        """Give back an array of `take`."""
        self._spare.setdefault(len(array), []).append(array)


class SlotValues(SlotTraining):
    """Heads of a slots network that say numbers about positions: values, points to come, winner.

    The other heads are not computed. For callers that judge many positions and choose no action there, by way of
    `muzero.search.judge`: luck adjustment, luck in self-play, and exhaustive searches of a turn.

    Args:
      network: slots network, on the CPU; see `unsupported_reason`. Later changes of its weights are not noticed before
        the next `refresh`.
    """

    def __init__(self, network: BaseNetwork) -> None:
        super().__init__(network)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """See `SlotTraining.refresh`; no gradients go back."""
        super().refresh()

    def _number_heads(self, network: Network) -> list[nn.Linear]:
        """Heads that are computed: value, points, winner."""
        heads = (network.value, network.points, network.winner)
        return [cast("nn.Linear", head) for head in heads if head is not None]

    @torch.inference_mode()
    def judge(self, obs: NDArray[np.int16]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Judge positions as `BaseNetwork.predict` does.

        Args:
          obs: [B, W] observations of the players to move.

        Returns:
          Logits of the values [B, P, N], of the points to come [B, P, N] and of the winner [B, E, P], as `Prediction`
          explains them; None where the network has no such head.
        """
        network, rows = self.network, len(obs)
        P, N, egos = network.num_players, network.config.value_bins, network.num_players if network.config.ego else 1
        latent = np.empty((rows, network.latent_dim), np.float32)
        self.native.encoder_forward(self._part(0)[0].weights, np.ascontiguousarray(obs), None, latent)
        saved = self.take(-(-rows // _native.CHUNK) * self.native.heads_saved())
        sizes = self.head_sizes()
        numbers = torch.empty(rows, egos * padded(sum(sizes)))
        given = (None, numbers.numpy(), None, None, None)  # neither policy nor outcomes, blocks, features
        self.native.heads_forward(self._part(2)[0].weights, latent, saved.numpy(), *given)
        self.give(saved)
        each = numbers.view(rows, egos, -1)
        heads = list(torch.split(each, [*sizes, each.shape[2] - sum(sizes)], 2))
        value = heads.pop(0).reshape(rows, P, N)
        points = heads.pop(0).reshape(rows, P, N) if network.points is not None else None
        return value, points, heads[0] if network.winner is not None else None
