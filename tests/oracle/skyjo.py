"""Skyjo, written down as plainly as possible: the reference against which the fast implementation is tested.

It follows the pinned rules and the reference page of the game (docs/games/skyjo.md) and shares no code with
the implementation that it checks. Cards are their real values (-2 to 12), a cleared place of a grid is None,
and the top of the discard pile is the last element of its list. Everything that happens is a pure function of
the rules, the number of players, (seed, deal, episode) and the actions.

    game = Skyjo(make_rules("official"), num_players=3, seed=1)
    while not game.done:
        game.step(random.choice(game.legal()))
    print(game.scores, game.ranks())
"""

from __future__ import annotations

from typing import Any

from tests.oracle.randomness import Random, game_key

# ---------------------------------------------------------------------------------------------- vocabulary

LOWEST, HIGHEST = -2, 12
VALUES = range(LOWEST, HIGHEST + 1)
POSITIONS = range(12)
COLUMNS = [(0, 4, 8), (1, 5, 9), (2, 6, 10), (3, 7, 11)]

DECK, TAKE, KEEP, DISCARD = 0, 1, 2, 3
FIRST_POSITION = 4  # the action for position p is FIRST_POSITION + p

SOURCE_PHASE, KEEP_PHASE, POSITION_PHASE, SETUP_PHASE, CLEAR_PHASE = 0, 1, 2, 3, 4

NOWHERE, FROM_DECK, FROM_DISCARD = 0, 1, 2  # sources of the card in hand

HISTORY_LENGTH = 16
(
    DID_DRAW,
    DID_TAKE,
    DID_KEEP,
    DID_DISCARD,
    DID_REPLACE,
    DID_TURN_OVER,
    DID_SETUP_REVEAL,
    DID_CLEAR_COLUMN,
    DID_KEEP_COLUMN,
) = range(1, 10)

Card = int
HistoryEntry = tuple[int, int, int, int, int, int]  # actor seat, kind, position, card, card out, source


def code(card: Card | None) -> int:
    """A card as observations show it: 1 to 15, and 0 for no card."""
    return 0 if card is None else card + 3


# --------------------------------------------------------------------------------------------------- rules

RULES: dict[str, Any] = {
    "setup": "random",
    "initial_reveals": 2,
    "ender_penalty": "strict_lowest_required",
    "penalty_on_nonpositive": False,
    "cleared_cards": "discard_pile",
    "clear_on_final_reveal": True,
    "clearing": "automatic",
    "next_starter": "ender",
    "first_starter": "by_rule",
    "episode": "match",
    "target": 100,
    "initial_scores": "zero",
    "deck": [5, 10, 15] + [10] * 12,
    "max_decisions": 5000,
    "round_reward": 0.0,
    "time_penalty": 0.0,
}

_SUMMARY: dict[str, Any] = {
    "cleared_cards": "out_of_play",
    "penalty_on_nonpositive": True,
    "clear_on_final_reveal": False,
    "next_starter": "highest_sum",
}

PRESETS: dict[str, dict[str, Any]] = {
    "official": {},
    "summary": dict(_SUMMARY),
    "skynet": dict(_SUMMARY),
    "reichel": {
        "episode": "round",
        "ender_penalty": "off",
        "cleared_cards": "out_of_play",
        "clear_on_final_reveal": False,
        "next_starter": "seat_0",
        "max_decisions": 1500,
    },
}

USUAL_POINTS = (0, 2, 4, 5, 6, 8, 9, 11, 12, 14, 16, 18, 21, 24, 28, 36)  # of a round, for initial_scores="played"

_CHOICES: dict[str, tuple[str, ...]] = {
    "setup": ("random", "chosen"),
    "ender_penalty": ("strict_lowest_required", "off"),
    "cleared_cards": ("discard_pile", "out_of_play"),
    "clearing": ("automatic", "voluntary"),
    "next_starter": ("ender", "highest_sum", "seat_0"),
    "first_starter": ("by_rule", "random"),
    "episode": ("match", "round"),
    "initial_scores": ("zero", "uniform", "played"),
}
_FLAGS = ("penalty_on_nonpositive", "clear_on_final_reveal")
_WHOLE_NUMBERS = {"initial_reveals": (0, 11), "target": (1, 1000), "max_decisions": (0, 1_000_000)}
_NUMBERS = {"round_reward": (-10.0, 10.0), "time_penalty": (0.0, 1.0)}


