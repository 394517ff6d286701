"""Every command that README and documents show runs as typed, in short form, or is listed with the reason why not.

Commands run in a shell that knows nothing of this one: without an active environment and with few variables. What the
documents write with `python` runs after the line that they give once, `. .venv/bin/activate`; all else without it.
"""

from __future__ import annotations

import ast
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import env
from env.game_record import GameRecord
from tests.documented_commands import COMMANDS, NO_COMMANDS, TRAIN, Run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = (ROOT / "experiments/results").glob("*/README.md")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *RESULTS])
# Code in a line of text that is a command: it begins with a program and has a blank or is a file of slurm/.
PROGRAMS = r"python -m|make |slurm/|pip |torchrun |wandb |srun |sacct|docker |apptainer |\.ci/|tests/slurm/|\. \.venv"
FILES = ("runs", "results", "out", "mine", "build", "dist", ".git", ".pytest_cache")  # not shared with the test's shell
ACTIVATE = ("python", "torchrun", "tensorboard", "pip", "wandb")


def commands(page: str) -> list[str]:
    """Commands that a page shows: lines of its indented blocks and code in its text, without comments."""
    found, block = [], []
    text = re.sub(r"```(?!sh|bash|console).*?```", "", page, flags=re.S)
    for line in [*text.splitlines(), ""]:
        if line.startswith("    ") and line.strip():
            block.append(line.strip())
            continue
        if block and not block[0].startswith(NO_COMMANDS):
            found += re.sub(r"\\\n", "", "\n".join(block)).splitlines()
        block = []
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    found += [code for code in re.findall(r"`([^`]+)`", prose) if re.match(PROGRAMS, code)]
    plain = (
        re.sub(r"(^|\s)#.*$", "", " ".join(command.split())) if "printf" not in command else command
        for command in found
    )
    return [command.strip() for command in plain if command.strip()]


DOCUMENTED = {command: page.relative_to(ROOT) for page in PAGES for command in commands(page.read_text())}


def test_commands_are_found_in_blocks_and_in_text_without_their_comments() -> None:
    page = (
        "Text with `make test` and `no command`.\n\n    python -m a \\\n        b=1   # why\n    # only a comment\n\n"
        "```python\n    python -m not.me\n```\n\n    G = 0x9e3779b97f4a7c15\n    x\n"
    )
    assert commands(page) == ["python -m a b=1", "make test"]


def test_every_documented_command_is_run_or_has_a_reason_and_no_other_is_listed() -> None:
    new = {command: str(page) for command, page in DOCUMENTED.items() if command not in COMMANDS}
    assert new == {}, "add them to tests/documented_commands.py: how to run each in short form, or why not"
    gone = [command for command in COMMANDS if command not in DOCUMENTED]
    assert gone == [], "no document shows them any more"


def test_every_documented_command_is_good_shell() -> None:
    for command in DOCUMENTED:
        if "..." not in command:
            done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory that looks like the project's, with directories of its own for what commands write."""
    place = tmp_path_factory.mktemp("desk")
    for path in ROOT.iterdir():
        if path.name not in FILES:
            (place / path.name).symlink_to(path)
    if subprocess.run(["make", "-q", "setup"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("the sources have changed since make setup")
    tables = env.make("kuhn", num_envs=1, num_players=2, seed=3)
    actions = []
    while not tables.done[0]:
        actions.append(int(tables.legal[0].argmax()))
        tables.step(tables.legal.argmax(axis=1))
    GameRecord.of(tables, 0, seed=3, deal=0, agents=["first", "second"], actions=actions).save(place / "record.json")
    return place


def _hear_ctrl_c() -> None:
    """Undo that a process in the background ignores Ctrl-C, if the tests run there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def shell(desk: Path, command: str, how: Run) -> tuple[int, str]:
    """Exit code and output of a command that is typed into a new shell."""
    for old, new in how.swap:
        command = command.replace(old, new)
    command = f"{command} {how.add}".strip().replace("FILE", "record.json")
    if "PORT" in command:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            command = command.replace("PORT", str(free.getsockname()[1]))
    active = ". .venv/bin/activate && " if command.startswith(ACTIVATE) else ""
    known = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    known |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1", "TERM": "dumb", "WANDB_MODE": "offline"}
    process = subprocess.Popen(
        ["bash", "-c", active + command],
        cwd=desk,
        env=known,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    if not how.until:
        said, _ = process.communicate(how.typed)
        return process.returncode, f"$ {command}\n{said}"
    lines = []
    for line in process.stdout:
        lines.append(line)
        if how.until in line:
            break
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate()
    code = process.returncode
    return 0 if code in (130, -signal.SIGINT, 75) else code, f"$ {command}\n{''.join(lines)}{said}"


def check(desk: Path, command: str) -> None:
    how = COMMANDS[command]
    assert isinstance(how, Run)
    code, said = shell(desk, command, how)
    assert code == 0, said
    assert how.says in said
    assert how.until in said
    assert "Traceback" not in said, said


@pytest.mark.parametrize("command", [c for c, how in COMMANDS.items() if isinstance(how, Run) and how.fast])
def test_command_runs_as_typed(command: str, desk: Path) -> None:
    check(desk, command)


def write_own_parts(desk: Path) -> None:
    """Write what a reader of the documents would: the classes of docs/api.md, a preset, a variant and a game."""
    page = (ROOT / "docs/api.md").read_text()
    for name, title in (("my_agents", "Your own agent"), ("my_parts", "Your own network")):
        (code,) = re.findall(rf"^## {title}\n.*?```python\n(.*?)```", page, re.S | re.M)[:1]
        parts = [node for node in ast.parse(code).body if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)]
        (desk / f"{name}.py").write_text("\n".join(map(ast.unparse, parts)))
    for folder, name in (("preset", "night"), ("variant", "bold"), ("game", "house_rules")):
        source = {"night": "preset/smoke", "bold": "variant/ego_only", "house_rules": "game/skyjo"}[name]
        (desk / "mine" / folder).mkdir(parents=True, exist_ok=True)
        text = (ROOT / f"conf/{source}.yaml").read_text().replace("variant: ego_only", "variant: bold")
        (desk / "mine" / folder / f"{name}.yaml").write_text(text)


@pytest.fixture(scope="module")
def trained(desk: Path) -> Path:
    """The same directory with runs of a moment (runs/first, second, cards, mine and utility) and parts of one's own."""
    write_own_parts(desk)
    for command in ("mkdir -p mine/variant", *(c for c in COMMANDS if c.startswith("printf '# @package"))):
        assert shell(desk, command, Run())[0] == 0, command  # tests of one file may run in several processes
    network = "model.network=python:my_parts:Linear"
    runs = {"first": "variant=belief", "second": "variant=baseline", "cards": "variant=belief_cards", "mine": network}
    runs["utility"] = "variant=belief comparison=match model.points=1"
    for name, what in runs.items():
        code, said = shell(desk, f"python -m muzero.train {what} {TRAIN} run_dir=runs/{name}", Run())
        assert code == 0, said
    return desk


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", [c for c, how in COMMANDS.items() if isinstance(how, Run) and not how.fast])
def test_slow_command_runs_as_typed(command: str, trained: Path) -> None:
    check(trained, command)
