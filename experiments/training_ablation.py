"""Ablation of belief awareness: a round robin of the four variants, which the SkyNet paper leaves as future work.

    python -m experiments.training_ablation --runs runs/baseline-* runs/belief-* runs/ego_only-* runs/heads_only-* \\
        --games 1000 --out results/training_ablation

Runs are grouped by variant: baseline, belief (ego conditioning, winner and rank heads), ego_only, heads_only. The i-th
run of a variant plays the i-th run of every other variant (--all-pairs: every run of the others), at the newest
iteration that all runs have. The Elo ladder ranks variants, with the games of all their runs pooled.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, Run, agent_of
from muzero.config.fields import require
from muzero.matches import ladder


def match_specs(runs: Sequence[Run], iteration: int, options: argparse.Namespace) -> list[MatchSpec]:
    """All matches between runs of different variants."""
    groups = common.variants(runs)
    require(len(groups) >= 2, "--runs", "runs of two variants or more", ", ".join(groups))
    found = []
    for first, second in combinations(groups, 2):
        if not options.all_pairs:
            sizes = len(groups[first]), len(groups[second])
            require(sizes[0] == sizes[1], f"{first} and {second}", "as many runs (or --all-pairs)", sizes)
        pairs = product if options.all_pairs else zip
        for a, b in pairs(groups[first], groups[second]):
            agents = (agent_of(run, iteration, simulations=options.simulations) for run in (a, b))
            labels = {"kinds": [first, second], "pair": [str(a.path), str(b.path)], "iteration": iteration}
            found.append(MatchSpec(f"{a.label}--{b.label}--{iteration:06d}", *agents, a.players, labels))
    return found


def combine(rows: Sequence[Row]) -> list[Row]:
    """Rows by pair of variants: all matches pooled, and the mean over pairs of runs; keys as `ladder.rate` wants."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kinds"][0], row["kinds"][1]), []).append(row)
    return [
        {
            "a": first,
            "b": second,
            "game": found[0]["game"],
            "pairs": len(found),
            **common.pooled(found),
            "over_pairs": common.over_pairs(found),
        }
        for (first, second), found in groups.items()
    ]


def markdown(result: Row, command: str) -> str:
    """Page with the results of the study."""
    lines = ["# Which part of belief awareness helps", "", f"    {command}", ""]
    lines += [
        f"Iteration {result['iteration']}. Intervals by deals and Elo are about these networks, the mean over pairs of"
    ]
    lines += ["runs (Student's interval) about new seeds.", ""]
    ratings = [
        [r["name"], f"{r['elo']:+.0f}", f"[{r['low']:+.0f}, {r['high']:+.0f}]", f"{r['points']:g} of {r['games']:g}"]
        for r in result["ratings"]
    ]
    lines += [*common.table(["variant", "Elo", "95 %", "points"], ratings), ""]
    cells = [
        [
            f"{row['a']} against {row['b']}",
            row["pairs"],
            row["games"],
            common.rate(row),
            common.seeds(row["over_pairs"]),
        ]
        for row in result["pairings"]
    ]
    lines += common.table(["", "pairs", "games", "win rate", "mean over pairs"], cells)
    return "\n".join(lines) + "\n"


def run(options: argparse.Namespace, command: str) -> None:
    """Play all matches and write tables and figure."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    require(runs[0].players == 2, "--runs", "runs for two players, so that a ladder makes sense", runs[0].players)
    iteration = common.iterations_of(runs, [options.iteration] if options.iteration is not None else None)[-1]
    matches = common.play_match_specs(match_specs(runs, iteration, options), options)
    rows, names = combine(matches), list(common.variants(runs))
    found = ladder.rate(rows, names, "baseline" if "baseline" in names else names[0])
    figure: Figure = ladder.plot(found, rows)
    result: Row = {"command": command, "iteration": iteration, "anchor": found.anchor}
    result |= {"ratings": [vars(rating) for rating in found.ratings], "pairings": rows, "matches": matches}
    common.write_results(options.out, "training_ablation", result, markdown(result, command), figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    parser = common.make_parser(__doc__)
    parser.add_argument("--runs", nargs="+", type=Path, required=True, metavar="RUN")
    parser.add_argument(
        "--iteration", type=int, metavar="I", help="iteration to compare (default: the newest that all runs have)"
    )
    parser.add_argument("--all-pairs", action="store_true", help="every run plays every run of the other variants")
    common.add_match_options(parser)
    return common.run_experiment(parser, run, argv)


if __name__ == "__main__":
    sys.exit(main())
