"""Card beliefs of trained networks, beside the belief of a player who counts cards and draws no conclusions.

    python -m experiments.beliefs --runs runs/belief_cards-0 runs/belief_cards-1 --games 1000 --out results/beliefs

For every slot that the player to move cannot see, the network's distribution over cards (`+variant=belief_cards`) is
compared with

    kl       the belief without conclusions: Kullback-Leibler divergence from it to the network's belief, in nats;
    score    the card that lies there: mean logarithm of its probability, beside that of the belief without conclusions.

In Skyjo the belief without conclusions is the exact posterior: 0 is the best divergence, and nothing scores better on
average. In L.A.M.A. and Skip-Bo others' play is evidence: a network that reads it scores better than the counts, and
then its divergence is above 0 too.

Each network plays an equal share of the positions (--games: their number in all), without search; all networks are
judged at all positions. Figures are means over hidden slots, in all, by phase and by the number of hidden slots;
intervals are 95 %, with positions as the independent units.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import env
from experiments import common
from experiments.common import Row, Run
from muzero.agents.agent_spec import AgentSpec, load_network, trained_for
from muzero.agents.agents import Policy
from muzero.config.fields import require
from muzero.matches.belief_check import BeliefCheck, card_beliefs, compare_beliefs, has_card_beliefs
from muzero.matches.match_config import require_same_rules
from muzero.matches.value_check import played_positions
from muzero.model.interface import BaseNetwork
from muzero.runs import plot_style
from muzero.runs.plot_style import styled

FIGURES = ("kl", "score", "counts_score", "gain")
BINS = 6  # most classes of positions by number of hidden slots


def load(run: Run, wanted: int | None) -> tuple[int, BaseNetwork]:
    """Loads the network of a run's wanted or newest checkpoint; returns its iteration too."""
    iteration = common.iteration_of(run, wanted)
    network = load_network(AgentSpec.of("policy", run.path, iteration=iteration), run.game, run.players)[0]
    expected = "a run with card beliefs (+variant=belief_cards)"
    require(has_card_beliefs(network), str(run.path), expected, f"variant {run.variant}")
    return iteration, network


def gather(networks: Sequence[BaseNetwork], count: int, rules: env.Rules, seed: int) -> env.VecEnv:
    """Tables at positions of the networks' own games, an equal share of each."""
    game, players = networks[0].spec.game, networks[0].spec.num_players
    kept = env.make(game, count, players, rules, auto_reset=False)
    for number, network in enumerate(networks):
        own = np.arange(number, count, len(networks))
        found = played_positions(Policy(network), game, players, rules, len(own), seed + number)
        for place, table in enumerate(own.tolist()):
            kept.load(table, found.save(place))
    return kept


def class_edges(hidden: NDArray[np.int64]) -> list[tuple[int, int]]:
    """First and last numbers of hidden slots of each class; classes have about the same number of positions."""
    cuts = np.unique(np.quantile(hidden, np.arange(1, BINS) / BINS, method="closest_observation"))
    starts = [int(hidden.min()), *(int(cut) for cut in cuts if hidden.min() < cut)]
    return [(low, high - 1) for low, high in zip(starts, [*starts[1:], int(hidden.max()) + 1], strict=True)]


def figures(check: BeliefCheck, chosen: NDArray[np.bool_]) -> Row:
    """Means over the hidden slots of the chosen positions [B], with standard errors over positions."""
    slots = chosen[check.position]
    of = check.position[slots]
    row: Row = {"positions": len(np.unique(of)), "slots": len(of)}
    numbers = {name: getattr(check, name)[slots] for name in FIGURES[:-1]}
    numbers["gain"] = numbers["score"] - numbers["counts_score"]
    for name, values in numbers.items():
        mean = float(values.mean())
        off = np.bincount(of, values - mean, len(check.phase))  # sums of deviations of each position
        row[name] = {"mean": mean, "error": float(np.sqrt(np.square(off).sum()) / len(values))}
    return row


def rows_of(check: BeliefCheck, phases: Sequence[str], labels: Row) -> list[Row]:
    """Figures of one network: in all, by phase, and by number of hidden slots."""
    seen = check.hidden > 0
    require(bool(seen.any()), "positions", "some with hidden cards", "none")
    classes: list[tuple[str, str, NDArray[np.bool_]]] = [("all", "", seen)]
    classes += [("phase", name, seen & (check.phase == number)) for number, name in enumerate(phases)]
    for low, high in class_edges(check.hidden[seen]):
        text = str(low) if low == high else f"{low} to {high}"
        classes.append(("hidden", text, seen & (check.hidden >= low) & (check.hidden <= high)))
    return [
        {**labels, "by": by, "class": text, **figures(check, chosen)} for by, text, chosen in classes if chosen.any()
    ]


