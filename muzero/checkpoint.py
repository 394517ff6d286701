"""Run directories and checkpoints: atomic, complete, and safe to load.

    run/
      config.yaml  config_hash  lock  metrics.jsonl  timings.jsonl
      checkpoints/000120/
        weights.safetensors  ema.safetensors  optimizer.safetensors    tensors, one file per group
        replay.npz ...                                                  numpy arrays, one file per group, uncompressed
        state.json                                                      everything else
        manifest.json                                                   size and SHA-256 of each, written last

A checkpoint is written under a temporary name, flushed to the disk and renamed, so that whatever has its name is whole.
Loading executes nothing that the files contain: there is no pickle in them, and none is accepted.
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
import zipfile
import zlib
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from omegaconf import OmegaConf
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from yaml import YAMLError  # type: ignore[import-untyped]

from muzero.config import require

FORMAT = 1
EXIT_REQUEUE = 75  # what a run that was asked to stop returns: it has saved, start it again
AGENT_KEYS = ("game", "players", "variant", "model")  # without these nobody can play with the weights

CONFIG, HASH, LOCK, CHECKPOINTS = "config.yaml", "config_hash", "lock", "checkpoints"
WEIGHTS, EMA, STATE, MANIFEST = "weights.safetensors", "ema.safetensors", "state.json", "manifest.json"
_LIGHT = (WEIGHTS, EMA, STATE)  # what is left of a thinned checkpoint
_METADATA = "belief-muzero"
_DRAFT = ".draft-"

_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    RuntimeError,
    SafetensorError,
    YAMLError,
    zipfile.BadZipFile,
    zlib.error,
)

Json = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, Tensor]


class CheckpointError(ValueError):
    """Something on disk cannot be used; the message names it and says why."""


class RunLocked(RuntimeError):
    """Another process works in the run directory."""


@dataclass(frozen=True)
class Checkpoint:
    """All that was saved.

    Attributes:
      path: its directory.
      iteration: after which it was saved.
      tensors: by group and name, on the CPU.
      arrays: by group and name.
      state: as given to `save`.
      agent: as given to `save`, with the format and the iteration.
    """

    path: Path
    iteration: int
    tensors: dict[str, dict[str, Tensor]]
    arrays: dict[str, dict[str, NDArray[Any]]]
    state: Json
    agent: Json


class Weights(NamedTuple):
    """What it takes to play: weights, their moving average if there is one, and what network and game they are for."""

    weights: dict[str, Tensor]
    ema: dict[str, Tensor] | None
    agent: Json


def save(
    run_dir: str | Path,
    iteration: int,
    *,
    tensors: Mapping[str, Tensors],
    arrays: Mapping[str, Arrays],
    state: Mapping[str, Any],
    agent: Mapping[str, Any],
    keep: int = 2,
    permanent: Container[int] = (),
) -> Path:
    """Saves a checkpoint and lets go of old ones. Checkpoints of later iterations, from which the run did not resume,
    are removed.

    Args:
      run_dir: of the run; nobody else may be saving there (see `open_run`).
      iteration: names the checkpoint.
      tensors: groups of tensors; "weights" must be among them, "ema" may be, others (optimizer) are free.
      arrays: groups of numpy arrays, of any type but objects.
      state: what JSON can hold.
      agent: goes into the weights files, so that one of them is enough to play: at least `AGENT_KEYS`.
      keep: newest checkpoints that stay whole.
      permanent: iterations whose weights and state stay for good, for instance `range(0, 10**9, 50)`; the other old
        checkpoints are deleted.

    Returns:
      The checkpoint's directory.
    """
    require(iteration >= 0, "iteration", "0 or more", iteration)
    require(keep >= 1, "keep", "1 or more", keep)
    require("weights" in tensors, "tensors", "weights among them", sorted(tensors))
    names = [*tensors, *arrays]
    require(len(set(names)) == len(names), "tensors and arrays", "different names", sorted(names))
    for name in names:
        require(re.fullmatch(r"[A-Za-z0-9_]+", name) is not None, "a group's name", "letters, digits and _", name)
    for key in AGENT_KEYS:
        require(key in agent, "agent", f"the key {key}", sorted(agent))

    home = Path(run_dir) / CHECKPOINTS
    home.mkdir(parents=True, exist_ok=True)
    remove_leftovers(run_dir)
    draft, place = home / f"{_DRAFT}{iteration:06d}", home / f"{iteration:06d}"
    draft.mkdir()
    try:
        about = {_METADATA: _json({**agent, "format": FORMAT, "iteration": iteration})}
        for name, group in tensors.items():
            _write_tensors(draft / f"{name}.safetensors", group, about if name in ("weights", "ema") else None)
        for name, values in arrays.items():
            _write_arrays(draft / f"{name}.npz", values)
        _write(draft / STATE, _json({"format": FORMAT, "iteration": iteration, "state": state}).encode())
        files = {file.name: _fingerprint(file) for file in sorted(draft.iterdir())}
        _write(draft / MANIFEST, _manifest_bytes(complete=True, files=files))
        _sync(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    if place.exists():
        _discard(place)
    draft.rename(place)
    _sync(home)
    _let_go(home, iteration, keep, permanent)
    return place


def checkpoints(run_dir: str | Path) -> list[Path]:
    """Directories of the run's checkpoints, thinned ones too, oldest first."""
    home = Path(run_dir) / CHECKPOINTS
    places = home.iterdir() if home.is_dir() else iter(())
    return sorted((p for p in places if re.fullmatch(r"\d{6,}", p.name)), key=lambda place: int(place.name))


