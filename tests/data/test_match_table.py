"""muzero.data.match_table: chances to win a match, by hand, against slow recursion and against matches of bots."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
import torch

import env
from muzero.config import Config, GameConfig
from muzero.data.match_table import MatchTable, fit_match_table, match_table, require_rounds
from muzero.selfplay.opponents import OpponentMix
from muzero.selfplay.worker import PlayRequest, SelfPlay
from muzero.training.run_state import make_replay_buffer
from tests.composing import compose_config

LAMA = {"preset": "report", "episode": "round", "initial_scores": "played", "max_decisions": 400}


def shares(table: MatchTable, *scores: int) -> list[float]:
    return [float(share) for share in table.shares(np.array([scores], np.int32))[0]]


def slow_chance(scores: tuple[int, ...], changes: list[list[int]], target: int) -> list[float]:
    """Shares of the win by recursion; every change is more than 0 for somebody and 0 or more for all."""

    @cache
    def after(now: tuple[int, ...]) -> tuple[float, ...]:
        if max(now) >= target:
            best = [total == min(now) for total in now]
            return tuple(one / sum(best) for one in best)
        turned = [change[k:] + change[:k] for change in changes for k in range(len(change))]
        found = [after(tuple(a + b for a, b in zip(now, change, strict=True))) for change in turned]
        return tuple(sum(column) / len(found) for column in zip(*found, strict=True))

    return list(after(scores))


def test_two_players_by_hand() -> None:
    """One of two gets 10 points in every round, and 20 end the match: at 10 to 0 it is lost, or level and then even."""
    table = MatchTable(np.array([[10, 0]]), 20)
    assert shares(table, 0, 0) == pytest.approx([0.5, 0.5])
    assert shares(table, 10, 0) == pytest.approx([0.25, 0.75], abs=1e-5)
    assert shares(table, 0, 10) == pytest.approx([0.75, 0.25], abs=1e-5)
    assert shares(table, 10, 10) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("scores", [(0, 0), (13, 4), (29, 3), (7, 28)])
def test_two_players_agree_with_recursion(scores: tuple[int, int]) -> None:
    changes = [[3, 8], [0, 12], [5, 5], [1, 20]]
    table = MatchTable(np.array(changes), 30)
    assert shares(table, *scores) == pytest.approx(slow_chance(scores, changes, 30), abs=1e-5)


@pytest.mark.parametrize("scores", [(0, 0, 0), (13, 4, 9), (29, 3, 3), (7, 28, 20)])
def test_imagined_matches_of_three_agree_with_recursion(scores: tuple[int, int, int]) -> None:
    changes = [[3, 8, 4], [0, 12, 6], [5, 5, 9]]
    table = MatchTable(np.array(changes), 30)
    assert shares(table, *scores) == pytest.approx(slow_chance(scores, changes, 30), abs=0.09)


def test_a_large_target_is_imagined_and_agrees_with_the_grid() -> None:
    """The same match in points ten times as large, which no grid is made for."""
    changes = np.array([[3, 8], [0, 12], [-2, 5], [1, 20]])
    small, large = MatchTable(changes, 60), MatchTable(10 * changes, 600)
    for scores in ((0, 0), (20, 35), (50, 20), (-10, 5)):
        tenfold = tuple(10 * score for score in scores)
        assert shares(large, *tenfold) == pytest.approx(shares(small, *scores), abs=0.09)


def test_totals_do_not_fall_below_the_least_one() -> None:
    changes = np.array([[-10, 10], [10, -10], [6, 6]])
    bounded, free = MatchTable(changes, 40, least=0), MatchTable(changes, 40)
    assert shares(bounded, 0, 20)[0] < shares(free, 0, 20)[0]


def test_a_match_that_is_over_is_won_by_the_lowest_total() -> None:
    two, three = MatchTable(np.array([[1, 2]]), 10), MatchTable(np.array([[1, 2, 3]]), 10)
    assert shares(two, 12, 9) == [0, 1]
    assert shares(two, 11, 11) == [0.5, 0.5]
    assert shares(three, 4, 4, 10) == [0.5, 0.5, 0]
    assert two.utility(np.array([[3, 12]], np.int32)).tolist() == [[1, -1]]


def test_chances_do_not_depend_on_the_order_of_the_players_or_of_the_questions() -> None:
    table = MatchTable(np.random.default_rng(0).integers(0, 30, (50, 3)), 100)
    rows = np.array(list(permutations((10, 40, 75))), np.int32)
    found = table.shares(rows)
    assert found.sum(1) == pytest.approx(np.ones(6))
    by_total = np.stack([found[rows == total] for total in (10, 40, 75)])
    assert np.ptp(by_total, 1).max() < 0.09
    assert (np.diff(by_total.mean(1)) < 0).all()
    assert (table.shares(rows[::-1]) == found[::-1]).all()
    again = MatchTable(np.random.default_rng(0).integers(0, 30, (50, 3)), 100)
    assert (again.shares(rows[3:]) == found[3:]).all()


@pytest.mark.parametrize("players", [2, 3])
def test_points_that_are_not_known_yet_are_weighed(players: int) -> None:
    changes = np.random.default_rng(1).integers(0, 30, (50, players))
    table, points = MatchTable(changes, 100), np.array([0, 10, 25])
    likely = np.zeros((1, players, 3))
    likely[:, :, 1] = 1
    now = np.full((1, players), 30, np.int32)
    now[0, 0] = 60
    assert table.shares_after(now, points, likely) == pytest.approx(table.shares(now + 10))
    likely[0, 0] = [0.5, 0.0, 0.5]
    low, high = now + 10, now + 10
    low[0, 0], high[0, 0] = 60, 85
    expected = (table.shares(low) + table.shares(high)) / 2
    assert table.shares_after(now, points, likely) == pytest.approx(expected)


def test_chances_are_those_of_matches_between_bots() -> None:
    """In matches of four bots, standings with a chance of about p are won about p of the time."""
    table = fit_match_table("lama", 4, LAMA, bot="strategy_3")
    tables = env.make("lama", 1200, 4, "report", seed=3, auto_reset=False)
    bots = [tables.bot("strategy_3")] * 4
    for _ in range(2):
        tables.playout(bots, until="round")
    predicted = table.shares(tables.scores)
    tables.playout(bots)
    won = (tables.ranks == 1) / (tables.ranks == 1).sum(1, keepdims=True)
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1.0)):
        chosen = (predicted >= low) & (predicted < high)
        assert chosen.sum() > 150
        assert won[chosen].mean() == pytest.approx(predicted[chosen].mean(), abs=0.06)


# ---- in training ---------------------------------------------------------------------------------------------------


def settings() -> Config:
    overrides = ("game=lama", "game.players=3", "preset=smoke", "comparison=match", "+variant=belief")
    return compose_config(*overrides, "selfplay.pool.share=0", "game.training.max_decisions=400")


def test_the_end_of_a_round_pays_the_chance_to_win_the_match() -> None:
    torch.manual_seed(0)
    config = settings()
    worker, table = SelfPlay(config), match_table(config.game)
    assert table is not None
    replay = make_replay_buffer(config, worker.spec, "mover")
    played = worker.play(PlayRequest(0, 24, 0, 4, 1.0, OpponentMix(0.0, (0.5, 0.5, 0.0), 0.0)))
    starts = set()
    for episode, kind, points in zip(played.episodes, played.opponents, played.points, strict=True):
        starts.add(tuple(episode.scores[0].tolist()))
        assert not episode.rewards[:-1].any()
        if episode.truncated:
            continue
        utility = table.utility(episode.final_scores[None])[0]
        assert episode.rewards[-1] == pytest.approx(utility, abs=1e-6)
        gained = episode.final_scores - episode.scores[0]
        if kind >= 0:
            seat = int(np.flatnonzero(episode.has_policy[:, None] & (episode.to_play[:, None] == np.arange(3)))[0]) % 3
            best = gained == gained.min()
            assert points == pytest.approx(best[seat] / best.sum())
        replay.add(episode)
    assert len(starts) > 5
    batch = replay.sample(64, np.random.default_rng(0))
    ends = [episode.final_scores for episode in played.episodes if not episode.truncated]
    chances = {tuple(np.sort(shares).round(4)) for shares in table.shares(np.array(ends)).tolist()}
    told = {tuple(np.sort(row).round(4)) for row in batch.winner[:, 0][batch.outcome_mask[:, 0] > 0].tolist()}
    assert told <= chances, "the winner is that of the match, which may not be known yet"
    assert batch.winner[:, 0].sum(1)[batch.outcome_mask[:, 0] > 0] == pytest.approx(1.0)


def test_rewards_of_the_rules_stay_beside_the_chance() -> None:
    """Points and time are paid as before; a round that was cut off pays no chance."""
    rules = {**LAMA, "round_reward": 0.5, "time_penalty": 0.01, "max_decisions": 12}
    tables = env.make("lama", 64, 3, rules, seed=1, auto_reset=False)
    table = MatchTable(np.array([[3, 8, 4], [0, 12, 6]]), 40)
    ended = truncated = 0
    while not tables.done.all():
        before = tables.done.copy()
        tables.step(tables.sample_actions(2))
        paid = table.rewards(tables)
        over = tables.done & ~tables.truncated & ~before
        now = np.flatnonzero(over)
        won = (tables.ranks == 1) / (tables.ranks == 1).sum(1, keepdims=True)
        other = tables.rewards[now] - (2 * won[now] - 1)
        assert paid[now] == pytest.approx(other + table.utility(tables.scores[now]), abs=1e-5)
        rest = np.flatnonzero(~tables.done | tables.truncated)
        assert (paid[rest] == tables.rewards[rest]).all()
        ended += len(now)
        truncated += int((tables.truncated & ~before).sum())
    assert ended > 10
    assert truncated > 0


def test_rules_without_rounds_are_refused() -> None:
    whole = GameConfig(name="lama", players=3, rules={"preset": "report"}, utility="match")
    with pytest.raises(
        ValueError, match=r"game\.utility: expected round unless game\.training\.episode=round.*'match'"
    ):
        require_rounds(whole)
    with pytest.raises(ValueError, match=r"game\.utility: expected round for a game without matches.*'match'"):
        match_table(replace(whole, name="kuhn", players=2, rules={"preset": "official"}))
    assert match_table(replace(whole, utility="round")) is None


def test_bad_changes_are_refused() -> None:
    for changes, message in (([[0, 0]], "rounds that bring points"), ([[1], [2]], "two or more players")):
        with pytest.raises(ValueError, match=message):
            MatchTable(np.array(changes), 10)


def test_all_numbers_of_players_have_tables() -> None:
    for players, target in product((2, 5, 8), (20, 40)):
        table = fit_match_table("lama", players, {**LAMA, "target": target}, rounds=200)
        start = table.shares(np.zeros((1, players), np.int32))
        assert start == pytest.approx(np.full((1, players), 1 / players), abs=0.08)
