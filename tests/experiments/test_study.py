"""experiments.study: the plan, who runs it, and the batch files, which must run the very commands of the plan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from experiments.study import command as study
from experiments.study import local as study_local
from experiments.study import slurm as study_slurm
from experiments.study.plan import Job, Stage, StudyConfig, finished, make_plan, settle_iterations
from experiments.study.records import Records
from muzero.runs import checkpoint

SLURM = study.ROOT / "slurm"
STAGES = ["train", "head_to_head", "merge", "bots", "ablation", "probes", "report"]


def a_plan(home: Path, *arguments: str) -> dict[str, Stage]:
    _, config = study.read_arguments(["plan", "preset=smoke", *arguments])
    return {stage.name: stage for stage in make_plan(config, home, study.training(config))}


# ---- the plan ----------------------------------------------------------------------------------------------------


def test_the_smoke_study(tmp_path: Path) -> None:
    """2 variants x 2 seeds, the same seeds against each other, at 2 checkpoints."""
    plan = a_plan(tmp_path)
    assert list(plan) == STAGES
    assert [job.name for job in plan["train"].jobs] == [
        "train/baseline-s0",
        "train/baseline-s1",
        "train/belief-s0",
        "train/belief-s1",
    ]
    run = tmp_path / "train" / "belief-s1"
    assert plan["train"].jobs[-1].command == (
        *("-m", "muzero.train", "+variant=belief", "seed=1", f"run_dir={run}"),
        *("preset=smoke", "+game.rules.episode=round", "+game.rules.max_decisions=200"),
    )
    compared = [
        (Path(job.command[2]).name, Path(job.command[4]).name, job.command[6]) for job in plan["head_to_head"].jobs
    ]
    pairs = [("belief-s0", "baseline-s0"), ("belief-s1", "baseline-s1")]
    assert compared == [(*pair, iteration) for pair in pairs for iteration in ("2", "4")]
    assert str(run) in plan["ablation"].jobs[0].command
    assert not any("baseline" in word for word in plan["ablation"].jobs[0].command)  # it has nothing to switch off


def test_every_stage_comes_after_what_it_needs(tmp_path: Path) -> None:
    seen: set[str] = set()
    for stage in a_plan(tmp_path).values():
        assert seen.issuperset(stage.needs)
        seen.add(stage.name)


def test_no_two_jobs_share_a_name_or_a_proof(tmp_path: Path) -> None:
    jobs = [job for stage in a_plan(tmp_path).values() for job in stage.jobs]
    assert len({job.name for job in jobs}) == len(jobs)
    assert len({job.proof for job in jobs}) == len(jobs)


def test_probes_can_be_left_out(tmp_path: Path) -> None:
    assert "probes" not in a_plan(tmp_path, "probe_games=0")


def test_jobs_that_only_read_results_take_little(tmp_path: Path) -> None:
    small = {name for name, stage in a_plan(tmp_path).items() if stage.settings.get("GPUS") == "none"}
    assert small == {"merge", "report"}


def test_without_ego_conditioning_there_is_no_ablation(tmp_path: Path) -> None:
    assert "ablation" not in a_plan(tmp_path, "variants=[baseline,heads_only]")


@pytest.mark.parametrize(
    ("arguments", "iterations"),
    [
        ((), ["2", "4"]),
        (("iterations=[4]",), ["4"]),
        (("overrides=[train.iterations=7]",), ["2", "7"]),  # half-way, rounded down to what is kept; the last
        (("overrides=[train.iterations=1]",), ["1"]),
    ],
)
def test_matched_checkpoints(arguments: tuple[str, ...], iterations: list[str], tmp_path: Path) -> None:
    plan = a_plan(tmp_path, *arguments)
    assert [job.command[6] for job in plan["head_to_head"].jobs if job.command[2].endswith("s0")] == iterations
    (bots,) = plan["bots"].jobs
    start = bots.command.index("--iterations") + 1
    assert list(bots.command[start : start + len(iterations) + 1]) == [*iterations, "--out"]


def test_what_presets_need_for_a_study_stays_unless_it_is_overridden() -> None:
    _, config = study.read_arguments(["plan", "preset=cpu", "overrides=[learner.batch=64]"])
    trained = study.training(config)["belief"]
    assert (trained.train.minutes, trained.train.iterations, trained.learner.batch) == (0, 240, 64)
    _, config = study.read_arguments(["plan", "preset=cpu", "overrides=[train.iterations=80]"])
    assert settle_iterations(config, study.training(config)["belief"]) == [40, 80]
    _, config = study.read_arguments(["plan", "preset=paper"])
    found = settle_iterations(config, study.training(config)["belief"])
    assert set(found) > {125, 250, 500, 750, 1000}, "those of the published tables"


def test_several_variants_are_each_compared_with_the_first(tmp_path: Path) -> None:
    """Each in a directory and a table of its own."""
    plan = a_plan(tmp_path, "variants=[baseline,belief,ego_only]")
    for other in ("belief", "ego_only"):
        stage, merge = plan[f"head_to_head-{other}-against-baseline"], plan[f"merge-{other}-against-baseline"]
        assert {Path(job.command[2]).name for job in stage.jobs} == {f"{other}-s0", f"{other}-s1"}
        assert merge.needs == (stage.name,)
        assert all(job.proof.parent.parent == merge.jobs[0].proof.parent for job in stage.jobs)


def test_a_table_of_some_matches_is_not_the_merged_one(tmp_path: Path) -> None:
    """Every match of the array writes the table of the parts that are there."""
    (merge,) = a_plan(tmp_path)["merge"].jobs
    merge.proof.parent.mkdir()
    merge.proof.write_text('{"command": "head_to_head.py --a x --b y"}')
    assert not merge.done
    merge.proof.write_text('{"command": "head_to_head.py --merge --out x"}')
    assert merge.done


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stats"], "the first word: expected one of submit, status, plan"),
        (["preset=smoke"], "submit: expected local or slurm, got ''"),
        (["submit=cloud"], "submit: expected local or slurm, got 'cloud'"),
        (["submit=local", "what=1"], "Key 'what' not in 'StudyConfig'"),
        (["submit=local", "variants=[belief]"], "variants: expected 2 or more, all different"),
        (["submit=local", "seeds=[1,1]"], "seeds: expected 1 or more, all different"),
        (["submit=local", "iterations=[4,2]"], "iterations: expected rising numbers"),
        (["submit=local", "dir=my runs"], "dir: expected a path without blanks, got 'my runs'"),
        (["submit=local", "games=0"], "games: expected 2 or more, got 0"),
        (["plan", "preset=smoke", "iterations=[3]"], "iterations: expected multiples of 2 (train.keep_every) up to 4"),
        (["plan", "preset=smoke", "iterations=[6]"], "iterations: expected multiples of 2 (train.keep_every) up to 4"),
        (["plan", "preset=smoke", "overrides=[train.minutes=5]"], "train.minutes: expected 0, so that runs have iter"),
        (["plan", "preset=smoke", "variants=[baseline,brave]"], "variant brave: "),
        (["plan", "preset=smoke", "overrides=[learner.batch=0]"], "learner.batch: expected 1 or more, got 0"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(arguments) == 2
    assert said in capsys.readouterr().err


def a_run(path: Path, iteration: int, elapsed: float, iterations: int = 4, minutes: float = 0) -> Path:
    place = path / checkpoint.CHECKPOINTS / f"{iteration:06d}"
    place.mkdir(parents=True)
    (place / checkpoint.STATE).write_text(json.dumps({"iteration": iteration, "state": {"elapsed": elapsed}}))
    (path / checkpoint.CONFIG).write_text(f"train: {{iterations: {iterations}, minutes: {minutes}}}\n")
    return path


def test_a_run_is_finished_by_the_trainers_rule(tmp_path: Path) -> None:
    assert not finished(tmp_path / "none")
    assert not finished(a_run(tmp_path / "a", 3, 99))
    assert finished(a_run(tmp_path / "b", 4, 99))
    assert not finished(a_run(tmp_path / "c", 3, 59, minutes=1))
    assert finished(a_run(tmp_path / "d", 3, 60, minutes=1))


# ---- submit=local ------------------------------------------------------------------------------------------------


def a_stage(name: str, home: Path, programs: list[str], *needs: str) -> Stage:
    """Jobs that run programs; each should write its file."""
    files = [home / f"{name}{i}" for i in range(len(programs))]
    jobs = [
        Job(f"{name}/{i}", ("-c", f"out = {str(file)!r}\n{program}"), file)
        for i, (program, file) in enumerate(zip(programs, files, strict=True))
    ]
    return Stage(name, needs, tuple(jobs), "some_array.sbatch", {}, ())


WRITE = "open(out, 'a').write('x')"
STOPPABLE = f"""
import os, signal, sys, time
if os.path.exists(out + '.saved'):
    {WRITE}; sys.exit(0)
