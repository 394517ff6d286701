"""muzero.evaluate and muzero.matches.bot_evaluation: paired deals, every seat, shares of the win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Agent, Bot, Searcher, Situation
from muzero.config import Config, EvaluationConfig, GameConfig, SearchConfig
from muzero.matches.bot_evaluation import WinnerCheck, evaluate_bots, summary
from muzero.matches.paired_games import Games, against_each
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec

ROUND = {"episode": "round"}
SEED, DEALS = 7, 12


def rows(games: Games) -> list[tuple[float, ...]]:
    return list(zip(games.won, games.scores_a, games.scores_b, games.truncated, games.decisions, strict=True))


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_bot_against_itself_is_symmetric_on_each_deal(players: int) -> None:
    """Every deal is one game, seen once from each seat; and it is the game that the core plays."""
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
    """The same deals against each, and the same games as against each alone."""
    names = ["random", "greedy", "threshold(t=2)"]
    opponents = [Bot(name) for name in names]
    together = against_each(Bot("greedy"), opponents, DEALS, game="skyjo", players=3, rules=ROUND, seed=SEED)
    for opponent, games in zip(opponents, together, strict=True):
        (alone,) = against_each(Bot("greedy"), [opponent], DEALS, game="skyjo", players=3, rules=ROUND, seed=SEED)
        assert rows(alone) == rows(games)
    assert rows(together[0]) != rows(together[1])


def test_the_first_agent_sits_in_each_seat_and_alone() -> None:
    tables = env.make("skyjo", 1, 3, ROUND, SEED)
    good, bad = tables.bot("greedy"), tables.bot("random")
    (games,) = against_each(Bot("greedy"), [Bot("random")], DEALS, game="skyjo", players=3, rules=ROUND, seed=SEED)
    for seat in range(3):
        records = tables.play([good if s == seat else bad for s in range(3)], DEALS)
        assert games.scores_a[seat::3].tolist() == records.scores[:, seat].tolist()
    assert games.win_rate > 0.6


@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("players", [2, 3])
def test_games_inside_the_core_are_those_played_step_by_step(game: str, players: int) -> None:
    """Bots with randomness of their own; a watcher makes the games go step by step."""
    players = min(players, env.describe(game).max_players)
    first, *others = [Bot(f"{name}(epsilon=0.2)") for name in list(env.make(game, 1, players).bots)[:3]]

    def play(watch: Callable[[Situation], None] | None) -> list[Games]:
        return against_each(first, others, 9, game=game, players=players, seed=SEED, first_deal=4, watch=watch)

    for inside, stepped in zip(play(None), play(lambda situation: None), strict=True):
        for name, array in vars(stepped).items():
            assert getattr(inside, name).dtype == array.dtype, name
            assert (getattr(inside, name) == array).all(), name


def test_copies_of_a_bot_with_seeds_of_their_own_differ() -> None:
    """Which the core cannot play by itself; with the same seed each deal is one game, seen from both seats."""
    name = "greedy(epsilon=0.3)"
    (same,) = against_each(Bot(name), [Bot(name)], 20, game="skyjo", rules=ROUND, seed=SEED)
    assert (same.won.reshape(-1, 2).sum(1) == 1).all()
    (other,) = against_each(Bot(name, seed=1), [Bot(name, seed=2)], 20, game="skyjo", rules=ROUND, seed=SEED)
    assert (other.won.reshape(-1, 2).sum(1) != 1).any()


def test_first_deal_and_seed_name_the_deals() -> None:
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


def test_games_that_are_cut_off_are_marked() -> None:
    (games,) = against_each(
        Bot("greedy"), [Bot("greedy")], 3, game="skyjo", rules={**ROUND, "max_decisions": 9}, seed=SEED
    )
    assert games.truncated.all()
    assert (games.decisions == 9).all()
    assert not against_each(Bot("greedy"), [Bot("greedy")], 3, game="skyjo", rules=ROUND)[0].truncated.any()


def test_a_watcher_is_told_of_the_first_agents_decisions() -> None:
    seen: list[tuple[int, int]] = []

    def watch(situation: Situation) -> None:
        seen.extend(zip(situation.rows.tolist(), situation.to_play.tolist(), strict=True))

    (games,) = against_each(Bot("greedy"), [Bot("greedy")], 4, game="skyjo", players=3, rules=ROUND, watch=watch)
    assert {seat for _, seat in seen} == {0, 1, 2}
    assert all(seat == row % 3 for row, seat in seen)
    assert len(seen) == games.decisions[::3].sum()  # of three games with the same moves, each seat's once


class Thoughtful:
    """A bot that is asked as a network is, when it pays; notes how many tables waited for it, and for anybody."""

    def __init__(self, name: str) -> None:
        self.name, self._bot = name, Bot(name)
        self.asked: list[tuple[int, int]] = []

    def act(self, situation: Situation) -> NDArray[np.int64]:
        self.asked.append((len(situation.rows), int((~situation.tables.done).sum())))
        return self._bot.act(situation)


def test_who_thinks_is_asked_when_most_tables_wait() -> None:
    def play(a: Agent, b: Agent) -> Games:
        return against_each(a, [b], 20, game="skyjo", rules=ROUND, seed=SEED)[0]

    expected, a, b = play(Bot("greedy"), Bot("naive")), Thoughtful("greedy"), Thoughtful("naive")
    assert rows(play(a, Bot("naive"))) == rows(expected)
    assert all(waiting == open_ for waiting, open_ in a.asked), "bots have acted before"
    a.asked.clear()
    assert rows(play(a, b)) == rows(expected)
    assert all(2 * waiting >= open_ for waiting, open_ in a.asked + b.asked)


def games_of(won: list[float]) -> Games:
    n = len(won)
    numbers = np.arange(n, dtype=np.float64), np.full(n, 4.0), np.arange(n) == 0, np.full(n, 30)
    return Games(
        np.array(won), *numbers, np.arange(n) // 2, np.arange(n) % 2, np.zeros((n, 2), int), np.zeros((n, 0), int)
    )


def test_summary_by_hand() -> None:
    found = summary(games_of([1.0, 0.5, 0.0, 1.0]))
    expected = {"win_rate": 0.625, "games": 4, "score_difference": 2.5, "score": 1.5, "length": 30, "truncated": 0.25}
    assert {name: found[name] for name in expected} == expected
    assert 0 < found["wilson_low"] < 0.5 < 0.75 < found["wilson_high"] < 1


def test_calibration_by_hand() -> None:
    check = WinnerCheck(None)  # type: ignore[arg-type]
    check.rows = [np.array([0, 1]), np.array([1, 2])]
    check.chances = [np.array([0.1, 0.9], np.float32), np.array([1.0, 0.12], np.float32)]
    found = check.report(np.array([0.0, 1.0, 0.5]))
    assert found["brier"] == pytest.approx((0.01 + 0.01 + 0 + 0.38**2) / 4)
    outcomes = [0, 1, 1, 0.5]
    assert found["brier_of_the_mean"] == pytest.approx(sum((0.625 - outcome) ** 2 for outcome in outcomes) / 4)
    reliability = found["reliability"]
    assert reliability["count"] == [2, 2]
    assert reliability["predicted"] == pytest.approx([0.11, 0.95])
    assert reliability["won"] == pytest.approx([0.25, 1.0])


def test_bot_evaluation() -> None:
    """Each bot of the configuration, its mean over those of the curriculum, and a check of the winner head."""
    config = Config(
        game=GameConfig(
            "skyjo", rules={"preset": "official", **ROUND}, bots=["random", "greedy"], held_out_bots=["threshold"]
        ),
        model=load_model_config("tiny", "belief"),
        search=SearchConfig(simulations=2, max_considered=2),
        evaluation=EvaluationConfig(games=6),
    )
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 2), config.model).eval()
    agent = Searcher(network, config.search, 8)
    found = evaluate_bots(agent, config)
    assert list(found["evaluation"]) == ["random", "greedy", "threshold"]
    assert [figures["games"] for figures in found["evaluation"].values()] == [6, 6, 6]
    rates = [figures["win_rate"] for figures in found["evaluation"].values()]
    assert found["mean_win_rate"] == pytest.approx(np.mean(rates[:2]))
    assert 0 <= found["calibration"]["brier"] <= 1
    assert sum(found["calibration"]["reliability"]["count"]) > 18
    assert evaluate_bots(agent, config) == found  # the same deals every time


def test_the_winner_head_is_judged_by_what_it_learned_to_predict() -> None:
    """A network that trains on rounds knows who wins a round; evaluation plays matches."""
    match = {"preset": "official", "target": 500}
    game = GameConfig("skyjo", rules=match, training=ROUND, bots=["greedy"], held_out_bots=[])
    config = Config(
        game=game,
        model=load_model_config("tiny", "belief"),
        search=SearchConfig(simulations=2, max_considered=2),
        evaluation=EvaluationConfig(games=2),
    )
    torch.manual_seed(0)
    agent = Searcher(Network(GameSpec.of("skyjo", 2), config.model).eval(), config.search, 8)
    matches = evaluate_bots(agent, config)
    rounds = evaluate_bots(agent, replace(config, game=replace(game, rules=match | ROUND)))
    assert matches["evaluation"]["greedy"]["length"] > 2 * rounds["evaluation"]["greedy"]["length"]
    assert matches["calibration"] == rounds["calibration"]


def test_the_winner_check_reads_the_movers_own_chance() -> None:
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 3), load_model_config("tiny", "belief")).eval()
    tables = env.make("skyjo", 200, 3, ROUND, SEED)
    tables.random_steps(9)
    check, alone = WinnerCheck(network), WinnerCheck(network)
    check(Situation.at(tables, np.arange(3, 200)))
    for row in range(3, 200):  # whoever plays on alone is asked no more often
        alone(Situation.at(tables, np.array([row])))
    rows = check.rows[0]
    assert np.concatenate(alone.rows).tolist() == rows.tolist()
    assert 10 <= len(rows) <= 45
    with torch.inference_mode():
        latent = network.represent(torch.from_numpy(tables.obs[rows]))
        said = network.predict(latent, torch.zeros(len(rows), dtype=torch.int64)).winner
    assert said is not None
    chances: NDArray[np.float32] = said[:, 0].softmax(-1)[:, 0].numpy()
    assert check.chances[0] == pytest.approx(chances, abs=1e-5)
