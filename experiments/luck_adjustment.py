"""Luck adjustment: games saved, bias, coverage of its intervals, and games that "better by d" takes to decide.

    python -m experiments.luck_adjustment --games 2000 --record

1. Matches in all games and at several sizes of tables, each with a value function: how many plain games one adjusted
   game is worth, for the win rate and for the score difference, and how far the luck is from its mean of 0, in standard
   errors (a bias would show here).
2. Coverage at a nominal 95 % of the adjusted win rate, in simulated matches of deals that are drawn with replacement
   from the first match (its luck is centred, so that the truth is known).
3. Number of games until `stop=0.05 better_by=D` decides, in simulated matches without draws whose true win rate is
   known, plain and with the variance that luck adjustment leaves; beside it the two-sided test with `margin=D`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.progress import track

from experiments import common
from experiments.common import Row
from muzero import stats
from muzero.matches.games import Games
from muzero.matches.luck import WIN_COLUMNS
from muzero.matches.match import play_match
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.runs import plot_style
from muzero.runs.markdown import markdown_table
from muzero.runs.plot_style import styled

Floats = NDArray[np.float64]

BELIEF = "agent:skyjo-belief"
MATCHES: tuple[Row, ...] = (
    {"game": "skyjo", "a": "bot:greedy", "b": "bot:column_hunter", "luck": "linear"},
    {"game": "skyjo", "a": BELIEF, "b": "bot:greedy", "luck": "linear"},
    {"game": "skyjo", "a": BELIEF, "b": "bot:greedy", "luck": BELIEF},
    {"game": "skyjo", "a": BELIEF, "b": "bot:greedy", "luck": BELIEF, "rules": {"episode": "round"}},
    {"game": "skyjo", "a": BELIEF, "b": f"{BELIEF},simulations=4", "luck": BELIEF},
    {"game": "skyjo", "a": "bot:greedy", "b": "bot:column_hunter", "luck": "linear", "players": 4},
    {"game": "skyjo", "a": "bot:greedy", "b": "bot:column_hunter", "luck": "linear", "players": 8},
    {"game": "lama", "a": "bot:strategy_1", "b": "bot:strategy_3", "luck": "linear"},
    {"game": "lama", "a": "bot:strategy_1", "b": "bot:strategy_3", "luck": "linear", "players": 4},
    {"game": "skipbo", "a": "bot:hpvp", "b": "bot:greedy", "luck": "linear"},
    {"game": "skipbo", "a": "bot:hpvp", "b": "bot:greedy", "luck": "linear", "players": 4},
)
TRUTHS = (0.48, 0.50, 0.52, 0.55)
_LOOK = 128  # deals between two looks at a simulated match


# ---- 1. games saved --------------------------------------------------------------------------------------------------


def measure(spec: Row, games: int, seed: int, workers: int) -> tuple[Row, Games]:
    """Play one match with luck and give its figures."""
    config = with_defaults(MatchConfig(**spec, games=games, seed=seed, workers=workers))
    result, played = play_match(config, quiet=True)
    luck = played.luck.reshape(-1, config.players, played.luck.shape[1]).mean(1)
    error = luck.std(0, ddof=1) / np.sqrt(len(luck))
    z = luck.mean(0)[error > 0] / error[error > 0]
    names = ("win_rate", "factor", "correlation", "score_difference", "score_factor", "score_correlation")
    return {
        **{key: spec[key] for key in ("game", "a", "b", "luck")},
        "players": config.players,
        "episode": dict(spec.get("rules", {})).get("episode", "match"),
        "games": len(played),
        "plain_win_rate": result["win_rate"],
        **{name: result["luck"][name] for name in names},
        "largest_z": float(np.abs(z).max()),
        "seconds_per_game": result["seconds_per_game"],
    }, played


# ---- 2. coverage -----------------------------------------------------------------------------------------------------


def coverage(games: Games, players: int, deals: int, matches: int, seed: int) -> Row:
    """Coverage of the adjusted and of the plain interval in matches of deals drawn from a long one."""
    won = games.won.reshape(-1, players)
    luck = games.luck[:, WIN_COLUMNS].reshape(len(won), players, -1)
    luck = luck - luck.mean((0, 1))
    rng, inside, widths = np.random.default_rng(seed), np.zeros(2), np.zeros(2)
    for _ in track(range(matches), "coverage"):
        rows = rng.integers(len(won), size=deals)
        adjusted = stats.adjust_for_luck(won[rows].ravel(), luck[rows].reshape(deals * players, -1), players).interval
        plain = stats.win_rate_of_deals(won[rows].ravel(), players, resamples=2000)
        for number, found in enumerate((adjusted, plain)):
            inside[number] += found.low <= won.mean() <= found.high
            widths[number] += found.high - found.low
    names = ("adjusted", "plain")
    shares = {name: float(inside[i] / matches) for i, name in enumerate(names)}
    return {"deals": deals, "matches": matches, **shares, "width_ratio": float(widths[1] / widths[0])}


# ---- 3. better by d --------------------------------------------------------------------------------------------------


def stopping_deal(deals: Floats, better_by: float, bounds: tuple[float, float] | None) -> tuple[int, str]:
    """Deals after which a simulated match is decided, and the decision; without bounds by the two-sided test."""
    for count in range(_LOOK, len(deals) + 1, _LOOK):
        if bounds:
            decision = stats.better_by_test(deals[:count], better_by, bounds=bounds).decision
        else:
            decision = stats.sequential_test(deals[:count], margin=better_by).decision
        if decision != "continue":
            return count, decision
    return len(deals), "continue"


def games_to_decide(truth: float, better_by: float, factor: float, matches: int, most: int, seed: int) -> Row:
    """Mean numbers of games of the three tests, and how often each decision was made."""
    rng = np.random.default_rng([seed, round(1000 * truth)])
    counts: dict[str, list[int]] = {"one_sided": [], "one_sided_adjusted": [], "two_sided": []}
    decisions: dict[str, list[str]] = {name: [] for name in counts}
    for _ in track(range(matches), f"better by {better_by:g}, truth {truth:g}"):
        plain = rng.binomial(2, truth, most // 2) / 2
        spread = np.sqrt(truth * (1 - truth) / 2 / factor)
        adjusted = np.clip(truth + spread * rng.normal(size=most // 2), -1, 2)
        cases = {
            "one_sided": (plain, (0.0, 1.0)),
            "one_sided_adjusted": (adjusted, (-1.0, 2.0)),
            "two_sided": (plain, None),
        }
        for name, (deals, bounds) in cases.items():
            count, decision = stopping_deal(deals, better_by, bounds)
            counts[name].append(2 * count)
            decisions[name].append(decision)
    row: Row = {"truth": truth, "better_by": better_by, "factor": factor, "matches": matches}
    for name in counts:
        row[name] = {
            "games": float(np.mean(counts[name])),
            "decisions": {kind: decisions[name].count(kind) / matches for kind in sorted(set(decisions[name]))},
        }
    return row


# ---- results ---------------------------------------------------------------------------------------------------------


def page(result: Row) -> str:
    """Markdown page of the results."""
    lines = ["# Luck adjustment", "", f"    {result['command']}", "", "## Games saved", ""]
    titles = ["game", "a", "b", "players", "episode", "value", "games", "win rate", "luck taken out", "factor"]
    titles += ["score: factor", "largest z"]
    names = ("game", "a", "b", "players", "episode", "luck", "games")
    figures = {"plain_win_rate": 3, "win_rate": 3, "factor": 2, "score_factor": 2, "largest_z": 1}
    cells = [
        [*(r[name] for name in names), *(f"{r[name]:.{digits}f}" for name, digits in figures.items())]
        for r in result["matches"]
    ]
    lines += markdown_table(titles, cells, "lllrllrrrrrr")
    c = result["coverage"]
    lines += ["", "## Coverage", ""]
    lines += [
        f"Nominal 95 %, {c['matches']:,} simulated matches of {c['deals']:,} deals of the first match above: adjusted",
        f"{c['adjusted']:.3f}, plain {c['plain']:.3f}; the plain interval is {c['width_ratio']:.2f} times as wide.",
        "",
        "## Games until a match is decided",
        "",
    ]
    tests = ("two_sided", "one_sided", "one_sided_adjusted")
    cells = []
    for r in result["better_by"]:
        shares = ", ".join(f"{kind} {share:.2f}" for kind, share in r["one_sided"]["decisions"].items())
        cells.append([f"{r['truth']:.2f}", *(f"{r[name]['games']:,.0f}" for name in tests), shares])
    d = result["better_by"][0]
    titles = ["truth", f"margin={d['better_by']:g}", f"better_by={d['better_by']:g}", f"with factor {d['factor']:g}"]
    lines += markdown_table([*titles, "decisions of better_by"], cells, "rrrrl")
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Plot the factors of all matches."""
    rows = result["matches"]
    figure, axes = plot_style.new_axes(plot_style.PAGE, 0.9 + 0.3 * len(rows))
    places, colors = np.arange(len(rows)), plot_style.SERIES
    axes.barh(places - 0.2, [row["factor"] for row in rows], 0.38, color=colors[0], label="win rate")
    axes.barh(places + 0.2, [row["score_factor"] for row in rows], 0.38, color=colors[1], label="score difference")
    plot_style.reference_line(axes, 1, "no gain", axis="x")
    labels = [
        f"{r['game']} of {r['players']}, {r['episode']}: {plot_style.agent_alias(r['a'], 20)} against "
        f"{plot_style.agent_alias(r['b'], 20)}, by {plot_style.agent_alias(r['luck'], 20)}"
        for r in rows
    ]
    axes.set(yticks=places, xlabel="plain games as precise as one adjusted game", ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticklabels(labels)
    axes.grid(visible=False, axis="y")
    plot_style.legend_below(figure, [axes])
    return figure


def run(options: argparse.Namespace, command: str) -> None:
    """Run the experiment."""
    measured = []
    for spec in track(MATCHES[: options.matches_played], "matches"):
        measured.append(measure(spec, options.games, options.seed, options.workers))
    deals = min(500, options.games // 2)
    simulated = [
        games_to_decide(truth, options.better_by, options.factor, options.simulated, options.most, options.seed)
        for truth in TRUTHS
    ]
    result: Row = {
        "command": command,
        "matches": [row for row, _ in measured],
        "coverage": coverage(measured[0][1], 2, deals, options.simulated, options.seed),
        "better_by": simulated,
    }
    common.write_results(options.out, "luck_adjustment", result, page(result), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return the exit code."""
    parser = common.make_parser(__doc__)
    parser.add_argument("--matches-played", type=int, default=len(MATCHES), help="of the list, from the first on")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (default: one per core)")
    parser.add_argument("--simulated", type=int, default=400, help="matches per simulation (default: 400)")
    parser.add_argument("--better-by", type=float, default=0.02, help="difference that matters (default: 0.02)")
    parser.add_argument("--factor", type=float, default=3.5, help="games saved by luck adjustment (default: 3.5)")
    parser.add_argument("--most", type=int, default=20_000, help="games of a simulated match (default: 20000)")
    return common.run_experiment(parser, run, argv)


if __name__ == "__main__":
    sys.exit(main())
