"""Skip-Bo: situations worked out by hand, options, shapes of actions, and the hand-written players."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import env
from tests.oracle.skipbo import PASS, WILD, Skipbo, discard_action, make_rules, play_action

# ------------------------------------------------------------------------------------- the oracle, by hand


def table(
    hand: list[int],
    stock: list[int] | None = None,
    building: list[int] | None = None,
    discards: list[list[int]] | None = None,
    **rules: Any,
) -> Skipbo:
    """A game of two at seat 0's turn: its hand and stock, heights of the building piles, its discard piles."""
    game = Skipbo(make_rules(**rules), 2, seed=0)
    game.hands[0] = list(hand)
    if stock:
        game.stocks[0] = list(stock)
    game.building = [list(range(1, height + 1)) for height in building or [0] * 4]
    game.discards[0] = [list(pile) for pile in discards or [[], [], [], []]]
    return game


def plays(game: Skipbo) -> list[int]:
    """The legal actions that are no discards."""
    return [action for action in game.legal() if action < 40]


def test_stocks_and_the_first_hand_are_dealt() -> None:
    for players, stock in ((2, 30), (4, 30), (5, 20), (6, 20)):
        game = Skipbo(make_rules(), players, seed=3)
        assert [len(cards) for cards in game.stocks] == [stock] * players
        assert [len(hand) for hand in game.hands] == [5] + [0] * (players - 1)
        assert len(game.draw_pile) == 162 - players * stock - 5


def test_a_pile_takes_the_next_number_or_a_wild_card() -> None:
    game = table([1, 2, 5, WILD, 12], stock=[7, 5], building=[4, 0, 11, 1])
    expected = [("stock", 0), ("hand 0", 1), ("hand 1", 3), ("hand 2", 0), ("hand 4", 2)]
    expected += [("hand 3", pile) for pile in range(4)]
    assert plays(game) == sorted(play_action(*play) for play in expected)
    assert [action for action in game.legal() if action >= 40] == list(range(40, 60))


def test_equal_cards_and_equal_empty_piles_are_shown_once() -> None:
    game = table([1, 1, WILD, 1, WILD], stock=[12], building=[0, 3, 0, 0])
    assert plays(game) == [play_action("hand 0", 0), play_action("hand 2", 0), play_action("hand 2", 1)]
    discards = [discard_action(place, pile) for place in (0, 2) for pile in range(4)]
    assert [action for action in game.legal() if action >= 40] == discards


def test_only_tops_of_discard_piles_can_be_played() -> None:
    game = table([9], stock=[12], building=[4, 0, 0, 0], discards=[[5, 8], [8, 5], [], [WILD]])
    assert plays(game) == [play_action("discard 1", 0), play_action("discard 3", 0), play_action("discard 3", 1)]
    game.step(play_action("discard 1", 0))
    assert game.discards[0] == [[5, 8], [8], [], [WILD]]
    assert len(game.building[0]) == 5


def test_hands_close_up_and_a_discard_ends_the_turn() -> None:
    game = table([3, 7, 1, 9, 9], stock=[12])
    game.step(play_action("hand 2", 0))
    assert game.hands[0] == [3, 7, 9, 9]
    assert game.to_play == 0
    game.step(discard_action(1, 2))
    assert game.hands[0] == [3, 9, 9]
    assert game.discards[0] == [[], [], [7], []]
    assert game.to_play == 1
    assert len(game.hands[1]) == 5


def test_an_empty_hand_is_refilled_by_playing_but_not_by_discarding() -> None:
    game = table([1], stock=[12])
    game.step(play_action("hand 0", 0))
    assert game.to_play == 0
    assert len(game.hands[0]) == 5
    game = table([8], stock=[12])
    game.step(discard_action(0, 0))
    assert game.to_play == 1
    assert game.hands[0] == []


def test_a_full_pile_is_set_aside_and_its_wild_cards_stay_wild() -> None:
    game = table([WILD, 3], stock=[2], building=[11, 0, 0, 0])
    game.step(play_action("hand 0", 0))
    assert game.building[0] == []
    assert game.aside == [*range(1, 12), WILD]
    assert game.completed == 1
    game.draw_pile = []
    game.step(discard_action(0, 0))  # the other player draws from the cards set aside
    assert game.reshuffles == 1
    assert sorted(game.draw_pile + game.hands[1]) == [*range(1, 12), WILD]


