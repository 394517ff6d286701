"""Command lines of key=value arguments: reading them, and the help text of their keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from muzero.config.fields import require

T = TypeVar("T")

SHARED_HELP = {
    "game": "by default the one that a network among the agents was trained for, else the first there is",
    "rules": "a preset, or options, such as rules.preset=official rules.episode=round; by default as for game",
    "seed": "seed of the deals",
    "batch": "games that a worker plays at a time",
    "runtime": "local, or ray: the games are Ray tasks",
    "address": "with runtime=ray: address of a cluster, auto for the one this machine belongs to; by default one is "
    "started",
}
"""Meaning of the keys that a match and a ladder share."""


def parse_overrides(kind: type[T], arguments: Sequence[str], keys: Mapping[str, str]) -> tuple[T, set[str]]:
    """Make a configuration, of a kind that has `rules`, from key=value arguments; return it and the keys given."""
    for argument in arguments:
        require("=" in argument, f"argument {argument!r}", f"key=value with one of {', '.join(keys)}", argument)
    lists = {one.name for one in fields(kind) if str(one.type).startswith("list")}  # type: ignore[arg-type]
    try:
        given = OmegaConf.from_dotlist([_with_brackets(argument, lists) for argument in arguments])
        config: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), given))
    except yaml.YAMLError as error:
        reason = ascii(" ".join(str(error).split()))[1:-1]
        raise ValueError(f"arguments: expected values that YAML can read, got {reason}") from None
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None)
        where = f"{key}: " if key in keys else ""
        raise ValueError(f"{where}{str(error).splitlines()[0]}; keys are {', '.join(keys)}") from None
    good = isinstance(config.rules, str | Mapping)
    require(good, "rules", "a named rule set, or options as in rules.episode=round", config.rules)
    return config, {str(key) for key in given}


def _with_brackets(argument: str, lists: Collection[str]) -> str:
    """Argument in which a list has its brackets: agents=a,b means agents=[a,b]."""
    key, _, value = argument.partition("=")
    return f"{key}=[{value}]" if key in lists and value and not value.startswith("[") else argument


def describe_keys(defaults: Any, keys: Mapping[str, str]) -> str:
    """Lines of a help text: each key with its default and meaning."""
    values = asdict(defaults)
    return "\n".join(f"    {name}={values[name] or ''}".ljust(20) + f" {text}" for name, text in keys.items())
