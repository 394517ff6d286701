"""Checkpoints survive kills and damage, load nothing they should not, and give back every bit."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import signal
import socket
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from muzero import checkpoint
from muzero.checkpoint import (
    CheckpointError,
    Interruption,
    RunLocked,
    checkpoints,
    config_hash,
    load_latest,
    load_weights,
    open_run,
    optimizer_state,
    restore_optimizer,
    rng_from_json,
    rng_to_json,
    save,
    torch_rng_from_array,
    torch_rng_to_array,
)

AGENT = {"game": "some game", "players": 3, "variant": "belief", "model": {"width": 64, "value_min": -2.0}}
CONFIG = {"seed": 1, "train": {"lr": 1e-3, "iterations": 100}, "logging": {"mode": "offline"}, "bots": ["a", "b(t=2)"]}


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
    """Makes the manifest fit whatever the files now contain."""
    manifest = json.loads((place / checkpoint.MANIFEST).read_text())
    manifest["files"] = {name: checkpoint._fingerprint(place / name) for name in manifest["files"]}
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


def test_round_trip(tmp_path: Path) -> None:
    place = save(tmp_path, 7, **content())
    assert place == tmp_path / "checkpoints" / "000007"
    assert sorted(file.name for file in place.iterdir()) == sorted(FILES)
    found = load_latest(tmp_path)
    assert found is not None
    assert_same(found, content())
    assert (found.path, found.iteration) == (place, 7)
    assert {key: found.agent[key] for key in AGENT} == AGENT


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a", 3, **content()), save(tmp_path / "b", 3, **content())
    for name in FILES:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_tied_and_trainable_tensors_can_be_saved(tmp_path: Path) -> None:
    shared = nn.Parameter(torch.ones(2))
    save(tmp_path, 0, **content() | {"tensors": {"weights": {"a": shared, "b": shared}}})
    found = load_latest(tmp_path)
    assert found is not None
    assert same_tensor(found.tensors["weights"]["b"], shared.data)


def test_there_may_be_no_checkpoint(tmp_path: Path) -> None:
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
def test_what_cannot_be_saved_leaves_nothing(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    save(tmp_path, 1, **content())
    with pytest.raises((ValueError, TypeError), match=message):
        save(tmp_path, 2, **content() | change)
    assert [place.name for place in (tmp_path / "checkpoints").iterdir()] == ["000001"]
    assert load_latest(tmp_path) is not None


# Retention.


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


@pytest.fixture
def keyboard() -> Iterator[None]:
    """Ctrl-C as in a terminal; whoever starts the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("keyboard")