def load(place: str | Path) -> Checkpoint:
    """Loads one whole checkpoint; raises `CheckpointError` if anything about it is wrong."""
    place = Path(place)
    complete, files = _read_manifest(place)
    if not complete:
        raise CheckpointError(f"{place}: thinned, it has weights but nothing to resume from")
    for name, fingerprint in files.items():
        _verify(place / name, fingerprint)
    content = _read_json(place / STATE)
    _check_format(place / STATE, content)
    state, iteration = content.get("state"), content.get("iteration")
    if not isinstance(state, dict) or not isinstance(iteration, int) or f"{iteration:06d}" != place.name:
        raise CheckpointError(f"{place / STATE}: is not the state of iteration {place.name}")
    tensors: dict[str, dict[str, Tensor]] = {}
    arrays: dict[str, dict[str, NDArray[Any]]] = {}
    for path in (place / name for name in files):
        if path.suffix == ".safetensors":
            tensors[path.stem], _ = _read_tensors(path)
        elif path.suffix == ".npz":
            arrays[path.stem] = _read_arrays(path)
    return Checkpoint(place, iteration, tensors, arrays, state, _read_weights(place / WEIGHTS)[1])


def load_latest(run_dir: str | Path) -> Checkpoint | None:
    """The newest checkpoint from which a run can resume, or None if there is no checkpoint at all.

    A damaged one is passed over with a warning that says what is wrong with it; if all are damaged, that is an error.
    """
    problems: list[str] = []
    for place in reversed(checkpoints(run_dir)):
        try:
            found = load(place)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        _warn(problems, found.path)
        return found
    if problems:
        raise CheckpointError("\n  ".join([f"{run_dir}: no checkpoint can be resumed", *problems]))
    return None


def load_weights(path: str | Path) -> Weights:
    """Loads weights to play with, from a run (the newest checkpoint), a checkpoint, or a lone .safetensors file."""
    path = Path(path)
    if path.is_file():
        weights, agent = _read_weights(path)
        return Weights(weights, None, agent)
    if (path / MANIFEST).exists() or (path / WEIGHTS).exists():
        return _weights_of(path)
    if not path.exists():
        raise CheckpointError(f"{path}: does not exist")
    if not (path / CONFIG).exists() and not (path / CHECKPOINTS).is_dir():
        raise CheckpointError(f"{path}: neither a run directory nor a checkpoint nor a .safetensors file")
    problems: list[str] = []
    for place in reversed(checkpoints(path)):
        try:
            found = _weights_of(place)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        _warn(problems, place)
        return found
    raise CheckpointError("\n  ".join([f"{path}: no checkpoint can be used", *(problems or ["there is none yet"])]))


