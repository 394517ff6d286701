"""Tensors in safetensors files; not part of `files`, so that a program that only reads results need not load torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor

from muzero.runs.files import CheckpointError, wrap_errors, write

Tensors = Mapping[str, Tensor]
_LARGEST = 1e9  # size of no weight; the step count of an optimiser, a tensor too, stays below it
_SMALLEST = 1e-20  # size below which a weight has no effect; numbers of single precision are normal down to 1e-38


def write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None) -> None:
    """Writes a new safetensors file; tensors may be on any device and may share memory."""
    own = {k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}
    write(path, safetensors.torch.save(own, metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads the tensors (copies, on the CPU) and the metadata of a safetensors file."""
    with wrap_errors(path):
        if not path.is_file():
            raise FileNotFoundError if not path.exists() else CheckpointError(f"{path}: expected a file, got none")
        with safe_open(path, "pt") as file:  # compares the header with the size of the file before anything is read
            metadata = file.metadata() or {}
        # `get_tensor` of safetensors 0.8 loses two small objects at each call, and a run reads a past network again
        # and again.
        return {name: tensor.clone() for name, tensor in safetensors.torch.load(path.read_bytes()).items()}, metadata


def require_finite(path: str | Path, tensors: Tensors) -> None:
    """Refuses tensors with NaN, infinity, or numbers as large as training never makes them; the error names them."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() or tensor.is_complex():
            sick = int(tensor.numel() - (tensor.abs() <= _LARGEST).sum())
            if sick:
                found = f"{sick} of {tensor.numel()} that are NaN, infinite or larger than {_LARGEST:g}"
                raise CheckpointError(f"{path}: tensor {ascii(name)[1:-1]}: expected finite numbers, got {found}")


def weakness(tensors: Tensors) -> str:
    """Reason why weights are finite but those of no trained network; "" if there is none.

    Args:
      tensors: weights of a network; only matrices count, because biases may well be zero.
    """
    matrices = [t.detach().float() for t in tensors.values() if t.is_floating_point() and t.ndim >= 2 and t.numel()]
    count = sum(m.numel() for m in matrices)
    if not count:
        return ""
    zeros = sum(int((m == 0).sum()) for m in matrices)
    tiny = sum(int(((m != 0) & (m.abs() < _SMALLEST)).sum()) for m in matrices)
    if zeros == count:
        return "all weights are 0"
    if zeros + tiny > count // 2:
        return f"{zeros + tiny} of {count} weights are 0 or smaller than {_SMALLEST:g}"
    return ""
