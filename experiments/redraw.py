"""Figures of record, drawn again from their results, without playing a game: after a change of the plots' style.

    python -m experiments.redraw                # into runs/experiments/redraw, in directories as in experiments/results
    python -m experiments.redraw --record       # replaces the figures in experiments/results
    python -m experiments.redraw --results DIR  # figures of other results, such as those of a study

Results that were written before their script drew a figure, or that it can no longer read, are named.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments import (
    beliefs,
    bot_eval,
    ego_ablation,
    head_to_head,
    interval_coverage,
    lama_tables,
    latent_probes,
    luck_adjustment,
    luck_bias,
    luck_cost,
    match_utility,
    simulations,
    skipbo_duels,
    skyjo_thresholds,
    soak,
    table_sizes,
    time_to_strength,
)
from experiments.common.command_line import OWN, RESULTS
from muzero import stats
from muzero.config.fields import require
from muzero.matches import ladder
from muzero.runs.curves import make_figures
from muzero.runs.plot_style import DEFAULT_FORMATS, require_formats, save_figure
from muzero.runs.run import read_runs


def draw_ladder(result: Mapping[str, Any]) -> Figure:
    """Plot of a ladder from ladder.json."""
    ratings = [stats.Rating(**{key: one[key] for key in one if key != "rank"}) for one in result["ratings"]]
    shared = {key: result[key] for key in ("anchor", "separated", "names", "deviance", "freedom", "fit", "dispersion")}
    found = stats.Ladder(ratings=ratings, confidence=0.95, covariance=np.array(result["covariance"]), **shared)
    return ladder.plot(found, result["pairings"])


def draw_thresholds(result: Mapping[str, Any]) -> Figure:
    """Plot of the threshold study from thresholds.json."""
    published = json.loads((Path(__file__).parent / "data" / "skyjo_thresholds.json").read_text())
    return skyjo_thresholds.plot(dict(result), published, result["games"])


def draw_ego_ablation(result: Mapping[str, Any]) -> Figure:
    """Plot of the ablation from ego_ablation.json, also of older ones, which do not name the way of playing."""
    parts = {key: [{"play": "as in training", **row} for row in result[key]] for key in ("rows", "matches")}
    return ego_ablation.plot({**result, **parts})


SMOOTH = 20  # iterations of the rolling means where a report does not name them
PLOTS: dict[str, tuple[str, Callable[[Any], Figure]]] = {  # by results: name of the figure, function that draws it
    "beliefs.json": ("beliefs", lambda result: beliefs.plot(result["rows"])),
    "bot_eval.json": ("bot_eval", bot_eval.plot),
    "duels.json": ("duels", skipbo_duels.draw),
    "ego_ablation.json": ("ego_ablation", draw_ego_ablation),
    "head_to_head.json": ("head_to_head", head_to_head.plot),
    "interval_coverage.json": ("interval_coverage", interval_coverage.plot),
    "ladder.json": ("ladder", draw_ladder),
    "latent_probes.json": ("latent_probes", latent_probes.plot),
    "luck_adjustment.json": ("luck_adjustment", luck_adjustment.plot),
    "luck_bias.json": ("luck_bias", luck_bias.plot),
    "luck_cost.json": ("luck_cost", luck_cost.plot),
    "match_utility.json": ("match_utility", match_utility.plot),
    "simulations.json": ("simulations", lambda result: simulations.plot(result["rows"], "luck" in result["rows"][0])),
    "soak.json": ("soak", soak.draw),
    "table_sizes.json": ("table_sizes", table_sizes.plot),
    "tables.json": ("figures", lambda result: lama_tables.draw(result["figures"])),
    "thresholds.json": ("thresholds", draw_thresholds),
    "time_to_strength.json": ("time_to_strength", lambda result: time_to_strength.plot(result["points"])),
}


def redraw(results: Path, out: Path, formats: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Draw every figure of a tree of results; returns the files, and why others could not be drawn.

    Args:
      results: directory of the results.
      out: directory for the figures, which get the same places below it.
      formats: formats of the figures.
    """
    written, failed = [], []
    for path in sorted(results.rglob("*.json")):
        place = out / path.relative_to(results).parent
        try:
            if path.name in PLOTS:
                name, draw = PLOTS[path.name]
                figures = {name: draw(json.loads(path.read_text()))}
            elif path.name == "report.json":
                content = json.loads(path.read_text())
                runs = read_runs([_moved(Path(row["run"]), path) for row in content["runs"]])
                figures = make_figures(runs, int(content.get("smooth", SMOOTH)))
            else:
                continue
        except (KeyError, TypeError, ValueError, IndexError) as error:
            failed.append(f"{path}: {type(error).__name__}: {error}")
            continue
        place.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            written += save_figure(figure, place / name, formats)
    return written, failed


def _moved(run: Path, report: Path) -> Path:
    """Directory of a run in a report: as it was named, or beside the report if the results have been moved there."""
    beside = report.parent.parent / run.name
    return run if (run / "config.yaml").exists() or not beside.is_dir() else beside


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the figures; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="results to draw")
    parser.add_argument("--formats", nargs="+", default=DEFAULT_FORMATS, metavar="FORMAT", help="png, svg, pdf")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, default=OWN / "redraw", metavar="DIR", help="directory for the figures")
    where.add_argument("--record", action="store_true", help="replace the figures in the directory of the results")
    options = parser.parse_args(argv)
    try:
        require(options.results.is_dir(), "--results", "a directory", options.results)
        require_formats(options.formats)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out = options.results if options.record else options.out
    written, failed = redraw(options.results, out, options.formats)
    print(f"{len(written)} files are in {out}")
    for text in failed:
        print(f"not drawn: {text}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
