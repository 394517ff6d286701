"""Learner over several processes: each computes the gradients of its share of a batch, all make the same step.

`torchrun --nproc_per_node=2 -m muzero.train ...` starts such a run, one process per GPU, or on CPUs. The processes are
told of each other by torchrun's environment variables WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; in a
SLURM step, where each task is one process, SLURM_PROCID and SLURM_LOCALID serve for RANK and LOCAL_RANK. There is no
setting for it: a run may be resumed with another number of processes.

Rank 0 is the run: it plays, samples batches, evaluates, and writes metrics and checkpoints. The other ranks are given
weights and optimiser once and their share of each batch, and end when rank 0 does. `learner.batch` is the size of the
joint batch. Windows are dealt like cards, window i to rank i modulo W, so that the windows that the losses compare with
real positions, the first quarter of a batch, are the first quarter of each share, too (if 4 W divides the batch; the
results are then those of a single process, but for rounding). Batches and commands travel as plain bytes through gloo,
gradients through NCCL where they lie on GPUs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from muzero.config.fields import require
from muzero.data.replay_buffer import Batch
from muzero.runs.processes import first_line

_STOP, _STEP = 0, 1
_MOST_DIMS = 4  # of an array of a batch
_DTYPES = tuple(np.dtype(name) for name in ("int8", "int16", "int32", "int64", "float32", "float64"))
_FIELDS = tuple(field.name for field in fields(Batch))
_WAIT = timedelta(days=7)  # the other ranks wait while rank 0 plays and evaluates; if it dies, they notice at once


def end_process(code: int) -> NoReturn:
    """End a process that was connected to others, at once.

    Now and then a thread of the connections outlives them and aborts an interpreter that is about to end: torchrun
    would take that for a failure of the run.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Peers:
    """The processes that share a learner's work, seen from one of them.

    Attributes:
      rank: number of this process; 0 samples the batches.
      size: number of processes, W.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank, self.size = rank, size
        self._in_step = False
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=_WAIT)

    def deal(self, batch: Batch, iteration: int) -> Batch:
        """Give each process its share of a batch (rank 0); returns this process's own share."""
        self._in_step = True
        shares = [{name: getattr(batch, name)[rank :: self.size] for name in _FIELDS} for rank in range(self.size)]
        header = [_STEP, iteration]
        for array in shares[0].values():
            header += [_DTYPES.index(array.dtype), array.ndim, *array.shape, *[0] * (_MOST_DIMS - array.ndim)]
        dist.broadcast(torch.tensor(header), 0)
        packed = [b"".join(array.tobytes() for array in share.values()) for share in shares]
        tensors = [torch.from_numpy(np.frombuffer(part, np.uint8).copy()) for part in packed]
        dist.scatter(torch.empty_like(tensors[0]), tensors, 0)
        return Batch(**{name: np.ascontiguousarray(array) for name, array in shares[0].items()})

    def receive(self) -> tuple[Batch, int] | None:
        """Share of the next batch, and the iteration, as rank 0 deals them; None if there is no further one.

        Raises:
          ConnectionError: rank 0 has ended without a word.
        """
        header = torch.zeros(2 + len(_FIELDS) * (2 + _MOST_DIMS), dtype=torch.int64)
        try:
            dist.broadcast(header, 0)
        except RuntimeError as error:
            raise ConnectionError(f"rank 0 has ended without a word ({first_line(error)})") from None
        command, iteration, *rest = header.tolist()
        if command == _STOP:
            return None
        kinds = [rest[i : i + 2 + _MOST_DIMS] for i in range(0, len(rest), 2 + _MOST_DIMS)]
        types = [(_DTYPES[code], tuple(shape[:ndim])) for code, ndim, *shape in kinds]
        sizes = [dtype.itemsize * int(np.prod(shape)) for dtype, shape in types]
        packed = torch.empty(sum(sizes), dtype=torch.uint8)
        dist.scatter(packed, None, 0)
        parts = np.split(packed.numpy(), np.cumsum(sizes)[:-1])
        arrays = [part.view(dtype).reshape(shape) for part, (dtype, shape) in zip(parts, types, strict=True)]
        return Batch(**dict(zip(_FIELDS, arrays, strict=True))), iteration

    def finish_step(self) -> None:
        """Note that a step is complete: the other processes listen again (rank 0)."""
        self._in_step = False

    def stop(self) -> None:
        """Let the other processes end (rank 0). In the middle of a step they cannot listen, and end with this one."""
        if dist.is_initialized() and not self._in_step:
            dist.broadcast(torch.zeros(2 + len(_FIELDS) * (2 + _MOST_DIMS), dtype=torch.int64), 0)
            self.leave()

    def end_process(self) -> NoReturn:
        """Close the connections and end this process, which has nothing left to do (not rank 0)."""
        self.leave()
        end_process(0)

    def leave(self) -> None:
        """Close the connections, when all processes do so."""
        dist.barrier()
        dist.destroy_process_group()

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors on one device by their sums over all processes, in one transfer."""
        joint = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(joint)
        for tensor, part in zip(tensors, torch.split(joint, [t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def rows_of_all(self, rows: Tensor) -> Tensor:
        """Numbers [B / W] of the windows of each process -> [B], in the order of the joint batch."""
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(parts, rows.contiguous())
        return torch.stack(parts, 1).flatten()

    def share_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Overwrite the tensors of the other processes, of the same names and shapes, by those of rank 0."""
        for name in sorted(tensors):
            dist.broadcast(tensors[name], 0)


def rank_and_size() -> tuple[int, int]:
    """Number of this process among those of a run, and their number; (0, 1) where torchrun has not started it.

    Raises:
      ValueError: the environment variables contradict each other.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID", "")) if size != "1" else "0"
    require(size.isdigit() and int(size) > 0, "WORLD_SIZE", "a number of processes", size)
    require(rank.isdigit() and int(rank) < int(size), "RANK", f"0 to {int(size) - 1}, as torchrun sets it", rank)
    return int(rank), int(size)


def own_device(device: torch.device) -> torch.device:
    """Device of this process among several on a machine: "cuda" means the GPU that LOCAL_RANK names."""
    if device.type != "cuda" or device.index is not None or rank_and_size()[1] == 1:
        return device
    local = os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0"))
    require(local.isdigit(), "LOCAL_RANK", "the number of a process on its machine", local)
    chosen = torch.device("cuda", int(local) % torch.cuda.device_count())
    torch.cuda.set_device(chosen)
    return chosen


def join_peers(batch: int, device: torch.device) -> Peers | None:
    """Connect to the other processes of this run; None if there are none.

    Args:
      batch: windows of a joint batch, `learner.batch`.
      device: device of this process's learner.
    """
    rank, size = rank_and_size()
    if size == 1:
        return None
    require(batch % size == 0, "learner.batch", f"a multiple of the number of processes, WORLD_SIZE={size}", batch)
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        require(bool(os.environ.get(name)), name, "where rank 0 listens, as torchrun sets it", os.environ.get(name, ""))
    return Peers(rank, size, device)
