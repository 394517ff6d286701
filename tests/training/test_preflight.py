"""muzero.training.preflight: what a game or a machine cannot do is refused by the name of its key."""

from __future__ import annotations

import re

import pytest

import env
from muzero.training.preflight import check_game, check_machine, preflight
from tests.composing import compose_config
from tests.training.processes import TINY


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("game.name=whist", "game.name: expected one of"),
        ("game.players=99", "game.players: expected 2 to 8, got 99"),
        ("+game.rules.no_such_rule=1", "game.rules: rule 'no_such_rule'"),
        ("+game.training.no_such_rule=1", "game.training: rule 'no_such_rule'"),
        ("game.bots=[nobody]", "game.bots: skyjo has no bot 'nobody'"),
        ("game.held_out_bots=[nobody]", "game.held_out_bots: skyjo has no bot 'nobody'"),
        ("selfplay.players=[2,9]", "selfplay.players: expected 2 to 8, got 9"),
        ("selfplay.tables=5 selfplay.players=[2,9]", "selfplay.players: expected 2 to 8, got 9"),
        ("model.ignore=[weather]", "model.ignore: expected groups or fields of skyjo"),
        ("replay.megabytes=0.03", "replay.megabytes: expected at least 0.27, the room of a game of 400 decisions"),
        ("game=lama game.bots=[strategy_1] replay.relabel=true", "replay.relabel: expected false"),
    ],
)
def test_settings_that_the_game_does_not_have_are_refused(setting: str, message: str) -> None:
    game = [] if setting.startswith("game=") else ["+game.rules.episode=round"]
    settings = [word for word in TINY if not word.startswith("+game.rules")]
    config = compose_config(*settings, *game, *setting.split())
    for check in (check_game, preflight):
        with pytest.raises(ValueError, match=re.escape(message)):
            check(config)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("runtime.device=nonsense", "runtime.device: expected auto, cpu or a device of this machine, got 'nonsense'"),
        (
            "search.backend=cuda_graphs runtime.device=cpu",
            "search.backend: expected not cuda_graphs where self-play has no GPU, got 'cuda_graphs'",
        ),
        (
            "search.backend=native runtime=ray runtime.worker_gpus=1",
            "search.backend: expected not native where self-play has a GPU, got 'native'",
        ),
        (
            "model.latent=flat model.encoder=transformer",
            "search.backend=native: expected model.latent=slots, got flat",
        ),
    ],
)
def test_settings_that_the_machine_cannot_serve_are_refused(setting: str, message: str) -> None:
    config = compose_config(*TINY, *setting.split())
    check_game(config)
    for check in (check_machine, preflight):
        with pytest.raises(ValueError, match=re.escape(message)):
            check(config)


def test_numbers_out_of_range_are_refused_without_hydra() -> None:
    config = compose_config(*TINY)
    config.learner.batch = 0
    with pytest.raises(ValueError, match=r"learner.batch: expected 1 or more, got 0"):
        preflight(config)


@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("preset", ["cpu", "paper", "smoke"])
def test_every_preset_fits_every_game(preset: str, game: str) -> None:
    config = compose_config(f"game={game}", f"preset={preset}")
    check_game(config)
    changed = compose_config(f"game={game}", f"preset={preset}", "++game.training.max_decisions=123")
    check_game(changed)
    assert changed.game.rules_for_training()["max_decisions"] == 123


def test_unknown_opponents_are_refused_before_any_work() -> None:
    config = compose_config("preset=smoke", "+variant=belief", "evaluation.also=[past_self,bot:nobody]")
    with pytest.raises(ValueError, match=r"evaluation\.also: .*nobody"):
        check_game(config)
