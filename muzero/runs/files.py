"""Files that are always complete and never execute anything when they are read.

JSON, text and npz without pickle (`muzero.runs.tensors` adds safetensors). A file is written under a temporary name
and renamed, so that a reader finds the old content or the new one. A file that cannot be used raises `CheckpointError`.
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
from numpy.typing import NDArray
from safetensors import SafetensorError
from yaml import YAMLError  # type: ignore[import-untyped]

from muzero.config_fields import require

DRAFT = ".draft-"  # part of the name of a file or directory that is not complete yet

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


class CheckpointError(ValueError):
    """Error for a file or directory that cannot be used; the message names it and gives the reason."""


# ---- writing ---------------------------------------------------------------------------------------------------------


def json_text(value: Mapping[str, Any]) -> str:
    """JSON text with one value per line, as all files of a run have it."""
    return json.dumps(value, indent=1)


def write(path: Path, data: bytes) -> None:
    """Writes a new file and flushes it to the disk; refuses to overwrite."""
    with open(path, "xb") as file:
        file.write(data)
        os.fsync(file.fileno())


def write_whole(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Creates or replaces a file atomically: a reader never sees half of it, even if several jobs write it at once.

    Args:
      path: path of the file to write; its directory exists.
      content: text (written as UTF-8) or bytes.
      durable: whether to flush file and directory to the disk first, so that the file survives a power failure.
    """
    with replacing(path) as draft, open(draft, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync(path.parent)


def save_whole(path: Path, **arrays: NDArray[Any]) -> None:
    """Creates or replaces an npz file atomically."""
    with replacing(path) as draft, open(draft, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to `path` to write to, and renames it to `path` at the end of the block.

    The name contains host and process, so that jobs on different machines do not collide, and starts with a dot, so
    that nobody takes it for a result. After an error the temporary file is removed and `path` is as before.
    """
    draft = path.with_name(f".{path.name}{DRAFT}{socket.gethostname()}-{os.getpid()}")
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def sync(directory: Path) -> None:
    """Flushes the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Writes a new npz file whose bytes depend only on the arrays: no compression, no time stamp, no pickle."""
    with open(path, "xb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                require(not array.dtype.hasobject, f"{path.stem} {name}", "no objects", array.dtype)
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


# ---- reading ---------------------------------------------------------------------------------------------------------


@contextmanager
def wrap_errors(what: str | Path) -> Iterator[None]:
    """Turns errors while reading a file into `CheckpointError`s that name the file."""
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


def fingerprint(path: Path) -> Json:
    """Size and SHA-256 of a file."""
    with open(path, "rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def verify(path: Path, expected: Json) -> None:
    """Raises `CheckpointError` unless a file has the expected fingerprint."""
    with wrap_errors(path):
        size = path.stat().st_size
        if size != expected["size"]:
            raise CheckpointError(f"{path}: {size} bytes, expected {expected['size']}")
        if fingerprint(path) != expected:
            raise CheckpointError(f"{path}: damaged, its SHA-256 is not the manifest's")


def read_json(path: Path) -> Json:
    """Reads a JSON object."""
    with wrap_errors(path):
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: expected a JSON object, got {type(content).__name__}")
        return content


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Reads the arrays of an npz file; pickled arrays are refused."""
    arrays: dict[str, NDArray[Any]] = {}
    with wrap_errors(path), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays
