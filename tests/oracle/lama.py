"""L.A.M.A., written down as plainly as possible: the reference against which the fast implementation is tested.

It follows the pinned rules and the reference page of the game (docs/games/lama.md) and shares no code with the
implementation that it checks. Cards are 1 to 6 and LLAMA, hands are lists of cards, and the top of the pile is
the last element of its list. Everything that happens is a pure function of the rules, the number of players, (seed,
deal, episode) and the actions.

    game = Lama(make_rules("official"), num_players=3, seed=1)
    while not game.done:
        game.step(random.choice(game.legal()))
    print(game.scores, game.ranks())
"""

from __future__ import annotations

from typing import Any

from tests.oracle.randomness import Random, game_key

LLAMA = 7
CARDS = [1, 2, 3, 4, 5, 6, LLAMA]
DRAW, FOLD = 7, 8  # the action for playing a card is the card - 1
TURN_PHASE, ALONE_PHASE = 0, 1
DID_PLAY, DID_DRAW, DID_FOLD = 1, 2, 3
HISTORY_LENGTH = 16
HIDDEN = 17

RULES: dict[str, Any] = {
    "scoring": "distinct",
    "chip_return": True,
    "last_player": "plays_on",
    "next_starter": "last_mover",
    "nothing_to_draw": "no_draw",
    "episode": "match",
    "target": 40,
    "initial_scores": "zero",
    "deck": [8] * 7,
    "max_decisions": 5000,
    "round_reward": 0.0,
    "time_penalty": 0.0,
}

USUAL_POINTS = {  # of a hand at the end of a round, for initial_scores="played"
    "distinct": (0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 9, 10, 11, 15, 19),
    "all_cards": (0, 0, 0, 2, 3, 4, 4, 6, 6, 8, 10, 11, 13, 16, 20, 28),
}

PRESETS: dict[str, dict[str, Any]] = {
    "official": {},
    "report": {
        "scoring": "all_cards",
        "chip_return": False,
        "last_player": "stops",
        "next_starter": "seat_0",
        "nothing_to_draw": "abort",
    },
}


def make_rules(preset: str = "official", **overrides: Any) -> dict[str, Any]:
    """The complete rules: the defaults, changed by the named rule set, changed by the overrides."""
    rules = {**RULES, **PRESETS[preset], **overrides}
    unknown = set(rules) - set(RULES)
    if unknown:
        raise ValueError(f"unknown rules {unknown}")
    return rules


def value(card: int) -> int:
    """The points of a card."""
    return 10 if card == LLAMA else card


def fits(card: int, top: int) -> bool:
    """Whether a card may be played on another."""
    follower = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: LLAMA, LLAMA: 1}
    return card == top or card == follower[top]


