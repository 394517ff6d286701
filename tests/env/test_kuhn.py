"""Kuhn poker: all deals and action sequences against the oracle, and the bots against the exact solution."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

import env
from tests.env.cases import KUHN
from tests.oracle.kuhn import ENDINGS, JACK, KING, LETTERS, QUEEN, Kuhn, chips_won
from tests.oracle.kuhn_solver import (
    BOT_POLICIES,
    GAME_VALUE,
    HISTORIES,
    best_response_value,
    equilibrium,
    exploitability,
    information_sets,
    value,
)
from tests.oracle.kuhn_tables import deals_by_cards

# ------------------------------------------------------------------------------------------------ the rules


def test_every_deal_and_action_sequence_agrees_with_the_oracle() -> None:
    """All 6 deals times all 5 ways to play a hand, compared after every decision for both seats."""
    deals = deals_by_cards()
    assert set(deals) == set(permutations((JACK, QUEEN, KING), 2))
    for (cards, number), history in product(deals.items(), ENDINGS):
        tables, oracle = env.make("kuhn", 1, auto_reset=False), Kuhn({}, 2, 0, number)
        tables.reset(deals=[number])
        for letter in [None, *history]:
            if letter is not None:
                tables.step([LETTERS.index(letter)])
                oracle.step(LETTERS.index(letter))
            assert tables.inspect(0) == KUHN.fields(oracle)
            assert np.flatnonzero(tables.legal[0]).tolist() == oracle.legal()
            assert tables.rewards[0].tolist() == oracle.rewards
            assert tables.ranks[0].tolist() == oracle.ranks()
            for seat in (0, 1):
                assert tables.observe(seat)[0].tolist() == oracle.observe(seat)
                assert tables.unseen_counts(seat)[0].tolist() == oracle.unseen_counts(seat)
        assert tables.done[0]
        won = chips_won(cards, history)
        assert tables.scores[0].tolist() == [-chips for chips in won], "points are chips lost"
        assert tables.rewards[0].tolist() == [chips / 2 for chips in won]
        assert tables.stats[0].tolist() == [len(history), int(ENDINGS[history][1] == "card"), won[0]]


@pytest.mark.parametrize(
    ("cards", "history", "won"),
    [
        ((KING, JACK), "pp", (1, -1)),
        ((JACK, QUEEN), "pp", (-1, 1)),
        ((JACK, KING), "bp", (1, -1)),
        ((QUEEN, KING), "bb", (-2, 2)),
        ((KING, QUEEN), "pbp", (-1, 1)),
        ((QUEEN, JACK), "pbb", (2, -2)),
    ],
)
def test_pots_worked_out_by_hand(cards: tuple[int, int], history: str, won: tuple[int, int]) -> None:
    tables = env.make("kuhn", 1, auto_reset=False)
    tables.reset(deals=[deals_by_cards()[cards]])
    for letter in history:
        tables.step([LETTERS.index(letter)])
    assert (-tables.scores[0]).tolist() == list(won)


def test_all_deals_are_equally_likely() -> None:
    tables = env.make("kuhn", 6000, seed=3)
    hands = np.array([tables.inspect(i)["hands"] for i in range(6000)])
    counts = np.unique(hands[:, 0] * 4 + hands[:, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_resampled_opponent_holds_either_unseen_card_equally_often() -> None:
    tables = env.make("kuhn", 8000, seed=1)
    start = env.make("kuhn", 1, seed=1)
    for seat in (0, 1):
        tables.copy_from(start, [0] * 8000)
        tables.determinize(seat, seed=seat)
        hands = np.array([tables.inspect(i)["hands"] for i in range(8000)])
        assert (hands[:, seat] == start.inspect(0)["hands"][seat]).all()
        counts = np.bincount(hands[:, 1 - seat], minlength=4)[1:]
        possible = tables.unseen_counts(seat)[0, 0].astype(bool)
        assert counts[~possible].sum() == 0
        assert stats.chisquare(counts[possible]).pvalue > 1e-3


def test_a_hand_that_was_given_up_stays_hidden() -> None:
    tables = env.make("kuhn", 64, seed=2, auto_reset=False)
    tables.step(np.ones(64, np.int64))
    tables.step((np.arange(64) % 2).astype(np.int64))  # even tables give up, odd ones call
    for seat in (0, 1):
        seen = tables.observe(seat)[:, 3]
        hands = np.array([tables.inspect(i)["hands"][1 - seat] for i in range(64)])
        assert (seen[::2] == 4).all()
        assert (seen[1::2] == hands[1::2]).all()


def test_a_truncated_hand_pays_nothing() -> None:
    for limit in (1, 2):
        tables = env.make("kuhn", 64, rules={"max_decisions": limit}, seed=1, auto_reset=False)
        tables.step(np.zeros(64, np.int64))
        if limit == 2:
            tables.step(np.ones(64, np.int64))
        assert tables.truncated.all()
        assert not tables.rewards.any()
        assert not tables.scores.any()


def test_a_third_player_is_refused() -> None:
    with pytest.raises(ValueError, match=r"num_players: expected 2 to 2, got 3 \(the game"):
        env.make("kuhn", 1, 3)


# ---------------------------------------------------------------------------------------- the exact solution


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(1, 7), Fraction(1, 4), Fraction(1, 3)])
def test_every_equilibrium_is_worth_minus_one_eighteenth(alpha: Fraction) -> None:
    policy = equilibrium(alpha)
    assert value(policy, policy) == GAME_VALUE == Fraction(-1, 18)
    assert best_response_value(0, policy) == GAME_VALUE
    assert best_response_value(1, policy) == -GAME_VALUE
    assert exploitability(policy) == 0


def test_outside_the_family_a_first_player_can_be_exploited() -> None:
    policy = equilibrium(Fraction(1, 2))
    policy[KING, ""] = Fraction(1)
    policy[QUEEN, "pb"] = Fraction(5, 6)
    assert best_response_value(1, policy) > -GAME_VALUE


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        # Every bet wins the pot of a player who never calls.
        ("always_pass", Fraction(1), Fraction(1)),
        # Against one who always calls: a king wins two chips, a queen none on average, a jack gives up.
        ("always_bet", Fraction(1, 3), Fraction(1, 3)),
        # First, all cards bet: (-1/2 + 1/2 + 3/2) / 3. Second, after a pass all bet (-1/2, 1/2, 3/2), after a bet the
        # jack gives up (-1), the queen calls (0) and the king too (2).
        ("uniform", Fraction(1, 2), Fraction(5, 12)),
        ("equilibrium", GAME_VALUE, -GAME_VALUE),
    ],
)
def test_exploitability_of_the_bots_worked_out_by_hand(name: str, first: Fraction, second: Fraction) -> None:
    policy = BOT_POLICIES[name]
    assert best_response_value(0, policy) == first
    assert best_response_value(1, policy) == second
    assert exploitability(policy) == (first + second) / 2


def test_an_equilibrium_loses_more_hands_to_constant_betting_and_wins_more_chips() -> None:
    """So win rates are no measure of strength here."""
    solution, betting = BOT_POLICIES["equilibrium"], BOT_POLICIES["always_bet"]
    assert value(solution, betting) - value(betting, solution) > 0
    tables = env.make("kuhn", seed=3)
    bots = [tables.bot("equilibrium"), tables.bot("always_bet")]
    there, back = tables.play(bots, 4000).scores, tables.play(bots[::-1], 4000).scores[:, ::-1]
    lost = np.concatenate([there, back])[:, 0]
    assert (lost > 0).mean() > 0.55
    assert lost.mean() < 0


# --------------------------------------------------------------------------------------------------- bots


@pytest.mark.parametrize("name", BOT_POLICIES)
def test_a_bot_bets_as_often_as_its_policy_says(name: str) -> None:
    """In every information set of both seats; a probability of 0 or 1 is exact."""
    copies, policy, deals = 4000, BOT_POLICIES[name], deals_by_cards()
    for seat in (0, 1):
        for card, history in information_sets(seat):
            other = JACK if card != JACK else QUEEN
            cards = (card, other) if seat == 0 else (other, card)
            start = env.make("kuhn", 1, auto_reset=False)
            start.reset(deals=[deals[cards]])
            for letter in history:
                start.step([LETTERS.index(letter)])
            rows, legal = np.repeat(start.obs, copies, axis=0), np.repeat(start.legal_bits, copies)
            share = start.bot(name, seed=7).act(rows, legal).mean()
            expected = float(policy[card, history])
            error = np.sqrt(expected * (1 - expected) / copies)
            assert abs(share - expected) <= 4 * error, (seat, card, history)
    assert set(policy) == {key for seat in (0, 1) for key in information_sets(seat)}
    assert [history for where in HISTORIES for history in where] == ["", "pb", "p", "b"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("equilibrium", "equilibrium(alpha=0)"), ("uniform", "equilibrium"), ("always_bet", "uniform")],
)
def test_played_hands_are_worth_what_enumeration_says(first: str, second: str) -> None:
    """z-test of 200,000 hands; equilibrium against equilibrium is worth -1/18 of a chip to seat 0."""
    hands = 200_000
    tables = env.make("kuhn", seed=5)
    played = tables.play([tables.bot(first), tables.bot(second)], hands, seed=1)
    chips = -played.scores[:, 0]
    assert (chips == played.stats["chips_won_0"]).all()
    expected = float(value(BOT_POLICIES[first], BOT_POLICIES[second]))
    if first.startswith("equilibrium"):
        assert expected == -1 / 18
    z = (chips.mean() - expected) / (chips.std() / np.sqrt(hands))
    assert abs(z) < 4


def test_rewards_measure_the_value_of_the_game() -> None:
    """Rewards are half the chips, so that their mean over many hands is half the value."""
    tables = env.make("kuhn", 20_000, seed=9, auto_reset=False)
    bots = [tables.bot("equilibrium")] * 2
    earned = np.zeros((20_000, 2))
    while not tables.done.all():
        tables.step(tables.bot_actions(bots, seed=2))
        earned += tables.rewards
    assert (earned == -tables.scores / 2).all()
    assert (earned.sum(1) == 0).all()
    z = (earned[:, 0].mean() + 1 / 36) / (earned[:, 0].std() / np.sqrt(20_000))
    assert abs(z) < 4
