"""The Skyjo oracle against situations worked out by hand from the rules."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from tests.oracle.randomness import Random
from tests.oracle.skyjo import (
    DECK,
    DISCARD,
    FIRST_POSITION,
    KEEP,
    PRESETS,
    RULES,
    TAKE,
    VALUES,
    Skyjo,
    make_rules,
)

# Twelve different-looking cards without a complete column; the sum is 1+2+3+4+5+6+7+8+9+10+11+12 = 78.
PLAIN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]


def at(position: int) -> int:
    """The action for a grid position."""
    return FIRST_POSITION + position


def table(boards: list[list[Any]], face_up: list[list[int]], **rules: Any) -> Skyjo:
    """A game at the start of seat 0's turn with these grids; face_up lists the positions that are face up."""
    game = Skyjo(make_rules(**rules), len(boards), seed=0)
    game.boards = [list(board) for board in boards]
    game.face_up = [[position in up for position in range(12)] for up in face_up]
    game.draw_pile = [5, 5, 5, 5]
    game.discard_pile = [7]
    game.to_play, game.starter = 0, 0
    return game


def but(*positions: int) -> list[int]:
    """All positions except these."""
    return [position for position in range(12) if position not in positions]


def grid_of_sum(total: int) -> list[int]:
    """A grid of that sum whose columns are not complete."""
    grid = [0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1, -1]
    for position in range(12):
        grow = min(12 - grid[position], total - sum(grid)) if total > 0 else 0
        grid[position] += max(0, grow)
    if total < 0:
        grid[8] = -2
        grid[9] = -2
    assert sum(grid) == total
    assert all(len({grid[c], grid[c + 4], grid[c + 8]}) > 1 for c in range(4))
    return grid


def finish(sums: list[int], **rules: Any) -> Skyjo:
    """A one-round game (unless rules say otherwise) that seat 0 ends with these sums, the others passing.

    Every player takes the top of the discard pile, which equals the card it replaces, so no sum changes.
    """
    boards = [grid_of_sum(total) for total in sums]
    game = table(boards, [but(0), *[but(1)] * (len(sums) - 1)], **{"episode": "round", **rules})
    for seat in range(len(sums)):
        assert game.to_play == seat
        assert not game.done
        position = 0 if seat == 0 else 1
        game.discard_pile.append(boards[seat][position])
        game.step(TAKE)
        game.step(at(position))
        if seat < len(sums) - 1:
            assert game.ender == 0
    return game


def play_randomly(game: Skyjo, choice: random.Random, check: Any = None) -> None:
    """Play to the end with uniformly random legal actions."""
    while not game.done:
        game.step(choice.choice(game.legal()))
        if check is not None:
            check(game)


def cards_on_table(game: Skyjo) -> list[int]:
    """All cards, wherever they are, in ascending order."""
    state = game.state()
    cards = [card for board in state["boards"] for card in board if card is not None]
    cards += state["draw_pile"] + state["discard_pile"] + state["out_of_play"]
    cards += [] if state["hand"] is None else [state["hand"]]
    return sorted(cards)


# -------------------------------------------------------------------------------------------------- rules


def test_presets_change_defaults_and_nonsense_is_refused() -> None:
    """Named rule sets change the defaults, overrides change these, and nonsense is refused."""
    assert make_rules() == RULES
    assert sum(RULES["deck"]) == 150
    assert make_rules("summary", target=50)["cleared_cards"] == "out_of_play"
    assert make_rules("skynet") == make_rules("summary")
    assert make_rules("reichel")["max_decisions"] == 1500
    bad: list[dict[str, Any]] = [
        {"preset": "nobody"},
        {"colour": "red"},
        {"setup": "none"},
        {"target": 0},
        {"target": 1.5},
        {"initial_reveals": 12},
        {"initial_reveals": 3, "clearing": "voluntary"},
        {"penalty_on_nonpositive": 1},
        {"deck": [10] * 14},
        {"deck": [32] + [1] * 14},
        {"deck": [11] * 15},
        {"time_penalty": -0.1},
    ]
    for options in bad:
        with pytest.raises(ValueError, match=r"unknown|bad value|at most 2"):
            make_rules(**options)
    for players in (1, 9):
        with pytest.raises(ValueError, match="2 to 8 players"):
            Skyjo(make_rules(), players, seed=0)
    with pytest.raises(ValueError, match="too small"):
        Skyjo(make_rules(deck=[2] * 12 + [1, 0, 0]), 2, seed=0)  # 25 cards, 26 are needed
    assert len(Skyjo(make_rules(deck=[2] * 13 + [0, 0]), 2, seed=0).draw_pile) == 1