def test_without_a_card_to_draw_a_player_continues_with_fewer_cards() -> None:
    game = table([8, 7], stock=[12])
    game.draw_pile, game.hands[1] = [3], [2]
    game.step(discard_action(0, 0))
    assert game.hands[1] == [2, 3]
    game.step(discard_action(0, 0))
    assert game.hands[0] == [7]


def test_an_empty_hand_must_play_from_the_board_and_passes_then() -> None:
    game = table([1], stock=[12], building=[0, 4, 0, 0], discards=[[5], [], [], []])
    game.draw_pile = []
    game.step(play_action("hand 0", 0))
    assert game.legal() == [play_action("discard 0", 1)]
    assert game.phase == 0
    game.step(play_action("discard 0", 1))
    assert game.legal() == [PASS]
    assert game.phase == 1
    game.step(PASS)
    assert game.to_play == 1


def test_completing_a_pile_with_an_empty_hand_draws_again() -> None:
    game = table([1], stock=[12], building=[0, 11, 0, 0], discards=[[WILD], [], [], []])
    game.draw_pile = []
    game.step(play_action("hand 0", 0))
    game.step(play_action("discard 0", 1))
    assert len(game.hands[0]) == 5
    assert game.to_play == 0


def test_a_full_circle_without_anything_is_a_draw() -> None:
    game = table([1], stock=[12, 12], building=[0, 4, 4, 4])
    game.draw_pile, game.stocks[1] = [], [12, 12, 12]
    game.step(play_action("hand 0", 0))
    for player in (0, 1, 0):  # the first turn had a play in it
        assert not game.done
        assert game.to_play == player
        game.step(PASS)
    assert game.done
    assert game.deadlock
    assert not game.truncated
    assert game.scores == [0, 0]
    assert game.ranks() == [1, 1]
    assert game.rewards == [0, 0]


def test_the_last_stock_card_wins_at_once() -> None:
    game = table([7, 8], stock=[5], building=[4, 0, 0, 0], round_reward=2.0)
    game.step(play_action("stock", 0))
    assert game.done
    assert game.winner == 0
    assert game.scores == [0, 30]
    assert game.rewards == pytest.approx([1.02, -1.02])
    assert game.legal() == []


def test_every_stock_card_is_paid() -> None:
    game = Skipbo(make_rules(round_reward=3.0, time_penalty=0.5), 3, seed=0)
    game.stocks[0][-1] = 1
    game.step(play_action("stock", 0))
    assert game.rewards == pytest.approx([0.03 - 0.5, -0.015, -0.015])


# --------------------------------------------------------------------------------------------------- options

# Each option and a value other than the default.
CHANGES: dict[str, Any] = {
    "stock": 10,
    "starter": "random",
    "extras": False,
    "deck": [9] * 12 + [30],
    "max_decisions": 9,
    "round_reward": 0.5,
    "time_penalty": 0.1,
}


def trace(rules: dict[str, Any]) -> list[bytes]:
    """Everything that random play shows for a while."""
    tables = env.make("skipbo", 64, 3, rules, seed=4)
    steps = []
    for _ in range(100):
        tables.step(tables.sample_actions(8))
        shown = (tables.obs, tables.legal, tables.rewards, tables.scores, tables.done, tables.to_play)
        steps += [array.tobytes() for array in shown]
    return steps


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_changes_play(option: str) -> None:
    change = {option: CHANGES[option]}
    assert env.make("skipbo", rules=change).rules[option] == CHANGES[option]
    assert trace({}) != trace(change)


def test_every_rule_option_is_tested() -> None:
    assert set(CHANGES) == set(env.make("skipbo").rules)


def test_a_stock_of_0_means_the_official_size() -> None:
    for players, stock in ((2, 30), (4, 30), (5, 20), (6, 20)):
        tables = env.make("skipbo", 1, players)
        assert tables.inspect()["stock_sizes"] == [stock] * players


def test_starters_are_drawn_evenly() -> None:
    tables = env.make("skipbo", 6000, 3, {"starter": "random"}, seed=2)
    counts = np.bincount(tables.to_play, minlength=3)
    assert np.abs(counts - 2000).max() < 4 * np.sqrt(6000 * 2 / 9)
    assert (env.make("skipbo", 100, 3).to_play == 0).all()


