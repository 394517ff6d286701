"""Plan of a study: stages of jobs, the stages that each one needs, and the files that prove a job done.

Nothing here runs anything: `experiments.study.local` and `experiments.study.slurm` run the same commands. Networks are
not given the counts of unseen cards, except with the variant `counts`, which is an arm of its own. All variants are
compared with the first one:

    train          trains every variant with every seed
    head_to_head   plays every other run against the first variant's run with the same seed, at equal iterations
    merge          combines these results into one table
    bots           plays every run against every bot
    ablation       plays runs with ego conditioning against themselves with parts of it switched off
    probes         fits linear probes to the latents
    report         draws learning curves
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from muzero.config import Config, require
from muzero.runs.run import is_finished, run_label


@dataclass
class StudyConfig:
    """Settings of a study; `experiments.study.command.HELP` explains them."""

    submit: str = ""
    dir: str = ""
    preset: str = "cpu"
    variants: list[str] = field(default_factory=lambda: ["baseline", "belief", "counts"])
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    iterations: list[int] = field(default_factory=list)
    games: int = 3000
    bot_games: int = 1000
    ablation_games: int = 1000
    probe_games: int = 500
    overrides: list[str] = field(default_factory=list)
    workers: int = 0
    at_once: int = 1
    pack: int = 1

    def check(self) -> None:
        """Refuses impossible values; the error names key and value."""
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
        for name in ("at_once", "pack"):
            require(getattr(self, name) >= 1, name, "1 or more", getattr(self, name))


# Defaults of a study that differ by preset.
DEFAULTS: dict[str, dict[str, Any]] = {
    # Runs are compared at equal iterations, so they must not end by the clock.
    "cpu": {"overrides": ["train.minutes=0", "train.iterations=240", "train.keep_every=40"]},
    # Variants and iterations of the published tables.
    "paper": {
        "variants": ["baseline", "belief"],
        "iterations": [125, 250, 500, 750, 1000, 2000],
        "overrides": ["train.keep_every=25"],
    },
    "smoke": {
        "variants": ["baseline", "belief"],
        "seeds": [0, 1],
        "games": 4,
        "bot_games": 2,
        "ablation_games": 4,
        "probe_games": 10,
        # Games of untrained networks hardly ever end.
        "overrides": ["+game.rules.episode=round", "+game.rules.max_decisions=200"],
    },
}


# Choice of `python -m muzero.train` that keeps counts of unseen cards, which would give the belief away, from networks.
COMPARISON = "comparison=beliefs"

# Resources of a job that only reads results.
_SMALL = {"GPUS": "none", "GRES": "none", "CPUS": "1", "MEM": "2G", "TIME": "1:00:00"}


@dataclass(frozen=True)
class Job:
    """A command to run.

    Attributes:
      name: name of the job, STAGE or STAGE/TASK.
      command: arguments of Python, to be run in the project's directory.
      proof: file that exists once the job is done; for training, the run directory.
      marks: texts that the file must contain: other jobs may write it too, or a smaller study before it was extended.
    """

    name: str
    command: tuple[str, ...]
    proof: Path
    marks: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether nothing of the job is left to do."""
        if "muzero.train" in self.command:
            return is_finished(self.proof)
        if not self.proof.is_file():
            return False
        content = self.proof.read_text()
        return all(re.search(re.escape(mark) + r"(?!\w)", content) for mark in self.marks)


