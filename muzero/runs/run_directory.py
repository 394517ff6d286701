"""Run directories: their layout, one process at a time, one configuration for good, and signals that stop a run.

run/
  config.yaml    resolved configuration
  config_hash    name of the configuration, and the SHA-256 of config.yaml, which tells whether somebody has edited it
  lock           held by the process that works in the directory
  metrics.jsonl  timings.jsonl    see `muzero.runs.metrics`
  provenance.jsonl                see `muzero.runs.provenance`
  checkpoints/000120/             see `muzero.runs.checkpoint`
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from omegaconf import OmegaConf

from muzero.runs.files import DRAFT, CheckpointError, Json, json_text, read_yaml, write_whole, writing

EXIT_REQUEUE = 75  # exit code of a run that was asked to stop: it has saved, start it again to continue
CONFIG, HASH, LOCK, CHECKPOINTS = "config.yaml", "config_hash", "lock", "checkpoints"
STATE = "state.json"  # file of every checkpoint with the iteration and everything that is neither tensor nor array


class RunLocked(RuntimeError):
    """Error: another process works in the run directory."""


class RunDirectory:
    """A run directory that this process holds until `close`, or until it ends.

    Attributes:
      path: path of the directory.
      config: configuration stored in the directory.
      resumed: whether the directory already held a run.
    """

    def __init__(self, path: Path, config: Json, resumed: bool, lock: int) -> None:
        self.path, self.config, self.resumed = path, config, resumed
        self._lock: int | None = lock

    def forget(self) -> None:
        """Removes the configuration, so that another run may use the directory: this run has produced nothing."""
        for name in (CONFIG, HASH):
            (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            _unlock(self._lock)
            self._lock = None

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_run(run_dir: str | Path, config: Mapping[str, Any], changeable: Collection[str] = ()) -> RunDirectory:
    """Creates a run directory, or resumes one that has the same configuration.

    Args:
      run_dir: path that does not exist, is empty, or is a run directory.
      config: resolved configuration with values of JSON's types.
      changeable: dotted prefixes of keys that a resumed run may change ("logging", "train.iterations").

    Raises:
      RunLocked: another process works in the directory.
      CheckpointError: the directory is no run directory, or holds a run with another configuration.
    """
    path = Path(run_dir)
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"{path}: is not a directory")
    if path.exists() and not (path / CONFIG).exists() and not all(map(_is_left_by_new_run, path.iterdir())):
        raise CheckpointError(f"{path}: is not empty, and not a run directory (it has no {CONFIG})")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path)
    try:
        plain: Json = json.loads(json_text(config))
        resumed = (path / CONFIG).exists()
        if resumed:
            stored = read_yaml(path / CONFIG)
            if was_edited(path):
                raise CheckpointError(
                    f"{path / CONFIG}: was edited after the run had written it ({HASH} has another SHA-256); "
                    f"restore it, or start another run_dir; to go on with it as it is, delete {path / HASH}"
                )
            different = _config_differences(stored, plain, changeable)
            if different:
                raise CheckpointError(
                    "\n  ".join([f"{path}: holds a run with another configuration (stored != yours)", *different])
                )
        text = OmegaConf.to_yaml(OmegaConf.create(plain))
        # The hash of the file before stays in the list: a process that is killed here has edited nothing.
        known = [_sha256((path / CONFIG).read_bytes())] if resumed else []
        named = (path / HASH).read_text().split()[:1] if resumed and (path / HASH).is_file() else []
        marks = [*(named or [config_hash(plain, changeable)]), *dict.fromkeys([_sha256(text.encode()), *known])]
        write_whole(path / HASH, "\n".join(marks) + "\n", durable=True)
        write_whole(path / CONFIG, text, durable=True)
        remove_leftovers(path)
    except BaseException:
        _unlock(lock)
        raise
    return RunDirectory(path, plain, resumed, lock)


def was_edited(run_dir: str | Path) -> bool:
    """Whether config.yaml is not as the run has written it; False if the run has kept no hash of the file."""
    config, marks = Path(run_dir) / CONFIG, Path(run_dir) / HASH
    if not config.is_file() or not marks.is_file():
        return False
    known = marks.read_text(errors="replace").split()[1:]
    return bool(known) and _sha256(config.read_bytes()) not in known


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checkpoints(run_dir: str | Path) -> list[Path]:
    """Directories of the run's checkpoints, thinned ones too, oldest first."""
    home = Path(run_dir) / CHECKPOINTS
    places = home.iterdir() if home.is_dir() else iter(())
    return sorted((p for p in places if re.fullmatch(r"\d{6,}", p.name)), key=lambda place: int(place.name))