def stop(*_):
    open(out + '.saved', 'w'); sys.exit(75)
signal.signal(signal.SIGTERM, stop)
open(out + '.started', 'w')
time.sleep(60)
"""


def test_local_runs_what_can_be_run_and_goes_on_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failure holds up only what needs it; what is done is not done again."""
    good = a_stage("good", tmp_path, [WRITE, WRITE])
    lying = a_stage("lying", tmp_path, ["pass"])
    bad = a_stage("bad", tmp_path, [WRITE, "raise SystemExit(3)"])
    stages = [good, bad, lying, a_stage("after", tmp_path, [WRITE], "good"), a_stage("never", tmp_path, [WRITE], "bad")]
    assert study_local.run(stages, tmp_path, Records(tmp_path), at_once=2) == 1
    assert [stage.done for stage in stages] == [True, False, False, True, False]
    output = capsys.readouterr().out
    assert "bad/1: failed with code 3" in output
    assert f"lying/0: ended well, but has not left {tmp_path / 'lying0'}" in output
    assert "never" not in output
    (tmp_path / "bad1").write_text("mended")
    (tmp_path / "lying0").write_text("mended")
    assert study_local.run(stages, tmp_path, Records(tmp_path), at_once=1) == 0
    assert all((tmp_path / name).read_text() == "x" for name in ("good0", "good1", "bad0", "after0", "never0"))


