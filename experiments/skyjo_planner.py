"""Checks of the planner on Skyjo: values, rewards and advantages as the search meets them, compared with the truth.

    python -m experiments.skyjo_planner --runs runs/belief runs/baseline --out runs/planner

For each run, in single rounds of its own games:
  value_rmse   error of the values, against playouts of the run's own policy;
  reward       rewards that the network predicts for decisions that end a round, asked for as the search asks (turn by
               the phase table), against what was paid: correlation and means, outcome of the last card told and not;
  regret       of the last placing decision of a round, after which only hidden cards count: every action is judged in
               400 worlds, for the greedy bot, the policy, and search with several numbers of simulations;
  deck_take    value of drawing minus value of taking the discarded card, found by search, against an exhaustive search
               of the turn with the real rules and the network's values at its end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from numpy.typing import NDArray

import env
from experiments import common
from experiments.common import Row, Run
from muzero.agents.agents import Agent, Policy, Searcher, Situation
from muzero.agents.bots import Bot
from muzero.agents.expectimax import TurnSearch
from muzero.agents.loading import load_agent
from muzero.config.fields import require
from muzero.matches.value_check import check_values
from muzero.model.interface import BaseNetwork
from muzero.search.judge import make_native_values

DECK, TAKE = 0, 1
SOURCE, POSITION = 0, 2  # phases
RULES: env.Rules = {"preset": "official", "episode": "round", "round_reward": 2.0, "max_decisions": 400}
ENDINGS, LAST_DECISIONS, SOURCES = 512, 256, 128  # positions of each sort
MOST_DECISIONS = 2_000  # decisions at each table, after which a sort of position is given up
WORLDS = 400  # worlds in which the actions of a last decision are judged
Floats = NDArray[np.float64]


def tables_like(source: env.VecEnv, rows: NDArray[np.int64]) -> env.VecEnv:
    """Copies of some tables."""
    made = env.make(source.game, len(rows), source.num_players, RULES, auto_reset=False)
    made.copy_from(source, rows)
    return made


# ---- positions ---------------------------------------------------------------------------------------------------


@dataclass
class Positions:
    """Tables of one sort of position, collected from a policy's own rounds."""

    tables: env.VecEnv
    actions: NDArray[np.int64]  # actions that the policy played there


def collect(policy: Agent, wanted: str, count: int, seed: int) -> Positions:
    """Play rounds with a policy and keep positions: "source" decisions, "ending" or "last" placing decisions.

    ending: decisions whose step ends the round; last: placing decisions of the last turn of a round, when nobody moves
    afterwards, whatever the action.
    """
    tables = env.make("skyjo", 256, 2, RULES, seed=seed)
    kept = env.make("skyjo", count, 2, RULES, auto_reset=False)
    actions_kept, found = np.zeros(count, np.int64), 0
    rng = np.random.default_rng(seed)
    fields = {field.name: i for i, field in enumerate(next(g for g in tables.groups if g.name == "global").fields)}
    offset = next(g for g in tables.groups if g.name == "global").offset
    for _ in range(MOST_DECISIONS):
        blobs = [tables.save(t) for t in range(tables.num_envs)]
        phase, final = tables.phase.copy(), tables.obs[:, offset + fields["final_turn"]].copy()
        actions = policy.act(Situation.at(tables))
        tables.step(actions)
        if wanted == "source":
            chosen = np.flatnonzero((phase == SOURCE) & (rng.random(len(phase)) < 0.05))
        elif wanted == "ending":
            chosen = np.flatnonzero(tables.done & ~tables.truncated)
        else:
            chosen = np.flatnonzero(tables.done & ~tables.truncated & (phase == POSITION) & (final > 0))
        for t in chosen[: count - found]:
            kept.load(found, blobs[t])
            actions_kept[found] = actions[t]
            found += 1
        if found == count:
            return Positions(kept, actions_kept)
    expected = f"{count} in {MOST_DECISIONS} decisions of {tables.num_envs} tables, from a network that ends its rounds"
    require(False, f"positions of sort {wanted}", expected, found)
    raise AssertionError


