"""muzero.runs.memory: freed memory is kept for reuse, and fragments of it are returned."""

from __future__ import annotations

import subprocess
import sys


def test_freed_memory_is_kept_for_reuse() -> None:
    """In a process of its own, memory of freed arrays still counts as resident."""
    program = """
import sys
import numpy as np
from muzero.runs.memory import settle_memory, resident_megabytes
if sys.argv[1] == "keep":
    settle_memory()
parts = [np.full(2**20, 1, np.uint8) for _ in range(100)]
full = resident_megabytes()
del parts
print(full - resident_megabytes())
"""
    given_back = {
        how: float(subprocess.run([sys.executable, "-c", program, how], capture_output=True, check=True).stdout)
        for how in ("keep", "return")
    }
    assert given_back["keep"] < 5
    if sys.platform == "linux":
        assert given_back["return"] > 50


def test_fragments_of_freed_memory_are_returned() -> None:
    """In a process of its own, memory of freed arrays that lie between others in use goes back to the system."""
    program = """
import numpy as np
from muzero.runs.memory import give_back_memory, settle_memory, resident_megabytes
settle_memory()
parts = [np.full(2**16, 1, np.uint8) for _ in range(2000)]
del parts[::2]
before = resident_megabytes()
give_back_memory()
print(before - resident_megabytes())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    if sys.platform == "linux":
        assert float(done.stdout) > 40, "of 62"
