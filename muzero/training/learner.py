"""The loss and the optimiser's step.

Shapes: B windows, K steps of a window after its first position, P players, A actions, E egos, N bins, W numbers in an
observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.config import LearnerConfig
from muzero.data.replay_buffer import Batch
from muzero.model.network import Network

LOSSES = ("policy", "value", "reward", "winner", "rank", "reconstruction", "consistency")
_COMPILED_KINDS = 64
_RECONSTRUCTED = 4  # one window of so many is read back: enough, and it would cost the most
_EMA_SHARE = 10  # the average is at first over a tenth of the steps so far: early weights are soon out of date
_UNROLL_GRADIENT = 0.5  # share of the gradient that flows back through each step of the dynamics


class DivergedError(RuntimeError):
    """The loss is not a number, infinite, or has exploded."""


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """[..., N] logits and distributions -> [...]"""
    return -(target * logits.float().log_softmax(-1)).sum(-1)


def turned(target: Tensor, egos: int) -> Tensor:
    """target [B, P, ...] by seat from the frame's first on -> [B, E, P, ...], from each ego's seat on."""
    return torch.stack([target.roll(-ego, 1) for ego in range(egos)], 1)


def window_losses(
    network: Network,
    batch: dict[str, Tensor],
    ahead: float = 0.0,
    discount: float = 1.0,
    skipped: Collection[str] = (),
) -> tuple[Tensor, Tensor]:
    """What each window costs.

    The first position counts fully, the K unrolled ones 1 / K each, and the dynamics pass half of the gradient on. All
    positions of all windows are judged in one go. With the slots latent, what was imagined is also compared with what
    came: with the cards to be seen (reconstruction), and with their latent (consistency). Where players see different
    things, only what the same player sees later is a target, of these losses and of values.

    Args:
      batch: fields of a `Batch`.
      ahead: share of a value's target that is the network's own value one decision later, where that was met.
      discount: of that value.
      skipped: losses not to compute, of reconstruction and consistency; they are then 0.

    Returns:
      losses [len(LOSSES), B]; surprises [B], how far the mover's value was off at most: from the target at the first
      position; if there is a value one decision ahead, from that, at all positions, imagined ones among them.
    """
    B, K = batch["actions"].shape
    latent = network.represent(batch["obs"][:, 0])
    latents, rewards = [latent], []
    for k in range(K):
        latent = latent * _UNROLL_GRADIENT + latent.detach() * (1 - _UNROLL_GRADIENT)
        latent, reward = network.step(latent, batch["actions"][:, k], batch["shifts"][:, k])
        latents.append(latent)
        rewards.append(reward)
    unrolled = torch.stack(latents, 1)  # (B, K+1, L)
    said = network.predict(unrolled.flatten(0, 1), batch["to_play"].flatten())
    share = torch.full((K + 1,), 1.0 / K, device=latent.device)
    share[0] = 1.0

    def over_windows(losses: Tensor, mask: Tensor) -> Tensor:
        """[B (K+1)] or [B, K+1] -> [B]"""
        return (losses.view(B, K + 1) * mask * share).sum(1)

    seen_by_same = (batch["to_play"] == 0).float() if network.spec.private else torch.ones_like(batch["live"])
    reconstructs, consistent = (
        network.decoder is not None and name not in skipped for name in ("reconstruction", "consistency")
    )
    met = None
    if ahead or consistent:
        with torch.no_grad():
            following = batch["obs"][:, 1:].flatten(0, 1)
            met, outlook = network.values_of_observation(following) if ahead else (network.represent(following), None)
    target = batch["value"]
    if ahead:
        assert outlook is not None
        one_step_share, known = (
            _one_ahead(network, batch, outlook.view(B, K, -1), discount),
            _known_ahead(network, batch),
        )
        target = torch.lerp(target, one_step_share, ahead * known.unsqueeze(2))
    returns = network.support.two_hot(target).flatten(0, 1)
    paid = network.support.two_hot(batch["reward"])  # (B, K, P, N)
    nothing = torch.zeros(B, device=latent.device)
    totals = dict.fromkeys(LOSSES, nothing)
    totals["policy"] = over_windows(cross_entropy(said.policy, batch["policy"].flatten(0, 1)), batch["policy_mask"])
    values = cross_entropy(said.value, returns) * _value_shares(network, batch["to_play"].flatten())
    totals["value"] = over_windows(values.sum(1), batch["value_mask"])
    reward = cross_entropy(torch.stack(rewards, 1), paid).mean(2)
    totals["reward"] = (reward * batch["reward_mask"]).sum(1) / K
    if said.winner is not None and said.rank is not None:
        egos = said.winner.shape[1]
        winner = cross_entropy(said.winner, turned(batch["winner"].flatten(0, 1), egos)).mean(1)
        rank = cross_entropy(said.rank, turned(batch["rank"].flatten(0, 1), egos)).mean((1, 2))
        totals["winner"] = over_windows(winner, batch["outcome_mask"])
        totals["rank"] = over_windows(rank, batch["outcome_mask"])
    if reconstructs:
        few = -(-B // _RECONSTRUCTED)
        seen = network.reconstruction_loss(unrolled[:few].flatten(0, 1), batch["obs"][:few].flatten(0, 1))
        losses = (seen.view(few, K + 1) * (batch["live"] * seen_by_same)[:few] * share).sum(1) * (B / few)
        totals["reconstruction"] = F.pad(losses, (0, B - few))
    if consistent:
        assert met is not None
        off = (unrolled[:, 1:] - met.view(B, K, -1)).square().mean(2)
        totals["consistency"] = (off * (batch["live"] * seen_by_same)[:, 1:]).sum(1) / K
    value = network.support.expectation(said.value.detach()[:, 0]).view(B, K + 1)
    if ahead:
        surprise = ((value - one_step_share[:, :, 0]).abs() * known).amax(1)
    else:
        surprise = (value - batch["value"][:, :, 0])[:, 0].abs()
    return torch.stack([totals[name] for name in LOSSES]), surprise


def _value_shares(network: Network, to_play: Tensor) -> Tensor:
    """to_play [N], from the observer's seat on -> [N, P] how much each seat's value counts; or [1, P], all the same.

    Where hands are hidden the observer's own is half of it: what the others have is mostly not to be known.
    """
    P = network.num_players
    if not network.spec.private:
        return torch.full((1, P), 1 / P, device=to_play.device)
    observer = -to_play % P if network.frame == "mover" else torch.zeros_like(to_play)
    own = F.one_hot(observer, P).float()
    return 0.5 * own + 0.5 / (P - 1) * (1 - own)


def _one_ahead(network: Network, batch: dict[str, Tensor], outlook: Tensor, discount: float) -> Tensor:
    """What is paid at each position, and the value of the next; [B, K+1, P], 0 at the last.

    Args:
      outlook: [B, K, P] values of the positions after the first, as seen by their movers.
    """
    P = network.num_players
    turns = batch["to_play"][:, 1:] if network.frame == "root" else batch["shifts"]
    seats = (torch.arange(P, device=outlook.device) - turns.unsqueeze(2)) % P
    return F.pad(batch["reward"] + discount * outlook.gather(2, seats), (0, 0, 0, 1))


def _known_ahead(network: Network, batch: dict[str, Tensor]) -> Tensor:
    """[B, K+1] where the value of the next position is a target."""
    known = batch["live"][:, 1:]
    if network.spec.private:
        known = known * (batch["shifts"] == 0)
    return F.pad(known, (0, 1))


@cache
def _compiled_losses() -> Callable[..., tuple[Tensor, Tensor]]:
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _COMPILED_KINDS)
    return torch.compile(window_losses, dynamic=False)


class _SmallerTable(nn.Module):
    """The losses of a network for fewer players, whose weights are parts of another's."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: dict[str, Tensor], *options: Any) -> tuple[Tensor, Tensor]:
        """See `window_losses`."""
        return window_losses(self.network, batch, *options)


