"""Ways to compute a step of the learner on a CPU, on the same batches, in turn.

    python -m experiments.learner_ways [--rounds N] [--compile] [--json FILE]

Every way makes steps of the CPU preset (belief, Skyjo) from the same weights and batches: with torch or with the native
passes, on one thread or on all, with bf16, and with targets that need the network's value of all following positions
(`learner.one_step_share`) instead of lambda returns. The table gives the medians of CPU time (all threads) and of
wall-clock time per step, the CPU time of plain torch divided by that of the way, and the operations of matrix products
per second of CPU time as a fraction of one core's sgemm. Rounds of all ways alternate, so that a busy machine disturbs
all alike; CPU time on one thread is the figure to quote from a busy machine. `--compile` adds torch.compile of the
losses, which takes minutes to compile.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from hydra.errors import HydraException

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.common.command_line import add_json_options
from experiments.common.trainers import fill, preset, training
from experiments.common.yardsticks import flops_of, sgemm_flops
from muzero.config.fields import require
from muzero.data.replay_buffer import Batch
from muzero.runs.markdown import markdown_table
from muzero.training.learner import Learner


@dataclass(frozen=True)
class Way:
    """Way to compute a step: a name, changes of `learner`, and threads (0: all cores)."""

    name: str
    threads: int = 1
    learner: dict[str, Any] = field(default_factory=dict)


WAYS = (
    Way("torch", 1, {"backend": "torch"}),
    Way("torch, all cores", 0, {"backend": "torch"}),
    Way("torch, values of all following positions", 1, {"backend": "torch", "one_step_share": 0.3}),
    Way("torch, bf16", 1, {"backend": "torch", "bf16": True}),
    Way("native passes", 1, {"backend": "native"}),
    Way("native passes, all cores", 0, {"backend": "native"}),
)
COMPILED = Way("torch.compile of the losses", 1, {"backend": "torch", "compile": True})


def batches_and_learners(ways: Sequence[Way], steps: int, *overrides: str) -> tuple[list[Batch], list[Learner]]:
    """Batches of self-played games, and a learner for each way that starts from the same weights."""
    with training(preset("cpu", *overrides)) as trainer:
        trainer.request()
        while not trainer.state.learner.steps:
            trainer.iterate()
        trainer.runtime.gather()
        config, state = trainer.config, trainer.state
        replay = state.replays[config.game.players]
        fill(replay, [episode for part in trainer.played for episode in part.episodes])
        batches = [replay.sample(config.learner.batch, state.rng) for _ in range(steps)]
        learners = [
            Learner(
                copy.deepcopy(state.learner.network),
                replace(config.learner, **way.learner),
                discount=config.search.discount,
                threads=way.threads or os.cpu_count() or 1,
            )
            for way in ways
        ]
    return batches, learners


def measure(way: Way, learner: Learner, batches: Sequence[Batch]) -> tuple[float, float]:
    """CPU time and wall-clock time per step, in milliseconds."""
    torch.set_num_threads(1 if learner.native else way.threads or os.cpu_count() or 1)  # as the trainer does
    cpu, wall = time.process_time(), time.perf_counter()
    for batch in batches:
        learner.step(batch, 1)
    return (time.process_time() - cpu) * 1e3 / len(batches), (time.perf_counter() - wall) * 1e3 / len(batches)


def main(arguments: Sequence[str]) -> int:
    """Measures all ways in turn, and prints a Markdown table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of all ways (default: 9)")
    parser.add_argument("--steps", type=int, default=16, help="steps of a way per round (default: 16)")
    parser.add_argument("--compile", action="store_true", help="add torch.compile of the losses")
    add_json_options(parser, "learner_ways")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the run to change")
    options = parser.parse_args(arguments)
    ways = (*WAYS, COMPILED) if options.compile else WAYS
    try:
        require(options.rounds > 0, "--rounds", "1 or more", options.rounds)
        require(options.steps > 0, "--steps", "1 or more", options.steps)
        batches, learners = batches_and_learners(ways, options.steps, *options.set)
    except (ValueError, HydraException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for way, learner in zip(ways, learners, strict=True):
        print(f"warming up: {way.name}", file=sys.stderr)
        measure(way, learner, batches[:2])
    torch.set_num_threads(1)
    flops = flops_of(lambda: learners[0].step(batches[0], 1))
    series: list[list[tuple[float, float]]] = [[] for _ in ways]
    sgemm: list[float] = []
    for _ in range(options.rounds):
        sgemm.append(sgemm_flops(1))
        for way, learner, times in zip(ways, learners, series, strict=True):
            times.append(measure(way, learner, batches))
    yardstick = statistics.median(sgemm)
    figures = []
    for way, times in zip(ways, series, strict=True):
        cpu, wall = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(plain[0] / own[0] for plain, own in zip(series[0], times, strict=True))
        fraction = flops / (cpu * 1e-3) / yardstick
        figures.append({"way": way.name, "cpu_ms": cpu, "wall_ms": wall, "ratio": ratio, "flops_fraction": fraction})
    columns = ["way", "CPU time, ms", "wall-clock, ms", "torch / way", "fraction of sgemm"]
    cells = [
        [f["way"], f"{f['cpu_ms']:.1f}", f"{f['wall_ms']:.1f}", f"{f['ratio']:.2f}", f"{f['flops_fraction']:.2f}"]
        for f in figures
    ]
    print("\n".join(markdown_table(columns, cells)))
    print(f"\n{flops / 1e9:.2f} GFLOP per step; sgemm {yardstick / 1e9:.0f} GFLOPS on a core; {options.rounds} rounds")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps(
                {"gflop": flops / 1e9, "sgemm_gflops": yardstick / 1e9, "ways": figures, "provenance": provenance()}
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
