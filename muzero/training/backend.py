"""Choice of the code that computes the network's losses and gradients in the learner.

The native passes (muzero/model/native, C++) are known here and in muzero/search/backend.py, and nowhere else outside
their folder. To remove them, delete the import below, with `NATIVE_TRAINING = None`: "auto" then means "torch".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from muzero.model.interface import BaseNetwork
from muzero.model.native.slot_training import SlotTraining
from muzero.runs.processes import multiplies_bf16

if TYPE_CHECKING:
    from muzero.config import LearnerConfig


class NativeTraining(Protocol):
    """Network whose passes are computed without torch, forward and backward.

    Args:
      network: network to train, one for which `unsupported_reason` is None.
      threads: largest number of threads.
    """

    def __init__(self, network: BaseNetwork, threads: int = 1) -> None: ...

    @staticmethod
    def unsupported_reason(network: BaseNetwork) -> str | None:
        """Reason why the network cannot be trained this way, as "expected ..., got ...", or None if it can."""
        ...

    def use_threads(self, threads: int) -> None:
        """Set the number of threads to use from now on, at most as many as at first."""
        ...

    def refresh(self) -> None:
        """Take over the network's present parameters."""
        ...


NATIVE_TRAINING: type[NativeTraining] | None = SlotTraining


def native_training(network: BaseNetwork, config: LearnerConfig, threads: int = 1) -> NativeTraining | None:
    """Make the native passes of a network if `learner.backend` asks for them and they can be had, otherwise None."""
    if config.backend == "torch":
        return None
    reason: str | None = "expected a build with native passes, got none"
    if NATIVE_TRAINING is not None:
        reason = NATIVE_TRAINING.unsupported_reason(network)
    if config.bf16 or config.compile:
        reason = f"expected learner.{'bf16' if config.bf16 else 'compile'}=false, got true"
    if config.backend == "native" and reason:
        raise ValueError(f"learner.backend=native: {reason}")
    return None if reason or NATIVE_TRAINING is None else NATIVE_TRAINING(network, threads)


def resolve_precision(network: BaseNetwork, config: LearnerConfig, native: NativeTraining | None) -> LearnerConfig:
    """Settings with `auto_bf16` resolved: `bf16` is set if torch computes the losses of `network`, and its device
    multiplies in bfloat16 natively."""
    chosen = config.auto_bf16 and native is None and multiplies_bf16(next(network.parameters()).device)
    return replace(config, bf16=config.bf16 or chosen, auto_bf16=False)


def network_to_train(network: BaseNetwork, native: NativeTraining | None) -> BaseNetwork:
    """Network to compute losses with: the native passes with the newest parameters, or the network itself."""
    if native is None:
        return network
    native.refresh()
    return cast("BaseNetwork", native)
