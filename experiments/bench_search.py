"""Benchmark of the search beside the bare network and the machine's matrix multiplication.

    python -m experiments.bench_search [--json FILE] [--quick]
    python -m experiments.bench_search --busy
    python -m experiments.bench_search --peer mctx [--busy]
    python -m experiments.bench_search --engine

For the models tiny, small and paper and batches of 1 to 1024 games: simulations and decisions per second of gumbel and
puct; the recurrent network alone at the same batch in the same run, and the ratio of the two (efficiency); microseconds
in the tree per simulation and per level walked; memory; roots per second of the encoder. For the paper's network also a
plain search in Python over the same network, one game at a time. `sgemm` is the yardstick of the machine.

--busy, --peer and --engine each measure a comparison instead, in turn over several rounds; docs/speed.md explains them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import muzero  # noqa: F401  # before torch, whose threads it tells how to wait

# isort: split
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import env
from experiments.common.command_line import add_json_options
from experiments.common.search_comparisons import Figures, compare_busy, compare_engines, compare_with_mctx
from experiments.common.searches import PlannedSearch, make_network, search_settings, situations, spent
from experiments.common.timing import seconds, series
from muzero.config import SearchConfig, cores
from muzero.config.fields import require
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.search.backend import resolve_backend
from muzero.search.lane import Lane
from muzero.search.planner import Planner

EXIT_BAD_INPUT = 2
BATCHES = (1, 16, 64, 256, 1024)


def sgemm_gflops() -> float:
    """Billions of operations per second of the best of several matrix products, square and shaped as in the search."""
    best = 0.0
    for m, n, k in ((1024, 1024, 1024), (1024, 1536, 1536), (2048, 2048, 2048)):
        a, b, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
        best = max(best, 2e-9 * m * n * k / seconds(lambda a=a, b=b, c=c: torch.mm(a, b, out=c), 0.6))  # type: ignore[misc]
    return best


def measure(network: Network, config: SearchConfig, batch: int, at_least: float) -> dict[str, float]:
    """Measure one row of the table. The bare network runs as in the search: in as many lanes, on parts as large."""
    search = PlannedSearch(network, config, batch)
    planner = search.planner
    calls = max(1, math.ceil(at_least / 5 / series(search.run, 2)))
    plan, clock = math.inf, planner.clock
    for _ in range(5):
        before = planner.clock
        took = series(search.run, calls)
        if took < plan:
            plan, clock = took, spent(planner.clock, before)
    searching = plan * (1 - clock.encoder / (clock.encoder + clock.network + clock.tree))
    bare = seconds(lambda: run_bare(planner, config.simulations), at_least / 4) / config.simulations
    return {
        "sims_per_s": search.simulations / searching,
        "decisions_per_s": batch / plan,
        "bare_sims_per_s": batch / bare,
        "efficiency": bare * config.simulations / searching,
        "tree_us_per_sim": 1e6 * clock.tree / clock.simulations,
        "tree_us_per_level": 1e6 * clock.tree / clock.levels,
        "depth": clock.levels / clock.simulations,
        "roots_per_s": batch / (plan - searching),
        "megabytes": planner.bytes / 1e6,
    }


def run_bare(planner: Planner, calls: int) -> None:
    """Call the network alone, as the search does: `calls` times in all lanes at once."""

    def run(lane: Lane) -> None:
        for _ in range(calls):
            lane.run_network()

    with ThreadPoolExecutor(max(1, len(planner.lanes) - 1)) as pool:
        others = [pool.submit(run, lane) for lane in planner.lanes[1:]]
        run(planner.lanes[0])
        for other in others:
            other.result()


def flops_per_simulation(network: Network, backup: str) -> float:
    """Multiplications and additions in the matrix products of one recurrent call."""
    rows = 64
    latent = torch.zeros(rows, network.latent_dim)
    index = torch.zeros(rows, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:  # with gradients: products without them are not counted
        network.recurrent(latent, index, index, index, index, backup)
    return counter.get_total_flops() / rows


class PlainNode:
    """A node of the reference search."""

    def __init__(self, prior: float) -> None:
        self.prior, self.visits, self.total, self.reward = prior, 0, 0.0, 0.0
        self.latent: Any = None
        self.children: dict[int, PlainNode] = {}

    def value(self) -> float:
        return self.total / self.visits if self.visits else 0.0


@torch.inference_mode()
def plain_search(network: Network, obs: torch.Tensor, legal: np.ndarray, simulations: int) -> int:
    """MuZero's search as it is usually written: one game, Python objects, one network call per simulation."""
    A = len(legal)

    def expand(node: PlainNode, latent: torch.Tensor, outputs: torch.Tensor, allowed: np.ndarray) -> float:
        numbers = outputs[0].numpy()
        priors = np.exp(numbers[:A][allowed] - numbers[:A][allowed].max())
        node.latent = latent
        node.children = {int(a): PlainNode(float(p)) for a, p in zip(allowed, priors / priors.sum(), strict=True)}
        return float(numbers[A])

    root = PlainNode(1.0)
    expand(root, *network.initial(obs, "ego"), np.flatnonzero(legal))
    zero = torch.zeros(1, dtype=torch.int64)
    for _ in range(simulations):
        node, path = root, [root]
        while node.children:
            parent = node
            scale = math.sqrt(parent.visits + 1) * (1.25 + math.log((parent.visits + 19653) / 19652))
            action, node = max(
                parent.children.items(),
                key=lambda item: item[1].reward + item[1].value() + scale * item[1].prior / (item[1].visits + 1),
            )
            path.append(node)
        latent, outputs = network.recurrent(parent.latent, torch.tensor([action]), zero, zero, zero, "ego")
        node.reward = float(outputs[0, -1])
        value = expand(node, latent, outputs, np.arange(A))
        for visited in reversed(path):
            visited.visits += 1
            visited.total += value
            value = visited.reward + 0.997 * value
    return max(root.children, key=lambda a: root.children[a].visits)


def reference_sims_per_s(network: Network, simulations: int) -> float:
    """Simulations per second of the plain search."""
    tables = situations(network.spec.game, network.num_players, 1)
    obs = torch.from_numpy(tables.obs)
    return simulations / seconds(lambda: plain_search(network, obs, tables.legal[0], simulations), 0.1, repeats=3)


def bench(options: argparse.Namespace, spec: GameSpec) -> Figures:
    """Measure all figures of the search beside the bare network."""
    figures: Figures = {"threads": options.threads, "sgemm_gflops": sgemm_gflops()}
    print(f"sgemm {figures['sgemm_gflops']:.0f} GFLOPS\n")
    columns = ("sims_per_s", "bare_sims_per_s", "efficiency", "decisions_per_s", "tree_us_per_sim", "tree_us_per_level")
    columns += ("depth", "roots_per_s", "megabytes")
    print(
        f"{'model':11}{'algorithm':10}{'sims':>5}{'batch':>6}{'backend':>9}"
        + "".join(f"{name:>18}" for name in columns)
    )
    names = ("tiny", "tiny_flat") if options.quick else ("tiny", "small", "paper", "tiny_flat")
    models = {name: make_network(name, spec) for name in names}
    best_flops = 0.0
    for name, network in models.items():
        for batch in (16, 64) if options.quick else BATCHES:
            for algorithm, simulations in (("gumbel", 16), ("puct", 200 if name == "paper" else 50)):
                if options.quick:
                    simulations = 8
                elif name == "paper" and batch > 256:
                    simulations = 50 if algorithm == "puct" else 16
                config = search_settings(name, network, batch, options.threads, options.compile, algorithm, simulations)
                row = measure(network, config, batch, options.seconds)
                cells = "".join(f"{row[c]:>18,.3f}" if row[c] < 100 else f"{row[c]:>18,.0f}" for c in columns)
                backend = resolve_backend(network, config)
                print(f"{name:11}{algorithm:10}{simulations:>5}{batch:>6}{backend:>9}{cells}", flush=True)
                figures |= {f"{name}_{algorithm}_b{batch}_{key}": value for key, value in row.items()}
                if name == "paper":
                    achieved = row["sims_per_s"] * flops_per_simulation(network, "maxn") / 1e9
                    best_flops = max(best_flops, achieved / figures["sgemm_gflops"])
    summarise(figures, models, best_flops, options.quick)
    return figures


