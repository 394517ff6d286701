"""Commands in processes that are forked from one that has imported everything.

`python -m MODULE` spends two seconds of CPU time on imports, more than most tests on all else. A forked process runs
the module as `python -m` does, as `__main__` with arguments, streams and an exit code of its own, and starts at once.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from multiprocessing.context import ForkServerProcess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WAIT = 120.0

# Torch imports its compiler when the first optimiser is made, compiled or not.
fork = multiprocessing.get_context("forkserver")
fork.set_forkserver_preload(["muzero.train", "muzero.arena.command", "tests.training.processes", "torch._dynamo"])


def redirect(descriptor: int, path: str, flags: int) -> None:
    """Connect a stream of this process to a file."""
    file = os.open(path, flags, 0o644)
    os.dup2(file, descriptor)
    os.close(file)


def _main(module: str, arguments: tuple[str, ...], streams: tuple[str, str, str], where: str) -> None:
    """Body of a process: `python -m MODULE ARGUMENTS` in a directory, with its streams in files."""
    given, output, errors = streams
    redirect(0, given, os.O_RDONLY)
    redirect(1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    redirect(2, errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    os.chdir(where)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def start_module(module: str, *arguments: str, streams: tuple[str, str, str] | None = None) -> ForkServerProcess:
    """Start `python -m MODULE ARGUMENTS`; without `streams` it has no input, and the output of the tests."""
    process = fork.Process(
        target=_main, args=(module, arguments, streams or ("/dev/null", "/dev/stdout", "/dev/stderr"), str(ROOT))
    )
    process.start()
    return process


def run_module(module: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE ARGUMENTS` to its end, with a text as its input."""
    with tempfile.TemporaryDirectory() as home:
        files = [Path(home) / name for name in ("input", "output", "errors")]
        for file in files:
            file.write_text(given if file.name == "input" else "")
        process = start_module(module, *arguments, streams=(str(files[0]), str(files[1]), str(files[2])))
        process.join(WAIT)
        process.kill()
        process.join()
        assert process.exitcode is not None
        output, errors = (file.read_text() for file in files[1:])
    return subprocess.CompletedProcess([module, *arguments], process.exitcode, output, errors)
