"""Reader of run directories: settings, checkpoints, metrics and timings of a run, finished or still going on."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config.fields import require
from muzero.runs import metrics
from muzero.runs.files import read_json, read_yaml
from muzero.runs.metrics import Record
from muzero.runs.run_directory import CONFIG, STATE, checkpoints, was_edited
from muzero.runs.schema import anything, flag, listing, real, record, text, whole

Floats = NDArray[np.float64]

_PLAYERS = whole(1, 64)
_CONFIG = record(
    {
        "seed": whole(0, 2**63 - 1),
        "variant": text(100),
        "game": record(
            {"name": text(100), "players": _PLAYERS, "bots": listing(text(200), most=metrics.MOST_OPPONENTS)},
            others=anything,
        ),
        "selfplay": record({"players": listing(_PLAYERS, most=64)}, others=anything),
        "model": record({"ego": flag}, others=anything),
    },
    others=anything,
)
_LENGTH = record(
    {"train": record({"iterations": whole(1), "minutes": real(0)}, others=anything)}, others=anything
)  # settings that say when a run ends
_PROGRESS = record({"iteration": whole(), "state": record({"elapsed": real(0)}, others=anything)}, others=anything)


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
        config = read_yaml(path / CONFIG, _CONFIG)
        if was_edited(path):
            text = f"{path / CONFIG}: was edited after the run had written it, and may not say what was trained"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        game, mixed = config["game"], config["selfplay"]["players"]
        return Run(
            path=path,
            config=config,
            variant=config["variant"],
            seed=config["seed"],
            game=game["name"],
            players=game["players"],
            player_counts=tuple(sorted({game["players"], *mixed})),
            ego=config["model"]["ego"],
            bots=tuple(game["bots"]),
        )

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
    if not (places[-1] / STATE).exists():  # a newer checkpoint is just replacing this one
        return False
    content = read_json(places[-1] / STATE, _PROGRESS)
    train = read_yaml(path / CONFIG, _LENGTH)["train"]
    limit = float(train["minutes"]) * 60
    return bool(content["iteration"] >= train["iterations"] or 0 < limit <= content["state"]["elapsed"])
