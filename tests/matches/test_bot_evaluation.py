"""Evaluation against bots during training, and calibration of the winner head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Searcher, Situation
from muzero.config import Config, EvaluationConfig, GameConfig, SearchConfig
from muzero.matches.bot_evaluation import WinnerCheck, evaluate_bots, summary
from muzero.matches.games import Games
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec

ROUND = {"episode": "round"}


SEED = 7


def games_of(won: list[float]) -> Games:
    n = len(won)
    numbers = np.arange(n, dtype=np.float64), np.full(n, 4.0), np.arange(n) == 0, np.full(n, 30)
    return Games(
        np.array(won), *numbers, np.arange(n) // 2, np.arange(n) % 2, np.zeros((n, 2), int), np.zeros((n, 0), int)
    )


def test_summary_equals_values_by_hand() -> None:
    found = summary(games_of([1.0, 0.5, 0.0, 1.0]))
    expected = {"win_rate": 0.625, "games": 4, "score_difference": 2.5, "score": 1.5, "length": 30, "truncated": 0.25}
    assert {name: found[name] for name in expected} == expected
    assert 0 < found["wilson_low"] < 0.5 < 0.75 < found["wilson_high"] < 1


def test_calibration_equals_values_by_hand() -> None:
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


def test_every_bot_is_played_and_the_winner_head_is_scored() -> None:
    """The mean win rate is over the curriculum's bots only."""
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


def test_the_winner_head_is_judged_on_episodes_as_in_training() -> None:
    """A network that is trained on rounds predicts who wins a round; evaluation plays whole matches."""
    match = {"preset": "official", "target": 200}
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


def test_the_winner_check_reads_the_chance_of_the_player_to_move() -> None:
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 3), load_model_config("tiny", "belief")).eval()
    tables = env.make("skyjo", 200, 3, ROUND, SEED)
    tables.random_steps(9)
    check, alone = WinnerCheck(network), WinnerCheck(network)
    check(Situation.at(tables, np.arange(3, 200)))
    for row in range(3, 200):  # the sample does not depend on the other tables
        alone(Situation.at(tables, np.array([row])))
    rows = check.rows[0]
    assert np.concatenate(alone.rows).tolist() == rows.tolist()
    assert 10 <= len(rows) <= 45
    with torch.inference_mode():
        latent = network.represent(torch.from_numpy(tables.obs[rows]))
        predicted = network.predict(latent, torch.zeros(len(rows), dtype=torch.int64)).winner
    assert predicted is not None
    chances: NDArray[np.float32] = predicted[:, 0].softmax(-1)[:, 0].numpy()
    assert check.chances[0] == pytest.approx(chances, abs=1e-5)


def test_evaluations_play_deals_of_their_own_and_further_opponents() -> None:
    rules = {"preset": "official", "max_decisions": 80, **ROUND}  # untrained policies may go on for ever
    game = GameConfig("skyjo", rules=rules, bots=["random"], held_out_bots=[])
    search = SearchConfig(simulations=0)
    config = Config(game=game, model=load_model_config("tiny", "baseline"), evaluation=EvaluationConfig(games=6))
    torch.manual_seed(0)
    agent = Searcher(Network(GameSpec.of("skyjo", 3), config.model).eval(), search, 8)
    other = Searcher(Network(GameSpec.of("skyjo", 3), config.model).eval(), search, 8)
    found = [evaluate_bots(agent, config, {"other": other}, number=number) for number in (0, 1, 1)]
    assert list(found[0]["evaluation"]) == ["random", "other"]
    assert found[0]["evaluation"]["random"]["games"] == 6, "two deals at a table for the agent's three players"
    assert found[1] == found[2] != found[0]
    assert found[0]["mean_win_rate"] == found[0]["evaluation"]["random"]["win_rate"], "of the curriculum's bots alone"
