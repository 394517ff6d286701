"""Learner: the optimiser of a network, its schedules, and the average of the weights that self-play uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from muzero.config import LearnerConfig
from muzero.data.replay_buffer import Batch
from muzero.data.rollouts import Decisions
from muzero.model.interface import BaseNetwork
from muzero.training.backend import NativeTraining, native_training, network_to_train, resolve_precision
from muzero.training.joint_adamw import JointAdamW, joint_views
from muzero.training.losses import LOSSES, compiled_losses, window_losses
from muzero.training.peers import Peers

Losses = Callable[..., tuple[Tensor, Tensor]]  # network, batch, options -> losses [len(NAMES), B], TD errors [B]
_EMA_SHARE = 10  # at first the average is over a tenth of the steps so far: early weights are soon out of date


class DivergedError(RuntimeError):
    """Error: the loss is not a number, infinite, or has exploded."""


class _SmallerTable(nn.Module):
    """Losses of a network for fewer players, whose weights are parts of another network's."""

    def __init__(self, network: BaseNetwork, native: NativeTraining | None, compute: Losses) -> None:
        super().__init__()
        self.network, self.native, self.compute = network, native, compute

    def forward(self, batch: dict[str, Tensor], *options: Any) -> tuple[Tensor, Tensor]:
        """Compute the losses of a batch; see `Learner.compute`."""
        return self.compute(network_to_train(self.network, self.native), batch, *options)


