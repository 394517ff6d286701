"""All scripts in experiments/: each one is documented, and runs as a module and as a file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path for path in (ROOT / "experiments").glob("*.py") if path.name != "__init__.py")
NAMES = [path.stem for path in SCRIPTS]


def test_every_script_is_listed_in_the_docs_and_nothing_else() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert sorted(listed) == sorted([*NAMES, "study"])
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_usage_is_that_of_a_module(path: Path) -> None:
    text = path.read_text()
    assert f"    python -m experiments.{path.stem}" in text.split('"""')[1]
    assert f"python experiments/{path.name}" not in text


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_scripts_that_import_others_can_run_as_files(path: Path) -> None:
    """Python then looks for modules beside the file, so the project's root is added before the first such import."""
    head, found, _ = path.read_text().partition("\nfrom experiments")
    assert not found or "\nsys.path.insert(0, str(Path(__file__).resolve().parent.parent))\n" in head


def test_a_script_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "experiments" / "table_sizes.py"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--games" in done.stdout
