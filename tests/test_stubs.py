"""The generated type stubs beside the extension modules are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("[!.]*/**/bindings.cpp"))


@pytest.mark.parametrize("package", PACKAGES)
def test_stub_is_current(package: str, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.pyi"
    stubgen = [sys.executable, "-m", "nanobind.stubgen", "-q", "-D"]
    subprocess.run([*stubgen, "-m", f"{package.replace('/', '.')}._native", "-o", fresh], check=True, cwd=ROOT)
    assert (ROOT / package / "_native.pyi").read_text() == fresh.read_text(), "run `make stubs`"
