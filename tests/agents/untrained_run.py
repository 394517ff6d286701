"""Run directory whose checkpoint is an untrained network, for tests that need an agent with weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint


def save_untrained_run(path: Path) -> Path:
    """Save a checkpoint of iteration 7: Skyjo rounds for two players, 3 simulations."""
    torch.manual_seed(0)
    model = load_model_config("tiny", "belief")
    weights = {n: p.detach() for n, p in Network(GameSpec.of("skyjo", 2), model).named_parameters()}
    agent = {"game": "skyjo", "players": 2, "variant": "belief", "model": asdict(model), "rules": {"episode": "round"}}
    agent["search"] = asdict(SearchConfig(simulations=3))
    checkpoint.save(path, 7, tensors={"weights": weights}, arrays={}, state={}, agent=agent)
    return path
