"""muzero.config and conf/: ranges, defaults, and what presets, games and variants compose to."""

# ruff: noqa: RUF009  (the functions that declare lists and dicts return a field with a factory)

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

import conf
import env
from muzero.config import Config, GameConfig, LearnerConfig, ModelConfig, PoolConfig, cores, scheduled
from muzero.config.fields import Section, choice, number, ramp, schedule, setting
from muzero.model.network import Network
from muzero.model.presets import count_parameters
from muzero.model.spec import GameSpec
from muzero.training.preflight import preflight
from tests.composing import compose_config

CONF = Path(str(conf.__file__)).parent
SMOKE = ["preset=smoke", "+variant=belief"]


# ---- how settings are declared and checked -----------------------------------------------------------------------


@dataclass
class Example(Section):
    """A section with a field of every kind of range."""

    KEY = "example"

    count: int = number(1, least=1, meaning="from 1 on")
    rate: float = number(0.5, above=0, meaning="greater than 0")
    share: float = number(0.5, least=0, most=1, meaning="0 to 1")
    discount: float = number(0.5, above=0, most=1, meaning="greater than 0, up to 1")
    decay: float = number(0.5, least=0, below=1, meaning="from 0 on, less than 1")
    word: str = choice("b", ("a", "b"), "two words")
    words: str = choice("b", ("a", "b", "c"), "three words")
    weight: list[float] = ramp(0.1, 0.5, "a ramp")
    steps: list[Any] = schedule([[0, 1.0]], least=1, meaning="a schedule")
    free: dict[str, int] = setting({"a": 1}, "anything")


@pytest.mark.parametrize(
    ("key", "good", "bad", "expected"),
    [
        ("count", [1, 2], [0, -1], "1 or more"),
        ("rate", [1e-9, 5.0], [0.0, -1.0], "more than 0"),
        ("share", [0.0, 1.0], [-0.1, 1.1], "0 to 1"),
        ("discount", [0.1, 1.0], [0.0, 1.1], "more than 0, at most 1"),
        ("decay", [0.0, 0.999], [-0.1, 1.0], "0 up to less than 1"),
        ("word", ["a", "b"], ["c", ""], "a or b"),
        ("words", ["a", "c"], ["d"], "one of a, b, c"),
        ("weight", [[0.0, 1.0], [1, 0]], [[1.0], [1, 2, 3], [-0.1, 1]], "two numbers, 0 or more: from, to"),
        (
            "steps",
            [[], [[0, 1]], [[0, 5.0], [10, 1]]],
            [[[5, 1]], [1.0], [[0]], [[0, 1, 2]], [[0, 0]], [[0, 2], [0, 3]], [[0, 2], [5, 3], [4, 3]], [["0", 1]]],
            "[iteration, number] pairs, from iteration 0 on, numbers 1 or more",
        ),
    ],
)
def test_values_outside_a_range_are_refused_by_key_expectation_and_value(
    key: str, good: list[Any], bad: list[Any], expected: str
) -> None:
    for value in good:
        Example(**{key: value}).check()
    for value in bad:
        with pytest.raises(ValueError, match=re.escape(f"example.{key}: expected {expected}, got {value!r}")):
            Example(**{key: value}).check()


def test_mutable_defaults_are_not_shared_between_instances() -> None:
    one, other = Example(), Example()
    one.free["b"] = 2
    one.steps[0][1] = 9.0
    assert (other.free, other.steps) == ({"a": 1}, [[0, 1.0]])


def test_scheduled_number_is_the_last_one_reached() -> None:
    pairs = [[0, 200], [200, 400], [500, 600]]
    assert [scheduled(pairs, i, 7) for i in (0, 199, 200, 499, 500, 9999)] == [200, 200, 400, 400, 600, 600]
    assert scheduled([], 3, 7) == 7


def sections(config: Section) -> Iterator[Section]:
    """A section and all sections inside it."""
    yield config
    for entry in fields(config):  # type: ignore[arg-type]
        value = getattr(config, entry.name)
        if isinstance(value, Section):
            yield from sections(value)


def test_every_setting_has_a_meaning_and_a_default_within_its_range() -> None:
    found = 0
    for section in sections(Config(game=GameConfig("skyjo", bots=["greedy"]))):
        section.check()
        for entry in fields(section):  # type: ignore[arg-type]
            if not isinstance(getattr(section, entry.name), Section):
                assert len(entry.metadata["meaning"]) > 5, entry.name
                found += 1
    assert found > 100


