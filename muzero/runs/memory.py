"""Memory of a process: how much it uses, and when it returns freed memory to the system."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of two options of mallopt
_ONEDNN_CACHE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_PRIMITIVES = "64"  # matrix products, one per shape, that oneDNN keeps prepared; its default is 1,024


def resident_megabytes() -> float:
    """Resident memory of this process in megabytes; the peak where the system does not report the present use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def settle_memory() -> None:
    """Make the memory use of a long-lived process level off early; to be called before torch computes anything.

    Freed memory is kept and used again instead of being returned to the system. And oneDNN caches fewer matrix
    products: games end one by one, so it would keep meeting new numbers of rows, and caching them, for an hour.
    """
    os.environ.setdefault(_ONEDNN_CACHE, _PRIMITIVES)
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        for option, size in ((_TRIM_THRESHOLD, 2**31 - 1), (_MMAP_THRESHOLD, 32 * 2**20)):
            mallopt(ctypes.c_int(option), ctypes.c_int(size))


def give_back_memory() -> None:
    """Return freed memory between blocks in use to the system.

    To be called now and then, so that fragments left by arrays of many different sizes do not add up.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def spare_present_objects() -> None:
    """Exempt the Python objects of now from the garbage collector, which would otherwise visit all of them every time.

    To be called when a process has built what it will keep: modules, networks, buffers. A process that goes on after it
    has dropped them calls `collect_all_objects`.
    """
    gc.collect()
    gc.freeze()


def collect_all_objects() -> None:
    """Give the objects that `spare_present_objects` has exempted back to the garbage collector."""
    gc.unfreeze()


def _of_glibc(name: str) -> Callable[..., Any] | None:
    """Function of glibc by name; None on other systems."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
