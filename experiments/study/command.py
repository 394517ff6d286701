"""The whole comparison of variants (baseline and belief) as one command that can be repeated until everything is done.

    python -m experiments.study submit=local preset=smoke        run on this machine
    python -m experiments.study submit=slurm preset=paper        submit to a cluster; settings in slurm/config.sh
    python -m experiments.study status preset=paper              show what is done, running, queued, failed, missing
    python -m experiments.study usage preset=paper               show time and memory that each SLURM job has used
    python -m experiments.study plan preset=paper                print the commands without running them

The study trains every variant with every seed, plays checkpoints of equal iterations against each other and against the
bots, and makes ablations, probes and learning curves. Keys:
{keys}
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.study import accounting, local, slurm
from experiments.study.plan import COMPARISON, DEFAULTS, Job, Stage, StudyConfig, make_plan
from experiments.study.records import Records
from muzero.config import Config, require
from muzero.training.command import EXIT_BAD_INPUT, read_config
from muzero.training.hydra_arguments import hydra_arguments
from muzero.training.preflight import check_game

VERBS = ("submit", "status", "usage", "plan")
ROOT = Path(__file__).resolve().parent.parent.parent
HELP = {
    "submit": "local or slurm",
    "dir": "directory of the study; by default runs/study-PRESET",
    "preset": "preset of python -m muzero.train",
    "variants": "variants to train; all others are compared with the first. None is given the counts of unseen cards, "
    "except counts; by default two with preset=paper and preset=smoke: baseline and belief",
    "seeds": "seeds with which every variant is trained",
    "iterations": "checkpoints to compare; by default half-way and the last, with preset=paper those of the paper",
    "games": "games between two runs at a checkpoint",
    "bot_games": "games per run, checkpoint and bot",
    "ablation_games": "games per run and ablation",
    "probe_games": "games for the probes; 0 for no probes (which are for Skyjo only)",
    "overrides": "further settings of python -m muzero.train, such as overrides=[model=small,learner.lr=1e-3]; they "
    "are added after those that a preset needs for a study",
    "workers": "worker processes of a match; 0 for one per core of the job",
    "at_once": "number of jobs that run at the same time with submit=local",
    "pack": "training runs in one job with submit=slurm; they share its GPU, and each has CPUS cores",
}


def read_arguments(arguments: Sequence[str]) -> tuple[str, StudyConfig]:
    """Reads the verb (submit, status, usage or plan) and the checked settings from the command line."""
    words = list(arguments)
    verb = words.pop(0) if words and "=" not in words[0] else "submit"
    require(verb in VERBS, "the first word", f"one of {', '.join(VERBS)}, or key=value", verb)
    for word in words:
        require("=" in word, f"argument {word!r}", f"key=value with one of {', '.join(HELP)}", word)
    try:
        given = OmegaConf.from_dotlist(words)
        defaults = DEFAULTS.get(given.get("preset", StudyConfig.preset), {})
        if "overrides" in given:
            given["overrides"] = [*defaults.get("overrides", ()), *given["overrides"]]
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(StudyConfig), defaults, given))
    except OmegaConfBaseException as error:
        raise ValueError(f"{str(error).splitlines()[0]}; keys are {', '.join(HELP)}") from None
    assert isinstance(config, StudyConfig)
    config.check()
    config.dir = config.dir or str(Path("runs") / f"study-{config.preset}")
    require(len(config.dir.split()) == 1, "dir", "a path without blanks", config.dir)
    require(verb != "submit" or bool(config.submit), "submit", "local or slurm", config.submit)
    return verb, config


def training(config: StudyConfig) -> dict[str, Config]:
    """Training configuration of each variant; an error names the variant."""
    found = {}
    with initialize_config_module("conf", version_base="1.3"):
        for variant in config.variants:
            try:
                chosen = [f"variant={variant}", f"preset={config.preset}", COMPARISON, *config.overrides]
                raw = compose("config", hydra_arguments(chosen))
            except (HydraException, OmegaConfBaseException) as error:
                raise ValueError(f"variant {variant}: {error}") from None
            found[variant] = read_config(raw)
            check_game(found[variant])
    return found


def state_of(job: Job, records: Records, in_queue: dict[str, str], local_runs: bool) -> str:
    """State of a job: done, running, queued, failed or missing."""
    if job.done:
        return "done"
    record = records.jobs.get(job.name)
    if record is None:
        return "missing"
    if record["by"] == "slurm":
        state = in_queue.get(record["number"])
        return "failed" if state is None else "running" if state in slurm.RUNNING else "queued"
    if "pid" in record:  # the job had not ended when this was recorded
        return "running" if local_runs else "missing"
    return "missing" if record["code"] in (0, 75) else "failed"


def status(stages: Sequence[Stage], records: Records) -> str:
    """Table with a line per stage, and a line per job that is running or has failed, with the reason if SLURM knows."""
    by_slurm = any(record["by"] == "slurm" for record in records.jobs.values())
    all_done = all(stage.done for stage in stages)
    in_queue = slurm.queue() if by_slurm and not all_done else {}
    local_runs = records.is_locked
    names = ("done", "running", "queued", "failed", "missing")
    lines = [f"{'':14}" + "".join(f"{name:>9}" for name in names)]
    shown: dict[str, str] = {}
    for stage in stages:
        states = {job.name: state_of(job, records, in_queue, local_runs) for job in stage.jobs}
        count = Counter(states.values())
        lines.append(f"{stage.name:14}" + "".join(f"{count[name] or '-':>9}" for name in names))
        shown |= {name: state for name, state in states.items() if state in ("running", "failed")}
    found, why_not = accounting.accounts(records.number(name) for name in shown)
    details = []
    for name, state in shown.items():
        account = found.get(records.number(name))
        reason = f": {account.reason}" if account and state == "failed" else ""
        details.append(f"{state}: {name}{reason}{f' ({account.used})' if account else ''}")
    tail = [f"logs are in {records.home / 'logs'}"] if details else []
    tail += [f"why jobs failed is not known: {why_not}"] if why_not and "failed" in shown.values() else []
    if all_done:
        pages = [job.proof.with_suffix(".md") for stage in stages for job in stage.jobs if not stage.is_array]
        tail = ["all done; the tables are", *map(str, pages)]
    return "\n".join([*lines, "", *details, *tail])


def used(stages: Sequence[Stage], records: Records) -> str:
    """Table of the time and memory that the SLURM jobs of a study have used."""
    names: dict[str, list[str]] = {}  # jobs of the study by SLURM's number, in the order of the study
    for job in (job for stage in stages for job in stage.jobs):
        if number := records.number(job.name):
            names.setdefault(number, []).append(job.name)
    require(bool(names), str(records.home), "a study with jobs that were submitted with submit=slurm", "none")
    found, why_not = accounting.accounts(names)
    if why_not:
        raise ValueError(f"SLURM keeps no accounts that can be read here: {why_not}")
    return accounting.table(names, found)


def usage() -> str:
    """Text of --help."""
    defaults = asdict(StudyConfig())
    keys = "\n".join(f"    {name}={defaults[name] or ''}".replace("'", "") + f"\n        {HELP[name]}" for name in HELP)
    return (__doc__ or "").format(keys=keys)


def execute(verb: str, config: StudyConfig) -> int:
    """Executes the command; returns the exit code."""
    home = Path(config.dir).resolve()  # jobs run in ROOT, and results are stored under the paths of runs
    records = Records(home)
    if verb in ("status", "usage") and records.settings:
        config = StudyConfig(**{**asdict(config), **records.settings})
    stages = make_plan(config, home, training(config))
    if verb == "plan":
        for job in (job for stage in stages for job in stage.jobs):
            print(f"# {job.name}\npython {shlex.join(job.command)}")
        return 0
    if verb in ("status", "usage"):
        require(bool(records.settings), str(home), "the directory of a study (dir=... or preset=...)", "none")
        print(status(stages, records) if verb == "status" else used(stages, records))
        return 0
    require((ROOT / "slurm" / "submit.sh").is_file(), str(ROOT), "a clone of the repository", "no slurm/submit.sh")
    with records.lock():
        records.store_settings(asdict(config))
        if config.submit == "local":
            code = local.run(stages, ROOT, records, config.at_once)
        else:
            code = 0
            slurm.submit(stages, ROOT, records, config.pack)
    print(status(stages, records))
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python -m experiments.study`; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    try:
        return execute(*read_arguments(arguments))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
