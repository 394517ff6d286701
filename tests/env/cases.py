"""Cases for the tests that every game passes: the oracle of each game and the rule sets to try.

A new game adds one `Case`; the generic tests of this folder then run for it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.oracle import kuhn, lama, skipbo, skyjo

Rules = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One game under test.

    Attributes:
      game: name of the game.
      players: numbers of players that the game admits.
      rules: rule sets by name; between them every option takes every value.
      oracle: independent implementation, made from (rules, players, seed, deal, episode).
      fields: function of an oracle that gives the same names and lists as `VecEnv.inspect`.
      conserved: function of fields whose result must stay the same through an episode.
      hidden: function of fields that lists the hidden facts, for tests that they really vary.
      stats: function of an oracle that gives the numbers that `VecEnv.stats` reports of an episode.
      short: a rule set of whole numbers, not the default, under which random players finish soon.
      reshuffling: a rule set for two players in which the draw pile soon runs out; None if the game never reshuffles.
      ties_win: whether players who all tie share the win; if not, nobody has won.
      chips: points that one unit of reward stands for in a game that pays points instead of wins; 0 for other games.
      usual: function of the fields before a step: whether the phase table must say what follows.
      cap: value of `max_decisions` that no game stays below.
      deals: number of different deals; 0 for too many to count.
      events: number of different texts of `last_event` that random play produces, at least.
    """

    game: str
    players: tuple[int, ...]
    rules: dict[str, Rules]
    oracle: Callable[[Rules, int, int, int, int], Any]
    fields: Callable[[Any], dict[str, list[int]]]
    conserved: Callable[[dict[str, list[int]]], Any]
    hidden: Callable[[dict[str, list[int]]], list[int]]
    stats: Callable[[Any], list[int]]
    short: dict[str, int]
    reshuffling: Rules | None = None
    ties_win: bool = True
    chips: float = 0.0
    usual: Callable[[dict[str, list[int]]], bool] = lambda fields: True
    cap: int = 7
    deals: int = 0
    events: int = 21

    def some_players(self, *wanted: int) -> list[int]:
        """The wanted numbers of players that the game admits."""
        return [players for players in wanted if players in self.players]


def _skyjo_code(card: int | None) -> int:
    return 0 if card is None else card + 3


def _skyjo_fields(game: skyjo.Skyjo) -> dict[str, list[int]]:
    state = game.state()
    return {
        "boards": [_skyjo_code(card) for board in state["boards"] for card in board],
        "face_up": [int(up) for row in state["face_up"] for up in row],
        "draw_pile": [_skyjo_code(card) for card in state["draw_pile"]],
        "discard_pile": [_skyjo_code(card) for card in state["discard_pile"]],
        "out_of_play": [_skyjo_code(card) for card in state["out_of_play"]],
        "hand": [_skyjo_code(state["hand"])],
        "scores": list(state["scores"]),
        "last_round_scores": list(state["last_round_scores"]),
        "columns_cleared": list(state["columns_cleared"]),
        "history": [number for event in state["history"] for number in event],
        **{
            name: [int(state[name])]
            for name in (
                "hand_source",
                "to_play",
                "phase",
                "ender",
                "starter",
                "round",
                "decisions",
                "round_decisions",
                "turns",
                "reshuffled",
                "clear_column",
                "done",
                "truncated",
            )
        },
    }


def _skyjo_cards(fields: dict[str, list[int]]) -> list[int]:
    places = ("boards", "draw_pile", "discard_pile", "out_of_play", "hand")
    return sorted(card for place in places for card in fields[place] if card)


def _skyjo_hidden(fields: dict[str, list[int]]) -> list[int]:
    return [card for card, up in zip(fields["boards"], fields["face_up"], strict=True) if card and not up]


def _skyjo_stats(game: skyjo.Skyjo) -> list[int]:
    state = game.state()
    counters = [state["decisions"], state["turns"], state["round"] + 1, state["ender"]]
    return [*counters, *state["columns_cleared"]]


_FEW_VALUES = [0, 31, 31, 31, 31, 31] + [0] * 9
_SMALL_DECK = [1, 1, 2] + [2] * 11 + [0]