# --------------------------------------------------------------------------------------------- randomness


def test_generator_is_splitmix64() -> None:
    """The published first outputs of SplitMix64 with the seed 1234567."""
    generator = Random(key=1234567)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [generator.at(counter) for counter in range(4)] == expected


def test_deal_is_a_function_of_seed_deal_and_episode() -> None:
    """The same triple gives the same game, another triple another one."""
    rules = make_rules()
    first = Skyjo(rules, 3, seed=5, deal=2, episode=1).state()
    assert first == Skyjo(rules, 3, seed=5, deal=2, episode=1).state()
    for other in [(6, 2, 1), (5, 3, 1), (5, 2, 2)]:
        assert first["boards"] != Skyjo(rules, 3, *other).state()["boards"]


def test_the_next_deck_card_does_not_depend_on_what_players_do() -> None:
    """Whatever is done between two draws, the next deck card is the same."""
    one, other = (Skyjo(make_rules(), 2, seed=3) for _ in range(2))
    one.step(DECK)
    other.step(TAKE)
    other.step(at(0))
    other.step(DECK)
    assert one.hand == other.hand


def test_setup_reveals_two_cards_and_the_highest_sum_starts() -> None:
    """Random setup reveals two cards each; chosen setup asks seat by seat; the highest sum starts."""
    game = Skyjo(make_rules(), 4, seed=1)
    sums = [game.face_up_sum(seat) for seat in range(4)]
    assert [sum(flags) for flags in game.face_up] == [2] * 4
    assert game.to_play == sums.index(max(sums))
    assert game.phase == 0
    assert game.history == []

    game = Skyjo(make_rules(setup="chosen"), 3, seed=1)
    game.boards = [[1] * 12, [3] * 12, [3] * 12]
    actors = []
    while game.phase == 3:
        actors.append(game.to_play)
        game.step(game.legal()[-1])
    assert actors == [0, 0, 1, 1, 2, 2]
    assert game.face_up == [[False] * 10 + [True] * 2] * 3
    assert game.to_play == game.starter == 1  # the tie goes to the lower seat
    assert game.history[0] == (2, 7, 11, 6, 0, 0)
    assert game.history[1] == (2, 7, 12, 6, 0, 0)
    assert game.turns == 0
    assert game.decisions == 6

    assert Skyjo(make_rules(next_starter="seat_0"), 4, seed=1).to_play == 0
    game = Skyjo(make_rules(setup="chosen", initial_reveals=0), 4, seed=1)
    assert (game.phase, game.to_play) == (0, 0)


def test_setup_clears_columns() -> None:
    """Three equal cards revealed before play are cleared on top of the opening card."""
    game = Skyjo(make_rules(setup="chosen", initial_reveals=3), 2, seed=1)
    game.boards[0] = [9, *PLAIN[1:4], 9, *PLAIN[5:8], 9, *PLAIN[9:]]
    opening = game.discard_pile[0]
    for position in (0, 4, 8):
        game.step(at(position))
    assert game.discard_pile == [opening, 9, 9, 9]
    assert game.columns_cleared == [1, 0]
    assert game.to_play == 1
    for position in (0, 1, 2):
        game.step(at(position))
    assert game.phase == 0


# ---------------------------------------------------------------------------------------------- one turn


