"""Declaration of settings: default, range and meaning in one place, and the check that compares values with ranges.

A field of a dataclass such as `lr: float = number(1e-3, above=0, meaning="learning rate of AdamW")` is a setting, and
a dataclass that inherits from `Section` is a group of settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import field, fields
from pathlib import Path
from typing import Any, ClassVar

import mcts


def require(good: bool, key: str, expected: str, value: Any) -> None:
    """Raises a ValueError that names the key, the expectation and the value, unless the value is good."""
    if not good:
        raise ValueError(f"{key}: expected {expected}, got {value!r}")


def require_path(key: str, path: str | Path) -> None:
    """Raises a ValueError that names the key, unless the system accepts the path; it need not exist."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        shown = ascii(str(path))
        reason = getattr(error, "strerror", None) or error
        given = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise ValueError(f"{key}: expected a path that can be used, got {given} ({reason})") from None


def setting(default: Any, meaning: str, expected: str = "", holds: Callable[[Any], bool] | None = None) -> Any:
    """Declare a dataclass field with a meaning, and a condition that its value has to fulfil.

    Args:
      default: value of the setting unless it is set; lists and dicts are copied for every instance.
      meaning: meaning of the setting in one sentence, for readers of the configuration.
      expected: condition in words, for the error message.
      holds: function that tells whether a value fulfils the condition; None accepts every value.
    """
    metadata = {"meaning": meaning, "expected": expected, "holds": holds}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def number(
    default: float,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    meaning: str,
) -> Any:
    """Declare a number in a range: from `least` on or greater than `above`, up to `most` or less than `below`."""
    if least is not None:
        upper = f" to {most}" if most is not None else f" up to less than {below}" if below is not None else " or more"
        expected = f"{least}{upper}"
    else:
        expected = f"more than {above}" + (f", at most {most}" if most is not None else "")

    def holds(value: float) -> bool:
        low = value >= least if least is not None else above is None or value > above
        return low and (most is None or value <= most) and (below is None or value < below)

    return setting(default, meaning, expected, holds)


def choice(default: str, words: Sequence[str], meaning: str) -> Any:
    """Declare a setting that is one of several words."""
    expected = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
    return setting(default, meaning, expected, lambda value: value in words)


def flag(default: bool, meaning: str) -> Any:
    """Declare a setting that is true or false."""
    return setting(default, meaning)


def text(default: str, meaning: str) -> Any:
    """Declare a setting that is any text."""
    return setting(default, meaning)


def listing(default: Sequence[Any], meaning: str) -> Any:
    """Declare a list of names or numbers."""
    return setting(list(default), meaning)


def ramp(start: float, end: float, meaning: str) -> Any:
    """Declare a pair of weights: the start and the end of a ramp."""
    expected = "two numbers, 0 or more: from, to"
    return setting([start, end], meaning, expected, lambda value: len(value) == 2 and min(value) >= 0)


def schedule(default: Sequence[Sequence[float]], *, least: float, meaning: str) -> Any:
    """Declare a schedule, a list of [iteration, number] pairs: each number holds from its iteration on."""

    def holds(value: Any) -> bool:
        for pair in value:
            numbers = isinstance(pair, list | tuple) and all(isinstance(number, int | float) for number in pair)
            if not numbers or len(pair) != 2:
                return False
        starts = [start for start, _ in value]
        rising = starts == sorted(set(starts)) and starts[:1] in ([], [0])
        return rising and all(number >= least for _, number in value)

    expected = f"[iteration, number] pairs, from iteration 0 on, numbers {least} or more"
    return setting([list(pair) for pair in default], meaning, expected, holds)


def tree_setting(name: str) -> Any:
    """Declare a setting of the tree search, whose default, range and meaning are declared in mcts/config.h."""
    declared = _TREE_SETTINGS[name]

    def holds(value: Any) -> bool:
        try:
            mcts.Config(**{name: value})
        except (TypeError, ValueError):
            return False
        return True

    return setting(declared.default, declared.meaning, declared.expected, holds)


_TREE_SETTINGS = {declared.name: declared for declared in mcts.Config.fields()}


class Section:
    """Group of settings under one key.

    Attributes:
      KEY: key of the group, as error messages name it; empty for the whole configuration.
    """

    KEY: ClassVar[str] = ""

    def check(self) -> None:
        """Raises a ValueError that names the key of a value outside its range."""
        for entry in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value, holds = getattr(self, entry.name), entry.metadata.get("holds")
            if isinstance(value, Section):
                value.check()
            elif holds:
                key = f"{self.KEY}.{entry.name}" if self.KEY else entry.name
                require(holds(value), key, entry.metadata["expected"], value)
        self.check_together()

    def check_together(self) -> None:
        """Raises a ValueError if values that are good alone do not fit each other."""


def scheduled(pairs: Sequence[Sequence[Any]], iteration: int, otherwise: Any) -> Any:
    """Number that a schedule has reached at an iteration; `otherwise` if the schedule is empty."""
    reached = [number for start, number in pairs if start <= iteration]
    return reached[-1] if reached else otherwise
