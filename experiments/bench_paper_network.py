"""Ways to compute the paper's network on a CPU: its products, its searches and its learner steps, one by one.

    python -m experiments.bench_paper_network [--json FILE] [--quick] [--repetitions N]

Every figure is CPU time of one thread, the least of several calls, so that other work on the machine disturbs little:

    products    GFLOP/s of products with the rows of a search and the sizes of the network's layers: packed for MKL,
                packed for oneDNN (AVX-512), and packed for oneDNN in bfloat16; the slowest of the sizes
    attention   milliseconds of the encoder's attention for a batch of the learner, with its gradient: torch's fused
                kernel and plain products
    search      milliseconds of a batch of roots and of a simulation of all games, and the simulations per second of
                decisions with as many simulations as the paper's
    learner     seconds of a step: as it was (all outputs of the last block, fused attention), with the last block for
                one token alone, with plain products in attention, and with both in bfloat16

docs/training.md has a table of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.bench_env import cpu_model
from experiments.bench_search import situations
from experiments.common.command_line import add_json_options
from experiments.common.trainers import QUICK, QUICK_PAPER, REDUCED, preset, training
from muzero.config import Config
from muzero.model import encoders, layers
from muzero.model.encoders import TransformerBlocks
from muzero.model.layers import PackedLinear
from muzero.model.network import make_network
from muzero.model.spec import GameSpec
from muzero.runs.memory import settle_memory
from muzero.runs.processes import multiplies_bf16
from muzero.search.planner import Planner
from muzero.training.learner import Learner

Figures = dict[str, float]
ROWS = 218  # games of a simulation: of 256 tables, those where no bot is to move and more than one action is legal
SIMULATIONS = 20  # simulations of a measured search


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Context in which an attribute has another value."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def cpu_time(work: Callable[[], Any], repetitions: int) -> float:
    """Least CPU seconds of a call, after one that does not count."""
    work()
    taken = []
    for _ in range(repetitions):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return max(min(taken), 1e-9)


def ways(bf16: bool) -> dict[str, tuple[bool, bool]]:
    """Ways to multiply on this processor: (packed for oneDNN, in bfloat16) by name."""
    found = {"mkl": (False, False)} if layers.HAS_MKL else {}
    if layers.PACKS_FOR_ONEDNN:
        found["onednn"] = True, False
        if bf16:
            found["bf16"] = True, True
    return found


def products(config: Config, repetitions: int) -> Figures:
    """GFLOP/s of packed products of the network's sizes, by way; the least of the sizes."""
    model, figures = config.model, {}
    sizes = [(model.latent_dim + model.action_dim, model.hidden), (model.hidden, model.hidden)]
    sizes += [(model.hidden, model.latent_dim), (model.latent_dim, model.hidden), (model.hidden, model.value_bins)]
    for name, (onednn, bf16) in ways(multiplies_bf16(torch.device("cpu"))).items():
        speeds = []
        for inputs, outputs in sizes:
            layer, x = PackedLinear(inputs, outputs), torch.randn(ROWS, inputs)
            given = x.to(torch.bfloat16) if bf16 else x
            with (
                replaced(layers, "PACKS_FOR_ONEDNN", onednn),
                torch.inference_mode(),
                torch.autocast("cpu", torch.bfloat16, enabled=bf16),
            ):
                taken = cpu_time(lambda: layer(given), 5 * repetitions)  # noqa: B023
            speeds.append(2e-9 * ROWS * inputs * outputs / taken)
        figures[f"products_{name}_gflops"] = min(speeds)
    return figures


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention by torch's fused kernel."""
    return F.scaled_dot_product_attention(query, key, value)


