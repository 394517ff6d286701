"""The study of variants as a plan: stages of jobs, what each stage waits for, and which files prove a job done.

Nothing here runs anything: `experiments.study.local` and `experiments.study.slurm` do, each the same commands. The
first variant is the one that the others are compared with:

    train          every variant with every seed
    head_to_head   every run of another variant against the run of the first with the same seed, at matched checkpoints
    merge          their results as one table
    bots           every run against every bot
    ablation       runs with ego conditioning, with parts of it switched off
    probes         what the latents know
    report         learning curves
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from experiments.common import run_label
from muzero.config import Config, require
from muzero.runs import checkpoint


@dataclass
class StudyConfig:
    """Settings of a study; `experiments.study.HELP` explains them."""

    submit: str = ""
    dir: str = ""
    preset: str = "cpu"
    variants: list[str] = field(default_factory=lambda: ["baseline", "belief"])
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    iterations: list[int] = field(default_factory=list)
    games: int = 3000
    bot_games: int = 1000
    ablation_games: int = 1000
    probe_games: int = 500
    overrides: list[str] = field(default_factory=list)
    workers: int = 0
    at_once: int = 1

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.submit in ("", "local", "slurm"), "submit", "local or slurm", self.submit)
        for name, least in (("variants", 2), ("seeds", 1)):
            values = getattr(self, name)
            require(len(set(values)) == len(values) >= least, name, f"{least} or more, all different", values)
        rising = self.iterations == sorted({i for i in self.iterations if i > 0})
        require(rising, "iterations", "rising numbers, 1 or more", self.iterations)
        for name in ("games", "bot_games", "ablation_games"):
            require(getattr(self, name) >= 2, name, "2 or more", getattr(self, name))
        require(self.probe_games == 0 or self.probe_games >= 5, "probe_games", "0, or 5 or more", self.probe_games)
        require(self.workers >= 0, "workers", "0 or more", self.workers)
        require(self.at_once >= 1, "at_once", "1 or more", self.at_once)


# Other defaults that suit a preset.
DEFAULTS: dict[str, dict[str, Any]] = {
    # So that there are iterations to match.
    "cpu": {"overrides": ["train.minutes=0", "train.iterations=240", "train.keep_every=40"]},
    # Those of the published tables.
    "paper": {"iterations": [125, 250, 500, 750, 1000, 2000], "overrides": ["train.keep_every=25"]},
    "smoke": {
        "seeds": [0, 1],
        "games": 4,
        "bot_games": 2,
        "ablation_games": 4,
        "probe_games": 10,
        # Who has learned nothing plays on and on.
        "overrides": ["+game.rules.episode=round", "+game.rules.max_decisions=200"],
    },
}


_SMALL = {"GPUS": "none", "CPUS": "1", "MEM": "2G", "TIME": "1:00:00"}  # of a job that only reads results


@dataclass(frozen=True)
class Job:
    """A command.

    Attributes:
      name: STAGE or STAGE/TASK.
      command: arguments of Python, to be run in the project's directory.
      proof: a file that is there once it is done; of a job that trains the run directory, which says so itself.
      mark: what the file then has in it: others may have written it before.
    """

    name: str
    command: tuple[str, ...]
    proof: Path
    mark: str = ""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        if "muzero.train" in self.command:
            return finished(self.proof)
        return self.proof.is_file() and self.mark in self.proof.read_text()


@dataclass(frozen=True)
class Stage:
    """Jobs that can run side by side, and how SLURM is told of them.

    Attributes:
      name: of the stage.
      needs: stages that must be done before.
      jobs: in the order of an array's tasks.
      file: in slurm/; one whose name ends in _array runs all jobs, another one has only one to run.
      settings: for the batch file, as in slurm/config.sh.
      arguments: of the batch file.
    """

    name: str
    needs: tuple[str, ...]
    jobs: tuple[Job, ...]
    file: str
    settings: Mapping[str, str]
    arguments: tuple[str, ...]

    @property
    def is_array(self) -> bool:
        """Whether its jobs are tasks of an array."""
        return self.file.endswith("_array.sbatch")

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return all(job.done for job in self.jobs)


def finished(run: Path) -> bool:
    """Whether a training run has come to its end, by the trainer's own rule."""
    places = checkpoint.checkpoints(run)
    if not places or not (run / checkpoint.CONFIG).is_file():
        return False
    try:
        content = json.loads((places[-1] / checkpoint.STATE).read_bytes())
    except FileNotFoundError:  # it is being replaced by a newer one
        return False
    train = OmegaConf.load(run / checkpoint.CONFIG).train
    limit = float(train.minutes) * 60
    return bool(content["iteration"] >= train.iterations or 0 < limit <= content["state"]["elapsed"])


