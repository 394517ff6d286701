"""Sample plans and runs for the tests of the study."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from experiments.study import command
from experiments.study.plan import Stage, StudyConfig, make_plan
from muzero.config import Config
from muzero.runs.run_directory import CHECKPOINTS, CONFIG, STATE

STAGES = ["train", "head_to_head", "merge", "bots", "ablation", "probes", "report"]


@cache
def smoke_config(*arguments: str) -> tuple[StudyConfig, dict[str, Config]]:
    """Settings of the smoke study, and the training configuration of each variant."""
    _, config = command.read_arguments(["plan", "preset=smoke", *arguments])
    return config, command.training(config)


def smoke_plan(home: Path, *arguments: str) -> dict[str, Stage]:
    """Stages of the smoke study by name."""
    config, training = smoke_config(*arguments)
    return {stage.name: stage for stage in make_plan(config, home, training)}


def write_run(path: Path, iteration: int, elapsed: float, iterations: int = 4, minutes: float = 0) -> Path:
    """Writes the files of a run that say how far it is."""
    place = path / CHECKPOINTS / f"{iteration:06d}"
    place.mkdir(parents=True)
    (place / STATE).write_text(json.dumps({"iteration": iteration, "state": {"elapsed": elapsed}}))
    (path / CONFIG).write_text(f"train: {{iterations: {iterations}, minutes: {minutes}}}\n")
    return path
