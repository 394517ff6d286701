"""Exact values of Kuhn poker by enumeration: value of a pair of policies, of a best response, and exploitability.

A policy gives the probability of a bet for every information set of both seats: (own card, history), such as
(KING, "pb"). All numbers are fractions, so that results are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product

from tests.oracle.kuhn import CARDS, ENDINGS, JACK, KING, QUEEN, chips_won

Policy = dict[tuple[int, str], Fraction]
Payoffs = Callable[[tuple[int, int], str], tuple[int, int]]  # cards and history of a finished hand -> payoffs by seat

HISTORIES = (("", "pb"), ("p", "b"))  # histories after which each seat decides
GAME_VALUE = Fraction(-1, 18)  # chips per hand for seat 0 with best play by both


def information_sets(seat: int) -> list[tuple[int, str]]:
    """All situations in which a seat decides, as it sees them."""
    return [(card, history) for card in CARDS for history in HISTORIES[seat]]


def constant(bet: Fraction) -> Policy:
    """Policy that bets with one probability everywhere."""
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


# Bots of the environment and the policies that docs/games/kuhn.md gives for them.
BOT_POLICIES: dict[str, Policy] = {
    "equilibrium": equilibrium(Fraction(1, 3)),
    "equilibrium(alpha=0)": equilibrium(Fraction(0)),
    "equilibrium(alpha=0.25)": equilibrium(Fraction(1, 4)),
    "uniform": constant(Fraction(1, 2)),
    "uniform(bet=0.25)": constant(Fraction(1, 4)),
    "random": constant(Fraction(1, 2)),
    "always_bet": constant(Fraction(1)),
    "always_pass": constant(Fraction(0)),
}


def expected_payoffs(
    cards: tuple[int, int], history: str, first: Policy, second: Policy, payoffs: Payoffs = chips_won
) -> tuple[Fraction, Fraction]:
    """Expected payoffs of both seats in one deal from a position on, if seat 0 plays `first` and seat 1 `second`."""
    if history in ENDINGS:
        one, other = payoffs(cards, history)
        return Fraction(one), Fraction(other)
    seat = len(history) % 2
    bet = (first, second)[seat][cards[seat], history]
    after_bet = expected_payoffs(cards, history + "b", first, second, payoffs)
    after_pass = expected_payoffs(cards, history + "p", first, second, payoffs)
    one, other = (bet * b + (1 - bet) * p for b, p in zip(after_bet, after_pass, strict=True))
    return one, other


def expected_payoff(seat: int, card: int, history: str, policy: Policy, payoffs: Payoffs = chips_won) -> Fraction:
    """Expected payoff of a seat that knows its own card only, if both seats play one policy from a position on.

    The other player holds each of the other two cards with probability 1/2: no conclusions are drawn from its actions.
    """
    deals = [cards for cards in permutations(CARDS, 2) if cards[seat] == card]
    found = (expected_payoffs(cards, history, policy, policy, payoffs)[seat] for cards in deals)
    return sum(found, Fraction(0)) / len(deals)


def value(first: Policy, second: Policy) -> Fraction:
    """Expected chips of seat 0 per hand, if seat 0 plays `first` and seat 1 plays `second`."""
    deals = list(permutations(CARDS, 2))
    return sum((expected_payoffs(cards, "", first, second)[0] for cards in deals), Fraction(0)) / len(deals)


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
