"""Error of a network's values, and how much luck is in the returns that values are learned from.

    python -m experiments.value_error --agents agent:skyjo-belief checkpoint:RUN,iteration=240 \\
        --rules episode=round round_reward=2.0 first_starter=random max_decisions=400

`error`: values against playouts of the network's own policy, as in `muzero.matches.value_check`, with intervals over
positions: some hundred positions, as in the metrics of a training run, leave the error open by a half.

`variance`: mean square difference between a return and the network's value of the position, in rounds of the policy, by
the number of decisions made. Of the return as it was paid, and without luck (`selfplay.judged_outcomes`), for several
numbers of judged outcomes. The less there is, the fewer rounds a value needs. Not for games with private hands.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from numpy.typing import NDArray

import env
from experiments import common
from experiments.action_values import add_agent_options, agents_with_rules
from experiments.common import Row
from muzero.agents.agents import Searcher
from muzero.agents.situation import Agent, Situation
from muzero.config import SearchConfig
from muzero.data.seats import to_seats
from muzero.matches.value_check import check_values, network_values
from muzero.model.interface import BaseNetwork
from muzero.search.judge import make_native_values
from muzero.selfplay.expectations import Expectations

STAGES = ((0, 10), (10, 30), (30, 60), (60, 100))  # decisions of a game, from and to
Floats = NDArray[np.float64]


def rounds(
    network: BaseNetwork, policy: Agent, rules: env.Rules, games: int, outcomes: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Rewards, luck and values [T, games, P] of games of a policy, by seat; values are NaN after the end."""
    spec = network.spec
    tables = env.make(spec.game, games, spec.num_players, rules, seed=seed, auto_reset=False)
    judge = Expectations(network, make_native_values(network), outcomes, 1.0) if outcomes else None
    paid, luck, values = [], [], []
    while len(rows := np.flatnonzero(tables.legal_bits)):
        actions = np.full(games, env.SKIP, np.int64)
        actions[rows] = policy.act(Situation.at(tables, rows))
        here = np.full((games, spec.num_players), np.nan)
        known = network_values(network, tables.obs[rows]).astype(np.float32)
        here[rows] = to_seats(known, tables.to_play[rows], spec.num_players)
        values.append(here)
        events = judge.before(tables, actions, seed) if judge else None
        tables.step(actions)
        paid.append(np.where(np.isfinite(here), tables.rewards, 0.0))
        luck.append(judge.luck(tables, *events).astype(float) if judge and events else np.zeros_like(here))
    return np.array(paid), np.array(luck), np.array(values)


def variances(rewards: Floats, luck: Floats, values: Floats) -> list[float]:
    """Mean square differences between returns without luck and values, in all and by stage."""
    apart = (rewards - luck)[::-1].cumsum(0)[::-1] - values
    return [float(np.nanmean(np.square(apart[slice(*stage)]))) for stage in ((None, None), *STAGES)]


def measure(network: BaseNetwork, rules: dict[str, Any], options: argparse.Namespace) -> Row:
    """Error of the values, and variance of the returns by number of judged outcomes."""
    policy = Searcher(network, SearchConfig(simulations=0), 1024)  # the most likely action, by native passes
    given = {"positions": options.games, "playouts": options.playouts, "seed": options.seed}
    check = check_values(network, rules, policy=policy, **given)
    result: Row = {"rmse": check.rmse, "interval": check.rmse_interval, "bias": check.bias, "spread": check.spread}
    counts = [0] if any(group.owner_only for group in network.spec.groups) else options.outcomes
    result["variance"] = {
        str(count): variances(*rounds(network, policy, rules, options.rounds, count, options.seed)) for count in counts
    }
    return result


def markdown(found: dict[str, Row], command: str) -> str:
    """The figures as a page of Markdown."""
    lines = ["# Error of values, and luck in returns", "", f"    {command}", ""]
    cells = []
    for name, row in found.items():
        low, high = row["interval"]
        error = f"{row['rmse']:.3f} [{low:.3f}, {high:.3f}]"
        cells.append([name, error, f"{row['bias']:+.3f}", f"{row['spread']:.2f}"])
    lines += [*common.table(["agent", "RMSE of values", "bias", "spread of positions"], cells), ""]
    lines += ["Mean square difference between a return and the value, by decisions made:", ""]
    titles = ["agent", "judged outcomes", "all", *(f"{first} to {end}" for first, end in STAGES)]
    cells = [
        [name, count, *(f"{number:.2f}" for number in numbers)]
        for name, row in found.items()
        for count, numbers in row["variance"].items()
    ]
    return "\n".join([*lines, *common.table(titles, cells), ""])


def experiment(options: argparse.Namespace, command: str) -> None:
    """Measures all agents and writes the page."""
    found = {text: measure(network, rules, options) for text, network, rules in agents_with_rules(options)}
    common.write_results(options.out, "value_error", {"command": command, "agents": found}, markdown(found, command))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, games="positions whose values are compared with playouts")
    add_agent_options(parser)
    parser.add_argument("--playouts", type=int, default=16, help="playouts of each position (default: 16)")
    parser.add_argument("--rounds", type=int, default=1024, help="games whose returns are looked at (default: 1024)")
    parser.add_argument("--outcomes", nargs="+", type=int, default=[0, 4, 8, 16], metavar="N", help="judged outcomes")
    parser.set_defaults(games=4000)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