def make_rules(preset: str = "official", **overrides: Any) -> dict[str, Any]:
    """The complete rules: the defaults, changed by the named rule set, changed by the overrides."""
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}")
    rules = {**RULES, **PRESETS[preset], **overrides}
    for name, value in rules.items():
        if name not in RULES:
            raise ValueError(f"unknown rule {name!r}")
        if not _is_valid(name, value):
            raise ValueError(f"bad value for {name}: {value!r}")
    if rules["clearing"] == "voluntary" and rules["initial_reveals"] > 2:
        raise ValueError("clearing=voluntary allows at most 2 initial_reveals")
    rules["deck"] = list(rules["deck"])
    return rules


def _is_valid(name: str, value: Any) -> bool:
    if name in _CHOICES:
        return isinstance(value, str) and value in _CHOICES[name]
    if name in _FLAGS:
        return isinstance(value, bool)
    if name in _WHOLE_NUMBERS:
        low, high = _WHOLE_NUMBERS[name]
        return _is_whole(value) and low <= value <= high
    if name in _NUMBERS:
        least, most = _NUMBERS[name]
        return (_is_whole(value) or isinstance(value, float)) and least <= value <= most
    assert name == "deck"
    if not isinstance(value, (list, tuple)) or len(value) != len(VALUES):
        return False
    return all(_is_whole(count) and 0 <= count <= 31 for count in value) and sum(value) <= 160


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ---------------------------------------------------------------------------------------------------- game


