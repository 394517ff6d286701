"""Ego conditioning switched off at inference: Table 4 of the SkyNet paper, with controls.

    python -m experiments.ego_ablation --runs runs/belief-0 runs/belief-1 --games 1000 --out results/ego

The intact network plays against the same weights

    no_ego      without the embedding of the ego seat
    wrong_ego   with the embedding of the next seat instead: as strong a signal, but a false one
    zero_all    without all three embeddings (ego, player to move, number of players), as in the paper

All ablations keep the LayerNorm after the embeddings: without it the scale of the heads' input would change, which
would say nothing about the ego. By default the newest checkpoint of each run plays.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, agent_of
from muzero.config import require

ABLATIONS = ("no_ego", "wrong_ego", "zero_all")


def match_specs(options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of the intact against the ablated network, for every run, iteration and ablation."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    found = []
    for run in runs:
        require(run.ego, str(run.path), "a network with ego conditioning (belief or ego_only)", run.variant)
        for iteration in common.iterations_of([run], options.iterations or [common.iteration_of(run, None)]):
            for ablation in ABLATIONS:
                full = agent_of(run, iteration, simulations=options.simulations)
                ablated = agent_of(run, iteration, simulations=options.simulations, ablation=ablation)
                labels = {"run": str(run.path), "variant": run.variant, "iteration": iteration, "ablation": ablation}
                found.append(MatchSpec(f"{run.label}--{iteration:06d}--{ablation}", full, ablated, run.players, labels))
    return found


def combine(rows: Sequence[Row]) -> Row:
    """Results by variant and ablation: all runs pooled, and the mean over runs."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["variant"], row["ablation"]), []).append(row)
    lines = []
    for (variant, ablation), found in groups.items():
        by_run: dict[str, list[float]] = {}
        for row in found:
            by_run.setdefault(row["run"], []).append(row["win_rate"])
        over = common.over_seeds([sum(rates) / len(rates) for rates in by_run.values()])
        lines.append({"variant": variant, "ablation": ablation, **common.pooled(found), "over_runs": over})
    return {"rows": lines, "matches": list(rows)}


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    lines = ["# Ego conditioning switched off at inference", "", f"    {command}", ""]
    lines += [
        "Win rates are those of the intact network, with 95 % intervals by deals; all ablations keep the LayerNorm.",
        "p is that of the exact test against 0.5, with Holm's correction over all matches of the table.",
        "",
    ]
    titles = [
        "run",
        "iteration",
        "ablation",
        "games",
        "intact won",
        "ablated won",
        "drawn",
        "win rate",
        "Elo",
        "p (Holm)",
    ]
    cells = [
        [
            f"`{row['run']}`",
            row["iteration"],
            row["ablation"],
            *(row[name] for name in ("games", "wins", "losses", "draws")),
            common.rate(row),
            common.signed(row["elo"]),
            f"{row['p_holm']:.2g}",
        ]
        for row in result["matches"]
    ]
    lines += [*common.table(titles, cells), "", "All runs of a variant:", ""]
    cells = [
        [row["variant"], row["ablation"], row["games"], common.rate(row), common.seeds(row["over_runs"])]
        for row in result["rows"]
    ]
    lines += common.table(["variant", "ablation", "games", "win rate", "mean over runs"], cells)
    lines += ["", "Published (all three embeddings bypassed, 1000 games):", ""]
    published = common.published("table_4_ego_ablation")
    lines += common.published_matches(published, "full", "ablated")
    return "\n".join(lines) + "\n"


def plot(result: Row) -> Figure:
    """Pooled win rates of the intact network, and those of single matches."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    rows = result["rows"]
    labels = [f"{row['variant']}\n{row['ablation']}" for row in rows]
    for place, row in enumerate(rows):
        axes.errorbar([place], [row["win_rate"]], yerr=common.error_bars([row]), fmt="o", capsize=4, color="C0")
        found = [m for m in result["matches"] if (m["variant"], m["ablation"]) == (row["variant"], row["ablation"])]
        axes.plot([place + 0.15] * len(found), [m["win_rate"] for m in found], ".", color="gray")
    axes.axhline(rows[0]["fair_share"], color="black", linestyle="--", linewidth=1)
    axes.set(xticks=range(len(rows)), xticklabels=labels, ylim=(0, 1), ylabel="win rate of the intact network")
    axes.set_title("Intact against ablated (gray: each run)")
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the matches and writes the results."""
    rows = common.with_holm(common.play_match_specs(match_specs(options), options))
    result = {"command": command, **combine(rows)}
    common.write_results(options.out, "ego_ablation", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__)
    common.add_run_options(parser, "each run's newest")
    common.add_match_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
