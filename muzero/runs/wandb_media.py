"""Tables, figures and artifacts of runs and results in wandb."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from matplotlib.figure import Figure
from PIL.Image import Image
from PIL.Image import open as open_image

from muzero.runs.curves import make_figures
from muzero.runs.history import opponents_table
from muzero.runs.metrics import METRICS
from muzero.runs.run import Run
from muzero.runs.run_directory import CONFIG, checkpoints

RECORDS = "records"  # directory of game records in a run directory
_SMOOTH = 20  # iterations of the rolling means in figures
_MOST_RECORDS = 200  # game records in an artifact, the newest ones
_LIGHT = ("weights.safetensors", "ema.safetensors", "state.json", "manifest.json")  # files that are enough to play


def log_media(wandb: ModuleType, run: Any, run_dir: Path, artifacts: bool) -> None:
    """Logs what a run's directory has besides numbers: a table of all evaluations, figures (reliability among them).

    Args:
      wandb: the module wandb.
      run: the wandb run.
      run_dir: run directory; without a configuration and metrics nothing is logged.
      artifacts: whether to log the newest weights and the game records as artifacts, too.
    """
    if not (run_dir / METRICS).is_file() or not (run_dir / CONFIG).is_file():
        return
    found = Run.read(run_dir)
    if not found.records:
        return
    columns, rows = opponents_table(run_dir)
    media: dict[str, Any] = {}
    if rows:
        media["tables/opponents"] = wandb.Table(columns=columns, data=rows)
    for name, figure in make_figures([found], _SMOOTH).items():
        media[f"figures/{name}"] = wandb.Image(picture(figure))
    if media:
        run.log(media)
    if artifacts:
        _log_artifacts(wandb, run, run_dir)


def picture(figure: Figure) -> Image:
    """Figure as a bitmap."""
    file = BytesIO()
    figure.savefig(file, dpi=120, format="png")
    return open_image(file)


def _log_artifacts(wandb: ModuleType, run: Any, run_dir: Path) -> None:
    """Logs the newest weights and game records."""
    places = checkpoints(run_dir)
    if places:
        weights = wandb.Artifact(
            artifact_name(run_dir, "weights"), type="model", metadata={"iteration": places[-1].name}
        )
        weights.add_file(str(run_dir / CONFIG), name=CONFIG)
        for name in _LIGHT:
            if (places[-1] / name).is_file():
                weights.add_file(str(places[-1] / name), name=name)
        run.log_artifact(weights)
    games = sorted((run_dir / RECORDS).glob("*.json"))[-_MOST_RECORDS:]
    if games:
        kept = wandb.Artifact(artifact_name(run_dir, "games"), type="game-records")
        for path in games:
            kept.add_file(str(path), name=path.name)
        run.log_artifact(kept)


def artifact_name(path: Path, kind: str) -> str:
    """Name of an artifact: letters that wandb allows."""
    return f"{re.sub('[^A-Za-z0-9_.-]', '-', path.name)[:100]}-{kind}"
