"""Gains of search at single decisions: its choices against the policy's, judged by playouts with the real rules.

    python -m experiments.decision_gains --runs runs/belief --counts 4 16 64 256 --games 4000 --out runs/gains

Positions are those of the policy's own games. Where an agent's choice differs from the policy's, both are played out by
the policy in all seats, in the same sampled worlds (everything that the player to move cannot know is dealt anew). The
gain of an agent is the mean over all positions of what its choice is paid more than the policy's, in units of value;
where they agree it is 0. Only choices that differ are played out, and in the same worlds, so that differences can be
seen that match results do not show: 0.001 a decision is about one win in fifty.

`--search KEY=VALUE` changes the search of all agents but the policy, such as correct_luck=off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from numpy.typing import NDArray

import env
from experiments import common
from experiments.common import Row, Run
from muzero.agents.agents import Policy, Searcher
from muzero.agents.loading import load_agent
from muzero.agents.situation import Agent, Situation
from muzero.config.fields import require
from muzero.matches.value_check import played_positions

_AT_ONCE = 1 << 13  # tables that are played out at a time
Floats = NDArray[np.float64]


def choices(agent: Agent, tables: env.VecEnv, at_once: int = 1024) -> NDArray[np.int64]:
    """Actions [n] of an agent at all tables."""
    rows = np.arange(tables.num_envs)
    return np.concatenate([agent.act(Situation.at(tables, part)) for part in np.split(rows, rows[at_once::at_once])])


def action_returns(
    player: Agent, tables: env.VecEnv, rules: env.Rules, at: NDArray[np.int64], action: NDArray[np.int64], worlds: int
) -> Floats:
    """Sums of rewards [k, worlds] for the player to move at the tables `at` [k] after an action [k], by playouts.

    Actions at the same table are tried in the same worlds.
    """
    found = np.zeros((len(at), worlds))
    step = max(1, _AT_ONCE // worlds)
    for first in range(0, len(at), step):
        part = slice(first, first + step)
        rows = np.repeat(at[part], worlds)
        made = env.make(tables.game, len(rows), tables.num_players, rules, auto_reset=False)
        made.copy_from(tables, rows)
        mover = made.to_play.copy()
        keys = np.tile(np.arange(worlds, dtype=np.uint64), len(rows) // worlds)
        made.determinize(mover, keys + (rows.astype(np.uint64) << np.uint64(20)))
        made.step(np.repeat(action[part], worlds))
        here = np.arange(len(rows))
        paid = made.rewards[here, mover].astype(np.float64)
        while len(open_tables := np.flatnonzero(made.legal_bits)):
            acts = np.full(len(rows), env.SKIP, np.int64)
            acts[open_tables] = player.act(Situation.at(made, open_tables))
            made.step(acts)
            paid[open_tables] += made.rewards[open_tables, mover[open_tables]]
        found[part] = paid.reshape(-1, worlds)
    return found


def gains(
    chosen: dict[str, NDArray[np.int64]], player: Agent, tables: env.VecEnv, rules: env.Rules, worlds: int
) -> Row:
    """Gain of each agent over the first one, in all and by phase, with standard errors over positions."""
    first, *others = chosen
    base = chosen[first]
    tried = sorted(
        {(int(t), int(names[t])) for names in chosen.values() for t in np.flatnonzero(names != base)}
        | {(int(t), int(base[t])) for other in others for t in np.flatnonzero(chosen[other] != base)}
    )
    at, action = (np.array(column, np.int64) for column in zip(*tried, strict=True)) if tried else (base[:0], base[:0])
    returns = action_returns(player, tables, rules, at, action, worlds).mean(1)
    value = {pair: float(number) for pair, number in zip(tried, returns, strict=True)}
    phases = tables.phase_names
    result: Row = {}
    for name in others:
        differs = np.flatnonzero(chosen[name] != base)
        gain = np.zeros(len(base))
        gain[differs] = [value[t, chosen[name][t]] - value[t, base[t]] for t in differs.tolist()]
        row: Row = {"differs": len(differs) / len(base), "all": mean_and_error(gain)}
        row |= {
            text: mean_and_error(gain[tables.phase == p]) for p, text in enumerate(phases) if (tables.phase == p).any()
        }
        result[name] = row
    return result


def mean_and_error(numbers: Floats) -> Row:
    """Number of positions, mean, and standard error of the mean."""
    error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else float("nan")
    return {"n": len(numbers), "mean": float(numbers.mean()), "error": error}


def probe(run: Run, options: argparse.Namespace, changes: dict[str, str]) -> Row:
    """Gains of all numbers of simulations of one run."""
    iteration = common.iteration_of(run, options.iteration)
    policy = load_agent(common.agent_of(run, iteration, simulations=0))
    assert isinstance(policy, Searcher)
    game_config = run.config["game"]
    network, rules = policy.planner.network, {**game_config["rules"], **game_config["training"]}
    game, players = network.spec.game, network.spec.num_players
    tables = played_positions(Policy(network), game, players, rules, options.games, options.seed)
    going_on = np.flatnonzero(tables.legal_bits)
    kept = env.make(game, len(going_on), players, rules, auto_reset=False)
    kept.copy_from(tables, going_on)
    chosen = {"policy": choices(policy, kept)}
    for count in options.counts:
        chosen[str(count)] = choices(load_agent(common.agent_of(run, iteration, simulations=count, **changes)), kept)
    figures = gains(chosen, policy, kept, rules, options.worlds)
    return {"run": run.label, "iteration": iteration, "positions": len(going_on), "gains": figures}


def markdown(rows: Sequence[Row], worlds: int, command: str) -> str:
    """The gains as a page of Markdown."""
    lines = ["# What search adds to single decisions", "", f"    {command}", ""]
    lines += [
        f"Mean gain in value per decision over the policy's choice, +- 95 % intervals over positions; {worlds} worlds",
        "for each action. `differs`: share of the decisions in which the choices are not the same.",
        "",
    ]
    for row in rows:
        lines += [f"## {row['run']}, iteration {row['iteration']}, {row['positions']} positions", ""]
        classes = [name for name in next(iter(row["gains"].values())) if name != "differs"]
        cells = [
            [name, f"{found['differs']:.3f}", *(with_interval(found[part]) for part in classes)]
            for name, found in row["gains"].items()
        ]
        lines += [*common.table(["simulations", "differs", *classes], cells), ""]
    return "\n".join(lines)


def with_interval(number: Row) -> str:
    """Mean and half the width of its 95 % interval."""
    return f"{number['mean']:+.4f} +- {1.96 * number['error']:.4f}"


def experiment(options: argparse.Namespace, command: str) -> None:
    """Computes the gains of all runs and writes the page."""
    require(options.worlds > 0, "--worlds", "1 or more", options.worlds)
    changes = {}
    for text in options.search:
        key, equals, value = text.partition("=")
        require(bool(equals), "--search", "KEY=VALUE", text)
        changes[key] = value
    rows = [probe(run, options, changes) for run in common.read_runs(options.runs)]
    page = markdown(rows, options.worlds, command)
    common.write_results(options.out, "decision_gains", {"command": command, "rows": rows}, page)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, games="positions")
    common.add_run_options(parser)
    parser.add_argument("--counts", nargs="+", type=int, default=[4, 16, 64, 256], metavar="N", help="simulations")
    parser.add_argument("--worlds", type=int, default=256, help="playouts of each action (default: 256)")
    parser.add_argument("--search", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the search to change")
    parser.set_defaults(games=4000)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
