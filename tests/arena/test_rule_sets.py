"""Rule sets: a table is known by the rule set that it is played by, and agents sit where they know it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

import env
from muzero.arena.catalogue import Catalogue
from muzero.arena.rule_sets import rule_set_of, rule_sets
from muzero.arena.terminal import read_arguments
from tests.arena.conftest import Browser, connect


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("report", "report"),
        ({}, "official"),
        ({"target": 10}, "official"),
        ({"preset": "report", "scoring": "distinct"}, "report"),
        (env.make("lama", 1, 4, "report").rules, "report"),
        ({**env.make("lama", 1, 4, "report").rules, "target": 10}, "report"),
        (env.make("lama", 1, 4).rules, "official"),
    ],
)
def test_the_rule_set_is_the_named_one_or_the_nearest(rules: Any, name: str) -> None:
    assert rule_set_of("lama", 4, rules) == name
    assert list(rule_sets("lama", 4)) == ["official", "report"]


def test_unknown_rules_are_an_error() -> None:
    with pytest.raises(ValueError, match="target"):
        rule_set_of("lama", 4, {"target": 0})


def test_levels_and_advice_are_those_of_the_rule_set() -> None:
    """The network has learned the report's rules and is weaker than a bot by the official ones."""
    catalogue = Catalogue(["lama"])
    learned, other = (catalogue.strongest("lama", 4, rules) for rules in ("report", "official"))
    assert learned.spec.target == "lama-belief"
    assert learned.level
    assert other.level
    assert other.players == 0
    advisers = [catalogue.analyst("lama", 4, rules) for rules in ("report", "official")]
    assert [each and each.spec.target for each in advisers] == ["lama-belief", None]
    name = "lama-belief, 16 simulations"
    assert catalogue.find("lama", name, 4, "official").rules == "report", "whoever asks for it by name gets it"


def test_a_terminal_plays_what_the_opponent_has_learned() -> None:
    assert read_arguments(["game=lama"]).rules == {"preset": "report"}
    assert read_arguments(["game=lama", "rules.target=20"]).rules == {"preset": "report", "target": 20}
    assert read_arguments(["opponents=agent:lama-belief", "rules=official"]).rules == "official"
    by_the_box = read_arguments(["game=lama", "rules=official"])
    assert (by_the_box.opponents, by_the_box.players) == (["bot:strategy_1"], 2)
    assert read_arguments(["game=lama", "players=3"]).rules == {}
    assert read_arguments([]).rules == {}


@pytest.mark.parametrize(("rules", "adviser"), [("report", "lama-belief, 64 simulations"), ("official", "simulation")])
def test_the_think_panel_asks_whoever_knows_the_rules(client: TestClient, rules: str, adviser: str) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "Level 1", "Level 1", "Level 1", game="lama", rules={"preset": rules})
        state = browser.get("state")
        assert state["rule_set"] == rules
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        assert browser.ask("think", type="think", turn=state["view"]["turn"])["agent"].startswith(adviser)
