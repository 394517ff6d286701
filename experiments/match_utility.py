"""Chances to win a match by its standing: the table behind `game.utility=match`, checked against matches of bots.

    python -m experiments.match_utility --game skyjo --players 2 4 8 --out runs/match_utility

Bots play whole matches. Before every round after the first, the table's chance to win is compared with who wins; and
the standings at which training on single rounds begins (`initial_scores=played`) are compared with those of the
matches. The points of a round, as sixteenths, are those that such standings are drawn from. With --runs, networks that
have a points head and were trained with game.utility=match are asked for the chance in two ways: by their value, and
by the table for the points that they expect; both are compared with playouts of their policy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

import env
from experiments import common
from experiments.common import Row, Run
from muzero.agents.agent_spec import AgentSpec, load_network
from muzero.agents.agents import Policy
from muzero.config import GameConfig, require
from muzero.data.match_table import MatchTable, fit_match_table, match_table
from muzero.data.seats import from_seats
from muzero.matches.value_check import network_values, play_out, played_positions
from muzero.runs import plot_style
from muzero.runs.plot_style import styled

Floats = NDArray[np.float64]

_BINS = np.linspace(0, 1, 11)  # chances that are pooled in the table and the plot
_PLAYOUTS = 16  # playouts from each position of a network


def played_standings(game: str, players: int, rules: env.Rules, bot: str, games: int, seed: int) -> tuple[Any, Any]:
    """Standings [n, P] after rounds of matches that went on, and the shares of the win [n, P] in the end."""
    tables = env.make(game, games, players, rules, seed, auto_reset=False)
    seats = [tables.bot(bot or tables.default_bot)] * players
    scores, rows = [], []
    while not tables.done.all():
        tables.playout(seats, until="round")
        going = np.flatnonzero(~tables.done)
        scores.append(tables.scores[going].copy())
        rows.append(going)
    won = (tables.ranks == 1) / (tables.ranks == 1).sum(1, keepdims=True)
    return np.concatenate(scores), won[np.concatenate(rows)]


def calibration(predicted: Floats, won: Floats) -> list[Row]:
    """Mean chance and share of the win, with its standard error, of all players in each bin of chances."""
    place = np.clip(np.digitize(predicted, _BINS) - 1, 0, len(_BINS) - 2)
    found = []
    for number in range(len(_BINS) - 1):
        chosen = place == number
        if chosen.sum() >= 2:
            share = won[chosen]
            error = float(share.std(ddof=1) / np.sqrt(len(share)))
            found.append({"chance": float(predicted[chosen].mean()), "won": float(share.mean()), "error": error})
    return found


def table_of(options: argparse.Namespace, players: int) -> Row:
    """Everything about the table for one number of players."""
    single = {"preset": options.preset, "episode": "round", "initial_scores": "played"}
    table = fit_match_table(options.game, players, single, bot=options.bot)
    scores, won = played_standings(
        options.game, players, {"preset": options.preset}, options.bot, options.games, options.seed
    )
    predicted = table.shares(scores)
    drawn = env.make(options.game, len(scores), players, single, seed=options.seed).scores
    later = drawn[drawn.any(1)]
    tables = env.make(options.game, options.games, players, {**single, "initial_scores": "zero"}, auto_reset=False)
    tables.playout([tables.bot(options.bot or tables.default_bot)] * players)
    sixteenths = np.quantile(tables.scores, (np.arange(16) + 0.5) / 16, method="nearest")
    return {
        "players": players,
        "points": sixteenths.astype(int).tolist(),
        "standings": {name: _spread(found) for name, found in (("matches", scores), ("drawn", later))},
        "brier": float(np.square(predicted - won).mean()),
        "brier_of_guessing": float(np.square(1 / players - won).mean()),
        "calibration": calibration(predicted, won),
    }


def _spread(scores: NDArray[np.int32]) -> Row:
    """Mean of totals and mean distance between the highest and the lowest one."""
    return {"mean": float(scores.mean()), "apart": float(np.ptp(scores, 1).mean()), "n": len(scores)}


def check_run(run: Run, options: argparse.Namespace) -> Row:
    """Errors of the chances that a network gives: by its value, and by the table for the points that it expects."""
    iteration = common.iteration_of(run, options.iteration)
    network = load_network(AgentSpec.of("policy", run.path, iteration=iteration), run.game, run.players)[0]
    game = GameConfig(**{name: run.config["game"][name] for name in GameConfig.__dataclass_fields__})
    table = match_table(game)
    require(table is not None, f"{run.path}: game.utility", "match", game.utility)
    require(network.config.points > 0, f"{run.path}: model.points", "more than 0", network.config.points)
    assert table is not None
    rules = {**game.rules_for_training(), "round_reward": 0.0}
    policy = Policy(network)
    found = played_positions(policy, game.name, game.players, rules, options.positions, options.seed)
    worlds = env.make(game.name, options.positions * _PLAYOUTS, game.players, rules, auto_reset=False)
    worlds.copy_from(found, np.repeat(np.arange(options.positions), _PLAYOUTS))
    movers = worlds.to_play.copy()
    worlds.determinize(movers, np.arange(len(movers), dtype=np.uint64))
    paid = play_out(policy, worlds, table)[np.arange(len(movers)), movers].reshape(options.positions, _PLAYOUTS)
    noise = paid.var(1, ddof=1).mean() / _PLAYOUTS
    by_value = network_values(network, found.obs)[:, 0]
    by_points = points_utility(network, table, found)

    def rmse(values: Floats) -> float:
        return float(np.sqrt(max(0.0, np.square(values - paid.mean(1)).mean() - noise)))

    spread = float(np.sqrt(max(0.0, paid.mean(1).var() - noise)))
    return {
        "run": run.label,
        "iteration": iteration,
        "value_rmse": rmse(by_value),
        "points_rmse": rmse(by_points),
        "spread": spread,
    }


@torch.inference_mode()
def points_utility(network: Any, table: MatchTable, tables: env.VecEnv) -> Floats:
    """Utility [B] for the players to move of the points that a network expects all players to get."""
    seen = torch.from_numpy(np.ascontiguousarray(tables.obs))
    latent = network.represent(seen)
    predicted = network.predict(latent, torch.zeros(len(seen), dtype=torch.int64)).points
    likely = predicted.float().softmax(-1).double().numpy()
    points = network.points_support.bins.round().long().numpy()
    scores = from_seats(tables.scores, tables.to_play.astype(np.int64))
    return np.asarray(2 * table.shares_after(scores, points, likely)[:, 0] - 1)


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    lines = [f"# Chances to win a match: {result['game']}", "", f"    {command}", ""]
    lines += ["Chances of all standings after rounds of bots' matches, and how often those standings were won.", ""]
    titles = [
        "players",
        "Brier score",
        "of guessing",
        "largest error of a bin",
        "mean total",
        "drawn",
        "apart",
        "drawn",
    ]
    cells = []
    for row in result["tables"]:
        largest = max(abs(entry["chance"] - entry["won"]) for entry in row["calibration"])
        places = [row["standings"][kind][what] for what in ("mean", "apart") for kind in ("matches", "drawn")]
        scores = [f"{number:.3f}" for number in (row["brier"], row["brier_of_guessing"], largest)]
        cells.append([row["players"], *scores, *(f"{number:.1f}" for number in places)])
    lines += [*common.table(titles, cells), ""]
    lines += ["Points of a round, sixteenths:", ""]
    points = [[row["players"], ", ".join(map(str, row["points"]))] for row in result["tables"]]
    lines += [*common.table(["players", "points"], points), ""]
    if result["runs"]:
        lines += ["Errors of the utility (-1 to 1) against playouts of the network's policy:", ""]
        cells = [
            [row["run"], row["iteration"], *(f"{row[key]:.3f}" for key in ("value_rmse", "points_rmse", "spread"))]
            for row in result["runs"]
        ]
        titles = ["run", "iteration", "value head", "points heads and table", "spread between positions"]
        lines += [*common.table(titles, cells), ""]
    return "\n".join(lines)


@styled
def plot(result: Row) -> Figure:
    """Share of matches won by the table's chance, a line per number of players."""
    figure, axes = plot_style.new_axes(plot_style.COLUMN, 3.2)
    axes.plot([0, 1], [0, 1], color=plot_style.GREY, linestyle=(0, (4, 2)), linewidth=0.8, label="calibrated")
    for row, marker in zip(result["tables"], cycle(plot_style.MARKERS), strict=False):
        entries = row["calibration"]
        x, y, error = ([entry[key] for entry in entries] for key in ("chance", "won", "error"))
        width = [1.96 * one for one in error]
        axes.errorbar(x, y, yerr=width, marker=marker, label=f"{row['players']} players, 95 % intervals")
    axes.set(xlabel="probability to win by the table", ylabel="share of the matches won", title=result["game"])
    plot_style.legend_below(figure, [axes])
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Makes and checks the tables and writes the results."""
    require(options.game in env.games(), "--game", f"one of {', '.join(env.games())}", options.game)
    require(options.positions >= 2, "--positions", "2 or more", options.positions)
    for players in options.players:
        values = env.describe(options.game, players, {"preset": options.preset}).rule_values
        require("target" in values, "--game", "a game of several rounds", options.game)
    tables = [table_of(options, players) for players in options.players]
    runs = [check_run(run, options) for run in common.read_runs(options.runs)] if options.runs else []
    result = {"command": command, "game": options.game, "tables": tables, "runs": runs}
    common.write_results(options.out, "match_utility", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, games="matches of bots, and rounds of the points table")
    parser.add_argument("--game", default="skyjo", help="game of several rounds (default: skyjo)")
    parser.add_argument("--preset", default="official", help="name of a rule set (default: official)")
    parser.add_argument("--bot", default="", help="bot in all seats (default: the game's default bot)")
    parser.add_argument("--players", nargs="+", type=int, default=[2], metavar="P", help="(default: 2)")
    parser.add_argument("--runs", nargs="+", type=Path, default=[], metavar="RUN", help="run directories to check")
    parser.add_argument("--iteration", type=int, metavar="I", help="checkpoint (default: each run's newest)")
    parser.add_argument("--positions", type=int, default=256, help="positions of each run (default: 256)")
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
