"""Passes of a slots network in C++ as functions of torch's autograd: encoder, dynamics and heads.

Each function gets a part's parameters as one array, for the gradient, and packed, for the computation; results that the
backward pass reads again are in an array of the `SlotTraining` that calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from muzero.model.native import _native

if TYPE_CHECKING:
    from muzero.model.native.slot_training import SlotTraining

ALIGN = 16  # number that inputs and outputs of layers must be multiples of


def _or_none(tensor: Tensor) -> NDArray[np.float32] | None:
    return tensor.numpy() if tensor.numel() else None


def padded(count: int) -> int:
    """Round a number of inputs or outputs up to what C++ can compute."""
    return -(-count // ALIGN) * ALIGN


def _chunks(rows: int) -> int:
    return -(-rows // _native.CHUNK)


class Encode(torch.autograd.Function):
    """Encoder: parameters, observations [B, W] -> latents [B, L]."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, training: SlotTraining, weights: Any, obs: Tensor) -> Tensor:
        native, latent = training.native, torch.empty(len(obs), training.latent_dim)
        if not ctx.needs_input_grad[0]:
            native.encoder_forward(weights, obs.numpy(), None, latent.numpy())
            return latent
        saved = training.take(_chunks(len(obs)) * native.encoder_saved())
        native.encoder_forward(weights, obs.numpy(), saved.numpy(), latent.numpy())
        ctx.kept = training, weights, obs, saved, len(theta)
        return latent

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_latent: Tensor) -> tuple[Tensor | None, ...]:
        training, weights, obs, saved, size = ctx.kept
        gradient = torch.empty(size)
        training.native.encoder_backward(
            weights, obs.numpy(), saved.numpy(), d_latent.contiguous().numpy(), gradient.numpy()
        )
        training.give(saved)
        return gradient, None, None, None


class Step(torch.autograd.Function):
    """Dynamics: parameters, latents [B, L], actions, shifts, outcomes [B] -> next latents [B, L]."""

    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, latent: Tensor, training: SlotTraining, weights: Any, *columns: Tensor
    ) -> Tensor:
        native = training.native
        saved = training.take(_chunks(len(latent)) * native.dynamics_saved())
        action, shift, outcome = (column.numpy() for column in columns)
        given = action, shift, outcome
        following = torch.empty_like(latent)
        native.dynamics_forward(weights, latent.detach().numpy(), *given, saved.numpy(), following.numpy())
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(latent)
            ctx.kept = training, weights, given, saved, len(theta)
        else:
            training.give(saved)
        return following

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_next: Tensor) -> tuple[Tensor | None, ...]:
        (latent,) = ctx.saved_tensors
        training, weights, given, saved, size = ctx.kept
        gradient, d_latent = torch.empty(size), torch.empty_like(latent)
        training.native.dynamics_backward(
            weights,
            latent.detach().numpy(),
            *given,
            saved.numpy(),
            d_next.contiguous().numpy(),
            d_latent.numpy(),
            gradient.numpy(),
        )
        training.give(saved)
        return gradient, d_latent, *[None] * 5


class Predict(torch.autograd.Function):
    """Heads: parameters, latents [B, L] -> policy [B, A], numbers [B, E, N], outcomes, blocks and own features.

    Outputs that the network does not have are empty.
    """

    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, latent: Tensor, training: SlotTraining, weights: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        native, network, rows = training.native, training.network, len(latent)
        saved = training.take(_chunks(rows) * native.heads_saved())
        egos = network.num_players if network.config.ego else 1
        numbers = torch.empty(rows, egos * padded(sum(training.head_sizes())))
        policy = torch.empty(rows, network.spec.num_actions)
        outcome = torch.empty(rows, padded(network.num_outcomes) if network.num_outcomes > 1 else 0)
        blocks = torch.empty(rows, network.spec.num_slots // network.spec.blocks.shape[1] * network.config.slot_hidden)
        own = torch.empty(rows, network.config.hidden if network.cards is not None else 0)
        native.heads_forward(
            weights,
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
            ctx.kept = training, weights, saved, len(theta)
            ctx.set_materialize_grads(False)
        else:
            training.give(saved)
        return policy, numbers.view(rows, egos, -1), outcome, blocks, own

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        (latent,) = ctx.saved_tensors
        training, weights, saved, size = ctx.kept
        gradient, d_latent = torch.empty(size), torch.empty_like(latent)
        rows, network = len(latent), training.network
        policy, numbers, outcome, blocks, own = given
        policy = torch.zeros(rows, network.spec.num_actions) if policy is None else policy
        if numbers is None:
            egos = network.num_players if network.config.ego else 1
            numbers = torch.zeros(rows, egos * padded(sum(training.head_sizes())))
        training.native.heads_backward(
            weights,
            latent.detach().numpy(),
            saved.numpy(),
            policy.contiguous().numpy(),
            numbers.reshape(rows, -1).numpy(),
            *(_or_none(d.contiguous()) if d is not None else None for d in (outcome, blocks, own)),
            d_latent.numpy(),
            gradient.numpy(),
        )
        training.give(saved)
        return gradient, d_latent, None, None