def test_thinning_may_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the new manifest and the deletion the weights are still good, and the next save finishes the job."""
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


def test_a_thinned_checkpoint_is_no_reason_to_start_again(tmp_path: Path) -> None:
    for iteration in range(2):
        save(tmp_path, iteration, **content(), keep=1, permanent=[0])
    checkpoint._discard(checkpoints(tmp_path)[1])
    with pytest.raises(CheckpointError, match="thinned"):
        load_latest(tmp_path)


def test_saving_again_replaces_the_abandoned_future(tmp_path: Path) -> None:
    for iteration in (10, 20, 30):
        save(tmp_path, iteration, **content(iteration), keep=3)
    save(tmp_path, 20, **content(99), keep=3)
    assert [place.name for place in checkpoints(tmp_path)] == ["000010", "000020"]
    found = load_latest(tmp_path)
    assert found is not None
    assert found.state["seed"] == 99


# Damage.


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
def test_damage_falls_back(tmp_path: Path, name: str, how: str) -> None:
    save(tmp_path, 1, **content(1))
    damage(save(tmp_path, 2, **content(2)) / name, how)
    with pytest.warns(RuntimeWarning, match=rf"000002/{name}: .*000001 instead"):
        found = load_latest(tmp_path)
    assert found is not None
    assert found.state == content(1)["state"]


@pytest.mark.parametrize("name", FILES)
def test_signed_nonsense_falls_back_too(tmp_path: Path, name: str) -> None:
    """Even if the manifest vouches for it."""
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
def test_a_manifest_of_the_wrong_form_falls_back(tmp_path: Path, files: Any) -> None:
    save(tmp_path, 1, **content(1))
    manifest = {"format": 1, "complete": True, "files": files}
    (save(tmp_path, 2, **content(2)) / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(RuntimeWarning, match="000002"):
        found = load_latest(tmp_path)
    assert found is not None
    assert found.iteration == 1


def test_the_checkpoint_of_another_iteration_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1, **content()).rename(tmp_path / "checkpoints" / "000009")
    with pytest.raises(CheckpointError, match="iteration 000009"):
        load_latest(tmp_path)


def test_if_all_are_damaged_all_are_named(tmp_path: Path) -> None:
    damage(save(tmp_path, 1, **content()) / "replay.npz", "truncated")
    damage(save(tmp_path, 2, **content()) / "state.json", "flipped")
    with pytest.raises(CheckpointError, match=r"(?s)000002/state.json: .*000001/replay.npz: .*bytes, expected"):
        load_latest(tmp_path)


class Malice:
    """Its pickle makes a directory when loaded."""

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
    with open(place / name, "rb") as file:  # the trap works, for who steps into it
        if form == "pickle":
            pickle.load(file)
            assert pwned.exists()


def test_a_pickle_in_the_configuration_is_never_executed(tmp_path: Path) -> None:
    open_run(tmp_path / "run", CONFIG).close()
    pwned = tmp_path / "pwned"
    for text in (f"!!python/object/apply:os.mkdir ['{pwned}']", "a: [", "\0", "[1, 2]"):
        (tmp_path / "run" / "config.yaml").write_text(text)
        with pytest.raises(CheckpointError, match=r"config\.yaml"):
            open_run(tmp_path / "run", CONFIG)
    assert not pwned.exists()


def test_killed_while_saving(tmp_path: Path) -> None:
    """However a process dies, the newest checkpoint that it had announced, or a later one, can be loaded."""
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
        announced = os.read(reader, 7)  # at least one
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
    assert drafts > 0, "no kill has hit a save; the test has tested nothing"
    checkpoint.remove_leftovers(tmp_path)
    assert not any(place.name.startswith(".") for place in (tmp_path / "checkpoints").iterdir())


def test_dead_at_any_file_operation(tmp_path: Path) -> None:
    """A save that thins one checkpoint and deletes another, cut short before its first, second, ... operation."""
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
        save(run, 3, **small, keep=1, permanent=[0])  # tidies up
        assert sorted(place.name for place in (run / "checkpoints").iterdir()) == ["000000", "000003"], step
        assert len(list(checkpoints(run)[0].iterdir())) == 4
        if os.waitstatus_to_exitcode(status) == 0:
            break
    assert 30 < step < 999


# Weights.


def test_weights_from_run_checkpoint_and_file(tmp_path: Path) -> None:
    open_run(tmp_path, CONFIG).close()
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


def test_weights_fall_back(tmp_path: Path) -> None:
    save(tmp_path, 1, **content(1))
    damage(save(tmp_path, 2, **content(2)) / "ema.safetensors", "flipped")
    with pytest.warns(RuntimeWarning, match=r"000002/ema.safetensors: .*SHA-256"):
        assert load_weights(tmp_path).agent["iteration"] == 1
    damage(checkpoints(tmp_path)[0] / "weights.safetensors", "missing")
    with pytest.raises(CheckpointError, match=r"(?s)000002/ema.safetensors.*000001/weights.safetensors: missing"):
        load_weights(tmp_path)


def test_errors_of_load_weights(tmp_path: Path) -> None:
    open_run(tmp_path / "run", CONFIG).close()
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
        "newer": "format 2, this code reads format 1",
        "broken": "broken: JSONDecodeError",
        "lacking": "lacks variant, model",
    }.items():
        with pytest.raises(CheckpointError, match=message):
            load_weights(tmp_path / path)


# Optimiser and random streams.


def learner(seed: int, **options: Any) -> tuple[nn.Sequential, torch.optim.AdamW]:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    network.register_parameter("unused", nn.Parameter(torch.zeros(3)))
    decay = [p for p in network.parameters() if p.ndim > 1]
    rest = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 0.1, "lr": 0.01}, {"params": rest, "weight_decay": 0.0}]
    return network, torch.optim.AdamW(groups, lr=0.003, betas=(0.8, 0.95), **options)


def train(network: nn.Module, optimizer: torch.optim.Optimizer, steps: int, generator: torch.Generator) -> None:
    for _ in range(steps):
        x = torch.randn(16, 5, generator=generator)
        optimizer.zero_grad()
        (network(x) - x[:, :2] ** 2).square().mean().backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.9


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"foreach": False}, {"fused": True}])
def test_training_continues_bit_for_bit(tmp_path: Path, options: dict[str, Any]) -> None:
    network, optimizer = learner(0, **options)
    stream = torch.Generator().manual_seed(5)
    train(network, optimizer, 3, stream)
    flat, plain = optimizer_state(optimizer, network)
    given = content() | {
        "tensors": {"weights": network.state_dict(), "optimizer": flat},
        "arrays": {"rng": {"stream": torch_rng_to_array(stream)}},
        "state": {"optimizer": plain},
    }
    save(tmp_path, 3, **given)
    train(network, optimizer, 3, stream)

    found = load_latest(tmp_path)
    assert found is not None
    fresh, continued = learner(1, **options)
    again = torch.Generator()
    untouched = copy.deepcopy(found.tensors["optimizer"])
    fresh.load_state_dict(found.tensors["weights"])
    restore_optimizer(continued, fresh, found.tensors["optimizer"], found.state["optimizer"])
    torch_rng_from_array(found.arrays["rng"]["stream"], again)
    train(fresh, continued, 3, again)
    for (name, a), b in zip(network.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert same_tensor(a, b), name
    one, other = optimizer_state(optimizer, network), optimizer_state(continued, fresh)
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    assert all(same_tensor(tensor, other[0][name]) for name, tensor in one[0].items())
    assert continued.param_groups[0]["betas"] == (0.8, 0.95)
    assert all(same_tensor(tensor, untouched[name]) for name, tensor in found.tensors["optimizer"].items())


def test_an_optimizer_that_has_not_stepped(tmp_path: Path) -> None:
    network, optimizer = learner(0)
    flat, plain = optimizer_state(optimizer, network)
    assert not flat
    fresh, other = learner(1)
    restore_optimizer(other, fresh, flat, json.loads(json.dumps(plain)))
    assert not other.state


def test_settings_may_be_tensors() -> None:
    network = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(network.named_parameters(), lr=torch.tensor(0.01))
    flat, plain = optimizer_state(optimizer, network)
    other = torch.optim.AdamW(network.named_parameters(), lr=torch.tensor(0.5))
    restore_optimizer(other, network, flat, json.loads(json.dumps(plain)))
    assert same_tensor(other.param_groups[0]["lr"], torch.tensor(0.01))


def test_another_network_is_named() -> None:
    network, optimizer = learner(0)
    train(network, optimizer, 1, torch.Generator())
    flat, plain = optimizer_state(optimizer, network)

    def refused(other: nn.Module, message: str, **options: Any) -> None:
        unlike = torch.optim.AdamW([{"params": [p for p in other.parameters() if p.ndim > 1]}], **options)
        unlike.add_param_group({"params": [p for p in other.parameters() if p.ndim <= 1]})
        with pytest.raises(CheckpointError, match=message):
            restore_optimizer(unlike, other, flat, plain)
        assert not unlike.state

    wide, _ = learner(0)
    wide[3] = nn.Linear(8, 4)
    refused(wide, r"(?s)exp_avg of 3.weight: \(2, 8\) torch.float32 saved, the parameter is \(4, 8\).*3.bias")
    refused(wide.double(), r"exp_avg of 0.weight: .* torch.float32 saved, the parameter is .* torch.float64")
    longer, _ = learner(0)
    longer.append(nn.Linear(2, 2))
    refused(longer, "4.weight is in the network, but was not saved")
    shorter, _ = learner(0)
    del shorter[3]
    refused(shorter, "3.weight was saved, but is not in the network")
    with pytest.raises(CheckpointError, match="2 parameter groups saved, the optimizer has 1"):
        restore_optimizer(torch.optim.AdamW(network.parameters()), network, flat, plain)
    reordered = copy.deepcopy(plain)
    reordered["groups"][0]["names"].reverse()
    with pytest.raises(CheckpointError, match="another order"):
        restore_optimizer(optimizer, network, flat, reordered)
    with pytest.raises(ValueError, match="parameters of the network"):
        optimizer_state(optimizer, nn.Linear(5, 8))


@pytest.mark.parametrize(
    "bits", [np.random.PCG64(3), np.random.Philox(3), np.random.Philox(key=3), np.random.PCG64([2**70, 5])]
)
def test_numpy_streams_continue(bits: np.random.BitGenerator) -> None:
    generator = np.random.Generator(bits)
    generator.random(5)
    generator.integers(0, 10, dtype=np.uint32)  # leaves half of a number in the state
    if bits.seed_seq is not None:
        generator.spawn(2)
    again = rng_from_json(json.loads(json.dumps(rng_to_json(generator))))
    assert type(again.bit_generator) is type(bits)
    assert (again.integers(0, 10, 5, np.uint32) == generator.integers(0, 10, 5, np.uint32)).all()
    assert (again.normal(size=100) == generator.normal(size=100)).all()
    if bits.seed_seq is not None:
        assert again.spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_streams_that_cannot_be_restored() -> None:
    with pytest.raises(ValueError, match="PCG64 or Philox"):
        rng_to_json(np.random.Generator(np.random.MT19937(1)))
    good = rng_to_json(np.random.default_rng(1))
    for bad in ({}, good | {"state": {}}, good | {"state": good["state"] | {"bit_generator": "SFC64"}}):
        with pytest.raises(CheckpointError, match="random generator"):
            rng_from_json(bad)
    with pytest.raises(CheckpointError, match="torch's generator"):
        torch_rng_from_array(np.zeros(3, np.uint8))


def test_the_global_torch_stream_continues() -> None:
    saved = torch_rng_to_array()
    first = torch.randn(10)
    kept = saved.copy()
    torch_rng_from_array(saved)
    assert torch.equal(torch.randn(10), first)
    assert (saved == kept).all()


# Run directories.


def test_open_run_creates_and_resumes(tmp_path: Path) -> None:
    run_dir = tmp_path / "deep" / "run"
    with open_run(run_dir, CONFIG) as run:
        assert not run.resumed
        assert (run_dir / "config_hash").read_text().strip() == config_hash(CONFIG)
    (run_dir / "checkpoints" / ".draft-000003").mkdir(parents=True)
    with open_run(run_dir, CONFIG) as run:
        assert run.resumed
        assert run.config == CONFIG
        assert not list((run_dir / "checkpoints").iterdir())


def test_odd_values_survive_the_yaml(tmp_path: Path) -> None:
    odd = {"a": "1e5", "b": 1e-5, "c": None, "d": [1, 2.0, True], "e": "on", "f": "null", "g": 1.0, "h": "1:30"}
    odd |= {"i": {}, "j": "", "k": "a: b # c", "l": "~", "m": "0x10", "n": "1_000", "o": (1, 2), "p": 1e300, "q": "ä\n"}
    open_run(tmp_path, odd).close()
    with open_run(tmp_path, odd) as run:
        assert run.resumed


def test_differences_are_shown(tmp_path: Path) -> None:
    open_run(tmp_path, CONFIG).close()
    other = copy.deepcopy(CONFIG)
    other["train"] = {"lr": 0.002, "batch": 8, "iterations": 100}
    other["logging"] = {"mode": "online"}
    other["bots"] = ["a"]
    del other["seed"]
    with pytest.raises(CheckpointError) as caught:
        open_run(tmp_path, other, changeable=["logging"])
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert sorted(lines) == [
        'bots: ["a", "b(t=2)"] != ["a"]',
        "seed: 1 != (absent)",
        "train.batch: (absent) != 8",
        "train.lr: 0.001 != 0.002",
    ]
    with open_run(tmp_path, CONFIG) as run:  # the refusal has changed nothing, and holds nothing
        assert run.config == CONFIG


def test_changeable_keys_are_changed(tmp_path: Path) -> None:
    changeable = ["logging", "train.iterations"]
    open_run(tmp_path, CONFIG, changeable).close()
    name = (tmp_path / "config_hash").read_text()
    other = copy.deepcopy(CONFIG)
    other["train"] = {"lr": 1e-3, "iterations": 200}
    other["logging"] = {"mode": "online"}
    with open_run(tmp_path, other, changeable) as run:
        assert run.config["train"]["iterations"] == 200
    assert (tmp_path / "config_hash").read_text() == name
    with pytest.raises(CheckpointError, match=r"train.iterations: 200 != 100"):
        open_run(tmp_path, CONFIG)
    with pytest.raises(CheckpointError, match=r"train.iterations: 200 != 100"):
        open_run(tmp_path, CONFIG, ["train.iter", "logging"])  # prefixes are of whole names


def test_config_hash() -> None:
    digits = config_hash(CONFIG)
    assert len(digits) == 10
    int(digits, 16)
    reordered = {key: CONFIG[key] for key in reversed(CONFIG)}
    reordered["train"] = {"iterations": 100, "lr": 1e-3}
    assert config_hash(reordered) == digits
    longer = copy.deepcopy(CONFIG)
    longer["train"]["iterations"] = 101  # type: ignore[index]
    assert config_hash(longer) != digits
    assert config_hash(longer, ["train.iterations"]) == config_hash(CONFIG, ["train.iterations"])


def test_other_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(CheckpointError, match="not empty, and not a run directory"):
        open_run(tmp_path, CONFIG)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(CheckpointError, match="not a directory"):
        open_run(tmp_path / "thesis.tex", CONFIG)
    (tmp_path / "empty").mkdir()
    open_run(tmp_path / "empty", CONFIG).close()


def test_a_run_killed_at_birth_can_be_taken_up(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("process 1 on mars\n")
    (tmp_path / "config.yaml.draft-").write_text("see")
    (tmp_path / "config_hash").write_text("0123456789\n")
    with open_run(tmp_path, CONFIG) as run:
        assert not run.resumed


def test_two_processes_cannot_share_a_run(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run = open_run(tmp_path, CONFIG)
            os.write(writer, b"x")
            time.sleep(60)
            run.close()
        finally:
            os._exit(1)
    assert os.read(reader, 1) == b"x"
    with pytest.raises(RunLocked, match=f"process {child} on {socket.gethostname()}"):
        open_run(tmp_path, CONFIG)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    open_run(tmp_path, CONFIG).close()
    os.close(reader)
    os.close(writer)


def test_one_process_cannot_open_a_run_twice(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG), pytest.raises(RunLocked, match=f"process {os.getpid()}"):
        open_run(tmp_path, CONFIG)
    open_run(tmp_path, CONFIG).close()


def test_a_forked_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    run = open_run(tmp_path, CONFIG)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run.close()  # must not let others in while the parent works
            os.write(writer, b"x")
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"x"
        with pytest.raises(RunLocked, match=f"process {os.getpid()} "):
            open_run(tmp_path, CONFIG)
        run.close()
        open_run(tmp_path, CONFIG).close()
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# Signals.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_ask(number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    with Interruption() as interruption:
        assert not interruption.requested
        signal.raise_signal(number)
        assert interruption.requested
        assert interruption.signal == number
        if number != signal.SIGINT:
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)] == before


@pytest.mark.usefixtures("keyboard")
def test_the_second_interrupt_insists() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
