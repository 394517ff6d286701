"""Plan of a study: stages, their needs, and the checkpoints that are compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.study import command
from experiments.study.plan import choose_iterations
from tests.experiments.study.samples import STAGES, smoke_plan


def test_the_smoke_study_trains_and_compares_two_variants_with_two_seeds(tmp_path: Path) -> None:
    """Runs with the same seed play each other, at two checkpoints."""
    plan = smoke_plan(tmp_path)
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
        *("preset=smoke", "comparison=beliefs", "+game.rules.episode=round", "+game.rules.max_decisions=200"),
    )
    compared = [
        (Path(job.command[3]).name, Path(job.command[5]).name, job.command[7]) for job in plan["head_to_head"].jobs
    ]
    pairs = [("belief-s0", "baseline-s0"), ("belief-s1", "baseline-s1")]
    assert compared == [(*pair, iteration) for pair in pairs for iteration in ("2", "4")]
    assert str(run) in plan["ablation"].jobs[0].command
    assert not any("baseline" in word for word in plan["ablation"].jobs[0].command)  # it has no ego conditioning


def test_every_stage_comes_after_the_stages_that_it_needs(tmp_path: Path) -> None:
    seen: set[str] = set()
    for stage in smoke_plan(tmp_path).values():
        assert seen.issuperset(stage.needs)
        seen.add(stage.name)


def test_no_two_jobs_share_a_name_or_a_proof(tmp_path: Path) -> None:
    jobs = [job for stage in smoke_plan(tmp_path).values() for job in stage.jobs]
    assert len({job.name for job in jobs}) == len(jobs)
    assert len({job.proof for job in jobs}) == len(jobs)


def test_probes_can_be_left_out(tmp_path: Path) -> None:
    assert "probes" not in smoke_plan(tmp_path, "probe_games=0")


def test_jobs_that_only_read_results_ask_for_small_resources(tmp_path: Path) -> None:
    small = {name for name, stage in smoke_plan(tmp_path).items() if stage.settings.get("GPUS") == "none"}
    assert small == {"merge", "report"}


def test_without_ego_conditioning_there_is_no_ablation(tmp_path: Path) -> None:
    assert "ablation" not in smoke_plan(tmp_path, "variants=[baseline,heads_only]")


@pytest.mark.parametrize(
    ("arguments", "iterations"),
    [
        ((), ["2", "4"]),
        (("iterations=[4]",), ["4"]),
        (
            ("overrides=[train.iterations=7]",),
            ["2", "7"],
        ),  # half-way, rounded down to a checkpoint that is kept, and the last
        (("overrides=[train.iterations=1]",), ["1"]),
    ],
)
def test_checkpoints_are_compared_half_way_and_at_the_end_unless_given(
    arguments: tuple[str, ...], iterations: list[str], tmp_path: Path
) -> None:
    plan = smoke_plan(tmp_path, *arguments)
    assert [job.command[7] for job in plan["head_to_head"].jobs if job.command[3].endswith("s0")] == iterations
    (bots,) = plan["bots"].jobs
    start = bots.command.index("--iterations") + 1
    assert list(bots.command[start : start + len(iterations) + 1]) == [*iterations, "--out"]


def test_overrides_are_added_to_those_that_a_preset_needs() -> None:
    _, config = command.read_arguments(["plan", "preset=cpu", "overrides=[learner.batch=64]"])
    trained = command.training(config)["belief"]
    assert (trained.train.minutes, trained.train.iterations, trained.learner.batch) == (0, 240, 64)
    _, config = command.read_arguments(["plan", "preset=cpu", "overrides=[train.iterations=80]"])
    assert choose_iterations(config, command.training(config)["belief"]) == [40, 80]
    _, config = command.read_arguments(["plan", "preset=paper"])
    found = choose_iterations(config, command.training(config)["belief"])
    assert set(found) > {125, 250, 500, 750, 1000}, "iterations of the published tables"


def test_several_variants_are_each_compared_with_the_first(tmp_path: Path) -> None:
    """Each comparison has its own directory and table."""
    plan = smoke_plan(tmp_path, "variants=[baseline,belief,ego_only]")
    for other in ("belief", "ego_only"):
        stage, merge = plan[f"head_to_head-{other}-against-baseline"], plan[f"merge-{other}-against-baseline"]
        assert {Path(job.command[3]).name for job in stage.jobs} == {f"{other}-s0", f"{other}-s1"}
        assert merge.needs == (stage.name,)
        assert all(job.proof.parent.parent == merge.jobs[0].proof.parent for job in stage.jobs)


def test_belief_comparisons_keep_the_counts_for_an_arm_of_their_own() -> None:
    _, config = command.read_arguments(["plan", "preset=cpu"])
    assert config.variants == ["baseline", "belief", "counts"]
    found = command.training(config)
    assert {name: "counts" in training.model.ignore for name, training in found.items()} == {
        "baseline": True,
        "belief": True,
        "counts": False,
    }


def test_only_the_merged_table_proves_the_merge_done(tmp_path: Path) -> None:
    """Every match of the array writes a table of the existing parts, too."""
    (merge,) = smoke_plan(tmp_path)["merge"].jobs
    merge.proof.parent.mkdir()
    merge.proof.write_text('{"command": "head_to_head.py --a x --b y"}')
    assert not merge.done
    runs = " ".join(
        str(tmp_path / "train" / f"{variant}-s{seed}") for variant in ("baseline", "belief") for seed in (0, 1)
    )
    rows = ", ".join(f'"iteration": {mark.rpartition(" ")[2]}' for mark in merge.marks if "iteration" in mark)
    merge.proof.write_text(f'{{"command": "head_to_head.py --merge --out x {runs}", {rows}}}')
    assert merge.done


def test_tables_of_a_smaller_study_do_not_prove_an_extended_one_done(tmp_path: Path) -> None:
    """Training runs and matches that exist stay done; everything that pools them is made again."""
    small, large = smoke_plan(tmp_path, "seeds=[0,1]"), smoke_plan(tmp_path, "seeds=[0,1,11]")
    for stage in small.values():
        for job in stage.jobs:
            if stage.name != "train":
                job.proof.parent.mkdir(parents=True, exist_ok=True)
                job.proof.write_text(f"python {' '.join(job.command)} {' '.join(job.marks)}")
                assert job.done, job.name
    left = {name: [job.name for job in stage.jobs if not job.done] for name, stage in large.items() if name != "train"}
    iterations = {name.rpartition("-")[2] for name in left["head_to_head"]}
    assert left["head_to_head"] == [f"head_to_head/belief-s11-baseline-s11-{i}" for i in sorted(iterations, key=int)]
    for name in ("merge", "bots", "ablation", "probes", "report"):
        assert left[name] == [name]


def test_the_plan_does_not_load_torch() -> None:
    code = "import sys, experiments.study.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=command.ROOT, check=False).returncode == 0
