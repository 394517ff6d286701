"""Schemas of files: types, ranges, sizes and nesting of what other programs, or other people, may have written.

A check is a function of a value and its key. It raises a `SchemaError` that names the key, what was expected and what
was found; readers of files put the path in front of it. Checks are built from smaller ones:

    RECORD = record({"iteration": whole(0, 10**9), "losses": mapping(maybe(real()))}, others=anything)
    check_value(RECORD, json.loads(line))

Numbers have limits that no honest file reaches, so that nothing that reads them later overflows or asks for memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from muzero.config.fields import Section

Check = Callable[[Any, str], None]

MOST_NESTING = 24  # levels of lists and mappings within each other
MOST_TEXT = 1000  # characters of a text
_LARGE = 1e30  # largest number of a figure: sums and squares of a few are still finite
_SHOWN = 60  # characters of a value in a message


class SchemaError(ValueError):
    """Error for a value that does not fit its schema; the message names key, expectation and value."""


def refuse(key: str, expected: str, value: Any = None, *, found: str = "") -> None:
    """Raise a `SchemaError` about a value, or about something that `found` describes."""
    raise SchemaError(f"{key or 'content'}: expected {expected}, got {found or shown(value)}")


def shown(value: Any) -> str:
    """Short text of any value, in which control characters and odd Unicode are escaped."""
    if isinstance(value, Mapping | list | tuple):
        kind = "object" if isinstance(value, Mapping) else "list"
        return f"{kind} of {len(value)}" if value else f"empty {kind}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"  # Python refuses to print very long ones
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def check_value(check: Check, value: Any) -> None:
    """Compare a whole value, such as the content of a file, with a schema; nesting first."""
    _check_nesting(value)
    check(value, "")


def _check_nesting(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth > MOST_NESTING:
            refuse("", f"at most {MOST_NESTING} levels of nesting", level[0])
        inner = [part for part in level if isinstance(part, Mapping | list)]
        level = [item for part in inner for item in (part.values() if isinstance(part, Mapping) else part)]
        depth += 1


# ---- single values ---------------------------------------------------------------------------------------------------


def anything(value: Any, key: str) -> None:
    """Accept every value."""


def whole(least: int = 0, most: int = 2**53) -> Check:
    """Check of an integer in a range."""

    def check(value: Any, key: str) -> None:
        if type(value) is not int or not least <= value <= most:
            refuse(key, str(least) if least == most else f"a whole number from {least} to {most}", value)

    return check


def real(least: float = -_LARGE, most: float = _LARGE) -> Check:
    """Check of a finite number in a range."""

    def check(value: Any, key: str) -> None:
        good = type(value) in (int, float) and least <= value <= most and math.isfinite(value)
        if not good:
            refuse(key, f"a number from {least:g} to {most:g}", value)

    return check


def flag(value: Any, key: str) -> None:
    """Check of true or false."""
    if not isinstance(value, bool):
        refuse(key, "true or false", value)


def text(most: int = MOST_TEXT) -> Check:
    """Check of printable text."""

    def check(value: Any, key: str) -> None:
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            refuse(key, f"printable text of at most {most} characters", value)

    return check


def word(*known: str) -> Check:
    """Check of one of some words."""

    def check(value: Any, key: str) -> None:
        if not isinstance(value, str) or value not in known:
            refuse(key, f"one of {', '.join(known)}", value)

    return check


def maybe(check: Check) -> Check:
    """Check of a value that may be null instead."""
    return lambda value, key: None if value is None else check(value, key)


def either(*checks: Check) -> Check:
    """Check of a value that fits one of several schemas; the error lists what each expected."""

    def check(value: Any, key: str) -> None:
        found = []
        for each in checks:
            try:
                return each(value, key)
            except SchemaError as error:
                found.append(str(error).partition("expected ")[2].rpartition(", got ")[0])
        return refuse(key, " or ".join(found), value)

    return check


# ---- lists and mappings ----------------------------------------------------------------------------------------------


def listing(of: Check, least: int = 0, most: int = 100_000) -> Check:
    """Check of a list whose items fit a schema."""

    def check(value: Any, key: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            refuse(key, f"a list of {least} to {most} items", value)
        for index, item in enumerate(value):
            of(item, f"{key}[{index}]")

    return check


def mapping(of: Check, most: int = 1000) -> Check:
    """Check of an object with any names, whose values fit a schema."""
    name = text(200)

    def check(value: Any, key: str) -> None:
        if not isinstance(value, Mapping) or len(value) > most:
            refuse(key, f"an object of at most {most} entries", value)
        for inner, item in value.items():
            name(inner, f"{key}, name of an entry" if key else "name of an entry")
            of(item, _joined(key, inner))

    return check


def record(
    required: Mapping[str, Check], optional: Mapping[str, Check] | None = None, others: Check | None = None
) -> Check:
    """Check of an object with known keys; others are refused unless they have a check of their own."""
    known = {**required, **(optional or {})}
    outer = mapping(anything)

    def check(value: Any, key: str) -> None:
        outer(value, key)
        for name in required:
            if name not in value:
                refuse(_joined(key, name), "a value", found="nothing")
        for name, item in value.items():
            if name not in known and others is None:
                refuse(_joined(key, name), f"keys among {', '.join(known)}", name)
            of = known.get(name) or others
            assert of is not None
            of(item, _joined(key, name))

    return check


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


# ---- configurations --------------------------------------------------------------------------------------------------


def section(kind: type[Section]) -> Check:
    """Check of the types of a group of settings, from the annotations of its fields; keys may be absent.

    The ranges are `Section.check`'s business, which needs a configuration whose types are right.
    """
    hints = get_type_hints(kind)
    checks = {entry.name: _of_type(hints[entry.name]) for entry in fields(kind)}  # type: ignore[arg-type]
    return record({}, checks)


def _of_type(kind: Any) -> Check:
    simple: dict[Any, Check] = {bool: flag, int: whole(-(2**63), 2**63 - 1), float: real(), str: text(), Any: _plain}
    if kind in simple:
        return simple[kind]
    if get_origin(kind) is UnionType:
        (given,) = (_of_type(one) for one in get_args(kind) if one is not type(None))
        return lambda value, key: None if value is None else given(value, key)
    if get_origin(kind) is list:
        return listing(_of_type(get_args(kind)[0]), most=1000)
    if get_origin(kind) is dict:
        return mapping(_plain, most=200)
    assert isinstance(kind, type), kind
    assert issubclass(kind, Section), kind
    return section(kind)


RULE_VALUE = either(flag, whole(-(2**62), 2**62), real(), text(200), listing(whole(-(2**62), 2**62), most=100))
"""Value of an option of a game's rules."""

RULES = mapping(RULE_VALUE, most=100)


def _plain(value: Any, key: str) -> None:
    """Check of a value of JSON's types, lists of them included."""
    if isinstance(value, list):
        listing(_plain, most=1000)(value, key)
    else:
        maybe(RULE_VALUE)(value, key)
