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


def test_objects_of_a_run_that_is_over_are_collected() -> None:
    """In a process of its own: a sweep trains run after run, and none may stay."""
    program = """
import weakref
from muzero.runs.memory import collect_all_objects, spare_present_objects
class Trainer: pass
trainer = Trainer()
trainer.itself = trainer
seen = weakref.ref(trainer)
spare_present_objects()
del trainer
import gc
gc.collect()
kept = seen() is not None
collect_all_objects()
gc.collect()
print(kept, seen() is None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["True", "True"]