class Skyjo:
    """One episode of Skyjo."""

    def __init__(self, rules: dict[str, Any], num_players: int, seed: int, deal: int = 0, episode: int = 0) -> None:
        """Deal the first round."""
        self.rules = make_rules(**rules)
        if not 2 <= num_players <= 8:
            raise ValueError("Skyjo is for 2 to 8 players")
        if sum(self.rules["deck"]) < 12 * num_players + 2:
            raise ValueError("the deck is too small for this many players")
        self.num_players = num_players
        self.seats = range(num_players)
        self.random = Random(game_key(seed, deal, episode))

        # State of the episode.
        self.scores = self.initial_scores()
        self.last_round_scores = [0] * num_players
        self.rewards = [0.0] * num_players
        self.columns_cleared = [0] * num_players
        self.decisions = 0
        self.turns = 0
        self.done = False
        self.truncated = False

        self.drawn: Card | None = None  # card that the last decision drew, and who drew it
        self.drawer = -1
        self.uncovered: Card | None = None  # face-down card that the last decision showed

        # State of the round; deal_round() fills all of it in.
        self.round = 0
        self.previous_ender = -1
        self.ender = -1
        self.starter = -1
        self.boards: list[list[Card | None]] = []
        self.face_up: list[list[bool]] = []
        self.draw_pile: list[Card] = []
        self.discard_pile: list[Card] = []
        self.out_of_play: list[Card] = []
        self.reshuffled = False
        self.round_decisions = 0
        self.setup_reveals_left = 0
        self.history: list[HistoryEntry] = []

        # State of the turn.
        self.to_play = 0
        self.phase = SOURCE_PHASE
        self.hand: Card | None = None
        self.hand_source = NOWHERE
        self.clear_column = -1

        self.deal_round(0)

    # ---------------------------------------------------------------------------------- start of a round

    def initial_scores(self) -> list[int]:
        """The totals with which an episode begins."""
        if self.rules["initial_scores"] == "zero":
            return [0] * self.num_players
        if self.rules["initial_scores"] == "played":
            return self.standing_of_a_match()
        return [(self.random.at(2**56 + seat) * int(self.rules["target"])) >> 64 for seat in self.seats]

    def standing_of_a_match(self) -> list[int]:
        """The totals before a round of an imagined match."""
        counter, totals, kept = 2**56, [0] * self.num_players, [0] * self.num_players
        for n in range(1, 65):
            if max(totals) >= int(self.rules["target"]):
                break
            if self.random.at(counter) * n >> 64 == 0:
                kept = list(totals)
            counter += 1
            for seat in self.seats:
                totals[seat] += USUAL_POINTS[self.random.at(counter) * 16 >> 64]
                counter += 1
        return kept

    def deal_round(self, index: int) -> None:
        """Shuffle everything, deal twelve cards each, open the discard pile and reveal the first cards."""
        self.round = index
        self.random.counter = index * 2**32
        self.previous_ender = self.ender
        self.ender = -1
        self.starter = -1
        self.reshuffled = False
        self.round_decisions = 0
        self.history = []
        self.hand = None
        self.hand_source = NOWHERE
        self.clear_column = -1

        self.out_of_play = []
        self.draw_pile = [value for value, count in zip(VALUES, self.rules["deck"], strict=True) for _ in range(count)]
        self.boards = [[self.random.take_from(self.draw_pile) for _ in POSITIONS] for _ in self.seats]
        self.face_up = [[False for _ in POSITIONS] for _ in self.seats]
        self.discard_pile = [self.random.take_from(self.draw_pile)]

        self.setup_reveals_left = 0
        if self.rules["setup"] == "random":
            self.reveal_at_random()
        else:
            self.setup_reveals_left = self.rules["initial_reveals"] * self.num_players

        if self.setup_reveals_left > 0:
            self.to_play = 0
            self.phase = SETUP_PHASE
        else:
            self.begin_play()

    def reveal_at_random(self) -> None:
        """Reveal the first cards of every player at random."""
        for seat in self.seats:
            hidden = list(POSITIONS)
            for _ in range(self.rules["initial_reveals"]):
                self.reveal(seat, self.random.take_from(hidden))
                self.clear_columns(seat)

    def begin_play(self) -> None:
        """Begin the starter's first turn after the setup."""
        self.starter = self.choose_starter()
        self.to_play = self.starter
        self.phase = SOURCE_PHASE

    def choose_starter(self) -> int:
        """Seat that starts this round."""
        if self.round == 0 and self.rules["first_starter"] == "random":
            return (self.random.at(2**57) * self.num_players) >> 64
        if self.rules["next_starter"] == "seat_0":
            return 0
        if self.rules["next_starter"] == "ender" and self.previous_ender >= 0:
            return self.previous_ender
        sums = [self.face_up_sum(seat) for seat in self.seats]
        return sums.index(max(sums))  # the lowest seat of those with the highest sum

    # ------------------------------------------------------------------------------------------ the grid

    def card_at(self, seat: int, position: int) -> Card:
        """The card at a position that is not cleared."""
        card = self.boards[seat][position]
        assert card is not None
        return card

    def remaining(self, seat: int) -> list[int]:
        """The positions whose cards are still in the grid."""
        return [p for p in POSITIONS if self.boards[seat][p] is not None]

    def face_down(self, seat: int) -> list[int]:
        """The positions of the face-down cards."""
        return [p for p in self.remaining(seat) if not self.face_up[seat][p]]

    def face_up_sum(self, seat: int) -> int:
        """The sum of the face-up cards in a grid."""
        return sum(self.card_at(seat, p) for p in self.remaining(seat) if self.face_up[seat][p])

    def reveal(self, seat: int, position: int) -> None:
        """Turn a card face up."""
        self.face_up[seat][position] = True

    def is_complete(self, seat: int, column: int) -> bool:
        """Whether a column is three face-up cards of the same value."""
        places = COLUMNS[column]
        cards = [self.boards[seat][p] for p in places]
        all_face_up = all(self.face_up[seat][p] for p in places)
        return all_face_up and cards[0] is not None and cards[0] == cards[1] == cards[2]

    def complete_columns(self, seat: int) -> list[int]:
        """The complete columns, from the left."""
        return [column for column in range(len(COLUMNS)) if self.is_complete(seat, column)]

    def clear(self, seat: int, column: int) -> None:
        """Remove a column from a grid."""
        destination = self.discard_pile if self.rules["cleared_cards"] == "discard_pile" else self.out_of_play
        for position in COLUMNS[column]:
            destination.append(self.card_at(seat, position))
            self.boards[seat][position] = None
            self.face_up[seat][position] = False
        self.columns_cleared[seat] += 1

    def clear_columns(self, seat: int) -> None:
        """Remove every complete column from a grid."""
        for column in self.complete_columns(seat):
            self.clear(seat, column)

    # ----------------------------------------------------------------------------------------- decisions

    def legal(self) -> list[int]:
        """The legal actions, in ascending order; none when the episode is over."""
        if self.done:
            return []
        if self.phase == SOURCE_PHASE:
            # The discard pile is not empty here, and both piles together have two cards or more: a turn takes
            # one card from them and gives one back, and clearing a column takes none from them.
            return [DECK, TAKE]
        if self.phase in (KEEP_PHASE, CLEAR_PHASE):
            return [KEEP, DISCARD]
        if self.phase == POSITION_PHASE and self.hand is not None:
            return [FIRST_POSITION + p for p in self.remaining(self.to_play)]
        return [FIRST_POSITION + p for p in self.face_down(self.to_play)]

    def step(self, action: int) -> None:
        """Carry out one decision of the player on turn, with everything that follows from it."""
        if self.done:
            raise ValueError("the episode is over")
        if action not in self.legal():
            raise ValueError(f"action {action!r} is not legal in phase {self.phase}")
        actor, phase = self.to_play, self.phase

        self.rewards = [0.0] * self.num_players
        self.rewards[actor] -= self.rules["time_penalty"]
        self.decisions += 1
        self.round_decisions += 1
        self.drawn, self.drawer, self.uncovered = None, actor, None
        if action >= FIRST_POSITION and not self.face_up[actor][action - FIRST_POSITION]:
            self.uncovered = self.card_at(actor, action - FIRST_POSITION)

        if phase == SOURCE_PHASE:
            self.decide_source(action)
        elif phase == KEEP_PHASE:
            self.decide_keep(action)
        elif phase == POSITION_PHASE:
            self.decide_position(action - FIRST_POSITION)
        elif phase == SETUP_PHASE:
            self.decide_setup(action - FIRST_POSITION)
        else:
            self.decide_clear(action)

        if not self.done and self.at_cap():
            self.truncate()
        if self.done:
            self.to_play, self.phase, self.clear_column = actor, phase, -1

    def decide_source(self, action: int) -> None:
        """Draw from the deck, or take the top of the discard pile."""
        if action == DECK:
            self.hand, self.hand_source = self.draw_card(), FROM_DECK
            self.drawn = self.hand
            self.phase = KEEP_PHASE
            self.record(DID_DRAW, source=FROM_DECK)
        else:
            self.hand, self.hand_source = self.discard_pile.pop(), FROM_DISCARD
            self.phase = POSITION_PHASE
            self.record(DID_TAKE, card=self.hand, source=FROM_DISCARD)

    def draw_card(self) -> Card:
        """Draw from the draw pile; if it is empty, the discard pile without its top becomes it first."""
        if not self.draw_pile:
            self.draw_pile = self.discard_pile[:-1]
            self.discard_pile = self.discard_pile[-1:]
            self.reshuffled = True
        return self.random.take_from(self.draw_pile)

    def decide_keep(self, action: int) -> None:
        """Keep the drawn card, or put it on the discard pile."""
        self.phase = POSITION_PHASE
        if action == KEEP:
            self.record(DID_KEEP, source=FROM_DECK)
        else:
            card = self.put_down_hand()
            self.discard_pile.append(card)
            self.record(DID_DISCARD, card_out=card, source=FROM_DECK)

    def put_down_hand(self) -> Card:
        """Remove the card from the hand and return it."""
        assert self.hand is not None
        card = self.hand
        self.hand, self.hand_source = None, NOWHERE
        return card

    def decide_position(self, position: int) -> None:
        """Replace a card by the one in hand, or turn over a card after the drawn one was discarded."""
        seat = self.to_play
        old = self.card_at(seat, position)
        if self.hand is None:
            self.reveal(seat, position)
            self.record(DID_TURN_OVER, position=1 + position, card=old)
        else:
            source = self.hand_source
            new = self.put_down_hand()
            self.boards[seat][position] = new
            self.reveal(seat, position)
            self.discard_pile.append(old)
            self.record(DID_REPLACE, position=1 + position, card=new, card_out=old, source=source)

        if self.rules["clearing"] == "automatic":
            self.clear_columns(seat)
            self.end_turn()
        else:
            self.offer_column(first=0)

    def offer_column(self, first: int) -> None:
        """Offer the leftmost complete column from column `first` on; if there is none the turn ends."""
        offered = [column for column in self.complete_columns(self.to_play) if column >= first]
        if offered:
            self.phase = CLEAR_PHASE
            self.clear_column = offered[0]
        else:
            self.clear_column = -1
            self.end_turn()

    def decide_clear(self, action: int) -> None:
        """Keep or discard the complete column that is offered."""
        column = self.clear_column
        value = self.card_at(self.to_play, COLUMNS[column][0])
        if action == KEEP:
            self.record(DID_KEEP_COLUMN, position=1 + column, card=value)
        else:
            self.clear(self.to_play, column)
            self.record(DID_CLEAR_COLUMN, position=1 + column, card_out=value)
        self.offer_column(first=column + 1)

    def decide_setup(self, position: int) -> None:
        """Reveal one of the first cards; seat 0 reveals all of its cards, then seat 1, and so on."""
        seat = self.to_play
        self.reveal(seat, position)
        self.record(DID_SETUP_REVEAL, position=1 + position, card=self.card_at(seat, position))
        self.clear_columns(seat)
        self.setup_reveals_left -= 1
        if self.setup_reveals_left == 0:
            self.begin_play()
        elif self.setup_reveals_left % self.rules["initial_reveals"] == 0:
            self.to_play += 1

    def record(
        self,
        kind: int,
        position: int = 0,
        card: Card | None = None,
        card_out: Card | None = None,
        source: int = NOWHERE,
    ) -> None:
        """Put a decision at the head of the round's history."""
        self.history.insert(0, (self.to_play, kind, position, code(card), code(card_out), source))
        del self.history[HISTORY_LENGTH:]

    # ------------------------------------------------------------------- end of a turn, round and episode

    def end_turn(self) -> None:
        """End a turn: the next player's turn begins, unless the round is over."""
        self.turns += 1
        if self.ender < 0 and not self.face_down(self.to_play):
            self.ender = self.to_play
        following = (self.to_play + 1) % self.num_players
        if following == self.ender:
            self.end_round()
        else:
            self.to_play = following
            self.phase = SOURCE_PHASE

    def end_round(self) -> None:
        """Score the round; then the episode is over or the next round is dealt."""
        self.score_round(with_penalty=True)
        self.pay_round()
        if self.rules["episode"] == "round" or max(self.scores) >= self.rules["target"]:
            self.done = True
            self.pay_winners()
        elif self.at_cap():
            self.done = self.truncated = True
        else:
            self.deal_round(self.round + 1)

    def at_cap(self) -> bool:
        """Whether the episode has had all the decisions it may have."""
        return 0 < self.rules["max_decisions"] <= self.decisions

    def truncate(self) -> None:
        """End the episode at the cap on decisions: the round is scored as it lies."""
        self.score_round(with_penalty=False)
        self.done = True
        self.truncated = True

    def score_round(self, with_penalty: bool) -> None:
        """Turn everything over, take the sums and add them to the totals."""
        for seat in self.seats:
            for position in self.face_down(seat):
                self.reveal(seat, position)
        if self.rules["clear_on_final_reveal"]:
            for seat in self.seats:
                self.clear_at_final_reveal(seat)
        sums = [self.face_up_sum(seat) for seat in self.seats]
        if with_penalty and self.is_penalized(sums):
            sums[self.ender] *= 2
        self.last_round_scores = sums
        self.scores = [total + points for total, points in zip(self.scores, sums, strict=True)]

    def clear_at_final_reveal(self, seat: int) -> None:
        """Clear the complete columns; where clearing is voluntary, only those that are better gone."""
        for column in self.complete_columns(seat):
            value = self.card_at(seat, COLUMNS[column][0])
            if self.rules["clearing"] == "automatic" or value > 0:
                self.clear(seat, column)

    def is_penalized(self, sums: list[int]) -> bool:
        """Whether the ender's sum is doubled."""
        if self.rules["ender_penalty"] == "off":
            return False
        own = sums[self.ender]
        strictly_lowest = all(own < sums[seat] for seat in self.seats if seat != self.ender)
        return not strictly_lowest and (own > 0 or self.rules["penalty_on_nonpositive"])

    def pay_round(self) -> None:
        """Pay the reward at a round's end: points by which a seat is better than the mean of the others."""
        total = sum(self.last_round_scores)
        for seat in self.seats:
            own = self.last_round_scores[seat]
            mean_of_others = (total - own) / (self.num_players - 1)
            self.rewards[seat] += self.rules["round_reward"] * (mean_of_others - own) / 100

    def pay_winners(self) -> None:
        """Pay the reward at the episode's end: each of k winners gets 2 / k - 1, everybody else -1."""
        winners = [seat for seat in self.seats if self.scores[seat] == min(self.scores)]
        for seat in self.seats:
            self.rewards[seat] += 2 / len(winners) - 1 if seat in winners else -1.0

    def ranks(self) -> list[int]:
        """Rank of every seat: 1 + the number of seats with a strictly lower total."""
        return [1 + sum(other < own for other in self.scores) for own in self.scores]

    # --------------------------------------------------------------------------------------- observation

    def sees_hand(self, seat: int) -> bool:
        """Whether a seat can see the card in hand (if there is one)."""
        return seat == self.to_play or self.hand_source == FROM_DISCARD

    def unseen_counts(self, seat: int) -> list[list[int]]:
        """Number of cards of each value that a face-down card, and the next deck card, may be."""
        face_down = [self.card_at(s, p) for s in self.seats for p in self.face_down(s)]
        hidden_hand = [] if self.hand is None or self.sees_hand(seat) else [self.hand]
        if self.reshuffled:
            for_grid = face_down
            for_deck = self.draw_pile + hidden_hand
        else:
            for_grid = self.draw_pile + face_down + hidden_hand
            for_deck = for_grid
        if not self.draw_pile and not hidden_hand:
            for_deck = self.discard_pile[:-1]
        return [[cards.count(value) for value in VALUES] for cards in (for_grid, for_deck)]

    def outcome(self, seat: int) -> int:
        """Code of the card that the last decision showed to a seat; 0 for none."""
        return code(self.drawn if self.drawn is not None and seat == self.drawer else self.uncovered)

    def odds(self, seat: int, action: int) -> list[float]:
        """Probabilities of the outcomes that an action would have for a seat."""
        face_down, upcoming = self.unseen_counts(seat)
        counts = [0] * len(VALUES)
        if action == DECK and seat == self.to_play:
            counts = upcoming
        elif action >= FIRST_POSITION and action - FIRST_POSITION in self.face_down(self.to_play):
            counts = face_down
        return [count / sum(counts) for count in [0, *counts]] if any(counts) else [1.0] + [0.0] * len(VALUES)

    def draws(self, seat: int) -> list[int]:
        """Cards that entered a hand together: none, they are drawn one by one."""
        return []

    def true_cards(self, seat: int) -> list[int]:
        """Codes of the face-down cards of all seats, 0 for other positions."""
        places = [(s, p) for s in self.from_observer(seat) for p in POSITIONS]
        return [code(self.boards[s][p]) if p in self.face_down(s) else 0 for s, p in places]

    def observe(self, seat: int, counts: bool = True) -> list[int]:
        """Observation of a seat as one flat row."""
        row = self.observe_boards(seat)
        row += [code(self.discard_pile[-1]) if self.discard_pile else 0, len(self.discard_pile)]
        row += self.observe_global(seat)
        row += self.observe_scores(seat)
        row += self.observe_history(seat)
        row += self.observe_decision(seat)
        if counts:
            for token in self.unseen_counts(seat):
                row += token
        return row

    def relative(self, seat: int, observer: int) -> int:
        """A seat as the observer counts: 0 is the observer, 1 the next to play, and so on."""
        return (seat - observer) % self.num_players

    def from_observer(self, observer: int) -> list[int]:
        """All seats in seating order, the observer first."""
        return [(observer + r) % self.num_players for r in self.seats]

    def observe_boards(self, observer: int) -> list[int]:
        """Tokens of the boards: owner, position, visibility, value of every place."""
        row = []
        for r, seat in enumerate(self.from_observer(observer)):
            for position in POSITIONS:
                card = self.boards[seat][position]
                if card is None:
                    row += [r, position, 2, 0]
                elif self.face_up[seat][position]:
                    row += [r, position, 1, code(card)]
                else:
                    row += [r, position, 0, 0]
        return row

    def observe_global(self, observer: int) -> list[int]:
        """Facts that are common to the whole table."""
        fewest = min(len(self.face_down(seat)) for seat in self.seats)
        ender_known = self.ender >= 0
        return [
            len(self.draw_pile),
            min(self.round_decisions // 8, 63),
            self.relative(self.to_play, observer),
            self.phase,
            0 if fewest >= 8 else 1 if fewest >= 4 else 2,
            min(self.round, 31),
            1 if ender_known else 0,
            1 + self.relative(self.ender, observer) if ender_known else 0,
            1 if self.reshuffled else 0,
            self.num_players - 2,
        ]

    def observe_scores(self, observer: int) -> list[int]:
        """Tokens of the scores: owner, to_go of every seat."""
        row = []
        for r, seat in enumerate(self.from_observer(observer)):
            row += [r, max(0, min(255, self.rules["target"] - self.scores[seat]))]
        return row

    def observe_history(self, observer: int) -> list[int]:
        """Tokens of the history: actor, kind, position, card, card_out, source of the latest decisions of the round."""
        row = []
        for actor, *rest in self.history:
            row += [1 + self.relative(actor, observer), *rest]
        row += [0] * (6 * (HISTORY_LENGTH - len(self.history)))
        return row

    def observe_decision(self, observer: int) -> list[int]:
        """Token of the decision: phase, hand, source, column of the decision at hand."""
        hand = code(self.hand)
        if self.hand is not None and not self.sees_hand(observer):
            hand = 16
        return [self.phase, hand, self.hand_source, 1 + self.clear_column]

    # --------------------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """Complete state as a copy."""
        return {
            "boards": [list(board) for board in self.boards],
            "face_up": [list(flags) for flags in self.face_up],
            "draw_pile": list(self.draw_pile),
            "discard_pile": list(self.discard_pile),
            "out_of_play": sorted(self.out_of_play),
            "hand": self.hand,
            "hand_source": self.hand_source,
            "to_play": self.to_play,
            "phase": self.phase,
            "ender": self.ender,
            "starter": self.starter,
            "scores": list(self.scores),
            "last_round_scores": list(self.last_round_scores),
            "round": self.round,
            "decisions": self.decisions,
            "round_decisions": self.round_decisions,
            "turns": self.turns,
            "columns_cleared": list(self.columns_cleared),
            "reshuffled": self.reshuffled,
            "history": list(self.history),
            "done": self.done,
            "truncated": self.truncated,
            "clear_column": self.clear_column,
        }
