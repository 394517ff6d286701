"""Exact values of Kuhn poker by enumeration: of a pair of policies, of a best response, and exploitability.

A policy gives the probability of a bet for every information set of both seats: (own card, what has happened), such as
(KING, "pb"). All numbers are fractions, so that results are exact.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

from tests.oracle.kuhn import CARDS, ENDINGS, JACK, KING, QUEEN, chips_won

Policy = dict[tuple[int, str], Fraction]

HISTORIES = (("", "pb"), ("p", "b"))  # by seat: where it decides
GAME_VALUE = Fraction(-1, 18)  # chips per hand for seat 0 with best play by both


def information_sets(seat: int) -> list[tuple[int, str]]:
    """All situations in which a seat decides, as it sees them."""
    return [(card, history) for card in CARDS for history in HISTORIES[seat]]


def constant(bet: Fraction) -> Policy:
    """Bets with one probability everywhere."""
    return {key: bet for seat in (0, 1) for key in information_sets(seat)}


def equilibrium(alpha: Fraction) -> Policy:
    """The equilibrium in which seat 0 bets a jack with probability alpha, 0 to 1/3."""
    third = Fraction(1, 3)
    return {
        (JACK, ""): alpha,
        (QUEEN, ""): Fraction(0),
        (KING, ""): 3 * alpha,
        (JACK, "pb"): Fraction(0),
        (QUEEN, "pb"): alpha + third,
        (KING, "pb"): Fraction(1),
        (JACK, "p"): third,
        (QUEEN, "p"): Fraction(0),
        (KING, "p"): Fraction(1),
        (JACK, "b"): Fraction(0),
        (QUEEN, "b"): third,
        (KING, "b"): Fraction(1),
    }


def value(first: Policy, second: Policy) -> Fraction:
    """Expected chips of seat 0 per hand, if seat 0 plays `first` and seat 1 plays `second`."""

    def expected(cards: tuple[int, int], history: str) -> Fraction:
        if history in ENDINGS:
            return Fraction(chips_won(cards, history)[0])
        seat = len(history) % 2
        bet = (first, second)[seat][cards[seat], history]
        return bet * expected(cards, history + "b") + (1 - bet) * expected(cards, history + "p")

    deals = list(permutations(CARDS, 2))
    return sum((expected((a, b), "") for a, b in deals), Fraction(0)) / len(deals)


def best_response_value(seat: int, opponent: Policy) -> Fraction:
    """Expected chips per hand of the best policy of a seat against a known opponent.

    A best policy can be deterministic, so all 64 deterministic policies are tried.
    """
    keys = information_sets(seat)
    best = None
    for bets in product((Fraction(0), Fraction(1)), repeat=len(keys)):
        own = dict(zip(keys, bets, strict=True))
        chips = value(own, opponent) if seat == 0 else -value(opponent, own)
        best = chips if best is None else max(best, chips)
    assert best is not None
    return best


def exploitability(policy: Policy) -> Fraction:
    """Chips per hand that the best opponent wins, on average over both seats; 0 for an equilibrium."""
    return (best_response_value(0, policy) + best_response_value(1, policy)) / 2
