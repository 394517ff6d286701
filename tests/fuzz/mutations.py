"""Mutations of files: damaged bytes, and crafted content of every format that the project reads."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    64,
    65,
    1000,
    10**6,
    10**9,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    10**400,
    0.0,
    0.5,
    -0.5,
    1.5,
    1e-300,
    1e30,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "0",
    "1e999",
    "official",
    "greedy",
    "kuhn",
    "skyjo",
    "..",
    "../../etc/passwd",
    "a" * 3000,
    "$\\frac{",
    "${oc.env:HOME}",
    "${",
    "\x00",
    "\x1b[31m",
    "line\nbreak",
    "\ud800",
    "\u202e",
    "%s%n{0}",
    [],
    {},
    [[]],
    [None],
    [0],
    [1, 2],
    [0.5] * 3,
    ["x"] * 200,
    list(range(3000)),
    {"x": 1},
    {"preset": 3},
    {"": {}},
    {str(i): i for i in range(3000)},
)
"""Values that replace others."""


def nested(depth: int) -> Any:
    """Lists within each other."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


# ---- bytes -----------------------------------------------------------------------------------------------------------


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes of a file as a bad disk, a broken transfer or a person with an editor would."""
    raw = bytearray(data)
    kind = rng.randrange(9)
    at = rng.randrange(len(raw) + 1)
    if kind == 0 and raw:
        for _ in range(rng.choice((1, 1, 3, 50))):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del raw[at:]
    elif kind == 2:
        raw[at:at] = rng.randbytes(rng.choice((1, 10, 1000)))
    elif kind == 3:
        del raw[at : at + rng.choice((1, 8, 500))]
    elif kind == 4:
        end = at + rng.choice((4, 64, 1000))
        raw[at:at] = raw[at:end]
    elif kind == 5:
        size = min(rng.choice((4, 16, 300)), len(raw) - at)
        raw[at : at + size] = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
    elif kind == 6:
        raw.clear()
    elif kind == 7:
        raw += rng.randbytes(rng.choice((1, 100)))
    else:
        raw[:] = rng.choice((b"\x80\x04\x95", b"PK\x03\x04", b"\x00" * 64, b"{" * 50_000, b"[" * 50_000)) + raw[:at]
    return bytes(raw)


# ---- trees of values -------------------------------------------------------------------------------------------------


def mutate_value(root: Any, rng: random.Random) -> Any:
    """Change one value somewhere in nested lists and mappings."""
    root = copy.deepcopy(root)
    places: list[tuple[Any, Any]] = []
    left = [root]
    while left:
        part = left.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        for key in keys:
            places.append((part, key))
            left.append(part[key])
    if not places or rng.random() < 0.02:
        return rng.choice(ODD)
    part, key = rng.choice(places)
    kind, value = rng.randrange(10), part[key]
    if kind <= 4:
        part[key] = copy.deepcopy(rng.choice(ODD))
    elif kind == 5:
        del part[key]
    elif kind == 6 and isinstance(part, dict):
        part[rng.choice(("unknown", "", "format", "\ud800", f"{key}x"))] = part.pop(key)
    elif kind == 7 and isinstance(value, int | float) and not isinstance(value, bool):
        part[key] = value * rng.choice((-1, 2, 10, 1000, 0.5)) + rng.choice((0, 1))
    elif kind == 8:
        part[key] = nested(rng.choice((3, 30, 500))) if rng.random() < 0.5 else [value] * rng.choice((2, 100))
    else:
        other, name = rng.choice(places)
        part[key] = copy.deepcopy(other[name]) if name in other or isinstance(other, list) else None
    return root


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Change a value of a JSON file."""
    return _text(mutate_value(json.loads(data), rng))


