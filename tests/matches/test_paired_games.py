"""Games on paired deals: every seat, shares of the win, independence of batches and opponents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import env
from muzero.agents.agents import Agent, Bot, Situation
from muzero.matches.games import Games
from muzero.matches.paired_games import against_each, paired_games

ROUND = {"episode": "round"}


SEED, DEALS = 7, 12


def rows(games: Games) -> list[tuple[float, ...]]:
    return list(zip(games.won, games.scores_a, games.scores_b, games.truncated, games.decisions, strict=True))


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_bot_against_itself_is_symmetric_on_each_deal(players: int) -> None:
    """Every deal is one game, counted once from each seat, and it is the game that the core plays."""
    (games,) = against_each(
        Bot("greedy"), [Bot("greedy")], DEALS, game="skyjo", players=players, rules=ROUND, seed=SEED
    )
    assert len(games) == DEALS * players
    tables = env.make("skyjo", 1, players, ROUND, SEED)
    records = tables.play([tables.bot("greedy")] * players, DEALS)
    for deal in range(DEALS):
        part = slice(deal * players, (deal + 1) * players)
        scores = records.scores[deal].astype(float)
        assert games.scores_a[part].tolist() == scores.tolist()
        assert games.scores_b[part] == pytest.approx((scores.sum() - scores) / (players - 1))
        assert games.won[part].sum() == pytest.approx(1.0)
        best = scores == scores.min()
        assert games.won[part] == pytest.approx(best / best.sum())
        assert len(set(games.decisions[part])) == 1
    assert games.win_rate == pytest.approx(1 / players)


def test_opponents_do_not_influence_each_other() -> None:
    """The games against several opponents at once are the games against each of them alone."""
    names = ["random", "greedy", "threshold(t=2)"]
    opponents = [Bot(name) for name in names]
    together = against_each(Bot("greedy"), opponents, DEALS, game="skyjo", players=3, rules=ROUND, seed=SEED)
    for opponent, games in zip(opponents, together, strict=True):
        (alone,) = against_each(Bot("greedy"), [opponent], DEALS, game="skyjo", players=3, rules=ROUND, seed=SEED)
        assert rows(alone) == rows(games)
    assert rows(together[0]) != rows(together[1])


def test_the_first_agent_sits_in_each_seat_in_turn_against_the_other_in_all_others() -> None:
    tables = env.make("skyjo", 1, 3, ROUND, SEED)
    good, bad = tables.bot("greedy"), tables.bot("random")
    (games,) = against_each(Bot("greedy"), [Bot("random")], DEALS, game="skyjo", players=3, rules=ROUND, seed=SEED)
    for seat in range(3):
        records = tables.play([good if s == seat else bad for s in range(3)], DEALS)
        assert games.scores_a[seat::3].tolist() == records.scores[:, seat].tolist()
    assert games.win_rate > 0.6


@pytest.mark.parametrize(
    ("game", "players"), [(game, n) for game in env.games() for n in (2, 3) if n <= env.describe(game).max_players]
)
def test_games_inside_the_core_equal_those_played_step_by_step(game: str, players: int) -> None:
    """The bots play some random actions; a watcher makes the games go step by step."""
    first, *others = [Bot(f"{name}(epsilon=0.2)") for name in list(env.make(game, 1, players).bots)[:3]]

    def play(watch: Callable[[Situation], None] | None) -> list[Games]:
        return against_each(first, others, 9, game=game, players=players, seed=SEED, first_deal=4, watch=watch)

    for inside, stepped in zip(play(None), play(lambda situation: None), strict=True):
        for name, array in vars(stepped).items():
            assert getattr(inside, name).dtype == array.dtype, name
            assert (getattr(inside, name) == array).all(), name


def test_copies_of_a_bot_with_different_seeds_play_differently() -> None:
    """With the same seed each deal is one game, counted from both seats."""
    name = "greedy(epsilon=0.3)"
    (same,) = against_each(Bot(name), [Bot(name)], 20, game="skyjo", rules=ROUND, seed=SEED)
    assert (same.won.reshape(-1, 2).sum(1) == 1).all()
    (other,) = against_each(Bot(name, seed=1), [Bot(name, seed=2)], 20, game="skyjo", rules=ROUND, seed=SEED)
    assert (other.won.reshape(-1, 2).sum(1) != 1).any()


def test_first_deal_and_seed_determine_the_deals() -> None:
    def play(first: int, deals: int, seed: int = SEED) -> list[tuple[float, ...]]:
        found = against_each(
            Bot("greedy"), [Bot("random")], deals, game="skyjo", rules=ROUND, seed=seed, first_deal=first
        )
        return rows(found[0])

    assert play(0, 6)[4:] == play(2, 4)
    assert play(0, 6) != play(0, 6, seed=8)


def test_ties_share_the_win() -> None:
    (games,) = against_each(Bot("random"), [Bot("random")], 60, game="skyjo", players=8, rules=ROUND, seed=SEED)
    scores, won = games.scores_a.reshape(-1, 8), games.won.reshape(-1, 8)  # by deal and seat
    best = scores == scores.min(1, keepdims=True)
    assert (best.sum(1) == 2).any()
    assert won == pytest.approx(best / best.sum(1, keepdims=True))


def test_games_that_reach_the_cap_on_decisions_are_marked_truncated() -> None:
    (games,) = against_each(
        Bot("greedy"), [Bot("greedy")], 3, game="skyjo", rules={**ROUND, "max_decisions": 9}, seed=SEED
    )
    assert games.truncated.all()
    assert (games.decisions == 9).all()
    assert not against_each(Bot("greedy"), [Bot("greedy")], 3, game="skyjo", rules=ROUND)[0].truncated.any()


def test_a_watcher_sees_every_decision_of_the_first_agent_only() -> None:
    seen: list[tuple[int, int]] = []

    def watch(situation: Situation) -> None:
        seen.extend(zip(situation.rows.tolist(), situation.to_play.tolist(), strict=True))

    (games,) = against_each(Bot("greedy"), [Bot("greedy")], 4, game="skyjo", players=3, rules=ROUND, watch=watch)
    assert {seat for _, seat in seen} == {0, 1, 2}
    assert all(seat == row % 3 for row, seat in seen)
    assert len(seen) == games.decisions[::3].sum()  # of three games with the same moves, each seat's once


class SlowBot:
    """Bot that counts as a slow agent; notes how many tables waited for it, and for any agent."""

    def __init__(self, name: str) -> None:
        self.name, self._bot = name, Bot(name)
        self.asked: list[tuple[int, int]] = []

    def act(self, situation: Situation) -> NDArray[np.int64]:
        self.asked.append((len(situation.rows), int((~situation.tables.done).sum())))
        return self._bot.act(situation)


def test_a_slow_agent_acts_when_most_tables_wait_for_it() -> None:
    def play(a: Agent, b: Agent) -> Games:
        return against_each(a, [b], 20, game="skyjo", rules=ROUND, seed=SEED)[0]

    expected, a, b = play(Bot("greedy"), Bot("naive")), SlowBot("greedy"), SlowBot("naive")
    assert rows(play(a, Bot("naive"))) == rows(expected)
    assert all(waiting == open_ for waiting, open_ in a.asked), "bots have acted before"
    a.asked.clear()
    assert rows(play(a, b)) == rows(expected)
    assert all(2 * waiting >= open_ for waiting, open_ in a.asked + b.asked)


def test_seats_are_swapped_on_the_same_cards() -> None:
    """For two equal agents, the second game of a deal is the first one with the names swapped."""
    games = paired_games(Bot("greedy"), Bot("greedy"), 50, game="skyjo", rules={"episode": "round"}, seed=4, batch=30)
    assert len(games.scores_a) == 100
    assert (games.scores_a[::2] == games.scores_b[1::2]).all()
    assert (games.scores_b[::2] == games.scores_a[1::2]).all()
    assert games.win_rate == 0.5
    assert games.wilson() == pytest.approx((0.4038, 0.5962), abs=1e-4)


def test_scores_equal_those_of_play_inside_the_core() -> None:
    games = paired_games(Bot("greedy"), Bot("random"), 20, game="skyjo", rules={"episode": "round"}, seed=4)
    tables = env.make("skyjo", rules={"episode": "round"}, seed=4)
    bots = [tables.bot("greedy"), tables.bot("random")]
    assert (tables.play(bots, 20).scores[:, 0] == games.scores_a[::2]).all()


def test_a_draw_counts_half_a_win() -> None:
    scores = np.array([1.0, 2.0, 3.0, 3.0]), np.array([2.0, 1.0, 3.0, 9.0])
    games = Games(np.array([1.0, 0.0, 0.5, 1.0]), *scores, np.zeros(4, bool), np.full(4, 50), *np.zeros((4, 4), int))
    assert (len(games), games.win_rate) == (4, 0.625)
