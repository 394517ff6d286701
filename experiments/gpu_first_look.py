"""Everything worth knowing on a first real GPU: products, transfers, learner and search in all their modes.

    python -m experiments.gpu_first_look [--json FILE] [--quick] [--seconds S]

Ends with exit code 2 where there is no GPU. `--device cpu` measures the same on a CPU, without compilation, to try the
script itself. Sections, in the order in which they are printed:

    machine    names, versions, memory
    products   TFLOP/s of square matrix products: float32, TF32 and bfloat16
    transfers  GB/s to and from the GPU, with and without pinned memory; microseconds of an empty kernel and of a round
               trip, which a search makes once per simulation
    learner    steps per second of whole learner steps, transfer of the batch included, by precision and compilation;
               `flops_fraction`: of its matrix products, compared with the products above in the same precision
    waits      hidden waits of the host in a learner step: none, or the operation (torch.cuda.set_sync_debug_mode)
    search     simulations per second by backend, precision and number of games, and the share of the trees in the time
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import env
from experiments.common.command_line import add_json_options
from muzero.config import LearnerConfig, SearchConfig
from muzero.data.replay_buffer import Batch
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.planner import Planner
from muzero.training.learner import Learner

EXIT_NO_GPU = 2
UNROLL = 5


def seconds(work: Callable[[], Any], at_least: float, device: torch.device) -> float:
    """Median seconds of a call, what it left to the GPU included; the first two calls do not count."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(2):
        work()
    wait()
    began = time.perf_counter()
    work()
    wait()
    calls = max(1, int(at_least / 5 / max(1e-7, time.perf_counter() - began)))
    series = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        wait()
        series.append((time.perf_counter() - began) / calls)
    return statistics.median(series)


def machine(device: torch.device) -> dict[str, Any]:
    """Names and versions of what is measured."""
    found: dict[str, Any] = {"torch": torch.__version__, "python": platform.python_version(), "cores": os.cpu_count()}
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        found |= {"gpu": gpu.name, "gpu_gigabytes": gpu.total_memory / 1e9, "gpus": torch.cuda.device_count()}
        found |= {"capability": f"{gpu.major}.{gpu.minor}", "cuda": torch.version.cuda}
    return found


def products(device: torch.device, at_least: float, sizes: tuple[int, ...]) -> dict[str, float]:
    """TFLOP/s of matrix products by precision and size, and the best of each precision."""
    found: dict[str, float] = {}
    kinds = [("float32", torch.float32, False), ("bf16", torch.bfloat16, False)]
    if device.type == "cuda":
        kinds.insert(1, ("tf32", torch.float32, True))
    for name, dtype, tf32 in kinds:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        speeds = []
        for size in sizes:
            a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
            speeds.append(2e-12 * size**3 / seconds(partial(torch.mm, a, b), at_least, device))
            found[f"{name}_{size}_tflops"] = speeds[-1]
        found[f"{name}_tflops"] = max(speeds)
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def transfers(device: torch.device, at_least: float, megabytes: int) -> dict[str, float]:
    """GB/s of copies between host and GPU, and microseconds of a kernel and of a round trip."""
    pinned = device.type == "cuda"
    there = torch.zeros(megabytes * 250_000, device=device)
    found = {}
    for name, host in (("pageable", torch.zeros(len(there))), ("pinned", torch.zeros(len(there), pin_memory=pinned))):
        to_gpu = seconds(partial(there.copy_, host, non_blocking=True), at_least, device)
        to_host = seconds(partial(host.copy_, there, non_blocking=True), at_least, device)
        found |= {f"{name}_to_gpu_gb_per_s": megabytes / 1e3 / to_gpu}
        found |= {f"{name}_to_host_gb_per_s": megabytes / 1e3 / to_host}
    small = torch.zeros(1, device=device)
    found["kernel_us"] = 1e6 * seconds(lambda: small.add_(1), at_least, device)
    found["round_trip_us"] = 1e6 * seconds(lambda: small.add_(1).cpu(), at_least, device)
    return found


def made_up_batch(spec: GameSpec, windows: int) -> Batch:
    """Batch of real observations and made-up targets."""
    rng, P, steps = np.random.default_rng(0), spec.num_players, UNROLL + 1
    tables = env.make(spec.game, windows, P, seed=1)
    seen, hidden = [], []
    for _ in range(steps):
        seen.append(tables.obs.copy())
        hidden.append(tables.true_cards(tables.to_play))
        tables.random_steps(3)

    def ones(*shape: int) -> Any:
        return np.ones((windows, *shape), np.float32)

    return Batch(
        actions=rng.integers(0, spec.num_actions, (windows, UNROLL)),
        shifts=rng.integers(0, P, (windows, UNROLL)),
        to_play=rng.integers(0, P, (windows, steps)),
        value=rng.uniform(-1, 1, (windows, steps, P)).astype(np.float32),
        value_mask=ones(steps),
        reward=rng.uniform(-1, 1, (windows, UNROLL, P)).astype(np.float32),
        reward_mask=ones(UNROLL),
        policy=ones(steps, spec.num_actions) / spec.num_actions,
        policy_mask=ones(steps),
        winner=ones(steps, P) / P,
        rank=ones(steps, P, P) / P,
        outcome_mask=ones(steps),
        outcomes=rng.integers(0, spec.num_outcomes, (windows, UNROLL)),
        points=np.zeros((windows, steps, P), np.float32),
        after=np.zeros(windows, np.int64),
        after_mask=ones(),
        obs=np.stack(seen, 1),
        hidden=np.stack(hidden, 1),
        live=ones(steps),
        weights=ones(),
        index=np.arange(windows),
        stamp=np.zeros(windows, np.int64),
    )