def remove_leftovers(run_dir: str | Path) -> None:
    """Removes incomplete files and checkpoints of a process that was killed; only for the holder of the run's lock."""
    for name in (CONFIG, HASH):
        for draft in Path(run_dir).glob(f".{name}{DRAFT}*"):
            draft.unlink(missing_ok=True)
    for draft in (Path(run_dir) / CHECKPOINTS).glob(f"{DRAFT}*"):
        shutil.rmtree(draft, ignore_errors=True)


def _is_left_by_new_run(entry: Path) -> bool:
    """Whether a run that was killed before it had stored its configuration may have left this file."""
    return entry.name in (LOCK, HASH) or entry.name.startswith((f".{HASH}{DRAFT}", f".{CONFIG}{DRAFT}"))


def config_hash(config: Mapping[str, Any], changeable: Collection[str] = ()) -> str:
    """Name of a configuration: 10 hexadecimal digits that depend neither on key order nor on changeable keys."""
    leaves = {k: v for k, v in _leaves(config).items() if not _matches(k, changeable)}
    return hashlib.sha256(json.dumps(leaves, sort_keys=True).encode()).hexdigest()[:10]


def _config_differences(stored: Mapping[Any, Any], yours: Json, changeable: Collection[str]) -> list[str]:
    """Lines of an error message, one per key whose values differ."""
    a = {key: json.dumps(value) for key, value in _leaves(stored).items()}
    b = {key: json.dumps(value) for key, value in _leaves(yours).items()}
    keys = [key for key in {**a, **b} if a.get(key) != b.get(key) and not _matches(key, changeable)]
    return [f"{key}: {a.get(key, '(absent)')} != {b.get(key, '(absent)')}" for key in keys]


def _leaves(config: Mapping[Any, Any], prefix: str = "") -> Json:
    """Flat copy of a nested configuration: {"a": {"b": 1}} -> {"a.b": 1}."""
    found: Json = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= _leaves(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _matches(key: str, prefixes: Collection[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


# ---- locks and signals -----------------------------------------------------------------------------------------------

_held: set[int] = set()  # file descriptors of the locks of this process


def _close_inherited_locks() -> None:
    """Closes locks in a forked child, which would otherwise hold them for as long as it lives."""
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)


def try_lock(file: int, path: Path) -> bool:
    """Locks an open file; False if another process holds the lock.

    Warns and returns True if the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        text = f"{path}: this file system has no locks ({error.strerror}): make sure that no other process works there"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return True


def _lock(path: Path) -> int:
    """Takes the lock of a run directory, which is held until `_unlock` or the end of this process."""
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    if not try_lock(lock, path):
        holder = os.read(lock, 1000).decode(errors="replace").strip() or "another process"
        os.close(lock)
        raise RunLocked(f"{path}: in use by {holder}") from None
    os.ftruncate(lock, 0)
    os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    _held.add(lock)
    return lock


def _unlock(lock: int) -> None:
    if lock in _held:  # otherwise this is a forked child, and the lock belongs to its parent
        _held.remove(lock)
        os.ftruncate(lock, 0)
        os.close(lock)


class Interruption:
    """Context in which signals ask the main loop to stop instead of ending the process.

    Handles SIGTERM, SIGUSR1, SIGINT and, unless it is ignored (nohup), SIGHUP; a second SIGINT raises
    KeyboardInterrupt.

    Args:
      announce: function that is told, in a sentence and at once, what a first signal will do.

    Attributes:
      signal: last signal received, or None.
    """

    def __init__(self, announce: Callable[[str], None] | None = None) -> None:
        self._announce = announce
        self.signal: signal.Signals | None = None
        self._impatient = False
        self._before: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the main loop should save and stop."""
        return self.signal is not None

    def __enter__(self) -> Interruption:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._impatient:
                raise KeyboardInterrupt
            self._impatient = True
        first, self.signal = self.signal is None, signal.Signals(number)
        if first and self._announce is not None:
            again = "; Ctrl-C again stops at once, without saving" if number == signal.SIGINT else ""
            self._announce(f"{self.signal.name}: this iteration is finished and saved first{again}")