def settle_iterations(config: StudyConfig, training: Config) -> list[int]:
    """The checkpoints to compare: those asked for, if they will be kept; else half-way and at the end."""
    t = training.train
    hint = "0, so that runs have iterations to match: overrides=[train.minutes=0,train.iterations=...]"
    require(t.minutes == 0, "train.minutes", hint, t.minutes)
    half = t.iterations // 2 // t.keep_every * t.keep_every
    wanted = config.iterations or sorted({half, t.iterations} - {0})
    for iteration in wanted:
        kept = iteration == t.iterations or (iteration % t.keep_every == 0 and iteration < t.iterations)
        expected = f"multiples of {t.keep_every} (train.keep_every) up to {t.iterations} (train.iterations), or that"
        require(kept, "iterations", expected, iteration)
    return wanted


def make_plan(config: StudyConfig, home: Path, training: Mapping[str, Config]) -> list[Stage]:
    """The stages, each after those that it needs.

    Args:
      config: of the study.
      home: directory of the study.
      training: how each variant is trained.
    """
    first, *others = config.variants
    matched = ("--iterations", *map(str, settle_iterations(config, training[first])))
    runs = {v: [home / "train" / f"{v}-s{s}" for s in config.seeds] for v in config.variants}
    everyone = [str(run) for v in config.variants for run in runs[v]]
    with_ego = [str(run) for v in config.variants if training[v].model.ego for run in runs[v]]
    crew = ("--workers", str(config.workers)) if config.workers else ()

    def experiment(stage: str, script: str, games: int, who: Sequence[str], *options: str) -> Stage:
        words = (f"experiments/{script}.py", "--runs", *who, "--games", str(games), *options)
        return _single(stage, words, home / script, f"{script}.json")

    stages = [_train(config, home)]
    for other in others:
        stages += _head_to_head(config, home / f"{other}-against-{first}", runs[other], runs[first], matched[1:], crew)
    stages.append(experiment("bots", "bot_eval", config.bot_games, everyone, *matched, *crew))
    if with_ego:
        stages.append(experiment("ablation", "ego_ablation", config.ablation_games, with_ego, *crew))
    if config.probe_games:
        stages.append(experiment("probes", "latent_probes", config.probe_games, everyone))
    report = _single("report", ("-m", "muzero.report", *everyone), home / "report", "report.json")
    stages.append(replace(report, settings=_SMALL))
    return stages


def _train(config: StudyConfig, home: Path) -> Stage:
    arguments = (f"preset={config.preset}", *config.overrides)
    jobs = []
    for variant, seed in product(config.variants, config.seeds):
        run = home / "train" / f"{variant}-s{seed}"
        command = ("-m", "muzero.train", f"+variant={variant}", f"seed={seed}", f"run_dir={run}", *arguments)
        jobs.append(Job(f"train/{run.name}", command, run))
    settings = {"VARIANTS": _words(config.variants), "SEEDS": _words(config.seeds), "RUNS": str(home / "train")}
    return Stage("train", (), tuple(jobs), "train_array.sbatch", settings, arguments)


def _head_to_head(
    config: StudyConfig, out: Path, a: list[Path], b: list[Path], iterations: Sequence[str], crew: tuple[str, ...]
) -> list[Stage]:
    """A match per pair and iteration, and the job that makes one table of them."""
    name = "head_to_head" if len(config.variants) == 2 else f"head_to_head-{out.name}"
    script, tail, jobs = "experiments/head_to_head.py", ("--games", str(config.games), "--out", str(out)), []
    for (one, other), iteration in product(zip(a, b, strict=True), iterations):
        pair = ("--a", str(one), "--b", str(other), "--iterations", iteration)
        part = out / "parts" / f"{run_label(one)}--{run_label(other)}--{int(iteration):06d}.json"
        jobs.append(Job(f"{name}/{one.name}-{other.name}-{iteration}", (script, *pair, *tail, *crew), part))
    settings = {"A_RUNS": _words(a), "B_RUNS": _words(b), "ITERATIONS": _words(iterations)}
    settings |= {"GAMES": str(config.games), "OUT": str(out)}
    merge = _single(f"merge{name.removeprefix('head_to_head')}", (script, "--merge"), out, "head_to_head.json", name)
    merge = replace(merge, jobs=(replace(merge.jobs[0], mark="--merge"),), settings=_SMALL)
    return [Stage(name, ("train",), tuple(jobs), "head_to_head_array.sbatch", settings, crew), merge]


def _single(name: str, words: tuple[str, ...], out: Path, proof: str, needs: str = "train") -> Stage:
    """A stage of one job, which writes into a directory of its own."""
    command = (*words, "--out", str(out))
    return Stage(name, (needs,), (Job(name, command, out / proof),), "python.sbatch", {}, command)


def _words(values: Sequence[object]) -> str:
    return " ".join(map(str, values))
