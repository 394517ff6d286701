"""Matches between two kinds of runs at equal iterations: Table 3 and Figure 6 of the SkyNet paper.

    python -m experiments.head_to_head --a runs/belief-0 runs/belief-1 --b runs/baseline-0 runs/baseline-1 \\
        --games 1000 --simulations 200 --out results/head_to_head

The first run of --a plays the first of --b, and so on, so that pairs of seeds are independent of each other; with
--all-pairs every run of --a plays every run of --b. By default they play at all iterations at which both have a
checkpoint. Every deal is played twice with the seats swapped.

The result of each match is a file in DIR/parts: a repeated command plays only missing matches, jobs of an array can
play one iteration each (--iterations), and --merge makes table and plot from the existing parts without playing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero.config.fields import require
from muzero.runs import plot_style
from muzero.runs.plot_style import styled


def pairs_of(a: Sequence[Run], b: Sequence[Run], all_pairs: bool) -> list[tuple[Run, Run]]:
    """Pairs of runs that play each other."""
    if all_pairs:
        return list(product(a, b))
    require(len(a) == len(b), "--a and --b", "as many runs (or --all-pairs)", f"{len(a)} and {len(b)}")
    return list(zip(a, b, strict=True))


def match_specs(options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of every pair at every iteration."""
    runs = common.read_runs([*options.a, *options.b])
    common.same_players(runs)
    found = []
    for a, b in pairs_of(runs[: len(options.a)], runs[len(options.a) :], options.all_pairs):
        for iteration in common.iterations_of([a, b], options.iterations):
            one, other = (agent_of(run, iteration, simulations=options.simulations) for run in (a, b))
            labels = {
                "iteration": iteration,
                "pair": [str(a.path), str(b.path)],
                "kinds": [a.variant, b.variant],
                "simulations": options.simulations,
            }
            found.append(MatchSpec(f"{a.label}--{b.label}--{iteration:06d}", one, other, a.players, labels))
    return found


def combine(rows: Sequence[Row]) -> Row:
    """Results by iteration: all pairs pooled and the mean over pairs; and the crossovers of the win rate."""
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
        over = common.over_pairs(found)
        lines.append({"iteration": iteration, "pairs": len(found), **common.pooled(found), "over_pairs": over})
    lines = common.with_holm(lines)
    return {
        "kinds": rows[0]["kinds"],
        "simulations": rows[0]["simulations"],
        "rows": lines,
        "crossover": crossover(lines),
        "matches": list(rows),
    }


def crossover(lines: Sequence[Row]) -> list[Row]:
    """Crossings of the fair share: between which iterations, and whether both intervals exclude the fair share."""
    found = []
    for before, after in pairwise([line for line in lines if line["win_rate"] != line["fair_share"]]):
        fair = before["fair_share"]
        down, up = before["win_rate"] - fair, after["win_rate"] - fair
        if down * up < 0:
            share = down / (down - up)
            place = before["iteration"] + share * (after["iteration"] - before["iteration"])
            sure = all(not common.interval(line)[0] <= fair <= common.interval(line)[1] for line in (before, after))
            ends = {"between": [before["iteration"], after["iteration"]], "interpolated": round(place, 1)}
            found.append({**ends, "upwards": up > down, "sure": sure})
    return found


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    a, b = result["kinds"]
    how = f"{result['simulations']} simulations" if result["simulations"] else "simulations as in training"
    lines = [f"# Head to head: {a} against {b}", "", f"    {command}", ""]
    lines += [
        f"Every deal is played twice with the seats swapped, with greedy search, {how}. Intervals of win",
        "rates (95 %, by deals) are about these networks; the mean over pairs, with Student's interval (from three",
        "pairs on), is about new seeds. p is that of the exact test against the fair share, with Holm's correction",
        "over the iterations.",
        "",
    ]
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
            common.rate(line),
            common.signed(line.get("elo")),
            f"{line['p_holm']:.2g}",
            common.seeds(line["over_pairs"]),
        ]
        for line in result["rows"]
    ]
    lines += common.table(titles, cells)
    for where in result["crossover"]:
        first, last = where["between"]
        sure = "both intervals exclude it" if where["sure"] else "within the intervals"
        lines += ["", f"Crossover between {first} and {last}, interpolated at {where['interpolated']:g} ({sure})."]
    if not result["crossover"]:
        lines += ["", "No crossover."]
    published = common.published("table_3_head_to_head")
    lines += ["", "Published (belief against baseline, 1000 games each):", ""]
    lines += common.published_matches(published, "belief", "baseline")
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Figure 6: pooled win rates with intervals, and those of single pairs."""
    figure, axes = plot_style.new_axes(plot_style.COLUMN, 3.0)
    rows: list[dict[str, Any]] = result["rows"]
    one, other = result["kinds"]
    x, y = [row["iteration"] for row in rows], [row["win_rate"] for row in rows]
    look = {"color": plot_style.color_of(one), "marker": plot_style.marker_of(one)}
    pairs = sorted({tuple(match["pair"]) for match in result["matches"]})
    label = "all pairs, 95 % interval by deals" if len(pairs) > 1 else "95 % interval by deals"
    axes.errorbar(x, y, yerr=common.error_bars(rows), label=label, **look)
    for number, pair in enumerate(pairs if len(pairs) > 1 else ()):
        found = sorted((m["iteration"], m["win_rate"]) for m in result["matches"] if tuple(m["pair"]) == pair)
        thin = {"color": plot_style.GREY, "alpha": 0.6, "linewidth": 0.6, "marker": ".", "markersize": 2}
        axes.plot(*zip(*found, strict=True), label="one pair" if not number else None, **thin)
    plot_style.reference_line(axes, rows[0]["fair_share"], "fair share")
    axes.set(xlabel="iteration", ylabel=f"win rate of {one} against {other}", ylim=plot_style.RATES)
    plot_style.few_ticks(axes, x)
    plot_style.legend_below(figure, [axes])
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches, or with --merge reads the existing parts, and writes the results."""
    if options.merge:
        rows = common.read_parts(options.out)
    else:
        require(bool(options.a) and bool(options.b), "--a and --b", "runs (or --merge)", (options.a, options.b))
        rows = common.play_match_specs(match_specs(options), options)
    result = {"command": command, **combine(rows)}
    common.write_results(options.out, "head_to_head", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__)
    parser.add_argument("--a", nargs="+", type=Path, metavar="RUN", help="runs of the first kind")
    parser.add_argument("--b", nargs="+", type=Path, metavar="RUN", help="runs of the second kind")
    parser.add_argument(
        "--iterations", nargs="+", type=int, metavar="I", help="checkpoints (default: all that both have)"
    )
    parser.add_argument("--all-pairs", action="store_true", help="every run of --a plays every run of --b")
    parser.add_argument("--merge", action="store_true", help="only combine existing parts")
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
