"""L.A.M.A.: situations worked out by hand, options and named rule sets, and the published strategies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import env
from tests.oracle.lama import DRAW, FOLD, LLAMA, Lama, make_rules

# ------------------------------------------------------------------------------------- the oracle, by hand


def table(hands: list[list[int]], pile: list[int], scores: list[int] | None = None, **rules: Any) -> Lama:
    """A game at seat 0's turn with these cards."""
    game = Lama(make_rules(**rules), len(hands), seed=0)
    game.hands = [list(hand) for hand in hands]
    game.pile = list(pile)
    game.scores = scores or [0] * len(hands)
    return game


def play(card: int) -> int:
    """The action for playing a card."""
    return card - 1


@pytest.mark.parametrize(
    ("top", "cards"),
    [(1, [1, 2]), (2, [2, 3]), (3, [3, 4]), (4, [4, 5]), (5, [5, 6]), (6, [6, LLAMA]), (LLAMA, [1, LLAMA])],
)
def test_the_equal_card_and_the_next_one_can_be_played(top: int, cards: list[int]) -> None:
    everything = [1, 2, 3, 4, 5, 6, LLAMA]
    assert table([everything, [1]], [top]).legal() == [*(play(card) for card in cards), DRAW, FOLD]


def test_equal_cards_count_once_or_each() -> None:
    for scoring, points in (("distinct", [9, 10]), ("all_cards", [17, 30])):
        game = table([[3, 3, 3, 2, 2, 4], [LLAMA] * 3], [6], scoring=scoring)
        assert [game.hand_points(seat) for seat in (0, 1)] == points


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (9, 8), (10, 0), (23, 13), (39, 29)])
def test_an_empty_hand_returns_a_chip(before: int, after: int) -> None:
    for back, expected in ((True, after), (False, before)):
        game = table([[5], [1, 1]], [4], scores=[before, 0], chip_return=back)
        game.step(play(5))
        assert game.scores == [expected, 1]
        assert game.rounds_won == [1, 0]
        assert game.round == 1
        assert game.starter == 0


def test_the_last_player_plays_on_without_drawing_or_stops() -> None:
    game = table([[1], [4, 4, 6], [2]], [4])
    game.step(FOLD)
    game.step(play(4))
    assert game.to_play == 2
    game.step(FOLD)
    assert (game.to_play, game.phase) == (1, 1)
    assert game.legal() == [play(4), FOLD]
    game.step(play(4))
    assert game.legal() == [FOLD]
    game.step(FOLD)
    assert game.scores == [1, 6, 2]
    assert game.starter == 1, "the last mover"
    assert game.rounds_won == [0, 0, 0]

    game = table([[1], [4, 4, 6], [2]], [4], preset="report")
    for action in (FOLD, play(4), FOLD):
        game.step(action)
    assert game.scores == [1, 10, 2]
    assert game.starter == 0
    assert game.rounds_won == [0, 1, 0]


def test_an_empty_deck_is_replaced_by_the_pile_without_its_top() -> None:
    game = table([[1, 1], [1, 1]], [2, 2, 2, 5])
    game.deck = []
    game.step(DRAW)
    assert (game.hands[0], game.deck, game.pile) == ([1, 1, 2], [2, 2], [5])


def test_without_a_card_to_draw_a_player_folds_or_the_game_is_aborted() -> None:
    game = table([[1, 1], [1, 1]], [5])
    game.deck = []
    assert game.legal() == [FOLD]
    game = table([[1, 1], [1, 1]], [5], preset="report")
    game.deck = []
    assert game.legal() == [DRAW, FOLD]
    game.step(DRAW)
    assert game.done
    assert game.truncated
    assert game.aborted
    assert game.rewards == [0, 0]


def test_a_match_ends_at_the_target_and_ties_share_the_win() -> None:
    game = table([[2], [LLAMA, 3], [3, LLAMA]], [1], scores=[39, 29, 28])
    game.step(play(2))
    assert game.done
    assert game.scores == [29, 42, 41]
    assert game.rewards == [1, -1, -1]
    game = table([[1], [2], [3, 2]], [4], scores=[0, 0, 35], last_player="stops")
    game.scores = [2, 1, 35]
    for action in (FOLD, FOLD):
        game.step(action)
    assert game.scores == [3, 3, 40]
    assert game.rewards == [0, 0, -1]


# ---------------------------------------------------------------------------------- options and named rule sets

# Each option: a value other than the default, and a setting in which the difference shows.
CHANGES: list[tuple[str, Any, dict[str, Any]]] = [
    ("scoring", "all_cards", {}),
    ("chip_return", False, {"target": 200}),
    ("last_player", "stops", {}),
    ("next_starter", "seat_0", {}),
    ("nothing_to_draw", "abort", {"deck": [4, 3, 3, 3, 3, 3, 3]}),
    ("episode", "round", {}),
    ("target", 80, {}),
    ("initial_scores", "uniform", {}),
    ("initial_scores", "played", {}),
    ("deck", [9] * 7, {}),
    ("max_decisions", 9, {}),
    ("round_reward", 0.5, {}),
    ("time_penalty", 0.1, {}),
]


def trace(rules: dict[str, Any]) -> list[bytes]:
    """Everything that random play shows over some episodes."""
    tables = env.make("lama", 64, 3, rules, seed=4)
    steps = []
    for _ in range(300):
        tables.step(tables.sample_actions(8))
        shown = (tables.obs, tables.legal, tables.rewards, tables.scores, tables.done)
        steps += [array.tobytes() for array in shown]
    return steps


@pytest.mark.parametrize(("option", "value", "setting"), CHANGES, ids=lambda x: str(x)[:24])
def test_every_option_changes_play(option: str, value: Any, setting: dict[str, Any]) -> None:
    assert env.make("lama", rules={**setting, option: value}).rules[option] == value
    assert trace(setting) != trace({**setting, option: value})


def test_every_rule_option_is_tested() -> None:
    assert {option for option, _, _ in CHANGES} == set(env.make("lama").rules)


def test_presets_are_what_the_page_says() -> None:
    report = {
        "scoring": "all_cards",
        "chip_return": False,
        "last_player": "stops",
        "next_starter": "seat_0",
        "nothing_to_draw": "abort",
    }
    official = env.make("lama").rules
    assert official["target"] == 40
    assert env.make("lama", rules="report").rules == {**official, **report}


@pytest.mark.parametrize(
    ("players", "rules", "message"),
    [
        (9, {}, r"num_players: expected 2 to 8, got 9 \(with nine, 55 of the 56 cards would be dealt"),
        (8, {"deck": [7] * 7}, "rule 'deck': expected between 50 .* got 49"),
        (2, {"deck": [16] * 7}, "rule 'deck': .* and 64 cards in all, got 112"),
        (2, {"deck": [17] * 7}, "rule 'deck': expected 7 integers from 0 to 16"),
        (2, {"target": 0}, "rule 'target': expected an integer from 1 to 100000, got 0"),
        (2, {"scoring": "none"}, "rule 'scoring': expected one of distinct, all_cards, got 'none'"),
    ],
)
def test_impossible_settings_are_refused_with_the_reason(players: int, rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make("lama", 1, players, rules)


def test_shapes_of_actions_by_hand() -> None:
    info = env.make("lama").info
    shapes = [(shape.kind, [tuple(pair) for pair in shape.slots]) for shape in info.action_shapes]
    assert shapes[:7] == [(0, [(kind, 0)]) for kind in range(7)]
    assert shapes[7] == (1, [(kind, 1) for kind in range(7)])
    assert shapes[8] == (2, [])


# ---------------------------------------------------------------------------------------------- strategies


def decisions(count: int = 3000, players: int = 4) -> env.VecEnv:
    """Tables of the report's game, somewhere in a round in which nobody has folded."""
    tables = env.make("lama", count, players, "report", seed=5)
    bots = [tables.bot("strategy_1", epsilon=0.05)] * players
    for moment in range(30):
        actions = tables.bot_actions(bots, 2)
        actions[np.arange(count) % 30 < moment] = env.SKIP
        tables.step(actions)
    return tables


def test_strategies_follow_their_definitions() -> None:
    tables = decisions()
    A, B, C, D = 10.0, 0.5, 4.4, 1.0
    third = tables.bot(f"strategy_3(A={A},B={B},C={C},D={D})").act(tables.obs, tables.legal)
    first, second = (tables.bot(f"strategy_{i}").act(tables.obs, tables.legal) for i in (1, 2))
    folds = 0
    for i in range(tables.num_envs):
        state = tables.inspect(i)
        hands = np.array(state["hands"]).reshape(-1, 7)
        hand, top = hands[state["to_play"][0]], state["discard_pile"][-1]
        equal, following = top, top % 7 + 1
        playable = [card for card in (equal, following) if hand[card - 1]]
        x, y, z = (hand > 0).sum(), hand @ [1, 2, 3, 4, 5, 6, 10], hands.sum(1).min()
        if playable:
            expected = (playable[0] - 1, playable[-1] - 1, playable[0] - 1)
        else:
            f = (-A if x == 1 else B * x) + (y - C) + D * z
            expected = (DRAW, DRAW, FOLD if f <= 0 else DRAW)
            folds += f <= 0
        assert (first[i], second[i], third[i]) == expected
    assert 20 < folds < 2000


def test_strategies_rank_as_published() -> None:
    """One against three of another kind, from every seat: the first beats the second, the third both."""
    for one, others in (("strategy_1", "strategy_2"), ("strategy_3", "strategy_1"), ("strategy_3", "strategy_2")):
        tables = env.make("lama", 1, 4, "report", seed=1)
        won = []
        for seat in range(4):
            bots = [tables.bot(others)] * 4
            bots[seat] = tables.bot(one)
            scores = tables.play(bots, 5000, first_deal=5000 * seat).scores
            best = scores == scores.min(1, keepdims=True)
            won.append((best[:, seat] / best.sum(1)).mean())
        assert np.mean(won) > 0.25 + 4 * np.sqrt(0.25 * 0.75 / 20_000), (one, others)


def test_strategies_beat_random_play() -> None:
    for rules in ("official", "report"):
        tables = env.make("lama", rules=rules, seed=1)
        for name in ("strategy_1", "strategy_2", "strategy_3"):
            scores = tables.play([tables.bot(name), tables.bot("random")], 1000).scores
            assert (scores[:, 0] < scores[:, 1]).mean() > 0.7