def attention(config: Config, tokens: int, repetitions: int) -> Figures:
    """Milliseconds of attention with its gradient for a batch of the learner, by way."""
    model, figures = config.model, {}
    for kind, name in ((torch.float32, "single"), (torch.bfloat16, "bf16")):
        shape = (3, config.learner.batch, model.heads, tokens, model.width // model.heads)
        x = torch.randn(shape, dtype=kind, requires_grad=True)
        for way, attend in (("fused", fused), ("plain", encoders.attend)):

            def passes() -> None:
                attend(*x).sum().backward()  # type: ignore[no-untyped-call]  # noqa: B023

            figures[f"attention_{way}_{name}_ms"] = 1e3 * cpu_time(passes, repetitions)
    return figures


def searching(config: Config, repetitions: int) -> Figures:
    """Milliseconds of roots and of simulations, and simulations per second of the paper's decisions, by way."""
    torch.manual_seed(0)
    network = make_network(GameSpec.of(config.game.name, config.game.players), config.model).eval()
    tables, figures = situations(config.game.name, config.game.players, ROWS), {}
    asked = tables.obs, tables.legal_bits, tables.phase, tables.decision_keys()
    for name, (onednn, bf16) in ways(multiplies_bf16(torch.device("cpu"))).items():
        with replaced(layers, "PACKS_FOR_ONEDNN", onednn):
            search = replace(config.search, auto_bf16=False, bf16=bf16, skip_forced=False)
            made = [Planner(network, replace(search, simulations=n), ROWS) for n in (0, SIMULATIONS)]
            roots, whole = (cpu_time(lambda: planner.plan(*asked), repetitions) for planner in made)  # noqa: B023
        each = max(whole - roots, 1e-9) / SIMULATIONS
        figures |= {f"search_{name}_roots_ms": 1e3 * roots, f"search_{name}_simulation_ms": 1e3 * each}
        figures[f"search_{name}_sims_per_s"] = ROWS / (each + roots / config.search.simulations)
    return figures


def learning(config: Config, overrides: tuple[str, ...], repetitions: int) -> Figures:
    """Seconds of a learner step, by way."""
    figures = {}
    with training(preset("paper", *REDUCED, *overrides, "selfplay.simulations=[[0,1]]")) as trainer:
        while not trainer.state.learner.steps:
            trainer.iterate()
        batch = trainer.state.replays[config.game.players].sample(config.learner.batch, trainer.state.rng)

    def all_tokens(blocks: TransformerBlocks, tokens: Tensor) -> Tensor:
        return nn.TransformerEncoder.forward(blocks, tokens)[:, 0]

    spec = GameSpec.of(config.game.name, config.game.players)
    chosen = {"all_tokens": (True, True, False), "one_token": (False, True, False), "plain": (False, False, False)}
    chosen |= {"bf16_fused": (False, True, True), "bf16": (False, False, True)}
    for name, (whole, fuse, bf16) in chosen.items():
        torch.manual_seed(0)
        settings = replace(config.learner, auto_bf16=False, bf16=bf16)
        learner = Learner(make_network(spec, config.model), settings, discount=config.search.discount)
        with ExitStack() as stack:
            if whole:
                stack.enter_context(replaced(TransformerBlocks, "first_token", all_tokens))
            if fuse:
                stack.enter_context(replaced(encoders, "attend", fused))
            figures[f"learner_{name}_s"] = cpu_time(lambda: learner.step(batch, 0), repetitions)  # noqa: B023
    return figures


def main() -> None:
    """Measure, print, and write the figures to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_options(parser, "bench_paper_network")
    parser.add_argument("--quick", action="store_true", help="a tiny network, for tests")
    parser.add_argument("--repetitions", type=int, default=5, help="calls that count (default: 5)")
    options = parser.parse_args()
    if options.repetitions < 1:
        parser.error(f"--repetitions: expected 1 or more, got {options.repetitions}")
    settle_memory()
    torch.set_num_threads(1)
    overrides = ("runtime.threads=1", *((*QUICK, *QUICK_PAPER) if options.quick else ()))
    config, again = preset("paper", *overrides), options.repetitions
    spec = GameSpec.of(config.game.name, config.game.players)
    tokens = 1 + sum(group.count for group in encoders.groups_read(spec, config.model))
    print(f"{cpu_model()}, one thread, torch {torch.__version__}")
    figures: Figures = {}
    for part in (
        lambda: products(config, again),
        lambda: attention(config, tokens, again),
        lambda: searching(config, again),
        lambda: learning(config, overrides, again),
    ):
        found = part()
        figures |= found
        for name, value in found.items():
            print(f"  {name:34}{value:>14,.3f}", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        about = {"command": " ".join(["python", "-m", "experiments.bench_paper_network", *sys.argv[1:]])}
        options.json.write_text(
            json.dumps(about | {"cpu": cpu_model()} | figures | {"provenance": provenance()}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
