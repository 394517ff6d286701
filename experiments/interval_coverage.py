"""Coverage of the intervals of muzero.stats, and the gain from paired deals, on simulated and on played games.

    python -m experiments.interval_coverage --record

1. Coverage at a nominal 95 % of every interval of muzero.stats, for matches of 1,000 games (500 deals) whose truth is
   known: games that are independent, games with draws, and the deals of real matches between bots, drawn with
   replacement from a large sample, so that the two games of a deal are correlated as they are in play.
2. Two equal agents: 100 evaluations of 400 games each between two copies of a bot that differ only in their seeds.
   Counts how often 0.5 is inside the interval, and how often a test at 0.05 finds a difference that does not exist.
3. Variance reduction: number of unpaired games that are as precise as the paired ones, for several pairs of bots.
4. Number of games needed to find a difference.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.progress import track
from scipy.stats import binom

from experiments import common
from experiments.common import Row
from muzero import stats
from muzero.agents.agents import Bot
from muzero.matches.games import Games
from muzero.matches.paired_games import paired_games
from muzero.runs import plot_style
from muzero.runs.markdown import markdown_table
from muzero.runs.plot_style import styled
from muzero.stats import Interval

Floats = NDArray[np.float64]
Method = Callable[[Floats, int], Interval]  # function of the results of games and the number of games per deal

PAIRS = (
    ("greedy", "column_hunter"),
    ("greedy", "greedy_value"),
    ("column_hunter", "risk_aware"),
    ("threshold", "naive"),
    ("greedy", "threshold"),
)
EQUAL = "greedy(epsilon=0.05)"  # some of its decisions are random, so that copies with other seeds play differently
METHODS: dict[str, Method] = {
    "wilson": lambda games, _: _wilson(float(games.sum()), len(games)),
    "clopper_pearson": lambda games, _: _clopper_pearson(float(games.sum()), len(games)),
    "paired_bootstrap": lambda games, per_deal: stats.win_rate_of_deals(games, per_deal, resamples=2000),
    "sequential": lambda games, per_deal: _sequential(games, per_deal),
}


WIN_RATES = (0.5, 0.55, 0.65, 0.75, 0.9, 0.97, 0.99, 0.999)
TABLES = (4, 8)  # numbers of players at larger tables
SLOW = ("sequential",)  # methods that are slow and far from 0.95: a few of the matches are enough
_FEW = 32  # slow methods see one of this many matches
_wilson, _clopper_pearson = cache(stats.wilson), cache(stats.clopper_pearson)  # cached: few results are distinct
EXACT = {"wilson": _wilson, "clopper_pearson": _clopper_pearson}


def _sequential(games: Floats, per_deal: int) -> Interval:
    found = stats.sequential_test(stats.deals_of(games, per_deal).mean(1), 1 / per_deal)
    return Interval(found.mean, found.low, found.high, 0.95)


# ---- 1. coverage -----------------------------------------------------------------------------------------------------


def independent(rate: float, draws: float) -> Callable[[np.random.Generator, int], Floats]:
    """Games that do not depend on each other: won with probability rate - draws / 2, drawn with probability draws."""

    def sample(rng: np.random.Generator, games: int) -> Floats:
        return rng.choice([1.0, 0.5, 0.0], games, p=[rate - draws / 2, draws, 1 - rate - draws / 2])

    return sample


def resampled(deals: Floats) -> Callable[[np.random.Generator, int], Floats]:
    """Deals [D, P] of a real match, drawn with replacement."""

    def sample(rng: np.random.Generator, games: int) -> Floats:
        return deals[rng.integers(len(deals), size=games // deals.shape[1])].ravel()

    return sample


def coverage(
    sample: Callable[[np.random.Generator, int], Floats],
    truth: float,
    games: int,
    matches: int,
    seed: Sequence[int],
    per_deal: int = 2,
) -> dict[str, Row]:
    """Share of matches in which each interval covers the true win rate (Elo and Wilson cover in the same matches)."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[tuple[bool, float]]] = {name: [] for name in METHODS}
    for number in range(matches):
        match = sample(rng, games)
        for name, method in METHODS.items():
            if name not in SLOW or number % _FEW == 0:
                interval = method(match, per_deal)
                found[name].append((interval.low <= truth <= interval.high, interval.high - interval.low))
    means = {name: np.mean(pairs, 0).tolist() for name, pairs in found.items()}
    return {
        name: {"coverage": means[name][0], "width": means[name][1], "matches": len(found[name])} for name in METHODS
    }