SKYJO = Case(
    game="skyjo",
    players=(2, 3, 4, 5, 6, 7, 8),
    rules={
        "official": {},
        "summary": {"preset": "summary"},
        "skynet": {"preset": "skynet"},
        "reichel": {"preset": "reichel"},
        "chosen": {"setup": "chosen", "initial_reveals": 3, "round_reward": 0.5, "time_penalty": 0.01},
        "chosen_seat_0": {
            "setup": "chosen",
            "next_starter": "seat_0",
            "initial_scores": "uniform",
            "target": 60,
        },
        "voluntary": {"clearing": "voluntary", "deck": _FEW_VALUES, "target": 20},
        "played": {"episode": "round", "initial_scores": "played"},
        "voluntary_out": {
            "clearing": "voluntary",
            "cleared_cards": "out_of_play",
            "deck": _FEW_VALUES,
            "clear_on_final_reveal": False,
            "max_decisions": 301,
        },
        "random_starter": {"first_starter": "random", "target": 40},
        "chosen_random_starter": {
            "first_starter": "random",
            "setup": "chosen",
            "next_starter": "seat_0",
            "episode": "round",
        },
        "few_values": {"deck": _FEW_VALUES, "target": 30, "round_reward": -1.0, "max_decisions": 1000},
        "capped": {"max_decisions": 37, "ender_penalty": "off", "round_reward": 2.0, "initial_reveals": 0},
        # The cap falls into final turns, where the ender's penalty would apply if the round were allowed to end.
        "capped_final_turns": {"initial_reveals": 11, "max_decisions": 4, "round_reward": 1.0},
        "many_reveals": {
            "initial_reveals": 11,
            "deck": _FEW_VALUES,
            "penalty_on_nonpositive": True,
            "target": 9,
        },
    },
    oracle=lambda rules, players, seed, deal, episode: skyjo.Skyjo(rules, players, seed, deal, episode),
    fields=_skyjo_fields,
    conserved=_skyjo_cards,
    hidden=_skyjo_hidden,
    stats=_skyjo_stats,
    # 26 cards: the draw pile holds one, so that every other draw reshuffles.
    reshuffling={"deck": _SMALL_DECK, "max_decisions": 400},
    short={"target": 30},
)


def _lama_fields(game: lama.Lama) -> dict[str, list[int]]:
    return {
        "hands": [hand.count(card) for hand in game.hands for card in lama.CARDS],
        "draw_pile": list(game.deck),
        "discard_pile": list(game.pile),
        "folded": [int(folded) for folded in game.folded],
        "scores": list(game.scores),
        "last_round_scores": list(game.last_round_scores),
        "rounds_won": list(game.rounds_won),
        "folds": list(game.folds),
        "history": [number for event in game.history for number in event],
        **{
            name: [int(getattr(game, name))]
            for name in (
                "to_play",
                "phase",
                "starter",
                "round",
                "decisions",
                "round_decisions",
                "reshuffles",
                "reshuffled",
                "done",
                "truncated",
                "aborted",
            )
        },
    }


def _lama_cards(fields: dict[str, list[int]]) -> list[int]:
    held = [1 + i % 7 for i, copies in enumerate(fields["hands"]) for _ in range(copies)]
    return sorted(held + fields["draw_pile"] + fields["discard_pile"])


def _lama_stats(game: lama.Lama) -> list[int]:
    counters = [game.decisions, game.round + 1, game.reshuffles, int(game.aborted)]
    return [*counters, *game.rounds_won, *game.folds]


LAMA = Case(
    game="lama",
    players=(2, 3, 4, 5, 6, 7, 8),
    rules={
        "official": {},
        "report": {"preset": "report"},
        "paid": {"round_reward": 0.5, "time_penalty": 0.01, "initial_scores": "uniform", "target": 60},
        "round": {"episode": "round", "initial_scores": "uniform", "round_reward": -1.0},
        "played": {"episode": "round", "initial_scores": "played"},
        "played_all": {"initial_scores": "played", "scoring": "all_cards", "chip_return": False, "target": 90},
        "capped": {"max_decisions": 11, "round_reward": 2.0, "target": 200},
        "all_cards": {"scoring": "all_cards", "last_player": "stops", "target": 300},
        "no_return": {"chip_return": False, "next_starter": "seat_0", "target": 200},
        "lopsided": {"deck": [16, 4, 4, 4, 4, 4, 16], "nothing_to_draw": "abort"},
    },
    oracle=lambda rules, players, seed, deal, episode: lama.Lama(rules, players, seed, deal, episode),
    fields=_lama_fields,
    conserved=_lama_cards,
    hidden=lambda fields: [] if fields["done"][0] else fields["hands"],
    stats=_lama_stats,
    # 14 cards: the deck holds one card at first.
    reshuffling={"deck": [2] * 7, "max_decisions": 400, "target": 1000, "nothing_to_draw": "abort"},
    short={"target": 30},
    # The table does not know who has folded; with two players a fold is a phase of its own.
    usual=lambda fields: len(fields["folded"]) == 2 or not any(fields["folded"]),
)


def _skipbo_fields(game: skipbo.Skipbo) -> dict[str, list[int]]:
    idle = game.idle_turns + (not game.deadlock) if game.idle_now else 0
    return {
        "stocks": [card for stock in game.stocks for card in stock],
        "stock_sizes": [len(stock) for stock in game.stocks],
        "hands": [card for hand in game.hands for card in hand],
        "hand_sizes": [len(hand) for hand in game.hands],
        "discard_piles": [card for piles in game.discards for pile in piles for card in pile],
        "discard_sizes": [len(pile) for piles in game.discards for pile in piles],
        "building_piles": [card for pile in game.building for card in pile],
        "heights": [len(pile) for pile in game.building],
        "draw_pile": list(game.draw_pile),
        "set_aside": list(game.aside),
        "scores": list(game.scores),
        "turns": list(game.turns),
        "idle": [int(idle)],
        "reshuffled": [int(game.reshuffles > 0)],
        **{
            name: [int(getattr(game, name))]
            for name in (
                "to_play",
                "phase",
                "starter",
                "decisions",
                "completed",
                "reshuffles",
                "done",
                "truncated",
                "deadlock",
            )
        },
    }


