"""Tensors in safetensors files; not part of `files`, so that a program that only reads results need not load torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor

from muzero.runs.files import wrap_errors, write

Tensors = Mapping[str, Tensor]


def write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None) -> None:
    """Writes a new safetensors file; tensors may be on any device and may share memory."""
    own = {k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}
    write(path, safetensors.torch.save(own, metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads the tensors (copies, on the CPU) and the metadata of a safetensors file."""
    with wrap_errors(path), safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
