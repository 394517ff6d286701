"""The house: packages in order, files of readable size, imports at the top, commands in short files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("env", "mcts", "muzero")
MOST_LINES = 450
MOST_ENTRIES = 18  # of muzero/: ten packages, the settings, six commands, `__init__.py`
MOST_LAYERS = 12  # of modules that import each other
OPTIONAL = {  # may be imported inside a function
    "ray",
    "wandb",
    "wandb_workspaces",
    "tensorboard",
    "jax",
    "mctx",
    "fastapi",
    "uvicorn",
    "onnxscript",
}


def sources(*suffixes: str) -> list[Path]:
    """Files of the three packages that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / line for line in listed.splitlines() if line.endswith(suffixes) and (ROOT / line).exists()]


def test_no_source_file_is_longer_than_the_limit() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources(".py", ".h", ".cpp")}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_muzero_shows_packages_and_commands_and_little_else() -> None:
    top = {path.relative_to(ROOT / "muzero").parts[0] for path in sources("") if (ROOT / "muzero") in path.parents}
    assert len(top) <= MOST_ENTRIES, sorted(top)
    readme = (ROOT / "README.md").read_text()
    own = {"__init__.py"}  # the package itself
    commands = {
        name for name in top if name in ("train.py", "evaluate.py", "ladder.py", "report.py", "play.py", "engine.py")
    }
    unexplained = [name for name in top - own - commands if f"`muzero/{name}" not in readme]
    assert unexplained == []


@pytest.mark.parametrize("path", sources(".py"), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_stand_at_the_top_of_the_file(path: Path) -> None:
    tree = ast.parse(path.read_text())
    inside = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {
        alias.name.split(".")[0] if isinstance(node, ast.Import) else (node.module or "").split(".")[0]
        for node in inside
        for alias in node.names
    }
    assert names <= OPTIONAL


@pytest.mark.parametrize("folder", ["env", "experiments", "mcts", "muzero", "tests"])
def test_docstrings_start_with_a_noun_or_a_verb(folder: str) -> None:
    """A docstring that starts with one of these words leaves its noun out, and cannot be understood alone."""
    elliptical = re.compile(r"(Of|What|Whoever|Whose|Who|That|Those|How|Where|Which) ")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            text = (ast.get_docstring(node) if isinstance(node, kinds) else None) or ""
            if elliptical.match(text):
                found.append(f"{path.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert found == []


def test_no_more_import_layers_than_the_limit() -> None:
    """A module's layer is one above the highest module of muzero that it imports."""
    modules = {}
    for path in sources(".py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name.startswith("muzero"):
            modules[name] = path

    @cache
    def layer(name: str) -> int:
        below = [layer(other) for other in imported(modules[name]) if other in modules and other != name]
        return 1 + max(below, default=0)

    def imported(path: Path) -> set[str]:
        found: set[str] = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        return found - {"muzero"}

    layers = {name: layer(name) for name in modules}
    assert max(layers.values()) <= MOST_LAYERS, sorted(layers.items(), key=lambda item: -item[1])[:20]


def test_packages_import_only_packages_below_them() -> None:
    """The contracts are in pyproject.toml, section importlinter."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)


def test_glossary_is_in_alphabetical_order() -> None:
    text = (ROOT / "docs" / "map.md").read_text().split("## Glossary")[1]
    words = re.findall(r"^\| ([^|]+) \| ", text, re.MULTILINE)[1:]
    assert len(words) > 40
    assert words == sorted(words)
    assert len(words) == len(set(words))
