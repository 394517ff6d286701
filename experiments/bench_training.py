"""Speed of training, stage by stage, compared with the network alone and the search alone.

    python -m experiments.bench_training [--json FILE] [--quick] [--seconds S]
    python -m experiments.bench_training --busy [--rounds N]

CPU preset: iterations as the trainer makes them, and games per second (`cpu_games_per_s`). Paper preset: two iterations
of a few games, then self-play and learning at full size, projected to a whole iteration (`paper_iteration_s`): all its
episodes, as long as those of the curriculum's bots, and all its steps.

Each figure has a yardstick that is measured in turn with it:

    learner_flops_fraction  operations of a step's matrix products (counted on the torch network, so the same for every
                         backend) per second of `Trainer.learn`, as a fraction of sgemm with as many threads;
                         `one_thread_flops_fraction`: of passes alone, on one thread; `learner_packed_fraction`: as a
                         fraction of the fastest product here, of a packed matrix, which uses AVX-512 on all processors
    core_use             CPU time of all processes of training, per core and second, over iterations of the CPU preset
    learner_efficiency   steps of `Trainer.learn` (replay buffer, transfer, step, priorities) compared with forward and
                         backward passes of the same network and losses on one batch; the lower of the two presets';
                         `target_share`: part of these passes that encodes the next positions, for targets
    selfplay_efficiency  decisions of `SelfPlay.play` compared with searches of bench_search's situations at the same
                         settings (CPU preset, the current network on all seats);
                         `selfplay_to_plan`: compared with the same calls of `Planner.plan` once more
    ray_scaling_1_to_2   two Ray actors compared with one, as many tables each (CPU preset); in decisions per second,
                         because tables that began together end their games in waves

--busy measures instead, in turn, training with and without a busy loop beside it (docs/speed.md): iterations and
learner steps of the CPU preset, and learner steps of the paper preset.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import muzero  # noqa: F401  # before torch, whose threads it tells how to wait

# isort: split
import numpy as np
import torch

from experiments.bench_env import cpu_model
from experiments.common.command_line import add_json_options
from experiments.common.selfplay_speed import Figures, playing, projected, ray_speeds
from experiments.common.timing import busy_figures, in_turn, seconds, speed, speeds_in_turn
from experiments.common.trainers import (
    QUICK,
    QUICK_CPU,
    QUICK_PAPER,
    REDUCED,
    TimedTrainer,
    fill,
    preset,
    training,
)
from experiments.common.yardsticks import clock, cpu_seconds, flops_of, packed_flops, profile_by_kind, sgemm_flops
from muzero.runs.memory import settle_memory
from muzero.training.backend import NativeTraining, native_training, network_to_train
from muzero.training.losses import LOSSES, compiled_losses, window_losses

# ---- stages ----------------------------------------------------------------------------------------------------------


def iterations(trainer: TimedTrainer, at_least: float) -> Figures:
    """Seconds per iteration by stage, once learning has begun, and speeds."""
    if trainer.asynchronous:
        trainer.request()
    while not trainer.state.learner.steps:
        trainer.iterate()
    rows: list[dict[str, Any]] = []
    before = len(trainer.played)
    processes = [os.getpid(), *child_processes()]
    used, started = cpu_seconds(processes), time.perf_counter()
    while len(rows) < 2 or time.perf_counter() - started < at_least:
        rows.append(trainer.iterate()[1])
    elapsed, played = time.perf_counter() - started, trainer.played[before:]
    used = cpu_seconds(processes) - used
    if trainer.asynchronous:
        trainer.runtime.gather()  # games under way would disturb the next measurement
    stages = {name: statistics.mean(row["seconds"][name] for row in rows) for name in rows[0]["seconds"]}
    parts = {
        name: statistics.mean(row["selfplay"][name] for row in rows) for name in ("seconds", "env", "tree", "network")
    }
    del stages["evaluation"]
    return {
        "iterations": len(rows),
        "iteration_s": elapsed / len(rows),
        "core_use": used / elapsed / (os.cpu_count() or 1),
        **{f"iteration_{name}_s": value for name, value in stages.items()},
        **{f"selfplay_{name}_s": value for name, value in parts.items() if name != "seconds"},
        "selfplay_s": parts["seconds"],
        "games_per_s": sum(len(part.episodes) for part in played) / elapsed,
        "decisions_per_s": sum(part.decisions for part in played) / elapsed,
    }


def child_processes() -> list[int]:
    """Numbers of the processes that this one has started."""
    return [int(number) for number in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def learning(trainer: TimedTrainer, at_least: float) -> Figures:
    """Steps per second from a full replay buffer and of the network alone, and the buffer's part of a step."""
    config, learner, steps = trainer.config, trainer.state.learner, trainer.config.train.steps
    replay, rng = trainer.state.replays[config.game.players], trainer.state.rng
    fill(replay, [episode for part in trainer.played for episode in part.episodes])
    torch.set_num_threads(trainer.threads)
    tensors = learner.to_device(replay.sample(config.learner.batch, rng))
    names = learner.weights(0)
    weight = torch.tensor([names[name] for name in LOSSES], device=learner.device)
    losses_of = compiled_losses() if config.learner.compile else window_losses

    def passes(
        native: NativeTraining | None,
        share: float = config.learner.one_step_share,
        skipped: Sequence[str] = learner.skipped,
    ) -> None:
        with torch.autocast(learner.device.type, torch.bfloat16, enabled=learner.config.bf16):
            network = network_to_train(learner.network, native)
            losses, _ = losses_of(network, tensors, share, learner.discount, skipped)
        learner.optimizer.zero_grad()
        (losses.mean(1) * weight).sum().backward()

    def bare(*options: Any) -> None:
        for _ in range(steps):
            passes(learner.native, *options)

    def drawing() -> None:
        drawn = replay.sample(config.learner.batch, rng)
        replay.update(drawn.index, drawn.stamp, np.ones(config.learner.batch, np.float32))

    whole, alone, efficiency = in_turn(lambda: (clock(trainer.learn), clock(bare)), at_least)
    # Without the encoder's pass over the next positions, from which some targets are made.
    targets = ("consistency", *learner.skipped)
    _, _, given = in_turn(lambda: (clock(bare), clock(lambda: bare(0.0, targets))), at_least / 2)
    threads = config.runtime.threads if learner.native is not None else trainer.threads
    flops, alone_native = flops_of(lambda: passes(None)), native_training(learner.network, config.learner, 1)
    torch.set_num_threads(1)
    one_thread = seconds(lambda: passes(alone_native), at_least / 4)
    kinds = profile_by_kind(lambda: passes(alone_native))
    print("\nprofile of a step's passes on one thread")
    for kind, share in kinds.items():
        print(f"  {kind:34}{share:>14.3f}")
    one = sgemm_flops(1)
    torch.set_num_threads(trainer.threads)
    return {
        "learner_gflop_per_step": flops / 1e9,
        "learner_threads": threads,
        "learner_flops_fraction": flops * steps / whole / sgemm_flops(threads),
        "learner_packed_fraction": flops * steps / whole / packed_flops(threads),
        "one_thread_flops_fraction": flops / one_thread / one,
        **{f"profile_{kind.replace(' ', '_')}": share for kind, share in kinds.items()},
        "learner_steps_per_s": steps / whole,
        "bare_steps_per_s": steps / alone,
        "learner_efficiency": efficiency,
        "target_share": 1 - given,
        "replay_share": seconds(drawing, at_least / 8) * steps / whole,
        "replay_decisions": len(replay),
    }


