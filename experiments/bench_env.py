"""Decisions per second of the environment, beside the slow Python rules on the same deals.

    python -m experiments.bench_env --seconds 2 --json runs/bench/bench_env.json

prints a table: decisions per second (median and best of several repetitions) on one core and on all cores, for random
legal play inside the core without and with results written at every decision, and for the same play driven from Python
at several batch sizes. The yardstick of every row is tests/oracle/<game>.py, which plays the same deals in the same
run: the repetitions of all rows take turns, so that a busy machine slows all of them alike. --json writes the same
numbers as one flat object.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import env
from experiments.common.command_line import add_json_options
from muzero.runs.provenance import provenance

ROOT = Path(__file__).resolve().parent.parent
REPETITIONS = 5
CORE_BATCH = 256  # tables for play inside the core, where any number from 16 to 4096 is about as fast
PYTHON_BATCHES = (1, 64, 1024, 8192)

Play = Callable[[], int]  # function that plays some decisions and returns their number


def inside_core(tables: env.VecEnv, *, write: bool) -> Play:
    """Random play inside the core, with results written at every decision or only at the end."""
    count = 256

    def play() -> int:
        tables.random_steps(count, write=write)
        return count * tables.num_envs

    return play


def from_python(tables: env.VecEnv) -> Play:
    """Random play with two calls per decision of the whole batch."""
    actions = np.empty(tables.num_envs, np.int64)
    count = max(1, 1024 // tables.num_envs)

    def play() -> int:
        for _ in range(count):
            tables.sample_actions(0, out=actions)
            tables.step(actions)
        return count * tables.num_envs

    return play


def oracle_play(game: str, num_players: int, seed: int, *, write: bool) -> Play | None:
    """Random play of the Python oracle, deal after deal; None if the game has no oracle."""
    if not (ROOT / "tests" / "oracle" / f"{game}.py").exists():
        return None
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    module = importlib.import_module(f"tests.oracle.{game}")
    make = next(c for c in vars(module).values() if isinstance(c, type) and hasattr(c, "legal"))
    rules = module.make_rules("official")
    choice = random.Random(seed)
    deals = iter(range(sys.maxsize))
    table: Any = make(rules, num_players, seed, next(deals))

    def play() -> int:
        nonlocal table
        for _ in range(64):
            table.step(choice.choice(table.legal()))
            if table.done:
                table = make(rules, num_players, seed, next(deals))
            if write:
                table.observe(table.to_play)
        return 64

    return play


def rate(play: Play, seconds: float) -> float:
    """Decisions per second of `play` over at least `seconds` seconds."""
    decisions, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not decisions:
        decisions += play()
    return decisions / elapsed


def bench(game: str, num_players: int, seed: int, seconds: float) -> tuple[dict[str, list[float]], int]:
    """Rates of every row by name, `REPETITIONS` each, and the bytes of one table."""
    plays: dict[str, Play] = {}
    for threads, suffix in ((1, ""), (os.cpu_count() or 1, "_all_cores")):
        make = partial(env.make, game, num_players=num_players, seed=seed, threads=threads)
        plays[f"rules{suffix}"] = inside_core(make(CORE_BATCH), write=False)
        plays[f"obs{suffix}"] = inside_core(make(CORE_BATCH), write=True)
        for batch in PYTHON_BATCHES:
            plays[f"python_{batch}{suffix}"] = from_python(make(batch))
    for name, write in (("oracle", False), ("oracle_obs", True)):
        if play := oracle_play(game, num_players, seed, write=write):
            plays[name] = play

    for play in plays.values():
        play()
    rates: dict[str, list[float]] = {name: [] for name in plays}
    for _ in range(REPETITIONS):
        for name, play in plays.items():
            rates[name].append(rate(play, seconds / REPETITIONS))
    return rates, env.describe(game, num_players).state_bytes


def print_table(rates: dict[str, list[float]]) -> None:
    """Print one line for each kind of play; the yardstick is the oracle that does the same on one core."""

    def cells(name: str, yardstick: str) -> str:
        if name not in rates:
            return ""
        median = statistics.median(rates[name])
        ratio = f"{median / statistics.median(rates[yardstick]):,.0f}" if yardstick in rates else "-"
        return f"{median:14,.0f}{max(rates[name]):14,.0f}{ratio:>10}"

    rows = [
        ("rules only, in the core", str(CORE_BATCH), "rules", "oracle"),
        ("with obs, mask, rewards, in the core", str(CORE_BATCH), "obs", "oracle_obs"),
        *[("the same, driven from Python", f"{b}", f"python_{b}", "oracle_obs") for b in PYTHON_BATCHES],
        ("Python oracle, rules only", "1", "oracle", "oracle"),
        ("Python oracle, with observations", "1", "oracle_obs", "oracle_obs"),
    ]
    columns = f"{'median':>14}{'best':>14}{'x oracle':>10}"
    print(f"{'decisions per second':36}{'':>6}{'one core':>38}{f'all {os.cpu_count()} cores':>38}")
    print(f"{'':36}{'batch':>6}{columns}{columns}")
    for what, batch, name, yardstick in rows:
        if name in rates:
            print(f"{what:36}{batch:>6}{cells(name, yardstick)}{cells(f'{name}_all_cores', yardstick)}")


def cpu_model() -> str:
    """Name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--game", default="skyjo", choices=env.games(), help="default: skyjo")
    parser.add_argument("--players", type=int, default=2, help="players at each table (default: 2)")
    parser.add_argument("--all-players", action="store_true", help="also 4 and 8, where the game allows")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each number (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals and of the play (default: 0)")
    add_json_options(parser, "bench_env")
    args = parser.parse_args(argv)

    options = f"--game {args.game} --players {args.players} --seconds {args.seconds:g} --seed {args.seed}"
    report: dict[str, str | int | float] = {
        "command": f"python -m experiments.bench_env {options}" + " --all-players" * args.all_players,
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "core_batch": CORE_BATCH,
        "repetitions": REPETITIONS,
    }
    print(f"{report['cpu']}, {report['cores']} cores, load {report['load']}, Python {report['python']}")
    print(report["command"])

    most = env.describe(args.game, args.players).max_players
    others = [p for p in (4, 8) if args.all_players and p != args.players and p <= most]
    for num_players in (args.players, *others):
        rates, state_bytes = bench(args.game, num_players, args.seed, args.seconds)
        print(f"\n{args.game}, {num_players} players, {state_bytes} bytes per table")
        print_table(rates)
        prefix = "" if num_players == args.players else f"players_{num_players}_"
        report[f"{prefix}bytes_per_table"] = state_bytes
        rates["all_cores"] = rates["rules_all_cores"]
        for name, values in rates.items():
            report[f"{prefix}{name}_steps_per_s"] = round(statistics.median(values), 1)
            report[f"{prefix}{name}_steps_per_s_best"] = round(max(values), 1)

    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({**report, "provenance": provenance()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
