"""Value functions for luck adjustment: what they read, how they are fitted, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import env
from muzero.agents.agent_spec import load_value_model
from muzero.agents.value_model import (
    COMPONENTS,
    PublicFeatures,
    ValueModel,
    fit_value_model,
    margins,
    win_shares,
)
from tests.agents.untrained_run import save_untrained_run

WIN, SCORE = COMPONENTS.index("win"), COMPONENTS.index("score")


def judged(model: ValueModel, game: str, players: int, rules: env.Rules) -> tuple[NDArray[np.float64], env.VecEnv]:
    """Values [n, P, C] in the middle of games of bots, and the tables once these games are over."""
    tables = env.make(game, 400, players, rules, seed=5, auto_reset=False)
    bots = [tables.bot(tables.default_bot)] * players
    half = int(tables.play(bots, 50).stats["decisions"].mean() / 2)
    for _ in range(half):
        tables.step(tables.bot_actions(bots))
    values = model.values(tables, np.arange(400))
    tables.playout(bots)
    return values, tables


@pytest.mark.parametrize(("game", "players"), [("skyjo", 2), ("skyjo", 4), ("lama", 2), ("skipbo", 3)])
def test_linear_values_predict_results_of_other_games(game: str, players: int) -> None:
    rules = {"episode": "round"} if game == "skyjo" else {}
    model = fit_value_model(PublicFeatures(env.describe(game, players, rules)), game, players, rules, games=600)
    values, tables = judged(model, game, players, rules)
    assert values[:, :, WIN].sum(1) == pytest.approx(np.ones(400))
    assert values[:, :, WIN].min() >= 0
    won, margin = win_shares(tables.ranks), margins(tables.scores)
    assert np.corrcoef(values[:, :, WIN].ravel(), won.ravel())[0, 1] > 0.15
    assert np.corrcoef(values[:, :, SCORE].ravel(), margin.ravel())[0, 1] > 0.15


def test_values_of_finished_games_are_their_results() -> None:
    model = load_value_model("linear", "skyjo", 2, {"episode": "round", "target": 50})
    tables = env.make("skyjo", 50, 2, {"episode": "round", "target": 50}, seed=1, auto_reset=False)
    tables.playout([tables.bot("greedy"), tables.bot("naive")])
    values = model.values(tables, np.arange(50))
    for number in range(3):
        assert (values[:, :, number] == win_shares(tables.ranks)).all()
    assert values[:, :, SCORE] == pytest.approx(margins(tables.scores) / 100)


def test_win_shares_and_margins_by_hand() -> None:
    ranks = np.array([[1, 2, 3], [1, 1, 3]], np.int8)
    assert win_shares(ranks).tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    assert margins(np.array([[10, 20, 60]], np.int32)).tolist() == [[30, 15, -45]]


def test_a_better_player_has_a_better_chance_at_the_same_position() -> None:
    model = load_value_model("linear", "skyjo", 2, {"target": 50})
    tables = env.make("skyjo", 100, 2, {"target": 50}, seed=2, auto_reset=False)
    values = model.values(tables, np.arange(100))
    assert (values[:, :, 1] > values[:, :, 0]).all()
    assert (values[:, :, 0] > values[:, :, 2]).all()


def test_networks_give_values_by_seat(tmp_path: Path) -> None:
    run = save_untrained_run(tmp_path / "run")
    model = load_value_model(f"policy:{run}", "skyjo", 2, {"episode": "round"})
    tables = env.make("skyjo", 64, 2, {"episode": "round"}, seed=3, auto_reset=False)
    tables.random_steps(20)
    rows = np.arange(64)
    values = model.values(tables, rows)
    assert values.shape == (64, 2, len(COMPONENTS))
    assert values[:, :, WIN].sum(1) == pytest.approx(np.ones(64))
    some = np.array([40, 3, 17])
    assert model.values(tables, some) == pytest.approx(values[some], abs=1e-5), "a row's value depends on no other row"


def test_fitting_is_deterministic() -> None:
    features = PublicFeatures(env.describe("lama"))
    first, second = (fit_value_model(features, "lama", 2, {}, games=64) for _ in range(2))
    assert (first.weights == second.weights).all()
    assert (first.slopes == second.slopes).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "luck: expected linear, or an agent with a network"),
        ("bot:greedy", "luck: expected linear, or an agent with a network"),
        ("agent:nobody", "agent 'agent:nobody': expected one of"),
        ("agent:skyjo-belief", "game: expected lama"),
    ],
)
def test_bad_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_value_model(text, "lama", 2, {})