def test_turns_do_what_the_rules_say_and_enter_the_history() -> None:
    """Take and replace; draw, keep and replace; draw, discard and turn over."""
    game = table([PLAIN, PLAIN], [[0, 1], [0, 1]])
    assert game.legal() == [DECK, TAKE]
    game.step(TAKE)
    assert (game.hand, game.hand_source, game.phase, game.discard_pile) == (7, 2, 2, [])
    assert game.legal() == [at(position) for position in range(12)]
    game.step(at(5))
    assert game.boards[0][5] == 7
    assert game.face_up[0][5]
    assert game.discard_pile == [6]

    assert (game.to_play, game.phase, game.turns) == (1, 0, 1)
    game.step(DECK)
    assert (game.hand, game.hand_source, game.phase, len(game.draw_pile)) == (5, 1, 1, 3)
    assert game.legal() == [KEEP, DISCARD]
    game.step(KEEP)
    game.step(at(0))
    assert game.boards[1][0] == 5
    assert game.discard_pile == [6, 1]

    game.step(DECK)
    game.step(DISCARD)
    assert (game.hand, game.hand_source, game.discard_pile) == (None, 0, [6, 1, 5])
    assert game.legal() == [at(position) for position in (2, 3, 4, 6, 7, 8, 9, 10, 11)]
    game.step(at(11))
    assert game.face_up[0][11]
    assert game.discard_pile == [6, 1, 5]
    assert game.turns == 3
    assert game.decisions == game.round_decisions == 8
    assert game.history == [
        (0, 6, 12, 15, 0, 0),
        (0, 4, 0, 0, 8, 1),
        (0, 1, 0, 0, 0, 1),
        (1, 5, 1, 8, 4, 1),
        (1, 3, 0, 0, 0, 1),
        (1, 1, 0, 0, 0, 1),
        (0, 5, 6, 10, 9, 2),
        (0, 2, 0, 10, 0, 2),
    ]


@pytest.mark.parametrize("value", [7, 0, -2])
def test_column_goes_on_top_of_the_exchanged_card(value: int) -> None:
    """A completed column is cleared, negative ones too, after the exchanged card."""
    board = [value, 2, 3, 4, value, 6, 7, 8, 9, 10, 11, 12]
    game = table([board, PLAIN], [[0, 4], [0]])
    game.discard_pile = [1, value]
    game.step(TAKE)
    game.step(at(8))
    assert game.discard_pile == [1, 9, value, value, value]
    assert game.out_of_play == []
    assert [game.boards[0][p] for p in (0, 4, 8)] == [None] * 3
    assert not any(game.face_up[0][p] for p in (0, 4, 8))
    assert game.columns_cleared == [1, 0]
    game.to_play, game.discard_pile = 0, [1]
    game.step(TAKE)
    assert game.legal() == [at(position) for position in (1, 2, 3, 5, 6, 7, 9, 10, 11)]


def test_column_out_of_play_and_completed_by_a_reveal() -> None:
    """With out_of_play the exchanged card stays on top; a column completed by turning over is cleared too."""
    board = [7, 2, 3, 4, 7, 6, 7, 8, 7, 10, 11, 12]
    game = table([board, PLAIN], [[0, 4], [0]], cleared_cards="out_of_play")
    game.step(DECK)
    game.step(DISCARD)
    game.step(at(8))
    assert game.discard_pile == [7, 5]
    assert game.out_of_play == [7, 7, 7]


def test_face_down_equal_cards_are_not_cleared() -> None:
    """Three equal cards of which one is face down stay."""
    board = [7, 2, 3, 4, 7, 6, 7, 8, 7, 10, 11, 12]
    game = table([board, PLAIN], [[0], [0]])
    game.step(TAKE)
    game.step(at(4))
    assert game.columns_cleared == [0, 0]