def _text(number: dict[str, float], signed: bool = False) -> str:
    return f"{number['mean']:{'+' if signed else ''}.4f} +- {1.96 * number['error']:.4f}"


def markdown(rows: Sequence[Row], command: str) -> str:
    """The results as a page of Markdown."""
    lines = ["# Card beliefs", "", f"    {command}", ""]
    lines += [
        "Means over hidden slots in nats, +- 95 % intervals by positions. `kl`: divergence from the belief of a player",
        "who counts cards and draws no conclusions (in Skyjo the exact posterior) to the network's. `score`: logarithm",
        "of the probability of the true card; `gain`: by how much it is better than that of the counts.",
        "",
    ]
    titles = {"all": "All positions", "phase": "By phase", "hidden": "By number of hidden slots"}
    for by, title in titles.items():
        found = [row for row in rows if row["by"] == by]
        cells = []
        for row in found:
            numbers = [_text(row[name], signed=name == "gain") for name in FIGURES]
            cells.append([row["run"], row["class"], str(row["positions"]), str(row["slots"]), *numbers])
        heads = ["run", "" if by == "all" else by, "positions", "slots", "kl", "score", "score of counts", "gain"]
        lines += [f"## {title}", "", *common.table(heads, cells), ""]
    return "\n".join(lines)


@styled
def plot(rows: Sequence[Row]) -> Figure:
    """Divergence by number of hidden slots, and gain over the counts by phase; a colour per run."""
    figure, (left, right) = plot_style.new_panels(2, extra_height=0.5)
    runs = list(dict.fromkeys(row["run"] for row in rows))
    for axes, by, name in ((left, "hidden", "kl"), (right, "phase", "gain")):
        classes = list(dict.fromkeys(row["class"] for row in rows if row["by"] == by))
        for number, run in enumerate(runs):
            own = [row for row in rows if row["run"] == run and row["by"] == by]
            x = [classes.index(row["class"]) + 0.1 * (number - (len(runs) - 1) / 2) for row in own]
            error = [1.96 * row[name]["error"] for row in own]
            y = [row[name]["mean"] for row in own]
            look = {
                "color": plot_style.SERIES[number % len(plot_style.SERIES)],
                "marker": plot_style.MARKERS[number % len(plot_style.MARKERS)],
                "linestyle": "-" if by == "hidden" else "none",
            }
            axes.errorbar(x, y, yerr=error, label=plot_style.agent_alias(run), **look)
        plot_style.reference_line(axes, 0, "as the counts")
        axes.set_xticks(range(len(classes)), [str(one).replace("_", "\n") for one in classes])
    left.set(xlabel="hidden slots in the position", ylabel="KL from counts to network (nats)")
    right.set(xlabel="phase", ylabel="log score, network minus counts (nats)")
    notes = [plot_style.line_handle("95 % interval by positions", marker="|", linewidth=1.2)]
    plot_style.legend_below(figure, [left, right], notes)
    return figure


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays to the positions, compares beliefs and writes the results."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    require(options.games >= len(runs), "--games", f"at least one position for each of {len(runs)} runs", options.games)
    loaded = [load(run, options.iteration) for run in runs]
    trained: dict[str, dict[str, Any]] = {str(r.path): trained_for(AgentSpec.of("policy", r.path)) or {} for r in runs}
    rules = trained[str(runs[0].path)].get("rules", {})
    description = env.describe(runs[0].game, runs[0].players, rules)
    require_same_rules(description, trained)
    tables = gather([network for _, network in loaded], options.games, rules, options.seed)
    rows: list[Row] = []
    for run, (iteration, network) in zip(runs, loaded, strict=True):
        beliefs = card_beliefs(network, tables.obs)
        check = compare_beliefs(beliefs, tables, samples=options.samples, seed=options.seed)
        ignored = list(network.config.ignore)
        labels = {"run": run.label, "variant": run.variant, "iteration": iteration, "ignore": ignored}
        rows += rows_of(check, description.phase_names, labels)
    result = {"command": command, "game": runs[0].game, "positions": options.games, "rows": rows}
    common.write_results(options.out, "beliefs", result, markdown(rows, command), plot(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, "positions")
    common.add_run_options(parser)
    parser.add_argument(
        "--samples",
        type=int,
        default=256,
        metavar="N",
        help="worlds per position, for slots that may have no card (default: 256)",
    )
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
