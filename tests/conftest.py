"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# One thread per test process: the networks in tests are tiny, and a second core is worth less than the wait for it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray's processes compete with the other tests as equals: at their usual niceness of 15 a test waits a minute for them.
os.environ.setdefault("RAY_worker_niceness", "0")

# Folders whose files take longest, in this order. They run first, so that all processes of `make test` end together.
LONG = ("training", "selfplay", "matches", "experiments")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of the folders in `LONG` to the front; the order is otherwise unchanged."""
    here = Path(__file__).parent
    folders = {item: item.path.relative_to(here).parts[0] for item in items}
    items.sort(key=lambda item: LONG.index(folders[item]) if folders[item] in LONG else len(LONG))


@pytest.fixture
def keyboard() -> Iterator[None]:
    """Ctrl-C as in a terminal; whoever starts the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
