"""Waiting policy that `import muzero` chooses: torch's threads spin for a short time, or as the user says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from muzero import _SPINNING, _choose_spinning

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def test_the_choice_covers_every_openmp_library() -> None:
    environment: dict[str, str] = {"HOME": "/"}
    _choose_spinning(environment)
    assert environment == {"HOME": "/", **_SPINNING}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_choice_of_the_user_wins(name: str) -> None:
    environment = {name: "ACTIVE"}
    _choose_spinning(environment)
    assert environment == {name: "ACTIVE"}


def spin_count(program: str, **given: str) -> str | None:
    """Spin count that GNU's OpenMP library reports when a program loads it; None if torch uses another library."""
    plain = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment = {**plain, **given, "OMP_DISPLAY_ENV": "verbose"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.findall(r"GOMP_SPINCOUNT = '(\w+)'", done.stderr)
    return found[-1] if found else None


def test_the_library_has_read_the_choice_when_a_command_has_loaded_torch() -> None:
    """The command of training is imported as `python -m` does it, its package first."""
    count = spin_count("import muzero.train")
    if count is None:
        pytest.skip("torch does not use GNU's OpenMP library here")
    assert count == _SPINNING["GOMP_SPINCOUNT"]


def test_a_child_process_that_loads_the_library_of_torch_inherits_the_choice() -> None:
    (torch,) = find_spec("torch").submodule_search_locations  # type: ignore[union-attr,misc]
    libraries = [str(path) for path in (Path(torch) / "lib").glob("libgomp*")]
    load = f"import ctypes; [ctypes.CDLL(path) for path in {libraries}]"  # as torch does, in a hundredth of the time
    child = f"import muzero, subprocess, sys; subprocess.run([sys.executable, '-c', {load!r}], check=True)"
    count = spin_count(child)
    if count is None:
        pytest.skip("torch does not use GNU's OpenMP library here")
    assert count == _SPINNING["GOMP_SPINCOUNT"]
    assert spin_count(child, OMP_WAIT_POLICY="passive") == "0"
