"""Priorities on their way from the learner to the replay buffers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from muzero.data.replay_buffer import Batch, ReplayBuffer


class Priorities:
    """Gives replay buffers the TD errors of learner steps as new priorities.

    On a GPU those of a step are given after the next step has been queued, so that the host never waits for an idle
    GPU; on a CPU at once.
    """

    def __init__(self) -> None:
        self._under_way: tuple[ReplayBuffer, Batch, Tensor, torch.cuda.Event] | None = None

    def note(self, replay: ReplayBuffer, batch: Batch, td_error: Tensor) -> None:
        """Take the TD errors [B] of a step with a batch of a buffer."""
        if td_error.device.type != "cuda":
            _update(replay, batch, td_error)
            return
        host = torch.empty(td_error.shape, pin_memory=True)
        host.copy_(td_error, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record(torch.cuda.current_stream(td_error.device))
        self.finish()
        self._under_way = replay, batch, host, arrived

    def finish(self) -> None:
        """Wait for the TD errors under way, if any, and give them to their buffer."""
        if self._under_way is not None:
            replay, batch, host, arrived = self._under_way
            self._under_way = None
            arrived.synchronize()
            _update(replay, batch, host)


def _update(replay: ReplayBuffer, batch: Batch, td_error: Tensor) -> None:
    """Set the priorities of a batch; numbers that are not finite are left to `Learner.report`, which raises."""
    priority = td_error.numpy()
    if np.isfinite(priority).all():
        replay.update(batch.index, batch.stamp, priority)
