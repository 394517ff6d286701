"""Configurations as `python -m muzero.train` composes them."""

from __future__ import annotations

from hydra import compose, initialize_config_module
from omegaconf import DictConfig

from muzero.config import Config
from muzero.training.command import read_config
from muzero.training.hydra_arguments import hydra_arguments


def compose_raw(*overrides: str) -> DictConfig:
    """Configuration of a command line as Hydra hands it to the command."""
    with initialize_config_module("conf", version_base="1.3"):
        return compose("config", hydra_arguments(overrides))


def compose_config(*overrides: str) -> Config:
    """Configuration of a command line, its numbers checked."""
    return read_config(compose_raw(*overrides))