def remove_leftovers(run_dir: str | Path) -> None:
    """Removes what an interrupted `save` has left; only for the process that holds the run's lock."""
    for draft in (Path(run_dir) / CHECKPOINTS).glob(f"{_DRAFT}*"):
        shutil.rmtree(draft, ignore_errors=True)


def _let_go(home: Path, iteration: int, keep: int, permanent: Container[int]) -> None:
    """Thins or deletes checkpoints after one has been saved."""
    places = checkpoints(home.parent)
    for place in places:
        if int(place.name) > iteration:
            _discard(place)
    for place in [place for place in places if int(place.name) <= iteration][:-keep]:
        if int(place.name) in permanent:
            _thin(place)
        else:
            _discard(place)


def _thin(place: Path) -> None:
    """Leaves the weights and the state of a checkpoint, and a manifest of them."""
    try:
        complete, files = _read_manifest(place)
    except CheckpointError as error:
        warnings.warn(f"cannot be thinned, stays as it is: {error}", RuntimeWarning, stacklevel=4)
        return
    left = {name: fingerprint for name, fingerprint in files.items() if name in _LIGHT}
    if complete:  # the manifest goes first, so that it never promises a file that is gone
        _replace(place / MANIFEST, _manifest_bytes(complete=False, files=left))
    for file in place.iterdir():
        if file.name not in left and file.name != MANIFEST:
            file.unlink()


def _discard(place: Path) -> None:
    """Deletes a checkpoint; out of sight first, so that half of one is never seen."""
    hidden = place.with_name(f"{_DRAFT}discarded-{place.name}")
    place.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _weights_of(place: Path) -> Weights:
    """Verified weights of a checkpoint, whole or thinned."""
    _, files = _read_manifest(place)
    for name in (WEIGHTS, EMA):
        if name in files:
            _verify(place / name, files[name])
    weights, agent = _read_weights(place / WEIGHTS)
    return Weights(weights, _read_weights(place / EMA)[0] if EMA in files else None, agent)


def _warn(problems: Sequence[str], instead: Path) -> None:
    for problem in problems:
        warnings.warn(f"{problem}; using {instead} instead", RuntimeWarning, stacklevel=3)


# The optimiser and the random streams.


