"""Cores of the machine that a run may use."""

from __future__ import annotations

import os


def cores() -> int:
    """CPU cores available to this process (SLURM limits respected)."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return max(1, min(free, int(given))) if given.isdigit() else free
