"""muzero.search.backend: one seam between the search and the native step."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import env
import mcts
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search import backend
from muzero.search.lane import tree_config
from muzero.search.planner import Planner

ROOT = Path(__file__).parents[2]
NATIVE = "muzero.model.native"


def make(latent: str = "slots") -> Network:
    torch.manual_seed(0)
    encoder = "transformer" if latent == "flat" else "columns"
    config = replace(load_model_config("tiny", "belief"), latent=latent, encoder=encoder)
    return Network(GameSpec.of("skyjo", 2), config).eval()


def imported_modules(path: Path) -> set[str]:
    """Modules that a file imports anywhere, functions included; `from a import b` counts as a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_only_the_backend_modules_import_native_code() -> None:
    folder = ROOT / NATIVE.replace(".", "/")
    files = [path for package in ("env", "mcts", "muzero", "experiments") for path in (ROOT / package).rglob("*.py")]
    importers = [
        path.relative_to(ROOT).as_posix()
        for path in files
        if folder not in path.parents
        and "native" in path.read_text()  # parsing all files would take seconds
        and any(name == NATIVE or name.startswith(f"{NATIVE}.") for name in imported_modules(path))
    ]
    assert sorted(importers) == ["muzero/search/backend.py", "muzero/search/judge.py", "muzero/training/backend.py"]


@pytest.mark.parametrize("native", [True, False])
def test_auto_bf16_is_bfloat16_on_a_device_that_has_it(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "multiplies_bf16", lambda device: native)
    network = make("flat")
    assert Planner(network, SearchConfig(simulations=2, auto_bf16=True), 2).config.bf16 == native
    assert not Planner(network, SearchConfig(simulations=2), 2).config.bf16
    assert Planner(network, SearchConfig(simulations=2, bf16=True, auto_bf16=True), 2).config.bf16


def test_backend_modules_import_native_code_in_one_line() -> None:
    for package, name in (("search", "slot_step import SlotStep"), ("training", "slot_training import SlotTraining")):
        lines = (ROOT / f"muzero/{package}/backend.py").read_text().splitlines()
        assert [line for line in lines if NATIVE in line] == [f"from {NATIVE}.{name}"]


def test_search_works_without_the_native_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "NATIVE_STEP", None)
    network, config = make(), SearchConfig(simulations=4)
    assert backend.resolve_backend(network, replace(config, backend="auto")) == "compiled"
    with pytest.raises(ValueError, match=r"search.backend=native: expected a build with the native step, got none"):
        Planner(network, replace(config, backend="native"), 8)
    t = env.make("skyjo", 8, 2, seed=1)
    found = Planner(network, config, 8).plan(t.obs, t.legal_bits, t.phase, t.decision_keys(1))
    assert t.legal[np.arange(8), found.actions].all()


def test_auto_is_native_where_it_can_be_and_the_alternative_elsewhere() -> None:
    config = SearchConfig(backend="auto")
    assert backend.resolve_backend(make(), config) == "native"
    assert backend.resolve_backend(make("flat"), config) == "compiled"
    assert backend.resolve_backend(make("flat"), config, otherwise="eager") == "eager"
    assert backend.resolve_backend(make("flat"), replace(config, backend="eager")) == "eager"
    with pytest.raises(ValueError, match=r"agent 'x', backend=native: expected model.latent=slots, got flat"):
        backend.resolve_backend(make("flat"), replace(config, backend="native"), key="agent 'x', backend")


def test_every_tree_setting_is_a_search_setting_with_the_same_default() -> None:
    """The planner hands settings over by name; a default is written in C++ and in the configuration alone."""
    known = {field.name: getattr(SearchConfig(), field.name) for field in fields(SearchConfig)}
    assert {field.name: field.default for field in mcts.Config.fields()}.items() <= known.items()


def test_tree_settings_are_handed_over_by_name() -> None:
    config = SearchConfig(
        algorithm="puct", simulations=7, backup="ego", discount=0.5, unvisited="lowest", tree_threads=2
    )
    given = tree_config(config)
    for field in mcts.Config.fields():
        assert getattr(given, field.name) == getattr(config, field.name)