class Learner:
    """Owns the optimiser of a network.

    Args:
      network: to train, on the device it is to be trained on.
      config: of the learner.
      smaller: networks of the same kind for fewer players, if there are batches of their games, too; their own weights
        are not used. These batches do not go through torch.compile.
      discount: of values one decision later.
    """

    def __init__(
        self, network: Network, config: LearnerConfig, smaller: Sequence[Network] = (), discount: float = 1.0
    ) -> None:
        config.check()
        self.network, self.config, self.discount = network, config, discount
        self._smaller = {few.num_players: _SmallerTable(few) for few in smaller}
        self.device = next(network.parameters()).device
        decayed = [p for p in network.parameters() if p.ndim > 1]
        others = [p for p in network.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=config.lr, fused=True)
        self.steps = 0
        self._ema = {name: p.detach().clone() for name, p in network.named_parameters()} if config.ema else None
        self._sums = torch.zeros(len(LOSSES) + 3, device=self.device)  # losses, total, gradient norm, surprise
        self._summed = 0
        self._weighted = -1, self._sums  # an iteration and its weights; none yet
        weights = {"reconstruction": config.reconstruction_weight, "consistency": config.consistency_weight}
        self._skipped = tuple(name for name, weight in weights.items() if weight == 0)

    def weights(self, iteration: int) -> dict[str, float]:
        """Of each loss; those of the outcome heads ramp up."""
        c = self.config
        ramp = min(1.0, iteration / c.ramp_iterations) if c.ramp_iterations else 1.0
        return {
            "policy": 1.0,
            "value": c.value_weight,
            "reward": c.reward_weight,
            "winner": c.winner_weight[0] + ramp * (c.winner_weight[1] - c.winner_weight[0]),
            "rank": c.rank_weight[0] + ramp * (c.rank_weight[1] - c.rank_weight[0]),
            "reconstruction": c.reconstruction_weight,
            "consistency": c.consistency_weight,
        }

    def learning_rate(self) -> float:
        """At the next step: a linear warm-up, then constant, or a cosine to a tenth over `decay_steps`."""
        c = self.config
        rate = c.lr * min(1.0, (self.steps + 1) / c.warm_up_steps) if c.warm_up_steps else c.lr
        if c.decay_steps:
            done = min(1.0, self.steps / c.decay_steps)
            rate *= 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2
        return rate

    def load(self, batch: Batch) -> dict[str, Tensor]:
        """A batch on the device; only what the losses need."""
        out = {}
        for field in fields(batch):
            if field.name in ("index", "stamp"):
                continue
            tensor = torch.from_numpy(getattr(batch, field.name))
            if self.device.type == "cuda":
                tensor = tensor.pin_memory()
            out[field.name] = tensor.to(self.device, non_blocking=True)
        return out

    def step(self, batch: Batch, iteration: int) -> Tensor:
        """One step; returns new priorities [B] on the device, the surprises of `window_losses`."""
        config = self.config
        loaded = self.load(batch)
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=config.bf16):
            losses, surprise = self._losses(loaded)
        weight = self._weights(iteration)
        means = (losses * loaded["weights"]).sum(1) / loaded["weights"].sum()
        total = (means * weight).sum()
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.clip)
        self.optimizer.step()
        self.steps += 1
        if self._ema is not None:
            self._update_ema()
        self._sums += torch.cat([means.detach(), torch.stack([total.detach(), norm, surprise.mean()])])
        self._summed += 1
        return surprise

    def _weights(self, iteration: int) -> Tensor:
        """`weights` on the device; once per iteration, because a copy there makes the host wait."""
        if self._weighted[0] != iteration:
            named = self.weights(iteration)
            self._weighted = iteration, torch.tensor([named[name] for name in LOSSES], device=self.device)
        return self._weighted[1]

    def _losses(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """`window_losses` of a batch for any number of players that there is a network for."""
        players = batch["value"].shape[-1]
        options = (self.config.one_step_share, self.discount, self._skipped)
        if players == self.network.num_players:
            compute = _compiled_losses() if self.config.compile else window_losses
            return compute(self.network, batch, *options)
        weights = self.network.weights_for(players, dict(self.network.named_parameters()))
        named = {f"network.{name}": tensor for name, tensor in weights.items()}
        return torch.func.functional_call(self._smaller[players], named, (batch, *options))  # type: ignore[no-any-return]

    def report(self) -> dict[str, float]:
        """Means over the steps since the last report. An error if they show that training has broken down."""
        sums = (self._sums / max(1, self._summed)).tolist()
        self._sums.zero_()
        self._summed = 0
        out = dict(zip((*LOSSES, "total", "gradient", "surprise"), sums, strict=True))
        broken = {name: number for name, number in out.items() if not math.isfinite(number)}
        if not broken and out["total"] > self.config.largest_loss:
            broken = {"total": out["total"]}
        if broken:
            raise DivergedError(
                f"after {self.steps} steps the loss is {broken}; expected finite numbers and a total of at most "
                f"learner.largest_loss={self.config.largest_loss:g}"
            )
        return out

    @torch.no_grad()
    def _update_ema(self) -> None:
        assert self._ema is not None
        averages, now = list(self._ema.values()), [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(averages, now, max(1 - self.config.ema, _EMA_SHARE / (_EMA_SHARE + self.steps)))

    @property
    def ema(self) -> dict[str, Tensor] | None:
        """Running average of the weights, if there is one."""
        return self._ema

    def load_ema(self, weights: dict[str, Tensor]) -> None:
        """Puts a saved average in place."""
        assert self._ema is not None
        for name, tensor in self._ema.items():
            tensor.copy_(weights[name])

    def playing_weights(self) -> dict[str, Tensor]:
        """What self-play and evaluation use: the average if there is one."""
        return self._ema if self._ema is not None else {n: p.detach() for n, p in self.network.named_parameters()}
