"""Passes of a slots network in C++ as functions of torch's autograd: encoder, dynamics and heads.

Each function gets a `Part`: its parameters packed for the computation, and sums to which backward passes add the
gradient of the parameters. `Collect` makes the gradient of these sums once, when all passes have added to them: its
results, the tokens, are arguments of all of them, so that autograd calls it last. Results that a backward pass reads
again are in an array of the `SlotTraining` that calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from muzero.model.head_losses import HEAD_LOSSES, HeadTargets
from muzero.model.native import _native

if TYPE_CHECKING:
    from muzero.model.native.slot_packing import Packing
    from muzero.model.native.slot_training import SlotTraining

ALIGN = 16  # number that inputs and outputs of layers must be multiples of


def _or_none(tensor: Tensor) -> NDArray[np.float32] | None:
    return tensor.numpy() if tensor.numel() else None


def padded(count: int) -> int:
    """Round a number of inputs or outputs up to what C++ can compute."""
    return -(-count // ALIGN) * ALIGN


def _chunks(rows: int) -> int:
    return -(-rows // _native.CHUNK)


class Part:
    """Parameters of encoder, dynamics or heads.

    Args:
      training: passes that the part belongs to.
      size: number of parameters.
      weights: parameters, packed for C++.
    """

    def __init__(self, training: SlotTraining, size: int, weights: Any) -> None:
        self.training, self.weights, self.size = training, weights, size
        self._sums: Tensor | None = None

    def sums(self) -> tuple[NDArray[np.float32], bool]:
        """Sums that a backward pass adds the gradient to, and whether it has to set them instead."""
        fresh = self._sums is None
        if self._sums is None:
            self._sums = self.training.take(_native.GRADIENT_GROUPS * self.size)
        return self._sums.numpy(), fresh

    def write_gradient(self, out: NDArray[np.float32]) -> None:
        """Write the gradient of the parameters: what backward passes have added since the last call."""
        if self._sums is None:
            out[:] = 0
            return
        self.training.native.add_up(self._sums.numpy(), out)
        self.training.give(self._sums)
        self._sums = None


def take_over(training: SlotTraining, packing: Packing) -> list[tuple[Part, Tensor]]:
    """Parts with the present parameters of a network, encoder, dynamics and heads, and their tokens.

    Parts do not know their tokens: tokens know them, and memory in a circle would be freed late.
    """
    inputs, native = packing.inputs(training.network), training.native
    pack = native.pack_encoder, native.pack_dynamics, native.pack_heads
    arrays = zip(packing.sizes, pack, packing.gather(native, inputs), strict=True)
    parts = [Part(training, size, packed(array)) for size, packed, array in arrays]
    return list(zip(parts, Collect.apply(packing, parts, *inputs), strict=True))  # type: ignore[no-untyped-call]


class Collect(torch.autograd.Function):
    """Parameters -> tokens of the parts; backward, the gradient that passes with these tokens have added up."""

    @staticmethod
    def forward(ctx: Any, packing: Packing, parts: Sequence[Part], *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.kept = packing, parts, [tensor.shape for tensor in inputs]
        return tuple(torch.zeros(1) for _ in parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_tokens: Tensor) -> tuple[Tensor | None, ...]:
        packing, parts, shapes = ctx.kept
        native = parts[0].training.native
        return None, None, *packing.scatter(native, lambda part, out: parts[part].write_gradient(out), shapes)


class Encode(torch.autograd.Function):
    """Encoder: token, observations [B, W] -> latents [B, L]."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, part: Part, obs: Tensor) -> Tensor:
        training, weights = part.training, part.weights
        native, latent = training.native, torch.empty(len(obs), training.latent_dim)
        if not ctx.needs_input_grad[0]:
            native.encoder_forward(weights, obs.numpy(), None, latent.numpy())
            return latent
        saved = training.take(_chunks(len(obs)) * native.encoder_saved())
        native.encoder_forward(weights, obs.numpy(), saved.numpy(), latent.numpy())
        ctx.kept = part, obs, saved
        return latent

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_latent: Tensor) -> tuple[Tensor | None, ...]:
        part, obs, saved = ctx.kept
        part.training.native.encoder_backward(
            part.weights, obs.numpy(), saved.numpy(), d_latent.contiguous().numpy(), *part.sums()
        )
        part.training.give(saved)
        return torch.zeros(1), None, None


