"""Command line of `python -m muzero.train`: variants, --help, directories of one's own, sweeps and their objective."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf

from hydra_plugins.random_sweeper import draw_trials
from muzero.config.settings_text import described
from muzero.runs import metrics
from muzero.training.command import CHANGEABLE, objective
from muzero.training.hydra_arguments import hydra_arguments
from tests.composing import compose_config
from tests.training.processes import Run

pytestmark = pytest.mark.xdist_group("runs")  # one process has the fork server

SHORT = ["game=kuhn", "preset=smoke", "evaluation.games=2", "logging.display=none"]


@pytest.mark.parametrize("variant", ["baseline", "belief", "belief_cards", "counts", "ego_only", "heads_only", "ppo"])
def test_a_variant_needs_no_plus_and_may_have_one(variant: str) -> None:
    config = compose_config(f"variant={variant}")
    assert config.variant == variant
    assert config == compose_config(f"+variant={variant}")
    assert config.model.ego == (variant in ("belief", "belief_cards", "ego_only"))


def test_without_a_variant_the_baseline_is_trained() -> None:
    assert compose_config() == compose_config("variant=baseline")


def test_help_shows_every_key_with_its_value_and_meaning(tmp_path: Path) -> None:
    text = Run(tmp_path, "preset=paper", "learner.lr=0.125", "--help", settings=[], name="").done().log
    words = re.sub(r"\s+", " ", text)
    keys = list(described())
    assert len(keys) > 100
    for key, entry in keys:
        assert f"\n{key}=" in text, key
        assert re.sub(r"\s+", " ", entry.metadata["meaning"]) in words, key
    assert "\nlearner.lr=0.125\n" in text
    assert "\nmodel.latent_dim=512\n" in text, "the value with preset=paper"
    assert "variant: baseline, belief, belief_cards, counts, ego_only, heads_only, ppo" in text


def test_files_of_a_directory_of_ones_own_are_found_beside_those_of_conf(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    files = {
        "variant/bold.yaml": "# @package _global_\nvariant: bold\nmodel: {ego: true}\n",
        "preset/night.yaml": "# @package _global_\ndefaults:\n  - override /model: small\ntrain: {minutes: 480}\n",
        "preset/night/house_rules.yaml": "learner: {td_steps: 7}\n",
        "game/house_rules.yaml": "name: skyjo\nplayers: 3\nrules: {preset: official}\nbots: [greedy]\n",
    }
    for name, text in files.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text)
    choices = ["game=house_rules", "preset=night", "variant=bold"]
    log = Run(tmp_path, f"--config-dir={mine}", *choices, "--cfg=job", settings=[]).done().log
    for line in ("variant: bold", "  ego: true", "  minutes: 480", "  td_steps: 7", "  players: 3", "  value_bins: 41"):
        assert f"\n{line}" in log, line


# ---- sweeps ------------------------------------------------------------------------------------------------------


def test_directories_of_a_sweep_are_named_by_what_differs() -> None:
    def directory(*words: str) -> str:
        added = hydra_arguments(["--multirun", *words], CHANGEABLE)[len(words) + 1 :]
        assert added[1] == "hydra.job.config.override_dirname.exclude_keys=['learner.lr','train.iterations']"
        return added[0].removeprefix("hydra.sweep.dir=").strip("'")

    first = directory("+variant=baseline,belief", "seed=0,1", "learner.lr=0.1", "train.iterations=5")
    assert re.fullmatch(r"runs/sweeps/seed,variant-[0-9a-f]{8}", first)
    assert first == directory("seed=0,1,2", "variant=belief,ppo", "learner.lr=0.1", "train.iterations=9"), "more runs"
    assert first != directory("seed=0,1", "variant=baseline,belief", "learner.lr=0.2", "train.iterations=5")
    assert hydra_arguments(["seed=0"]) == ["seed=0"]
    given = ["-m", "seed=0,1", "hydra.sweep.dir=x"]
    assert [word for word in hydra_arguments(given) if "sweep.dir" in word] == ["hydra.sweep.dir=x"]


def test_random_search_finds_the_best_objective_and_goes_on_with_more_trials(tmp_path: Path) -> None:
    swept = ["learner.lr=tag(log,interval(1e-4,1e-1))", "train.steps=1,2"]
    few = ["train.iterations=1", "evaluation.value_positions=0", "selfplay.games_per_iteration=20"]
    chosen = ["--multirun", "hydra/sweeper=random", *SHORT, *few, *swept]
    first = Run(tmp_path, *chosen, "hydra.sweeper.trials=2", settings=[], name="").done()
    (found,) = tmp_path.glob("runs/sweeps/learner.lr,train.steps-*/sweep.json")
    two = json.loads(found.read_text())
    assert "best of 2: learner.lr=" in first.log
    values = {row["trial"]: row["objective"] for row in two["trials"]}
    for row in two["trials"]:
        records = metrics.read(found.parent / ",".join(row["settings"]))
        assert row["objective"] == records[-1]["mean_win_rate"]
    assert two["best"]["objective"] == max(values.values())
    again = Run(tmp_path, *chosen, "hydra.sweeper.trials=3", settings=[], name="").done()
    assert again.log.count("resuming") == 2
    three = {row["trial"]: row["objective"] for row in json.loads(found.read_text())["trials"]}
    assert values.items() < three.items()


def test_objective_is_the_last_value_of_the_chosen_figure(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        '{"iteration": 1, "losses": {"total": 3.0}, "mean_win_rate": 0.25}\n'
        '{"iteration": 2, "losses": {"total": 2.0}}\n'
    )
    values = {"mean_win_rate": 0.25, "losses.total": 2.0, "losses.none": None}
    for key, value in values.items():
        raw = OmegaConf.structured(compose_config(f"run_dir={tmp_path}", f"logging.objective={key}"))
        assert objective(raw) == value


def test_trials_are_drawn_from_the_whole_range_and_do_not_depend_on_their_number() -> None:
    words = ["a=int(interval(0,10))", "b=tag(log,interval(1e-4,1e-2))", "c=choice(x,y)", "d=range(3)", "e=7"]
    overrides = OverridesParser.create().parse_overrides(words)
    trials = draw_trials(overrides, 200, seed=0)
    assert trials[:5] == draw_trials(overrides, 5, seed=0) != draw_trials(overrides, 5, seed=1)
    columns = [[word.partition("=")[2] for word in column] for column in zip(*trials, strict=True)]
    assert set(columns[0]) == {str(i) for i in range(11)}
    small = [float(value) < 1e-3 for value in columns[1]]
    assert all(1e-4 <= float(value) <= 1e-2 for value in columns[1])
    assert 70 < sum(small) < 130, "evenly in the logarithm: half of them below the geometric mean"
    assert (set(columns[2]), set(columns[3]), set(columns[4])) == ({"x", "y"}, {"0", "1", "2"}, {"7"})
    for bad in ("b=tag(log,interval(0,1))", "a=interval(2,1)"):
        with pytest.raises(CompactHydraException, match=r": interval: expected .*, got"):
            draw_trials(OverridesParser.create().parse_overrides([bad]), 1, seed=0)