# ---- rewards -----------------------------------------------------------------------------------------------------


@torch.inference_mode()
def reward_figures(network: BaseNetwork, ends: Positions) -> Row:
    """Rewards of decisions that end a round, as the search asks for them, and as they were paid."""
    tables = tables_like(ends.tables, np.arange(ends.tables.num_envs))
    mover, phase = tables.to_play.copy(), tables.phase.astype(np.int64)
    latent = network.represent(torch.from_numpy(tables.obs.copy()))
    tables.step(ends.actions)
    paid = tables.rewards[np.arange(len(mover)), mover].astype(np.float64)
    passes = network.spec.phase_table.turn_passes[phase, ends.actions].astype(np.int64)
    action, shift = torch.from_numpy(ends.actions), torch.from_numpy(passes)
    result: Row = {"n": len(mover), "paid": float(paid.mean())}
    told = torch.from_numpy(tables.outcome.astype(np.int64)) if network.num_outcomes > 1 else torch.zeros_like(action)
    for name, outcome in (("told", told), ("afterstate", torch.zeros_like(action))):
        following = network.step(latent, action, shift, outcome)
        rewards = network.support.expectation(network.predict(following, shift).reward)
        seat = -shift % network.num_players if network.frame == "mover" else torch.zeros_like(shift)
        predicted = rewards.gather(1, seat[:, None])[:, 0].double().numpy()
        result[name] = {"mean": float(predicted.mean()), "correlation": float(np.corrcoef(predicted, paid)[0, 1])}
    return result


# ---- regret ------------------------------------------------------------------------------------------------------


def action_values(last: Positions, worlds: int, seed: int) -> Floats:
    """Mean reward [n, A] of every action that ends the round, over sampled worlds; NaN where illegal."""
    tables = last.tables
    n, A = tables.num_envs, tables.num_actions
    found = np.full((n, A), np.nan)
    legal, mover = tables.legal.copy(), tables.to_play.copy()
    for i in range(0, n, 16):
        rows = np.arange(i, min(i + 16, n))
        at, action = np.nonzero(legal[rows])
        play = np.repeat(rows[at], worlds)
        made = tables_like(tables, play)
        keys = np.tile(np.arange(worlds, dtype=np.uint64), len(at)) + (play.astype(np.uint64) << np.uint64(20))
        made.determinize(mover[play], keys + np.uint64(seed))
        made.step(np.repeat(action, worlds))
        require(bool(made.done.all()), "last decisions", "ends of rounds", "games that go on")
        paid = made.rewards[np.arange(len(play)), mover[play]].reshape(len(at), worlds)
        found[rows[at], action] = paid.mean(1)
    return found


def regret_figures(agents: dict[str, Any], last: Positions, worlds: int, seed: int) -> Row:
    """Mean regret of each agent at the last placing decisions."""
    values = action_values(last, worlds, seed)
    best, n = np.nanmax(values, 1), len(values)
    result: Row = {"n": n, "worlds": worlds}
    for name, agent in agents.items():
        regret = best - values[np.arange(n), agent.act(Situation.at(last.tables))]
        result[name] = {"mean": float(regret.mean()), "error": float(regret.std(ddof=1) / np.sqrt(n))}
    return result


# ---- drawing or taking -------------------------------------------------------------------------------------------


def deck_take_figures(network: BaseNetwork, searchers: dict[int, Searcher], source: Positions) -> Row:
    """Advantage of drawing over taking: by search, and by exhaustive search of the turn."""
    tables = source.tables
    exact = TurnSearch(network, native=make_native_values(network)).action_values(tables, np.arange(tables.num_envs))
    truth = exact[:, DECK] - exact[:, TAKE]
    result: Row = {"n": len(truth), "spread": float(truth.std())}
    for count, searcher in searchers.items():
        q = searcher.analyse(tables).q
        both = np.isfinite(q[:, DECK]) & np.isfinite(q[:, TAKE])
        found = (q[:, DECK] - q[:, TAKE])[both]
        result[str(count)] = {
            "n": int(both.sum()),
            "bias": float((found - truth[both]).mean()),
            "error": float(np.sqrt(np.square(found - truth[both]).mean())),
            "correlation": float(np.corrcoef(found, truth[both])[0, 1]),
        }
    return result


