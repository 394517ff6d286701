"""muzero.selfplay.opponents: how often each kind is met, which bots fade, and which networks are kept."""

from __future__ import annotations

import json

import numpy as np
import pytest

from muzero.config import CurriculumConfig, PoolConfig
from muzero.selfplay.opponents import BOT_VS_BOT, NEVER, PAST_SELF, SELF, Curriculum, OpponentMix, Pool


def test_each_kind_of_opponent_is_met_as_often_as_the_mix_says() -> None:
    opponents = OpponentMix(0.2, (0.1, 0.0, 0.3), 0.15)
    kinds = np.array([opponents.draw((5, deal)) for deal in range(10000)])
    expected = {SELF: 0.25, PAST_SELF: 0.2, 0: 0.1, 1: 0.0, 2: 0.3, BOT_VS_BOT: 0.15}
    assert set(kinds) <= expected.keys()
    for kind, share in expected.items():
        assert (kinds == kind).mean() == pytest.approx(share, abs=0.02), kind


def test_the_same_key_draws_the_same_opponent() -> None:
    opponents = OpponentMix(0.5, (0.25,))
    first, again = ([opponents.draw((1, deal)) for deal in range(200)] for _ in range(2))
    assert first == again
    assert first != [opponents.draw((2, deal)) for deal in range(200)]


def test_a_probability_of_one_leaves_no_other_opponent() -> None:
    assert {OpponentMix(0.0, ()).draw((0, deal)) for deal in range(100)} == {SELF}
    assert {OpponentMix(1.0, (0.0,)).draw((0, deal)) for deal in range(100)} == {PAST_SELF}
    assert {OpponentMix(0.0, (0.0, 1.0)).draw((0, deal)) for deal in range(100)} == {1}


def test_the_network_sits_at_one_seat_and_its_opponent_at_the_others() -> None:
    opponents = OpponentMix(0.2, (0.1, 0.0, 0.3), 0.15)
    assert opponents.seat(SELF, 1, 3, (5, 0)) == [SELF] * 3
    assert opponents.seat(PAST_SELF, 1, 3, (5, 0)) == [PAST_SELF, SELF, PAST_SELF]
    assert opponents.seat(2, 0, 2, (5, 0)) == [SELF, 2]
    drawn = np.array([opponents.seat(BOT_VS_BOT, 0, 2, (5, deal)) for deal in range(3000)])
    for first in range(3):
        for second in range(3):
            assert (drawn == (first, second)).all(1).mean() == pytest.approx(1 / 9, abs=0.02)
    assert drawn.tolist() == [opponents.seat(BOT_VS_BOT, 0, 2, (5, deal)) for deal in range(3000)]


def test_games_of_bots_are_taken_over_after_a_geometric_number_of_decisions() -> None:
    opponents = OpponentMix(0.0, (0.5,), 0.5, 40.0)
    points = [opponents.takeover_decision(BOT_VS_BOT, (5, deal)) for deal in range(4000)]
    assert np.mean(points) == pytest.approx(40, abs=2.5)
    assert min(points) == 1
    assert (np.array(points) > 80).mean() == pytest.approx((1 - 1 / 40) ** 80, abs=0.02)
    assert points == [opponents.takeover_decision(BOT_VS_BOT, (5, deal)) for deal in range(4000)]
    assert {opponents.takeover_decision(kind, (5, 0)) for kind in (SELF, PAST_SELF, 0)} == {NEVER}
    assert OpponentMix(0.0, (0.5,), 0.5).takeover_decision(BOT_VS_BOT, (5, 0)) == NEVER


def test_bots_play_each_other_while_one_of_them_is_hard_to_beat() -> None:
    watching = Curriculum(CurriculumConfig(share=0.3, goal=0.8, games_averaged=10, bot_vs_bot=0.2), ["a", "b"])
    assert watching.bot_vs_bot() == pytest.approx(0.2)
    note(watching, 0, 1.0, 100)
    assert watching.bot_vs_bot() == pytest.approx(0.2)
    note(watching, 1, 0.6, 200)
    assert watching.bot_vs_bot() == pytest.approx(0.2 * (0.8 - 0.6) / 0.8 * 2)
    note(watching, 1, 1.0, 100)
    assert watching.bot_vs_bot() == pytest.approx(0.2 * 0.02)
    assert Curriculum(CurriculumConfig(bot_vs_bot=0.2), []).bot_vs_bot() == 0


def curriculum(games_averaged: int = 10) -> Curriculum:
    return Curriculum(CurriculumConfig(share=0.3, goal=0.8, games_averaged=games_averaged), ["a", "b", "c"])


def note(to: Curriculum, bot: int, points: float, games: int, players: int = 2) -> None:
    for _ in range(games):
        to.note(bot, points, players)


