"""Provenance of results: the code, packages, machine, command and times behind a file, and a check of results that are
pooled.

A run directory has provenance.jsonl: a line when a process begins to train, and one when it ends (a process that was
killed leaves none). Checkpoints (state.json), matches, ladders and experiments have the same facts under `provenance`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import stat
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from muzero.config import cores
from muzero.runs.files import Json, WriteError, parse_json, read_bytes, writing
from muzero.runs.schema import anything, flag, mapping, maybe, record, text

PROVENANCE = "provenance.jsonl"
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("belief-muzero", "torch", "numpy", "safetensors", "hydra-core", "omegaconf", "ray", "scipy", "wandb")
_MOST_BYTES = 2**26  # bytes of a provenance.jsonl
_FACTS = record(
    {"event": text(20)},
    {
        "commit": maybe(text(64)),
        "dirty": maybe(flag),
        "packages": mapping(text(200)),
        "machine": mapping(anything),
        "started": text(40),
    },
    others=anything,
)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_STARTED = _now()


def provenance() -> Json:
    """Facts about this process: commit, uncommitted changes, packages, machine, command, start, and the time now.

    `commit` and `dirty` are None where the code is no clone of the repository. `changes` tells uncommitted changes of
    tracked files apart.
    """
    return {
        **_code(),
        "packages": dict(_packages()),
        "machine": dict(_machine()),
        "command": shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]] if sys.orig_argv else sys.argv),
        "started": _STARTED,
        "ended": _now(),
    }


@cache
def _code() -> Json:
    """Commit of the code and its uncommitted changes, as of the first call."""
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != _ROOT:  # not a clone; perhaps installed inside another one
        return {"commit": None, "dirty": None}
    commit, changes = _git("rev-parse", "HEAD"), _git("diff", "HEAD")
    if commit is None or changes is None:
        return {"commit": None, "dirty": None}
    code: Json = {"commit": commit.strip(), "dirty": bool(changes)}
    return {**code, "changes": hashlib.sha256(changes.encode()).hexdigest()[:10]} if changes else code


def _git(*words: str) -> str | None:
    """Output of a git command in the directory of the code; None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *words],
            capture_output=True,
            timeout=30,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


@cache
def _packages() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"torch": str(torch.__version__)}


@cache
def _machine() -> Json:
    """Processor, cores that this process may use, GPUs and operating system."""
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return {"cpu": _cpu_model(), "cores": cores(), "gpus": gpus, "system": platform.platform()}


def _cpu_model() -> str:
    """Name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


@contextmanager
def recorded(run_dir: Path) -> Iterator[Json]:
    """Append the start and the end of a process to the provenance of a run.

    Yields a dict; what the caller adds to it, such as an exit code, is written with the end. An end that cannot be
    written, because the disk is full for example, is a line on standard error: how the run itself ended matters more.
    """
    facts = provenance()
    del facts["ended"]
    _append(run_dir, {"event": "start", **facts, "process": os.getpid()})
    began = time.monotonic()
    closing: Json = {}
    try:
        yield closing
    finally:
        seconds = round(time.monotonic() - began, 1)
        ending = {"event": "end", "ended": _now(), "seconds": seconds, "process": os.getpid(), **closing}
        try:
            _append(run_dir, ending)
        except WriteError as error:
            print(f"warning: {error}", file=sys.stderr)


def _append(run_dir: Path, facts: Mapping[str, Any]) -> None:
    path = run_dir / PROVENANCE
    with writing(path), open(path, "a", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("expected a file, got something else, such as a device")
        file.write(json.dumps(facts) + "\n")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a pipe that nobody reads is an error."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def read_provenance(run_dir: Path) -> list[Json]:
    """Lines of a run's provenance.jsonl, oldest first; [] for a run of earlier code, an incomplete line is left out."""
    path = run_dir / PROVENANCE
    if not path.is_file():
        return []
    lines = read_bytes(path, _MOST_BYTES).splitlines(keepends=True)
    return [
        parse_json(f"{path}, line {number}", line, _FACTS) for number, line in enumerate(lines, 1) if line[-1:] == b"\n"
    ]


def starts(run_dir: Path) -> list[Json]:
    """Provenance of every process that has trained in a run directory."""
    return [facts for facts in read_provenance(run_dir) if facts["event"] == "start"]


# ---- results that are pooled -----------------------------------------------------------------------------------------


def code_text(facts: Mapping[str, Any] | None) -> str:
    """Short name of the code behind a result: its commit, with a mark if there were uncommitted changes."""
    if not facts or not facts.get("commit"):
        return "unknown"
    changes = f" with changes {facts.get('changes', '')}".rstrip() if facts.get("dirty") else ""
    return f"{facts['commit'][:10]}{changes}"


def differences(facts: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Lines that say in what the origins of results differ; a processor may differ, code and torch should not."""
    found = []
    kinds = {
        "code": [code_text(one) for one in facts],
        "torch": [(one or {}).get("packages", {}).get("torch", "unknown") for one in facts],
        "processor": [(one or {}).get("machine", {}).get("cpu", "unknown") for one in facts],
    }
    for kind, names in kinds.items():
        counted = Counter(names)
        if len(counted) > 1:
            found.append(f"{kind}: " + ", ".join(f"{name} ({count})" for name, count in counted.most_common()))
    if any(one and one.get("dirty") for one in facts):
        found.append(f"uncommitted changes: {sum(bool(one and one.get('dirty')) for one in facts)} of {len(facts)}")
    return found


def check_pooled(what: str, facts: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Warn of results that are pooled although they come from different code, torch or processors; returns the lines.

    Args:
      what: name of the results, for the warning.
      facts: provenance of each result; None where it is unknown.
    """
    lines = differences(facts)
    if lines:
        warnings.warn(f"{what} differ in their origin: {'; '.join(lines)}", RuntimeWarning, stacklevel=2)
    return lines
