"""Trainers for benchmarks: settings as the training command composes them, a run that leaves nothing behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from hydra import compose, initialize_config_module

from muzero.config import Config
from muzero.data.replay_buffer import ReplayBuffer
from muzero.data.trajectory import Episode
from muzero.runs.run_directory import RunDirectory, open_run
from muzero.selfplay.worker import PlayResult
from muzero.training.command import CHANGEABLE, read_config
from muzero.training.trainer import Trainer

# Settings of the same stages that are small enough for a test.
QUICK = (
    "model=tiny",
    "search.backend=eager",
    "search.simulations=4",
    "selfplay.simulations=[]",
    "selfplay.tables=16",
    "selfplay.games_per_iteration=8",
    "replay.megabytes=8",
    "learner.batch=16",
    "train.steps=4",
    "replay.warm_up=100",
)
QUICK_PAPER = ("model.latent=flat", "model.encoder=transformer", "learner.reconstruction_weight=0")
QUICK_CPU = ("selfplay.steps_per_iteration=40",)
# Settings of a few short games, to see that iterations work and to have something to learn from.
REDUCED = (
    "selfplay.tables=16",
    "selfplay.games_per_iteration=4",
    "selfplay.simulations=[[0,4]]",
    "train.steps=4",
    "replay.megabytes=256",
    "replay.warm_up=1",
)


def preset(name: str, *overrides: str) -> Config:
    """Configuration of a preset's belief variant, as `python -m muzero.train` composes it, without evaluation."""
    with initialize_config_module("conf", version_base="1.3"):
        chosen = [f"preset={name}", "variant=belief", "evaluation.every=0", "logging.display=none", *overrides]
        return read_config(compose("config", chosen))


class TimedTrainer(Trainer):
    """Trainer that keeps the results of self-play."""

    def __init__(self, config: Config, run: RunDirectory) -> None:
        super().__init__(config, run)
        self.played: list[PlayResult] = []

    def store(self, played: list[PlayResult]) -> None:
        """Stores the results as `Trainer.store` does, and keeps them."""
        super().store(played)
        self.played += played


@contextmanager
def training(config: Config) -> Iterator[TimedTrainer]:
    """Trainer in a temporary run directory."""
    with tempfile.TemporaryDirectory() as place, open_run(place, asdict(config), CHANGEABLE) as run:
        trainer = TimedTrainer(config, run)
        try:
            yield trainer
        finally:
            trainer.close()


def fill(replay: ReplayBuffer, episodes: Sequence[Episode]) -> None:
    """Add games to a replay buffer until old ones have to leave."""
    before, added = replay.episodes, 0
    while replay.episodes == before + added:
        replay.add(episodes[added % len(episodes)])
        added += 1