@pytest.mark.parametrize(
    ("players", "rules", "message"),
    [
        (7, {}, "num_players: expected 2 to 6, got 7"),
        (6, {"stock": 27}, r"rule 'deck': expected between 167 \(27 for each of 6 stocks, and a hand\) .* got 162"),
        (2, {"deck": [36] * 13}, "rule 'deck': .* and 192 cards in all, got 468"),
        (2, {"deck": [37] * 13}, "rule 'deck': expected 13 integers from 0 to 36"),
        (2, {"stock": 81}, "rule 'stock': expected an integer from 0 to 80, got 81"),
        (2, {"starter": "oldest"}, "rule 'starter': expected one of seat_0, random, got 'oldest'"),
    ],
)
def test_impossible_settings_are_refused_with_the_reason(players: int, rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make("skipbo", 1, players, rules)


def test_without_extras_a_row_shows_the_own_cards_and_the_building_piles_only() -> None:
    """Two tables that differ in everything else look the same to the mover."""
    tables = env.make("skipbo", 200, 2, {"extras": False, "stock": 8}, seed=3, counts=False)
    tables.random_steps(20)
    for i in np.flatnonzero(tables.to_play == 0):
        state, row = tables.inspect(i), tables.obs[i]
        slots = row[: 28 * 6].reshape(28, 6)
        hand = state["hands"][: state["hand_sizes"][0]]
        assert slots[1:6, 3].tolist() == hand + [0] * (5 - len(hand))
        assert slots[0, 3] == state["stocks"][state["stock_sizes"][0] - 1]
        assert slots[10:14, 3].tolist() == state["heights"]
        assert (slots[14:24, 3] == 14).all()
        assert not slots[:, 4:].any()
        assert row[28 * 6 :][: 2 * 3].tolist() == [0, len(hand), 0, 1, 0, 0]
        assert not row[28 * 6 + 2 * 3 :][:2].any()


def test_shapes_of_actions_by_hand() -> None:
    info = env.make("skipbo", 1, 3).info
    shapes = [(shape.kind, [tuple(pair) for pair in shape.slots]) for shape in info.action_shapes]
    built = [(12, 6), (26, 7), (40, 7)]  # the third building pile, on the board of each player
    assert shapes[play_action("stock", 2)] == (0, [(0, 0), *built])
    assert shapes[play_action("hand 1", 2)] == (1, [(2, 0), (1, 5), (3, 1), (4, 2), (5, 3), *built])
    assert shapes[play_action("discard 3", 2)] == (2, [(9, 0), *built])
    assert shapes[discard_action(0, 3)] == (3, [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (9, 8)])
    assert shapes[PASS] == (4, [])
    assert [list(block) for block in info.symmetric_blocks] == [[slot] for slot in range(14)]


def test_names_of_actions_by_hand() -> None:
    names = env.make("skipbo").action_names
    assert [names[play_action(*play)] for play in (("stock", 0), ("hand 4", 3), ("discard 0", 1))] == [
        "play s1",
        "play e4",
        "play w2",
    ]
    assert [names[discard_action(0, 0)], names[discard_action(4, 3)], names[PASS]] == [
        "discard aw",
        "discard ez",
        "pass",
    ]


# ---------------------------------------------------------------------------------------------- players


def situations(players: int = 2, count: int = 3000) -> env.VecEnv:
    """Tables somewhere in a game."""
    tables = env.make("skipbo", count, players, seed=5)
    bots = [tables.bot("hpvp", epsilon=0.1)] * players
    for moment in range(240):
        actions = tables.bot_actions(bots, 2)
        actions[np.arange(count) % 240 < moment] = env.SKIP
        tables.step(actions)
    return tables


class Board:
    """Cards of the player to move, from the complete state."""

    def __init__(self, state: dict[str, list[int]], legal: set[int]) -> None:
        seat = state["to_play"][0]
        self.legal = legal
        self.heights = state["heights"]
        before = sum(state["hand_sizes"][:seat])
        self.hand = state["hands"][before : before + state["hand_sizes"][seat]]
        self.stock = state["stocks"][sum(state["stock_sizes"][: seat + 1]) - 1]
        ends = np.cumsum([0, *state["discard_sizes"]])[4 * seat :][:5].tolist()
        piles = [[0, 0, *state["discard_piles"][begin:end]] for begin, end in pairwise(ends)]
        self.under, self.tops = ([pile[depth] for pile in piles] for depth in (-2, -1))

    def card(self, action: int) -> int:
        """The card that an action moves, if it is not the stock's."""
        source = action // 4 if action < 40 else 1 + (action - 40) // 4
        return self.tops[source - 6] if source >= 6 else self.hand[source - 1]

    def highest(self, source: int) -> int | None:
        """The action of playing from a source onto the highest pile that takes the card, leftmost of equals."""
        piles = [pile for pile in range(4) if source * 4 + pile in self.legal]
        return source * 4 + max(piles, key=lambda pile: (self.heights[pile], -pile)) if piles else None

    def hpvp(self, discard_pile: Any) -> int:
        """HPVP, word for word."""
        if PASS in self.legal:
            return PASS
        if (action := self.highest(0)) is not None:
            return action
        hand = [action for action in self.legal if 4 <= action < 24]
        if hand:

            def preference(action: int) -> tuple[Any, ...]:
                source, pile = divmod(action, 4)
                height = self.heights[pile]
                return height > 0, height + 1, self.hand[source - 1] != WILD, -pile, -source

            return max(hand, key=preference)
        for source in range(6, 10):
            if (action := self.highest(source)) is not None:
                return action
        card = max((card for card in self.hand if card != WILD), default=WILD)
        return discard_action(self.hand.index(card), discard_pile(self.tops))


def lowest_top(tops: list[int]) -> int:
    """An empty pile counts as 0."""
    return tops.index(min(tops))


def highest_top(tops: list[int]) -> int:
    """The highest below 12; the leftmost pile if there is none."""
    below = [top for top in tops if top < 12]
    return tops.index(max(below)) if below else 0


def test_hpvp_follows_its_definition_in_all_readings() -> None:
    tables = situations()
    readings = {"hpvp": lowest_top, "hpvp_highest_top": highest_top, "hpvp_first_pile": lambda tops: 0}
    chosen = {name: tables.bot(name).act(tables.obs, tables.legal) for name in readings}
    kinds = set()
    for i in range(tables.num_envs):
        board = Board(tables.inspect(i), set(np.flatnonzero(tables.legal[i]).tolist()))
        for name, pile in readings.items():
            assert chosen[name][i] == board.hpvp(pile), (name, i)
        kinds.add(int(chosen["hpvp"][i]) // 4)
    assert len(kinds & set(range(10))) >= 8, "all sources are played from"
    assert len(kinds & set(range(10, 15))) == 5, "all places are discarded from"
    assert (chosen["hpvp"] != chosen["hpvp_highest_top"]).sum() > 300
    assert (chosen["hpvp_first_pile"] != chosen["hpvp_highest_top"]).sum() > 10


def test_greedy_and_random_bots_follow_their_definitions() -> None:
    tables = situations()
    greedy, spread = (tables.bot(name).act(tables.obs, tables.legal) for name in ("greedy", "greedy_random_pile"))
    either = tables.bot("random_play").act(tables.obs, tables.legal)
    can_play = tables.legal[:, :40].any(1)
    first = tables.legal.argmax(1)  # stock, hand and discard piles in order, leftmost building pile first
    assert (greedy == first).all()
    assert (greedy[~can_play] == discard_action(0, 0)).all()
    assert (spread[can_play] == first[can_play]).all()
    piles = np.bincount(spread[~can_play] - 40, minlength=4)
    assert len(piles) == 4
    assert np.abs(piles - piles.mean()).max() < 5 * np.sqrt(piles.mean())
    assert ((either < 40) == can_play).all()
    assert tables.legal[np.arange(tables.num_envs), either].all()
    free = tables.legal[:, :40].sum(1) > 2
    assert (either != first)[free].any()


def test_wild_saver_saves_wild_cards() -> None:
    """It plays one only as a missing card on the way to its stock card, and discards one only if it must."""
    tables = situations()
    chosen = tables.bot("wild_saver").act(tables.obs, tables.legal)
    spent = kept = 0
    for i, action in enumerate(chosen.tolist()):
        state = tables.inspect(i)
        board = Board(state, set(np.flatnonzero(tables.legal[i]).tolist()))
        if any(play < 4 for play in board.legal):
            assert action < 4, "the stock card comes first"
            continue
        card = board.card(action)
        kept += WILD in board.hand and card != WILD
        if card != WILD:
            continue
        spent += 1
        if action >= 40:
            assert set(board.hand) == {WILD}
            continue
        height, goal = board.heights[action % 4], board.stock - 1
        way = [(height + step) % 12 + 1 for step in range((goal - height) % 12)]
        assert way[0] not in [*board.hand, *board.tops]
        assert len([rank for rank in way if rank not in [*board.hand, *board.tops, *board.under]]) <= 2
    assert spent > 20
    assert kept > 200


def test_rules_of_thumb_take_the_advice_that_they_are_made_of() -> None:
    tables = situations()
    chosen = tables.bot("rules_of_thumb").act(tables.obs, tables.legal)
    careful = tables.bot("rules_of_thumb(block=100)").act(tables.obs, tables.legal)
    careless = tables.bot("rules_of_thumb(block=0, wild=0)").act(tables.obs, tables.legal)
    spent, blocked, wild_plays, buried, discards = 0, 0, 0, 0, 0
    for i, action in enumerate(chosen.tolist()):
        state = tables.inspect(i)
        board = Board(state, set(np.flatnonzero(tables.legal[i]).tolist()))
        if any(play < 4 for play in board.legal):
            assert action < 4, "the stock card comes first"
            continue
        if PASS in board.legal:
            continue
        must_play = not any(play >= 40 for play in board.legal)  # an empty hand leaves no choice but the board
        if board.card(action) == WILD:
            spent += 1
            if action >= 40:
                assert set(board.hand) == {WILD}, "a wild card is discarded only if there is nothing else"
            elif not must_play:
                way = range(board.heights[action % 4] + 1, board.stock)
                assert way, "it makes room for the stock card"
                assert sum(number not in [*board.hand, *board.tops, *board.under] for number in way) <= 1
        wild_plays += careless[i] < 40 and board.card(int(careless[i])) == WILD
        if 40 <= action < 60:
            discards += 1
            top = board.tops[action % 4]
            buried += 0 < top < board.card(action)
        if careful[i] < 40 and not must_play:
            other = 1 - int(tables.to_play[i])
            wanted = state["stocks"][sum(state["stock_sizes"][: other + 1]) - 1]
            fits = (board.heights[careful[i] % 4] + 1) % 12 + 1
            blocked += 1
            assert fits != wanted or fits == board.stock or wanted == board.heights[careful[i] % 4] + 1
    assert spent > 5
    assert blocked > 200
    assert wild_plays > spent, "without a price wild cards are spent"
    assert buried < 0.2 * discards


def share_won(a: str, b: str, players: int = 2, games: int = 1000) -> float:
    """Share of games that a wins against b in all other seats, from each seat in turn; a draw is a shared win."""
    tables = env.make("skipbo", 1, players, seed=1)
    total = 0.0
    for seat in range(players):
        bots = [tables.bot(b)] * players
        bots[seat] = tables.bot(a)
        winner = tables.play(bots, games // players).stats["winner"]
        total += (winner == seat).mean() + (winner == -1).mean() / players
    return total / players


def test_bots_rank_from_random_to_wild_saver() -> None:
    order = ["random", "random_play", "greedy", "hpvp", "wild_saver"]
    for worse, better in pairwise(order):
        assert share_won(better, worse) > 0.6, (better, worse)
    assert share_won("wild_saver", "hpvp", players=4) > 0.4
    assert share_won("rules_of_thumb", "hpvp") > 0.6
    assert share_won("rules_of_thumb", "hpvp", players=4) > 0.4


def test_random_players_end_in_a_deadlock() -> None:
    """They discard nearly everything, so that nothing is left to draw."""
    tables = env.make("skipbo", seed=1)
    records = tables.play([tables.bot("random")] * 2, 200)
    assert records.stats["deadlock"].all()
    assert not records.truncated.any()
    assert (records.scores == 0).all()
