"""Files that are always complete and never execute anything when they are read.

JSON, YAML, text and npz without pickle (`muzero.runs.tensors` adds safetensors). A file is written under a temporary
name and renamed, so that a reader finds the old content or the new one. A file that cannot be used raises
`CheckpointError`; one that cannot be written raises `WriteError`. Whatever is read is compared with a schema
(`muzero.runs.schema`): nothing behind this boundary has to expect other types, sizes or nesting.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]
from numpy.typing import NDArray
from omegaconf import OmegaConf
from safetensors import SafetensorError

from muzero.config.fields import require
from muzero.runs.schema import MOST_NESTING, Check, SchemaError, anything, check_value, mapping, refuse

DRAFT = ".draft-"  # part of the name of a file or directory that is not complete yet

MOST_JSON = 64 * 2**20  # bytes of a JSON file; the largest, a run's metrics, grow by a few kilobytes per iteration
_MOST_YAML = 2**18  # bytes of a configuration
_MOST_ARRAYS = 200_000  # arrays in an npz file; the largest, of self-play, has a few hundred per worker and table size

Json = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]


class CheckpointError(ValueError):
    """Error for a file or directory that cannot be used; the message names it and gives the reason."""


class WriteError(OSError):
    """Error for a file that cannot be written; the message names it, the reason and what is needed."""


# ---- writing ---------------------------------------------------------------------------------------------------------


def json_text(value: Mapping[str, Any]) -> str:
    """JSON text with one value per line, as all files of a run have it."""
    return json.dumps(value, indent=1)


@contextmanager
def writing(path: Path, size: int | None = None) -> Iterator[None]:
    """Turns errors while writing a file into a `WriteError`, in one line that says what is needed.

    Args:
      path: path of the file.
      size: number of bytes to write, if known.
    """
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}; {_needed(path, size)}") from None


def _needed(path: Path, size: int | None) -> str:
    """Needs of a file that could not be written: room, and a directory that can be written to."""
    there = next((place for place in path.parents if place.is_dir()), Path())
    much = f"{size / 2**20:.1f} MB" if size is not None else "room"
    try:
        free = f"{shutil.disk_usage(there).free / 2**20:.1f} MB are free"
    except OSError as error:
        free = f"the room there is unknown ({error.strerror})"
    return f"it needs {much} and a directory that can be written to; {free} in {there}"


def write(path: Path, data: bytes) -> None:
    """Writes a new file and flushes it to the disk; refuses to overwrite."""
    with writing(path, len(data)), open(path, "xb") as file:
        file.write(data)
        os.fsync(file.fileno())


def write_whole(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Creates or replaces a file atomically: a reader never sees half of it, even if several jobs write it at once.

    Args:
      path: path of the file to write; its directory exists.
      content: text (written as UTF-8) or bytes.
      durable: whether to flush file and directory to the disk first, so that the file survives a power failure.
    """
    data = content.encode() if isinstance(content, str) else content
    with writing(path, len(data)):
        with replacing(path) as draft, open(draft, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if durable:
            sync(path.parent)


def save_whole(path: Path, **arrays: NDArray[Any]) -> None:
    """Creates or replaces an npz file atomically."""
    size = sum(array.nbytes for array in arrays.values())
    with writing(path, size), replacing(path) as draft, open(draft, "wb") as file:
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
    with writing(path, sum(array.nbytes for array in arrays.values())), open(path, "xb") as file:
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
    """Turns errors while reading a file into `CheckpointError`s that name the file, in one line.

    Parsers of files that somebody else has made raise errors of nearly every kind.
    """
    try:
        yield
    except CheckpointError:
        raise
    except SchemaError as error:
        raise CheckpointError(f"{what}: {error}") from None
    except FileNotFoundError:
        raise CheckpointError(f"{what}: missing") from None
    except SafetensorError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{what}: expected a .safetensors file, which this is not: {reason}") from error
    except Exception as error:
        reason = ascii(" ".join(str(error).split()))[1:-1]
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise CheckpointError(f"{what}: {kind}{reason[:300]}") from error


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


def read_bytes(path: Path, most: int) -> bytes:
    """Reads a regular file of limited size."""
    with wrap_errors(path), open(path, "rb", opener=_open_at_once) as file:
        size = _regular_size(path, file.fileno())
        if size > most:
            raise CheckpointError(f"{path}: expected at most {most} bytes, got {size}")
        return file.read(most)


def _regular_size(path: Path, descriptor: int) -> int:
    """Size of an open file; refuses devices and pipes, which may never end."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path}: expected a file, got something else, such as a device or a pipe")
    return found.st_size


def _open_at_once(path: str, flags: int) -> int:
    """Opens a file without waiting, as for a pipe that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def parse_json(where: str | Path, data: bytes | str, check: Check) -> Any:
    """Reads JSON that fits a schema; an error begins with `where`."""
    with wrap_errors(where):
        try:
            content = json.loads(data)
        except RecursionError:
            refuse("", f"at most {MOST_NESTING} levels of nesting", found="many more")
        check_value(check, content)
        return content


def read_json(path: Path, check: Check = mapping(anything, most=10_000)) -> Json:  # noqa: B008
    """Reads a JSON object that fits a schema."""
    content: Json = parse_json(path, read_bytes(path, MOST_JSON), check)
    return content


def read_yaml(path: Path, check: Check = mapping(anything)) -> Json:  # noqa: B008
    """Reads a configuration in YAML that fits a schema. Aliases, which can make a small file huge, are refused."""
    data = read_bytes(path, _MOST_YAML)
    with wrap_errors(path):
        depth = 0
        for event in yaml.parse(data, yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                refuse("", "no aliases", found=f"*{ascii(event.anchor)[1:-1]}")
            begins, ends = isinstance(event, yaml.CollectionStartEvent), isinstance(event, yaml.CollectionEndEvent)
            depth += int(begins) - int(ends)
            if depth > MOST_NESTING:
                refuse("", f"at most {MOST_NESTING} levels of nesting", found="more")
        content: Json = OmegaConf.to_container(OmegaConf.create(data.decode()))  # type: ignore[assignment]
        check_value(check, content)
        return content


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Reads the arrays of an npz file; pickled and compressed arrays, and sizes beyond the file's, are refused."""
    arrays: dict[str, NDArray[Any]] = {}
    with wrap_errors(path), ExitStack() as stack:
        file = stack.enter_context(open(path, "rb", opener=_open_at_once))
        size = _regular_size(path, file.fileno())
        archive = stack.enter_context(zipfile.ZipFile(file))
        members = archive.infolist()
        if len(members) > _MOST_ARRAYS:
            refuse("arrays", f"at most {_MOST_ARRAYS}", len(members))
        for entry in members:
            name = entry.filename.removesuffix(".npy")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size:
                refuse(
                    ascii(name), "an array that is not compressed", found=f"{entry.file_size} bytes in a file of {size}"
                )
            with archive.open(entry) as member:
                shape, dtype, begin = _read_array_header(member)
                if dtype.hasobject or (dtype.itemsize == 0 and shape != () and 0 not in shape):
                    refuse(ascii(name), "numbers or text", found=str(dtype))
                needed = dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
                if begin + needed != entry.file_size:
                    refuse(
                        ascii(name), f"{entry.file_size - begin} bytes", found=f"{needed} for {dtype} {list(shape)[:8]}"
                    )
            with archive.open(entry) as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def _read_array_header(member: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type of an array, and the number of bytes before its numbers."""
    version = np.lib.format.read_magic(member)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        refuse("version of an array", "1.0 or 2.0", version)
    shape, _, dtype = readers[version](member)
    return shape, dtype, member.tell()


def require_arrays(
    where: str | Path, arrays: Arrays, expected: Mapping[str, tuple[Any, tuple[int | None, ...]]]
) -> None:
    """Compares names, types and shapes of arrays with what is expected; other names are refused.

    Args:
      where: file of the arrays, for the error.
      arrays: arrays by name.
      expected: type and shape by name; None in a shape stands for any number.
    """
    with wrap_errors(where):
        unknown = sorted(set(arrays) ^ set(expected))
        if unknown:
            wanted = "an array" if unknown[0] in expected else f"only {', '.join(expected)}"
            refuse(ascii(unknown[0])[1:-1], wanted, found="none" if unknown[0] in expected else "an array")
        for name, (dtype, shape) in expected.items():
            found = arrays[name]
            same = len(found.shape) == len(shape) and all(
                w in (None, n) for w, n in zip(shape, found.shape, strict=True)
            )
            if found.dtype != np.dtype(dtype) or not same:
                lengths = ["any" if length is None else length for length in shape]
                refuse(name, f"{np.dtype(dtype)} {lengths}", found=f"{found.dtype} {list(found.shape)[:8]}")
