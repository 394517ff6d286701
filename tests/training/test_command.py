"""`python -m muzero.train`: bad input is refused before any work, and run directories have names."""

from __future__ import annotations

from pathlib import Path

import pytest

from muzero.runs import metrics
from muzero.training.command import EXIT_BAD_INPUT, run_directory
from tests.composing import compose_config
from tests.training.processes import TINY, Run

pytestmark = pytest.mark.xdist_group("runs")  # one process has the reference and the fork server


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learner.batch=0", "learner.batch: expected 1 or more, got 0"),
        ("game.bots=[nobody]", "game.bots: skyjo has no bot 'nobody'"),
        ("runtime.device=nonsense", "runtime.device: expected"),
        ("+learner.no_such_key=1", "learner.no_such_key: expected a key of the settings"),
        ("learner.no_such_key=1", "learner.no_such_key: expected a key of the settings"),
        ("learner.batch=many", "learner.batch: Value 'many' of type 'str' could not be converted to Integer"),
        ("model=huge", "model: expected one of paper, small, tiny"),
    ],
)
def test_bad_input_exits_with_2_and_leaves_no_directory(setting: str, message: str, tmp_path: Path) -> None:
    """One case of each check: ranges, game, machine and keys. tests/test_config.py and test_preflight.py have all."""
    run = Run(tmp_path, setting)
    assert run.end() == EXIT_BAD_INPUT == 2
    assert f"error: {message}" in run.log
    assert "Traceback" not in run.log
    assert not run.path.exists()


def test_cfg_job_prints_the_configuration_and_starts_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, "preset=paper", "+variant=belief", "--cfg=job", settings=[]).done()
    assert "latent_dim: 512" in run.log
    assert not run.path.exists()


def test_info_defaults_names_the_file_of_the_preset_for_the_game(tmp_path: Path) -> None:
    run = Run(tmp_path, "preset=cpu", "game=lama", "--info=defaults", settings=[]).done()
    files = [line.split("|")[1].strip() for line in run.log.splitlines() if line.startswith("| ")]
    assert files.index("game/lama") < files.index("preset/cpu") < files.index("preset/cpu/lama")


def test_multirun_makes_a_directory_for_each_run(tmp_path: Path) -> None:
    Run(tmp_path, "--multirun", "seed=3,4", "train.iterations=1", "evaluation.every=0", name="").done()
    found = sorted(tmp_path.glob("runs/sweeps/seed-*/*/"))
    assert [path.name for path in found] == ["seed=3", "seed=4"]
    stored = [(path / "config.yaml").read_text().splitlines()[0] for path in found]
    assert sorted(stored) == ["seed: 3", "seed: 4"]
    assert all(len(metrics.read(path)) == 1 for path in found)


def test_directory_is_named_by_settings_that_change_what_is_learned() -> None:
    names = [
        run_directory(compose_config(*TINY, *more))
        for more in ([], ["train.iterations=7"], ["logging.display=none"], ["seed=1"], ["learner.lr=0.5"])
    ]
    assert names[0] == names[1] == names[2]
    assert len(set(names)) == 3
    assert str(names[0]).startswith("runs/skyjo-belief-")


def test_first_evaluation_may_be_earlier_than_the_others(tmp_path: Path) -> None:
    settings = ["game=kuhn", "preset=smoke", "train.iterations=3", "evaluation.every=50", "evaluation.first=1"]
    run = Run(tmp_path, settings=settings).done()
    evaluated = [record["iteration"] for record in metrics.read(run.path) if "evaluation" in record]
    assert evaluated == [1, 3], "the early one, and that at the end"
