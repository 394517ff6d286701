"""Hand-written players: legal everywhere, as strong as they claim, strict about their parameters."""

from __future__ import annotations

import numpy as np
import pytest

import env
from tests.env.cases import CASES, Case, Rules

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


def test_skyjo_has_the_documented_bots() -> None:
    assert list(env.make("skyjo").bots) == ALL


@pytest.mark.parametrize("other", [name for name in ALL if name != "greedy"])
def test_greedy_beats_every_other_bot(other: str) -> None:
    """The closest rival loses 60 % of the rounds; 3,000 rounds have a standard error below 1 %."""
    assert win_rate("greedy", other) > 0.55


@pytest.mark.parametrize("name", ["threshold", "column_threshold", *PAPER])
def test_sensible_bots_beat_random_play(name: str) -> None:
    assert win_rate(name, "random", deals=300) > 0.95


def test_seeking_columns_helps_the_threshold_bot() -> None:
    assert win_rate("column_threshold", "threshold", deals=4000) > 0.51


@per_game
def test_bots_are_legal_under_all_rules_and_every_round_ends(case: Case) -> None:
    """An illegal choice is an error of the core; the cap on decisions is not what ends a round."""
    single: Rules = {"max_decisions": 100_000}
    if "episode" in env.describe(case.game).rule_values:
        single["episode"] = "round"
    for rules in case.rules.values():
        for players in (case.players[0], case.players[-1]):
            tables = env.make(case.game, 1, players, {**rules, **single}, seed=3)
            bots = [tables.bot(name) for name in tables.bots]
            for shift in range(len(bots)):
                seats = [bots[(seat + shift) % len(bots)] for seat in range(players)]
                assert (tables.play(seats, 4).stats["decisions"] < single["max_decisions"]).all()


@per_game
@pytest.mark.parametrize("epsilon", [0.2, 0.6])
def test_epsilon_is_the_share_of_random_moves(case: Case, epsilon: float) -> None:
    """A bot that is sure of an action (the same for all its seeds) chooses another in epsilon (1 - 1/n) of cases."""
    N = 20_000
    tables = env.make(case.game, N, seed=1)
    tables.random_steps(9)
    for name in tables.bots:
        plain = [tables.bot(name, seed=seed).act(tables.obs, tables.legal) for seed in range(8)]
        sure = np.all([p == plain[0] for p in plain], axis=0) & (tables.legal.sum(1) > 1)
        if sure.sum() < 1000:
            continue  # a bot that is never sure has nothing to depart from
        noisy = tables.bot(name, epsilon=epsilon, seed=99).act(tables.obs, tables.legal)
        assert tables.legal[np.arange(N), noisy].all()
        expected = (epsilon * (1 - 1 / tables.legal.sum(1)))[sure].mean()
        assert (noisy != plain[0])[sure].mean() == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(sure.sum())), name


@per_game
def test_bots_see_nothing_but_observations(case: Case) -> None:
    """The same rows give the same actions, whatever the hidden cards are."""
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


def test_a_bot_belongs_to_its_game_and_number_of_players() -> None:
    three = env.make("skyjo", num_players=3).bot("greedy")
    two = env.make("skyjo")
    with pytest.raises(ValueError, match="a bot for skyjo with 3 players cannot play skyjo with 2"):
        two.play([three, three], 1)
    with pytest.raises(ValueError, match="a bot for skyjo with 3 players cannot play skyjo with 2"):
        two.bot_actions([three, None])


def test_rows_that_are_no_observations_are_refused() -> None:
    tables = env.make("skyjo", 4)
    bot = tables.bot("greedy")
    junk = tables.obs.copy()
    junk[2, 3] = 99
    with pytest.raises(ValueError, match=r"row 2: board.value: expected 0 to 15, got 99"):
        bot.act(junk, tables.legal)
    with pytest.raises(ValueError, match="row 0: obs and legal do not belong together"):
        tables.bot("naive").act(tables.obs, np.roll(tables.legal, 7, axis=1))
    assert bot.act(tables.obs[:0], tables.legal[:0]).shape == (0,)
    assert tables.play([bot, bot], 0).scores.shape == (0, 2)


def decisions(name: str, phase: int, count: int = 4000) -> tuple[env.VecEnv, np.ndarray, np.ndarray]:
    """Tables in the middle of rounds between greedy players, those in `phase`, and what a bot does there."""
    tables = env.make("skyjo", count, rules={"episode": "round"}, seed=5)
    greedy = tables.bot("greedy", epsilon=0.3)
    for _ in range(25):
        tables.step(tables.bot_actions([greedy, greedy]))
    rows = np.flatnonzero(tables.phase == phase)
    return tables, rows, tables.bot(name).act(tables.obs, tables.legal)[rows]


def test_the_papers_bots_differ_as_their_names_say() -> None:
    """Each bot decides differently from the plain value bot, in the direction that its name suggests."""
    rate = {}
    for name in PAPER:
        _, _, source = decisions(name, phase=0)
        _, _, keep = decisions(name, phase=1)
        rate[name] = ((source == 1).mean(), (keep == 3).mean())  # takes the discard, discards what it drew
    plain = rate["greedy_value"]
    assert rate["info_first"][1] > plain[1] + 0.05, "turns cards over rather than replacing"
    assert rate["risk_aware"][1] > plain[1], "keeps less"
    assert rate["anti_discard"][0] < plain[0], "takes less from the discard pile"
    assert len({tuple(np.round(pair, 3)) for pair in rate.values()}) == len(PAPER)


@pytest.mark.parametrize("game", env.games())
def test_bots_chosen_for_each_table_act_as_they_do_in_all_seats(game: str) -> None:
    """The same actions with the same randomness as if each bot played everywhere; a negative number is no bot."""
    tables = env.make(game, 64, 2, seed=3, auto_reset=False)
    bots = [tables.bot(name, epsilon=0.3) for name in tables.bots]
    choice = np.random.default_rng(0)
    for step in range(20):
        chosen = choice.integers(-2, len(bots), 64).astype(np.int8)
        expected = np.full(64, env.SKIP, np.int64)
        for number, bot in enumerate(bots):
            expected = np.where(chosen == number, tables.bot_actions([bot, bot], step), expected)
        assert tables.bot_actions(bots, step, chosen=chosen).tolist() == expected.tolist()
        tables.step(tables.sample_actions(step))
    assert tables.bot_actions(bots, chosen=np.full(64, -1)).tolist() == [env.SKIP] * 64


def test_a_number_that_no_bot_has_is_refused() -> None:
    tables = env.make("skyjo", 2)
    with pytest.raises(
        ValueError, match="chosen: table 1: expected the number of one of 1 bots, or less than 0, got 1"
    ):
        tables.bot_actions([tables.bot("random")], chosen=[0, 1])
    with pytest.raises(ValueError, match="one for each of 2 seats"):
        tables.bot_actions([tables.bot("random")])
