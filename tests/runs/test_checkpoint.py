"""Checkpoints: complete after kills and damage, never executed, and bit-exact when loaded."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from muzero.runs import checkpoint, provenance
from muzero.runs.checkpoint import checkpoints, load_latest, load_weights, save
from muzero.runs.files import CheckpointError, fingerprint
from muzero.runs.run_directory import open_run, remove_leftovers

AGENT = {"game": "some game", "players": 3, "variant": "belief", "model": {"width": 64, "value_min": -2.0}}


def content(seed: int = 0, size: int = 100) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    noise = torch.from_numpy(rng.normal(size=(3, 2)))
    weights = {"a.weight": torch.from_numpy(rng.normal(size=(3, 5)).astype(np.float32)), "a.count": torch.tensor(seed)}
    arrays = {
        "replay": {
            "obs/tokens": rng.integers(-9, 9, (size, 7)).astype(np.int16),
            "done": rng.random(size) < 0.5,
            "columns": np.asfortranarray(rng.random((4, 6))),
            "records": np.array([(1, 2.5), (3, np.nan)], [("x", "<i4"), ("y", ">f8")]),
            "one": np.array(seed, np.uint64),
            "none": np.zeros((0, 3), np.float32),
        },
        "selfplay": {"keys": rng.integers(0, 2**63, 5).astype(np.uint64)},
    }
    return {
        "tensors": {
            "weights": weights,
            "ema": {name: 2 * tensor for name, tensor in weights.items()},
            "optimizer": {"half": noise.bfloat16(), "turned": noise.T, "none": torch.zeros(0, 2)},
        },
        "arrays": arrays,
        "state": {"offset": 12345, "lr": 0.1 + 0.2, "best": float("-inf"), "pool": [1, 2], "seed": seed, "none": None},
        "agent": AGENT,
    }


def same_tensor(a: Tensor, b: Tensor) -> bool:
    raw = (a.contiguous().flatten().view(torch.uint8), b.contiguous().flatten().view(torch.uint8))
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*raw)


def assert_same(found: checkpoint.Checkpoint, expected: dict[str, Any]) -> None:
    assert found.state == expected["state"]
    assert found.tensors.keys() == expected["tensors"].keys()
    for group, tensors in expected["tensors"].items():
        assert found.tensors[group].keys() == tensors.keys()
        assert all(same_tensor(found.tensors[group][name], tensor) for name, tensor in tensors.items())
    assert found.arrays.keys() == expected["arrays"].keys()
    for group, arrays in expected["arrays"].items():
        assert list(found.arrays[group]) == list(arrays)
        for name, array in arrays.items():
            other = found.arrays[group][name]
            assert (other.dtype, other.shape, other.tobytes()) == (array.dtype, array.shape, array.tobytes())


def sign(place: Path) -> None:
    """Rewrites the manifest for the present content of the files."""
    manifest = json.loads((place / checkpoint.MANIFEST).read_text())
    manifest["files"] = {name: fingerprint(place / name) for name in manifest["files"]}
    (place / checkpoint.MANIFEST).write_text(json.dumps(manifest))


FILES = [
    "weights.safetensors",
    "ema.safetensors",
    "optimizer.safetensors",
    "replay.npz",
    "selfplay.npz",
    "state.json",
    "manifest.json",
]


def test_everything_saved_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    place = save(tmp_path, 7, **content())
    assert place == tmp_path / "checkpoints" / "000007"
    assert sorted(file.name for file in place.iterdir()) == sorted(FILES)
    found = load_latest(tmp_path)
    assert found is not None
    assert_same(found, content())
    assert (found.path, found.iteration) == (place, 7)
    assert {key: found.agent[key] for key in AGENT} == AGENT


def test_equal_content_gives_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_now", lambda: "now")  # a second may begin between the two
    a, b = save(tmp_path / "a", 3, **content()), save(tmp_path / "b", 3, **content())
    for name in FILES:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_tied_and_trainable_tensors_can_be_saved(tmp_path: Path) -> None:
    shared = nn.Parameter(torch.ones(2))
    save(tmp_path, 0, **content() | {"tensors": {"weights": {"a": shared, "b": shared}}})
    found = load_latest(tmp_path)
    assert found is not None
    assert same_tensor(found.tensors["weights"]["b"], shared.data)


def test_without_checkpoints_there_is_nothing_to_load(tmp_path: Path) -> None:
    assert load_latest(tmp_path) is None
    assert load_latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensors": {"ema": {}}}, "weights among them"),
        ({"arrays": {"weights": {}}}, "different names"),
        ({"arrays": {"../x": {}}}, "letters, digits"),
        ({"arrays": {"replay": {"x": np.array([{}])}}}, "replay x: expected no objects"),
        ({"agent": {"game": "x"}}, "agent: expected the key players"),
        ({"keep": 0}, "keep"),
        ({"state": {"x": {1, 2}}}, "set is not JSON serializable"),
    ],
)
def test_a_refused_save_leaves_nothing_behind(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    save(tmp_path, 1, **content())
    with pytest.raises((ValueError, TypeError), match=message):
        save(tmp_path, 2, **content() | change)
    assert [place.name for place in (tmp_path / "checkpoints").iterdir()] == ["000001"]
    assert load_latest(tmp_path) is not None


# ---- retention ----


def test_old_checkpoints_are_thinned_or_deleted(tmp_path: Path) -> None:
    for iteration in range(8):
        save(tmp_path, iteration, **content(iteration), keep=2, permanent=range(0, 1000, 3))
    assert [place.name for place in checkpoints(tmp_path)] == ["000000", "000003", "000006", "000007"]
    for place in checkpoints(tmp_path)[:2]:
        assert sorted(file.name for file in place.iterdir()) == sorted(
            ["weights.safetensors", "ema.safetensors", "state.json", "manifest.json"]
        )
        loaded = load_weights(place)
        assert same_tensor(loaded.weights["a.weight"], content(int(place.name))["tensors"]["weights"]["a.weight"])
        with pytest.raises(CheckpointError, match="thinned"):
            checkpoint.load(place)
    for place in checkpoints(tmp_path)[2:]:
        assert checkpoint.load(place).iteration == int(place.name)


@pytest.mark.usefixtures("keyboard")
def test_interrupted_thinning_keeps_weights_and_is_finished_by_the_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the new manifest and the deletion of files, the weights can be loaded."""
    save(tmp_path, 0, **content())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda path, missing_ok=False: None if missing_ok else signal.raise_signal(2))
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 1, **content(), keep=1, permanent=[0])
    first = checkpoints(tmp_path)[0]
    assert (first / "replay.npz").exists()
    load_weights(first)
    save(tmp_path, 2, **content(), keep=1, permanent=[0])
    assert not (first / "replay.npz").exists()
    load_weights(first)


