"""Sick weights, and metadata that claim too much: refused or warned of before anything is played."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from muzero.agents.agent_spec import AgentSpec, load_network, resolve
from muzero.matches.command import main
from muzero.runs import checkpoint
from muzero.runs.files import CheckpointError, json_text
from muzero.runs.tensors import read_tensors, weakness, write_tensors
from tests.agents.untrained_run import save_untrained_run


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Single file of an untrained agent's weights."""
    return save_untrained_run(tmp_path / "run") / "checkpoints" / "000007" / checkpoint.WEIGHTS


def change(path: Path, scale: float | None = None, value: float | None = None, **metadata: Any) -> Path:
    """Write the weights again, scaled or replaced, with other metadata."""
    tensors, about = read_tensors(path)
    changed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        changed[name] = torch.full_like(tensor, value) if value is not None else tensor * (scale or 1.0)
    ((key, text),) = about.items()
    content = json.loads(text)
    for name, item in metadata.items():
        content[name] = {**content[name], **item} if isinstance(item, dict) else item
    path.unlink()
    write_tensors(path, changed, {key: json_text(content)})
    return path


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_weights_that_are_no_numbers_are_refused(value: float, weights: Path) -> None:
    with pytest.raises(CheckpointError, match=r"weights.safetensors: tensor .*: expected finite numbers, got \d+ of"):
        load_network(AgentSpec.of("policy", change(weights, value=value)), "skyjo", 2)


@pytest.mark.parametrize(
    ("options", "doubt"), [({"value": 0.0}, "all weights are 0"), ({"scale": 1e-42}, "smaller than 1e-20")]
)
def test_weights_without_effect_are_warned_of(options: dict[str, float], doubt: str, weights: Path) -> None:
    with pytest.warns(RuntimeWarning, match=f"agent 'policy:.*': .*{doubt}; it will play badly"):
        load_network(AgentSpec.of("policy", change(weights, **options)), "skyjo", 2)


@pytest.mark.filterwarnings("error")
def test_healthy_weights_are_not_warned_of(weights: Path) -> None:
    load_network(AgentSpec.of("policy", weights), "skyjo", 2)
    assert weakness({"bias": torch.zeros(3), "matrix": torch.ones(2, 2)}) == ""


def test_weights_too_large_for_numbers_are_refused(weights: Path) -> None:
    with pytest.raises(ValueError, match="its weights: expected finite outputs for a new game, got 'NaN or infinity'"):
        load_network(AgentSpec.of("policy", change(weights, scale=1e8)), "skyjo", 2)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"model": {"hidden": 1_000_000}}, "model.hidden: expected at most \\d+, by the tensors in the file"),
        ({"model": {"hidden": 4000}}, "its weights are of another version of the network: .* expected \\["),
        ({"model": {"layers": 100_000}}, "model.layers: expected at most \\d+, by the tensors"),
        ({"model": {"width": "64"}}, "metadata: model.width: expected a whole number .*, got '64'"),
        ({"model": {"latent": "round"}}, "model.latent: expected flat or slots, got 'round'"),
        ({"search": {"simulations": 10**6}}, "search.simulations: expected a whole number from 0 to 4096, got 1000000"),
        ({"players": [2]}, "metadata: players: expected a whole number from 1 to 64, got list of 1"),
        ({"players": 64}, "metadata: num_players: expected 2 to 8, got 64"),
        ({"player_counts": [2, 64]}, "metadata: num_players: expected 2 to 8, got 64"),
        ({"game": "chess"}, "metadata: game: expected one of .*, got 'chess'"),
        ({"rules": 3}, "metadata: rules: expected an object"),
        ({"rules": {"preset": "official", "luck": 1}}, "metadata: rule 'luck': expected one of"),
        ({"search": {"leaves": 10**9}}, "search.leaves: expected 1 to 4096, got 1000000000"),
        ({"iteration": "7"}, "metadata: iteration: expected a whole number"),
    ],
)
def test_metadata_that_do_not_fit_are_refused_with_little_memory(
    metadata: dict[str, Any], message: str, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(weights, **metadata)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main([f"a=checkpoint:{weights},simulations=2", "b=bot:random", "games=2", "workers=1"]) == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024, "kilobytes"
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert str(weights) in error, "it names the file"
    assert re.search(message, error), error


def test_deeply_nested_metadata_are_refused_by_name(weights: Path) -> None:
    tensors, about = read_tensors(weights)
    (key,) = about
    weights.unlink()
    write_tensors(weights, tensors, {key: "[" * 200_000})
    with pytest.raises(CheckpointError, match="metadata: content: expected at most 24 levels of nesting"):
        checkpoint.load_weights(weights)


@pytest.mark.parametrize("error", [-0.1, float("nan"), "small", [0.1]])
def test_measured_errors_of_values_that_are_no_errors_are_refused(error: Any, weights: Path) -> None:
    with pytest.raises(CheckpointError, match=r"metadata: value_rmse: expected a number from 0 to 1e\+30, got "):
        load_network(AgentSpec.of("policy", change(weights, value_rmse=error)), "skyjo", 2)


@pytest.mark.parametrize("error", [0.0, 5e-324, 1e-9])
def test_errors_of_values_that_are_too_small_weigh_nothing(error: float, weights: Path) -> None:
    search = {"rescale_values": False, "visit_trust": 0.0, "maxvisit_init": 0.1}
    spec = AgentSpec.of("checkpoint", change(weights, value_rmse=error, search=search), value_scale="auto")
    with pytest.raises(ValueError, match="value_scale: expected a number: the checkpoint has no measured error"):
        resolve(spec)
