"""env.describe: what games declare about themselves, without tables."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import env
from tests.env.cases import CASES, Case

per_game = pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)


@per_game
def test_a_description_agrees_with_the_tables(case: Case) -> None:
    for players in case.players:
        for counts in (True, False):
            tables = env.make(case.game, 1, players, case.short, counts=counts)
            found = env.describe(case.game, players, case.short, counts=counts)
            assert tables.info is found
            assert (found.name, found.num_players, found.counts) == (case.game, players, counts)
            assert tables.obs.shape == (1, found.width)
            assert tables.legal.shape == (1, found.num_actions) == (1, len(found.action_names))
            assert tables.stats.shape == (1, len(found.stat_names))
            assert tables.unseen_counts(0).shape == (1, found.num_pools, found.num_card_kinds)
            assert tables.rules == found.rule_values
            assert list(tables.bots) == [bot.name for bot in found.bots]
            assert found.default_bot in tables.bots
            assert len(found.phase_table) == found.num_phases == len(found.phase_names)
            assert all(len(row) == found.num_actions for row in found.phase_table)
            assert "decisions" in found.stat_names


@per_game
def test_the_same_arguments_give_the_same_object(case: Case) -> None:
    first = env.describe(case.game, 2, dict(case.short))
    assert env.describe(case.game, 2, {**case.short, "preset": "official"}) is first
    assert env.describe(case.game, 2, "official") is env.describe(case.game) is env.describe(case.game, rules={})
    assert env.describe(case.game) is not first


@per_game
def test_a_description_cannot_be_changed(case: Case) -> None:
    found = env.describe(case.game)
    with pytest.raises(FrozenInstanceError):
        found.width = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        found.groups[0].count = 3  # type: ignore[misc]
    found.rule_values["max_decisions"] = -1
    assert env.describe(case.game).rule_values["max_decisions"] != -1


@per_game
def test_rule_options_have_defaults_and_values(case: Case) -> None:
    for name, rules in case.rules.items():
        found = env.describe(case.game, rules=rules)
        assert found.presets[0] == "official"
        for rule in found.rules:
            assert rule.meaning
            assert rule.expected
            if rule.name in rules:
                assert rule.value == rules[rule.name], name
            elif "preset" not in rules:
                assert rule.value == rule.default, name


@per_game
def test_players_and_rules_are_checked(case: Case) -> None:
    found = env.describe(case.game)
    assert (found.min_players, found.max_players) == (case.players[0], case.players[-1])
    assert found.why_players
    for players in (found.min_players - 1, found.max_players + 1):
        with pytest.raises(ValueError, match=f"num_players: expected {found.min_players} to {found.max_players}, got"):
            env.describe(case.game, players)
    with pytest.raises(ValueError, match="rule 'nonsense'"):
        env.describe(case.game, rules={"nonsense": 1})
    with pytest.raises(ValueError, match="rule 'preset': expected the name of a rule set, got 3"):
        env.describe(case.game, rules={"preset": 3})


def test_equal_values_of_different_types_are_told_apart() -> None:
    """1 == True in Python; for a rule the one is refused and the other is not."""
    assert env.describe("lama", rules={"chip_return": True}).rule_values["chip_return"] is True
    with pytest.raises(ValueError, match="rule 'chip_return': expected true or false, got 1"):
        env.describe("lama", rules={"chip_return": 1})


def test_an_unknown_game_is_refused() -> None:
    with pytest.raises(ValueError, match="no game is called 'chess'; there are: skyjo"):
        env.describe("chess")


@per_game
def test_decode_names_every_number_of_a_row(case: Case) -> None:
    tables = env.make(case.game, 4, seed=1)
    tables.random_steps(9)
    for row in tables.obs:
        decoded = tables.info.decode(row)
        assert list(decoded) == [group.name for group in tables.groups]
        assert [value for tokens in decoded.values() for token in tokens for value in token.values()] == row.tolist()
    with pytest.raises(ValueError, match=f"row: expected {tables.width} numbers, got an array of shape"):
        tables.info.decode(np.zeros(3))


def test_decode_by_hand() -> None:
    """Kuhn poker: seat 0 passed, seat 1 holds its card and sees neither the other one nor the third."""
    tables = env.make("kuhn", 1, seed=3, auto_reset=False)
    tables.step([0])
    card = tables.inspect(0)["hands"][1]
    decoded = env.describe("kuhn").decode(tables.obs[0])
    assert decoded["hand"] == [{"owner": 0, "card": card}, {"owner": 1, "card": 4}]
    assert decoded["history"] == [{"actor": 2, "kind": 1}, {"actor": 0, "kind": 0}, {"actor": 0, "kind": 0}]
    assert decoded["decision"] == [{"phase": 0}]
