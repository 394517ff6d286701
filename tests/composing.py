"""Configurations as `python -m muzero.train` composes them."""

from __future__ import annotations

from hydra import compose, initialize_config_module

from muzero.config import Config
from muzero.training.command import read_config
from muzero.training.hydra_arguments import hydra_arguments


def compose_config(*overrides: str) -> Config:
    """Configuration of a command line, its numbers checked."""
    with initialize_config_module("conf", version_base="1.3"):
        return read_config(compose("config", hydra_arguments(overrides)))
