"""Waiting policy of OpenMP's threads, by which torch computes; chosen before torch is loaded, by importing muzero.

A thread of OpenMP that has nothing to do, between two operations or because another thread is late, spins for a while
before it sleeps: by default 3 ms with GNU's library, which torch's wheels for Linux bring along, and 200 ms with LLVM's
and Intel's. Operations of a network follow each other within microseconds, so spinning pays, but not for that long: on
a machine with other work a late thread is not running because others have its core, and those that spin for it use up
the time that all of them are given. `experiments/bench_search.py --busy` measures the difference.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

# Setting of each OpenMP library, read once when it is loaded, and our choice.
CHOICES = {
    "GOMP_SPINCOUNT": "10000",  # GNU: about 0.1 ms
    "KMP_BLOCKTIME": "1",  # LLVM and Intel: in milliseconds, the shortest but for none at all
}
_PORTABLE = "OMP_WAIT_POLICY"  # means 0 or endless spinning in every library


def choose_waiting_policy(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP's threads spin for a short time only, in this process and those that it starts.

    Has no effect on a process that has loaded torch. A choice of the user's, by any of the variables, is kept.

    Args:
      environment: environment variables to change.
    """
    if not any(name in environment for name in (_PORTABLE, *CHOICES)):
        environment.update(CHOICES)