def test_config_imports_no_other_package_of_muzero() -> None:
    code = "import sys, muzero.config; print(*sorted(n for n in sys.modules if n.split('.')[0] in {'muzero', 'env'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parts = ("evaluation", "fields", "machine", "parts", "ppo", "sections", "selfplay")
    assert done.stdout.split() == ["muzero", "muzero.config", *(f"muzero.config.{name}" for name in parts)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learner.batch=0", "learner.batch: expected 1 or more, got 0"),
        ("learner.lr=0", "learner.lr: expected more than 0, got 0.0"),
        ("learner.ema=1", "learner.ema: expected 0 up to less than 1, got 1.0"),
        ("learner.winner_weight=[1]", "learner.winner_weight: expected two numbers, 0 or more: from, to, got [1.0]"),
        ("model.width=30", "model.width: expected a multiple of heads (4), got 30"),
        ("model.latent=flat", "model.encoder: expected transformer with model.latent=flat"),
        ("model.value_min=3", "model.value_min: expected less than 2.0, got 3.0"),
        ("selfplay.pool.share=0.9", "selfplay.pool.share: expected at most 0.7, got 0.9"),
        (
            "selfplay.explore=0.1 learner.one_step_share=0.3",
            "learner.one_step_share: expected 0 with selfplay.explore, got 0.3",
        ),
        ("selfplay.curriculum.bot_vs_bot=0.9", "selfplay.curriculum.bot_vs_bot: expected at most 0.7, got 0.9"),
        ("selfplay.curriculum.takeover_after=0.5", "selfplay.curriculum.takeover_after: expected 0, or 1 or more"),
        ("selfplay.temperature=[[5,1.0]]", "selfplay.temperature: expected [iteration, number] pairs"),
        ("selfplay.temperature=[1.0]", "selfplay.temperature: expected [iteration, number] pairs"),
        ("search.dirichlet_fraction=2", "search.dirichlet_fraction: expected 0 to 1, got 2.0"),
        ("search.leaves=0", "search.leaves: expected 1 to 4096, got 0"),
        ("search.backend=fast", "search.backend: expected one of auto, native, eager, compiled"),
        ("replay.keep_share=2", "replay.keep_share: expected 0 to 1, got 2"),
        ("runtime.workers=2", "runtime.workers: expected 1 with runtime=local, got 2"),
        ("runtime.dashboard=8265", "runtime.dashboard: expected 0, unless runtime=ray starts Ray here"),
        ("runtime.dashboard=70000", "runtime.dashboard: expected 0 to 65535, got 70000"),
        ("train.mode=both", "train.mode: expected sync or async, got 'both'"),
        ("logging.display=loud", "logging.display: expected one of auto, lines, none, got 'loud'"),
        ("seed=-1", "seed: expected 0 to"),
        ("game.bots=[]", "game.bots: expected at least one, or evaluation.every=0, got []"),
        ("selfplay.players=[3,4]", "selfplay.players: expected game.players=2 among them, or none, got [3, 4]"),
        (
            "selfplay.players=[2,3,4,5,6,7,8] selfplay.tables=4",
            "selfplay.tables: expected at least 7, one per worker and number of players, got 4",
        ),
        ("+learner.no_such_key=1", "Key 'no_such_key' not in 'LearnerConfig'"),
        ("+game.pace=1", "Key 'pace' not in 'GameConfig'"),
        ("+no_such_group.key=1", "Key 'no_such_group' not in 'Config'"),
    ],
)
def test_impossible_settings_are_refused_by_name(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compose_config(*SMOKE, *setting.split())


def test_tables_and_replay_memory_are_divided_among_numbers_of_players() -> None:
    config = compose_config(*SMOKE, "selfplay.players=[2,3,4]", "selfplay.tables=10", "replay.keep_at_least=100")
    assert config.player_counts() == [2, 3, 4]
    part = config.at_tables_for(3)
    assert (part.game.players, part.selfplay.players, part.selfplay.tables) == (3, [], 3)
    assert (part.replay.megabytes, part.replay.keep_at_least) == (pytest.approx(8 / 3), 34)
    assert config.selfplay.tables == 10


def test_cores_are_those_of_the_slurm_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert cores() == 16
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert cores() == 4
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "64")
    assert cores() == 16


