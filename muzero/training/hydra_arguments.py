"""Arguments of `python -m muzero.train` on their way to Hydra, and the text of its --help.

Hydra takes a group of the defaults list without a plus only, and names the directories of a sweep by numbers. Here
`+variant=NAME` becomes `variant=NAME`, and a sweep gets a directory that is named by what is swept, with one directory
per run that is named by the values in which the runs differ:

    runs/sweeps/seed,variant-1a2b3c4d/seed=0,variant=belief

The digits stand for the settings that all runs of a sweep share. So the same command finds the same directories and
resumes, and one with more values adds runs to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from muzero.config.settings_text import settings_text

_MULTIRUN = ("--multirun", "-m")
_LONGEST = 80  # characters of the part of a directory's name that lists the swept keys


def hydra_arguments(arguments: Sequence[str], changeable: Collection[str] = ()) -> list[str]:
    """Arguments that Hydra is given for the arguments of a user.

    Args:
      arguments: words of the command line after the name of the program.
      changeable: dotted prefixes of keys that do not make another sweep.
    """
    words = [word.removeprefix("+") if word.startswith("+variant=") else word for word in arguments]
    if not any(word in _MULTIRUN for word in words):
        return words
    try:
        overrides = OverridesParser.create().parse_overrides(
            [word for word in words if "=" in word and not word.startswith("-")]
        )
    except HydraException:
        return words  # Hydra reports the error, with a hint
    return [*words, *_sweep_directories(overrides, changeable)]


def _sweep_directories(overrides: Sequence[Override], changeable: Collection[str]) -> list[str]:
    """Overrides that name the directories of a sweep, unless the user names them."""
    given = {override.key_or_group for override in overrides}
    own = [one for one in overrides if not one.key_or_group.startswith("hydra")]
    swept = sorted(one.key_or_group for one in own if one.is_sweep_override())
    fixed = sorted({one.key_or_group for one in own} - set(swept))
    shared = sorted(
        one.input_line or ""
        for one in own
        if not one.is_sweep_override()
        and not any(f"{one.key_or_group}.".startswith(f"{prefix}.") for prefix in changeable)
    )
    digits = hashlib.sha256("\n".join(shared).encode()).hexdigest()[:8]
    name = ",".join(swept)[:_LONGEST].replace("/", "_") or "run"
    excluded = ",".join(f"'{key}'" for key in fixed)
    made = {
        "hydra.sweep.dir": f"'runs/sweeps/{name}-{digits}'",
        "hydra.job.config.override_dirname.exclude_keys": f"[{excluded}]",
    }
    return [f"{key}={value}" for key, value in made.items() if key not in given]


def _settings_help(*, _root_: Any) -> str:
    """Text of all settings with the values of a composed configuration, for Hydra's template of --help."""
    values: Any = OmegaConf.to_container(_root_, resolve=False)
    assert isinstance(values, Mapping)
    return settings_text(values).replace("$", "$$")


OmegaConf.register_new_resolver("settings_help", _settings_help, replace=True)
