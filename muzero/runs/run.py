"""Reader of run directories: settings, checkpoints, metrics and timings of a run, finished or still going on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from muzero.config_fields import require
from muzero.runs import metrics
from muzero.runs.metrics import Record
from muzero.runs.run_directory import CONFIG, STATE, checkpoints

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """A run directory. Checkpoints, metrics and timings are read when they are first asked for.

    Attributes:
      path: path of the directory as it was given.
      config: stored configuration.
      variant, seed: variant and seed in the configuration.
      game, players: game and number of players that the network was trained for.
      player_counts: all table sizes of training, rising; only `players` unless the run mixed several.
      ego: whether the network has ego conditioning.
      bots: bots of the curriculum.
    """

    path: Path
    config: Mapping[str, Any]
    variant: str
    seed: int
    game: str
    players: int
    player_counts: tuple[int, ...]
    ego: bool
    bots: tuple[str, ...]

    @staticmethod
    def read(path: Path) -> Run:
        """Reads the configuration of a run; an error names the file or key that is missing."""
        require((path / CONFIG).is_file(), str(path), f"a run directory, with {CONFIG}", f"no {CONFIG}")
        try:
            config: Any = OmegaConf.to_container(OmegaConf.load(path / CONFIG))
            game, mixed = config["game"], config["selfplay"]["players"]
            players = int(game["players"])
            return Run(
                path=path,
                config=config,
                variant=str(config["variant"]),
                seed=int(config["seed"]),
                game=str(game["name"]),
                players=players,
                player_counts=tuple(sorted({players, *map(int, mixed)})),
                ego=bool(config["model"]["ego"]),
                bots=tuple(game["bots"]),
            )
        except (KeyError, TypeError, ValueError, YAMLError, OmegaConfBaseException) as error:
            raise ValueError(f"{path / CONFIG}: not the configuration of a run ({error!r})") from None

    @property
    def label(self) -> str:
        """Text that stands for the run in names of files."""
        return run_label(self.path)

    @cached_property
    def iterations(self) -> tuple[int, ...]:
        """Iterations of the checkpoints, rising."""
        return tuple(int(place.name) for place in checkpoints(self.path))

    @cached_property
    def records(self) -> Sequence[Record]:
        """Metrics, one record per iteration; there is at least one record."""
        missing = f"no {metrics.METRICS}"
        require(
            (self.path / metrics.METRICS).is_file(), str(self.path), f"a run directory, with {metrics.METRICS}", missing
        )
        records = metrics.read(self.path)
        found = "none: no iteration is done yet"
        require(bool(records), str(self.path), f"at least one line in {metrics.METRICS}", found)
        return records

    @cached_property
    def timings(self) -> Sequence[Record]:
        """Timings of the iterations in `records`; there may be fewer, if some were lost or are not yet written."""
        known = (self.path / metrics.TIMINGS).is_file()
        return metrics.read(self.path, metrics.TIMINGS)[: len(self.records)] if known else []

    @cached_property
    def minutes(self) -> Floats:
        """[len(records)] wall-clock minutes of training after each iteration; NaN where unknown."""
        minutes = np.full(len(self.records), np.nan)
        for index, timings in enumerate(self.timings):
            if timings.get("elapsed") is not None:
                minutes[index] = timings["elapsed"] / 60
        return minutes

    def evaluated_bots(self) -> list[str]:
        """Every bot of an evaluation, in the order of the metrics."""
        return list(dict.fromkeys(bot for record in self.records for bot in record.get("evaluation") or {}))

    def last(self, group: str) -> Record | None:
        """Last record that has this group, or None."""
        return next((record for record in reversed(self.records) if record.get(group)), None)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Reads runs; the same directory twice is an error."""
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        require(places.count(place) == 1, str(path), "different runs", "the same one twice")
    return [Run.read(path) for path in paths]


def run_label(path: Path) -> str:
    """Text that stands for a run directory in names of files."""
    return re.sub(r"[^\w.-]+", "_", str(path)).strip("_")


def is_finished(path: Path) -> bool:
    """Whether the training run in a directory has reached its end, by the trainer's own rule."""
    places = checkpoints(path)
    if not places or not (path / CONFIG).is_file():
        return False
    try:
        content = json.loads((places[-1] / STATE).read_bytes())
    except FileNotFoundError:  # a newer checkpoint is just replacing this one
        return False
    train = OmegaConf.load(path / CONFIG).train
    limit = float(train.minutes) * 60
    return bool(content["iteration"] >= train.iterations or 0 < limit <= content["state"]["elapsed"])
