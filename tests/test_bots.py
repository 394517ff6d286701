"""Hand-written players: legal everywhere, as strong as they claim, strict about their parameters."""

from __future__ import annotations

import numpy as np
import pytest

import env
from tests.cases import CASES, Case

PAPER = ["greedy_value", "info_first", "column_hunter", "risk_aware", "end_round_aggro", "anti_discard"]
ALL = ["random", "naive", "threshold", "column_threshold", "greedy", *PAPER]

per_game = pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)


def win_rate(a: str, b: str, deals: int = 1500) -> float:
    """Share of rounds that a wins, draws half, each deal played twice with seats swapped."""
    tables = env.make("skyjo", rules={"episode": "round"}, seed=11)
    bots = [tables.bot(a), tables.bot(b)]
    there, back = (
        tables.play(bots, deals, seed=1).scores,
        tables.play(bots[::-1], deals, seed=2).scores[:, ::-1],
    )
    scores = np.concatenate([there, back])
    return float((scores[:, 0] < scores[:, 1]).mean() + (scores[:, 0] == scores[:, 1]).mean() / 2)


def test_the_list_is_complete() -> None:
    assert list(env.make("skyjo").bots) == ALL


@pytest.mark.parametrize("other", [name for name in ALL if name != "greedy"])
def test_greedy_beats_every_other(other: str) -> None:
    """The closest rival loses 60 % of the rounds; 3,000 rounds have a standard error below 1 %."""
    assert win_rate("greedy", other) > 0.55


@pytest.mark.parametrize("name", ["threshold", "column_threshold", *PAPER])
def test_sensible_players_beat_random_play(name: str) -> None:
    assert win_rate(name, "random", deals=300) > 0.95


def test_seeking_columns_helps_the_threshold_player() -> None:
    assert win_rate("column_threshold", "threshold", deals=4000) > 0.51


@per_game
def test_bots_are_legal_under_all_rules_and_every_round_ends(case: Case) -> None:
    """An illegal choice is an error of the core; the cap on decisions is not what ends a round."""
    single = {"episode": "round", "max_decisions": 100_000}
    for rules in case.rules.values():
        for players in (case.players[0], case.players[-1]):
            tables = env.make(case.game, 1, players, {**rules, **single}, seed=3)
            bots = [tables.bot(name) for name in tables.bots]
            for shift in range(len(bots)):
                seats = [bots[(seat + shift) % len(bots)] for seat in range(players)]
                assert not tables.play(seats, 4).truncated.any()


@per_game
def test_epsilon_is_the_share_of_random_moves(case: Case) -> None:
    tables = env.make(case.game, 20_000, seed=1)
    tables.random_steps(9)
    for name in tables.bots:
        own = tables.bot(name, seed=1).act(tables.obs, tables.legal)
        noisy = tables.bot(name, epsilon=0.5, seed=1).act(tables.obs, tables.legal)
        assert tables.legal[np.arange(20_000), noisy].all()
        assert tables.bot(name, epsilon=1, seed=1).act(tables.obs, tables.legal).tolist() != own.tolist()
        assert (own == noisy).mean() > 0.3


@per_game
def test_bots_act_on_rows_alone(case: Case) -> None:
    """The same rows give the same actions whatever is face down."""
    tables = env.make(case.game, 500, seed=1)
    tables.random_steps(20)
    rows, legal, seats = tables.obs.copy(), tables.legal.copy(), tables.to_play.copy()
    actions = {name: tables.bot(name, seed=5).act(rows, legal) for name in tables.bots}
    tables.determinize(seats, seed=3)
    for name, chosen in actions.items():
        assert tables.bot(name, seed=5).act(tables.obs, tables.legal).tolist() == chosen.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grandmaster", "skyjo has no bot 'grandmaster'.*greedy"),
        ("threshold(x=1)", "bot 'threshold' has no parameter 'x', only epsilon, t"),
        ("threshold(t=99)", "bot 'threshold', parameter 't': expected a number from -3 to 13, got 99"),
        ("threshold(epsilon=2)", "parameter 'epsilon': expected a number from 0 to 1"),
        ("threshold(t)", "expected parameter=number, got 't'"),
        ("threshold(t=2", r"expected NAME or NAME\(parameter=number"),
    ],
)
def test_bad_bots_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.make("skyjo").bot(text)


def test_bots_need_the_counts() -> None:
    with pytest.raises(ValueError, match="make the environment with counts=True"):
        env.make("skyjo", counts=False).bot("greedy")


def test_every_seat_needs_a_bot() -> None:
    tables = env.make("skyjo", num_players=3)
    with pytest.raises(ValueError, match="bots: expected one for each of 3 seats, got 2"):
        tables.play([tables.bot("random")] * 2, 1)
