"""Objects that come from outside: all keys are known, all values have their declared types, or they are refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Message(BaseModel):
    """Object whose keys are all known and whose values have the declared types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def explain(error: ValidationError) -> str:
    """First problem that pydantic found, in one line: key, expectation, value."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "message"
    given = repr(first.get("input"))
    return f"{where}: {first['msg']}, got {given if len(given) <= 60 else given[:57] + '...'}"
