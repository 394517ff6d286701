"""Skyjo's options and named rule sets: every one changes play, and impossible ones are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import env

FEW_VALUES = [0, 31, 31, 31, 31, 31] + [0] * 9

# Each option: a value other than the default, and a setting in which the difference shows.
CHANGES: list[tuple[str, Any, dict[str, Any]]] = [
    ("setup", "chosen", {}),
    ("initial_reveals", 1, {}),
    ("ender_penalty", "off", {}),
    ("penalty_on_nonpositive", True, {"deck": [20, 30, 31, 31] + [0] * 11, "max_decisions": 500}),
    ("cleared_cards", "out_of_play", {"deck": FEW_VALUES}),
    ("clear_on_final_reveal", False, {"deck": FEW_VALUES}),
    ("clearing", "voluntary", {"deck": FEW_VALUES}),
    ("next_starter", "highest_sum", {}),
    ("next_starter", "seat_0", {}),
    ("first_starter", "random", {}),
    ("episode", "round", {}),
    ("target", 40, {}),
    ("initial_scores", "uniform", {}),
    ("initial_scores", "played", {}),
    ("deck", [10] * 15, {}),
    ("max_decisions", 20, {}),
    ("round_reward", 0.5, {}),
    ("time_penalty", 0.1, {}),
]


def trace(rules: dict[str, Any]) -> list[bytes]:
    """Everything that random play shows over some episodes."""
    tables = env.make("skyjo", 64, 3, rules, seed=4)
    steps = []
    for _ in range(600):
        tables.step(tables.sample_actions(8))
        steps += [
            tables.obs.tobytes(),
            tables.rewards.tobytes(),
            tables.scores.tobytes(),
            tables.done.tobytes(),
        ]
    return steps


@pytest.mark.parametrize(("option", "value", "setting"), CHANGES, ids=lambda x: str(x)[:24])
def test_every_option_changes_play(option: str, value: Any, setting: dict[str, Any]) -> None:
    assert env.make("skyjo", rules={**setting, option: value}).rules[option] == value
    assert trace(setting) != trace({**setting, option: value})


def test_every_rule_option_is_tested() -> None:
    assert {option for option, _, _ in CHANGES} == set(env.make("skyjo").rules)


@pytest.mark.parametrize("name", ["official", "summary", "skynet", "reichel"])
def test_named_rule_sets_are_what_the_page_says(name: str) -> None:
    official = env.make("skyjo").rules
    summary = {
        "cleared_cards": "out_of_play",
        "penalty_on_nonpositive": True,
        "clear_on_final_reveal": False,
        "next_starter": "highest_sum",
    }
    reichel = {
        "episode": "round",
        "ender_penalty": "off",
        "cleared_cards": "out_of_play",
        "clear_on_final_reveal": False,
        "next_starter": "seat_0",
        "max_decisions": 1500,
    }
    changes = {"official": {}, "summary": summary, "skynet": summary, "reichel": reichel}
    assert env.make("skyjo", rules=name).rules == {**official, **changes[name]}


@pytest.mark.parametrize(
    ("players", "rules", "message"),
    [
        (2, {"deck": [1] * 15}, "rule 'deck': expected between 26 .* got 15"),
        (8, {"deck": [6] * 15}, "rule 'deck': expected between 98 .* got 90"),
        (2, {"deck": [31] * 15}, "rule 'deck': .* and 160 cards in all, got 465"),
        (2, {"deck": [10] * 14}, r"rule 'deck': expected 15 integers from 0 to 31, got \[10"),
        (2, {"deck": [-1] + [10] * 14}, "rule 'deck': expected 15 integers"),
        (2, {"max_decisions": 0}, "rule 'max_decisions': expected an integer from 1 to 1000000, got 0"),
        (2, {"initial_reveals": 12}, "rule 'initial_reveals': expected an integer from 0 to 11, got 12"),
        (2, {"clearing": "voluntary", "initial_reveals": 3}, "rule 'initial_reveals': expected at most 2"),
        (2, {"setup": "sometimes"}, "rule 'setup': expected one of random, chosen, got 'sometimes'"),
        (2, {"penalty_on_nonpositive": 1}, "rule 'penalty_on_nonpositive': expected true or false, got 1"),
        (2, {"target": 0}, "rule 'target': expected an integer from 1 to 1000, got 0"),
        (2, {"target": 10.5}, "rule 'target': expected an integer"),
        (2, {"round_reward": float("nan")}, "rule 'round_reward': expected a number"),
        (2, {"deck": [10.7] * 15}, "rule 'deck': expected a number, .* or a list of integers, got"),
        (2, {"deck": ["a"] * 15}, "rule 'deck': expected a number, .* or a list of integers, got"),
        (2, {"deck": np.full((15, 2), 5)}, "rule 'deck': expected a number, .* or a list of integers, got"),
    ],
)
def test_impossible_rule_sets_are_refused_by_name(players: int, rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make("skyjo", 1, players, rules)


def test_rule_values_may_be_numpy_numbers() -> None:
    rules = {"target": np.int64(50), "clear_on_final_reveal": np.bool_(False), "round_reward": np.float32(0.5)}
    made = env.make("skyjo", rules={**rules, "deck": np.full(15, 10)}).rules
    assert (made["target"], made["clear_on_final_reveal"], made["round_reward"]) == (50, False, 0.5)
    assert made["deck"] == [10] * 15


def test_a_random_first_starter_is_any_seat_and_leaves_the_cards_alone() -> None:
    """Every seat starts equally often, whatever its sum; later rounds start with the ender of the one before."""
    games = 3000
    plain = env.make("skyjo", games, 3, seed=2, auto_reset=False)
    drawn = env.make("skyjo", games, 3, {"first_starter": "random"}, seed=2, auto_reset=False)
    states = [tables.inspect(i) for tables in (plain, drawn) for i in range(200)]
    assert [state["boards"] for state in states[:200]] == [state["boards"] for state in states[200:]]
    observed = np.bincount(drawn.to_play, minlength=3)
    assert stats.chisquare(observed).pvalue > 1e-3
    by_rule = np.bincount(drawn.to_play * 3 + plain.to_play, minlength=9).reshape(3, 3)
    assert stats.chi2_contingency(by_rule).pvalue > 1e-3, "the starter depends on the sums"
    later = 0
    for _ in range(150):
        before = drawn.scores.copy()
        mover, moved = drawn.to_play.copy(), ~drawn.done
        drawn.step(drawn.sample_actions(3))
        again = moved & ~drawn.done & (before != drawn.scores).any(1)
        for i in np.flatnonzero(again):
            assert drawn.inspect(int(i))["starter"] == [(mover[i] + 1) % 3], "the last mover sits before the ender"
        later += int(again.sum())
    assert later > 100


def test_a_tie_shares_the_win() -> None:
    """Looked for among many short games; three seats, so that two winners leave a loser."""
    tables = env.make("skyjo", 4000, 3, {"episode": "round"}, seed=1, auto_reset=False)
    final = np.zeros_like(tables.rewards)
    while not tables.done.all():
        tables.step(tables.sample_actions(3))
        final += tables.rewards
    shared = (tables.ranks == 1).sum(1) == 2
    assert shared.any()
    assert (np.sort(final[shared], axis=1) == [-1, 0, 0]).all()
    assert (np.sort(final[~shared], axis=1) == [-1, -1, 1]).all()


def test_round_rewards_add_up_to_zero_and_the_time_penalty_is_the_movers() -> None:
    rules = {"round_reward": 1.0, "time_penalty": 0.125, "max_decisions": 60}
    tables = env.make("skyjo", 256, 4, rules, seed=1)
    for _ in range(59):
        mover = tables.to_play.copy()
        tables.step(tables.sample_actions(1))
        assert tables.rewards.sum(1) == pytest.approx(np.full(256, -0.125), abs=1e-5)
        quiet = (tables.rewards != 0).sum(1) == 1
        assert (tables.rewards[quiet, mover[quiet]] == -0.125).all()
    tables.step(tables.sample_actions(1))
    assert tables.truncated.all()
    assert tables.rewards.min(1) == pytest.approx(np.full(256, -0.125)), "truncation pays neither round nor win"
