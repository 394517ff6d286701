"""muzero.training.override_check: wrong keys, choices and values of the training command are refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from muzero.training.override_check import check_overrides


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("learner.lrr=1", "learner.lrr: expected a key of the settings, nearest: learner.lr, "),
        ("lr=1e-3", "lr: expected a key of the settings, nearest: learner.lr; python -m muzero.train --help lists all"),
        ("+what.ever=1", "what.ever: expected a key of the settings"),
        ("learner.lr.x=1", "learner.lr.x: expected a key of the settings"),
        ("variant=belif", "variant: expected one of baseline, belief, .* \\(nearest: belief, baseline\\)"),
        ("variant=baseline,brave", "variant: expected one of baseline, belief, .*, got 'brave'"),
        ("preset=papr", "preset: expected one of cpu, paper, smoke \\(nearest: paper\\)"),
        ("learner.lr=abc", "learner.lr: Value 'abc' of type 'str' could not be converted to Float"),
        ("belief", "argument 'belief': expected key=value"),
        ("learner.lr=[", "argument 'learner.lr=\\['"),
    ],
)
def test_wrong_words_are_refused_with_the_nearest_keys(word: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_overrides([word])


@pytest.mark.parametrize(
    "words",
    [
        ["variant=belief", "preset=paper", "learner.lr=3e-4", "+game.rules.episode=round", "comparison=null"],
        ["--multirun", "variant=baseline,belief", "seed=0,1,2", "learner.lr=tag(log,interval(1e-4,1e-1))"],
        ["hydra/sweeper=random", "hydra.sweeper.trials=8", "logging.tags=[a,b]", "selfplay.temperature=[[0,1.0]]"],
        ["--cfg", "job", "game=kuhn", "+exploit=checkpoint:runs/x", "run_dir=runs/a", "evaluation.also=[bot:greedy]"],
        ["--config-name", "other", "anything.at.all=1"],
    ],
)
def test_right_words_pass(words: list[str]) -> None:
    check_overrides(words)


def test_choices_of_a_directory_of_ones_own_are_known(tmp_path: Path) -> None:
    (tmp_path / "variant").mkdir()
    (tmp_path / "variant" / "bold.yaml").write_text("variant: bold\n")
    check_overrides(["--config-dir", str(tmp_path), "variant=bold"])
    check_overrides([f"--config-dir={tmp_path}", "variant=belief"])
    with pytest.raises(ValueError, match=r"variant: expected one of .*bold"):
        check_overrides(["--config-dir", str(tmp_path), "variant=timid"])


@pytest.mark.slow
def test_command_ends_with_code_2_and_one_line() -> None:
    command = [sys.executable, "-m", "muzero.train", "learner.lrr=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: learner.lrr: expected a key of the settings, nearest: learner.lr")
    assert len(done.stderr.splitlines()) == 1