def mutate_lines(data: bytes, rng: random.Random) -> bytes:
    """Change a value in a line of a file of JSON lines."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = _text(mutate_value(json.loads(lines[at]), rng))
    return b"\n".join(lines) + b"\n"


def mutate_yaml(data: bytes, rng: random.Random) -> bytes:
    """Change a value of a configuration, or add what only YAML has."""
    if rng.random() < 0.1:
        more = (
            b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
            b"x: !!python/object/apply:os.system ['true']\n",
            b"x: 2001-01-01\n",
            b"? [1, 2]\n: 3\n",
            b"1: 2\nnull: 3\n",
            b"x: &x [*x]\n",
            b"seed: 1\nseed: 2\n",
            b"\t- tab\n",
        )
        return data + rng.choice(more)
    changed = mutate_value(yaml.safe_load(data), rng)
    try:
        return yaml.safe_dump(changed, allow_unicode=rng.random() < 0.5).encode()
    except (UnicodeEncodeError, ValueError, RecursionError):
        return _text(changed)


# ---- arrays and tensors ----------------------------------------------------------------------------------------------


def mutate_array(array: np.ndarray[Any, Any], rng: random.Random) -> np.ndarray[Any, Any]:
    """Change numbers, type or shape of an array."""
    kind = rng.randrange(9)
    array = array.copy()
    if kind <= 3 and array.size and array.dtype.kind in "iufb":
        flat, at = array.reshape(-1), rng.randrange(array.size)
        number = array.dtype.kind
        if number == "f":
            flat[at] = rng.choice((np.nan, np.inf, -np.inf, 1e30, -1.0, 0.0, 1e-42, 2.0))
        elif number == "b":
            flat[at] = not flat[at]
        else:
            info = np.iinfo(array.dtype)
            flat[at] = rng.choice((info.min, info.max, 0, 1, max(info.min, int(flat[at]) - 1), info.max // 2))
        return array
    if kind == 4 and array.dtype.kind in "iufb":
        return array.astype(rng.choice((np.float64, np.int8, np.int64, np.bool_, np.complex64, "U3", np.float16)))
    if kind == 5:
        return array.reshape(-1) if rng.random() < 0.5 else array[None]
    if kind == 6 and array.ndim:
        return array[: rng.randrange(len(array) + 1)]
    if kind == 7 and array.ndim and len(array):
        return np.concatenate([array, array[: rng.choice((1, len(array)))]])
    return np.array(rng.choice((0, -1, 10**18, np.nan, "text", b"bytes")))


def mutate_arrays(data: bytes, rng: random.Random) -> bytes:
    """Change an array of an npz file, or the archive around it."""
    with np.load(io.BytesIO(data), allow_pickle=False) as saved:
        arrays = {name: saved[name] for name in saved.files}
    name, kind = rng.choice(list(arrays)), rng.randrange(12)
    raw: dict[str, bytes] = {}
    compression = zipfile.ZIP_STORED
    if kind <= 6:
        arrays[name] = mutate_array(arrays[name], rng)
    elif kind == 7:
        del arrays[name]
    elif kind == 8:
        arrays[rng.choice(("extra", "../x", "a/b", name + "x", "key", "0.tables"))] = np.arange(3)
    elif kind == 9:
        arrays[name] = np.array([{"pickled": 1}], dtype=object)
    elif kind == 10:  # a header that promises more than there is
        shape = rng.choice(((10**12,), (2**40, 2**40), (-1,), (10**6, 10**3), (0, 10**15)))
        header = f"{{'descr': '{rng.choice(('<i8', '|O', '<U1000000', '|V0', '<f4'))}', 'fortran_order': False, "
        header += f"'shape': {shape}, }}"
        raw[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + bytes(64)
    else:
        compression = zipfile.ZIP_DEFLATED
        arrays[name] = np.zeros(rng.choice((10, 10**6)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for each, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            archive.writestr(f"{each}.npy", raw.get(each, member.getvalue()))
    return out.getvalue()


def mutate_tensors(data: bytes, rng: random.Random) -> bytes:
    """Change the metadata, the header or the numbers of a safetensors file."""
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    about, kind = header.get("__metadata__"), rng.randrange(10)
    names = [name for name in header if name != "__metadata__"]
    if kind <= 4 and about:
        key = next(iter(about))
        about[key] = rng.choice(
            (
                lambda: json.dumps(mutate_value(json.loads(about[key]), rng)),
                lambda: json.dumps(mutate_value(json.loads(about[key]), rng)),
                lambda: "[" * 100_000,
                lambda: about[key][: rng.randrange(len(about[key]))],
                lambda: json.dumps(_larger(json.loads(about[key]), rng)),
            )
        )()
    elif kind <= 6:
        name = rng.choice(names)
        begin, end = header[name]["data_offsets"]
        numbers = np.frombuffer(bytes(body[begin:end]), np.uint8).copy()
        width = 4 if header[name]["dtype"] == "F32" else 1
        fill = rng.choice((np.nan, np.inf, 0.0, 1e-42, 1e30, -1e30))
        if width == 4 and len(numbers):
            floats = numbers.view(np.float32)
            floats[rng.randrange(len(floats)) if rng.random() < 0.5 else slice(None)] = fill
        body[begin:end] = numbers.tobytes()
    elif kind == 7:
        fill = rng.choice((0.0, 1e-42, np.nan, 1e38))
        body[:] = np.full(len(body) // 4, fill, np.float32).tobytes() + bytes(len(body) % 4)
    elif kind == 8:
        name = rng.choice(names)
        entry = header[name]
        change = rng.randrange(4)
        if change == 0:
            entry["dtype"] = rng.choice(("I32", "U32", "F64", "BOOL", "X"))
        elif change == 1:
            entry["shape"] = [int(np.prod(entry["shape"], dtype=np.int64))]
        elif change == 2:
            header[rng.choice(("renamed", "", "a" * 500))] = header.pop(name)
        else:
            entry["shape"] = rng.choice(([], [2**40], [-1], [0], "x"))
    else:
        header = mutate_value(header, rng)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(body)


def _larger(about: Any, rng: random.Random) -> Any:
    """Metadata that claim a larger network."""
    sizes = [name for name, value in about["model"].items() if type(value) is int]
    for name in rng.sample(sizes, min(len(sizes), rng.choice((1, 3)))):
        about["model"][name] *= rng.choice((2, 100, 10**4, 10**6))
    return about


def mutate_store(path: Path, rng: random.Random) -> None:
    """Change a value of a row of an SQLite file in place, its type or the file's header."""
    base = sqlite3.connect(path)
    with closing(base), base:
        table = rng.choice(("rooms", "games", "results"))
        columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        row = rng.choice([number for (number,) in base.execute(f"SELECT rowid FROM {table}")])
        kind = rng.random()
        if kind < 0.7:
            (text,) = base.execute(f"SELECT content FROM {table} WHERE rowid = ?", (row,)).fetchone()
            changed = _text(mutate_value(json.loads(text), rng)).decode()
            base.execute(f"UPDATE {table} SET content = ? WHERE rowid = ?", (changed, row))
        elif kind < 0.95:
            odd = rng.choice((b"\xff\xfe", "", "x", 5, -1.5, 2**62, "[" * 100_000, "null"))
            base.execute(f"UPDATE {table} SET {rng.choice(columns)} = ? WHERE rowid = ?", (odd, row))
        else:
            name, value = rng.choice((("user_version", 7), ("application_id", 5), ("application_id", 0)))
            base.execute(f"PRAGMA {name} = {value}")


# ---- files -----------------------------------------------------------------------------------------------------------

STRUCTURED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": mutate_json,
    ".jsonl": mutate_lines,
    ".yaml": mutate_yaml,
    ".npz": mutate_arrays,
    ".safetensors": mutate_tensors,
}


def mutate_file(path: Path, rng: random.Random) -> str:
    """Change a file in place, or what stands in its place; returns the kind of mutation."""
    point = rng.random()
    if point < 0.02:
        path.unlink()
        place = rng.choice(("missing", "directory", "pipe", "loop", "endless"))
        if place == "directory":
            path.mkdir()
        elif place == "pipe":
            os.mkfifo(path)
        elif place == "loop":
            path.symlink_to(path)
        elif place == "endless":
            path.symlink_to("/dev/zero")
        return place
    if path.suffix == ".sqlite" and point >= 0.3:
        mutate_store(path, rng)
        return "crafted"
    data = path.read_bytes()
    if point < 0.3 or path.suffix not in STRUCTURED:
        path.write_bytes(damage(data, rng))
        return "damaged"
    path.write_bytes(STRUCTURED[path.suffix](data, rng))
    return "crafted"
