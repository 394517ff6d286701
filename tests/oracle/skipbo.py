"""Skip-Bo, written down as plainly as possible: the reference against which the fast implementation is tested.

It follows the pinned rules and the reference page of the game (docs/games/skipbo.md) and shares no code with the
implementation that it checks. Cards are 1 to 12 and WILD; every pile is a list whose last element is its top.
Everything that happens is a pure function of the rules, the number of players, (seed, deal, episode) and the actions.

    game = Skipbo(make_rules("official"), num_players=3, seed=1)
    while not game.done:
        game.step(random.choice(game.legal()))
    print(game.scores, game.ranks())
"""

from __future__ import annotations

from typing import Any

from tests.oracle.randomness import Random, game_key

WILD = 13
CARDS = [*range(1, 13), WILD]
PASS = 60
TURN_PHASE, STUCK_PHASE = 0, 1
HIDDEN = 14
LARGEST_SIZE = 80

RULES: dict[str, Any] = {
    "stock": 0,
    "starter": "seat_0",
    "extras": True,
    "deck": [12] * 12 + [18],
    "max_decisions": 5000,
    "round_reward": 0.0,
    "time_penalty": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {"official": {}}


def make_rules(preset: str = "official", **overrides: Any) -> dict[str, Any]:
    """The complete rules: the defaults, changed by the named rule set, changed by the overrides."""
    rules = {**RULES, **PRESETS[preset], **overrides}
    unknown = set(rules) - set(RULES)
    if unknown:
        raise ValueError(f"unknown rules {unknown}")
    return rules


def play_action(source: str, pile: int) -> int:
    """The action of playing from "stock", "hand 0" to "hand 4" or "discard 0" to "discard 3" onto a building pile."""
    sources = ["stock", *(f"hand {i}" for i in range(5)), *(f"discard {i}" for i in range(4))]
    return sources.index(source) * 4 + pile


def discard_action(place: int, pile: int) -> int:
    """The action of putting a card of the hand onto a discard pile."""
    return 40 + place * 4 + pile


class Skipbo:
    """One game of Skip-Bo."""

    def __init__(self, rules: dict[str, Any], num_players: int, seed: int, deal: int = 0, episode: int = 0) -> None:
        """Deal the stocks; the starter draws."""
        self.rules = make_rules(**rules)
        if not 2 <= num_players <= 6:
            raise ValueError("Skip-Bo is for 2 to 6 players")
        self.num_players = num_players
        self.seats = range(num_players)
        self.random = Random(game_key(seed, deal, episode))

        stock_cards = self.rules["stock"] or (30 if num_players <= 4 else 20)
        self.draw_pile = [card for card, copies in zip(CARDS, self.rules["deck"], strict=True) for _ in range(copies)]
        if len(self.draw_pile) < num_players * stock_cards + 5:
            raise ValueError("too few cards")
        self.stocks = [[self.random.take_from(self.draw_pile) for _ in range(stock_cards)] for _ in self.seats]
        self.hands: list[list[int]] = [[] for _ in self.seats]
        self.discards: list[list[list[int]]] = [[[], [], [], []] for _ in self.seats]
        self.building: list[list[int]] = [[], [], [], []]
        self.aside: list[int] = []

        self.scores = [0] * num_players
        self.rewards = [0.0] * num_players
        self.turns = [0] * num_players
        self.decisions = 0
        self.completed = 0
        self.reshuffles = 0
        self.idle_turns = 0  # finished turns in a row without a draw, a play or a discard
        self.idle_now = True  # whether nothing has happened in the present turn
        self.winner = -1
        self.deadlock = False
        self.done = False
        self.truncated = False

        self.uncovered = 0  # stock card that the last decision uncovered, 0 for none
        self.drawn: dict[int, list[int]] = {}  # cards that the last decision made each seat draw

        self.starter = 0
        if self.rules["starter"] == "random":
            self.starter = (self.random.at(2**56) * num_players) >> 64
        self.to_play = self.starter
        self.phase = TURN_PHASE
        self.begin_turn(self.starter)
        self.drawn = {}

    # ------------------------------------------------------------------------------------------ possible actions

    def fits(self, card: int, pile: int) -> bool:
        """Whether a building pile takes a card."""
        return card == WILD or card == len(self.building[pile]) + 1

    def sources(self, seat: int) -> dict[int, int]:
        """Cards that a seat may play, by the number of their source."""
        cards = {0: self.stocks[seat][-1]} if self.stocks[seat] else {}
        cards |= {1 + place: card for place, card in enumerate(self.hands[seat])}
        return cards | {6 + i: pile[-1] for i, pile in enumerate(self.discards[seat]) if pile}

    def legal(self) -> list[int]:
        """The legal actions, in ascending order; none when the game is over."""
        if self.done:
            return []
        hand = self.hands[self.to_play]
        repeated = [place for place, card in enumerate(hand) if card in hand[:place]]
        empty = [pile for pile in range(4) if not self.building[pile]]
        actions = [
            source * 4 + pile
            for source, card in self.sources(self.to_play).items()
            for pile in range(4)
            if self.fits(card, pile) and source - 1 not in repeated and pile not in empty[1:]
        ]
        actions += [
            discard_action(place, pile) for place in range(len(hand)) if place not in repeated for pile in range(4)
        ]
        return sorted(actions) or [PASS]

    # ----------------------------------------------------------------------------------------------- decisions

    def step(self, action: int) -> None:
        """Carry out one decision, with everything that follows from it."""
        if action not in self.legal():
            raise ValueError(f"action {action!r} is not legal")
        actor, phase = self.to_play, self.phase
        self.decisions += 1
        self.rewards = [0.0] * self.num_players
        self.rewards[actor] -= self.rules["time_penalty"]
        self.uncovered, self.drawn = 0, {}

        if action == PASS:
            self.idle_turns = self.idle_turns + 1 if self.idle_now else 0
            if self.idle_turns == self.num_players:
                self.done = self.deadlock = True
            else:
                self.begin_turn((actor + 1) % self.num_players)
        elif action >= 40:
            place, pile = divmod(action - 40, 4)
            self.discards[actor][pile].append(self.hands[actor].pop(place))
            self.idle_turns = 0
            self.begin_turn((actor + 1) % self.num_players)
        else:
            self.play(actor, *divmod(action, 4))

        if not self.done and self.decisions >= self.rules["max_decisions"]:
            self.done = self.truncated = True
            self.scores = [len(stock) for stock in self.stocks]
        if self.done:
            self.to_play, self.phase = actor, phase
        else:
            self.phase = STUCK_PHASE if self.legal() == [PASS] else TURN_PHASE

    def play(self, seat: int, source: int, pile: int) -> None:
        """Put a card onto a building pile."""
        if source == 0:
            card = self.stocks[seat].pop()
            self.uncovered = self.stocks[seat][-1] if self.stocks[seat] else 0
            for other in self.seats:
                share = 1 if other == seat else -1 / (self.num_players - 1)
                self.rewards[other] += self.rules["round_reward"] * share / 100
        elif source <= 5:
            card = self.hands[seat].pop(source - 1)
        else:
            card = self.discards[seat][source - 6].pop()
        self.building[pile].append(card)
        self.idle_now = False
        if len(self.building[pile]) == 12:
            self.aside += self.building[pile]
            self.building[pile] = []
            self.completed += 1
        if not self.stocks[seat]:
            self.win(seat)
        elif not self.hands[seat]:
            self.refill(seat)

    def begin_turn(self, seat: int) -> None:
        """Begin a turn by drawing."""
        self.to_play = seat
        self.turns[seat] += 1
        self.idle_now = True
        self.refill(seat)

    def refill(self, seat: int) -> None:
        """Draw up to five cards, as long as there are any."""
        while len(self.hands[seat]) < 5:
            if not self.draw_pile:
                if not self.aside:
                    return
                self.draw_pile, self.aside = self.aside, []
                self.reshuffles += 1
            self.hands[seat].append(self.random.take_from(self.draw_pile))
            self.drawn.setdefault(seat, []).append(self.hands[seat][-1])
            self.idle_now = False

    def win(self, seat: int) -> None:
        """End the game: the stock of a seat is gone."""
        self.done = True
        self.winner = seat
        self.scores = [len(stock) for stock in self.stocks]
        self.rewards = [reward + (1 if other == seat else -1) for other, reward in enumerate(self.rewards)]

    def ranks(self) -> list[int]:
        """Rank of every seat: 1 + the number of seats with a strictly lower score."""
        return [1 + sum(other < own for other in self.scores) for own in self.scores]

    # --------------------------------------------------------------------------------------- observation

    def unseen_counts(self, seat: int) -> list[list[int]]:
        """Number of cards of each kind that a hidden card, and the next card to be drawn, may be."""
        hidden = list(self.draw_pile)
        for other in self.seats:
            hidden += self.stocks[other][:-1]
            if other != seat:
                hidden += self.hands[other]
        upcoming = hidden if self.draw_pile else self.aside
        return [[cards.count(card) for card in CARDS] for cards in (hidden, upcoming)]

    def outcome(self, seat: int) -> int:
        """Stock card that the last decision uncovered, which everybody sees; 0 for none."""
        return self.uncovered

    def odds(self, seat: int, action: int) -> list[float]:
        """Probabilities of the outcomes that an action would have for a seat that draws no conclusions."""
        hidden = self.unseen_counts(seat)[0]
        if action >= 4 or len(self.stocks[self.to_play]) == 1:
            return [1.0] + [0.0] * len(CARDS)
        return [count / sum(hidden) for count in [0, *hidden]]

    def draws(self, seat: int) -> list[int]:
        """Cards that the last decision made a seat draw, and zeros up to five numbers."""
        cards = self.drawn.get(seat, [])
        return cards + [0] * (5 - len(cards))

    def true_cards(self, seat: int) -> list[int]:
        """Cards in the hands of others, in their slots; 0 in all other slots."""
        row = []
        for r in self.seats:
            hand = self.hands[(seat + r) % self.num_players] if r else []
            row += [0, *hand, *[0] * (5 - len(hand)), *[0] * 8]
        return row

    def observe_board(self, seat: int, r: int) -> list[list[int]]:
        """The slots of a player's board, as the player r seats before sees them."""
        extras = self.rules["extras"]
        seen = r == 0 or extras
        stock, hand = self.stocks[seat], self.hands[seat]
        top = stock[-1] if stock else 0
        tokens = [[r, 0, 0, top if seen else HIDDEN, 0, len(stock) if extras else 0]]
        for place in range(5):
            card = hand[place] if place < len(hand) else 0
            if r > 0 and (card or not extras):
                card = HIDDEN
            tokens.append([r, 1, place, card, 0, 0])
        for i, pile in enumerate(self.discards[seat]):
            top, under = [0, 0, *pile][:-3:-1]
            size = min(len(pile), LARGEST_SIZE)
            tokens.append([r, 2, i, top if seen else HIDDEN, under if extras else 0, size if extras else 0])
        tokens += [[r, 3, i, len(pile), 0, 0] for i, pile in enumerate(self.building)]
        return tokens

    def observe(self, seat: int, counts: bool = True) -> list[int]:
        """Observation of a seat as one flat row."""
        around = [(seat + r) % self.num_players for r in self.seats]
        extras = self.rules["extras"]
        row = []
        for r, other in enumerate(around):
            for token in self.observe_board(other, r):
                row += token
        for r, other in enumerate(around):
            row += [r, len(self.hands[other]) if r == 0 or extras else 0, len(self.stocks[other]) if extras else 0]
        row += [
            len(self.draw_pile) if extras else 0,
            len(self.aside) if extras else 0,
            min(self.decisions // 8, 63),
            around.index(self.to_play),
            int(self.reshuffles > 0),
            self.num_players - 2,
        ]
        row += [self.phase]
        if counts:
            for token in self.unseen_counts(seat):
                row += token
        return row
