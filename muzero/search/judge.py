"""Choice of the code that judges positions by a network without choosing actions: native where it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from muzero.model.native.slot_training import SlotValues

if TYPE_CHECKING:
    from torch import Tensor

    from muzero.model.interface import BaseNetwork


class NativeValues(Protocol):
    """Numbers that a network says about positions, computed without torch.

    Args:
      network: network to compute, one for which `unsupported_reason` is None.
    """

    def __init__(self, network: BaseNetwork) -> None: ...

    @staticmethod
    def unsupported_reason(network: BaseNetwork) -> str | None:
        """Reason why a network cannot be judged by, as "expected ..., got ...", or None if it can."""
        ...

    def refresh(self) -> None:
        """Take over the network's present weights."""
        ...

    def judge(self, obs: NDArray[np.int16]) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits of values, points to come and winner. `SlotValues.judge` explains the shapes."""
        ...


NATIVE_VALUES: type[NativeValues] | None = SlotValues


def make_native_values(network: BaseNetwork) -> NativeValues | None:
    """Make the native judge of positions; None where it cannot run the network, as it is now."""
    if NATIVE_VALUES is None or NATIVE_VALUES.unsupported_reason(network) is not None:
        return None
    return NATIVE_VALUES(network)