def make(model: str, device: torch.device) -> Network:
    """Network of the belief variant of a model in conf/model, for two players of Skyjo."""
    torch.manual_seed(0)
    return Network(GameSpec.of("skyjo", 2), load_model_config(model, "belief")).to(device)


def step_flops(model: str, batch: Batch, windows: int) -> float:
    """Operations of the matrix products of a learner step, counted on the CPU with a few windows."""
    learner = Learner(make(model, torch.device("cpu")), LearnerConfig(backend="torch"))
    with FlopCounterMode(display=False) as counter:
        learner.step(batch, 0)
    return counter.get_total_flops() * windows / len(batch.actions)


def learner_rows(
    device: torch.device, models: tuple[str, ...], sizes: tuple[int, ...], at_least: float, speeds: dict[str, float]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Name and figures of each way to run the learner."""
    ways = [(bf16, compiled) for compiled in (False, device.type == "cuda") for bf16 in (False, True)]
    for model in models:
        for windows in sizes:
            batch = made_up_batch(GameSpec.of("skyjo", 2), windows)
            flops = step_flops(model, made_up_batch(GameSpec.of("skyjo", 2), 16), windows)
            for bf16, compiled in dict.fromkeys(ways):
                config = LearnerConfig(backend="torch", bf16=bf16, compile=compiled, batch=windows, unroll=UNROLL)
                learner = Learner(make(model, device), config)
                took = seconds(partial(learner.step, batch, 0), at_least, device)
                best = speeds["bf16_tflops" if bf16 else "float32_tflops"]
                name = f"{model}_b{windows}_{'bf16' if bf16 else 'float32'}{'_compiled' if compiled else ''}"
                yield name, {"steps_per_s": 1 / took, "flops_fraction": flops / took / best / 1e12}


def waits(device: torch.device) -> str:
    """Name of the operation for which the host waits in a learner step; "none" if there is none."""
    learner, batch = Learner(make("tiny", device), LearnerConfig()), made_up_batch(GameSpec.of("skyjo", 2), 64)
    learner.step(batch, 0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        learner.step(batch, 1)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "none"


def search_rows(
    device: torch.device, models: tuple[str, ...], batches: tuple[int, ...], simulations: int, at_least: float
) -> Iterator[tuple[str, dict[str, float]]]:
    """Name and figures of each way to run the search."""
    backends = ("eager", "compiled", "cuda_graphs") if device.type == "cuda" else ("eager",)
    for model in models:
        network = make(model, device).eval()
        for batch in batches:
            tables = env.make("skyjo", batch, 2, seed=1)
            tables.random_steps(31)
            keys = tables.decision_keys()
            for backend in backends:
                for bf16 in (False, True):
                    config = SearchConfig(simulations=simulations, backend=backend, bf16=bf16, skip_forced=False)
                    planner = Planner(network, replace(config, tree_threads=os.cpu_count() or 1), batch)
                    plan = partial(planner.plan, tables.obs, tables.legal_bits, tables.phase, keys)
                    took = seconds(plan, at_least, device)
                    clock = planner.clock
                    name = f"{model}_b{batch}_{backend}_{'bf16' if bf16 else 'float32'}"
                    share = clock.tree / (clock.tree + clock.network + clock.encoder)
                    yield name, {"sims_per_s": batch * simulations / took, "tree_share": share}


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_options(parser, "gpu_first_look")
    parser.add_argument("--device", default="cuda", help="device to measure: cuda, cuda:1, ... or cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per measurement")
    parser.add_argument("--quick", action="store_true", help="measure small sizes only")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        print(
            f"error: --device: expected a GPU that torch {torch.__version__} can use, got {options.device!r} on a "
            "machine without it; a torch with CUDA comes with `make setup CONSTRAINTS=`",
            file=sys.stderr,
        )
        return EXIT_NO_GPU
    quick, figures = options.quick, {}

    def show(section: str, found: dict[str, Any]) -> None:
        for name, value in found.items():
            figures[f"{section}_{name}"] = value
            print(f"{section:10} {name:44}", f"{value:,.3f}" if isinstance(value, float) else value, flush=True)

    show("machine", machine(device))
    speeds = products(device, options.seconds, (256,) if quick else (1024, 4096, 8192))
    show("products", speeds)
    show("transfers", transfers(device, options.seconds, 1 if quick else 256))
    models = ("tiny",) if quick else ("tiny", "small", "paper")
    for name, row in learner_rows(device, models, (16,) if quick else (256, 1024), options.seconds, speeds):
        show("learner", {f"{name}_{key}": value for key, value in row.items()})
    if device.type == "cuda":
        show("waits", {"of a learner step": waits(device)})
    batches, simulations = ((8,), 2) if quick else ((64, 256, 1024), 50)
    for name, row in search_rows(device, models, batches, simulations, options.seconds):
        show("search", {f"{name}_{key}": value for key, value in row.items()})
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**figures, "provenance": provenance()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