def optimizer_state(optimizer: torch.optim.Optimizer, network: nn.Module) -> tuple[dict[str, Tensor], Json]:
    """What an optimiser of (some of) the network's parameters remembers, as named tensors and JSON."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    tensors: dict[str, Tensor] = {}
    groups, scalars = [], {}
    for index, group in enumerate(optimizer.param_groups):
        members = []
        for parameter in group["params"]:
            require(parameter in names, f"optimizer group {index}", "parameters of the network", parameter.shape)
            name = names[parameter]
            members.append(name)
            memory = optimizer.state.get(parameter, {})
            tensors |= {f"{key}/{name}": value for key, value in memory.items() if isinstance(value, Tensor)}
            scalars[name] = {key: value for key, value in memory.items() if not isinstance(value, Tensor)}
        settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
        tensors |= {f"group/{index}/{key}": value for key, value in settings.items() if isinstance(value, Tensor)}
        groups.append({"names": members, "settings": {k: v for k, v in settings.items() if not isinstance(v, Tensor)}})
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}, {"groups": groups, "scalars": scalars}


def restore_optimizer(optimizer: torch.optim.Optimizer, network: nn.Module, tensors: Tensors, state: Json) -> None:
    """Gives an optimiser the memory and the settings that `optimizer_state` took from one like it.

    Raises:
      CheckpointError: the two are not alike; names the parameters.
    """
    names = {parameter: name for name, parameter in network.named_parameters()}
    groups: list[Json] = state["groups"]
    problems: list[str] = []
    if len(groups) != len(optimizer.param_groups):
        problems.append(f"{len(groups)} parameter groups saved, the optimizer has {len(optimizer.param_groups)}")
    saved_memory: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        key, _, name = path.partition("/")
        saved_memory.setdefault(name, {})[key] = tensor
    memory: list[Json] = []
    restored: list[Json] = []
    for index, (group, saved) in enumerate(zip(optimizer.param_groups, groups, strict=False)):
        members = [names.get(parameter, "(not of the network)") for parameter in group["params"]]
        problems += _differences(f"group {index}", saved["names"], members)
        first = len(memory)
        for name, parameter in zip(members, group["params"], strict=True):
            mine = saved_memory.get(name, {})
            for key, tensor in mine.items():
                if key != "step" and (tensor.shape, tensor.dtype) != (parameter.shape, parameter.dtype):
                    problems.append(
                        f"{key} of {name}: {tuple(tensor.shape)} {tensor.dtype} saved, "
                        f"the parameter is {tuple(parameter.shape)} {parameter.dtype}"
                    )
            memory.append({key: tensor.clone() for key, tensor in mine.items()} | state["scalars"].get(name, {}))
        settings = {k: tuple(v) if isinstance(group.get(k), tuple) else v for k, v in saved["settings"].items()}
        prefix = f"group/{index}/"
        settings |= {k.removeprefix(prefix): v.clone() for k, v in tensors.items() if k.startswith(prefix)}
        extra = {"param_names": group["param_names"]} if "param_names" in group else {}
        restored.append({**settings, **extra, "params": list(range(first, len(memory)))})
    if problems:
        raise CheckpointError("\n  ".join(["the saved optimizer is not of this network", *problems]))
    known = {index: entry for index, entry in enumerate(memory) if entry}
    optimizer.load_state_dict({"state": known, "param_groups": restored})


def _differences(where: str, saved: Sequence[str], here: Sequence[str]) -> list[str]:
    """What is wrong with two lists of parameter names that should be the same."""
    only_saved, only_here = [n for n in saved if n not in here], [n for n in here if n not in saved]
    found = [f"{where}: {name} was saved, but is not in the network" for name in only_saved]
    found += [f"{where}: {name} is in the network, but was not saved" for name in only_here]
    if not found and list(saved) != list(here):
        found.append(f"{where}: the parameters {', '.join(saved)} were saved in another order")
    return found


_BIT_GENERATORS = {"PCG64": np.random.PCG64, "Philox": np.random.Philox}


def rng_to_json(generator: np.random.Generator) -> Json:
    """The state of a generator (PCG64 or Philox), that of its `spawn` included."""
    bits = generator.bit_generator
    state: Any = bits.state
    require(state["bit_generator"] in _BIT_GENERATORS, "generator", " or ".join(_BIT_GENERATORS), bits)
    seed: Any = bits.seed_seq  # None if the generator was given a key
    plain: Json = json.loads(json.dumps({"state": state, "seed": seed and seed.state}, default=lambda a: a.tolist()))
    return plain


def rng_from_json(saved: Mapping[str, Any]) -> np.random.Generator:
    """A generator that continues where the one given to `rng_to_json` stopped."""
    with _naming("state of a random generator"):
        seed = saved["seed"] and np.random.SeedSequence(**saved["seed"])
        bits = _BIT_GENERATORS[saved["state"]["bit_generator"]](seed)
        parts = {k: np.array(v, np.uint64) if isinstance(v, list) else v for k, v in saved["state"].items()}
        inner = {k: np.array(v, np.uint64) if isinstance(v, list) else v for k, v in saved["state"]["state"].items()}
        bits.state = {**parts, "state": inner}
        return np.random.Generator(bits)


def torch_rng_to_array(generator: torch.Generator | None = None) -> NDArray[np.uint8]:
    """The state of torch's CPU generator, by default the global one."""
    state = torch.get_rng_state() if generator is None else generator.get_state()
    return np.array(state.numpy(), np.uint8)


def torch_rng_from_array(saved: NDArray[np.uint8], generator: torch.Generator | None = None) -> None:
    """Sets torch's CPU generator, by default the global one."""
    with _naming("state of torch's generator"):
        state = torch.from_numpy(np.array(saved))
        torch.set_rng_state(state) if generator is None else generator.set_state(state)


