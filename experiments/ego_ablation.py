"""Ego conditioning switched off at inference: Table 4 of the SkyNet paper, with controls.

    python -m experiments.ego_ablation --runs runs/belief-0 runs/belief-1 --games 1000 --out results/ego

The intact network plays against the same weights

    no_ego      without the embedding of the ego seat
    wrong_ego   with the embedding of the next seat instead: as strong a signal, but a false one
    zero_all    without all three embeddings (ego, player to move, number of players), as in the paper

All ablations keep the LayerNorm after the embeddings: without it the scale of the heads' input would change, which
would say nothing about the ego. By default the newest checkpoint of each run plays. Both sides play in three ways:

    maxn     search that backs up a value per player; with ego conditioning each is read by conditioning on its seat
    ego      search that backs up the root player's value alone, as in the paper
    policy   without search

With maxn, an ablated network gives the same value to all seats, or one seat's to another: a loss there only shows that
max^n needs to know whose value it reads. What ego conditioning is worth to the network itself is in the other two rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from matplotlib.figure import Figure

from experiments import common
from experiments.common import MatchSpec, Row, agent_of
from muzero.config.fields import require
from muzero.runs import plot_style
from muzero.runs.plot_style import styled

ABLATIONS = ("no_ego", "wrong_ego", "zero_all")
WAYS: dict[str, dict[str, Any]] = {
    "maxn": {"backup": "maxn"},
    "ego": {"backup": "ego"},
    "policy": {"simulations": 0},
}


def match_specs(options: argparse.Namespace) -> list[MatchSpec]:
    """Matches of the intact against the ablated network, for every run, iteration, way of playing and ablation."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    found = []
    for run in runs:
        require(run.ego, str(run.path), "a network with ego conditioning (belief or ego_only)", run.variant)
        for iteration in common.iterations_of([run], options.iterations or [common.iteration_of(run, None)]):
            for way, ablation in product(WAYS, ABLATIONS):
                plays = {"simulations": options.simulations} | WAYS[way]
                full, ablated = agent_of(run, iteration, **plays), agent_of(run, iteration, **plays, ablation=ablation)
                labels = {"run": str(run.path), "variant": run.variant, "iteration": iteration}
                labels |= {"play": way, "ablation": ablation}
                name = f"{run.label}--{iteration:06d}--{way}--{ablation}"
                found.append(MatchSpec(name, full, ablated, run.players, labels))
    return found


def combine(rows: Sequence[Row]) -> Row:
    """Results by variant, way of playing and ablation: all runs pooled, and the mean over runs."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["variant"], row["play"], row["ablation"]), []).append(row)
    lines = []
    for (variant, way, ablation), found in groups.items():
        by_run: dict[str, list[float]] = {}
        for row in found:
            by_run.setdefault(row["run"], []).append(row["win_rate"])
        over = common.over_seeds([sum(rates) / len(rates) for rates in by_run.values()])
        labels = {"variant": variant, "play": way, "ablation": ablation}
        lines.append({**labels, **common.pooled(found), "over_runs": over})
    return {"rows": lines, "matches": list(rows)}


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    lines = ["# Ego conditioning switched off at inference", "", f"    {command}", ""]
    lines += [
        "Win rates are those of the intact network, with 95 % intervals by deals; all ablations keep the LayerNorm.",
        "p is that of the exact test against 0.5, with Holm's correction over all matches of the table.",
        "",
        "With `maxn` every seat's value is read by conditioning on that seat, so these rows only show that max^n needs",
        "to know whose value it reads. `ego` backs up the root player's value alone; `policy` plays without search.",
        "",
    ]
    titles = [
        "run",
        "iteration",
        "play",
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
            row["play"],
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
        [
            *(row[name] for name in ("variant", "play", "ablation", "games")),
            common.rate(row),
            common.seeds(row["over_runs"]),
        ]
        for row in result["rows"]
    ]
    lines += common.table(["variant", "play", "ablation", "games", "win rate", "mean over runs"], cells)
    lines += ["", "Published (all three embeddings bypassed, 1000 games):", ""]
    published = common.published("table_4_ego_ablation")
    lines += common.published_matches(published, "full", "ablated")
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Pooled win rates of the intact network by way of playing, and those of single matches."""
    rows, key = result["rows"], ("variant", "play", "ablation")
    variants, ways = (list(dict.fromkeys(row[name] for row in rows)) for name in ("variant", "play"))
    figure, panels = plot_style.new_panels(len(variants), columns=2, extra_height=0.6)
    for axes, variant in zip(panels, variants, strict=True):
        for number, way in enumerate(ways):
            own = [row for row in rows if (row["variant"], row["play"]) == (variant, way)]
            places = [ABLATIONS.index(row["ablation"]) + 0.25 * (number - (len(ways) - 1) / 2) for row in own]
            rates = [row["win_rate"] for row in own]
            look = {"color": plot_style.SERIES[number], "marker": plot_style.MARKERS[number], "linestyle": "none"}
            axes.errorbar(places, rates, yerr=common.error_bars(own), label=f"play: {way}", **look)
            for place, row in zip(places, own, strict=True):
                found = [m for m in result["matches"] if all(m[name] == row[name] for name in key)]
                beside = [place + 0.07] * len(found)
                axes.plot(beside, [m["win_rate"] for m in found], ".", color=plot_style.GREY, markersize=2.5)
        plot_style.reference_line(axes, rows[0]["fair_share"], "fair share")
        names = [name.replace("_", " ") for name in ABLATIONS]
        axes.set(
            xticks=range(len(ABLATIONS)), xticklabels=names, ylim=plot_style.RATES, title=variant, xlabel="ablation"
        )
        axes.set_xlim(-0.5, len(ABLATIONS) - 0.5)
        axes.set_ylabel("win rate of the intact network")
    notes = [plot_style.line_handle("single runs", marker=".", linestyle="none", markersize=2.5)]
    notes.append(plot_style.line_handle("95 % interval by deals", marker="|", linewidth=1.2))
    plot_style.legend_below(figure, panels, notes)
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
