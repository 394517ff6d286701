"""Files of which there is always a whole one, and none that executes anything when it is read.

JSON, safetensors, and npz without pickles. What cannot be read is a `CheckpointError` that names the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor
from yaml import YAMLError  # type: ignore[import-untyped]

from muzero.config import require

DRAFT = ".draft-"  # in the name of what is not whole yet

_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    RuntimeError,
    SafetensorError,
    YAMLError,
    zipfile.BadZipFile,
    zlib.error,
)

Json = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, Tensor]


class CheckpointError(ValueError):
    """Something on disk cannot be used; the message names it and says why."""


def json_text(value: Mapping[str, Any]) -> str:
    """As it is written: one value a line."""
    return json.dumps(value, indent=1)


def write(path: Path, data: bytes) -> None:
    """Writes a new file, to the disk."""
    with open(path, "xb") as file:
        file.write(data)
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file in place of another; there is always one or the other."""
    draft = path.with_name(f"{path.name}{DRAFT}")
    draft.unlink(missing_ok=True)
    write(draft, data)
    draft.rename(path)
    sync(path.parent)


def sync(directory: Path) -> None:
    """Makes names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None) -> None:
    """A safetensors file, of tensors on any device, which may share memory."""
    own = {k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}
    write(path, safetensors.torch.save(own, metadata))


def write_arrays(path: Path, arrays: Arrays) -> None:
    """An npz file that is the same for the same arrays: no compression, no clock, no pickle."""
    with open(path, "xb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                require(not array.dtype.hasobject, f"{path.stem} {name}", "no objects", array.dtype)
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def fingerprint(path: Path) -> Json:
    """By which a file is known again."""
    with open(path, "rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


@contextmanager
def wrap_errors(what: str | Path) -> Iterator[None]:
    """Turns errors of reading something into `CheckpointError`s that name it."""
    try:
        yield
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise CheckpointError(f"{what}: missing") from None
    except SafetensorError as error:
        raise CheckpointError(f"{what}: expected a .safetensors file, which this is not: {error}") from error
    except _UNREADABLE as error:
        raise CheckpointError(f"{what}: {type(error).__name__}: {error}") from error


def verify(path: Path, expected: Json) -> None:
    """Raises unless a file has the fingerprint expected."""
    with wrap_errors(path):
        size = path.stat().st_size
        if size != expected["size"]:
            raise CheckpointError(f"{path}: {size} bytes, expected {expected['size']}")
        if fingerprint(path) != expected:
            raise CheckpointError(f"{path}: damaged, its SHA-256 is not the manifest's")


def read_json(path: Path) -> Json:
    """A JSON object."""
    with wrap_errors(path):
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: is not a JSON object")
        return content


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors, copied from the file, and the metadata."""
    with wrap_errors(path), safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file, none of them pickled."""
    arrays: dict[str, NDArray[Any]] = {}
    with wrap_errors(path), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def write_whole(path: Path, text: str) -> None:
    """So that nobody ever reads half of it: jobs of an array may write the same file. Not flushed to the disk."""
    draft = own_draft(path)
    draft.write_text(text)
    draft.replace(path)


def save_whole(path: Path, **arrays: NDArray[Any]) -> None:
    """The same for an npz file."""
    draft = own_draft(path)
    with open(draft, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    draft.replace(path)


def own_draft(path: Path) -> Path:
    """A name that no other job uses, on whatever machine, and that nobody takes for a result."""
    return path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.draft")