def test_asked_to_stop_local_asks_its_jobs(tmp_path: Path) -> None:
    stages = [a_stage("train", tmp_path, [STOPPABLE]), a_stage("after", tmp_path, [WRITE], "train")]
    program = (
        "import sys; from pathlib import Path\nfrom tests import test_study as t\n"
        f"home = Path({str(tmp_path)!r})\n"
        "stages = [t.a_stage('train', home, [t.STOPPABLE]), t.a_stage('after', home, [t.WRITE], 'train')]\n"
        "sys.exit(t.study_local.run(stages, home, t.Records(home), 1))"
    )
    first = subprocess.Popen([sys.executable, "-c", program], cwd=study.ROOT)
    end = time.monotonic() + 120
    while not (tmp_path / "train0.started").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 75
    assert (tmp_path / "train0.saved").exists()
    assert Records(tmp_path).jobs["train/0"] == {"by": "local", "code": 75}
    assert not (tmp_path / "after0").exists()
    assert study_local.run(stages, tmp_path, Records(tmp_path), at_once=1) == 0


def test_a_study_is_one_persons_and_one_configuration(tmp_path: Path) -> None:
    records, other = Records(tmp_path), Records(tmp_path)
    records.settle({"seeds": [0], "submit": "local"})
    other.settle({"seeds": [0], "submit": "slurm"})
    with pytest.raises(ValueError, match=r"holds another study \(stored != yours\)\n  seeds: \[0\] != \[1\]"):
        other.settle({"seeds": [1], "submit": "local"})
    assert not other.is_locked
    with records.lock():
        assert other.is_locked
        with pytest.raises(ValueError, match="another process is running this study"), other.lock():
            pass


def test_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [a_stage("train", tmp_path, [WRITE] * 6), a_stage("after", tmp_path, [WRITE], "train")]
    (tmp_path / "train0").write_text("")
    records = Records(tmp_path)
    records.note("train/0", by="slurm", number="7_0")
    records.note("train/1", by="slurm", number="7_1")
    records.note("train/2", by="slurm", number="7_2")
    records.note("train/3", by="slurm", number="7_3")
    records.note("train/4", by="local", code=1)
    records.note("train/5", by="local", code=75)
    monkeypatch.setattr(study_slurm, "queue", lambda: {"7_1": "RUNNING", "7_2": "PENDING"})
    lines = study.status(stages, Records(tmp_path)).splitlines()
    assert lines[0].split() == ["done", "running", "queued", "failed", "missing"]
    assert lines[1].split() == ["train", "1", "1", "1", "2", "1"]
    assert lines[2].split() == ["after", "-", "-", "-", "-", "1"]
    assert lines[4:7] == ["running: train/1", "failed: train/3", "failed: train/4"]


