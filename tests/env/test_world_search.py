"""Search over sampled worlds: exact answers in Kuhn poker and at the end of a Skyjo round, and what its settings do."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import env
from env.world_search import WorldSearch, search_worlds
from tests.oracle.kuhn import CARDS, ENDINGS, JACK, KING, LETTERS, QUEEN, chips_won
from tests.oracle.kuhn_solver import BOT_POLICIES, Policy
from tests.oracle.kuhn_tables import POSITIONS, tables_at

CHIPS = 2.0  # chips of a unit of reward in Kuhn poker
CLEAR = 0.2  # difference between two actions, in chips, that a search must find
TABLES = [("skyjo", 2), ("skyjo", 8), ("lama", 2), ("lama", 6), ("skipbo", 2), ("skipbo", 6), ("kuhn", 2)]


def searched(
    tables: env.VecEnv, bot: str = "random", opponents: str | None = None, threads: int = 1, **settings: Any
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    others = None if opponents is None else tables.bot(opponents)
    return search_worlds(
        tables, np.flatnonzero(~tables.done), WorldSearch(**settings), tables.bot(bot), others, threads
    )


def best(visits: NDArray[np.int32], values: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.where(visits == visits.max(1, keepdims=True), values, -np.inf).argmax(1)


# ---- Kuhn poker: exact -----------------------------------------------------------------------------------------------


def best_answer(seat: int, card: int, history: str, others: Mapping[int, Fraction], opponent: Policy) -> Fraction:
    """Chips of the best answer to a known opponent, from a position on, weighted by the cards the opponent may hold."""
    if history in ENDINGS:
        hands = {other: (card, other) if seat == 0 else (other, card) for other in others}
        return sum((weight * chips_won(hands[c], history)[seat] for c, weight in others.items()), Fraction(0))
    if len(history) % 2 == seat:
        return max(best_answer(seat, card, history + letter, others, opponent) for letter in LETTERS)
    found = Fraction(0)
    for bets, letter in enumerate(LETTERS):
        bet = {c: opponent[c, history] for c in others}
        left = {c: weight * (bet[c] if bets else 1 - bet[c]) for c, weight in others.items()}
        found += best_answer(seat, card, history + letter, left, opponent)
    return found


def answers(opponent: Policy) -> NDArray[np.float64]:
    """Exact values [24, 2], in chips, of both actions at every position, against a known opponent."""
    found = []
    for cards, history in POSITIONS:
        seat = len(history) % 2
        card = cards[seat]
        others = {c: Fraction(1, 2) for c in CARDS if c != card}
        found.append([float(best_answer(seat, card, history + letter, others, opponent)) for letter in LETTERS])
    return np.array(found)


@pytest.mark.parametrize("observers", ["one", "all"])
@pytest.mark.parametrize("bot", ["always_bet", "always_pass", "uniform(bet=0.25)", "equilibrium", "random"])
def test_information_sets_find_the_best_answer_to_a_known_opponent(bot: str, observers: str) -> None:
    exact = answers(BOT_POLICIES[bot])
    visits, values = searched(
        tables_at(POSITIONS), opponents=bot, iterations=6000, margin=0.0, own_views=observers == "all"
    )
    clear = np.abs(exact[:, 1] - exact[:, 0]) > CLEAR
    assert clear.sum() >= 12
    assert (best(visits, values) == exact.argmax(1))[clear].all()
    top = exact.argmax(1)
    found = CHIPS * values[np.arange(24), top]
    assert np.abs(found - exact.max(1)).max() < 0.25


def test_worlds_with_open_cards_are_worth_what_brute_force_says() -> None:
    """PIMC: mean over the two cards that the opponent may hold of perfect play with open cards."""

    def solve(cards: tuple[int, int], history: str) -> tuple[int, int]:
        if history in ENDINGS:
            return chips_won(cards, history)
        mover = len(history) % 2
        return max((solve(cards, history + letter) for letter in LETTERS), key=lambda found: found[mover])

    exact = np.zeros((len(POSITIONS), 2))
    for row, (cards, history) in enumerate(POSITIONS):
        seat = len(history) % 2
        deals = [deal for deal in permutations(CARDS, 2) if deal[seat] == cards[seat]]
        exact[row] = [np.mean([solve(deal, history + letter)[seat] for deal in deals]) for letter in LETTERS]
    visits, values = searched(tables_at(POSITIONS), iterations=30_000, worlds=60, margin=0.0)
    assert (visits.sum(1) == 30_000).all()
    clear = np.abs(exact[:, 1] - exact[:, 0]) > CLEAR
    assert clear.sum() >= 12
    search = WorldSearch(30_000, 60)
    assert (search.choose(visits, values) == exact.argmax(1))[clear].all()
    assert (best(visits, values) != exact.argmax(1))[clear].any(), "a vote of worlds ignores what is at stake in them"
    top = exact.argmax(1)
    # 60 worlds hold the two cards about equally often: a deal's value differs by 2 chips at most, so 0.4 are 3 errors.
    assert np.abs(CHIPS * values[np.arange(24), top] - exact.max(1)).max() < 0.45


@pytest.mark.parametrize("observers", ["one", "all"])
def test_searching_players_never_call_with_the_worst_card_nor_give_up_the_best(observers: str) -> None:
    rows = [n for n, (cards, h) in enumerate(POSITIONS) if h.endswith("b") and cards[len(h) % 2] in (JACK, KING)]
    positions = [POSITIONS[n] for n in rows]
    visits, values = searched(tables_at(positions), iterations=2000, margin=0.0, own_views=observers == "all")
    wanted = [int(cards[len(history) % 2] == KING) for cards, history in positions]
    assert best(visits, values).tolist() == wanted
    worth = CHIPS * values[np.arange(len(rows)), wanted]
    assert np.allclose(worth, [2.0 if bets else -1.0 for bets in wanted]), "the cards decide, whoever holds what"


def test_opponents_with_views_of_their_own_tell_their_cards_apart() -> None:
    """A queen bets first. Opponents who see their own cards fold the jack (+1) and call with the king (-2): -1/2.

    With one observer all cards of the opponent are one node: a call is worth 0 there and a fold -1, so both cards call,
    and the bet is worth (2 - 2) / 2.
    """
    opening = [(cards, "") for cards in permutations(CARDS, 2) if cards[0] == QUEEN]
    bet = {
        own: CHIPS * searched(tables_at(opening), iterations=20_000, margin=0.0, own_views=own)[1][:, 1]
        for own in (False, True)
    }
    assert np.abs(bet[False]).max() < 0.15
    assert np.abs(bet[True] + 0.5).max() < 0.15


# ---- Skyjo: the last decision of a round -----------------------------------------------------------------------------


def last_decisions(count: int) -> env.VecEnv:
    """Placing decisions of the bot `greedy` that end the round, whatever is done."""
    rules = {"preset": "official", "episode": "round", "round_reward": 2.0}
    tables = env.make("skyjo", 256, 2, rules, seed=8, auto_reset=False)
    before = env.make("skyjo", 256, 2, rules, auto_reset=False)
    offset = next(group for group in tables.groups if group.name == "global").offset
    fields = [field.name for field in next(group for group in tables.groups if group.name == "global").fields]
    kept: list[bytes] = []
    while len(kept) < count:
        before.copy_from(tables, np.arange(256))
        tables.step(tables.bot_actions([tables.bot("greedy")] * 2))
        final = before.obs[:, offset + fields.index("final_turn")] > 0
        kept += [before.save(t) for t in np.flatnonzero(tables.done & ~before.done & (before.phase == 2) & final)]
    last = env.make("skyjo", count, 2, rules, auto_reset=False)
    for table, blob in enumerate(kept[:count]):
        last.load(table, blob)
    return last


def exact_rewards(last: env.VecEnv, table: int) -> NDArray[np.float64]:
    """Expected reward [A] of every action at a table with one hidden card, summed over all kinds that it may be."""
    mover = int(last.to_play[table])
    counts = last.unseen_counts(mover)[table].sum(0).astype(float)
    found, total = np.zeros(last.num_actions), np.zeros(last.num_actions)
    worlds = env.make("skyjo", 400, 2, last.rules, auto_reset=False)
    for action in np.flatnonzero(last.legal[table]):
        worlds.copy_from(last, np.full(400, table))
        worlds.determinize(np.full(400, mover, np.int8), np.arange(400, dtype=np.uint64))
        hidden = np.array([hidden_cards(worlds, t) for t in range(400)])[:, 0]
        worlds.step(np.full(400, action))
        for kind in np.unique(hidden):
            paid = worlds.rewards[hidden == kind, mover]
            assert np.ptp(paid) < 1e-6, "the hidden card decides"
            found[action] += counts[kind - 1] * paid[0]
            total[action] += counts[kind - 1]
    assert (total[last.legal[table]] == counts.sum()).all(), "every kind was seen"
    return np.where(last.legal[table], found / np.maximum(total, 1), np.nan)


def hidden_cards(tables: env.VecEnv, table: int) -> list[int]:
    """Cards that lie face down in the grids."""
    state = tables.inspect(table)
    return [card for card, up in zip(state["boards"], state["face_up"], strict=True) if card and not up]


@pytest.mark.parametrize("worlds", [0, 300])
def test_last_decisions_of_a_round_are_judged_exactly(worlds: int) -> None:
    """With one hidden card the exact value of every action is a sum over the kinds of that card."""
    last = last_decisions(220)
    rows = [table for table in range(220) if len(hidden_cards(last, table)) == 1][:6]
    assert len(rows) >= 3
    some = env.make("skyjo", len(rows), 2, last.rules, auto_reset=False)
    some.copy_from(last, rows)
    visits, values = searched(some, iterations=4000, worlds=worlds, margin=0.0, exploration=1.5)
    for row in range(len(rows)):
        exact = exact_rewards(some, row)
        tried = np.flatnonzero(visits[row] > 50)
        assert np.abs(values[row, tried] - exact[tried]).max() < 0.1
        chosen = int(WorldSearch(4000, worlds).choose(visits[row : row + 1], values[row : row + 1])[0])
        assert np.nanmax(exact) - exact[chosen] < 0.02


# ---- all games -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worlds", [0, 3])
@pytest.mark.parametrize(("game", "players"), TABLES)
def test_every_game_and_table_size_is_searched(game: str, players: int, worlds: int) -> None:
    tables = env.make(game, 5, players, seed=2, auto_reset=False)
    tables.random_steps(1)
    rows = np.flatnonzero(~tables.done)
    before = [tables.save(int(row)) for row in rows]
    bot = tables.default_bot  # random players of Skip-Bo never win
    visits, values = searched(tables, bot, iterations=25, worlds=worlds)
    legal = tables.legal[rows]
    assert (visits.sum(1) == 25).all()
    assert not visits[~legal].any()
    assert (np.isnan(values) == (visits == 0)).all()
    assert [tables.save(int(row)) for row in rows] == before, "the tables stay as they are"
    again, same = searched(tables, bot, iterations=25, worlds=worlds, threads=2)
    assert (again == visits).all()
    assert np.array_equal(same, values, equal_nan=True)
    alone = search_worlds(tables, rows[2:3], WorldSearch(25, worlds), tables.bot(bot))[0]
    assert (alone == visits[2]).all(), "other decisions make no difference"
    other, _ = searched(tables, bot, iterations=25, worlds=worlds, seed=1)
    assert game == "kuhn" or (other != visits).any()


def test_equivalent_actions_are_one_action_unless_all_cards_are_known() -> None:
    tables = env.make("skyjo", 1, 2, seed=1)
    tables.step(np.array([0]))
    tables.step(np.array([2]))  # keep the drawn card: ten hidden cards, of which most cannot be told apart
    merged = searched(tables, iterations=200)[0][0] > 0
    every = searched(tables, iterations=200, worlds=2)[0][0] > 0
    assert (every == tables.legal[0]).all()
    classes = tables.slot_classes()[0, :12]
    assert merged.sum() == len(np.unique(classes)) < every.sum()


def test_exploration_spreads_the_visits() -> None:
    tables = env.make("skyjo", 8, 2, {"episode": "round"}, seed=3)
    tables.step(np.zeros(8, np.int64))
    tables.step(np.full(8, 2))
    narrow, wide = (searched(tables, iterations=400, exploration=c)[0].max(1) for c in (0.0, 20.0))
    assert (narrow > wide).all()


def test_worlds_are_played_to_the_end_of_the_round_or_of_the_game() -> None:
    """The official rules pay for winning the match alone: a round pays nothing early in a match."""
    tables = env.make("skyjo", 4, 2, seed=3)
    of_round = searched(tables, "greedy", iterations=30, margin=0.0)[1]
    of_match = searched(tables, "greedy", iterations=30, margin=0.0, until="end")[1]
    assert (np.nan_to_num(of_round) == 0).all()
    assert (np.nan_to_num(of_match) != 0).any()
    assert (np.abs(np.nan_to_num(of_match)) <= 1).all()
    assert (np.nan_to_num(searched(tables, "greedy", iterations=30)[1]) != 0).any(), "points count by the margin"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iterations": 0}, r"iterations: expected 1 to 131072, got 0"),
        ({"iterations": 4, "worlds": 5}, r"worlds: expected 0 to the number of iterations, got 5"),
        ({"worlds": 2, "own_views": True}, r"own_views: expected false with worlds"),
        ({"exploration": float("nan")}, r"exploration: expected 0 or more, got nan"),
        ({"margin": float("inf")}, r"margin: expected a finite number"),
        ({"until": "turn"}, r"until: expected round or end, got 'turn'"),
        ({"seed": -1}, r"seed: expected 0 to"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WorldSearch(**settings)


def test_finished_games_and_bots_of_other_games_are_refused() -> None:
    tables = env.make("kuhn", 2, seed=1, auto_reset=False)
    tables.step(np.array([1, 0]))
    tables.step(np.array([1, env.SKIP]))
    bot = tables.bot("random")
    with pytest.raises(ValueError, match="rows: expected tables whose game is not over, got 0"):
        search_worlds(tables, np.array([0]), WorldSearch(8), bot)
    skyjo = env.make("skyjo", 1)
    with pytest.raises(ValueError, match="a bot for kuhn with 2 players cannot play skyjo"):
        search_worlds(skyjo, np.array([0]), WorldSearch(8), bot)
