"""Run directories: one process at a time, one configuration for good, and signals that ask a run to save and stop."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import signal
import socket
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from omegaconf import OmegaConf

from muzero.runs.checkpoint import CONFIG, remove_leftovers
from muzero.runs.files import DRAFT, CheckpointError, Json, json_text, replace_file, wrap_errors

EXIT_REQUEUE = 75  # what a run that was asked to stop returns: it has saved, start it again
HASH, LOCK = "config_hash", "lock"


class RunLocked(RuntimeError):
    """Another process works in the run directory."""


class RunDirectory:
    """A run directory that this process holds until `close`, or until it ends.

    Attributes:
      path: of the directory.
      config: as it is now stored there.
      resumed: whether the directory had been a run's before.
    """

    def __init__(self, path: Path, config: Json, resumed: bool, lock: int) -> None:
        self.path, self.config, self.resumed = path, config, resumed
        self._lock: int | None = lock

    def forget(self) -> None:
        """Makes this nobody's directory again: the run has not come to anything, and may yet be another."""
        for name in (CONFIG, HASH):
            (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Lets others in."""
        if self._lock is not None:
            _unlock(self._lock)
            self._lock = None

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_run(run_dir: str | Path, config: Mapping[str, Any], changeable: Collection[str] = ()) -> RunDirectory:
    """Makes a run directory, or takes up one whose configuration is the same.

    Args:
      run_dir: does not exist, is empty, or is a run's.
      config: resolved, of JSON's types.
      changeable: dotted prefixes of keys that a resumed run may change ("logging", "train.iterations").

    Raises:
      RunLocked: another process works there.
      CheckpointError: the directory is something else, or a run with another configuration.
    """
    path = Path(run_dir)
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"{path}: is not a directory")
    own = {LOCK, HASH, f"{HASH}{DRAFT}", f"{CONFIG}{DRAFT}"}  # of a run that was killed at birth
    if path.exists() and not (path / CONFIG).exists() and any(entry.name not in own for entry in path.iterdir()):
        raise CheckpointError(f"{path}: is not empty, and not a run directory (it has no {CONFIG})")
    path.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    try:
        plain: Json = json.loads(json_text(config))
        resumed = (path / CONFIG).exists()
        if resumed:
            with wrap_errors(path / CONFIG):
                stored = OmegaConf.to_container(OmegaConf.load(path / CONFIG))
            if not isinstance(stored, dict):
                raise CheckpointError(f"{path / CONFIG}: is not a configuration")
            different = _config_differences(stored, plain, changeable)
            if different:
                raise CheckpointError(
                    "\n  ".join([f"{path}: holds a run with another configuration (stored != yours)", *different])
                )
        else:
            replace_file(path / HASH, f"{config_hash(plain, changeable)}\n".encode())
        replace_file(path / CONFIG, OmegaConf.to_yaml(OmegaConf.create(plain)).encode())
        remove_leftovers(path)
    except BaseException:
        _unlock(lock)
        raise
    return RunDirectory(path, plain, resumed, lock)


def config_hash(config: Mapping[str, Any], changeable: Collection[str] = ()) -> str:
    """10 hexadecimal digits that name a configuration, whatever the order of its keys; changeable keys do not count."""
    leaves = {k: v for k, v in _leaves(config).items() if not _matches(k, changeable)}
    return hashlib.sha256(json.dumps(leaves, sort_keys=True).encode()).hexdigest()[:10]


def _config_differences(stored: Mapping[Any, Any], yours: Json, changeable: Collection[str]) -> list[str]:
    """A line per key whose values differ."""
    a = {key: json.dumps(value) for key, value in _leaves(stored).items()}
    b = {key: json.dumps(value) for key, value in _leaves(yours).items()}
    keys = [key for key in {**a, **b} if a.get(key) != b.get(key) and not _matches(key, changeable)]
    return [f"{key}: {a.get(key, '(absent)')} != {b.get(key, '(absent)')}" for key in keys]


def _leaves(config: Mapping[Any, Any], prefix: str = "") -> Json:
    """{"a": {"b": 1}} -> {"a.b": 1}."""
    found: Json = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= _leaves(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _matches(key: str, prefixes: Collection[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


_held: set[int] = set()  # descriptors of locks


def _close_inherited_locks() -> None:
    """In a forked child, which would otherwise hold the lock for as long as it lives."""
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)


def try_lock(file: int, path: Path) -> bool:
    """Locks an open file; False if somebody else has. Where the file system has no locks, warns and goes on without."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        text = f"{path}: this file system has no locks ({error.strerror}): take care that nobody else works there"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return True


def _lock(path: Path) -> int:
    """Takes the directory's lock, which ends with `_unlock` or with this process."""
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
    if lock in _held:  # else this is a forked child, and the lock its parent's
        _held.remove(lock)
        os.ftruncate(lock, 0)
        os.close(lock)


class Interruption:
    """While active, SIGTERM, SIGUSR1, SIGINT and, unless it is ignored (nohup), SIGHUP ask the main loop to stop
    instead of stopping it; the second SIGINT raises KeyboardInterrupt.

    Attributes:
      signal: the last one received.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._impatient = False
        self._before: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether to save and stop."""
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
        self.signal = signal.Signals(number)
