"""Ego conditioning switched off at inference: Table 4 of the SkyNet paper, with controls.

    python experiments/ego_ablation.py --runs runs/belief-0 runs/belief-1 --games 1000 --out results/ego

The intact network plays the same weights with

    no_ego      the ego's embedding left out
    wrong_ego   the embedding of the next seat instead: as much of a signal, but a false one
    zero_all    all three embeddings (ego, player to move, number of players) left out, as in the paper

The LayerNorm after the embeddings stays in all of them; leaving that out too would change the scale of what the heads
read, and say nothing about the ego. By default the newest checkpoint of each run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments import common as studies
from experiments.common import MatchSpec, Row
from muzero.config import require

PUBLISHED = Path(__file__).resolve().parent / "data" / "skynet.json"
ABLATIONS = ("no_ego", "wrong_ego", "zero_all")


def meetings(options: argparse.Namespace) -> list[MatchSpec]:
    """Intact against ablated, for every run, iteration and ablation."""
    runs = studies.read_runs(options.runs)
    studies.same_players(runs)
    found = []
    for run in runs:
        require(run.ego, str(run.path), "a network with ego conditioning (belief or ego_only)", run.variant)
        for iteration in studies.iterations_of([run], options.iterations or [run.iterations[-1]]):
            for ablation in ABLATIONS:
                full = run.agent(iteration, simulations=options.simulations)
                ablated = run.agent(iteration, simulations=options.simulations, ablation=ablation)
                labels = {"run": str(run.path), "variant": run.variant, "iteration": iteration, "ablation": ablation}
                found.append(MatchSpec(f"{run.label}--{iteration:06d}--{ablation}", full, ablated, run.players, labels))
    return found


def combine(rows: Sequence[Row]) -> Row:
    """By variant and ablation, all runs pooled and the mean over runs."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["variant"], row["ablation"]), []).append(row)
    lines = []
    for (variant, ablation), found in groups.items():
        by_run: dict[str, list[float]] = {}
        for row in found:
            by_run.setdefault(row["run"], []).append(row["win_rate"])
        over = studies.over_seeds([sum(rates) / len(rates) for rates in by_run.values()])
        lines.append({"variant": variant, "ablation": ablation, **studies.pooled(found), "over_runs": over})
    return {"rows": lines, "matches": list(rows)}


def markdown(result: Row, command: str) -> str:
    """The study as a page."""
    lines = ["# Ego conditioning switched off at inference", "", f"    {command}", ""]
    lines += [
        "Win rates are of the intact network, with 95 % intervals by deals; the LayerNorm stays in all ablations.",
        "p is of the exact test against 0.5, corrected by Holm over all matches of the table.",
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
            studies.rate(row),
            studies.signed(row["elo"]),
            f"{row['p_holm']:.2g}",
        ]
        for row in result["matches"]
    ]
    lines += [*studies.table(titles, cells), "", "All runs of a variant:", ""]
    cells = [
        [row["variant"], row["ablation"], row["games"], studies.rate(row), studies.seeds(row["over_runs"])]
        for row in result["rows"]
    ]
    lines += studies.table(["variant", "ablation", "games", "win rate", "mean over runs"], cells)
    lines += ["", "Published (all three embeddings bypassed, 1000 games):", ""]
    published = json.loads(PUBLISHED.read_text())["table_4_ego_ablation"]["rows"]
    lines += studies.published_matches(published, "full", "ablated")
    return "\n".join(lines) + "\n"


def plot(result: Row) -> Figure:
    """Pooled win rates of the intact network, and every match."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    rows = result["rows"]
    labels = [f"{row['variant']}\n{row['ablation']}" for row in rows]
    for place, row in enumerate(rows):
        axes.errorbar([place], [row["win_rate"]], yerr=studies.error_bars([row]), fmt="o", capsize=4, color="C0")
        found = [m for m in result["matches"] if (m["variant"], m["ablation"]) == (row["variant"], row["ablation"])]
        axes.plot([place + 0.15] * len(found), [m["win_rate"] for m in found], ".", color="gray")
    axes.axhline(rows[0]["fair_share"], color="black", linestyle="--", linewidth=1)
    axes.set(xticks=range(len(rows)), xticklabels=labels, ylim=(0, 1), ylabel="win rate of the intact network")
    axes.set_title("Intact against ablated (gray: each run)")
    return figure


def study(options: argparse.Namespace, command: str) -> None:
    """Plays and writes."""
    rows = studies.with_holm(studies.play_match_specs(meetings(options), options))
    result = {"command": command, **combine(rows)}
    studies.write_study(options.out, "ego_ablation", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the study."""
    parser = studies.make_parser(__doc__)
    studies.add_run_options(parser, "each run's newest")
    studies.add_match_options(parser)
    return studies.run_experiment(parser, study, argv)


if __name__ == "__main__":
    sys.exit(main())