def test_a_run_with_only_thinned_checkpoints_is_refused_instead_of_restarted(tmp_path: Path) -> None:
    for iteration in range(2):
        save(tmp_path, iteration, **content(), keep=1, permanent=[0])
    checkpoint._discard(checkpoints(tmp_path)[1])
    with pytest.raises(CheckpointError, match="thinned"):
        load_latest(tmp_path)


def test_saving_an_earlier_iteration_deletes_later_checkpoints(tmp_path: Path) -> None:
    for iteration in (10, 20, 30):
        save(tmp_path, iteration, **content(iteration), keep=3)
    save(tmp_path, 20, **content(99), keep=3)
    assert [place.name for place in checkpoints(tmp_path)] == ["000010", "000020"]
    found = load_latest(tmp_path)
    assert found is not None
    assert found.state["seed"] == 99


# ---- damage ----


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(data[:-1])
    elif how == "longer":
        path.write_bytes(data + b"\n\0")
    elif how == "flipped":
        data[len(data) // 2] ^= 0x20
        path.write_bytes(data)
    elif how == "directory":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(b"[]")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "longer", "flipped", "directory", "other"])
def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path: Path, name: str, how: str) -> None:
    save(tmp_path, 1, **content(1))
    damage(save(tmp_path, 2, **content(2)) / name, how)
    with pytest.warns(RuntimeWarning, match=rf"000002/{name}: .*000001 instead"):
        found = load_latest(tmp_path)
    assert found is not None
    assert found.state == content(1)["state"]


@pytest.mark.parametrize("name", FILES)
def test_nonsense_that_the_manifest_lists_is_skipped_with_a_warning(tmp_path: Path, name: str) -> None:
    for nonsense in (b"", b"[]", b"{}", b"nonsense", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 50):
        run = tmp_path / nonsense.hex()[:12]
        save(run, 1, **content(1))
        place = save(run, 2, **content(2))
        (place / name).write_bytes(nonsense)
        if name != "manifest.json":
            sign(place)
        with pytest.warns(RuntimeWarning, match=rf"000002/{name}: "):
            found = load_latest(run)
        assert found is not None
        assert found.iteration == 1


