"""Numbers that a slots network says about positions, in C++: values, points to come and chances to win, no policy.

For callers that judge many positions and choose no action there: luck adjustment and exhaustive searches of a turn.
`muzero.search.judge` is the only module that uses this one.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from muzero.model.interface import BaseNetwork
from muzero.model.native import _native
from muzero.model.native.slot_passes import padded
from muzero.model.native.slot_training import SlotTraining
from muzero.model.network import Network


class SlotValues(SlotTraining):
    """Heads of a slots network that say numbers about positions; the other heads are not computed.

    Args:
      network: slots network, on the CPU; see `unsupported_reason`. Later changes of its weights are not noticed.
    """

    def __init__(self, network: BaseNetwork) -> None:
        super().__init__(network)
        with torch.no_grad():
            self.refresh()

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