def exact_coverage(method: Callable[[float, int], Interval], rate: float, games: int) -> float:
    """Exact coverage of an interval for independent games without draws: a sum over all results, no simulation."""
    wins = np.arange(games + 1)
    bounds = [method(float(won), games) for won in wins]
    inside = np.array([found.low <= rate <= found.high for found in bounds])
    return float(binom.pmf(wins, games, rate)[inside].sum())


def ladder_coverage(games: int, matches: int, seed: int) -> Row:
    """Coverage of the Elo intervals of four players of known strength in a round robin."""
    rng, names = np.random.default_rng(seed), ["a", "b", "c", "d"]
    elos = np.array([0.0, 50.0, 120.0, -80.0])
    chance = np.vectorize(stats.rate_of_elo)(elos[:, None] - elos)
    hit, difference = 0, 0
    for _ in range(matches):
        points = np.zeros((4, 4))
        for i in range(4):
            for j in range(i):
                points[i, j] = rng.binomial(games, chance[i, j])
                points[j, i] = games - points[i, j]
        found = stats.ladder(names, points, "a")
        truth = dict(zip(names, elos, strict=True))
        hit += sum(r.low <= truth[r.name] <= r.high for r in found.ratings if r.name != "a")
        pair = found.difference("c", "d")
        difference += pair.low <= 200.0 <= pair.high
    return {"ratings": hit / (3 * matches), "difference": difference / matches}


# ---- 2. equal agents -------------------------------------------------------------------------------------------------


def equal_agents(evaluations: int, games: int, seed: int) -> Row:
    """Intervals and tests in many evaluations of two copies of a bot."""
    a, b = Bot(EQUAL, seed=1), Bot(EQUAL, seed=2)
    deals = evaluations * games // 2
    played = paired_games(a, b, deals, game="skyjo", seed=seed, batch=8192, threads=os.cpu_count() or 1)
    inside = {"wilson": 0, "paired_bootstrap": 0}
    found = 0
    for won in played.won.reshape(evaluations, games):
        for name in inside:
            interval = METHODS[name](won, 2)
            inside[name] += interval.low <= 0.5 <= interval.high
        found += stats.binomial_test(float(won.sum()), games).p_value < 0.05
    rate = stats.wilson(float(played.won.sum()), len(played))
    return {
        "agent": EQUAL,
        "evaluations": evaluations,
        "games": games,
        "inside": inside,
        "false_alarms": found,
        "win_rate": rate.estimate,
        "wilson_low": rate.low,
        "wilson_high": rate.high,
        "pairing_factor": stats.variance_reduction(played.won).factor,
    }


# ---- 3. variance reduction -------------------------------------------------------------------------------------------


def play(a: str, b: str, deals: int, episode: str, seed: int, players: int = 2) -> Games:
    """Play a long match of two bots, the second in all other seats."""
    rules, threads = {"preset": "official", "episode": episode}, os.cpu_count() or 1
    settings: Row = {"game": "skyjo", "players": players, "rules": rules, "batch": 8192, "threads": threads}
    return paired_games(Bot(a), Bot(b), deals, seed=seed, **settings)


def reduction(a: str, b: str, episode: str, games: Games) -> Row:
    """Gain in precision from pairing, for the win rate and for the score difference."""
    won = stats.variance_reduction(games.won)
    score = stats.variance_reduction(games.scores_b - games.scores_a)
    return {
        "a": a,
        "b": b,
        "episode": episode,
        "games": len(games),
        "win_rate": games.win_rate,
        "factor": won.factor,
        "correlation": won.correlation,
        "score_factor": score.factor,
        "score_correlation": score.correlation,
    }