# Run directories.


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
    own = {LOCK, HASH, f"{HASH}{_DRAFT}", f"{CONFIG}{_DRAFT}"}  # of a run that was killed at birth
    if path.exists() and not (path / CONFIG).exists() and any(entry.name not in own for entry in path.iterdir()):
        raise CheckpointError(f"{path}: is not empty, and not a run directory (it has no {CONFIG})")
    path.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    try:
        plain: Json = json.loads(_json(config))
        resumed = (path / CONFIG).exists()
        if resumed:
            with _naming(path / CONFIG):
                stored = OmegaConf.to_container(OmegaConf.load(path / CONFIG))
            if not isinstance(stored, dict):
                raise CheckpointError(f"{path / CONFIG}: is not a configuration")
            different = _config_differences(stored, plain, changeable)
            if different:
                raise CheckpointError(
                    "\n  ".join([f"{path}: holds a run with another configuration (stored != yours)", *different])
                )
        else:
            _replace(path / HASH, f"{config_hash(plain, changeable)}\n".encode())
        _replace(path / CONFIG, OmegaConf.to_yaml(OmegaConf.create(plain)).encode())
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


# Files.


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1)


def _write(path: Path, data: bytes) -> None:
    """Writes a new file, to the disk."""
    with open(path, "xb") as file:
        file.write(data)
        os.fsync(file.fileno())


def _replace(path: Path, data: bytes) -> None:
    """Writes a file in place of another; there is always one or the other."""
    draft = path.with_name(f"{path.name}{_DRAFT}")
    draft.unlink(missing_ok=True)
    _write(draft, data)
    draft.rename(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """Makes names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_tensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None) -> None:
    own = {k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}
    _write(path, safetensors.torch.save(own, metadata))


def _write_arrays(path: Path, arrays: Arrays) -> None:
    """An npz file that is the same for the same arrays: no compression, no clock, no pickle."""
    with open(path, "xb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                require(not array.dtype.hasobject, f"{path.stem} {name}", "no objects", array.dtype)
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def _fingerprint(path: Path) -> Json:
    with open(path, "rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _manifest_bytes(*, complete: bool, files: Mapping[str, Json]) -> bytes:
    return _json({"format": FORMAT, "complete": complete, "files": files}).encode()


@contextmanager
def _naming(what: str | Path) -> Iterator[None]:
    """Turns errors of reading something into `CheckpointError`s that name it."""
    try:
        yield
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise CheckpointError(f"{what}: missing") from None
    except SafetensorError as error:
        raise CheckpointError(f"{what}: expected a .safetensors file, which this is not: {error}") from error
    except _UNREADABLE as error:
        raise CheckpointError(f"{what}: {type(error).__name__}: {error}") from error


def _verify(path: Path, expected: Json) -> None:
    with _naming(path):
        size = path.stat().st_size
        if size != expected["size"]:
            raise CheckpointError(f"{path}: {size} bytes, expected {expected['size']}")
        if _fingerprint(path) != expected:
            raise CheckpointError(f"{path}: damaged, its SHA-256 is not the manifest's")


def _check_format(path: Path, content: Json) -> None:
    if content.get("format") != FORMAT:
        raise CheckpointError(f"{path}: format {content.get('format')!r}, this code reads format {FORMAT}")


def _read_json(path: Path) -> Json:
    with _naming(path):
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: is not a JSON object")
        return content


def _read_manifest(place: Path) -> tuple[bool, dict[str, Json]]:
    """Whether the checkpoint in a directory is whole, and the fingerprints of its files."""
    path = place / MANIFEST
    content = _read_json(path)
    _check_format(path, content)
    with _naming(path):
        files: dict[str, Json] = dict(content["files"])
        for name in (WEIGHTS, STATE):
            if name not in files:
                raise CheckpointError(f"{path}: does not list {name}")
        for name in files:
            if Path(name).name != name:
                raise CheckpointError(f"{path}: lists {name!r}, which is not in the directory")
        return bool(content["complete"]), files


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors, copied from the file, and the metadata."""
    with _naming(path), safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def _read_weights(path: Path) -> tuple[dict[str, Tensor], Json]:
    """Weights, and what network and game they are for."""
    tensors, metadata = _read_tensors(path)
    with _naming(path):
        if _METADATA not in metadata:
            raise CheckpointError(f"{path}: has no {_METADATA} metadata, so these are not weights of an agent")
        agent: Json = json.loads(metadata[_METADATA])
        _check_format(path, agent)
        missing = [key for key in AGENT_KEYS if key not in agent]
        if missing:
            raise CheckpointError(f"{path}: the metadata lacks {', '.join(missing)}")
    return tensors, agent


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    with _naming(path), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays
