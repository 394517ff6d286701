"""Comparisons of the search's speed in `experiments.bench_search`: on a busy machine, with mctx, between engines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

import torch

from experiments.common.engines import make_engines
from experiments.common.searches import PlannedSearch, lanes_for, make_network, search_settings, situations
from experiments.common.timing import CONDITIONS, IDLE, busy_figures, median_ratio, speed, speeds_in_turn
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs.processes import multiplies_bf16

Figures = dict[str, float]


def compare_busy(
    spec: GameSpec, models: Sequence[str], batches: Sequence[int], threads: int, rounds: int, at_least: float
) -> Figures:
    """Speed of searches beside a busy loop, as a share of their speed without it.

    Args:
      spec: game to search.
      models: names of the networks.
      batches: numbers of games searched at a time.
      threads: number of cores to use.
      rounds: number of rounds, in each of which every search is measured both ways.
      at_least: seconds of a measurement.
    """
    figures: Figures = {}
    print(f"{'model':11}{'algorithm':10}{'sims':>5}{'batch':>6}{'idle sims/s':>14}{'busy sims/s':>14}{'share':>8}")
    for model in models:
        network = make_network(model, spec)
        for batch in batches:
            for algorithm, simulations in (("gumbel", 16), ("puct", 50)):
                config = search_settings(model, network, batch, threads, True, algorithm, simulations)
                search = PlannedSearch(network, config, batch)
                name = f"busy_{model}_{algorithm}_b{batch}"
                work = partial(speed, search.run, search.simulations, at_least)
                found = busy_figures(speeds_in_turn({name: work}, rounds, busy=True), "sims_per_s")
                idle, busy, share = found.values()
                row = f"{model:11}{algorithm:10}{simulations:>5}{batch:>6}{idle:>14,.0f}{busy:>14,.0f}{share:>8.2f}"
                print(row, flush=True)
                figures |= found
    figures["busy_share"] = min(figures[name] for name in figures if name.endswith("_busy_share"))
    print(f"\n{'busy_share':32}{figures['busy_share']:>14,.3f}")
    return figures


def compare_with_mctx(
    network: Network, simulations: int, batches: Sequence[int], threads: int, rounds: int, at_least: float, busy: bool
) -> Figures:
    """Simulations per second of our search and of mctx with the same network, in turn, and their ratio.

    Roots are encoded beforehand or not counted. Both searches have the same settings (those in which our visits equal
    mctx's), and one value, the root player's. Where the processor multiplies in bfloat16, our search is measured so as
    well, as it runs in the paper's preset; mctx stays in single precision.

    Args:
      network: network to search with.
      simulations: number of simulations of puct; gumbel has 16, or as many if that is less.
      batches: numbers of games searched at a time.
      threads: number of cores to use; mctx uses all cores.
      rounds: number of rounds, in each of which both are measured.
      at_least: seconds of a measurement.
      busy: whether to measure beside a busy loop, too.

    Raises:
      ModuleNotFoundError: JAX or mctx is not installed.
      ValueError: the two networks do not compute the same.
    """
    peer = import_module("experiments.common.mctx_peer")
    theirs, spec = peer.JaxNetwork(network), network.spec
    worst = theirs.check(situations(spec.game, spec.num_players, 32).obs)
    print(f"largest difference of the two networks' numbers: {worst:.1e}\n")
    bf16 = multiplies_bf16(torch.device("cpu"))
    head = f"{'algorithm':10}{'sims':>5}{'batch':>6}{'':>6}{'ours sims/s':>14}{'mctx sims/s':>14}{'ratio':>8}"
    print(head + (f"{'ours, bf16':>14}{'ratio':>8}" if bf16 else ""))
    figures: Figures = {}
    for batch in batches:
        tables = situations(spec.game, spec.num_players, batch)
        lanes = lanes_for("paper", batch, threads)
        torch.set_num_threads(max(1, threads // lanes))
        for algorithm, count in (("puct", simulations), ("gumbel", min(simulations, 16))):
            config = SearchConfig(
                algorithm=algorithm,
                simulations=count,
                backup="ego",
                unvisited="lowest",
                max_considered=16,
                merge=False,
                lanes=lanes,
                tree_threads=threads if lanes == 1 else 1,
            )
            ours, mctx = (
                PlannedSearch(network, config, batch),
                peer.MctxSearch(theirs, config, tables.obs, tables.legal),
            )
            works: dict[str, Callable[[], float]] = {
                "ours": partial(ours.simulations_per_s, at_least),
                "mctx": partial(speed, mctx.run, mctx.simulations, at_least),
            }
            if bf16:
                half = PlannedSearch(network, replace(config, bf16=True), batch)
                works["bf16"] = partial(half.simulations_per_s, at_least)
            speeds = speeds_in_turn(works, rounds, busy)
            for condition in CONDITIONS if busy else (IDLE,):
                found = speeds[condition]
                middle = {name: statistics.median(found[name]) for name in works}
                name = f"peer_{algorithm}_b{batch}_{condition}"
                row = (
                    f"{algorithm:10}{count:>5}{batch:>6}{condition:>6}{middle['ours']:>14,.0f}{middle['mctx']:>14,.0f}"
                )
                ratio = median_ratio(found["ours"], found["mctx"])
                row += f"{ratio:>8.2f}"
                figures |= {f"{name}_sims_per_s": middle["ours"], f"{name}_mctx_sims_per_s": middle["mctx"]}
                figures[f"{name}_ratio"] = ratio
                if bf16:
                    gain = median_ratio(found["bf16"], found["mctx"])
                    figures |= {f"{name}_bf16_sims_per_s": middle["bf16"], f"{name}_bf16_gain": gain}
                    row += f"{middle['bf16']:>14,.0f}{gain:>8.2f}"
                print(row, flush=True)
    print()
    for condition in CONDITIONS if busy else (IDLE,):
        headline = f"peer_{condition}_ratio"
        figures[headline] = min(figures[name] for name in figures if name.endswith(f"_{condition}_ratio"))
        print(f"{headline:32}{figures[headline]:>14,.3f}")
    return figures


def compare_engines(
    spec: GameSpec, models: Sequence[str], batches: Sequence[int], compile: bool, rounds: int, at_least: float
) -> Figures:
    """Roots and recurrent steps per second of each engine, on one thread, in turn.

    Args:
      spec: game whose positions are computed.
      models: names of the networks.
      batches: numbers of rows computed at a time.
      compile: whether to measure torch.compile, too.
      rounds: number of rounds, in each of which all engines are measured.
      at_least: seconds of a measurement.
    """
    torch.set_num_threads(1)
    figures: Figures = {}
    told: dict[str, str] = {}
    print(f"{'model':11}{'batch':>6}  {'engine':10}{'roots/s':>14}{'of best':>9}{'steps/s':>14}{'of best':>9}")
    for model in models:
        network = make_network(model, spec)
        for batch in batches:
            engines, missing = make_engines(network, situations(spec.game, spec.num_players, batch).obs, compile)
            told |= {name: reason for name, reason in missing.items() if name not in told}
            works: dict[str, Callable[[], float]] = {}
            for name, engine in engines.items():
                works[f"{name}_roots"] = partial(speed, engine.roots, batch, at_least)
                works[f"{name}_steps"] = partial(speed, engine.steps, batch, at_least)
            speeds = speeds_in_turn(works, rounds, busy=False)[IDLE]
            found = {name: statistics.median(series) for name, series in speeds.items()}
            best = {kind: max(found[f"{name}_{kind}"] for name in engines) for kind in ("roots", "steps")}
            for name in engines:
                cells = "".join(
                    f"{found[f'{name}_{kind}']:>14,.0f}{found[f'{name}_{kind}'] / best[kind]:>9.2f}" for kind in best
                )
                print(f"{model:11}{batch:>6}  {name:10}{cells}", flush=True)
            figures |= {f"engine_{model}_b{batch}_{name}_per_s": value for name, value in found.items()}
    for name, reason in told.items():
        print(f"{name}: not measured: {reason}")
    return figures