# ---- the page ----------------------------------------------------------------------------------------------------


def probe(run: Run, options: argparse.Namespace) -> Row:
    """All figures of one run."""
    iteration = common.iteration_of(run, options.iteration)
    searchers = {n: _searcher(run, iteration, n) for n in options.counts}
    network = searchers[options.counts[0]].planner.network
    policy = Policy(network)
    figures: Row = {"run": run.label, "variant": run.variant, "iteration": iteration}
    check = check_values(network, RULES, positions=options.games, playouts=16, seed=options.seed)
    figures["value"] = {"n": options.games, "rmse": check.rmse, "bias": check.bias, "spread": check.spread}
    figures["reward"] = reward_figures(network, collect(policy, "ending", ENDINGS, options.seed))
    agents = {"greedy": Bot("greedy"), "policy": policy, **{str(n): s for n, s in searchers.items()}}
    last = collect(policy, "last", LAST_DECISIONS, options.seed)
    figures["regret"] = regret_figures(agents, last, WORLDS, options.seed)
    source = collect(policy, "source", SOURCES, options.seed)
    figures["deck_take"] = deck_take_figures(network, searchers, source)
    return figures


def _searcher(run: Run, iteration: int, simulations: int) -> Searcher:
    agent = load_agent(common.agent_of(run, iteration, simulations=simulations))
    assert isinstance(agent, Searcher)
    return agent


def markdown(rows: Sequence[Row], command: str) -> str:
    """The figures as a page of Markdown."""
    lines = [
        "# Knowledge of the planner in Skyjo",
        "",
        f"    {command}",
        "",
        "`python -m experiments.skyjo_planner --help` ",
    ]
    lines[-1] += "explains the figures."
    titles = ["", *(row["run"] for row in rows)]
    cells = [["value RMSE", *(f"{r['value']['rmse']:.3f} (spread {r['value']['spread']:.2f})" for r in rows)]]
    for name in ("told", "afterstate"):
        text = [f"{r['reward'][name]['correlation']:.2f} (mean {r['reward'][name]['mean']:+.2f})" for r in rows]
        cells.append([f"reward at the end, {name}: correlation", *text])
    cells.append(["... paid, mean", *(f"{r['reward']['paid']:+.2f}" for r in rows)])
    for name in [key for key in rows[0]["regret"] if key not in ("n", "worlds")]:
        text = [f"{r['regret'][name]['mean']:.3f} +- {r['regret'][name]['error']:.3f}" for r in rows]
        cells.append([f"regret of the last placing, {name}", *text])
    for name in [key for key in rows[0]["deck_take"] if key not in ("n", "spread")]:
        found = [r["deck_take"][name] for r in rows]
        text = [f"bias {f['bias']:+.3f}, error {f['error']:.3f}, correlation {f['correlation']:.2f}" for f in found]
        cells.append([f"Q(deck) - Q(take), {name} simulations", *text])
    return "\n".join([*lines, "", *common.table(titles, cells)]) + "\n"


def experiment(options: argparse.Namespace, command: str) -> None:
    """Computes the figures of all runs and writes the page."""
    rows = [probe(run, options) for run in common.read_runs(options.runs)]
    common.write_results(options.out, "skyjo_planner", {"command": command, "rows": rows}, markdown(rows, command))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, games="positions whose values are checked")
    common.add_run_options(parser)
    parser.add_argument("--counts", nargs="+", type=int, default=[4, 16, 64, 256], metavar="N", help="simulations")
    parser.set_defaults(games=256)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
