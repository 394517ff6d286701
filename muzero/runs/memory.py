"""Memory of a process: how much it has, and what becomes of what it frees."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # options of mallopt
_ONEDNN_CACHE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_PRODUCTS = "64"  # matrix products of some shape that are kept ready; of its own accord, 1,024


def resident_megabytes() -> float:
    """Memory of this process that is in use; at its peak, where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def settle_memory() -> None:
    """Makes the memory of a long-lived process settle soon; to be called before torch computes anything.

    Freed memory is used again instead of being given back: what is needed is taken once, and stays. And oneDNN keeps
    fewer matrix products ready: games end one by one, so that it would go on meeting new numbers of rows for an hour.
    """
    os.environ.setdefault(_ONEDNN_CACHE, _PRODUCTS)
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        for option, size in ((_TRIM_THRESHOLD, 2**31 - 1), (_MMAP_THRESHOLD, 32 * 2**20)):
            mallopt(ctypes.c_int(option), ctypes.c_int(size))


def give_back_memory() -> None:
    """Returns to the system what has been freed and lies in pieces between what is in use. Called now and then, so that
    a process does not grow by the scraps of arrays of ever other sizes."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _of_glibc(name: str) -> Callable[..., Any] | None:
    """A function of glibc; None elsewhere."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