def test_an_empty_draw_pile_is_replaced_when_a_card_is_needed() -> None:
    """The discard pile without its top becomes the draw pile when a card is needed, not before."""
    game = table([PLAIN, PLAIN], [[0], [0]])
    game.draw_pile, game.discard_pile = [6], [1, 2, 3]
    game.step(DECK)
    assert (game.hand, game.draw_pile, game.reshuffled) == (6, [], False)
    game.step(DISCARD)
    game.step(at(1))
    assert (game.draw_pile, game.discard_pile, game.reshuffled) == ([], [1, 2, 3, 6], False)
    i = copy.deepcopy(game.random).below(3)
    game.step(DECK)
    assert game.hand == [1, 2, 3][i]
    assert game.draw_pile == [[3, 2], [1, 3], [1, 2]][i]  # the last card moved to the place of the drawn one
    assert game.discard_pile == [6]
    assert game.reshuffled


def test_illegal_actions_change_nothing() -> None:
    """Every action that is not legal raises and leaves the state as it was, also when the game is over."""
    game = Skyjo(make_rules(clearing="voluntary", setup="chosen", max_decisions=60), 2, seed=4)
    choice = random.Random(4)
    while True:
        before, rewards, counter = game.state(), game.rewards, game.random.counter
        for action in [-1, *range(17)]:
            if action not in game.legal():
                with pytest.raises(ValueError, match=r"not legal|over"):
                    game.step(action)
                assert (game.state(), game.rewards, game.random.counter) == (before, rewards, counter)
        if game.done:
            break
        game.step(choice.choice(game.legal()))
    assert game.legal() == []


# ---------------------------------------------------------------------------------------- voluntary clearing


def test_voluntary_clearing_is_offered_again() -> None:
    """A kept column is offered after the next replacement or reveal; columns are offered from the left."""
    board = [7, 6, 3, 4, 7, 6, 8, 8, 9, 10, 11, 12]
    game = table([board, PLAIN], [[0, 1, 4, 5], [0]], clearing="voluntary")
    game.step(TAKE)
    game.step(at(8))
    assert (game.phase, game.to_play, game.clear_column, game.turns) == (4, 0, 0, 0)
    assert game.legal() == [KEEP, DISCARD]
    assert game.observe(0)[-34:-30] == [4, 0, 0, 1]
    game.step(KEEP)
    assert (game.phase, game.to_play, game.clear_column, game.turns) == (0, 1, -1, 1)
    assert game.history[0] == (0, 9, 1, 10, 0, 0)

    game.to_play, game.discard_pile = 0, [1, 6]
    game.step(TAKE)
    game.step(at(9))
    assert (game.phase, game.clear_column) == (4, 0)
    game.step(KEEP)
    assert (game.phase, game.clear_column) == (4, 1)
    game.step(DISCARD)
    assert (game.phase, game.to_play, game.clear_column) == (0, 1, -1)
    assert game.history[0] == (0, 8, 2, 0, 9, 0)
    assert game.discard_pile == [1, 10, 6, 6, 6]
    assert game.columns_cleared == [1, 0]

    game.to_play = 0
    game.step(DECK)
    game.step(DISCARD)
    game.step(at(2))
    assert (game.phase, game.clear_column) == (4, 0)
    game.step(DISCARD)
    assert game.columns_cleared == [2, 0]
    assert [p for p in range(12) if game.boards[0][p] is not None] == [2, 3, 6, 7, 10, 11]


def test_voluntary_final_reveal_clears_positive_columns_only() -> None:
    """At the end a column of positive cards goes, one of negative cards and zeros stays."""
    negative = [-2, 0, 5, 4, -2, 0, 5, 8, -2, 0, 5, 12]
    for clearing, expected, cleared in [("voluntary", 18, 1), ("automatic", 24, 3)]:
        game = table([negative, PLAIN], [[0], but(0)], clearing=clearing, episode="round")
        game.to_play = 1
        game.discard_pile = [1]
        game.step(TAKE)
        game.step(at(0))
        assert game.ender == 1
        game.discard_pile = [12]
        game.step(TAKE)
        game.step(at(11))
        assert game.done
        assert game.scores == [expected, 156]
        assert game.columns_cleared == [cleared, 0]


# --------------------------------------------------------------------------------------- end of the round


def test_everybody_else_has_one_more_turn() -> None:
    """After the ender's turn the others play one turn each, and nobody else becomes the ender."""
    game = table([PLAIN] * 3, [[0], but(3), but(3)], episode="round")
    game.to_play = 1
    actors = []
    while not game.done:
        actors.append(game.to_play)
        game.step(TAKE)
        game.step(at(3))
        assert game.ender == 1
    assert actors == [1, 2, 0]
    assert game.to_play == 0
    assert game.phase == 2
    assert game.turns == 3
    assert all(all(flags) for flags in game.face_up)


def test_clearing_the_last_cards_ends_the_round() -> None:
    """A player whose grid becomes empty is the ender."""
    empty: list[int | None] = [None] * 12
    empty[3], empty[7], empty[11] = 7, 7, 1
    game = table([empty, PLAIN], [[3, 7], [0]], episode="round")
    game.step(TAKE)
    game.step(at(11))
    assert game.ender == 0
    assert game.boards[0] == [None] * 12
    game.step(DECK)
    game.step(DISCARD)
    game.step(at(1))
    assert game.done
    assert game.scores == [0, 78]


@pytest.mark.parametrize(
    ("sums", "rules", "expected"),
    [
        ([20, 30, 40], {}, [20, 30, 40]),
        ([20, 19, 40], {}, [40, 19, 40]),
        ([20, 20, 40], {}, [40, 20, 40]),  # a tie is not strictly the lowest
        ([20, 19, 40], {"ender_penalty": "off"}, [20, 19, 40]),
        ([0, 0, 40], {}, [0, 0, 40]),
        ([-2, -2, 40], {}, [-2, -2, 40]),
        ([-2, -2, 40], {"penalty_on_nonpositive": True}, [-4, -2, 40]),
    ],
)
def test_the_ender_pays_double_unless_strictly_lowest(
    sums: list[int], rules: dict[str, Any], expected: list[int]
) -> None:
    """The ender's sum is doubled if it is positive and not strictly the lowest."""
    game = finish(sums, **rules)
    assert game.scores == game.last_round_scores == expected


def test_final_reveal_clears_columns() -> None:
    """Columns that turn out to be complete are cleared unless the rules say otherwise."""
    for clear, score, pile in [(True, 57, [7, 1, 2, 7, 7, 7]), (False, 78, [7, 1, 2])]:
        other = [7, 2, 3, 4, 7, 6, 7, 8, 7, 4, 11, 12]  # sum 78, 57 without its column of sevens
        game = table([PLAIN, other], [but(0), [1]], episode="round", clear_on_final_reveal=clear)
        game.discard_pile.append(1)
        game.step(TAKE)
        game.step(at(0))
        game.discard_pile.append(2)
        game.step(TAKE)
        game.step(at(1))
        assert game.done
        assert game.scores == [156, score]
        assert game.discard_pile == pile
        assert game.out_of_play == []


def test_a_match_goes_on_until_the_target() -> None:
    """The next round is dealt inside the step, the ender starts it, and its records begin afresh."""
    game = finish([20, 30], episode="match")
    assert not game.done
    assert game.scores == game.last_round_scores == [20, 30]
    assert (game.round, game.ender, game.starter, game.to_play) == (1, -1, 0, 0)
    assert (game.hand, game.history, game.round_decisions, game.decisions) == (None, [], 0, 4)
    assert game.random.counter == 2**32 + 25 + 4
    assert [sum(flags) for flags in game.face_up] == [2, 2]

    assert not finish([20, 49], episode="match", target=50).done
    game = finish([20, 50], episode="match", target=50)
    assert game.done
    assert not game.truncated
    assert game.round == 0
    assert game.rewards == [1.0, -1.0]
    assert game.ranks() == [1, 2]


