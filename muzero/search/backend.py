"""Choice of the code that computes the network's recurrent step during a search.

The native code (muzero/model/native, C++) is known here, in judge.py and in muzero/training/backend.py, and nowhere
else outside its folder. To remove it, delete that folder, its import below, with `NATIVE_STEP = None`, and what
docs/search.md lists: "auto" then means "compiled".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from muzero.model.native.slot_step import SlotStep
from muzero.runs.processes import multiplies_bf16

if TYPE_CHECKING:
    from mcts import Requests
    from muzero.config import SearchConfig
    from muzero.model.interface import BaseNetwork


class NativeStep(Protocol):
    """`Network.recurrent` for the rows of a search, computed without torch.

    Args:
      network: network to compute, one for which `unsupported_reason` is None.
      bf16: whether to multiply in bfloat16.
    """

    def __init__(self, network: BaseNetwork, *, bf16: bool = False) -> None: ...

    @staticmethod
    def unsupported_reason(network: BaseNetwork, bf16: bool = False) -> str | None:
        """Reason why this step cannot run a network, as "expected ..., got ...", or None if it can."""
        ...

    def refresh(self) -> None:
        """Take over the weights that have changed since the last call."""
        ...

    def initial(self, obs: NDArray[np.int16], backup: str) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """Evaluate roots as `BaseNetwork.initial` does; None leaves them to torch."""
        ...

    def advance(
        self,
        latents: NDArray[np.float32],
        requests: Requests,
        first: int,
        games: int,
        backup: str,
        outputs: NDArray[np.float32],
    ) -> None:
        """Compute the latents and outputs of new nodes. `SlotStep.advance` explains the arguments."""
        ...


NATIVE_STEP: type[NativeStep] | None = SlotStep


def resolve_backend(
    network: BaseNetwork, config: SearchConfig, otherwise: str = "compiled", key: str = "search.backend"
) -> str:
    """Backend that a search with this network uses: the configured backend, with "auto" resolved.

    Args:
      network: network to search with, on the device that it runs on.
      config: settings of the search.
      otherwise: backend that "auto" stands for where the native step cannot run the network.
      key: name of the setting in the error that refuses "native" where it cannot run the network.
    """
    if config.backend not in ("auto", "native"):
        return config.backend
    reason = "expected a build with the native step, got none"
    if NATIVE_STEP is not None:
        reason = NATIVE_STEP.unsupported_reason(network, config.bf16) or ""
    if config.backend == "native" and reason:
        raise ValueError(f"{key}=native: {reason}")
    return otherwise if reason else "native"


def resolve_precision(network: BaseNetwork, config: SearchConfig) -> SearchConfig:
    """Settings with `auto_bf16` resolved: `bf16` is set if the network's device multiplies in bfloat16 natively."""
    chosen = config.auto_bf16 and multiplies_bf16(next(network.parameters()).device)
    return replace(config, bf16=config.bf16 or chosen, auto_bf16=False)


def make_native_step(network: BaseNetwork, config: SearchConfig) -> NativeStep | None:
    """Make the native step if the resolved backend is "native"; otherwise return None."""
    if config.backend != "native":
        return None
    assert NATIVE_STEP is not None, "resolve_backend has refused this"
    return NATIVE_STEP(network, bf16=config.bf16)