def test_status_of_a_study_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(["status", "preset=smoke", f"dir={tmp_path}"]) == 2
    assert f"{tmp_path}: expected the directory of a study" in capsys.readouterr().err


# ---- the batch files, with stand-ins for SLURM's programs ----------------------------------------------------------


class Stand:
    """Programs that stand in for SLURM's, and a place for what they were called with."""

    def __init__(self, home: Path) -> None:
        self.home, self.bin = home, home / "bin"
        self.bin.mkdir()
        self.calls = home / "calls"
        self.program("srun", 'while [[ $1 == --* ]]; do shift; done; exec "$@"')
        self.program("scontrol", f'echo "scontrol $*" >>{self.calls}; echo "JobId=5 JobState=${{STATE:-RUNNING}} X=1"')
        self.program("python", f'printf "%s\\n" "$@" >{home}/arguments; exit ${{CODE:-0}}')

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (self.bin / name).chmod(0o755)

    def environment(self, **settings: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        paths = {"PATH": f"{self.bin}:{os.environ['PATH']}", "PROJECT": str(study.ROOT), "VENV": str(self.home)}
        return {**plain, **paths, "SLURM_JOB_ID": "5", "WANDB_MODE": "disabled", **settings}

    def run(self, file: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(SLURM / file), *arguments]
        return subprocess.run(command, env=self.environment(**settings), capture_output=True, text=True, check=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of Python."""
        return tuple((self.home / "arguments").read_text().splitlines())

    @property
    def requeued(self) -> bool:
        return self.calls.exists() and "scontrol requeue 5" in self.calls.read_text()


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


@pytest.mark.parametrize("settings", [(), ("overrides=[learner.batch=4]", "workers=2", "iterations=[2]")])
def test_batch_files_run_the_commands_of_the_plan(settings: tuple[str, ...], stand: Stand, tmp_path: Path) -> None:
    for stage in a_plan(tmp_path, *settings).values():
        for index, job in enumerate(stage.jobs):
            task = {"SLURM_ARRAY_TASK_ID": str(index)} if stage.is_array else {}
            done = stand.run(stage.file, *stage.arguments, **stage.settings, **task)
            assert done.returncode == 0, done.stderr
            assert stand.arguments == job.command
        if stage.is_array:
            assert stand.run(stage.file, "count", **stage.settings).stdout == f"{len(stage.jobs)}\n"
            beyond = {"SLURM_ARRAY_TASK_ID": str(len(stage.jobs))}
            done = stand.run(stage.file, *stage.arguments, **stage.settings, **beyond)
            assert (done.returncode, done.stderr) == (2, f"task {index + 1}: there are only {index + 1} tasks\n")


def test_wandb_is_offline_unless_disabled(stand: Stand) -> None:
    stand.run("train.sbatch", "+variant=belief", WANDB_MODE="offline")
    assert stand.arguments == ("-m", "muzero.train", "logging.wandb=offline", "+variant=belief")


@pytest.mark.parametrize(
    ("settings", "requeued"),
    [
        ({"CODE": "0"}, False),
        ({"CODE": "3"}, False),  # diverged
        ({"CODE": "75"}, True),
        ({"CODE": "143"}, True),  # a preempted job's step
        ({"CODE": "75", "STATE": "COMPLETING"}, False),  # somebody has cancelled it
        ({"CODE": "75", "SLURM_RESTART_COUNT": "2", "MAX_REQUEUES": "2"}, False),
    ],
)
def test_what_goes_back_to_the_queue(settings: dict[str, str], requeued: bool, stand: Stand) -> None:
    done = stand.run("train.sbatch", **settings)
    assert done.returncode == int(settings["CODE"])
    assert stand.requeued == requeued
    assert ("given up: MAX_REQUEUES=2" in done.stderr) == ("MAX_REQUEUES" in settings)


def test_a_task_is_requeued_without_its_array(stand: Stand) -> None:
    """The last task of an array has the array's number."""
    task = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}
    stand.run("train_array.sbatch", CODE="75", **task)
    assert stand.calls.read_text().splitlines() == ["scontrol show job --oneliner 5_3", "scontrol requeue 5_3"]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_the_batch_shell_passes_signals_on(number: signal.Signals, stand: Stand) -> None:
    """And waits until what it has asked to stop has saved; never as SIGTERM, at which srun kills its step."""
    saving = f'trap "sleep 0.3; echo USR1 >{stand.home}/got; exit 75" USR1'
    stand.program("python", f"{saving}; touch {stand.home}/up; for i in {{1..600}}; do sleep 0.1; done")
    shell = subprocess.Popen(["bash", str(SLURM / "train.sbatch")], env=stand.environment())
    end = time.monotonic() + 60
    while not (stand.home / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    shell.send_signal(number)
    assert shell.wait(60) == 75
    assert (stand.home / "got").read_text() == "USR1\n"
    assert stand.requeued


def test_the_comparison_and_the_job_that_merges_it(stand: Stand) -> None:
    stand.program("sbatch", f'echo "$@" >>{stand.home}/sbatch; echo "12;cluster"')
    lists = {"A_RUNS": "a0 a1", "B_RUNS": "b0 b1", "ITERATIONS": "2 4 6", "ARRAY_LIMIT": "3"}
    done = stand.run("head_to_head.sh", "--batch", "8", **lists, OUT="out", LOGS=str(stand.home))
    assert done.returncode == 0, done.stderr
    array, merge = (stand.home / "sbatch").read_text().splitlines()
    assert "--array=0-5%3" in array.split()
    assert array.endswith("head_to_head_array.sbatch --batch 8")
    assert "--dependency=afterok:12" in merge.split()
    assert merge.endswith("python.sbatch experiments/head_to_head.py --merge --out out")
    assert stand.run("head_to_head.sh").returncode == 2


def test_the_probes_batch_file(stand: Stand) -> None:
    assert stand.run("probes.sbatch", "--runs", "a", "--out", "b").returncode == 0
    assert stand.arguments == ("experiments/latent_probes.py", "--runs", "a", "--out", "b")


def test_modules_and_a_container(stand: Stand) -> None:
    stand.program("module", f'echo "module $*" >>{stand.calls}; [[ -z $not_set_anywhere ]]')
    stand.program("apptainer", f'echo "apptainer $*" >>{stand.calls}')
    settings = {"MODULES": "gcc cuda/12.4", "CONTAINER": "image.sif", "CONTAINER_OPTIONS": "--nv --bind /scratch"}
    done = stand.run("train.sbatch", "preset=smoke", **settings)
    assert done.returncode == 0, done.stderr
    loaded, cuda, ran = stand.calls.read_text().splitlines()
    assert (loaded, cuda) == ("module load gcc", "module load cuda/12.4")
    python = f"{stand.bin}/python"
    assert ran == f"apptainer exec --nv --bind /scratch image.sif {python} -m muzero.train preset=smoke"


def test_offline_runs_are_uploaded(stand: Stand, tmp_path: Path) -> None:
    for run in ("one", "two"):
        (tmp_path / "runs" / run / "wandb" / f"offline-run-{run}").mkdir(parents=True)
    assert stand.run("sync_wandb.sh", str(tmp_path / "runs")).returncode == 0
    places = [str(tmp_path / "runs" / run / "wandb" / f"offline-run-{run}") for run in ("one", "two")]
    assert stand.arguments == ("-m", "wandb", "sync", "--include-synced", *places)
    nothing = stand.run("sync_wandb.sh", str(tmp_path / "bin"))
    assert (nothing.returncode, nothing.stderr) == (1, f"{tmp_path}/bin: no wandb/offline-run-* there\n")


def test_submit_passes_the_settings_to_sbatch(stand: Stand) -> None:
    stand.program("sbatch", f'env >{stand.home}/env; printf "%s\\n" "$@" >{stand.home}/sbatch; echo "12;cluster"')
    settings = {"GPUS": "a100:1", "PARTITION": "gpu", "TIME": "1:00:00", "SEEDS": "0 1 2", "GRACE": "60"}
    settings |= {"LOGS": str(stand.home / "logs"), "SBATCH_OPTIONS": "--exclude=node7"}
    done = stand.run("submit.sh", "--qos=fast", "train_array.sbatch", "preset=paper", **settings)
    assert done.stdout == "12;cluster\n", done.stderr
    given = (stand.home / "sbatch").read_text().splitlines()
    assert given[-2:] == [str(SLURM / "train_array.sbatch"), "preset=paper"]
    expected = ["--signal=B:USR1@60", "--gpus-per-node=a100:1", "--partition=gpu", "--time=1:00:00", "--qos=fast"]
    assert {*expected, "--exclude=node7", "--array=0-5", "--requeue"} <= set(given)
    assert not any(word.startswith("--account") for word in given)
    kept = (stand.home / "env").read_text().splitlines()
    assert {"SEEDS=0 1 2", "VARIANTS=baseline belief", "MAX_REQUEUES=100"} <= set(kept)  # the file may change meanwhile
    assert stand.run("submit.sh", "strange.sbatch").returncode == 2


def test_slurm_submits_stages_with_dependencies_and_only_what_is_missing(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = f"n=$(($(cat {stand.home}/n 2>/dev/null || echo 100) + 1)); echo $n >{stand.home}/n"
    stand.program("sbatch", f'{counter}; echo "$n $*" >>{stand.home}/sbatch; echo $n')
    stand.program("squeue", f"cat {stand.home}/queue")
    stand.program("scancel", f'printf "%s\\n" "$@" >>{stand.home}/scancel')
    for name, value in stand.environment().items():
        monkeypatch.setenv(name, value)
    (stand.home / "queue").write_text("")
    home = tmp_path / "study"
    plan = list(a_plan(home).values())
    a_run(home / "train" / "baseline-s1", 4, 9)  # done already
    study_slurm.submit(plan, study.ROOT, Records(home))

    def submitted() -> dict[str, str]:
        lines = (stand.home / "sbatch").read_text().splitlines()
        return {line.split("--job-name=")[1].split()[0]: line for line in lines}

    first = submitted()
    assert list(first) == STAGES
    assert "--array=0,2,3 " in first["train"]
    assert "--dependency" not in first["train"]
    assert "--array=0,1,2,3 " in first["head_to_head"]
    assert "--dependency=afterok:101 --kill-on-invalid-dep=yes" in first["head_to_head"]
    assert "--dependency=afterok:102" in first["merge"]
    assert "--dependency=afterok:101" in first["report"]
    assert f"--output={home}/logs/" in first["report"]
    assert Records(home).jobs["train/belief-s1"] == {"by": "slurm", "number": "101_3"}

    (stand.home / "sbatch").unlink()
    rest = [f"102_{i} PENDING" for i in range(4)] + [f"{n} PENDING" for n in range(103, 108)]
    (stand.home / "queue").write_text("\n".join(["101_0 RUNNING", "101_2 PENDING", *rest]))
    study_slurm.submit(plan, study.ROOT, Records(home))
    again = submitted()
    assert list(again) == STAGES  # the one that has failed, and whoever waited for the array it was in
    assert "--array=3 " in again["train"]
    assert "--dependency=afterok:101_0:101_2:108 " in again["head_to_head"]
    assert (stand.home / "scancel").read_text().split() == [*(f"102_{i}" for i in range(4)), *map(str, range(103, 108))]

    (stand.home / "sbatch").write_text("")
    numbers = Records(home).jobs
    queue = [str(entry["number"]) for entry in numbers.values()]
    (stand.home / "queue").write_text("".join(f"{number} RUNNING\n" for number in queue))
    study_slurm.submit(plan, study.ROOT, Records(home))
    assert submitted() == {}  # all is on its way


def test_what_sbatch_says_is_passed_on(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.program("sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1")
    stand.program("squeue", "true")
    for name, value in stand.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="train: sbatch refuses it: sbatch: error: invalid partition"):
        study_slurm.submit(list(a_plan(tmp_path).values()), study.ROOT, Records(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="squeue: not found"):
        study_slurm.queue()


def test_settings_survive_their_file(tmp_path: Path) -> None:
    """What `status` reads back is what was settled."""
    config = replace(StudyConfig(), preset="smoke", seeds=[3])
    records = Records(tmp_path)
    records.settle(asdict(config))
    read: dict[str, Any] = records.settings
    assert StudyConfig(**{**asdict(StudyConfig()), **read}) == config
