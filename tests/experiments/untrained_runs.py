"""Run directories of untrained networks, and running an experiment on them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from muzero.runs.run_directory import CONFIG

SHORT = {"preset": "official", "episode": "round", "max_decisions": 60}  # games of untrained networks hardly ever end
ONE = ("--workers", 1)


def make_run(
    path: Path,
    variant: str,
    seed: int = 0,
    players: int = 2,
    iterations: tuple[int, ...] = (2, 4),
    also: tuple[int, ...] = (),
    rules: dict[str, Any] = SHORT,
    **changes: Any,
) -> Path:
    """Writes a run directory of untrained networks; `also` are smaller numbers of players that it was trained
    for, `changes` other settings of the model."""
    model = replace(load_model_config("tiny", variant), **changes)
    agent = {"game": "skyjo", "players": players, "variant": variant, "model": asdict(model), "rules": rules}
    agent["player_counts"] = [*also, players]
    agent["search"] = asdict(SearchConfig(simulations=2, max_considered=2))
    for iteration in iterations:
        torch.manual_seed(100 * seed + iteration)
        network = Network(GameSpec.of("skyjo", players), model)
        weights = {name: p.detach() for name, p in network.named_parameters()}
        checkpoint.save(path, iteration, tensors={"weights": weights}, arrays={}, state={}, agent=agent)
    game = {"name": "skyjo", "players": players, "bots": ["random", "naive"], "held_out_bots": ["greedy"]}
    config = {"seed": seed, "variant": variant, "game": game, "model": {"ego": model.ego}}
    config["selfplay"] = {"players": list(also)}
    (path / CONFIG).write_text(OmegaConf.to_yaml(config))
    return path


def run_script(name: str, out: Path, *arguments: Any, plot: bool = True) -> dict[str, Any]:
    """Runs an experiment, checks that it writes its files, a plot among them if it has one, and returns its JSON."""
    script = import_module(f"experiments.{name}")
    assert script.main(["--out", str(out), "--games", "4", *map(str, arguments)]) == 0
    assert (out / f"{name}.png").exists() == plot
    assert not plot or (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (out / f"{name}.md").read_text().startswith("# ")
    result: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return result