class Unroll(torch.autograd.Function):
    """Encoder and K steps of the dynamics: tokens of both, first observations [B, W], actions, shifts, outcomes [B, K].

    Returns latents [K + 1, B, L], those of the first `few` windows [K + 1, few, L], and latent `at` [B] of each window
    [B, L]. Backward, a share of the gradient passes through each step of the dynamics.
    """

    @staticmethod
    def forward(
        ctx: Any, encoder: Tensor, dynamics: Tensor, parts: tuple[Part, Part], share: float, few: int, *windows: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        training = parts[0].training
        obs, at = windows[0].contiguous(), windows[4].contiguous()
        columns = [column.t().contiguous() for column in windows[1:4]]
        native, (steps, rows) = training.native, columns[0].shape
        latents, chunks = torch.empty(steps + 1, rows, training.latent_dim), _chunks(rows)
        saved = training.take(chunks * native.encoder_saved()), training.take(steps * chunks * native.dynamics_saved())
        given: tuple[Any, ...] = obs.numpy(), *(column.numpy() for column in columns), *(s.numpy() for s in saved)
        results: tuple[Any, ...] = (latents.numpy(),)
        _native.unroll_forward(native, parts[0].weights, parts[1].weights, *given, *results)
        some, picked = latents[:, :few].contiguous(), latents[at, torch.arange(rows)]
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(latents)
            ctx.set_materialize_grads(False)
            ctx.kept = parts, share, given, saved, at
        else:
            for array in saved:
                training.give(array)
        return latents, some, picked

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (latents,) = ctx.saved_tensors
        (encoder, dynamics), share, given, saved, at = ctx.kept
        training = encoder.training
        d_latents, d_some, d_picked = (None if d is None else d.contiguous().numpy() for d in gradients)
        if d_latents is None:
            d_latents = np.zeros(latents.shape, np.float32)
        of_latents: tuple[Any, ...] = latents.detach().numpy(), d_latents, d_some, d_picked, at.numpy(), share
        sums: tuple[Any, ...] = *encoder.sums(), *dynamics.sums()
        _native.unroll_backward(training.native, encoder.weights, dynamics.weights, *given, *of_latents, *sums)
        for array in saved:
            training.give(array)
        return torch.zeros(1), torch.zeros(1), *[None] * (len(ctx.needs_input_grad) - 2)


class Step(torch.autograd.Function):
    """Dynamics: token, latents [B, L], actions, shifts, outcomes [B] -> next latents [B, L]."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, latent: Tensor, part: Part, *columns: Tensor) -> Tensor:
        training, native = part.training, part.training.native
        saved = training.take(_chunks(len(latent)) * native.dynamics_saved())
        action, shift, outcome = (column.numpy() for column in columns)
        given = action, shift, outcome
        following = torch.empty_like(latent)
        native.dynamics_forward(part.weights, latent.detach().numpy(), *given, saved.numpy(), following.numpy())
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(latent)
            ctx.kept = part, given, saved
        else:
            training.give(saved)
        return following

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_next: Tensor) -> tuple[Tensor | None, ...]:
        (latent,) = ctx.saved_tensors
        part, given, saved = ctx.kept
        d_latent = torch.empty_like(latent)
        part.training.native.dynamics_backward(
            part.weights,
            latent.detach().numpy(),
            *given,
            saved.numpy(),
            d_next.contiguous().numpy(),
            d_latent.numpy(),
            *part.sums(),
        )
        part.training.give(saved)
        return torch.zeros(1), d_latent, *[None] * 4


class Predict(torch.autograd.Function):
    """Heads: token, latents [B, L] -> policy [B, A], numbers [B, E, N], outcomes, blocks and own features.

    Outputs that the network does not have are empty.
    """

    @staticmethod
    def forward(ctx: Any, token: Tensor, latent: Tensor, part: Part) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        training, rows = part.training, len(latent)
        native, network = training.native, training.network
        saved = training.take(_chunks(rows) * native.heads_saved())
        egos = network.num_players if network.config.ego else 1
        numbers = torch.empty(rows, egos * padded(sum(training.head_sizes())))
        policy = torch.empty(rows, network.spec.num_actions)
        outcome = torch.empty(rows, padded(network.num_outcomes) if network.num_outcomes > 1 else 0)
        blocks = torch.empty(rows, network.spec.num_slots // network.spec.blocks.shape[1] * network.config.slot_hidden)
        own = torch.empty(rows, network.config.hidden if network.cards is not None else 0)
        native.heads_forward(
            part.weights,
            latent.detach().numpy(),
            saved.numpy(),
            policy.numpy(),
            numbers.numpy(),
            _or_none(outcome),
            blocks.numpy(),
            _or_none(own),
        )
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(latent)
            ctx.kept = part, saved
            ctx.set_materialize_grads(False)
        else:
            training.give(saved)
        return policy, numbers.view(rows, egos, -1), outcome, blocks, own

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        (latent,) = ctx.saved_tensors
        part, saved = ctx.kept
        training, d_latent = part.training, torch.empty_like(latent)
        rows, network = len(latent), training.network
        policy, numbers, outcome, blocks, own = given
        policy = torch.zeros(rows, network.spec.num_actions) if policy is None else policy
        if numbers is None:
            egos = network.num_players if network.config.ego else 1
            numbers = torch.zeros(rows, egos * padded(sum(training.head_sizes())))
        training.native.heads_backward(
            part.weights,
            latent.detach().numpy(),
            saved.numpy(),
            policy.contiguous().numpy(),
            numbers.reshape(rows, -1).numpy(),
            *(_or_none(d.contiguous()) if d is not None else None for d in (outcome, blocks, own)),
            d_latent.numpy(),
            *part.sums(),
        )
        training.give(saved)
        return torch.zeros(1), d_latent, None


class Compare(torch.autograd.Function):
    """Losses of the heads: policy, numbers and outcomes of `Predict` -> losses [kinds, B], value of the first seat [B].

    The backward pass computes the distributions once more, which is cheaper than to save them.
    """

    @staticmethod
    def forward(
        ctx: Any, policy: Tensor, numbers: Tensor, outcome: Tensor, training: SlotTraining, targets: HeadTargets
    ) -> tuple[Tensor, Tensor]:
        losses, value = torch.empty(len(HEAD_LOSSES), len(policy)), torch.empty(len(policy))
        given: tuple[Any, ...] = tuple(None if t is None else t.contiguous().numpy() for t in _in_order(targets))
        predicted: tuple[Any, ...] = policy.numpy(), numbers.numpy(), _or_none(outcome)
        native, part = training.native, training.losses
        results: tuple[Any, ...] = losses.numpy(), value.numpy()
        _native.losses_forward(native, part, *predicted, *given, *results)
        ctx.mark_non_differentiable(value)
        ctx.save_for_backward(policy, numbers, outcome)
        ctx.kept = native, part, given
        return losses, value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_losses: Tensor, d_value: Tensor) -> tuple[Tensor | None, ...]:
        policy, numbers, outcome = ctx.saved_tensors
        native, part, given = ctx.kept
        d_policy, d_numbers = torch.empty_like(policy), torch.empty_like(numbers)
        d_outcome = None if given[-1] is None or not outcome.numel() else torch.empty_like(outcome)
        predicted: tuple[Any, ...] = policy.numpy(), numbers.numpy(), _or_none(outcome)
        of_losses = d_losses.contiguous().numpy()
        results: tuple[Any, ...] = (
            of_losses,
            d_policy.numpy(),
            d_numbers.numpy(),
            None if d_outcome is None else d_outcome.numpy(),
        )
        _native.losses_backward(native, part, *predicted, *given, *results)
        return d_policy, d_numbers, d_outcome, None, None


class CompareVisible(torch.autograd.Function):
    """Loss of the decoder: logits of fields [B, S, N] and of equal cards [B, blocks, M], observations -> loss [B].

    Logits of equal cards are empty if the game shows no shared cards.
    """

    @staticmethod
    def forward(ctx: Any, fields: Tensor, matches: Tensor, training: SlotTraining, obs: Tensor) -> Tensor:
        loss = torch.empty(len(fields))
        given = training.native, training.visible, fields.numpy(), _or_none(matches), obs.numpy()
        _native.visible_forward(*given, loss.numpy())
        ctx.save_for_backward(fields, matches)
        ctx.kept = training, obs
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        fields, matches = ctx.saved_tensors
        training, obs = ctx.kept
        d_fields, d_matches = torch.empty_like(fields), torch.empty_like(matches)
        given = training.native, training.visible, fields.numpy(), _or_none(matches), obs.numpy()
        _native.visible_backward(*given, d_loss.contiguous().numpy(), d_fields.numpy(), _or_none(d_matches))
        return d_fields, d_matches, None, None


def _in_order(targets: HeadTargets) -> tuple[Tensor | None, ...]:
    """Targets in the order of the native arguments."""
    first = targets.value, targets.reward, targets.shares
    return *first, targets.policy, targets.winner, targets.rank, targets.points, targets.outcome
