"""Random search over settings, a sweeper of Hydra that needs no further package.

    python -m muzero.train --multirun hydra/sweeper=random hydra.sweeper.trials=8 \\
        preset=smoke game=kuhn 'learner.lr=tag(log,interval(1e-4,1e-2))' train.steps=4,8

draws each swept key anew for every trial: one of the values of a list or `choice(...)`, a number of `range(...)`, or of
`interval(LOW,HIGH)` evenly, or evenly in its logarithm with `tag(log,...)`. The trials are runs of their own in the
sweep's directory, and sweep.json there has their settings and objectives (`logging.objective`), best first. The same
seed draws the same trials, so the same command resumes, and one with more trials adds to them.

Hydra imports this package in every program that uses it, hence nothing of muzero is imported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.plugins import Plugins
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

RESULTS = "sweep.json"
_SIGNS = {"maximize": 1, "minimize": -1}
_DIGITS = 4  # significant digits of a drawn number, so that names of directories stay short


class RandomSweeper(Sweeper):
    """Random search; see the module.

    Args, which are keys under `hydra.sweeper`:
      trials: number of runs.
      seed: seed of the draws.
      direction: "maximize" or "minimize", which of two objectives is better.
    """

    def __init__(self, trials: int, seed: int, direction: str) -> None:
        _require(trials >= 1, "hydra.sweeper.trials", "1 or more", trials)
        _require(direction in _SIGNS, "hydra.sweeper.direction", " or ".join(_SIGNS), direction)
        self.trials, self.seed, self.direction = trials, seed, direction
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Prepare the launcher that runs the trials."""
        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run all trials; returns the settings and the objective of the best."""
        assert self.launcher is not None
        assert self.hydra_context is not None
        assert self.config is not None
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(arguments)
        place = Path(self.config.hydra.sweep.dir)
        place.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, place / "multirun.yaml")
        results: list[dict[str, Any]] = []
        for number, trial in enumerate(draw_trials(overrides, self.trials, self.seed)):
            self.validate_batch_is_legal([trial])
            (done,) = self.launcher.launch([trial], initial_job_idx=number)
            value = done.return_value  # raises what the run has raised
            expected = "a figure of metrics.jsonl that every run has (evaluation.every=0 makes no win rates)"
            _require(isinstance(value, float | int), "logging.objective", expected, value)
            swept = [word for word, one in zip(trial, overrides, strict=True) if one.is_sweep_override()]
            results.append({"settings": swept, "objective": float(value), "trial": number})
            ranked = sorted(results, key=lambda row: -_SIGNS[self.direction] * row["objective"])
            content = {"direction": self.direction, "best": ranked[0], "trials": ranked}
            draft = place / f".{RESULTS}"
            draft.write_text(json.dumps(content, indent=1) + "\n")
            draft.replace(place / RESULTS)
            print(f"trial {number}: {' '.join(swept)}  objective {value:.4g}", flush=True)
        best = ranked[0]
        print(f"best of {len(results)}: {' '.join(best['settings'])}  objective {best['objective']:.4g}")
        print(f"{place / RESULTS} has all trials")
        return best


def _require(good: bool, key: str, expected: str, value: Any) -> None:
    """Raise an error that Hydra prints in one line, unless a value is good."""
    if not good:
        raise CompactHydraException(f"{key}: expected {expected}, got {value!r}")


def draw_trials(overrides: Sequence[Override], trials: int, seed: int) -> list[list[str]]:
    """Overrides of each trial, [trials][len(overrides)]; trial n does not depend on the number of trials."""
    made = []
    for number in range(trials):
        rng = np.random.default_rng([seed, number])
        made.append([f"{one.get_key_element()}={_draw(one, rng)}" for one in overrides])
    return made


def _draw(override: Override, rng: np.random.Generator) -> str:
    """Value of a setting: drawn if the override is a sweep, else the value that it states."""
    if not override.is_sweep_override():
        return override.get_value_element_as_str()
    if override.is_discrete_sweep():
        values = list(override.sweep_string_iterator())
        return values[int(rng.integers(len(values)))]
    interval = override.value()
    assert isinstance(interval, IntervalSweep)
    assert interval.start is not None
    assert interval.end is not None
    low, high = float(interval.start), float(interval.end)
    _require(low < high, f"{override.key_or_group}: interval", "two numbers, the smaller one first", (low, high))
    if "log" in interval.tags:
        _require(low > 0, f"{override.key_or_group}: interval", "numbers above 0 with tag(log, ...)", low)
        value = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        value = rng.uniform(low, high)
    whole = isinstance(interval.start, int) and isinstance(interval.end, int)
    return str(round(value)) if whole else f"{value:.{_DIGITS}g}"


_SETTINGS = {
    "_target_": "hydra_plugins.random_sweeper.RandomSweeper",
    "trials": 8,
    "seed": 0,
    "direction": "maximize",
}
ConfigStore.instance().store(group="hydra/sweeper", name="random", node=_SETTINGS, provider="belief-muzero")