def beside_busy_loop(trainer: TimedTrainer, whole_iterations: bool, rounds: int, at_least: float) -> Figures:
    """Iterations and learner steps per second beside a busy loop, as shares of those without it.

    Args:
      trainer: trainer to measure.
      whole_iterations: whether to measure iterations, too.
      rounds: number of rounds, in each of which everything is measured both ways.
      at_least: seconds of a measurement.
    """
    if trainer.asynchronous:
        trainer.request()
    while not trainer.state.learner.steps:
        trainer.iterate()
    found: Figures = {}
    if whole_iterations:
        work = {"iterations": lambda: speed(trainer.iterate, 1, at_least)}
        found |= busy_figures(speeds_in_turn(work, rounds, busy=True), "per_s")
    if trainer.asynchronous:
        trainer.runtime.gather()  # games under way would disturb the next measurement
    work = {"learner": lambda: speed(trainer.learn, trainer.config.train.steps, at_least)}
    return found | busy_figures(speeds_in_turn(work, rounds, busy=True), "steps_per_s")


# ---- the whole -------------------------------------------------------------------------------------------------------


def show(title: str, figures: Figures) -> None:
    """Print a group of figures."""
    print(f"\n{title}")
    for name, value in figures.items():
        print(f"  {name:34}{value:>14,.3f}" if isinstance(value, float) else f"  {name:34}{value:>14,}", flush=True)


