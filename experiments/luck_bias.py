"""Bias of luck adjustment: adjusted minus plain results of many matches of bots, with its interval.

    python -m experiments.luck_bias --games 100000 --record

Luck has mean 0, so adjusted and plain results have the same mean, whatever the value function. Every case plays so many
games in parts of 2,000, each a match of its own with deals of its own, adjusted as any match is. The difference of
the two win rates, deal by deal, is the part of the luck that was subtracted; its mean over all deals is the bias, up to
chance. Every part is a file in DIR/parts: a repeated command plays only what is missing, `--minutes` ends it early, and
the page is made of the parts that are there.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.progress import track

import env
from experiments import common
from experiments.common import Row
from muzero import stats
from muzero.config.fields import require
from muzero.matches.games import Games
from muzero.matches.luck import SCORE_COLUMNS, WIN_COLUMNS
from muzero.matches.match import play_match
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.runs import plot_style
from muzero.runs.files import write_whole
from muzero.runs.plot_style import styled

Floats = NDArray[np.float64]

CASES: dict[str, Row] = {
    "skyjo": {"game": "skyjo", "a": "bot:greedy", "b": "bot:column_hunter"},
    "skyjo_4": {"game": "skyjo", "a": "bot:greedy", "b": "bot:column_hunter", "players": 4},
    "lama": {"game": "lama", "a": "bot:strategy_1", "b": "bot:strategy_3"},
    "skipbo": {"game": "skipbo", "a": "bot:hpvp", "b": "bot:greedy"},
}
VALUE = "linear"  # value function
LIMIT = 0.002  # bias of the win rate that would matter
_NUMBERS = ("win", "score")


def settings(case: str, number: int, options: argparse.Namespace) -> Row:
    """Settings of a part, by which a stored one is recognised."""
    spec: Row = {"players": 2, **CASES[case], "luck": VALUE, "games": options.part, "seed": options.seed + number}
    return {**spec, "version": env.describe(spec["game"], spec["players"]).version}


def play_part(spec: Row, workers: int) -> Row:
    """Play a part; sums over its deals of adjusted minus plain results and of their squares."""
    given = {key: value for key, value in spec.items() if key != "version"}
    config = with_defaults(MatchConfig(**given, workers=workers))
    result, games = play_match(config, quiet=True)
    found: Row = {**spec, "deals": len(games) // config.players, "win_rate": result["win_rate"]}
    for name, difference in zip(_NUMBERS, differences(games, config.players), strict=True):
        found[name] = {"sum": float(difference.sum()), "squares": float(np.square(difference).sum())}
    return found


def differences(games: Games, players: int) -> tuple[Floats, Floats]:
    """Adjusted minus plain result of every deal: share of the win, score difference."""
    margins = games.scores_b - games.scores_a
    pairs = ((games.won, WIN_COLUMNS), (margins, SCORE_COLUMNS))
    won, score = (
        stats.adjust_for_luck(plain, games.luck[:, columns], players).deals - plain.reshape(-1, players).mean(1)
        for plain, columns in pairs
    )
    return won, score


def read_part(path: Path, spec: Row) -> Row | None:
    """Stored part with the same settings; None if there is none."""
    try:
        known = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path}: expected a part of this experiment, got {error}") from None
    same = isinstance(known, dict) and all(known.get(key) == value for key, value in spec.items())
    expected = "a part with the same settings, or none (choose another --out)"
    require(same, str(path), expected, known if not isinstance(known, dict) else {k: known.get(k) for k in spec})
    return dict(known)


def summary(case: str, parts: Sequence[Row]) -> Row:
    """Bias of a case over all its parts, with 95 % intervals."""
    deals = sum(part["deals"] for part in parts)
    row: Row = {"case": case, **{key: parts[0][key] for key in ("game", "a", "b", "players", "luck")}}
    row |= {"games": sum(part["games"] for part in parts), "deals": deals, "parts": len(parts)}
    row["win_rate"] = float(np.average([part["win_rate"] for part in parts], weights=[p["deals"] for p in parts]))
    for name in _NUMBERS:
        mean = sum(part[name]["sum"] for part in parts) / deals
        variance = (sum(part[name]["squares"] for part in parts) / deals - mean**2) * deals / max(1, deals - 1)
        error = math.sqrt(max(0.0, variance) / deals)
        row[name] = {"bias": mean, "low": mean - 1.96 * error, "high": mean + 1.96 * error}
        row[name]["z"] = mean / error if error > 0 else 0.0
    return row


def page(result: Row) -> str:
    """Markdown page of the results."""
    lines = ["# Bias of luck adjustment", "", f"    {result['command']}", ""]
    lines += [
        "Adjusted minus plain results of matches of bots, 95 % intervals by deals; the value function is `linear`."
    ]
    titles = ["game", "players", "a", "b", "games", "win rate", "bias of the win rate", "z", "bias of the score", "z"]
    cells = []
    for r in result["cases"]:
        win, score = r["win"], r["score"]
        rate = f"{win['bias']:+.5f} [{win['low']:+.5f}, {win['high']:+.5f}]"
        points = f"{score['bias']:+.4f} [{score['low']:+.4f}, {score['high']:+.4f}]"
        names = [r["game"], r["players"], r["a"], r["b"], f"{r['games']:,}", f"{r['win_rate']:.3f}"]
        cells.append([*names, rate, f"{win['z']:+.1f}", points, f"{score['z']:+.1f}"])
    lines += ["", *common.table(titles, cells), ""]
    proven = [r["case"] for r in result["cases"] if max(abs(r["win"]["low"]), abs(r["win"]["high"])) < LIMIT]
    lines += [
        f"A bias of the win rate above {LIMIT} is ruled out (by the whole interval): {', '.join(proven) or 'nowhere'}."
    ]
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Plot the bias of the win rate of every case."""
    rows = result["cases"]
    figure, axes = plot_style.new_axes(plot_style.PAGE, 1.1 + 0.3 * len(rows))
    for place, row in enumerate(rows):
        win = row["win"]
        reach = [[win["bias"] - win["low"]], [win["high"] - win["bias"]]]
        label = "bias, 95 % interval by deals" if not place else None
        axes.errorbar([win["bias"]], [place], xerr=reach, marker="o", color=plot_style.SERIES[0], label=label)
    for limit in (-LIMIT, LIMIT):
        plot_style.reference_line(axes, limit, f"limit: {LIMIT}", axis="x")
    axes.axvline(0, color="black", linewidth=0.6)
    axes.set(yticks=range(len(rows)), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticklabels([f"{row['case']}, {row['games']:,} games" for row in rows])
    axes.set_xlabel("win rate, adjusted minus plain")
    axes.grid(visible=False, axis="y")
    plot_style.legend_below(figure, [axes])
    return figure


def run(options: argparse.Namespace, command: str) -> None:
    """Run the experiment."""
    for case in options.cases:
        require(case in CASES, "--cases", f"some of {', '.join(CASES)}", case)
    least = 2 * max({"players": 2, **CASES[case]}["players"] for case in options.cases)
    require(options.part >= least, "--part", f"{least} or more", options.part)
    require(options.minutes > 0, "--minutes", "more than 0", options.minutes)
    folder, started = options.out / "parts", time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Row]] = {case: [] for case in options.cases}
    wanted = [(number, case) for number in range(-(-options.games // options.part)) for case in options.cases]
    for number, case in track(wanted, "parts"):
        path, spec = folder / f"{case}-{number:04d}.json", settings(case, number, options)
        part = read_part(path, spec)
        if part is None:
            if time.monotonic() - started > 60 * options.minutes and all(found.values()):
                continue
            part = play_part(spec, options.workers)
            write_whole(path, json.dumps(part, indent=1) + "\n")
        found[case].append(part)
    result: dict[str, Any] = {"command": command, "cases": [summary(case, parts) for case, parts in found.items()]}
    common.write_results(options.out, "luck_bias", result, page(result), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return the exit code."""
    parser = common.make_parser(__doc__, games="per case, rounded up to whole parts")
    parser.add_argument("--cases", nargs="+", default=list(CASES), metavar="CASE", help=f"(default: {' '.join(CASES)})")
    parser.add_argument("--part", type=int, default=2000, metavar="N", help="games of a part (default: 2000)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no part after so many (default: no end)")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (default: one per core)")
    parser.set_defaults(games=100_000)
    return common.run_experiment(parser, run, argv)


if __name__ == "__main__":
    sys.exit(main())
