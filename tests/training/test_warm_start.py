"""Warm start: a run that begins with another run's weights, and nothing else of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from muzero.runs import checkpoint
from muzero.training.command import prepared, with_pinned_agents
from muzero.training.preflight import preflight
from tests.agents.untrained_run import save_untrained_run
from tests.composing import compose_config

SMALL = ("preset=smoke", "game=skyjo", "+variant=belief", "logging.display=none", "evaluation.every=0")


def test_new_run_starts_with_the_weights_and_without_the_rest(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with prepared(compose_config(*SMALL, "seed=5", f"run_dir={source}")) as trainer:
        trainer.state.iteration = 7
        trainer.save()
        trainer.close()
    trained = checkpoint.load_weights(source).weights
    for ema in (0, 0.99):
        given = [f"learner.ema={ema}", f"train.init=checkpoint:{source}", f"run_dir={tmp_path / f'new{ema}'}"]
        config = with_pinned_agents(compose_config(*SMALL, *given))
        assert config.train.init == f"checkpoint:{source},iteration=7"
        with prepared(config) as trainer:
            playing = trainer.state.learner.playing_weights()
            assert set(playing) == set(trained)
            assert all(torch.equal(playing[name], trained[name]) for name in trained)
            assert (trainer.state.iteration, trainer.state.learner.steps, trainer.state.games) == (0, 0, 0)
            trainer.close()
    with prepared(compose_config(*SMALL, f"run_dir={tmp_path / 'cold'}")) as trainer:
        weights = trainer.state.learner.playing_weights()
        assert not all(torch.equal(weights[name], trained[name]) for name in trained)
        trainer.close()


def test_shipped_weights_can_be_started_from_and_are_compared_with_the_network(tmp_path: Path) -> None:
    expected = r"train\.init: expected weights of the network that model describes, got 'agent:skyjo-belief: "
    with pytest.raises(ValueError, match=expected):
        preflight(compose_config(*SMALL, "train.init=agent:skyjo-belief", "model.hidden=64"))


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("bot:greedy", r"train\.init: expected weights: checkpoint:\.\.\., policy:\.\.\., agent:\.\.\."),
        ("checkpoint:SOURCE,simulations=4", r"train\.init: expected weights"),
        ("checkpoint:nowhere", "nowhere"),
        ("agent:nobody", "expected one of"),
    ],
)
def test_what_has_no_weights_is_refused(init: str, message: str, tmp_path: Path) -> None:
    source = save_untrained_run(tmp_path / "source")
    with pytest.raises(ValueError, match=message):
        preflight(with_pinned_agents(compose_config(*SMALL, f"train.init='{init.replace('SOURCE', str(source))}'")))


def test_weights_of_another_game_are_refused(tmp_path: Path) -> None:
    source = save_untrained_run(tmp_path / "source")
    config = compose_config("preset=smoke", "game=lama", f"train.init=checkpoint:{source}")
    with pytest.raises(ValueError, match=r"train\.init: agent .* game: expected lama as in this match, got 'skyjo'"):
        preflight(config)