def test_ties_share_the_win() -> None:
    """Each of k equal lowest totals gets 2 / k - 1; the others get -1."""
    game = finish([0, 0])
    assert game.rewards == [0.0, 0.0]
    assert game.ranks() == [1, 1]
    game = finish([30, 15, 15])
    assert game.rewards == [-1.0, 0.0, 0.0]
    assert game.ranks() == [3, 1, 1]
    game = finish([0, 0, 0])
    assert game.rewards == pytest.approx([-1 / 3] * 3)
    assert game.ranks() == [1, 1, 1]
    game = finish([10, 15, 15])
    assert game.rewards == [1.0, -1.0, -1.0]
    assert game.ranks() == [1, 2, 2]


def test_round_reward_compares_with_the_others_and_the_actor_pays_for_time() -> None:
    """The round's reward compares with the mean of the others, and the player who acted pays for time."""
    game = finish([20, 30, 40], round_reward=0.5, time_penalty=0.25)
    # Seat 0: +1 + 0.5 * (35 - 20) / 100; seat 1: -1 + 0; seat 2: -1 + 0.5 * (25 - 40) / 100 - 0.25.
    assert game.rewards == pytest.approx([1.075, -1.0, -1.325])
    game = table([PLAIN, PLAIN], [[0], [0]], time_penalty=0.25)
    assert game.rewards == [0.0, 0.0]
    game.step(DECK)
    assert game.rewards == [-0.25, 0.0]


def test_uniform_initial_scores_are_below_the_target() -> None:
    """Uniform initial totals are below the target."""
    totals = [Skyjo(make_rules(initial_scores="uniform", target=50), 4, seed).scores for seed in range(50)]
    flat = [total for scores in totals for total in scores]
    assert min(flat) >= 0
    assert max(flat) <= 49
    assert len(set(flat)) > 40


def test_played_initial_scores_are_those_before_a_round_of_a_match() -> None:
    """Played initial totals are often 0, below the target, and grow together."""
    totals = [Skyjo(make_rules(initial_scores="played"), 2, seed).scores for seed in range(400)]
    assert max(max(scores) for scores in totals) < 100
    first = sum(scores == [0, 0] for scores in totals) / 400
    assert 0.1 < first < 0.25  # the first of six or seven rounds
    mean = sum(map(sum, totals)) / 800
    apart = sum(abs(a - b) for a, b in totals) / 400
    assert apart < 0.6 * mean


# --------------------------------------------------------------------------------------------- truncation


def test_truncation_scores_everything_without_a_penalty() -> None:
    """At the cap everything is scored without a penalty; the card in hand stays there and does not count."""
    column = [7, 2, 3, 4, 7, 6, 7, 8, 7, 10, 11, 12]  # sum 84, 63 without its column of sevens
    game = table([PLAIN, column], [but(0), [1]], max_decisions=3, time_penalty=0.5, round_reward=1.0)
    game.scores = [10, 20]
    game.discard_pile.append(1)
    game.step(TAKE)
    game.step(at(0))
    assert game.ender == 0
    game.step(DECK)
    assert game.done
    assert game.truncated
    assert game.scores == [88, 83]
    assert game.last_round_scores == [78, 63]
    assert game.rewards == [0.0, -0.5]
    assert (game.hand, game.hand_source, game.to_play, game.phase, game.turns) == (5, 1, 1, 0, 1)
    assert game.observe(1)[-34:-30] == [0, 8, 1, 0]
    assert game.observe(0)[-34:-30] == [0, 16, 1, 0]
    assert game.columns_cleared == [0, 1]


def test_no_truncation_when_the_last_decision_ends_the_episode() -> None:
    """An episode that ends by itself with the decision that reaches the cap is not truncated."""
    game = finish([20, 30], max_decisions=4)
    assert game.done
    assert not game.truncated
    assert game.rewards == [1.0, -1.0]


def test_a_round_that_ends_at_the_cap_counts_as_usual() -> None:
    """A round that ends with the capping decision counts as usual, and no other round is dealt."""
    game = finish([20, 30], episode="match", max_decisions=4, round_reward=1.0, next_starter="highest_sum")
    assert game.done
    assert game.truncated
    assert game.round == 0
    assert game.decisions == 4
    assert game.scores == [20, 30]
    assert game.rewards == pytest.approx([0.1, -0.1])
    assert (game.to_play, game.phase) == (1, 2)


