"""Tables of the environment at chosen positions of Kuhn poker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations

import env
from tests.oracle.kuhn import CARDS, LETTERS, Kuhn

DECISIONS = ("", "p", "b", "pb")  # histories after which somebody decides
Position = tuple[tuple[int, int], str]  # cards of both seats, and the history

# All 24 positions at which somebody decides.
POSITIONS: tuple[Position, ...] = tuple((cards, history) for cards in permutations(CARDS, 2) for history in DECISIONS)


@cache
def deals_by_cards() -> dict[tuple[int, int], int]:
    """Hands of both seats -> the number of a deal of seed 0 that gives them, by the oracle; there are six."""
    found: dict[tuple[int, int], int] = {}
    for deal in range(64):
        found.setdefault(Kuhn({}, 2, 0, deal).hands, deal)
    return found


def tables_at(positions: Sequence[Position]) -> env.VecEnv:
    """One table per position, dealt and played up to it by the environment."""
    tables = env.make("kuhn", len(positions), auto_reset=False)
    tables.reset(deals=[deals_by_cards()[cards] for cards, _ in positions])
    for step in range(max(len(history) for _, history in positions)):
        letters = [history[step : step + 1] for _, history in positions]
        tables.step([LETTERS.index(letter) if letter else env.SKIP for letter in letters])
    for row, (cards, _) in enumerate(positions):
        assert tuple(tables.inspect(row)["hands"]) == cards
    return tables
