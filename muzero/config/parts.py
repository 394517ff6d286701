"""Parts of one's own, named by import paths: `python:MODULE:CLASS`, such as `python:my_parts:Careful`.

Modules are found as Python finds them: in the directory in which a command is started, and among installed packages.
Importing a module runs its code, so only names that the user has typed are imported, never names from a file.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

PREFIX = "python:"
_PATH = re.compile(r"python:([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_NAME = re.compile(r"[A-Za-z_][\w-]*")


def is_part_name(text: str) -> bool:
    """Tell whether a text has the form of a registered name or of an import path."""
    return bool(_NAME.fullmatch(text) or _PATH.fullmatch(text))


def split_path(key: str, text: str) -> tuple[str, str]:
    """Module and class of an import path; an error names the key."""
    found = _PATH.fullmatch(text)
    if found is None:
        raise ValueError(f"{key}: expected python:MODULE:CLASS, got {text!r}")
    return found[1], found[2]


def import_named(key: str, module: str) -> Any:
    """Import a module; an error names the key, and the line of the module that failed."""
    try:
        return import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        expected = "a module that can be imported, from this directory or an installed package"
        raise ValueError(f"{key}: expected {expected}, got {module!r} ({reason})") from error


def import_part(key: str, text: str) -> Any:
    """Class or function that an import path names.

    Args:
      key: name of the setting or agent, for errors.
      text: import path, `python:MODULE:CLASS`.
    """
    module, name = split_path(key, text)
    found = getattr(import_named(key, module), name, None)
    own = sorted(
        each for each, value in vars(sys.modules[module]).items() if getattr(value, "__module__", "") == module
    )
    expected = f"a class or function of {module}: {', '.join(own[:10]) or '(it has none)'}"
    if not callable(found):
        raise ValueError(f"{key}: expected {expected}, got {name!r}")
    return found