def _skipbo_cards(fields: dict[str, list[int]]) -> list[int]:
    places = ("stocks", "hands", "discard_piles", "building_piles", "draw_pile", "set_aside")
    return sorted(card for place in places for card in fields[place])


def _skipbo_stats(game: skipbo.Skipbo) -> list[int]:
    counters = [game.decisions, sum(game.turns), game.completed, game.reshuffles, int(game.deadlock), game.winner]
    return [*counters, *game.turns]


SKIPBO = Case(
    game="skipbo",
    players=(2, 3, 4, 5, 6),
    rules={
        "official": {},
        "small": {"stock": 2, "round_reward": 0.5, "time_penalty": 0.01},
        "random_starter": {"stock": 8, "starter": "random", "round_reward": -1.0},
        "no_extras": {"stock": 4, "extras": False},
        "wilds": {"stock": 5, "deck": [5] * 12 + [36]},
        "capped": {"max_decisions": 23, "round_reward": 2.0, "deck": [5] * 12 + [36], "stock": 12},
        # No card can be played, so that hands and draw pile run out.
        "stuck": {"stock": 2, "deck": [0] * 10 + [18, 18, 0]},
        # A few cards can be played, from stocks and discard piles, after hands and draw pile have run out.
        "nearly_stuck": {"stock": 2, "deck": [2, 3, 4] + [0] * 7 + [8, 8, 0]},
    },
    oracle=lambda rules, players, seed, deal, episode: skipbo.Skipbo(rules, players, seed, deal, episode),
    fields=_skipbo_fields,
    conserved=_skipbo_cards,
    hidden=lambda fields: fields["hands"] + fields["stocks"] + fields["draw_pile"],
    stats=_skipbo_stats,
    # Most cards are wild and few are left to draw, so that completed piles are soon needed.
    reshuffling={"stock": 15, "deck": [1] * 12 + [36], "max_decisions": 400},
    short={"stock": 1},
    ties_win=False,
    # Nobody gets stuck while there are five cards to draw.
    usual=lambda fields: len(fields["draw_pile"] + fields["set_aside"]) >= 5,
)


def _kuhn_fields(game: kuhn.Kuhn) -> dict[str, list[int]]:
    return {
        "hands": list(game.hands),
        "draw_pile": list(game.deck),
        "paid": [game.paid(0), game.paid(1)],
        "moves": game.moves(),
        "scores": list(game.scores),
        **{
            name: [int(getattr(game, name))]
            for name in ("to_play", "phase", "decisions", "showdown", "done", "truncated")
        },
    }


KUHN = Case(
    game="kuhn",
    players=(2,),
    rules={
        "official": {},
        "paid": {"round_reward": -2.0, "time_penalty": 0.01},
        "capped": {"max_decisions": 1},
        "capped_answers": {"max_decisions": 2, "round_reward": 0.5},
    },
    oracle=lambda rules, players, seed, deal, episode: kuhn.Kuhn(rules, players, seed, deal, episode),
    fields=_kuhn_fields,
    conserved=lambda fields: sorted(fields["hands"] + fields["draw_pile"]),
    hidden=lambda fields: [] if fields["showdown"][0] else fields["hands"] + fields["draw_pile"],
    stats=lambda game: [game.decisions, int(game.showdown), -game.scores[0]],
    short={"max_decisions": 4},
    chips=2.0,
    cap=1,
    deals=6,
    events=3,  # a finished table is reset in the same step, so that answers do not show
)

CASES = [SKYJO, LAMA, SKIPBO, KUHN]
SETTINGS = [(case, rules, players) for case in CASES for rules in case.rules for players in case.players]
# Settings of the default tests: every rule set for the fewest players and for one larger number, each in its turn.
FEW_SETTINGS = [
    (case, rules, players)
    for case in CASES
    for number, rules in enumerate(case.rules)
    for players in sorted({case.players[0], (case.players[1:] or case.players)[number % max(1, len(case.players) - 1)]})
]


def setting_name(setting: Any) -> str:
    """Readable name of a parametrised (case, rules, players)."""
    case, rules, players = setting
    return f"{case.game}-{rules}-{players}"


per_setting = pytest.mark.parametrize(
    "setting",
    [each if each in FEW_SETTINGS else pytest.param(each, marks=pytest.mark.slow) for each in SETTINGS],
    ids=setting_name,
)
"""Decorator of tests that take every setting; those that are not in `FEW_SETTINGS` are slow."""