def bench(quick: bool, at_least: float, threads: int) -> Figures:
    """Measure all figures."""
    common = (f"runtime.threads={threads}", *(QUICK if quick else ()))
    cpu, paper = (*common, *(QUICK_CPU if quick else ())), (*common, *(QUICK_PAPER if quick else ()))
    figures: Figures = {}

    def note(title: str, prefix: str, found: Figures) -> Figures:
        show(title, found)
        figures.update({f"{prefix}_{name}": value for name, value in found.items()})
        return found

    with training(preset("cpu", *cpu)) as trainer:
        note("CPU preset, iterations (self-play and learner at the same time)", "cpu", iterations(trainer, at_least))
        note("CPU preset, learner", "cpu", learning(trainer, at_least))
    note("CPU preset, self-play alone", "cpu", playing(preset("cpu", *cpu), at_least))
    with training(preset("paper", *REDUCED, *paper)) as trainer:
        note("paper preset, reduced iterations", "reduced", iterations(trainer, 0.0))
        found = note("paper preset, learner", "paper", learning(trainer, at_least))
    note(
        "paper preset, whole iterations, projected",
        "paper",
        projected(preset("paper", *paper), found["learner_steps_per_s"], at_least),
    )
    actors = [
        preset("cpu", *cpu, "runtime=ray", f"runtime.workers={n}", "runtime.worker_cpus=0.5", "train.mode=sync")
        for n in (1, 2)
    ]
    actors[1] = replace(actors[1], selfplay=replace(actors[1].selfplay, tables=2 * actors[0].selfplay.tables))
    one, two, scaling = ray_speeds(actors[0], actors[1], at_least)
    note("CPU preset, 1 Ray actor", "ray_1", one)
    note("CPU preset, 2 Ray actors", "ray_2", two)
    headlines = {
        "learner_flops_fraction": figures["cpu_learner_flops_fraction"],
        "core_use": figures["cpu_core_use"],
        "learner_efficiency": min(figures["cpu_learner_efficiency"], figures["paper_learner_efficiency"]),
        "selfplay_efficiency": figures["cpu_selfplay_efficiency"],
        "paper_iteration_s": figures["paper_iteration_s"],
        "cpu_games_per_s": figures["cpu_games_per_s"],
        "ray_scaling_1_to_2": scaling,
    }
    show("in short", headlines)
    return {**figures, **headlines}


def bench_busy(quick: bool, rounds: int, at_least: float, threads: int) -> Figures:
    """Measure training beside a busy loop."""
    common = (f"runtime.threads={threads}", *(QUICK if quick else ()))
    cpu, paper = (*common, *(QUICK_CPU if quick else ())), (*REDUCED, *common, *(QUICK_PAPER if quick else ()))
    figures: Figures = {}
    for name, overrides in (("cpu", cpu), ("paper", paper)):
        with training(preset(name, *overrides)) as trainer:
            found = beside_busy_loop(trainer, name == "cpu", rounds, at_least)
        show(f"{name} preset, beside a busy loop", found)
        figures |= {f"busy_{name}_{key}": value for key, value in found.items()}
    shares = [value for key, value in figures.items() if key.endswith("_busy_share")]
    show("in short", {"busy_share": min(shares)})
    return {**figures, "busy_share": min(shares)}


def main() -> None:
    """Measure, print, and write the figures to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_options(parser, "bench_training")
    parser.add_argument("--quick", action="store_true", help="tiny networks and few games, for tests")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds per measurement (default: 20)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="runtime.threads (default: all cores)")
    parser.add_argument("--busy", action="store_true", help="speed beside a busy loop, as a share of idle speed")
    parser.add_argument("--rounds", type=int, default=5, help="--busy: measurements both ways, in turn (default: 5)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds: expected 1 or more, got {options.rounds}")
    settle_memory()  # the same memory settings as in training
    about = {
        "command": " ".join(["python", "-m", "experiments.bench_training", *sys.argv[1:]]),
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "threads": options.threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    print(f"{about['cpu']}, {about['cores']} cores, {options.threads} threads, torch {about['torch']}")
    torch.manual_seed(0)
    if options.busy:
        figures = about | bench_busy(options.quick, options.rounds, options.seconds / 4, options.threads)
    else:
        figures = about | bench(options.quick, options.seconds, options.threads)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**figures, "provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