@dataclass(frozen=True)
class Stage:
    """Jobs that can run at the same time, and how they are submitted to SLURM.

    Attributes:
      name: name of the stage.
      needs: names of the stages that must be done before.
      jobs: jobs in the order of the tasks of an array.
      file: batch file in slurm/; a name that ends in _array runs all jobs as an array, another one runs a single job.
      settings: settings of the batch file, as in slurm/config.sh.
      arguments: arguments of the batch file.
      can_pack: whether one task of the array can run several jobs at the same time (PACK in slurm/config.sh).
    """

    name: str
    needs: tuple[str, ...]
    jobs: tuple[Job, ...]
    file: str
    settings: Mapping[str, str]
    arguments: tuple[str, ...]
    can_pack: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the jobs are tasks of an array."""
        return self.file.endswith("_array.sbatch")

    @property
    def done(self) -> bool:
        """Whether nothing of the stage is left to do."""
        return all(job.done for job in self.jobs)


def choose_iterations(config: StudyConfig, training: Config) -> list[int]:
    """Iterations of the checkpoints to compare: the given ones, which runs must keep, else half-way and at the end."""
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
    """Stages of a study, each after those that it needs.

    Args:
      config: settings of the study.
      home: directory of the study.
      training: configuration of each variant.
    """
    first, *others = config.variants
    matched = ("--iterations", *map(str, choose_iterations(config, training[first])))
    runs = {v: [home / "train" / f"{v}-s{s}" for s in config.seeds] for v in config.variants}
    everyone = [str(run) for v in config.variants for run in runs[v]]
    with_ego = [str(run) for v in config.variants if training[v].model.ego for run in runs[v]]
    workers = ("--workers", str(config.workers)) if config.workers else ()

    def experiment(stage: str, script: str, games: int, of_runs: Sequence[str], *options: str) -> Stage:
        words = ("-m", f"experiments.{script}", "--runs", *of_runs, "--games", str(games), *options)
        marks = (*of_runs, *([" ".join(matched)] if matched[0] in options else []))
        return _single(stage, words, home / script, f"{script}.json", marks=marks)

    stages = [_train(config, home)]
    for other in others:
        stages += _head_to_head(
            config, home / f"{other}-against-{first}", runs[other], runs[first], matched[1:], workers
        )
    stages.append(experiment("bots", "bot_eval", config.bot_games, everyone, *matched, *workers))
    if with_ego:
        stages.append(experiment("ablation", "ego_ablation", config.ablation_games, with_ego, *workers))
    if config.probe_games:
        stages.append(experiment("probes", "latent_probes", config.probe_games, everyone))
    report = _single("report", ("-m", "muzero.report", *everyone), home / "report", "report.json", marks=everyone)
    stages.append(replace(report, settings=_SMALL))
    return stages


def _train(config: StudyConfig, home: Path) -> Stage:
    arguments = (f"preset={config.preset}", COMPARISON, *config.overrides)
    jobs = []
    for variant, seed in product(config.variants, config.seeds):
        run = home / "train" / f"{variant}-s{seed}"
        command = ("-m", "muzero.train", f"+variant={variant}", f"seed={seed}", f"run_dir={run}", *arguments)
        jobs.append(Job(f"train/{run.name}", command, run))
    settings = {"VARIANTS": _words(config.variants), "SEEDS": _words(config.seeds), "RUNS": str(home / "train")}
    return Stage("train", (), tuple(jobs), "train_array.sbatch", settings, arguments, can_pack=True)


def _head_to_head(
    config: StudyConfig, out: Path, a: list[Path], b: list[Path], iterations: Sequence[str], workers: tuple[str, ...]
) -> list[Stage]:
    """Stage with a match per pair and iteration, and the stage that combines them into one table."""
    name = "head_to_head" if len(config.variants) == 2 else f"head_to_head-{out.name}"
    script = ("-m", "experiments.head_to_head")
    tail, jobs = ("--games", str(config.games), "--out", str(out)), []
    for (one, other), iteration in product(zip(a, b, strict=True), iterations):
        pair = ("--a", str(one), "--b", str(other), "--iterations", iteration)
        part = out / "parts" / f"{run_label(one)}--{run_label(other)}--{int(iteration):06d}.json"
        jobs.append(Job(f"{name}/{one.name}-{other.name}-{iteration}", (*script, *pair, *tail, *workers), part))
    settings = {"A_RUNS": _words(a), "B_RUNS": _words(b), "ITERATIONS": _words(iterations)}
    settings |= {"GAMES": str(config.games), "OUT": str(out)}
    merge = _single(f"merge{name.removeprefix('head_to_head')}", (*script, "--merge"), out, "head_to_head.json", name)
    marks = ("--merge", *map(str, (*a, *b)), *(f'"iteration": {iteration}' for iteration in iterations))
    merge = replace(merge, jobs=(replace(merge.jobs[0], marks=marks),), settings=_SMALL)
    return [Stage(name, ("train",), tuple(jobs), "head_to_head_array.sbatch", settings, workers), merge]


def _single(
    name: str, words: tuple[str, ...], out: Path, proof: str, needs: str = "train", marks: Sequence[str] = ()
) -> Stage:
    """Stage of one job that writes to a directory of its own."""
    command = (*words, "--out", str(out))
    return Stage(name, (needs,), (Job(name, command, out / proof, tuple(marks)),), "python.sbatch", {}, command)


def _words(values: Sequence[object]) -> str:
    return " ".join(map(str, values))
