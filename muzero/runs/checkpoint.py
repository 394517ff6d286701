"""Checkpoints: atomic, complete, and safe to load.

    run/checkpoints/000120/
      weights.safetensors  ema.safetensors  optimizer.safetensors    tensors, one file per group
      replay.npz ...                                                  numpy arrays, one file per group, uncompressed
      state.json                                                      everything else, and where it comes from
      manifest.json                                                   size and SHA-256 of each, written last

A checkpoint is written under a temporary name, flushed to the disk and renamed, so that a directory with a checkpoint's
name is always complete. Loading executes nothing that the files contain: they hold no pickle, and none is accepted.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray
from torch import Tensor

from muzero.config import ModelConfig, SearchConfig
from muzero.config.fields import require
from muzero.runs.files import (
    DRAFT,
    Arrays,
    CheckpointError,
    Json,
    fingerprint,
    json_text,
    parse_json,
    read_arrays,
    read_json,
    sync,
    verify,
    wrap_errors,
    write,
    write_arrays,
    write_whole,
    writing,
)
from muzero.runs.provenance import provenance
from muzero.runs.run_directory import CHECKPOINTS, CONFIG, STATE, checkpoints, remove_leftovers
from muzero.runs.schema import (
    RULES,
    anything,
    either,
    flag,
    listing,
    mapping,
    maybe,
    real,
    record,
    refuse,
    section,
    text,
    whole,
)
from muzero.runs.tensors import Tensors, read_tensors, require_finite, write_tensors

__all__ = [
    "AGENT_KEYS",
    "CHECKPOINTS",
    "EMA",
    "MANIFEST",
    "STATE",
    "WEIGHTS",
    "Checkpoint",
    "CheckpointError",
    "Weights",
    "checkpoints",
    "load",
    "load_latest",
    "load_weights",
    "save",
]

FORMAT = 1
AGENT_KEYS = ("game", "players", "variant", "model")  # metadata without which nobody can play with the weights

WEIGHTS, EMA, MANIFEST = "weights.safetensors", "ema.safetensors", "manifest.json"
_LIGHT = (WEIGHTS, EMA, STATE)  # files that a thinned checkpoint keeps
_METADATA = "belief-muzero"

# ---- schemas of the files --------------------------------------------------------------------------------------------

_MOST_ITERATIONS, _MOST_PLAYERS, _MOST_SIMULATIONS = 10**9, 64, 4096
_SIZES = (  # settings of the model that are sizes of tensors, or numbers of them
    *("width", "feedforward", "latent_dim", "slot_dim", "player_dim", "global_dim", "slot_hidden", "hidden"),
    *("action_dim", "value_bins", "heads", "layers"),
)
_ALWAYS = 4096  # size that is too small to need a tensor that shows it

_FORMAT = whole(FORMAT, FORMAT)
_PLAYERS = whole(1, _MOST_PLAYERS)
_SEARCH = section(SearchConfig)
AGENT_SCHEMA = record(
    {"format": _FORMAT, "game": text(100), "players": _PLAYERS, "variant": text(100), "model": section(ModelConfig)},
    {
        "iteration": whole(0, _MOST_ITERATIONS),
        "algorithm": text(100),
        "game_version": whole(0, 10**6),
        "player_counts": listing(_PLAYERS, least=1, most=_MOST_PLAYERS),
        "rules": either(RULES, text(100)),
        "search": _SEARCH,
        "value_rmse": maybe(real(0)),
    },
    others=anything,
)
"""Schema of the metadata of weights."""

_FILE = record({"size": whole(), "sha256": text(64)})
_MANIFEST = record({"format": _FORMAT, "complete": flag, "files": mapping(_FILE, most=100)})
_STATE_FILE = record(
    {"format": _FORMAT, "iteration": whole(0, _MOST_ITERATIONS), "state": mapping(anything)},
    {"provenance": mapping(anything)},
)


@dataclass(frozen=True)
class Checkpoint:
    """Complete content of a checkpoint.

    Attributes:
      path: directory of the checkpoint.
      iteration: number of training iterations done when it was saved.
      tensors: tensors by group and name, on the CPU.
      arrays: numpy arrays by group and name.
      state: JSON state as given to `save`.
      agent: metadata of the weights as given to `save`, with the format and the iteration.
    """

    path: Path
    iteration: int
    tensors: dict[str, dict[str, Tensor]]
    arrays: dict[str, dict[str, NDArray[Any]]]
    state: Json
    agent: Json


class Weights(NamedTuple):
    """Weights to play with, their moving average if there is one, and a description of their network and game."""

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
    """Saves a checkpoint, then thins or deletes old ones.

    Checkpoints of later iterations are deleted, too: the run did not resume from them.

    Args:
      run_dir: run directory; no other process may save there (see `run_directory.open_run`).
      iteration: number of training iterations done, which names the checkpoint.
      tensors: groups of tensors; "weights" is required, "ema" is known, any other group (optimizer) is allowed.
      arrays: groups of numpy arrays of any type but objects.
      state: everything else to save, of JSON's types.
      agent: metadata of the weights files, so that one such file is enough to play: at least `AGENT_KEYS`.
      keep: number of newest checkpoints that stay complete.
      permanent: iterations whose weights and state are never deleted, for instance `range(0, 10**9, 50)`.

    Returns:
      Directory of the checkpoint.
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
    draft, place = home / f"{DRAFT}{iteration:06d}", home / f"{iteration:06d}"
    with writing(draft):
        home.mkdir(parents=True, exist_ok=True)
        remove_leftovers(run_dir)
        draft.mkdir()
    try:
        about = {_METADATA: json_text({**agent, "format": FORMAT, "iteration": iteration})}
        for name, group in tensors.items():
            write_tensors(draft / f"{name}.safetensors", group, about if name in ("weights", "ema") else None)
        for name, values in arrays.items():
            write_arrays(draft / f"{name}.npz", values)
        content = {"format": FORMAT, "iteration": iteration, "state": state, "provenance": provenance()}
        write(draft / STATE, json_text(content).encode())
        files = {file.name: fingerprint(file) for file in sorted(draft.iterdir())}
        write(draft / MANIFEST, _manifest_bytes(complete=True, files=files))
        sync(draft)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    with writing(place):
        if place.exists():
            _discard(place)
        draft.rename(place)
        sync(home)
        _remove_old(home, iteration, keep, permanent)
    return place


