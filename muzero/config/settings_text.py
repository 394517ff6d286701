"""Text that explains every setting: key, value, meaning and range, in the order of the dataclasses."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from muzero.config import Config

_WIDTH, _INDENT = 118, " " * 6


def described(section: type = Config, prefix: str = "") -> Iterator[tuple[str, Field[Any]]]:
    """Every setting as its dotted key and the field that declares it."""
    for entry in fields(section):
        made = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        if is_dataclass(made):
            yield from described(type(made), f"{prefix}{entry.name}.")
        else:
            yield f"{prefix}{entry.name}", entry


def settings_text(values: Mapping[str, Any]) -> str:
    """Lines with all settings.

    Args:
      values: values to show, nested as the configuration is.
    """
    lines: list[str] = []
    group = ""
    for key, entry in described():
        if key.rpartition(".")[0] != group:
            group = key.rpartition(".")[0]
            lines.append("")
        value: Any = values
        for part in key.split("."):
            value = value[part]
        meaning, expected = entry.metadata["meaning"], entry.metadata["expected"]
        text = f"{meaning} ({expected})" if expected else meaning
        lines.append(f"{key}={_shown(value)}")
        lines += textwrap.wrap(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)
    return "\n".join(lines)


def _shown(value: Any) -> str:
    """Value as it can be written on the command line; texts without quotes."""
    return value if isinstance(value, str) else json.dumps(value)