class Learner:
    """Trains a network.

    Args:
      network: network to train, on its device.
      config: settings of losses and optimiser.
      smaller: networks of the same kind for fewer players, if there are batches of their games too; their own weights
        are not used. These batches do not go through torch.compile.
      discount: discount of the value one decision later.
      threads: largest number of threads of the native passes (`learner.backend`).
      peers: other processes that compute gradients of parts of each batch; None if this one computes all.

    Attributes:
      steps: number of optimiser steps made so far.
      skipped: names of the losses that are not computed because their weight is 0.
      native: native passes of the network, None where torch computes the gradients.
      NAMES: names of the losses, in the order of `compute`.
      compute: function that computes the losses and TD errors of a batch, as `window_losses` does.
    """

    NAMES: ClassVar[tuple[str, ...]] = LOSSES
    compute: ClassVar[Losses] = staticmethod(window_losses)

    def __init__(
        self,
        network: BaseNetwork,
        config: LearnerConfig,
        smaller: Sequence[BaseNetwork] = (),
        discount: float = 1.0,
        threads: int = 1,
        peers: Peers | None = None,
    ) -> None:
        config.check()
        self.native = native_training(network, config, threads)
        config = resolve_precision(network, config, self.native)
        self.network, self.config, self.discount, self.peers = network, config, discount, peers
        self._smaller = {
            few.num_players: _SmallerTable(few, native_training(few, config, threads), self.compute) for few in smaller
        }
        self.device = next(network.parameters()).device
        decayed = [p for p in network.parameters() if p.ndim > 1]
        others = [p for p in network.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = JointAdamW(groups, config.lr)
        self.steps = 0
        self._averages = [values.clone() for values in self.optimizer.values]  # running averages, for config.ema
        self._ema = self._named(self._averages) if config.ema else None
        # Sums of losses, total, gradient norm, TD error.
        self._sums = torch.zeros(len(self.NAMES) + 3, device=self.device)
        self._summed = 0
        self._weighted = -1, self._sums  # iteration, and its loss weights; -1 before the first
        weights = {"reconstruction": config.reconstruction_weight, "consistency": config.consistency_weight}
        self.skipped = tuple(name for name, weight in weights.items() if weight == 0)

    def weights(self, iteration: int) -> dict[str, float]:
        """Weight of each loss at an iteration; the weights of the outcome heads ramp up."""
        c = self.config
        ramp = min(1.0, iteration / c.ramp_iterations) if c.ramp_iterations else 1.0
        return {
            "policy": 1.0,
            "value": c.value_weight,
            "reward": c.reward_weight,
            "winner": c.winner_weight[0] + ramp * (c.winner_weight[1] - c.winner_weight[0]),
            "rank": c.rank_weight[0] + ramp * (c.rank_weight[1] - c.rank_weight[0]),
            "points": c.points_weight,
            "cards": c.cards_weight,
            "afterstate": c.afterstate_weight,
            "outcome": c.outcome_weight,
            "reconstruction": c.reconstruction_weight,
            "consistency": c.consistency_weight,
        }

    def learning_rate(self) -> float:
        """Learning rate of the next step: a linear warm-up, then constant or a cosine to a tenth (`decay_steps`)."""
        c = self.config
        rate = c.lr * min(1.0, (self.steps + 1) / c.warm_up_steps) if c.warm_up_steps else c.lr
        if c.decay_steps:
            done = min(1.0, self.steps / c.decay_steps)
            rate *= 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2
        return rate

    def to_device(self, batch: Batch | Decisions) -> dict[str, Tensor]:
        """Copy the fields of a batch that the losses need to the learner's device."""
        out = {}
        for field in fields(batch):
            if field.name in ("index", "stamp"):
                continue
            out[field.name] = self._send(torch.from_numpy(getattr(batch, field.name)))
        return out

    def _send(self, tensor: Tensor) -> Tensor:
        """Copy a tensor to the learner's device; the host does not wait."""
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def step(self, batch: Batch | Decisions, iteration: int, meanwhile: Callable[[], None] | None = None) -> Tensor:
        """Make one optimiser step.

        Args:
          batch: windows to learn from.
          iteration: iteration, for the schedules.
          meanwhile: starts other work in another thread, called when this one is about to compute gradients: it then
            leaves the interpreter to others most of the time.

        Returns:
          TD errors [B] of `window_losses`, on the device, as new priorities.
        """
        if self.peers is None:
            return self._step(batch, iteration, meanwhile)
        assert isinstance(batch, Batch), "several processes learn from windows only"
        td_error = self._step(self.peers.deal(batch, iteration), iteration, meanwhile)
        self.peers.finish_step()
        return td_error

    def follow(self) -> None:
        """Make the steps of rank 0 with this process's shares of its batches, until rank 0 ends."""
        assert self.peers is not None
        while (dealt := self.peers.receive()) is not None:
            self._step(*dealt)

    def share_state(self) -> None:
        """Give the other processes the weights, averages and optimiser of rank 0; all processes must call it."""
        if self.peers is None:
            return
        counters = torch.tensor([self.steps])
        self.peers.share_tensors({"counters": counters})
        self.steps = int(counters[0])
        tensors = {f"weights/{name}": parameter.detach() for name, parameter in self.network.named_parameters()}
        tensors |= {f"ema/{name}": average for name, average in (self._ema or {}).items()}
        for name, parameter in self.network.named_parameters():
            tensors |= {f"{key}/{name}": tensor for key, tensor in self.optimizer.state[parameter].items()}
        self.peers.share_tensors(tensors)

    def _step(self, batch: Batch | Decisions, iteration: int, meanwhile: Callable[[], None] | None = None) -> Tensor:
        """Make one optimiser step with a batch, or with this process's share of one."""
        config = self.config
        tensors = self.to_device(batch)
        if not self.network.training:
            self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=config.bf16):
            losses, td_error = self._losses(tensors)
        weight = self._weights(iteration)
        whole = tensors["weights"].sum()
        if self.peers is not None:
            self.peers.add_up([whole])
        means = (losses * tensors["weights"]).sum(1) / whole
        total = (means * weight).sum()
        self.optimizer.zero_grad()
        if meanwhile is not None:
            meanwhile()
        total.backward()  # type: ignore[no-untyped-call]
        if self.peers is not None:
            means, total, td_error = means.detach(), total.detach(), self.peers.rows_of_all(td_error)
            self.peers.add_up([*self.optimizer.gradients, means, total])
        norm = self.optimizer.clip(config.clip)
        self.optimizer.step()
        self.steps += 1
        if self._ema is not None:
            self._update_ema()
        self._sums += torch.cat([means.detach(), torch.stack([total.detach(), norm, td_error.mean()])])
        self._summed += 1
        return td_error

    def use_threads(self, threads: int) -> None:
        """Set the number of threads of the native passes for the next steps; it changes no result."""
        for native in (self.native, *(table.native for table in self._smaller.values())):
            if native is not None:
                native.use_threads(threads)

    def _weights(self, iteration: int) -> Tensor:
        """Loss weights of `weights` on the device; copied once per iteration."""
        if self._weighted[0] != iteration:
            named = self.weights(iteration)
            self._weighted = iteration, self._send(torch.tensor([named[name] for name in self.NAMES]))
        return self._weighted[1]

    def _losses(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Compute the losses of a batch with the network for its number of players."""
        players = batch["value"].shape[-1]
        options = self.options()
        if players == self.network.num_players:
            compute = compiled_losses() if self.config.compile else self.compute
            return compute(network_to_train(self.network, self.native), batch, *options)
        weights = self.network.weights_for(players, dict(self.network.named_parameters()))
        named = {f"network.{name}": tensor for name, tensor in weights.items()}
        return torch.func.functional_call(self._smaller[players], named, (batch, *options))  # type: ignore[no-any-return]

    def options(self) -> tuple[Any, ...]:
        """Further arguments of `compute`, after the network and the batch."""
        return self.config.one_step_share, self.discount, self.skipped

    def report(self) -> dict[str, float]:
        """Mean losses over the steps since the last report.

        Raises:
          DivergedError: the means show that training has broken down.
        """
        sums = (self._sums / max(1, self._summed)).tolist()
        self._sums.zero_()
        self._summed = 0
        out = dict(zip((*self.NAMES, "total", "gradient", "td_error"), sums, strict=True))
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
        share = max(1 - self.config.ema, _EMA_SHARE / (_EMA_SHARE + self.steps))
        for average, now in zip(self._averages, self.optimizer.values, strict=True):
            average.lerp_(now, share)

    def _named(self, arrays: Sequence[Tensor]) -> dict[str, Tensor]:
        """Parts of joint arrays of the optimiser's groups, by the name of the parameter, in the network's order."""
        views: dict[nn.Parameter, Tensor] = {}
        for group, array in zip(self.optimizer.param_groups, arrays, strict=True):
            views |= dict(zip(group["params"], joint_views(array, group["params"]), strict=True))
        return {name: views[parameter] for name, parameter in self.network.named_parameters()}

    @property
    def ema(self) -> dict[str, Tensor] | None:
        """Running average of the weights, if `learner.ema` asks for one."""
        return self._ema

    def load_ema(self, weights: dict[str, Tensor]) -> None:
        """Replace the running average of the weights by a saved one."""
        assert self._ema is not None
        for name, tensor in self._ema.items():
            tensor.copy_(weights[name])

    def playing_weights(self) -> dict[str, Tensor]:
        """Weights that self-play and evaluation use: the running average if there is one, else the newest weights."""
        return self._ema if self._ema is not None else {n: p.detach() for n, p in self.network.named_parameters()}
