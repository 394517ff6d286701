"""Check of the words of `python -m muzero.train` before Hydra reads them; an error names the nearest valid ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from muzero.config import Config, require

_WITH_VALUE = ("--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--info", "-i", "--experimental-rerun")
_OTHER_CONFIG = (
    "--config-name",
    "-cn",
    "--config-path",
    "-cp",
    "--hydra-help",
    "--version",
    "--shell-completion",
    "-sc",
)
_NEAREST = 3  # keys that a message names
_ALL = "python -m muzero.train --help lists all"


def check_overrides(words: Sequence[str]) -> None:
    """Refuse words that are no settings; the error names the word, the nearest valid keys and how to see all.

    Args:
      words: arguments of Hydra, such as variant=belief or learner.lr=1e-3.
    """
    if any(word.partition("=")[0] in _OTHER_CONFIG for word in words):
        return  # settings of another configuration, which only Hydra knows
    own, settings = _split(words)
    groups = _groups(own)
    schema = OmegaConf.structured(Config)
    for word in settings:
        require("=" in word or word.startswith("~"), f"argument {word!r}", f"key=value; {_ALL}", word)
        try:
            (override,) = OverridesParser.create().parse_overrides([word])
        except HydraException as error:
            raise ValueError(f"argument {word!r}: {str(error).splitlines()[0]}") from None
        key = override.key_or_group
        if key.split(".")[0] == "hydra" or key.startswith("hydra/"):
            continue
        if key in groups:
            _check_choice(override, groups[key])
        else:
            _check_key(override, schema, [*groups, *_keys(schema)])


def _split(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Directories of --config-dir, and the words that are no options."""
    directories, settings = [], []
    rest = iter(words)
    for word in rest:
        name, given, value = word.partition("=")
        if name in _WITH_VALUE:
            value = value if given else next(rest, "")
            directories += [Path(value)] if name in ("--config-dir", "-cd") else []
        elif not word.startswith("-"):
            settings.append(word)
    return directories, settings


def _groups(directories: Sequence[Path]) -> dict[str, set[str]]:
    """Groups of settings (variant, game, preset, ...) and the names of their files."""
    found: dict[str, set[str]] = {}
    for place in (Path(str(files("conf"))), *directories):
        for path in place.glob("*/*.yaml"):
            found.setdefault(path.parent.name, set()).add(path.stem)
    return found


def _keys(node: DictConfig, prefix: str = "") -> Iterator[str]:
    """Dotted names of all settings and of their sections."""
    for name in map(str, node):
        key = f"{prefix}{name}"
        yield key
        value = node._get_node(name)
        if isinstance(value, DictConfig) and not value._is_none() and not value._is_missing():
            yield from _keys(value, f"{key}.")


def _nearest(wrong: str, valid: Sequence[str]) -> str:
    """Keys most like a wrong one, by the whole name or by its last part, for a message; empty if none is like it."""
    last = {key: key.rpartition(".")[2] for key in valid}
    near = difflib.get_close_matches(wrong, valid, _NEAREST, 0.7)
    ends = difflib.get_close_matches(wrong.rpartition(".")[2], sorted(set(last.values())), _NEAREST, 0.7)
    near += [key for end in ends for key in valid if last[key] == end]
    return ", ".join(list(dict.fromkeys(near))[:_NEAREST])


def _check_choice(override: Override, choices: set[str]) -> None:
    """Refuse a name that a group of settings does not have."""
    values = [str(each) for each in override.sweep_iterator()] if override.is_choice_sweep() else [override.value()]
    for value in values:
        if isinstance(value, str) and value.removesuffix(".yaml") not in choices:
            near = ", ".join(difflib.get_close_matches(value, sorted(choices), _NEAREST, 0.6))
            hint = f"one of {', '.join(sorted(choices))}{f' (nearest: {near})' if near else ''}; {_ALL}"
            require(False, override.key_or_group, hint, value)


def _check_key(override: Override, schema: DictConfig, valid: Sequence[str]) -> None:
    """Refuse a key that no setting has, or a value that is not of its kind."""
    key = override.key_or_group
    node: Any = schema
    for name in key.split("."):
        if isinstance(node, DictConfig) and OmegaConf.get_type(node) is dict:
            return  # rules of a game, say, which the game checks
        if not isinstance(node, DictConfig) or name not in node:
            near = _nearest(key, valid)
            raise ValueError(f"{key}: expected a key of the settings{f', nearest: {near}' if near else ''}; {_ALL}")
        node = node._get_node(name)
    if not override.is_sweep_override() and not override.is_delete():
        try:
            OmegaConf.update(schema.copy(), key, override.value())
        except OmegaConfBaseException as error:
            raise ValueError(f"{key}: {str(error).splitlines()[0]}") from None
