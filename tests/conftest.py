"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

# One thread per test process: the networks in tests are tiny, and a second core is worth less than the wait for it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def keyboard() -> Iterator[None]:
    """Ctrl-C as in a terminal; whoever starts the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