@pytest.mark.parametrize("files", [[], {}, {"state.json": 1}, {"state.json": {}, "weights.safetensors": {}}, 5, None])
def test_a_malformed_manifest_is_skipped_with_a_warning(tmp_path: Path, files: Any) -> None:
    save(tmp_path, 1, **content(1))
    manifest = {"format": 1, "complete": True, "files": files}
    (save(tmp_path, 2, **content(2)) / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(RuntimeWarning, match="000002"):
        found = load_latest(tmp_path)
    assert found is not None
    assert found.iteration == 1


def test_the_checkpoint_of_another_iteration_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1, **content()).rename(tmp_path / "checkpoints" / "000009")
    with pytest.raises(CheckpointError, match="iteration: expected 000009, as the directory, got 1"):
        load_latest(tmp_path)


def test_if_all_checkpoints_are_damaged_the_error_names_each(tmp_path: Path) -> None:
    damage(save(tmp_path, 1, **content()) / "replay.npz", "truncated")
    damage(save(tmp_path, 2, **content()) / "state.json", "flipped")
    with pytest.raises(CheckpointError, match=r"(?s)000002/state.json: .*000001/replay.npz: .*bytes, expected"):
        load_latest(tmp_path)


class Malice:
    """An object whose pickle makes a directory when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("form", ["pickle", "torch", "npy", "npz"])
def test_a_pickle_is_never_executed(tmp_path: Path, name: str, form: str) -> None:
    pwned = tmp_path / "pwned"
    place = save(tmp_path, 1, **content())
    with open(place / name, "wb") as file:
        if form == "pickle":
            pickle.dump(Malice(pwned), file)
        elif form == "torch":
            torch.save(Malice(pwned), file)
        elif form == "npy":
            np.save(file, np.array([Malice(pwned)]), allow_pickle=True)
        else:
            np.savez(file, x=np.array([Malice(pwned)]))
    for signed in (False, True):
        if signed and name != "manifest.json":
            sign(place)
        with pytest.raises(CheckpointError, match=name):
            load_latest(tmp_path)
    if name in ("weights.safetensors", "ema.safetensors", "manifest.json"):
        with pytest.raises(CheckpointError, match=name):
            load_weights(tmp_path)
    with pytest.raises(CheckpointError, match=name):
        load_weights(place / name)
    assert not pwned.exists()
    with open(place / name, "rb") as file:  # the pickle does harm if it is loaded
        if form == "pickle":
            pickle.load(file)
            assert pwned.exists()


def test_after_a_kill_while_saving_the_last_announced_checkpoint_loads(tmp_path: Path) -> None:
    """After SIGKILL at a random moment, the newest checkpoint that was announced, or a later one, can be loaded."""
    rng = random.Random(0)
    drafts = 0
    for _ in range(20):
        before = load_latest(tmp_path)
        first = before.iteration + 1 if before else 0
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                for iteration in range(first, first + 10_000):
                    place = save(
                        tmp_path, iteration, **content(iteration, size=20_000), keep=2, permanent=range(0, 10**6, 5)
                    )
                    os.write(writer, f"{place.name}\n".encode())
            finally:
                os._exit(1)
        os.close(writer)
        announced = os.read(reader, 7)  # wait for at least one
        time.sleep(rng.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as rest:
            announced += rest.read()
        drafts += any(place.name.startswith(".") for place in (tmp_path / "checkpoints").iterdir())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = load_latest(tmp_path)
        assert found is not None
        assert found.iteration >= int(announced.split()[-1])
        assert found.state == content(found.iteration)["state"]
        expected = content(found.iteration, size=20_000)["arrays"]["replay"]["obs/tokens"]
        assert (found.arrays["replay"]["obs/tokens"] == expected).all()
        for place in checkpoints(tmp_path):
            load_weights(place)
    assert drafts > 0, "no kill has hit a save, so nothing was tested"
    remove_leftovers(tmp_path)
    assert not any(place.name.startswith(".") for place in (tmp_path / "checkpoints").iterdir())


def test_after_death_at_any_file_operation_a_complete_checkpoint_loads(tmp_path: Path) -> None:
    """A save that thins one checkpoint and deletes another ends before its first, second, ... file operation."""
    operations = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}
    small = content(size=1)
    for step in range(1000):
        run = tmp_path / str(step)
        for iteration in range(2):
            save(run, iteration, **small, keep=2)
        child = os.fork()
        if child == 0:
            left = step

            def die(event: str, arguments: object) -> None:
                nonlocal left
                left -= event in operations
                if left < 0:
                    os._exit(1)

            sys.addaudithook(die)
            save(run, 2, **small, keep=1, permanent=[0])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = load_latest(run)
            assert found is not None
            assert found.iteration >= 1, step
            for place in checkpoints(run):
                load_weights(place)
                if checkpoint._read_manifest(place)[0]:
                    checkpoint.load(place)
        save(run, 3, **small, keep=1, permanent=[0])  # removes leftovers
        assert sorted(place.name for place in (run / "checkpoints").iterdir()) == ["000000", "000003"], step
        assert len(list(checkpoints(run)[0].iterdir())) == 4
        if os.waitstatus_to_exitcode(status) == 0:
            break
    assert 30 < step < 999


# ---- weights ----


def test_weights_load_from_a_run_a_checkpoint_or_a_file(tmp_path: Path) -> None:
    open_run(tmp_path, {"seed": 1}).close()
    given = content()
    place = save(tmp_path, 5, **given)
    moved = tmp_path / "elsewhere.safetensors"
    moved.write_bytes((place / "weights.safetensors").read_bytes())
    for path in (tmp_path, place, place / "weights.safetensors", moved, str(moved)):
        found = load_weights(path)
        assert same_tensor(found.weights["a.weight"], given["tensors"]["weights"]["a.weight"])
        assert found.agent == AGENT | {"format": 1, "iteration": 5}
        assert (found.ema is not None) == Path(path).is_dir()
    assert same_tensor(load_weights(place / "ema.safetensors").weights["a.count"], given["tensors"]["ema"]["a.count"])


def test_damaged_weights_are_skipped_with_a_warning(tmp_path: Path) -> None:
    save(tmp_path, 1, **content(1))
    damage(save(tmp_path, 2, **content(2)) / "ema.safetensors", "flipped")
    with pytest.warns(RuntimeWarning, match=r"000002/ema.safetensors: .*SHA-256"):
        assert load_weights(tmp_path).agent["iteration"] == 1
    damage(checkpoints(tmp_path)[0] / "weights.safetensors", "missing")
    with pytest.raises(CheckpointError, match=r"(?s)000002/ema.safetensors.*000001/weights.safetensors: missing"):
        load_weights(tmp_path)


def test_load_weights_says_what_is_wrong(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"seed": 1}).close()
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("hello, this is not a safetensors file")
    place = save(tmp_path / "half", 1, **content())
    (place / "manifest.json").unlink()
    about = {**AGENT, "format": 1}
    for name, metadata in {
        "bare": None,
        "foreign": {"format": "pt"},
        "newer": {"belief-muzero": json.dumps({**about, "format": 2})},
        "broken": {"belief-muzero": "{"},
        "lacking": {"belief-muzero": json.dumps({"format": 1, "game": "x", "players": 2})},
    }.items():
        safetensors.torch.save_file({"x": torch.zeros(1)}, tmp_path / name, metadata)
    for path, message in {
        "nowhere": "does not exist",
        "run": "none yet",
        "folder": "neither a run directory",
        "text": "text: expected a .safetensors file, which this is not",
        "half": "manifest.json: missing",
        "half/checkpoints/000001": "manifest.json: missing",
        "half/checkpoints/000001/optimizer.safetensors": "not weights of an agent",
        "half/checkpoints/000001/state.json": "expected a .safetensors file, which this is not",
        "bare": "no belief-muzero metadata",
        "foreign": "no belief-muzero metadata",
        "newer": "format: expected 1, got 2",
        "broken": "broken, metadata: JSONDecodeError",
        "lacking": "variant: expected a value, got nothing",
    }.items():
        with pytest.raises(CheckpointError, match=message):
            load_weights(tmp_path / path)


def test_weights_beside_a_directory_of_results_are_named(tmp_path: Path) -> None:
    """Results keep the metrics of a run in a directory, and its weights in a file beside it."""
    safetensors.torch.save_file({"x": torch.zeros(1)}, tmp_path / "agent.safetensors")
    (tmp_path / "belief").mkdir()
    expected = rf"neither a run directory.*; weights are in {tmp_path / 'agent.safetensors'}: name the file"
    with pytest.raises(CheckpointError, match=expected):
        load_weights(tmp_path / "belief")
    (tmp_path / "belief" / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(CheckpointError, match=r"there is none yet; weights are in .*agent.safetensors: name the file"):
        load_weights(tmp_path / "belief")
