"""muzero.runs.schema: types, ranges, sizes and nesting, and errors that name key, expectation and value."""

from __future__ import annotations

from typing import Any

import pytest

from muzero.config import Config, ModelConfig
from muzero.runs import schema
from muzero.runs.schema import Check, SchemaError, check_value
from tests.composing import compose_config


def refused(check: Check, value: Any) -> str:
    with pytest.raises(SchemaError) as error:
        check_value(check, value)
    return str(error.value)


@pytest.mark.parametrize(
    ("check", "good", "bad", "message"),
    [
        (schema.whole(0, 9), 9, 10, "content: expected a whole number from 0 to 9, got 10"),
        (schema.whole(1, 1), 1, True, "content: expected 1, got True"),
        (schema.whole(), 3, 3.0, "got 3.0"),
        (schema.real(0, 1), 1, float("nan"), "expected a number from 0 to 1, got nan"),
        (schema.real(), -2.5, 10**400, "got a number of 1329 bits"),
        (schema.real(), 0, True, "got True"),
        (schema.flag, False, 0, "expected true or false, got 0"),
        (schema.text(3), "abc", "abcd", "expected printable text of at most 3 characters, got 'abcd'"),
        (schema.text(), "ä", "\ud800", r"got '\ud800'"),
        (schema.word("a", "b"), "a", "c", "expected one of a, b, got 'c'"),
        (schema.maybe(schema.whole()), None, "x", "expected a whole number"),
        (schema.listing(schema.whole(), most=2), [1, 2], [1, 2, 3], "a list of 0 to 2 items, got list of 3"),
        (schema.listing(schema.whole()), [1], [1, "x"], "[1]: expected a whole number"),
        (schema.mapping(schema.whole(), most=1), {"a": 1}, {"a": None}, "a: expected a whole number"),
        (schema.mapping(schema.whole(), most=1), {}, {"a": 1, "b": 2}, "at most 1 entries, got object of 2"),
        (schema.either(schema.flag, schema.whole(0, 3)), 3, 4, "expected true or false or a whole number from 0 to 3"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(check: Check, good: Any, bad: Any, message: str) -> None:
    check_value(check, good)
    assert message in refused(check, bad)


def test_records_name_missing_and_unknown_keys() -> None:
    check = schema.record({"a": schema.record({"b": schema.whole()})}, {"c": schema.flag})
    check_value(check, {"a": {"b": 1}, "c": True})
    assert refused(check, {"a": {}}) == "a.b: expected a value, got nothing"
    assert refused(check, {"a": {"b": 1}, "d": 1}) == "d: expected keys among a, c, got 'd'"
    check_value(schema.record({}, others=schema.anything), {"d": 1})


def test_deep_nesting_is_refused_before_any_other_check() -> None:
    value: Any = 0
    for _ in range(100_000):
        value = [value]
    assert "expected at most 24 levels of nesting" in refused(schema.anything, value)


def test_schema_of_settings_follows_their_declaration() -> None:
    check_value(schema.section(ModelConfig), {"width": 64, "value_min": -2, "ignore": ["score"]})
    assert "width: expected a whole number" in refused(schema.section(ModelConfig), {"width": "64"})
    assert "expected keys among" in refused(schema.section(ModelConfig), {"widht": 64})
    whole = schema.section(Config)
    config = compose_config("+variant=belief", "preset=paper")
    values = {name: vars(part) if hasattr(part, "__dict__") else part for name, part in vars(config).items()}
    values["selfplay"] = {**values["selfplay"], "curriculum": {}, "pool": {"size": 3}}
    check_value(whole, values)
    values["selfplay"]["pool"] = {"size": "3"}
    assert refused(whole, values).startswith("selfplay.pool.size: expected a whole number")