def compare(options: argparse.Namespace, spec: GameSpec) -> Figures:
    """Measure the comparison that was asked for: a busy machine, mctx or engines."""
    rounds, at_least = options.rounds, options.seconds / 3
    batches: tuple[int, ...] = (8,) if options.quick else (64, 256)
    if options.engine:
        models = ("tiny",) if options.quick else ("tiny", "small")
        batches = (8,) if options.quick else (1, 16, 256)
        return compare_engines(spec, models, batches, options.compile, rounds, at_least)
    if options.peer:
        network = make_network("tiny_flat" if options.quick else "paper", spec)
        simulations = 4 if options.quick else options.simulations
        return compare_with_mctx(network, simulations, batches, options.threads, rounds, at_least, options.busy)
    models = ("tiny",) if options.quick else ("tiny", "paper")
    return compare_busy(spec, models, batches, options.threads, rounds, at_least)


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_options(parser, "bench_search")
    parser.add_argument("--game", default="skyjo", choices=env.games())
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--threads", type=int, default=cores(), help="threads of torch and of the trees")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds per measurement (default: 3)")
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run slots networks by the native step, flat ones through torch.compile from batch 256 on",
    )
    parser.add_argument("--quick", action="store_true", help="measure tiny models and few batches only, for tests")
    comparisons = parser.add_argument_group("comparisons, measured instead of all of the above")
    comparisons.add_argument("--busy", action="store_true", help="speed beside a busy loop, as a share of idle speed")
    comparisons.add_argument("--peer", choices=("mctx",), help="search of another project; with --busy, busy as well")
    comparisons.add_argument("--engine", action="store_true", help="native code, torch, torch.compile, ONNX Runtime")
    comparisons.add_argument("--rounds", type=int, default=5, help="measurements of each thing, in turn (default: 5)")
    comparisons.add_argument("--simulations", type=int, default=50, help="--peer: of puct (default: 50)")
    options = parser.parse_args()
    try:
        for name in ("threads", "rounds", "simulations"):
            require(getattr(options, name) >= 1, f"--{name}", "1 or more", getattr(options, name))
        require(not (options.engine and (options.busy or options.peer)), "--engine", "no --busy and no --peer", "them")
        spec = GameSpec.of(options.game, options.players)
        print(f"{options.game}, {options.players} players, {options.threads} threads")
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        figures = (compare if options.busy or options.peer or options.engine else bench)(options, spec)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except ModuleNotFoundError as missing:
        if missing.name not in ("jax", "jaxlib", "mctx"):
            raise
        extra = "pip install -c constraints.txt 'belief-muzero[mctx]' has what the comparison needs"
        print(f"error: --peer=mctx: {missing.name} is missing: {extra}", file=sys.stderr)
        return EXIT_BAD_INPUT
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**figures, "provenance": provenance()}, indent=1))
    return 0


def summarise(figures: dict[str, float], models: dict[str, Network], best_flops: float, quick: bool) -> None:
    """Add the headline figures and print them."""
    torch.set_num_threads(int(figures["threads"]))
    large, most = (64, 64) if quick else (256, 1024)
    headlines: dict[str, float] = {}
    if not quick:
        headlines["paper_b256_efficiency"] = figures["paper_puct_b256_efficiency"]
        headlines["paper_b256_sims_per_s"] = figures["paper_puct_b256_sims_per_s"]
        headlines["paper_reference_sims_per_s"] = reference_sims_per_s(models["paper"], 100)
        headlines["paper_speedup"] = headlines["paper_b256_sims_per_s"] / headlines["paper_reference_sims_per_s"]
        headlines["paper_best_flops_fraction"] = best_flops
        headlines["small_b256_sims_per_s"] = figures[f"small_gumbel_b{large}_sims_per_s"]
    for name in ("tiny", "tiny_flat"):
        headlines[f"{name}_b{most}_sims_per_s"] = figures[f"{name}_gumbel_b{most}_sims_per_s"]
    # Time in the trees per level walked, over both searches together.
    rows = [
        {key: figures[f"tiny_{a}_b{most}_{key}"] for key in ("tree_us_per_sim", "depth")} for a in ("gumbel", "puct")
    ]
    counts = [8, 8] if quick else [16, 50]  # simulations per decision
    spent, walked = (sum(n * row[key] for n, row in zip(counts, rows, strict=True)) for key in rows[0])
    headlines["tree_us_per_level"] = spent / walked
    print()
    for name, value in headlines.items():
        print(f"{name:32}{value:>14,.3f}")
    figures |= headlines


if __name__ == "__main__":
    sys.exit(main())