def load(place: str | Path) -> Checkpoint:
    """Loads one complete checkpoint; raises `CheckpointError` if anything about it is wrong."""
    place = Path(place)
    complete, files = _read_manifest(place)
    if not complete:
        raise CheckpointError(f"{place}: thinned: it has weights but nothing to resume from")
    for name, expected in files.items():
        verify(place / name, expected)
    content = read_json(place / STATE, _STATE_FILE)
    iteration: int = content["iteration"]
    if f"{iteration:06d}" != place.name:
        raise CheckpointError(f"{place / STATE}: iteration: expected {place.name}, as the directory, got {iteration}")
    tensors: dict[str, dict[str, Tensor]] = {}
    arrays: dict[str, dict[str, NDArray[Any]]] = {}
    agent: Json = {}
    for path in (place / name for name in files):
        if path.name == WEIGHTS:
            tensors[path.stem], agent = _read_weights(path)
        elif path.suffix == ".safetensors":
            tensors[path.stem], _ = read_tensors(path)
            require_finite(path, tensors[path.stem])
        elif path.suffix == ".npz":
            arrays[path.stem] = read_arrays(path)
    return Checkpoint(place, iteration, tensors, arrays, content["state"], agent)


def load_latest(run_dir: str | Path) -> Checkpoint | None:
    """Loads the newest checkpoint from which a run can resume; None if there is no checkpoint at all.

    Damaged checkpoints are skipped with a warning that gives the reason; if all are damaged, that is an error.
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
    """Loads weights to play with from a run (its newest checkpoint), a checkpoint, or a single .safetensors file."""
    path = Path(path)
    if path.is_file():
        weights, agent = _read_weights(path)
        return Weights(weights, None, agent)
    if (path / MANIFEST).exists() or (path / WEIGHTS).exists():
        return _weights_of(path)
    if not path.exists():
        raise CheckpointError(f"{path}: does not exist")
    if not (path / CONFIG).exists() and not (path / CHECKPOINTS).is_dir():
        what = "neither a run directory nor a checkpoint nor a .safetensors file"
        raise CheckpointError(f"{path}: {what}{_weights_near(path)}")
    problems: list[str] = []
    for place in reversed(checkpoints(path)):
        try:
            found = _weights_of(place)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        _warn(problems, place)
        return found
    none = f"there is none yet{_weights_near(path)}"
    raise CheckpointError("\n  ".join([f"{path}: no checkpoint can be used", *(problems or [none])]))


def _weights_near(path: Path) -> str:
    """Part of an error that names files of weights in or beside a directory that is no checkpoint; "" without any.

    Results often keep the metrics of a run in a directory and its weights in a file beside it.
    """
    found = [file for place in (path, path.parent) for file in sorted(place.glob("*.safetensors"))]
    return f"; weights are in {', '.join(map(str, found[:3]))}: name the file" if found else ""


def _remove_old(home: Path, iteration: int, keep: int, permanent: Container[int]) -> None:
    """Thins or deletes old checkpoints after the one of `iteration` has been saved."""
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
    """Deletes everything of a checkpoint but its weights, its state and a manifest of them."""
    try:
        complete, files = _read_manifest(place)
    except CheckpointError as error:
        warnings.warn(f"cannot be thinned, stays as it is: {error}", RuntimeWarning, stacklevel=4)
        return
    left = {name: files[name] for name in files if name in _LIGHT}
    if complete:  # the manifest is replaced first, so that it never lists a file that is gone
        write_whole(place / MANIFEST, _manifest_bytes(complete=False, files=left), durable=True)
    for file in place.iterdir():
        if file.name not in left and file.name != MANIFEST:
            file.unlink()


def _discard(place: Path) -> None:
    """Deletes a checkpoint; renames it first, so that nobody sees an incomplete checkpoint."""
    hidden = place.with_name(f"{DRAFT}discarded-{place.name}")
    place.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _weights_of(place: Path) -> Weights:
    """Loads and verifies the weights of a checkpoint, complete or thinned."""
    _, files = _read_manifest(place)
    for name in (WEIGHTS, EMA):
        if name in files:
            verify(place / name, files[name])
    weights, agent = _read_weights(place / WEIGHTS)
    return Weights(weights, _read_weights(place / EMA)[0] if EMA in files else None, agent)


def _warn(problems: Sequence[str], instead: Path) -> None:
    for problem in problems:
        warnings.warn(f"{problem}; using {instead} instead", RuntimeWarning, stacklevel=3)


def _manifest_bytes(*, complete: bool, files: Mapping[str, Json]) -> bytes:
    return json_text({"format": FORMAT, "complete": complete, "files": files}).encode()


def _read_manifest(place: Path) -> tuple[bool, dict[str, Json]]:
    """Reads whether the checkpoint in a directory is complete, and the fingerprints of its files."""
    path = place / MANIFEST
    content = read_json(path, _MANIFEST)
    files: dict[str, Json] = content["files"]
    with wrap_errors(path):
        for name in (WEIGHTS, STATE):
            if name not in files:
                refuse("files", f"{name} among them", files)
        for name in files:
            if Path(name).name != name:
                refuse("files", "names of files in the directory", name)
    return content["complete"], files


def _read_weights(path: Path) -> tuple[dict[str, Tensor], Json]:
    """Reads weights and the description of their network and game, which fit each other as far as sizes go."""
    tensors, metadata = read_tensors(path)
    if _METADATA not in metadata:
        raise CheckpointError(f"{path}: has no {_METADATA} metadata, so these are not weights of an agent")
    agent: Json = parse_json(f"{path}, metadata", metadata[_METADATA], AGENT_SCHEMA)
    with wrap_errors(f"{path}, metadata"):
        simulations = agent.get("search", {}).get("simulations", 0)
        whole(0, _MOST_SIMULATIONS)(simulations, "search.simulations")
        there = max(_ALWAYS, sum(tensor.numel() for tensor in tensors.values()))
        for name in _SIZES:
            most = max(64, len(tensors)) if name == "layers" else there
            if agent["model"].get(name, 0) > most:
                refuse(f"model.{name}", f"at most {most}, by the tensors in the file", agent["model"][name])
    require_finite(path, tensors)
    return tensors, agent
