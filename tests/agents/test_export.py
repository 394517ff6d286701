"""Exported networks compute what the network computes, for any number of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import env
from muzero.agents.agent_spec import AgentSpec, load_network
from muzero.agents.export import export_network, main
from muzero.model.interface import BaseNetwork
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


def inputs(network: BaseNetwork, rows: int) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Observations of real positions, and the arguments of a step from them."""
    spec = network.spec
    tables = env.make(spec.game, rows, spec.num_players, seed=rows)
    tables.random_steps(5)
    obs = torch.from_numpy(tables.obs.copy())
    number = torch.arange(rows)
    with torch.inference_mode():
        latent = network.represent(obs).clone()
    outcome = number % network.num_outcomes
    return obs, (latent, number % spec.num_actions, number % 2, number % spec.num_players, outcome)


def test_torch_programs_give_the_same_outputs(tmp_path: Path) -> None:
    torch.manual_seed(1)
    network = Network(GameSpec.of("kuhn", 2), load_model_config("tiny", "belief")).eval()
    found = export_network(network, tmp_path, format="torch", backup="ego")
    programs = [torch.export.load(path).module() for path in (found.initial, found.recurrent)]
    for rows in (1, 7):
        obs, step = inputs(network, rows)
        with torch.inference_mode():
            expected = [network.initial(obs, "ego"), network.recurrent(*step, "ego")]
            computed = [programs[0](obs), programs[1](*step)]
        torch.testing.assert_close(computed, expected, **CLOSE)
    about = json.loads(found.description.read_text())
    assert (about["game"], about["values"], about["latent"]) == ("kuhn", 1, network.latent_dim)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["agent:skyjo-belief", "flat"])
def test_onnx_runtime_gives_the_same_outputs(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(1)
    if name == "flat":
        config = load_model_config("tiny", "baseline")
        config.latent, config.encoder = "flat", "transformer"
        network: BaseNetwork = Network(GameSpec.of("lama", 3), config).eval()
    else:
        network = load_network(AgentSpec.parse(name), "skyjo", 2)[0].cpu()
    found = export_network(network, tmp_path)
    files, provider = (found.initial, found.recurrent), ["CPUExecutionProvider"]
    sessions = [onnxruntime.InferenceSession(path, providers=provider) for path in files]
    for rows in (1, 7):
        obs, step = inputs(network, rows)
        with torch.inference_mode():
            expected = [network.initial(obs, "maxn"), network.recurrent(*step, "maxn")]
        given = [{"obs": obs}, dict(zip(("latent", "action", "shift", "to_play", "outcome"), step, strict=True))]
        for session, arguments, wanted in zip(sessions, given, expected, strict=True):
            used = {each.name for each in session.get_inputs()}  # the exporter drops inputs that change nothing
            feed = {key: tensor.numpy() for key, tensor in arguments.items() if key in used}
            computed = [torch.from_numpy(array) for array in session.run(None, feed)]
            torch.testing.assert_close(computed, list(wanted), **CLOSE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["agent=bot:greedy"], "agent: expected weights: agent:NAME, checkpoint:RUN or policy:PATH, got 'bot:greedy'"),
        (["agent=agent:skyjo-belief", "format=tflite"], "format: expected one of onnx, torch, got 'tflite'"),
        (["agent=agent:skyjo-belief", "backup=none"], "backup: expected maxn or ego, got 'none'"),
        (["weights=x"], "expected key=value with one of agent, out, format, players, backup"),
        (["agent=agent:skyjo-belief", "players=7"], "players"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