class Lama:
    """One episode of L.A.M.A."""

    def __init__(self, rules: dict[str, Any], num_players: int, seed: int, deal: int = 0, episode: int = 0) -> None:
        """Deal the first round."""
        self.rules = make_rules(**rules)
        if not 2 <= num_players <= 8:
            raise ValueError("L.A.M.A. is for 2 to 8 players")
        self.num_players = num_players
        self.seats = range(num_players)
        self.random = Random(game_key(seed, deal, episode))

        # State of the episode.
        self.scores = [0] * num_players
        if self.rules["initial_scores"] == "uniform":
            self.scores = [(self.random.at(2**56 + seat) * int(self.rules["target"])) >> 64 for seat in self.seats]
        elif self.rules["initial_scores"] == "played":
            self.scores = self.standing_of_a_match()
        self.last_round_scores = [0] * num_players
        self.rewards = [0.0] * num_players
        self.rounds_won = [0] * num_players
        self.folds = [0] * num_players
        self.decisions = 0
        self.reshuffles = 0
        self.done = False
        self.truncated = False
        self.aborted = False
        self.drawn, self.drawer = 0, -1  # card that the last decision drew, 0 for none, and who drew it

        # State of the round; deal_round() fills all of it in.
        self.round = 0
        self.starter = 0
        self.deck: list[int] = []
        self.pile: list[int] = []
        self.hands: list[list[int]] = []
        self.folded: list[bool] = []
        self.reshuffled = False
        self.round_decisions = 0
        self.history: list[tuple[int, int, int, int]] = []  # entries: actor seat, kind, card, top before
        self.to_play = 0
        self.phase = TURN_PHASE

        self.deal_round(0, starter=0)

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
                points = USUAL_POINTS[self.rules["scoring"]][self.random.at(counter) * 16 >> 64]
                counter += 1
                if points == 0 and self.rules["chip_return"]:
                    points = -min(totals[seat], 10 if totals[seat] >= 10 else 1)
                totals[seat] += points
        return kept

    def deal_round(self, index: int, starter: int) -> None:
        """Shuffle everything and deal six cards each; one card opens the pile."""
        self.round = index
        self.random.counter = index * 2**32
        self.deck = [card for card, copies in zip(CARDS, self.rules["deck"], strict=True) for _ in range(copies)]
        self.hands = [[self.random.take_from(self.deck) for _ in range(6)] for _ in self.seats]
        self.pile = [self.random.take_from(self.deck)]
        self.folded = [False] * self.num_players
        self.reshuffled = False
        self.round_decisions = 0
        self.history = []
        self.starter = starter
        self.to_play = starter
        self.phase = TURN_PHASE

    # ------------------------------------------------------------------------------------------ decisions

    def in_round(self) -> list[int]:
        """The seats that have not folded."""
        return [seat for seat in self.seats if not self.folded[seat]]

    def legal(self) -> list[int]:
        """The legal actions, in ascending order; none when the episode is over."""
        if self.done:
            return []
        hand = self.hands[self.to_play]
        actions = [card - 1 for card in CARDS if card in hand and fits(card, self.pile[-1])]
        something_to_draw = len(self.deck) > 0 or len(self.pile) > 1
        if len(self.in_round()) > 1 and (something_to_draw or self.rules["nothing_to_draw"] == "abort"):
            actions.append(DRAW)
        return [*actions, FOLD]

    def step(self, action: int) -> None:
        """Carry out one turn, with everything that follows from it."""
        if action not in self.legal():
            raise ValueError(f"action {action!r} is not legal")
        actor, phase = self.to_play, self.phase
        self.decisions += 1
        self.round_decisions += 1
        self.rewards = [0.0] * self.num_players
        self.rewards[actor] -= self.rules["time_penalty"]
        self.drawn, self.drawer = 0, actor

        if action == DRAW:
            self.draw(actor)
        elif action == FOLD:
            self.fold(actor)
        else:
            self.play(actor, action + 1)

        if not self.done and self.decisions >= self.rules["max_decisions"]:
            self.truncate()
        if self.done:
            self.to_play, self.phase = actor, phase

    def record(self, kind: int, card: int = 0) -> None:
        """Put a turn at the head of the round's history."""
        self.history.insert(0, (self.to_play, kind, card, self.pile[-1]))
        del self.history[HISTORY_LENGTH:]

    def play(self, seat: int, card: int) -> None:
        """Put a card on the pile."""
        self.record(DID_PLAY, card)
        self.hands[seat].remove(card)
        self.pile.append(card)
        if not self.hands[seat]:
            self.end_round(winner=seat)
        else:
            self.next_turn()

    def draw(self, seat: int) -> None:
        """Take a card; if there is none the game is aborted."""
        self.record(DID_DRAW)
        if not self.deck and len(self.pile) == 1:
            self.aborted = True
            self.truncate()
            return
        if not self.deck:
            self.deck, self.pile = self.pile[:-1], self.pile[-1:]
            self.reshuffled = True
            self.reshuffles += 1
        self.drawn = self.random.take_from(self.deck)
        self.hands[seat].append(self.drawn)
        self.next_turn()

    def fold(self, seat: int) -> None:
        """Leave the round."""
        self.record(DID_FOLD)
        self.folded[seat] = True
        self.folds[seat] += 1
        left = self.in_round()
        if not left:
            self.end_round(winner=None)
        elif len(left) == 1 and self.rules["last_player"] == "stops":
            self.end_round(winner=left[0])
        else:
            self.next_turn()

    def next_turn(self) -> None:
        """Pass the turn to the next player who is still in the round."""
        order = [(self.to_play + distance) % self.num_players for distance in range(1, self.num_players + 1)]
        self.to_play = next(seat for seat in order if not self.folded[seat])
        self.phase = ALONE_PHASE if len(self.in_round()) == 1 else TURN_PHASE

    # ---------------------------------------------------------------------------- end of a round and episode

    def hand_points(self, seat: int) -> int:
        """Points of the cards in a hand."""
        hand = self.hands[seat]
        return sum(value(card) for card in (set(hand) if self.rules["scoring"] == "distinct" else hand))

    def score_round(self) -> None:
        """Count the hands; a player without cards returns a chip."""
        for seat in self.seats:
            points = self.hand_points(seat)
            if not self.hands[seat] and self.rules["chip_return"]:
                if self.scores[seat] >= 10:
                    points = -10
                elif self.scores[seat] >= 1:
                    points = -1
            self.last_round_scores[seat] = points
            self.scores[seat] += points

    def end_round(self, winner: int | None) -> None:
        """Score and pay the round; then the episode is over or the next round is dealt."""
        if winner is not None:
            self.rounds_won[winner] += 1
        self.score_round()
        for seat in self.seats:
            others = [self.last_round_scores[other] for other in self.seats if other != seat]
            advantage = sum(others) / len(others) - self.last_round_scores[seat]
            self.rewards[seat] += self.rules["round_reward"] * advantage / 100
        if self.rules["episode"] == "round" or max(self.scores) >= self.rules["target"]:
            self.done = True
            winners = [seat for seat in self.seats if self.scores[seat] == min(self.scores)]
            for seat in self.seats:
                self.rewards[seat] += 2 / len(winners) - 1 if seat in winners else -1.0
        elif self.decisions >= self.rules["max_decisions"]:
            self.done = self.truncated = True
        else:
            self.deal_round(self.round + 1, starter=0 if self.rules["next_starter"] == "seat_0" else self.to_play)

    def truncate(self) -> None:
        """Score the hands as they are; the episode is over."""
        self.score_round()
        self.done = self.truncated = True

    def ranks(self) -> list[int]:
        """Rank of every seat: 1 + the number of seats with a strictly lower total."""
        return [1 + sum(other < own for other in self.scores) for own in self.scores]

    # --------------------------------------------------------------------------------------- observation

    def hides(self, seat: int, observer: int) -> bool:
        """Whether an observer cannot see a hand."""
        return seat != observer and not self.done

    def unseen_counts(self, seat: int) -> list[list[int]]:
        """Number of cards of each kind that a hidden card, and the next deck card, may be."""
        hidden = self.deck + [card for other in self.seats if self.hides(other, seat) for card in self.hands[other]]
        upcoming = hidden if self.deck else self.pile[:-1]
        return [[cards.count(card) for card in CARDS] for cards in (hidden, upcoming)]

    def outcome(self, seat: int) -> int:
        """Card that the last decision drew, for the player who drew it; 0 for none, and for others."""
        return self.drawn if seat == self.drawer else 0

    def odds(self, seat: int, action: int) -> list[float]:
        """Probabilities of the outcomes that an action would have for a seat that draws no conclusions."""
        upcoming = self.unseen_counts(seat)[1]
        if action != DRAW or seat != self.to_play or not any(upcoming):
            return [1.0] + [0.0] * len(CARDS)
        return [count / sum(upcoming) for count in [0, *upcoming]]

    def draws(self, seat: int) -> list[int]:
        """Cards that entered a hand together: none, they are drawn one by one."""
        return []

    def true_cards(self, seat: int) -> list[int]:
        """For every seat and kind of card: the kind, if the hand is hidden and has such a card."""
        around = [(seat + r) % self.num_players for r in self.seats]
        return [
            card if self.hides(other, seat) and card in self.hands[other] else 0 for other in around for card in CARDS
        ]

    def observe(self, seat: int, counts: bool = True) -> list[int]:
        """Observation of a seat as one flat row."""
        around = [(seat + r) % self.num_players for r in self.seats]
        row = []
        for r, other in enumerate(around):
            for code, card in enumerate(CARDS, 1):
                row += [r, code, HIDDEN if self.hides(other, seat) else self.hands[other].count(card)]
        for r, other in enumerate(around):
            total = self.scores[other]
            to_go = max(0, min(255, self.rules["target"] - total))
            row += [r, len(self.hands[other]), int(self.folded[other]), to_go, min(total // 10, 31), total % 10]
        row += [self.pile[-1], len(self.pile)]
        row += [
            len(self.deck),
            min(self.round_decisions // 8, 63),
            around.index(self.to_play),
            min(self.round, 31),
            int(self.reshuffled),
            self.num_players - 2,
        ]
        for actor, kind, card, top in self.history:
            row += [1 + around.index(actor), kind, card, top]
        row += [0, 0, 0, 0] * (HISTORY_LENGTH - len(self.history))
        row += [self.phase, min(self.hand_points(seat), 255)]
        if counts:
            for token in self.unseen_counts(seat):
                row += token
        return row
