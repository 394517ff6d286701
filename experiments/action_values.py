"""Values of actions as a search asks for them, compared with what the actions are paid.

    python -m experiments.action_values --agents checkpoint:RUN --rules episode=round round_reward=2.0 \\
        first_starter=random max_decisions=400

A search believes the network's reward and value of the position after an action, its afterstate where chance follows.
Positions are those of the policy's own games. Three actions are taken there: the policy's, the one that the network
values most, and a legal one at random. Each is played out by the policy in all seats, in worlds in which everything
that the player to move cannot know is dealt anew, by the same rules as in training. `bias` is how much more the network
promises than is paid: where it is near 0 for the policy's actions and not for others, the network has not learned what
the actions lead to that the policy avoids, and the action that it values most is often one of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
import yaml  # type: ignore[import-untyped]
from numpy.typing import NDArray

import env
from experiments import common
from experiments.common import Row
from experiments.decision_gains import action_returns, mean_and_error, with_interval
from muzero.agents.agent_spec import AgentSpec, load_network, resolve, trained_for
from muzero.agents.agents import Policy
from muzero.agents.situation import Situation
from muzero.config.fields import require
from muzero.matches.value_check import played_positions
from muzero.model.interface import BaseNetwork

CHOICES = ("policy", "highest value", "random")
Floats = NDArray[np.float64]


@torch.inference_mode()
def claimed_values(network: BaseNetwork, tables: env.VecEnv) -> Floats:
    """Reward and value [B, A] after each legal action for the player to move, as a search is told; NaN elsewhere."""
    found = np.full(tables.legal.shape, np.nan)
    latent = network.represent(torch.from_numpy(tables.obs.copy()))
    passes = network.spec.phase_table.turn_passes
    for action in range(tables.num_actions):
        rows = np.flatnonzero(tables.legal[:, action])
        if not len(rows):
            continue
        shift = torch.from_numpy(passes[tables.phase[rows].astype(np.int64), action].astype(np.int64))
        following = network.step(latent[rows], torch.full_like(shift, action), shift, torch.zeros_like(shift))
        prediction = network.predict(following, shift)
        numbers = network.support.expectation(prediction.value) + network.support.expectation(prediction.reward)
        seat = -shift % network.num_players if network.frame == "mover" else torch.zeros_like(shift)
        found[rows, action] = numbers.gather(1, seat[:, None])[:, 0].double().numpy()
    return found


def compare(network: BaseNetwork, rules: env.Rules, positions: int, worlds: int, seed: int) -> Row:
    """Claims and payments by who chose the action, in all and by phase, with standard errors over positions."""
    game, players, policy = network.spec.game, network.spec.num_players, Policy(network)
    met = played_positions(policy, game, players, rules, positions, seed)
    open_tables = np.flatnonzero(met.legal_bits)
    tables = env.make(game, len(open_tables), players, rules, auto_reset=False)
    tables.copy_from(met, open_tables)
    rows = np.arange(len(open_tables))
    claimed = claimed_values(network, tables)
    luck = np.random.default_rng(seed).random(claimed.shape) * tables.legal
    chosen = {
        "policy": policy.act(Situation.at(tables, rows)),
        "highest value": np.nanargmax(claimed, 1),
        "random": luck.argmax(1),
    }
    result: Row = {"positions": len(rows)}
    paid: dict[str, Floats] = {}
    for name in CHOICES:
        returns = action_returns(policy, tables, rules, rows, chosen[name], worlds)
        paid[name] = returns.mean(1)
        error = claimed[rows, chosen[name]] - paid[name]
        noise = float((returns.var(1, ddof=1) / worlds).mean())
        row: Row = {"all": mean_and_error(error), "rmse": float(np.sqrt(max(0.0, np.square(error).mean() - noise)))}
        row |= {"claimed": float(claimed[rows, chosen[name]].mean()), "paid": float(paid[name].mean())}
        for phase, text in enumerate(tables.phase_names):
            if (tables.phase == phase).any():
                row[text] = mean_and_error(error[tables.phase == phase])
        result[name] = row
    result["gain of the highest value"] = mean_and_error(paid["highest value"] - paid["policy"])
    return result


def markdown(found: dict[str, Row], worlds: int, command: str) -> str:
    """The comparison as a page of Markdown."""
    lines = ["# Values of actions, claimed and paid", "", f"    {command}", ""]
    lines += [f"Bias: claimed minus paid, mean +- 95 % interval over positions; {worlds} worlds for each action.", ""]
    for agent, figures in found.items():
        lines += [f"## {agent}, {figures['positions']} positions", ""]
        parts = [name for name in figures["policy"] if name not in ("rmse", "claimed", "paid")]
        cells = [
            [name, *(f"{figures[name][part]:+.4f}" for part in ("claimed", "paid")), f"{figures[name]['rmse']:.3f}"]
            + [with_interval(figures[name][part]) for part in parts]
            for name in CHOICES
        ]
        lines += common.table(["action", "claimed", "paid", "RMSE", *(f"bias, {part}" for part in parts)], cells)
        lines += [
            "",
            f"The highest value is paid {with_interval(figures['gain of the highest value'])} more than the policy.",
            "",
        ]
    return "\n".join(lines)


def agents_with_rules(options: argparse.Namespace) -> Iterator[tuple[str, BaseNetwork, dict[str, Any]]]:
    """Agents of `--agents` with their networks and rules: those that a network is trained for, changed by `--rules`."""
    changes = {}
    for text in options.rules:
        key, equals, value = text.partition("=")
        require(bool(equals), "--rules", "KEY=VALUE", text)
        changes[key] = yaml.safe_load(value)
    for text in options.agents:
        spec = resolve(AgentSpec.parse(text))
        trained = trained_for(spec)
        require(trained is not None, "--agents", "agents with a network", text)
        assert trained is not None
        network, _ = load_network(spec, trained["game"], trained["players"])
        yield text, network, {**trained["rules"], **changes}


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `agents_with_rules` reads."""
    parser.add_argument("--agents", nargs="+", required=True, metavar="AGENT", help="agents with a network")
    parser.add_argument("--rules", nargs="+", default=[], metavar="KEY=VALUE", help="rules beside those of the network")


def experiment(options: argparse.Namespace, command: str) -> None:
    """Compares all agents and writes the page."""
    require(options.worlds > 1, "--worlds", "2 or more", options.worlds)
    found = {
        text: compare(network, rules, options.games, options.worlds, options.seed)
        for text, network, rules in agents_with_rules(options)
    }
    page = markdown(found, options.worlds, command)
    common.write_results(options.out, "action_values", {"command": command, "agents": found}, page)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, games="positions")
    add_agent_options(parser)
    parser.add_argument("--worlds", type=int, default=32, help="playouts of each action (default: 32)")
    parser.set_defaults(games=1500)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
