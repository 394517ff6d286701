"""Commands in messages: they run as they stand, in a shell without an active virtual environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from muzero.runs import hints

ROOT = Path(__file__).resolve().parents[2]


def test_the_name_of_python_is_one_that_a_shell_here_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "project" / ".venv" / "bin"
    home.mkdir(parents=True)
    (home / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(home / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path / "project")
    assert hints.command("muzero.report", Path("runs/a b")) == ".venv/bin/python -m muzero.report 'runs/a b'"
    monkeypatch.chdir(tmp_path)
    assert hints.python_path() == "project/.venv/bin/python"
    monkeypatch.chdir("/")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert hints.python_path() == str(home / "python")
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    assert hints.python_path() == "python"


def test_a_hint_runs_as_typed() -> None:
    bare = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    text = hints.command("muzero.report", "--help")
    done = subprocess.run(text, shell=True, env=bare, cwd=Path.cwd(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--smooth" in done.stdout


def test_documents_write_python_in_one_way() -> None:
    """README says once how to activate the environment; no command line names its Python by a path."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert ". .venv/bin/activate" in pages[0].read_text()
    for page in pages:
        wrong = re.findall(r".*(?:venv/bin/python|\bpython3 ).*", page.read_text())
        assert not wrong, f"{page}: {wrong}"


@pytest.mark.parametrize(
    ("target", "module"), [("train", "train"), ("report", "report"), ("play", "play"), ("arena", "arena")]
)
def test_make_has_a_target_for_every_first_command(target: str, module: str) -> None:
    command = ["make", "-n", "-o", "setup", target, "RUN=runs/x", "ARGS=one=two,three"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"\.venv/bin/python -m muzero\.{module} .*one=two,three", done.stdout), done.stdout
    assert module in subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_report_says_what_to_do_without_a_run(tmp_path: Path) -> None:
    command = ["make", "-f", str(ROOT / "Makefile"), "-o", "setup", "report"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no run in runs/ yet: make train makes one, RUN=DIR names another" in done.stderr