# ---- conf/ -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["model", "search", "train", "runtime"])
def test_group_files_do_not_repeat_defaults(group: str) -> None:
    """Besides the keys that tell the choices of a group apart."""
    telling = {"model": {"latent", "encoder"}, "search": {"algorithm"}, "train": {"mode"}, "runtime": {"kind"}}[group]
    defaults = vars(getattr(Config(), group))
    files = sorted((CONF / group).glob("*.yaml"))
    assert len(files) >= 2
    for file in files:
        found = OmegaConf.to_container(OmegaConf.load(file))
        assert isinstance(found, dict)
        assert [key for key in found if key not in telling and found[key] == defaults[key]] == [], file


@pytest.mark.parametrize("preset", ["cpu", "paper", "smoke"])
def test_presets_compose_with_every_variant_and_runtime(preset: str) -> None:
    for variant in ("baseline", "belief", "ego_only", "heads_only"):
        for runtime in ("local", "ray") if variant == "belief" else ("local",):
            config = compose_config(f"preset={preset}", f"+variant={variant}", f"runtime={runtime}")
            flags = variant in ("belief", "ego_only"), variant in ("belief", "heads_only")
            assert (config.variant, config.model.ego, config.model.outcome_heads) == (variant, *flags)
            assert config.runtime.kind == runtime


def test_cpu_preset_is_the_default() -> None:
    assert compose_config("+variant=belief") == compose_config("+variant=belief", "preset=cpu")
    assert compose_config("preset=cpu", "train=sync").train.mode == "sync"


def test_paper_preset_has_the_published_settings() -> None:
    config = compose_config("preset=paper", "+variant=belief")
    assert (config.variant, config.model.ego, config.model.outcome_heads) == ("belief", True, True)
    assert config.selfplay.simulations == [[0, 200], [200, 400], [500, 600]]
    assert (config.selfplay.games_per_iteration, config.train.steps, config.train.mode) == (32, 96, "sync")
    assert (config.learner.unroll, config.learner.td_steps, config.search.discount) == (8, 10, 0.997)
    assert (config.search.algorithm, config.game.training["round_reward"]) == ("puct", 0.0)
    assert config.search.backup == "ego"
    assert (config.game.rules["preset"], config.game.rules["episode"]) == ("skynet", "round")
    assert compose_config("preset=paper", "game=lama").search.backup == "ego"
    assert compose_config("preset=paper", "game=lama").game.rules == compose_config("game=lama").game.rules
    assert (config.selfplay.pool.share, config.model.value_min, config.model.value_max) == (0.3, -200, 200)
    network = Network(GameSpec.of("skyjo", 2), config.model)
    # 14.4 million: with ego conditioning, the reward head predicts one seat at a time, like the value head.
    assert count_parameters(network) == pytest.approx(18e6, rel=0.25)


@pytest.mark.parametrize(
    ("game", "td_steps", "training", "ignore"),
    [
        ("skyjo", 10, {"episode": "round", "round_reward": 2.0, "max_decisions": 400}, ["score", "global.round"]),
        ("lama", 12, {"round_reward": 3.0, "max_decisions": 1200}, []),
        ("skipbo", 20, {"round_reward": 10.0, "max_decisions": 1000}, []),
    ],
)
def test_presets_have_settings_of_their_own_for_a_game(
    game: str, td_steps: int, training: dict[str, Any], ignore: list[str]
) -> None:
    cpu, smoke, paper = (compose_config(f"preset={preset}", f"game={game}") for preset in ("cpu", "smoke", "paper"))
    assert (cpu.learner.td_steps, smoke.learner.td_steps, paper.learner.td_steps) == (td_steps, 5, 10)
    starter = {"first_starter": "random"} if game == "skyjo" else {}
    assert smoke.game.training == training
    assert cpu.game.training == {**training, **starter}
    assert cpu.learner.td_lambda == (0.9 if game == "skyjo" else 1.0)
    assert smoke.learner.td_lambda == paper.learner.td_lambda == 1.0
    assert cpu.model.ignore == smoke.model.ignore == ignore
    assert (paper.game.training, paper.model.ignore) == ({"round_reward": 0.0}, ["counts"])