# -------------------------------------------------------------------------------------------- observation


def test_an_observation_row_written_out_by_hand() -> None:
    """One row, written out by hand."""
    board: list[int | None] = [None, 2, 3, 4, None, 6, 7, 8, None, 10, 11, 12]
    game = table([board, PLAIN, PLAIN], [[1, 2], [0], []])
    game.scores = [10, 120, -200]
    game.step(DECK)

    expected: list[int] = []
    for r, seat in enumerate([1, 2, 0]):
        up = {0: {1: 5, 2: 6}, 1: {0: 4}, 2: {}}[seat]
        for position in range(12):
            if seat == 0 and position in (0, 4, 8):
                expected += [r, position, 2, 0]
            elif position in up:
                expected += [r, position, 1, up[position]]
            else:
                expected += [r, position, 0, 0]
    expected += [10, 1]  # the seven on the discard pile
    expected += [3, 0, 2, 1, 1, 0, 0, 0, 0, 1]  # seat 0 has seven face-down cards, so stage 1
    expected += [0, 0, 1, 255, 2, 90]
    expected += [3, 1, 0, 0, 0, 1] + [0] * 90
    expected += [1, 16, 1, 0]
    assert game.observe(1, counts=False) == expected
    # Face down: 4, 6, 7, 8, 10, 11, 12 of seat 0, 2 to 12 of seat 1, 1 to 12 of seat 2. Besides them there
    # are three fives on the draw pile and one in the hand.
    counts = [0, 0, 0, 1, 2, 2, 3, 6, 3, 3, 3, 2, 3, 3, 3]
    assert game.observe(1) == expected + counts + counts
    seen = [0, 0, 0, 1, 2, 2, 3, 5, 3, 3, 3, 2, 3, 3, 3]
    assert game.unseen_counts(0) == [seen, seen]
    assert game.observe(0)[-34:-30] == [1, 8, 1, 0]


def test_both_rows_of_counts_are_equal_until_the_draw_pile_runs_out() -> None:
    """The two rows are the same until the draw pile runs out."""

    def counts(*cards: int) -> list[int]:
        return [cards.count(value) for value in VALUES]

    game = table([PLAIN, PLAIN], [but(0, 1), but(2)])
    game.draw_pile, game.discard_pile = [6], [4, 4, 7]
    assert game.unseen_counts(0) == game.unseen_counts(1) == [counts(1, 2, 3, 6)] * 2
    game.step(DECK)
    assert game.unseen_counts(0) == [counts(1, 2, 3), counts(4, 4)]
    assert game.unseen_counts(1) == [counts(1, 2, 3, 6)] * 2
    game.step(DISCARD)
    assert game.unseen_counts(0) == game.unseen_counts(1) == [counts(1, 2, 3), counts(4, 4, 7)]
    game.step(at(0))
    game.step(DECK)
    hand = game.hand
    assert hand in (4, 7)
    assert game.reshuffled
    rest = [4, 4, 7]
    rest.remove(hand)
    assert game.unseen_counts(1) == [counts(2, 3), counts(*rest)]
    assert game.unseen_counts(0) == [counts(2, 3), counts(4, 4, 7)]


def test_every_card_is_accounted_for_by_every_seat() -> None:
    """Until a reshuffle the unseen cards and the visible ones are the deck."""

    def check(game: Skyjo) -> None:
        if game.reshuffled or not game.draw_pile:
            return
        for seat in range(game.num_players):
            row = game.observe(seat)
            seen = [0] * 15
            for token in range(12 * game.num_players):
                if row[4 * token + 2] == 1:
                    seen[row[4 * token + 3] - 1] += 1
            for card in game.discard_pile + game.out_of_play:
                seen[card + 2] += 1
            if 1 <= row[-33] <= 15:
                seen[row[-33] - 1] += 1
            for counts in (row[-30:-15], row[-15:]):
                assert [a + b for a, b in zip(seen, counts, strict=True)] == game.rules["deck"]

    for players in (2, 5):
        play_randomly(Skyjo(make_rules(max_decisions=400), players, seed=players), random.Random(1), check)


