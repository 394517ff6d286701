"""Kuhn poker, written down as plainly as possible: the reference against which the fast implementation is tested.

It follows the rules as Kuhn's paper states them and the reference page of the game (docs/games/kuhn.md), and shares no
code with the implementation that it checks. Cards are 1 (jack), 2 (queen) and 3 (king); the history of a hand is a
string of p (pass) and b (bet). Everything is a pure function of the rules, (seed, deal, episode) and the actions.

    game = Kuhn(make_rules("official"), num_players=2, seed=1)
    while not game.done:
        game.step(random.choice(game.legal()))
    print(game.scores, game.ranks())
"""

from __future__ import annotations

from typing import Any

from tests.oracle.randomness import Random, game_key

JACK, QUEEN, KING = 1, 2, 3
CARDS = [JACK, QUEEN, KING]
HIDDEN = 4
PASS, BET = 0, 1
LETTERS = "pb"

# Finished hands: history -> the chips at stake, and the winner ("card" for the higher card).
ENDINGS: dict[str, tuple[int, int | str]] = {
    "pp": (1, "card"),
    "bp": (1, 0),
    "bb": (2, "card"),
    "pbp": (1, 1),
    "pbb": (2, "card"),
}

RULES: dict[str, Any] = {"max_decisions": 3, "round_reward": 1.0, "time_penalty": 0.0}


def make_rules(preset: str = "official", **overrides: Any) -> dict[str, Any]:
    """The complete rules: the defaults, changed by the overrides."""
    if preset != "official":
        raise ValueError(f"unknown preset {preset}")
    unknown = set(overrides) - set(RULES)
    if unknown:
        raise ValueError(f"unknown rules {unknown}")
    return {**RULES, **overrides}


def chips_won(cards: tuple[int, int], history: str) -> tuple[int, int]:
    """Chips that each seat wins in a finished hand; negative if it loses them."""
    stake, winner = ENDINGS[history]
    if winner == "card":
        winner = 0 if cards[0] > cards[1] else 1
    return (stake, -stake) if winner == 0 else (-stake, stake)


class Kuhn:
    """One hand of Kuhn poker."""

    def __init__(self, rules: dict[str, Any], num_players: int, seed: int, deal: int = 0, episode: int = 0) -> None:
        """Deal a card to each player."""
        if num_players != 2:
            raise ValueError("Kuhn poker is for 2 players")
        self.rules = make_rules(**rules)
        random = Random(game_key(seed, deal, episode))
        self.deck = list(CARDS)
        self.hands = (random.take_from(self.deck), random.take_from(self.deck))
        self.history = ""
        self.rewards = [0.0, 0.0]
        self.scores = [0, 0]
        self.done = False
        self.truncated = False
        self.last_seat = 0
        self.last_phase = 0

    @property
    def decisions(self) -> int:
        """Decisions made so far."""
        return len(self.history)

    @property
    def to_play(self) -> int:
        """The seat to move, or the last one that moved."""
        return self.last_seat if self.done else len(self.history) % 2

    @property
    def phase(self) -> int:
        """Phase: 1 after a bet, else 0; a finished hand keeps the phase of its last decision."""
        return self.last_phase if self.done else int(self.history.endswith("b"))

    @property
    def showdown(self) -> bool:
        """Whether the cards were compared."""
        return self.history in ENDINGS and ENDINGS[self.history][1] == "card"

    def paid(self, seat: int) -> int:
        """Chips that a seat has put into the pot."""
        return 1 + self.history[seat::2].count("b")

    def legal(self) -> list[int]:
        """The legal actions; none when the hand is over."""
        return [] if self.done else [PASS, BET]

    def step(self, action: int) -> None:
        """Carry out one decision."""
        if action not in self.legal():
            raise ValueError(f"action {action!r} is not legal")
        self.last_seat, self.last_phase = self.to_play, self.phase
        self.history += LETTERS[action]
        self.rewards = [0.0, 0.0]
        self.rewards[self.last_seat] -= self.rules["time_penalty"]
        if self.history in ENDINGS:
            self.done = True
            for seat, chips in enumerate(chips_won(self.hands, self.history)):
                self.scores[seat] = -chips
                self.rewards[seat] += self.rules["round_reward"] * chips / 2
        elif self.decisions >= self.rules["max_decisions"]:
            self.done = self.truncated = True

    def ranks(self) -> list[int]:
        """Ranks of both seats: 1 for the winner, 2 for the loser, 1 for both before the end."""
        return [1 + sum(other < own for other in self.scores) for own in self.scores]

    def moves(self) -> list[int]:
        """The three places of the history: 0 nothing yet, 1 passed, 2 bet."""
        return [1 + LETTERS.index(letter) for letter in self.history] + [0] * (3 - len(self.history))

    def unseen_counts(self, seat: int) -> list[list[int]]:
        """Number of cards of each kind that a hidden card may be."""
        seen = set(self.hands) if self.showdown else {self.hands[seat]}
        return [[int(card not in seen) for card in CARDS]]

    def outcome(self, seat: int) -> int:
        """Code of the card that the last decision showed: none, all cards are dealt before the first."""
        return 0

    def odds(self, seat: int, action: int) -> list[float]:
        """Probabilities of outcomes: certainly none."""
        return [1.0]

    def draws(self, seat: int) -> list[int]:
        """Cards that entered a hand together: none."""
        return []

    def true_cards(self, seat: int) -> list[int]:
        """Codes of hidden cards: there are no codes without chance events."""
        return [0, 0]

    def observe(self, seat: int, counts: bool = True) -> list[int]:
        """Observation of a seat as one flat row."""
        other = 1 - seat
        row = [0, self.hands[seat], 1, self.hands[other] if self.showdown else HIDDEN]
        row += [0, self.paid(seat), 1, self.paid(other)]
        row += [int(self.to_play != seat)]
        for place, move in enumerate(self.moves()):
            row += [0 if move == 0 else 1 + int(place % 2 != seat), move]
        row += [self.phase]
        return row + self.unseen_counts(seat)[0] if counts else row
