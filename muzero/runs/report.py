"""Plots and tables of training runs, finished or still going on, from their metrics.jsonl and timings.jsonl.

    python -m muzero.report RUN... [--out DIR] [--smooth 20] [--formats png svg pdf]

Writes, as PNG and SVG (--formats), each by iteration and by minutes of wall clock (`_by_time`):

    figure3_losses         losses; raw values light, centred rolling means bold
    figure4_outcome_heads  losses of the winner and rank heads
    figure5_win_rate       mean win rate against the curriculum's bots, 95 % Wilson interval; dashed: the fair share
    figure7_diagnostics    norm of the gradient, entropy of the policy
    win_rate_by_bot        win rate against each bot
    win_rate_in_training   running win rate in self-play games against each bot, rescaled to two players (0.5 is fair)
    reliability            winner head at the last evaluation: predicted and actual wins, and its Brier score

and report.md and report.json with a table of the runs. Runs that differ only in their seeds are one curve with a band,
over thin lines of single runs; a variant has the same colour in every report. Figures 3, 4, 5 and 7 are those of the
paper. Anything that no run has (a winner head, an evaluation, a clock) is left out.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muzero import stats
from muzero.config.fields import require
from muzero.runs.curves import Estimate, make_figures, measure, win_rate
from muzero.runs.files import WriteError, write_whole, writing
from muzero.runs.markdown import markdown_table
from muzero.runs.metrics import Record
from muzero.runs.plot_style import DEFAULT_FORMATS, FORMATS, require_formats, save_figure
from muzero.runs.run import Run, read_runs


def summary(run: Run) -> dict[str, Any]:
    """Row of the table: a run and its strength at its last evaluation; None for numbers that the run does not have."""
    last, evaluated, judged = run.records[-1], run.last("evaluation"), run.last("calibration")
    known = run.minutes[np.isfinite(run.minutes)]
    results = evaluated["evaluation"] if evaluated else {}
    out: dict[str, Any] = {
        "run": str(run.path),
        "variant": run.variant,
        "seed": run.seed,
        "players": run.players,
        "iterations": last["iteration"],
        "games": measure("diagnostics", "games")(last),
        "minutes": float(known[-1]) if len(known) else None,
        "evaluated_at": evaluated["iteration"] if evaluated else None,
        "mean_win_rate": _estimate(win_rate(run, evaluated)) if evaluated else None,
        "win_rates": {bot: _estimate(win_rate(run, evaluated, bot)) for bot in results} if evaluated else {},
    }
    played = [results[bot] for bot in run.bots if bot in results]
    for name in ("score_difference", "length", "truncated"):
        out[name] = float(np.mean([result[name] for result in played])) if played else None
    out["brier"] = judged["calibration"]["brier"] if judged else None
    out["by_players"] = _by_players(run, evaluated) if evaluated else {}
    return out


def _by_players(run: Run, evaluated: Record) -> dict[str, Any]:
    """Mean win rate and Brier score of an evaluation at each table size; {} unless the run mixed several."""
    return {
        players: {
            "mean_win_rate": _estimate(win_rate(run, found)),
            "brier": found.get("calibration", {}).get("brier"),
        }
        for players, found in evaluated.get("by_players", {}).items()
    }


def _estimate(found: Estimate | None) -> dict[str, float] | None:
    return dict(zip(("rate", "low", "high"), found, strict=True)) if found else None


def markdown(rows: Sequence[Mapping[str, Any]], figures: Sequence[str], command: str, smooth: int) -> str:
    """Page of the report in Markdown.

    Args:
      rows: rows of the table, the `summary` of each run.
      figures: names of the plots.
      command: command line that made the report.
      smooth: number of iterations that a rolling mean is taken over.
    """

    def text(value: float | None, form: str = "") -> str:
        return "-" if value is None else format(value, form)

    def rate(found: Mapping[str, float] | None) -> str:
        return "-" if found is None else f"{found['rate']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"

    titles = ["run", "variant", "seed", "iterations", "games", "minutes", "evaluated at", "mean win rate"]
    titles += ["score difference", "length", "truncated", "Brier"]
    lines = [
        [
            f"`{row['run']}`",
            row["variant"],
            str(row["seed"]),
            str(row["iterations"]),
            text(row["games"]),
            text(row["minutes"], ".1f"),
            text(row["evaluated_at"]),
            rate(row["mean_win_rate"]),
            text(row["score_difference"], "+.1f"),
            text(row["length"], ".1f"),
            text(row["truncated"], ".3f"),
            text(row["brier"], ".3f"),
        ]
        for row in rows
    ]
    page = ["# Training runs", "", f"    {command}", "", *markdown_table(titles, lines), ""]
    page += [
        "Results of the last evaluation. Win rate, score difference (positive is good), length and truncation are",
        "means over the curriculum's bots; intervals are 95 % Wilson intervals that treat all games as independent.",
        "",
    ]
    bots = list(dict.fromkeys(bot for row in rows for bot in row["win_rates"]))
    if bots:
        cells = [[f"`{row['run']}`", *(rate(row["win_rates"].get(bot)) for bot in bots)] for row in rows]
        page += [*markdown_table(["run", *bots], cells), ""]
    sizes = list(dict.fromkeys(size for row in rows for size in row.get("by_players", {})))
    if sizes:
        cells = []
        for row in rows:
            found = [row.get("by_players", {}).get(size, {}) for size in sizes]
            cells.append([f"`{row['run']}`", *(rate(one.get("mean_win_rate")) for one in found)])
            cells[-1] += [text(one.get("brier"), ".3f") for one in found]
        titles = [f"mean win rate, {size} players" for size in sizes] + [f"Brier, {size} players" for size in sizes]
        page += [*markdown_table(["run", *titles], cells), ""]
    page += [
        f"In plots of losses and diagnostics, bold lines are centred rolling means over {smooth} iterations. Runs that",
        "differ only in their seeds are one line: the mean, from four runs on the interquartile mean, with a 95 %",
        f"bootstrap band from {stats.LEAST_RUNS} runs on; thin lines are single runs.",
        "",
    ]
    for name in figures:
        page += [f"![{name}]({name}.png)", ""]
    return "\n".join(page)


def report(
    paths: Sequence[Path], out: Path, smooth: int, command: str, formats: Sequence[str] = DEFAULT_FORMATS
) -> str:
    """Writes plots, report.md and report.json; returns the page."""
    require_formats(formats)
    require(smooth >= 1, "--smooth", "1 or more", smooth)
    runs = read_runs(paths)
    rows, figures = [summary(run) for run in runs], make_figures(runs, smooth)
    page = markdown(rows, list(figures), command, smooth)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        save_figure(figure, out / name, formats)
    write_whole(out / "report.md", page)
    content = {"command": command, "smooth": smooth, "runs": rows}
    write_whole(out / "report.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
    return page


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python -m muzero.report`; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="python -m muzero.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories of python -m muzero.train")
    parser.add_argument("--out", type=Path, help="output directory (default: report/ in the first run)")
    parser.add_argument("--smooth", type=int, default=20, help="iterations of the rolling means (default: 20)")
    parser.add_argument(
        "--formats", nargs="+", default=DEFAULT_FORMATS, metavar="FORMAT", help=f"some of {', '.join(FORMATS)}"
    )
    args = parser.parse_args(arguments)
    out = args.out or args.runs[0] / "report"
    try:
        command = shlex.join(["python", "-m", "muzero.report", *arguments])
        page = report(args.runs, out, args.smooth, command, args.formats)
    except WriteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(page.partition("In plots")[0])
    print(f"plots, report.md and report.json are in {out}")
    return 0