# --------------------------------------------------------------------------------------------- whole games

VOCABULARY = {
    "board": [8, 12, 3, 16],
    "discard": [16, 161],
    "global": [161, 64, 8, 5, 3, 32, 2, 9, 2, 7],
    "score": [8, 256],
    "history": [9, 10, 13, 16, 16, 3],
    "decision": [5, 17, 3, 5],
    "counts": [32] * 15,
}
FEW_VALUES = [0, 31, 31, 31, 31, 31] + [0] * 9  # 155 cards from -1 to 3: many complete columns
SMALL_DECK = [3, 3, 4] + [2] * 8 + [0] * 4  # 26 cards: two players' grids and one card for each pile
VARIANTS: list[dict[str, Any]] = [{"preset": name} for name in PRESETS] + [
    {"setup": "chosen", "clearing": "voluntary", "next_starter": "highest_sum"},
    {"setup": "chosen", "initial_reveals": 11, "initial_scores": "uniform"},
    {"setup": "random", "initial_reveals": 11, "cleared_cards": "out_of_play"},
    {"clearing": "voluntary", "clear_on_final_reveal": False, "max_decisions": 301},
    {"clearing": "voluntary", "deck": FEW_VALUES, "target": 40},
    {"deck": FEW_VALUES, "target": 40, "round_reward": 1.0, "time_penalty": 0.01},
]


@pytest.mark.parametrize("players", range(2, 9))
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_random_games_conserve_cards_and_end(players: int, options: dict[str, Any]) -> None:
    """Cards are conserved, observations fit their vocabulary and episodes end."""
    rules = make_rules(**options)
    deck = [value for value, count in zip(VALUES, rules["deck"], strict=True) for _ in range(count)]
    groups = {
        "board": 12 * players,
        "discard": 1,
        "global": 1,
        "score": players,
        "history": 16,
        "decision": 1,
    }
    vocabulary = [size for name, count in groups.items() for size in VOCABULARY[name] * count]
    vocabulary += VOCABULARY["counts"] * 2

    def check(game: Skyjo) -> None:
        assert cards_on_table(game) == deck
        row = game.observe(game.decisions % players)
        assert len(row) == len(vocabulary)
        assert all(0 <= field < size for field, size in zip(row, vocabulary, strict=True))
        assert len(game.history) == min(16, game.round_decisions)
        assert game.done or game.legal()

    game = Skyjo(rules, players, seed=players)
    check(game)
    play_randomly(game, random.Random(players), check)
    assert all(not game.face_down(seat) for seat in range(players))
    if not game.truncated:
        assert rules["episode"] == "round" or max(game.scores) >= rules["target"]
        if rules["round_reward"] == 0:
            winners = game.ranks().count(1)
            assert sorted(set(game.rewards)) == pytest.approx(sorted({-1, 2 / winners - 1}))
    else:
        assert game.decisions == rules["max_decisions"]


@pytest.mark.parametrize("cleared_cards", ["discard_pile", "out_of_play"])
def test_the_smallest_deck_always_leaves_a_card_to_draw(cleared_cards: str) -> None:
    """With one card on each pile there is always a card to draw."""
    rules = make_rules(deck=SMALL_DECK, cleared_cards=cleared_cards, max_decisions=2000)
    deck = [value for value, count in zip(VALUES, SMALL_DECK, strict=True) for _ in range(count)]

    def check(game: Skyjo) -> None:
        assert cards_on_table(game) == deck
        if game.phase == 0 and not game.done:
            assert game.discard_pile
            assert len(game.draw_pile) + len(game.discard_pile) >= 2

    for seed in range(5):
        play_randomly(Skyjo(rules, 2, seed), random.Random(seed), check)
