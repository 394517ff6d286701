"""Whole training runs: what they log, keep and evaluate, and that the same command gives the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import env
from env.game_record import GameRecord, verify
from muzero.agents.agent_spec import AgentSpec, load_network
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint, metrics
from muzero.training import trainer
from tests.composing import compose_config
from tests.forked import WAIT
from tests.training.processes import Run, result, same

pytestmark = pytest.mark.xdist_group("runs")  # one process has the reference and the fork server
SHORT = "+game.rules.max_decisions=100"  # cuts off evaluation games, which an untrained network hardly ever ends


def test_smoke_preset_logs_evaluates_and_saves(tmp_path: Path) -> None:
    """As a user starts it: the documented command in a fresh interpreter, and the display of a file."""
    path = tmp_path / "run"
    command = [sys.executable, "-m", "muzero.train", "preset=smoke", "+variant=belief", f"run_dir={path}"]
    done = subprocess.run([*command, "train.iterations=2", SHORT], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert f"training belief in {path}" in done.stdout
    assert "iteration 2/2" in done.stdout
    check_smoke_run(path, "belief", "skyjo")
    timings = metrics.read(path, metrics.TIMINGS)
    assert len(timings) == 2
    assert {"env", "tree", "network", "learner", "evaluation"} <= timings[1]["seconds"].keys()
    assert [int(place.name) for place in checkpoint.checkpoints(path)] == [1, 2]


def check_smoke_run(path: Path, variant: str, game: str) -> None:
    """Losses, evaluation and weights of two iterations are those of the variant and the game."""
    first, last = metrics.read(path)
    outcome = variant == "belief"
    assert (first["iteration"], last["iteration"]) == (1, 2)
    # Losses of weight 0, and of heads that networks do not have, in this preset.
    unused = {"consistency", "points", "afterstate", "outcome", "cards", *(() if outcome else ("winner", "rank"))}
    assert {name for name, loss in last["losses"].items() if loss == 0} == unused
    config = compose_config("preset=smoke", f"+variant={variant}", f"game={game}")
    assert list(last["evaluation"]) == [*config.game.bots, *config.game.held_out_bots]
    assert "evaluation" not in first
    checked = {"value_rmse", "value_bias", "value_spread"}
    assert config.evaluation.value_positions > 0
    assert checked <= last["diagnostics"].keys()
    assert not checked & first["diagnostics"].keys(), "values are checked where bots are met"
    few = game == "kuhn"  # of a handful of decisions, none may have been drawn for the check
    assert few or ("calibration" in last) == outcome
    kept = checkpoint.load_weights(path)
    assert (kept.agent["variant"], kept.agent["players"]) == (variant, config.game.players)
    assert kept.agent["value_rmse"] == last["diagnostics"]["value_rmse"]
    Network(GameSpec.of(game, config.game.players), config.model).load_state_dict(kept.weights)


def test_baseline_trains_without_outcome_losses(tmp_path: Path) -> None:
    settings = ["preset=smoke", "+variant=baseline", "train.iterations=2", "search.backend=native", SHORT]
    run = Run(tmp_path, settings=settings).done()
    check_smoke_run(run.path, "baseline", "skyjo")


def test_points_cards_and_chance_events_are_learned_if_the_model_has_them(tmp_path: Path) -> None:
    settings = ["preset=smoke", "+variant=belief_cards", "train.iterations=2", "model.points=50"]
    settings += ["evaluation.value_positions=0", "search.backend=native", SHORT]
    last = metrics.read(Run(tmp_path, settings=settings).done().path)[-1]
    assert {name for name, loss in last["losses"].items() if loss == 0} == {"consistency"}
    unchecked = [name for name in last["diagnostics"] if name.startswith(("value_", "belief_"))]
    assert not unchecked, "no positions, no check of values and beliefs"
    assert last["evaluation"]


def test_card_beliefs_are_checked_with_the_values(tmp_path: Path) -> None:
    settings = ["preset=smoke", "+variant=belief_cards", "train.iterations=2", "search.backend=native", SHORT]
    last = metrics.read(Run(tmp_path, settings=settings).done().path)[-1]["diagnostics"]
    assert last["belief_kl"] > 0
    assert last["belief_score"] < last["belief_counts_score"] < 0


@pytest.mark.parametrize("game", sorted(set(env.games()) - {"skyjo"}))
def test_every_game_trains(game: str, tmp_path: Path) -> None:
    """A game needs a configuration of its own and nothing else."""
    settings = ["preset=smoke", "+variant=belief", f"game={game}", "train.iterations=2"]
    settings += ["search.backend=native", "search.simulations=2", "selfplay.tables=4"]
    settings.append(f"selfplay.games_per_iteration={40 if game == 'kuhn' else 4}")  # a hand has two or three decisions
    settings += ["evaluation.simulations=2", SHORT]
    settings.append("replay.warm_up=50")  # a network that folds at once plays short games
    check_smoke_run(Run(tmp_path, settings=settings).done().path, "belief", game)


def test_same_command_gives_the_same_bytes(reference: Path, tmp_path: Path) -> None:
    again = Run(tmp_path).done()
    assert same(result(reference), result(again.path))
    kept = [int(place.name) for place in checkpoint.checkpoints(reference)]
    assert kept == [2, 3, 4, 6]  # keep_every, a member of the pool, the last two
    records = metrics.read(reference)
    assert [record["iteration"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert [record["diagnostics"]["pool"] for record in records] == [0, 0, 0, 1, 1, 1]
    assert records[-1]["losses"]["total"] > 0


def test_denormal_numbers_count_as_0_while_learning_and_as_themselves_afterwards() -> None:
    small = torch.tensor([1e-39])
    with trainer.denormals_flushed():
        assert not (small * 1).any()
    assert (small * 1).any()


def test_another_seed_gives_other_metrics(reference: Path, tmp_path: Path) -> None:
    other = Run(tmp_path, "seed=1", "train.iterations=1").done()
    first = (reference / metrics.METRICS).read_bytes().splitlines(keepends=True)[0]
    assert (other.path / metrics.METRICS).read_bytes() != first


def test_run_that_mixes_numbers_of_players_resumes_and_plays_at_each_table(tmp_path: Path) -> None:
    mixed = ["selfplay.players=[2,3]", "selfplay.tables=4", "game.training.max_decisions=200", "replay.reanalyse=0.1"]
    whole = Run(tmp_path / "whole", *mixed, "train.iterations=4").done()
    parts = Run(tmp_path / "parts", *mixed, "train.iterations=2").done()
    parts = Run(tmp_path / "parts", *mixed, "train.iterations=4").done()
    assert same(result(whole.path), result(parts.path))
    found = checkpoint.load(checkpoint.checkpoints(whole.path)[-1])
    assert found.agent["player_counts"] == [2, 3]
    assert all(len(found.arrays[f"replay_{players}"]["action"]) for players in (2, 3))
    for players in (2, 3):
        network, _ = load_network(AgentSpec.parse(f"policy:{whole.path}"), "skyjo", players)
        assert network.num_players == players
    with pytest.raises(ValueError, match="players: expected 4 as in this match, got 'one of 2, 3'"):
        load_network(AgentSpec.parse(f"policy:{whole.path}"), "skyjo", 4)


def test_checkpoint_plays_with_the_simulations_scheduled_at_its_iteration(tmp_path: Path) -> None:
    schedule = ["selfplay.simulations=[[0,2],[1,3]]", "train.keep_every=1", "train.iterations=2", "evaluation.every=0"]
    run = Run(tmp_path, *schedule).done()
    found = [checkpoint.load_weights(place) for place in checkpoint.checkpoints(run.path)]
    assert [(kept.agent["iteration"], kept.agent["search"]["simulations"]) for kept in found] == [(1, 3), (2, 3)]


def test_self_played_games_are_kept_on_request_and_change_nothing(reference: Path, tmp_path: Path) -> None:
    """Game records can be verified; learning does not depend on them, so any run may begin to keep them."""
    path = Run(tmp_path, "logging.records=1").done().path
    assert same(result(path), result(reference))
    assert not (reference / "records").exists()
    files = sorted((path / "records").iterdir())
    assert files[0].name == "000001-0.json"
    for file in files:
        verify(GameRecord.read(file))


@pytest.mark.slow
def test_cpu_preset_learns_to_beat_its_bots(tmp_path: Path) -> None:
    """The CPU preset, a minute or two: better than at random by then, and against its bots in training."""
    few = ["train.mode=sync", "train.iterations=16", "evaluation.every=0", "run_dir=run"]
    run = Run(tmp_path, *few, settings=["preset=cpu", "+variant=belief"], name="run").done()
    bots = [name for name in metrics.read(run.path)[-1]["diagnostics"] if name.startswith("win_rate")]
    first, last = ([record["diagnostics"].get(name, 0.0) for name in bots] for record in metrics.read(run.path)[3::12])
    assert len(bots) == 6
    assert np.mean(first) < 0.02
    assert np.mean(last) > 0.08


def test_diverging_run_stops_and_names_the_last_good_checkpoint(tmp_path: Path) -> None:
    """The first iterations only gather games; the first steps then break the network."""
    broken = ["learner.lr=1e30", "learner.warm_up_steps=0", "replay.warm_up=700", "train.checkpoint_every=1"]
    run = Run(tmp_path, *broken)
    assert run.end() == trainer.EXIT_DIVERGED == 3, run.log
    saved = checkpoint.checkpoints(run.path)[-1]
    assert f"last good checkpoint: {saved}" in run.log
    assert "nan" in run.log
    weights = checkpoint.load(saved).tensors["weights"]
    assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def test_exploding_loss_stops_a_run_without_a_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path, "learner.largest_loss=1e-3")
    assert run.end() == trainer.EXIT_DIVERGED, run.log
    assert "learner.largest_loss=0.001" in run.log
    assert "last good checkpoint: none" in run.log
    assert checkpoint.checkpoints(run.path) == []


def test_weights_are_kept_every_keep_every_iterations_between_checkpoints(tmp_path: Path) -> None:
    """Studies compare these weights, whether or not a multiple of `keep_every` is one of `checkpoint_every`."""
    settings = ["train.keep_every=3", "train.checkpoint_every=5", "selfplay.pool.share=0", "train.iterations=7"]
    run = Run(tmp_path, *settings, "evaluation.every=0")
    kept = [int(place.name) for place in checkpoint.checkpoints(run.done().path)]
    assert kept == [3, 6, 7]


def test_run_that_ends_by_the_clock_is_evaluated_at_its_end(tmp_path: Path) -> None:
    run = Run(tmp_path, "train.iterations=1000", "train.minutes=0.01", "evaluation.every=999").done()
    records = metrics.read(run.path)
    assert 1 <= len(records) < 1000
    assert "evaluation" in records[-1]


@pytest.mark.slow
def test_one_ray_worker_gives_the_bytes_of_the_local_runtime(reference: Path, tmp_path: Path) -> None:
    run = Run(tmp_path, "runtime=ray", "runtime.workers=1", "runtime.threads=1").done()
    assert (run.path / metrics.METRICS).read_bytes() == (reference / metrics.METRICS).read_bytes()
