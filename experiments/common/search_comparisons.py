"""Comparisons of the search's speed in `experiments.bench_search`: on a busy machine, with mctx, between engines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

import torch

from experiments.common.engines import make_engines
from experiments.common.searches import PlannedSearch, lanes_for, make_network, multiply, search_settings, situations
from experiments.common.timing import CONDITIONS, IDLE, busy_figures, median_ratio, speed, speeds_in_turn
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs.processes import multiplies_bf16

Figures = dict[str, float]

_PEER_COLUMNS = ("ours sims/s", "mctx sims/s", "ratio", "products/s", "/ mctx")


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
    mctx's), and one value, the root player's. Where the processor multiplies in bfloat16, as our search does in the
    paper's preset there, both are measured so as well. The matrix products of our search alone, without trees and
    without anything else, say how far any search with this network can come.

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
    precisions = [False, True] if multiplies_bf16(torch.device("cpu")) else [False]
    if True in precisions:
        in_bf16 = peer.JaxNetwork(network, bf16=True)
        print(f"in bfloat16: {in_bf16.check(situations(spec.game, spec.num_players, 32).obs):.1e}")
    print(f"{'algorithm':10}{'sims':>5}{'batch':>6}{'':>6}{'':>6}" + "".join(f"{name:>12}" for name in _PEER_COLUMNS))
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
            works: dict[str, Callable[[], float]] = {}
            for half in precisions:
                search = PlannedSearch(network, replace(config, bf16=half), batch)
                mctx = peer.MctxSearch(in_bf16 if half else theirs, config, tables.obs, tables.legal)
                products = partial(multiply, search.planner, count)
                works[_named("ours", half)] = partial(search.simulations_per_s, at_least)
                works[_named("mctx", half)] = partial(speed, mctx.run, mctx.simulations, at_least)
                works[_named("products", half)] = partial(speed, products, search.simulations, at_least)
            speeds = speeds_in_turn(works, rounds, busy)
            for condition in CONDITIONS if busy else (IDLE,):
                found, name = speeds[condition], f"peer_{algorithm}_b{batch}_{condition}"
                for half in precisions:
                    ours, mctx_speeds, limit = (found[_named(kind, half)] for kind in ("ours", "mctx", "products"))
                    row = {
                        "sims_per_s": statistics.median(ours),
                        "mctx_sims_per_s": statistics.median(mctx_speeds),
                        "ratio": median_ratio(ours, mctx_speeds),
                        "products_per_s": statistics.median(limit),
                        "products_ratio": median_ratio(limit, mctx_speeds),
                    }
                    cells = "".join(f"{value:>12,.0f}" if value > 100 else f"{value:>12.2f}" for value in row.values())
                    told = "bf16" if half else ""
                    print(f"{algorithm:10}{count:>5}{batch:>6}{condition:>6}{told:>6}{cells}", flush=True)
                    figures |= {f"{_named(name, half)}_{key}": value for key, value in row.items()}
                best = (
                    [max(pair) for pair in zip(*(found[_named(kind, half)] for half in precisions), strict=True)]
                    for kind in ("ours", "mctx")
                )
                figures[f"{name}_best_ratio"] = median_ratio(*best)
    print()
    for condition in CONDITIONS if busy else (IDLE,):
        for ratio in ("ratio", "best_ratio"):
            headline, end = f"peer_{condition}_{ratio}", f"_{condition}_{ratio}"
            figures[headline] = min(figures[name] for name in figures if name.endswith(end))
            print(f"{headline:32}{figures[headline]:>14,.3f}")
    return figures


def _named(name: str, bf16: bool) -> str:
    return f"{name}_bf16" if bf16 else name


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
