"""muzero.runs.tensors: files of tensors are read again and again without a trace."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import torch

from muzero.runs.tensors import read_tensors, write_tensors

KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8)


def test_tensors_and_metadata_come_back(tmp_path: Path) -> None:
    given = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in KINDS} | {"number": torch.tensor(2.5)}
    given["sick"] = torch.tensor([torch.nan, torch.inf, 1e-42])
    write_tensors(tmp_path / "file", given, {"about": "x"})
    found, about = read_tensors(tmp_path / "file")
    assert about == {"about": "x"}
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name].nan_to_num(7), tensor.nan_to_num(7))


def test_nothing_is_left_of_a_file_that_was_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", {str(number): torch.zeros(number) for number in range(100)}, None)
    read_tensors(tmp_path / "file")
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20):
        read_tensors(tmp_path / "file")
    gc.collect()
    assert sys.getallocatedblocks() - before < 400, "objects per file, of 100 tensors each, read 20 times"
