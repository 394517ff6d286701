"""Encoders and networks of one's own: by registered name and by import path, from training to play."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import muzero
from muzero.agents.agent_spec import AgentSpec, build, load_network
from muzero.config import ModelConfig
from muzero.model.encoders import ENCODERS, ColumnsEncoder
from muzero.model.native.slot_step import SlotStep
from muzero.model.network import Network, check_parts, make_network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.training.command import prepared
from muzero.training.preflight import preflight
from tests.agents.own_parts import MeanEncoder, OwnNetwork
from tests.composing import compose_config

HOME = "python:tests.agents.own_parts"
SPEC = GameSpec.of("kuhn", 2)
FLAT = ModelConfig(latent="flat", encoder="transformer", latent_dim=16, width=16, hidden=16)


def test_encoders_are_made_by_import_path_and_by_registered_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muzero.model.encoders.ENCODERS", dict(ENCODERS))
    network = make_network(SPEC, replace(FLAT, encoder=f"{HOME}:MeanEncoder"))
    assert isinstance(network, Network)
    assert isinstance(network.representation, MeanEncoder)
    with pytest.raises(ValueError, match="encoder: expected transformer or columns, or python:MODULE:CLASS, got"):
        make_network(SPEC, replace(FLAT, encoder="mean"))
    muzero.register_encoder("mean", MeanEncoder)
    named = make_network(SPEC, replace(FLAT, encoder="mean"))
    assert isinstance(named, Network)
    assert isinstance(named.representation, MeanEncoder)
    with pytest.raises(ValueError, match="name of an encoder: expected a new name beside transformer, columns, mean"):
        muzero.register_encoder("mean", MeanEncoder)


def test_networks_are_made_by_import_path() -> None:
    network = make_network(SPEC, replace(FLAT, network=f"{HOME}:OwnNetwork"))
    assert type(network) is OwnNetwork
    assert network.config.network == f"{HOME}:OwnNetwork"
    with pytest.raises(ValueError, match=r"model\.network: expected a subclass of muzero\.BaseNetwork"):
        make_network(SPEC, replace(FLAT, network="python:tests.model.test_own_parts:module_of_torch"))


def module_of_torch(spec: GameSpec, config: ModelConfig) -> torch.nn.Module:
    """Make a module that is no network."""
    return torch.nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": f"{HOME}:ShortEncoder"}, "model.encoder: expected a part that can be used"),
        ({"encoder": "python:no_such_module:X"}, "model.encoder: expected a module that can be imported"),
        ({"network": "unheard_of"}, "model.network: expected one of muzero, got 'unheard_of'"),
        ({"encoder": f"{HOME}:Table"}, "model.encoder: expected a part that can be used"),
    ],
)
def test_parts_that_cannot_be_used_are_refused_before_a_run(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_parts(SPEC, replace(FLAT, **settings))  # type: ignore[arg-type]
    overrides = ["preset=smoke", "game=kuhn", "model.latent=flat", "model.encoder=transformer"]
    with pytest.raises(ValueError, match=message):
        preflight(compose_config(*overrides, *(f"model.{key}={value}" for key, value in settings.items())))


def test_own_encoder_of_blocks_is_not_replaced_by_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(ColumnsEncoder):
        """Encoder that changes what its parent computes."""

    monkeypatch.setitem(ENCODERS, "own", Own)
    spec, config = GameSpec.of("skyjo", 2), load_model_config("tiny")
    plain, own = Network(spec, config), Network(spec, replace(config, encoder="own"))
    assert SlotStep.encoder_supported(plain)
    assert not SlotStep.encoder_supported(own)
    assert "model.network=muzero" in str(SlotStep.unsupported_reason(Network(spec, replace(config, network="x"))))


def test_run_with_own_parts_trains_and_its_checkpoint_plays_only_if_trusted(tmp_path: Path) -> None:
    config = compose_config(
        *("preset=smoke", "game=kuhn", f"model.network={HOME}:OwnNetwork", f"run_dir={tmp_path / 'run'}"),
        *("train.iterations=2", "evaluation.every=0", "logging.display=none", "search.backend=eager"),
        *("replay.warm_up=16", "learner.batch=16", "train.steps=2"),
    )
    with prepared(config) as trainer:
        assert trainer.train() == 0
    text = f"checkpoint:{tmp_path / 'run'}"
    with pytest.raises(ValueError, match=r"imports: expected imports=tests\.agents\.own_parts among its options"):
        load_network(AgentSpec.parse(text), "kuhn", 2)
    network, _ = load_network(AgentSpec.parse(f"{text},imports=tests.agents.own_parts"), "kuhn", 2)
    assert type(network) is OwnNetwork
    agent = build(AgentSpec.parse(f"policy:{tmp_path / 'run'},imports=tests.agents.own_parts"), "kuhn", 2, batch=4)
    figures, _ = muzero.play_match(agent, "random", games=4, game="kuhn")
    assert figures["games"] == 4