def test_the_share_of_games_against_bots_is_split_evenly_at_first() -> None:
    assert curriculum().shares() == pytest.approx((0.1, 0.1, 0.1))
    assert Curriculum(CurriculumConfig(share=0.3), []).shares() == ()


def test_a_bot_is_met_less_often_near_the_goal_and_returns_when_it_wins() -> None:
    c = curriculum()
    note(c, 1, 1.0, 9)
    assert c.shares() == pytest.approx((0.1, 0.1, 0.1))  # nine games prove nothing yet
    note(c, 1, 1.0, 1)
    assert c.shares() == pytest.approx((0.3 / 2.02, 0.3 * 0.02 / 2.02, 0.3 / 2.02))  # the others get its share
    c.rates[1] = 0.6  # a quarter below the goal of 0.8: needed half as much
    assert c.shares() == pytest.approx((0.12, 0.06, 0.12))
    c.rates[1] = 0.4  # half of it
    assert c.shares() == pytest.approx((0.1, 0.1, 0.1))
    c.rates[1] = 0.8
    assert 0 < c.shares()[1] < 0.003
    other = curriculum()
    for bot in range(3):
        note(other, bot, 0.7, 10)  # an eighth below
    assert other.shares() == pytest.approx((0.025, 0.025, 0.025))  # all fade together
    for deal in range(20_000):  # by chance it is met again, and wins
        if OpponentMix(0.0, c.shares()).draw((3, deal)) == 1:
            c.note(1, 0.0)
    assert c.shares()[1] == pytest.approx(0.1)


def test_win_rates_are_means_at_first_and_running_averages_later() -> None:
    c = curriculum(games_averaged=4)
    for points in (1.0, 0.0, 0.5):
        c.note(0, points)
    assert c.rates == pytest.approx([0.5, 0.0, 0.0])
    assert c.games == [3, 0, 0]
    note(c, 0, 1.0, 2)  # the fourth and the fifth count a quarter each
    assert c.rates[0] == pytest.approx((0.5 * 0.75 + 0.25) * 0.75 + 0.25)


def test_win_rates_are_scaled_to_two_players() -> None:
    c = curriculum()
    note(c, 0, 0.4, 10, players=4)  # of four players a share of 0.4 is as much as 0.8 of two
    assert c.rates[0] == pytest.approx(0.8)
    assert c.shares()[0] < 0.003
    note(c, 1, 0.25, 10, players=4)
    assert c.rates[1] == pytest.approx(0.5)


def test_a_restored_curriculum_continues_and_refuses_other_bots() -> None:
    c, other = curriculum(), curriculum()
    note(c, 0, 0.75, 12)
    note(c, 2, 0.5, 3)
    other.load(json.loads(json.dumps(c.state())))
    assert (other.rates, other.games, other.shares()) == (c.rates, c.games, c.shares())
    c.note(0, 0.0)
    assert other.games[0] == 12
    with pytest.raises(ValueError, match=r"curriculum: the checkpoint has the bots \['a', 'b', 'c'\].*\['a'\]"):
        Curriculum(CurriculumConfig(), ["a"]).load(c.state())


def test_the_pool_takes_a_member_every_few_iterations() -> None:
    assert [i for i in range(13) if Pool(PoolConfig(every=4)).wants(i)] == [4, 8, 12]
    assert not any(Pool(PoolConfig(share=0.0, every=4)).wants(i) for i in range(13))


@pytest.mark.parametrize(
    "size",
    [1, 2, 3, 4, 7, 20],
)
def test_the_pool_keeps_its_size_and_the_newest_member(size: int) -> None:
    pool = Pool(PoolConfig(every=1, size=size))
    for iteration in range(1, 200):
        pool.add(iteration)
        assert len(pool.members) <= size
        assert pool.members[-1] == iteration
        assert pool.members == sorted(set(pool.members))


def test_the_pool_keeps_members_of_all_ages() -> None:
    pool = Pool(PoolConfig(every=1, size=20))
    for iteration in range(1, 501):
        pool.add(iteration)
    members = np.array(pool.members)
    assert members[0] == 1
    assert len(members) > 10
    assert (members < 250).sum() >= 3


def test_members_of_the_pool_are_drawn_uniformly() -> None:
    pool, rng = Pool(PoolConfig()), np.random.default_rng(0)
    assert pool.draw(rng) is None
    pool.members = [3, 9, 12]
    drawn = [pool.draw(rng) for _ in range(3000)]
    assert set(drawn) == {3, 9, 12}
    assert [drawn.count(member) / 3000 for member in pool.members] == pytest.approx([1 / 3] * 3, abs=0.04)
