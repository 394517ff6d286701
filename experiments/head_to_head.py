"""Two kinds of runs against each other at matched iterations: Table 3 and Figure 6 of the SkyNet paper.

    python experiments/head_to_head.py --a runs/belief-0 runs/belief-1 --b runs/baseline-0 runs/baseline-1 \\
        --games 1000 --simulations 200 --out results/head_to_head

The first run of --a meets the first of --b, and so on, so that pairs of seeds are independent of each other; with
--all-pairs everybody meets everybody. By default at all iterations of which both have a checkpoint. Every deal is
played twice with the seats swapped.

Each match is a file in DIR/parts: a repeated command plays what is missing, jobs of an array may each do one iteration
(--iterations), and --merge makes table and plot of the parts that are there without playing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments import common as studies
from experiments.common import MatchSpec, Row, Run
from muzero.config import require

PUBLISHED = Path(__file__).resolve().parent / "data" / "skynet.json"


def pairs_of(a: Sequence[Run], b: Sequence[Run], everybody: bool) -> list[tuple[Run, Run]]:
    """Who meets whom."""
    if everybody:
        return list(product(a, b))
    require(len(a) == len(b), "--a and --b", "as many runs (or --all-pairs)", f"{len(a)} and {len(b)}")
    return list(zip(a, b, strict=True))


def meetings(options: argparse.Namespace) -> list[MatchSpec]:
    """All matches to play."""
    runs = studies.read_runs([*options.a, *options.b])
    studies.same_players(runs)
    found = []
    for a, b in pairs_of(runs[: len(options.a)], runs[len(options.a) :], options.all_pairs):
        for iteration in studies.iterations_of([a, b], options.iterations):
            agents = (run.agent(iteration, simulations=options.simulations) for run in (a, b))
            labels = {
                "iteration": iteration,
                "pair": [str(a.path), str(b.path)],
                "kinds": [a.variant, b.variant],
                "simulations": options.simulations,
            }
            found.append(MatchSpec(f"{a.label}--{b.label}--{iteration:06d}", *agents, a.players, labels))
    return found


def combine(rows: Sequence[Row]) -> Row:
    """The table: by iteration, all pairs pooled and the mean over pairs; and where the advantage changes hands."""
    for key in ("kinds", "simulations", "players", "seed", "games"):
        kinds = sorted({json.dumps(row[key]) for row in rows})
        require(len(kinds) == 1, f"{key} of the parts", "the same in all", " and ".join(kinds))
    matches = [(row.get("weights_a", row["a"]), row.get("weights_b", row["b"]), row["iteration"]) for row in rows]
    for row, match in zip(rows, matches, strict=True):
        require(matches.count(match) == 1, f"{row['a']} - {row['b']}", "every match once", "the same networks twice")
    by_iteration: dict[int, list[Row]] = {}
    for row in rows:
        by_iteration.setdefault(row["iteration"], []).append(row)
    lines = []
    for iteration in sorted(by_iteration):
        found = by_iteration[iteration]
        over = studies.over_pairs(found)
        lines.append({"iteration": iteration, "pairs": len(found), **studies.pooled(found), "over_pairs": over})
    lines = studies.with_holm(lines)
    return {
        "kinds": rows[0]["kinds"],
        "simulations": rows[0]["simulations"],
        "rows": lines,
        "crossover": crossover(lines),
        "matches": list(rows),
    }


def crossover(lines: Sequence[Row]) -> list[Row]:
    """Where the win rate passes the fair share: between which iterations, and whether both intervals exclude it."""
    found = []
    for before, after in pairwise([line for line in lines if line["win_rate"] != line["fair_share"]]):
        fair = before["fair_share"]
        down, up = before["win_rate"] - fair, after["win_rate"] - fair
        if down * up < 0:
            share = down / (down - up)
            place = before["iteration"] + share * (after["iteration"] - before["iteration"])
            sure = all(not studies.interval(line)[0] <= fair <= studies.interval(line)[1] for line in (before, after))
            ends = {"between": [before["iteration"], after["iteration"]], "interpolated": round(place, 1)}
            found.append({**ends, "upwards": up > down, "sure": sure})
    return found


def markdown(result: Row, command: str) -> str:
    """The study as a page."""
    a, b = result["kinds"]
    how = f"{result['simulations']} simulations" if result["simulations"] else "simulations as in training"
    lines = [f"# Head to head: {a} against {b}", "", f"    {command}", ""]
    lines += [
        f"Every deal twice with the seats swapped, greedy search, {how}. Intervals of win rates (95 %, by deals) are"
    ]
    lines += ["about these networks, the mean over pairs (Student's interval) about new seeds; p is of the exact test"]
    lines += ["against the fair share, corrected by Holm over the iterations.", ""]
    titles = [
        "iteration",
        "pairs",
        "games",
        f"{a} won",
        f"{b} won",
        "drawn",
        f"win rate of {a}",
        "Elo",
        "p (Holm)",
        "mean over pairs",
    ]
    cells = [
        [
            line["iteration"],
            line["pairs"],
            line["games"],
            line["wins"],
            line["losses"],
            line["draws"],
            studies.rate(line),
            studies.signed(line.get("elo")),
            f"{line['p_holm']:.2g}",
            studies.seeds(line["over_pairs"]),
        ]
        for line in result["rows"]
    ]
    lines += studies.table(titles, cells)
    for where in result["crossover"]:
        first, last = where["between"]
        sure = "both intervals exclude it" if where["sure"] else "within the intervals"
        lines += ["", f"Crossover between {first} and {last}, interpolated at {where['interpolated']:g} ({sure})."]
    if not result["crossover"]:
        lines += ["", "No crossover."]
    published = json.loads(PUBLISHED.read_text())["table_3_head_to_head"]["rows"]
    lines += ["", "Published (belief against baseline, 1000 games each):", ""]
    lines += studies.published_matches(published, "belief", "baseline")
    return "\n".join(lines) + "\n"


def plot(result: Row) -> Figure:
    """Figure 6: pooled win rates with intervals, and every pair."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    rows: list[dict[str, Any]] = result["rows"]
    x, y = [row["iteration"] for row in rows], [row["win_rate"] for row in rows]
    axes.errorbar(x, y, yerr=studies.error_bars(rows), marker="o", capsize=3, label="all pairs, 95 % by deals")
    for number, pair in enumerate(sorted({tuple(match["pair"]) for match in result["matches"]})):
        found = sorted((m["iteration"], m["win_rate"]) for m in result["matches"] if tuple(m["pair"]) == pair)
        axes.plot(
            *zip(*found, strict=True), color="gray", alpha=0.5, linewidth=1, label="a pair" if not number else None
        )
    axes.axhline(rows[0]["fair_share"], color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="iteration", ylabel=f"win rate of {result['kinds'][0]}", ylim=(0, 1))
    axes.set_title(f"{result['kinds'][0]} against {result['kinds'][1]}")
    axes.legend()
    return figure


def study(options: argparse.Namespace, command: str) -> None:
    """Plays and writes what came of it, or if only merging, what the parts say that are there."""
    if options.merge:
        rows = studies.read_parts(options.out)
    else:
        require(bool(options.a) and bool(options.b), "--a and --b", "runs (or --merge)", (options.a, options.b))
        rows = studies.play_match_specs(meetings(options), options)
    result = {"command": command, **combine(rows)}
    studies.write_study(options.out, "head_to_head", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the study."""
    parser = studies.make_parser(__doc__)
    parser.add_argument("--a", nargs="+", type=Path, metavar="RUN", help="runs of one kind")
    parser.add_argument("--b", nargs="+", type=Path, metavar="RUN", help="runs of the other")
    parser.add_argument("--iterations", nargs="+", type=int, metavar="I", help="(default: all that both have)")
    parser.add_argument("--all-pairs", action="store_true", help="every run of --a meets every run of --b")
    parser.add_argument("--merge", action="store_true", help="only combine the parts that are there")
    studies.add_match_options(parser)
    return studies.run_experiment(parser, study, argv)


if __name__ == "__main__":
    sys.exit(main())
