"""Runs of proximal policy optimisation: the same directory, checkpoints, metrics and agents as other runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import env
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.loading import load_agent
from muzero.agents.situation import Situation
from muzero.arena.analysis import Analyst, Position
from muzero.matches.api import play_match
from muzero.runs import checkpoint, metrics
from muzero.runs.report import main as report
from muzero.training.ppo import PPO_LOSSES
from tests.composing import compose_config
from tests.training.processes import TINY, Run, result, same

pytestmark = pytest.mark.xdist_group("runs")  # one process has the fork server

PPO = [word for word in TINY if "simulations" not in word and not word.startswith("+variant")]
PPO += ["+variant=ppo", "ppo.minibatch=64", "ppo.epochs=2"]
PPO += ["game.training.max_decisions=100"]  # untrained policies may go on for ever


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of an uninterrupted run."""
    return Run(tmp_path_factory.mktemp("ppo"), settings=PPO).done().path


def test_run_logs_evaluates_and_saves_as_others_do(trained: Path, tmp_path: Path) -> None:
    records = metrics.read(trained)
    assert [record["iteration"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert set(records[0]["losses"]) == {*PPO_LOSSES, "total", "gradient", "td_error", "explained_variance"}
    assert records[-1]["losses"]["entropy"] > 0.1
    steps = [record["diagnostics"]["steps"] for record in records]
    assert steps[0] >= 4
    assert all(np.diff(steps) >= 4), "two epochs of at least two minibatches"
    assert [record["iteration"] for record in records if "evaluation" in record] == [2, 4, 6]
    assert {"value_rmse", "episode_length", "policy_entropy"} <= records[-1]["diagnostics"].keys()
    assert "replay_fill" not in records[-1]["diagnostics"]
    timings = metrics.read(trained, metrics.TIMINGS)
    assert timings[-1]["speed"]["steps"] > 0
    saved = checkpoint.load(checkpoint.checkpoints(trained)[-1])
    assert (saved.agent["algorithm"], saved.agent["search"]["simulations"]) == ("ppo", 0)
    assert sorted(saved.arrays) == ["selfplay"], "nothing is kept of the games that have been learned from"
    assert report([str(trained), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure5_win_rate.png").exists()


def test_same_command_gives_the_same_bytes_and_interruptions_change_nothing(trained: Path, tmp_path: Path) -> None:
    again = Run(tmp_path / "again", "train.iterations=4", settings=PPO).done()
    again = Run(tmp_path / "again", settings=PPO).done()
    assert "resuming ppo" in again.log
    assert same(result(trained), result(again.path))


def one_table() -> env.VecEnv:
    tables = env.make("skyjo", 1, 2, {"episode": "round"}, seed=4, auto_reset=False)
    tables.random_steps(9)
    return tables


def test_checkpoint_plays_its_policy_and_refuses_to_search(trained: Path) -> None:
    tables = env.make("skyjo", 20, 2, {"episode": "round"}, seed=4)
    tables.random_steps(9)
    situation = Situation.at(tables)
    # Equivalent actions are one for a search, of which it plays the first.
    network, policy = load_agent(f"checkpoint:{trained},merge=off"), load_agent(f"policy:{trained}")
    assert network.act(situation).tolist() == policy.act(situation).tolist()
    row, games = play_match(f"checkpoint:{trained}", "bot:greedy_value", 4, rules={"episode": "round"})
    assert (row["games"], len(games)) == (4, 4)
    (told,) = Analyst(AgentSpec.parse(f"checkpoint:{trained}")).analyse([Position.at(one_table())])
    assert json.loads(json.dumps(told, allow_nan=False)) == told, "the arena shows what the policy thinks"
    spec = AgentSpec.parse(f"checkpoint:{trained},simulations=8")
    with pytest.raises(ValueError, match=r"simulations: expected 0: ppo has trained no model to search with, got '8'"):
        build(spec, "skyjo", 2, batch=1)


@pytest.mark.parametrize("game", ["kuhn", *(pytest.param(game, marks=pytest.mark.slow) for game in ("lama", "skipbo"))])
def test_every_game_trains(game: str, tmp_path: Path) -> None:
    settings = ["preset=smoke", "+variant=ppo", f"game={game}", "train.iterations=2", "selfplay.tables=4"]
    settings += ["selfplay.steps_per_iteration=40", "+game.rules.max_decisions=100", "evaluation.value_positions=2"]
    run = Run(tmp_path, settings=settings).done()
    last = metrics.read(run.path)[-1]
    assert last["losses"]["entropy"] > 0
    assert np.isfinite(list(last["losses"].values())).all()
    config = compose_config("preset=smoke", f"game={game}")
    assert list(last["evaluation"]) == [*config.game.bots, *config.game.held_out_bots]


@pytest.mark.slow
def test_mixed_table_sizes_and_async_mode_train_too(tmp_path: Path) -> None:
    mixed = ["selfplay.players=[2,3]", "selfplay.steps_per_iteration=30", "train.iterations=2", "train.mode=async"]
    run = Run(tmp_path, *mixed, settings=PPO).done()
    last = metrics.read(run.path)[-1]
    assert last["losses"]["value"] > 0
    assert sorted(last["by_players"]) == ["2", "3"]
    assert checkpoint.load_weights(run.path).agent["player_counts"] == [2, 3]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("search.simulations=4", "search.simulations: expected 0 with train.algorithm=ppo, got 4"),
        ("model.outcome_heads=true", "model.outcome_heads: expected false with train.algorithm=ppo, got True"),
        ("selfplay.simulations=[[0,4]]", "selfplay.simulations: expected [] with train.algorithm=ppo"),
        ("learner.ema=0.9", "learner.ema: expected 0 with train.algorithm=ppo, got 0.9"),
        ("selfplay.explore=0.1", "selfplay.explore: expected 0 with train.algorithm=ppo, got 0.1"),
        ("selfplay.judged_outcomes=4", "selfplay.judged_outcomes: expected 0 with train.algorithm=ppo, got 4"),
        ("ppo.clip=0", "ppo.clip: expected more than 0, at most 1, got 0.0"),
        ("ppo.gae_lambda=2", "ppo.gae_lambda: expected 0 to 1, got 2.0"),
        ("train.algorithm=a2c", "train.algorithm: expected muzero or ppo, got 'a2c'"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        compose_config("preset=smoke", "+variant=ppo", setting)
    assert message in str(raised.value)


@pytest.mark.parametrize("preset", ["cpu", "paper", "smoke"])
def test_variant_composes_with_presets(preset: str) -> None:
    for game in ("skyjo", "lama"):
        config = compose_config(f"preset={preset}", f"game={game}", "+variant=ppo")
        assert (config.train.algorithm, config.search.simulations, config.learner.ema) == ("ppo", 0, 0.0)
