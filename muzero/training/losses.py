"""Losses of windows: the network is unrolled over K actions and compared with the targets of K + 1 positions.

Shapes: B windows, K steps of a window after its first position, P players, A actions, E egos, N bins, L numbers in a
latent, W numbers in an observation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from muzero.model.head_losses import HEAD_LOSSES, HeadTargets
from muzero.model.interface import BaseNetwork, pass_on

LOSSES = (
    "policy",
    "value",
    "reward",
    "winner",
    "rank",
    "points",
    "cards",
    "afterstate",
    "outcome",
    "reconstruction",
    "consistency",
)
_COMPILED_KINDS = 64  # most compiled versions of the losses: per network, batch size, device and thread count
_COMPARED = 4  # one window of so many is compared with its real positions: enough to learn from, and expensive
_COMMITMENT = 0.25  # weight of the commitment to learned codes, beside the loss of their prediction
_SHARPNESS = 4.0  # standard deviation of the logits of a learned code: large enough to be sure of one code


def window_losses(
    network: BaseNetwork,
    batch: dict[str, Tensor],
    one_step_share: float = 0.0,
    discount: float = 1.0,
    skipped: Collection[str] = (),
) -> tuple[Tensor, Tensor]:
    """Losses of each window, and its TD error.

    The first position counts fully, each of the K unrolled ones 1 / K, and every step of the dynamics passes half of
    the gradient on. All positions of all windows go through the prediction heads in one batch. With the slots latent,
    imagined positions of a quarter of the windows are also compared with the real ones: with their visible cards
    (reconstruction) and with their latents (consistency). In games with private information, only positions seen by the
    same player are targets of these two losses and of one-step values.

    Args:
      batch: fields of a `Batch` as tensors.
      one_step_share: share of a value target that is the network's own value one decision later, where that position
        is known.
      discount: discount of that value.
      skipped: names of losses not to compute, among reconstruction and consistency; they are then 0.

    Returns:
      Losses [len(LOSSES), B]; TD errors [B] of the mover's value: without one-step values, the distance from the target
      at the first position; with them, the largest distance from the one-step value over all positions.
    """
    B, K = batch["actions"].shape
    codes = encode_steps(network, batch) if network.learned_codes else None
    few, at = -(-B // _COMPARED), batch["after"]
    told = batch["outcomes"] if codes is None else codes.weights
    unrolled, some, before = network.unroll(batch["obs"][:, 0], batch["actions"], batch["shifts"], told, few, at)
    afterstate = None
    if network.num_outcomes > 1:  # the search asks for it before it knows what chance brings
        row = torch.arange(B, device=unrolled.device)
        step = batch["actions"][row, at], batch["shifts"][row, at], torch.zeros_like(at)
        afterstate = network.step(pass_on(before), *step)
    # Padding, because on a GPU an assignment to share[0] would copy a number from the host and wait for it.
    share = F.pad(torch.full((K,), 1.0 / K, device=unrolled.device), (1, 0), value=1.0)
    seen_by_same = (batch["to_play"] == 0).float() if network.spec.private else torch.ones_like(batch["live"])
    reconstructs, consistent = (
        network.decoder is not None and name not in skipped for name in ("reconstruction", "consistency")
    )
    real_latents = values_next = None
    if codes is not None and not one_step_share:
        real_latents = codes.latents.view(B, K, -1)[:few].transpose(0, 1)
    elif one_step_share or consistent:
        with torch.no_grad():
            if one_step_share:
                real_latents, values_next = network.values_of_observation(_rows(batch["obs"][:, 1:]))
                real_latents = real_latents.view(K, B, -1)[:, :few]
            else:
                real_latents = network.represent(_rows(batch["obs"][:few, 1:])).view(K, few, -1)
    value = batch["value"]
    if one_step_share:
        assert values_next is not None
        one_step = one_step_values(network, batch, values_next.view(K, B, -1).transpose(0, 1), discount)
        known = one_step_mask(network, batch)
        value = torch.lerp(value, one_step, one_step_share * known.unsqueeze(2))
    to_play = _rows(batch["to_play"])
    targets = HeadTargets(
        value=_rows(value),
        reward=_rows(F.pad(batch["reward"], (0, 0, 1, 0))),  # no step led to the first position
        shares=value_shares(network, to_play),
        policy=_rows(batch["policy"]),
        winner=_rows(batch["winner"]),
        rank=_rows(batch["rank"]),
        points=_rows(batch["points"]),
    )
    found = network.compare(unrolled.flatten(0, 1), to_play, targets)
    result, rewarded = batch["outcome_mask"], F.pad(batch["reward_mask"], (1, 0))
    masks = [batch["policy_mask"], batch["value_mask"], rewarded, result, result, result * batch["live"]]
    weights = torch.stack(masks) * share  # (kinds, B, K+1)
    of_heads = (found.losses[: len(masks)].view(-1, K + 1, B) * weights.transpose(1, 2)).sum(1)
    nothing = torch.zeros(B, device=unrolled.device)
    totals = dict.fromkeys(LOSSES[len(masks) :], nothing)
    if afterstate is not None:
        outcomes = batch["outcomes"] if codes is None else codes.chosen
        totals["afterstate"], totals["outcome"] = _afterstate_losses(network, batch, outcomes, afterstate, value)
    if codes is not None:
        totals["outcome"] = totals["outcome"] + _COMMITMENT * codes.commitment
    if found.cards is not None:
        # Labels are counted from each position's mover; a flat latent counts slots from the root's player.
        same = batch["to_play"] == 0 if network.frame == "root" else torch.ones_like(batch["to_play"]) > 0
        labels = _rows(batch["hidden"]).flatten().long()
        cards = F.cross_entropy(found.cards.float().flatten(0, 1), labels, reduction="none")
        mask = batch["live"] * seen_by_same * same * share
        totals["cards"] = (cards.view(K + 1, B, -1).mean(2) * mask.t()).sum(0)
    compared = (batch["live"][:few] * seen_by_same[:few]).t()  # (K+1, few)
    if reconstructs:
        cards = network.reconstruction_loss(some.flatten(0, 1), _rows(batch["obs"][:few]))
        losses = (cards.view(K + 1, few) * compared * share.unsqueeze(1)).sum(0) * (B / few)
        totals["reconstruction"] = F.pad(losses, (0, B - few))
    if consistent:
        assert real_latents is not None
        distance = (some[1:] - real_latents).square().mean(2)
        losses = (distance * compared[1:]).sum(0) / K * (B / few)
        totals["consistency"] = F.pad(losses, (0, B - few))
    now = found.value.view(K + 1, B).t()
    if one_step_share:
        td_error = ((now - one_step[:, :, 0]).abs() * known).amax(1)
    else:
        td_error = (now[:, 0] - batch["value"][:, 0, 0]).abs()
    return torch.cat([of_heads, torch.stack(list(totals.values()))]), td_error


class Codes(NamedTuple):
    """Learned codes of the steps of windows.

    Attributes:
      weights: [B, K, O] weight 1 for each step's code; gradients flow to the encoder (straight-through).
      chosen: [B, K] codes, from 1 on.
      commitment: [B] squared distance of the encoder's probabilities from the codes chosen.
      latents: [B K, L] latents of the positions after each step, without gradients.
    """

    weights: Tensor
    chosen: Tensor
    commitment: Tensor
    latents: Tensor


def encode_steps(network: BaseNetwork, batch: dict[str, Tensor]) -> Codes:
    """Codes of the steps of windows, given by the network's encoder to the observations after them.

    The encoder reads what the representation makes of an observation; no gradient flows into the representation. Past
    the end of a game the last observation is repeated, and so is its code.
    """
    B, K = batch["actions"].shape
    with torch.no_grad():
        latents = network.represent(batch["obs"][:, 1:].flatten(0, 1))
    # Logits of each code are normalised over the batch: without this all steps soon have the same code.
    logits = _SHARPNESS * F.batch_norm(network.outcome_codes(latents).float(), None, None, training=True)
    likely = logits.softmax(-1)  # (B K, O - 1)
    index = likely.argmax(-1)
    hard = F.one_hot(index, likely.shape[1]).float()
    weights = F.pad(hard + likely - likely.detach(), (1, 0))  # code 0 is never given
    live = batch["live"][:, 1:].flatten()
    commitment = (hard - likely).square().sum(1) * live
    return Codes(weights.view(B, K, -1), 1 + index.view(B, K), commitment.view(B, K).mean(1), latents)


def _rows(numbers: Tensor) -> Tensor:
    """Numbers of windows [B, K, ...] as rows [K B, ...], in the order of unrolled latents."""
    return numbers.transpose(0, 1).flatten(0, 1)


def _afterstate_losses(
    network: BaseNetwork, batch: dict[str, Tensor], outcomes: Tensor, afterstate: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:
    """Losses [B] of values and rewards, and of outcomes, at the windows' afterstates.

    Args:
      outcomes: [B, K] outcomes of the steps, as the game or the network's encoder gives them.
      afterstate: [B, L] positions after step `batch["after"]`, outcome not told.
      value: [B, K+1, P] targets of values.
    """
    row, at = torch.arange(len(afterstate), device=afterstate.device), batch["after"]
    to_play = batch["to_play"][row, at + 1]
    targets = HeadTargets(
        value=value[row, at + 1],
        reward=batch["reward"][row, at],
        shares=value_shares(network, to_play),
        outcome=outcomes[row, at],
    )
    found = dict(zip(HEAD_LOSSES, network.compare(afterstate, to_play, targets).losses, strict=True))
    mask = batch["after_mask"]
    known = batch["value_mask"][row, at + 1] * batch["reward_mask"][row, at]
    return (found["value"] + found["reward"]) * mask * known, found["outcome"] * mask


def value_shares(network: BaseNetwork, to_play: Tensor) -> Tensor:
    """Share of each seat's value in the value loss, [N, P] for to_play [N], or [1, P] if it is the same everywhere.

    Where hands are hidden the observer's own value has half of the weight: most cards that decide the values of the
    others cannot be known from the observer's seat.
    """
    P = network.num_players
    if not network.spec.private:
        return torch.full((1, P), 1 / P, device=to_play.device)
    observer = -to_play % P if network.frame == "mover" else torch.zeros_like(to_play)
    own = F.one_hot(observer, P).float()
    return 0.5 * own + 0.5 / (P - 1) * (1 - own)


def one_step_values(network: BaseNetwork, batch: dict[str, Tensor], values_next: Tensor, discount: float) -> Tensor:
    """Reward of each position plus the discounted value of the next, [B, K+1, P]; 0 at the last position.

    Args:
      values_next: [B, K, P] values of the positions after the first, seats counted from their movers.
    """
    if network.frame == "root":  # rewards are in the frame of the root already
        values_next = _from_mover(values_next, batch["to_play"][:, 1:])
        return F.pad(batch["reward"] + discount * values_next, (0, 0, 0, 1))
    return F.pad(_from_mover(batch["reward"] + discount * values_next, batch["shifts"]), (0, 0, 0, 1))


def _from_mover(numbers: Tensor, turns: Tensor) -> Tensor:
    """Numbers [B, K, P] by seat from a mover on -> from the player on whose seat is `turns` [B, K] seats before it."""
    P = numbers.shape[2]
    seats = (torch.arange(P, device=numbers.device) - turns.unsqueeze(2)) % P
    return numbers.gather(2, seats)


def one_step_mask(network: BaseNetwork, batch: dict[str, Tensor]) -> Tensor:
    """Mask [B, K+1] of positions whose next position's value is a target."""
    known = batch["live"][:, 1:]
    if network.spec.private:
        known = known * (batch["shifts"] == 0)
    return F.pad(known, (0, 1))


@cache
def compiled_losses() -> Callable[..., tuple[Tensor, Tensor]]:
    """Compile `window_losses` with torch.compile."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _COMPILED_KINDS)
    return torch.compile(window_losses, dynamic=False)