# ---- 4. how many games -----------------------------------------------------------------------------------------------


def sizes() -> list[Row]:
    """Games needed for a test at 0.05 with power 0.8: two win rates against a common opponent, and a head-to-head."""
    rows = []
    for rate in (0.51, 0.52, 0.53, 0.55, 0.6, 0.65, 0.75):
        two, one = stats.sample_size(rate, 0.5), stats.sample_size_of_match(rate)
        rows.append({"rate": rate, "per_arm": two.per_arm, "total": two.total, "match": one.total})
    return rows


# ---- the study -------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace, command: str) -> None:
    """Simulate, play and write the results."""
    matches, games, seed = options.matches, options.games, options.seed
    played = {
        (a, b, episode): play(a, b, options.deals, episode, seed)
        for a, b in track(PAIRS, "matches of bots")
        for episode in ("match", "round")
    }
    truths = [("independent", f"rate {p}, no draws", independent(p, 0), p, 2) for p in WIN_RATES]
    truths += [("independent", "rate 0.55, 10 % drawn", independent(0.55, 0.1), 0.55, 2)]
    for a, b, players in [(*pair, 2) for pair in PAIRS[:3]] + [(*PAIRS[0], count) for count in TABLES]:
        won = (played[a, b, "match"] if players == 2 else play(a, b, options.deals, "match", seed, players)).won
        deals = stats.deals_of(won, players)
        name = f"{a} - {b}, matches" + (f" of {players}" if players > 2 else "")
        truths += [("paired deals", name, resampled(deals), float(deals.mean()), players)]
    rows = [
        {
            "kind": kind,
            "games": name,
            "truth": truth,
            "intervals": coverage(sample, truth, games // players * players, matches, (seed, number), players),
        }
        for number, (kind, name, sample, truth, players) in enumerate(track(truths, "coverage"))
    ]
    exact = [
        {"rate": rate, **{name: exact_coverage(method, rate, games) for name, method in EXACT.items()}}
        for rate in WIN_RATES
    ]
    result: Row = {
        "command": command,
        "games": games,
        "matches": matches,
        "error": float(1.96 * np.sqrt(0.95 * 0.05 / matches)),
        "coverage": rows,
        "exact": exact,
        "ladder": ladder_coverage(games, matches, seed),
        "equal_agents": equal_agents(options.evaluations, options.evaluation_games, seed),
        "variance_reduction": [reduction(*key, found) for key, found in played.items()],
        "sample_sizes": sizes(),
    }
    common.write_results(options.out, "interval_coverage", result, markdown(result, command), plot(result))


def markdown(result: Row, command: str) -> str:
    """Page with all results."""
    lines = ["# Intervals, equal agents, paired deals", "", f"    {command}", ""]
    lines += [f"## Coverage at a nominal 95 %, matches of {result['games']:,} games", ""]
    lines += [
        f"{result['matches']:,} matches per row: a coverage of 0.95 is measured to +- {result['error']:.3f}. The Elo"
    ]
    lines += ["interval covers exactly when Wilson's does. In brackets: mean width.", ""]
    cells = [
        [
            f"{row['kind']}: {row['games']}",
            f"{row['truth']:.3f}",
            *(f"{row['intervals'][m]['coverage']:.3f} ({row['intervals'][m]['width']:.3f})" for m in METHODS),
        ]
        for row in result["coverage"]
    ]
    lines += markdown_table(["games", "true rate", *METHODS], cells)
    lines += ["", "Exact coverage for independent games without draws, as a sum over all results:", ""]
    cells = [[f"rate {row['rate']}", *(f"{row[name]:.4f}" for name in EXACT)] for row in result["exact"]]
    lines += markdown_table(["games", *EXACT], cells)
    ladder = result["ladder"]
    lines += ["", f"Ladder of four players: ratings {ladder['ratings']:.3f}, a difference {ladder['difference']:.3f}."]
    e = result["equal_agents"]
    lines += [
        "",
        "## Two equal agents",
        "",
        f"{e['evaluations']} evaluations of {e['games']} games, `{e['agent']}` against itself:",
    ]
    lines += [f"0.5 is in Wilson's interval {e['inside']['wilson']} times and in the paired one"]
    lines += [
        f"{e['inside']['paired_bootstrap']} times; p < 0.05 {e['false_alarms']} times. Over all: {common.rate(e)}."
    ]
    lines += ["", "## Variance reduction of paired deals", ""]
    lines += ["Number of games on separate deals that would be as precise as one game of a pair.", ""]
    cells = [
        [
            f"{row['a']} - {row['b']}",
            row["episode"],
            row["games"],
            f"{row['win_rate']:.3f}",
            f"{row['factor']:.2f}",
            f"{row['correlation']:+.2f}",
            f"{row['score_factor']:.2f}",
            f"{row['score_correlation']:+.2f}",
        ]
        for row in result["variance_reduction"]
    ]
    titles = ["pair", "episode", "games", "win rate", "win rate: factor", "correlation", "score: factor", "correlation"]
    lines += [*markdown_table(titles, cells), "", "## How many games (alpha 0.05 two-sided, power 0.8, unpaired)", ""]
    lines += ["Against 0.5: two agents that each play a common opponent, and one head-to-head match.", ""]
    cells = [
        [f"{row['rate']:.2f}", *(f"{row[k]:,}" for k in ("per_arm", "total", "match"))]
        for row in result["sample_sizes"]
    ]
    lines += markdown_table(["rate", "common opponent: per arm", "in all", "head-to-head"], cells)
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Plot the coverage of every interval, and the factors of pairing."""
    rows, pairs = result["coverage"], result["variance_reduction"]
    figure = plot_style.new_figure(plot_style.PAGE, 1.4 + 0.15 * (len(rows) + 2 * len(pairs)))
    top, bottom = figure.subplots(2, 1, height_ratios=[len(rows), 2 * len(pairs)])
    for number, (name, color, marker) in enumerate(zip(METHODS, plot_style.SERIES, plot_style.MARKERS, strict=False)):
        values = [row["intervals"][name]["coverage"] for row in rows]
        places = [y + 0.14 * (number - (len(METHODS) - 1) / 2) for y in range(len(rows))]
        top.plot(values, places, linestyle="none", color=color, marker=marker, label=name)
    top.axvspan(0.94, 0.965, color=plot_style.GREY, alpha=plot_style.BAND, linewidth=0, label="0.94 to 0.965")
    plot_style.reference_line(top, 0.95, "nominal: 0.95", axis="x")
    top.set(yticks=range(len(rows)), xlabel=f"coverage of 95 % intervals, {result['games']:,} games")
    top.set_yticklabels([row["games"] for row in rows])
    top.set_ylim(len(rows) - 0.5, -0.5)
    top.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    places = np.arange(len(pairs))
    colors = plot_style.SERIES
    bottom.barh(places - 0.2, [row["factor"] for row in pairs], 0.38, color=colors[0], label="win rate")
    bottom.barh(places + 0.2, [row["score_factor"] for row in pairs], 0.38, color=colors[1], label="score difference")
    plot_style.reference_line(bottom, 1, "no gain", axis="x")
    bottom.set(yticks=places, xlabel="unpaired games as precise as one paired game", ylim=(len(pairs) - 0.5, -0.5))
    bottom.set_yticklabels([f"{row['a']} against {row['b']}, {row['episode']}" for row in pairs])
    bottom.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    for axes in (top, bottom):
        axes.grid(visible=False, axis="y")
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return the exit code."""
    parser = common.make_parser(__doc__, "of each simulated match, an even number")
    parser.add_argument("--matches", type=int, default=4000, help="simulated per row (default: 4000)")
    parser.add_argument("--deals", type=int, default=10_000, help="of each pair of bots (default: 10000)")
    parser.add_argument("--evaluations", type=int, default=100, help="of two equal agents (default: 100)")
    parser.add_argument("--evaluation-games", type=int, default=400, help="of each of them (default: 400)")
    return common.run_experiment(parser, run, argv)


if __name__ == "__main__":
    sys.exit(main())