@pytest.mark.parametrize(
    "preset", ["smoke", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cpu", "paper"))]
)
def test_a_comparison_of_beliefs_gives_the_counts_to_their_own_arm_only(preset: str) -> None:
    """The groups that a preset ignores stay ignored; otherwise the counts arm is the baseline."""
    for variant in ("baseline", "belief", "ego_only", "heads_only"):
        plain, found = (
            compose_config(f"preset={preset}", f"+variant={variant}", *more) for more in ((), ("comparison=beliefs",))
        )
        assert found.model.ignore == [*(name for name in plain.model.ignore if name != "counts"), "counts"]
        assert replace(found, model=replace(plain.model)) == plain
    counts = compose_config(f"preset={preset}", "+variant=counts", "comparison=beliefs")
    baseline = compose_config(f"preset={preset}", "+variant=baseline", "comparison=beliefs")
    assert counts.model.ignore == [name for name in baseline.model.ignore if name != "counts"]
    assert replace(counts.model, counts=False) == baseline.model
    assert replace(counts, model=baseline.model, variant="baseline") == baseline
    assert compose_config(f"preset={preset}", "comparison=beliefs", "model.counts=true").model.counts


@pytest.mark.parametrize(
    ("game", "preset"), [("skyjo", "cpu"), ("skyjo", "smoke"), ("skyjo", "paper"), ("lama", "cpu")]
)
def test_a_comparison_of_utilities_differs_in_rounds_scores_and_what_they_pay(game: str, preset: str) -> None:
    """Rounds begin at standings of matches, which the network reads; nothing else changes."""
    plain, found = (compose_config(f"game={game}", f"preset={preset}", *more) for more in ((), ("comparison=match",)))
    preflight(found)
    assert (plain.game.utility, found.game.utility) == ("round", "match")
    rounds = {"episode": "round", "initial_scores": "played", "round_reward": 0.0}
    assert found.game.training == {**plain.game.training, **rounds}
    assert [name for name in found.model.ignore if name != "counts"] == ["global.round"]
    same = replace(found, game=plain.game, model=replace(found.model, ignore=plain.model.ignore))
    assert same == plain


def test_command_line_wins_over_the_settings_of_a_preset_for_a_game() -> None:
    changed = ["learner.td_steps=7", "model.ignore=[]", "game.training.round_reward=0.5"]
    config = compose_config("game=skyjo", "preset=cpu", *changed)
    assert (config.learner.td_steps, config.model.ignore, config.game.training["round_reward"]) == (7, [], 0.5)
    assert config.game.training["episode"] == "round"


def test_game_without_settings_in_a_preset_gets_those_of_the_preset(tmp_path: Path) -> None:
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "patience.yaml").write_text("name: patience\nplayers: 2\nbots: [somebody]\n")
    with initialize_config_module("conf", version_base="1.3"):
        raw = compose("config", ["game=patience", f"hydra.searchpath=[file://{tmp_path}]"])
    assert (raw.game.name, raw.game.training, raw.model.ignore) == ("patience", {}, [])
    assert (raw.learner.td_steps, raw.selfplay.curriculum.goal, raw.train.minutes) == (10, 0.65, 30)


def test_lama_pays_in_training_those_who_win_matches() -> None:
    """Folding never wins a round: the strategy that folds is the best of these in matches alone."""
    game = compose_config("game=lama").game
    tables = env.make("lama", 2000, 4, game.rules_for_training(), 5, auto_reset=False)
    paid = {}
    for name in ("strategy_1", "strategy_2", "strategy_3"):
        paid[name] = 0.0
        for seat in range(4):
            tables.reset(deals=list(range(2000)))
            bots = [tables.bot(name if other == seat else "strategy_1") for other in range(4)]
            while not tables.done.all():
                going = ~tables.done
                tables.step(np.where(going, tables.bot_actions(bots, 0), env.SKIP))
                paid[name] += float(tables.rewards[going, seat].sum()) / 8000
    assert paid["strategy_3"] > paid["strategy_1"] + 0.03 > paid["strategy_2"] + 0.2


def test_sections_can_be_checked_alone() -> None:
    for section, message in (
        (LearnerConfig(batch=0), "learner.batch: expected 1 or more, got 0"),
        (ModelConfig(hidden=0), "model.hidden: expected 1 or more, got 0"),
        (PoolConfig(size=0), "selfplay.pool.size: expected 1 or more, got 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            section.check()
