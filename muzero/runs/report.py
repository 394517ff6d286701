"""Plots and tables of training runs, from their metrics.jsonl and timings.jsonl; a run that is still going on will do.

    python -m muzero.report RUN... [--out DIR] [--window 20]

Writes, as PNG and SVG, each by iteration and by minutes of wall clock (`_by_time`):

    figure3_losses         the losses; raw values light, rolling means bold
    figure4_outcome_heads  the losses of the winner and rank heads
    figure5_win_rate       mean win rate against the curriculum's bots, 95 % Wilson interval; dashed: the fair share
    figure7_diagnostics    norm of the gradient, entropy of the policy
    win_rate_by_bot        win rate against each bot
    win_rate_in_training   running win rate of games against each bot in self-play, as of two players (0.5 is fair)
    reliability            what the winner head predicts and what comes of it (last evaluation), and its Brier score

and report.md and report.json with the figures of each run. Numbers 3, 4, 5 and 7 are those of the paper. What no run
has (a winner head, an evaluation, a clock) is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from muzero import stats
from muzero.config import require
from muzero.runs import metrics
from muzero.runs.checkpoint import CONFIG

Record = Mapping[str, Any]
Floats = NDArray[np.float64]
Measure = Callable[[Record], float | None]  # a number of a record, None if it has none
Estimate = tuple[float, float, float]  # rate, low and high end of its interval

LOSSES = ("total", "policy", "value", "reward", "reconstruction", "consistency")
HEADS = ("winner", "rank")
AXES = {"iteration": "", "minutes": "_by_time"}  # and what they add to a file's name
DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))


@dataclass(frozen=True)
class Run:
    """What a run directory says.

    Attributes:
      path: of the directory.
      variant, seed, players: of its configuration.
      bots: the curriculum's.
      records: of its metrics, one per iteration.
      minutes: [len(records)] of wall clock when each was made, NaN where unknown.
    """

    path: Path
    variant: str
    seed: int
    players: int
    bots: tuple[str, ...]
    records: Sequence[Record]
    minutes: Floats

    @staticmethod
    def read(path: Path) -> Run:
        """Reads a run directory; an error names what is missing."""
        for name in (CONFIG, metrics.METRICS):
            require(
                (path / name).is_file(),
                str(path),
                f"a run directory, with {CONFIG} and {metrics.METRICS}",
                f"no {name}",
            )
        try:
            config: Any = OmegaConf.to_container(OmegaConf.load(path / CONFIG))
            game = config["game"]
            settings = str(config["variant"]), int(config["seed"]), int(game["players"]), tuple(game["bots"])
        except (KeyError, TypeError, YAMLError, OmegaConfBaseException) as error:
            raise ValueError(f"{path / CONFIG}: not the configuration of a run ({error!r})") from None
        records = metrics.read(path)
        require(bool(records), str(path), f"at least one line in {metrics.METRICS}", "none: no iteration is done yet")
        clock = metrics.read(path, metrics.TIMINGS) if (path / metrics.TIMINGS).is_file() else []
        minutes = np.full(len(records), np.nan)
        for index, timings in enumerate(clock[: len(records)]):
            if timings.get("elapsed") is not None:
                minutes[index] = timings["elapsed"] / 60
        return Run(path, *settings, records, minutes)

    def points(self, by: str, measure: Measure) -> tuple[Floats, Floats]:
        """Where a measure was taken, by "iteration" or "minutes", and what it was."""
        places = self.minutes if by == "minutes" else [record["iteration"] for record in self.records]
        found = [(place, measure(record)) for place, record in zip(places, self.records, strict=True)]
        kept = [(place, value) for place, value in found if value is not None and math.isfinite(place)]
        x, y = np.array(kept, np.float64).reshape(-1, 2).T
        return x, y

    def win_rate(self, record: Record, bot: str | None = None) -> Estimate | None:
        """Against a bot, or the mean over the curriculum's; the interval takes all games as independent."""
        evaluation, names = record.get("evaluation") or {}, [bot] if bot else self.bots
        if not names or any(name not in evaluation for name in names):
            return None
        results = [evaluation[name] for name in names]
        games = sum(result["games"] for result in results)
        rate = float(np.mean([result["win_rate"] for result in results]))
        interval = stats.wilson(rate * games, games)
        return rate, interval.low, interval.high

    def evaluated(self) -> list[str]:
        """Every bot that was played, in the order of the metrics."""
        return list(dict.fromkeys(bot for record in self.records for bot in record.get("evaluation") or {}))

    def last(self, group: str) -> Record | None:
        """The last record that has a group."""
        return next((record for record in reversed(self.records) if record.get(group)), None)


def number(group: str, name: str) -> Measure:
    """The measure of this name."""

    def measure(record: Record) -> float | None:
        value: float | None = (record.get(group) or {}).get(name)
        return value

    return measure


@dataclass(frozen=True)
class Look:
    """How a run is drawn: colour by variant, dashes by seed."""

    label: str
    color: str
    dashes: Any


def looks(runs: Sequence[Run]) -> list[Look]:
    """Of each run. Runs that share variant and seed are told apart by their directories, in colours of their own."""
    pairs = [(run.variant, run.seed) for run in runs]
    names = [run.path.resolve().name for run in runs]
    kinds = []
    for run, pair, name in zip(runs, pairs, names, strict=True):
        place = name if names.count(name) == 1 else str(run.path)
        kinds.append(run.variant if pairs.count(pair) == 1 else f"{run.variant} ({place})")
    colors, seeds = list(dict.fromkeys(kinds)), sorted({run.seed for run in runs})
    return [
        Look(f"{kind}, seed {run.seed}", f"C{colors.index(kind) % 10}", DASHES[seeds.index(run.seed) % len(DASHES)])
        for run, kind in zip(runs, kinds, strict=True)
    ]


# ---- plots -----------------------------------------------------------------------------------------------------------


def grid(count: int, columns: int = 3) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(6.4, 4.2 * columns), 3.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def curves(runs: Sequence[Run], by: str, window: int, measures: Mapping[str, Measure]) -> Figure | None:
    """A panel per measure: raw values light, rolling means bold. A loss that is 0 throughout is of a head that a run
    does not have."""
    found = {title: [run.points(by, measure) for run in runs] for title, measure in measures.items()}
    found = {title: points for title, points in found.items() if any(y.any() for _, y in points)}
    if not found:
        return None
    figure, panels = grid(len(found))
    for axes, (title, points) in zip(panels, found.items(), strict=True):
        for look, (x, y) in zip(looks(runs), points, strict=True):
            if y.any():
                axes.plot(x, y, color=look.color, alpha=0.35, linewidth=0.8)
                axes.plot(x, stats.rolling_mean(y, window), linestyle=look.dashes, color=look.color, label=look.label)
        axes.set_title(title)
        axes.set_xlabel(by)
    _legend(panels)
    return figure


def win_rates(runs: Sequence[Run], by: str, bots: Sequence[str | None]) -> Figure | None:
    """A panel per bot (None: the mean over the curriculum's) with Wilson bands; dashed, the fair share."""

    def part(run: Run, bot: str | None, index: int) -> tuple[Floats, Floats]:
        return run.points(by, lambda record: (run.win_rate(record, bot) or (None, None, None))[index])

    if not any(len(part(run, bot, 0)[0]) for run, bot in product(runs, bots)):
        return None
    figure, panels = grid(len(bots))
    for axes, bot in zip(panels, bots, strict=True):
        for run, look in zip(runs, looks(runs), strict=True):
            (x, rate), (_, low), (_, high) = (part(run, bot, index) for index in range(3))
            if len(x):
                axes.plot(x, rate, linestyle=look.dashes, color=look.color, label=look.label, marker="o", markersize=3)
                axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0)
                axes.vlines(x, low, high, color=look.color, alpha=0.4, linewidth=1)
        for players in {run.players for run in runs}:
            axes.axhline(1 / players, color="gray", linestyle="--", linewidth=1)
        axes.set(title=bot or "mean over the curriculum's bots", xlabel=by, ylim=(-0.02, 1.02))
    panels[0].set_ylabel("win rate")
    _legend(panels)
    return figure


def reliability(runs: Sequence[Run]) -> Figure | None:
    """The winner head at the last evaluation, areas in proportion to decisions, and its Brier score over training;
    dotted, the score of who always predicts the mean."""
    if not any(run.last("calibration") for run in runs):
        return None
    figure, (diagram, scores) = grid(2)
    diagram.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
    for run, look in zip(runs, looks(runs), strict=True):
        last = run.last("calibration")
        if last is None:
            continue
        bins = last["calibration"]["reliability"]
        area = 300 * np.array(bins["count"]) / sum(bins["count"])
        diagram.plot(bins["predicted"], bins["won"], linestyle=look.dashes, color=look.color, label=look.label)
        diagram.scatter(bins["predicted"], bins["won"], s=area, color=look.color, alpha=0.5)
        x, score = run.points("iteration", number("calibration", "brier"))
        scores.plot(x, score, linestyle=look.dashes, color=look.color, label=look.label, marker="o", markersize=3)
        x, score = run.points("iteration", number("calibration", "brier_of_the_mean"))
        scores.plot(x, score, ":", color=look.color, linewidth=1)
    diagram.set(title="winner head, last evaluation", xlabel="predicted", ylabel="won", xlim=(0, 1), ylim=(0, 1))
    scores.set(title="Brier score", xlabel="iteration")
    scores.set_ylim(bottom=0)
    _legend([diagram])
    return figure


def figures(runs: Sequence[Run], window: int) -> dict[str, Figure]:
    """Every plot there is something for, by the name of its file."""
    losses = {f"{name} loss": number("losses", name) for name in LOSSES}
    heads = {f"{name} head loss": number("losses", name) for name in HEADS}
    stability = {
        "gradient norm": number("losses", "gradient"),
        "policy entropy": number("diagnostics", "policy_entropy"),
    }
    bots = list(dict.fromkeys(bot for run in runs for bot in run.evaluated()))
    trained_with = dict.fromkeys(bot for run in runs for bot in run.bots)
    met = {f"games against {bot}": number("diagnostics", f"win_rate_{bot}") for bot in trained_with}
    drawn: dict[str, Figure | None] = {}
    for by, suffix in AXES.items():
        drawn |= {
            f"figure3_losses{suffix}": curves(runs, by, window, losses),
            f"figure4_outcome_heads{suffix}": curves(runs, by, window, heads),
            f"figure5_win_rate{suffix}": win_rates(runs, by, [None]),
            f"figure7_diagnostics{suffix}": curves(runs, by, window, stability),
            f"win_rate_in_training{suffix}": curves(runs, by, window, met),
            f"win_rate_by_bot{suffix}": win_rates(runs, by, bots),
        }
    drawn["reliability"] = reliability(runs)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _legend(panels: Sequence[Axes]) -> None:
    """Of all panels, in the first."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    panels[0].legend(list(found.values()), list(found), fontsize="small")


# ---- tables ----------------------------------------------------------------------------------------------------------


def summary(run: Run) -> dict[str, Any]:
    """A run's figures, those of strength at its last evaluation; None for what it does not have."""
    last, evaluated, judged = run.records[-1], run.last("evaluation"), run.last("calibration")
    known = run.minutes[np.isfinite(run.minutes)]
    out: dict[str, Any] = {
        "run": str(run.path),
        "variant": run.variant,
        "seed": run.seed,
        "players": run.players,
        "iterations": last["iteration"],
        "games": number("diagnostics", "games")(last),
        "minutes": float(known[-1]) if len(known) else None,
        "evaluated_at": evaluated["iteration"] if evaluated else None,
        "mean_win_rate": _estimate(run.win_rate(evaluated)) if evaluated else None,
        "win_rates": {bot: _estimate(run.win_rate(evaluated, bot)) for bot in evaluated["evaluation"]}
        if evaluated
        else {},
    }
    played = [evaluated["evaluation"][bot] for bot in run.bots if bot in evaluated["evaluation"]] if evaluated else []
    for name in ("score_difference", "length", "truncated"):
        out[name] = float(np.mean([result[name] for result in played])) if played else None
    out["brier"] = judged["calibration"]["brier"] if judged else None
    return out


def _estimate(found: Estimate | None) -> dict[str, float] | None:
    return dict(zip(("rate", "low", "high"), found, strict=True)) if found else None


def markdown(rows: Sequence[Mapping[str, Any]], names: Sequence[str], command: str, window: int) -> str:
    """The report as a page."""

    def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
        marks = [":--", *["--:"] * (len(titles) - 1)]
        return [f"| {' | '.join(cells)} |" for cells in (titles, marks, *lines)]

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
    page = ["# Training runs", "", f"    {command}", "", *table(titles, lines), ""]
    page += [
        "At the last evaluation. Win rate, score difference (positive is good), length and truncation are means over",
        "the curriculum's bots; intervals are 95 % Wilson intervals that take all games as independent.",
        "",
    ]
    bots = list(dict.fromkeys(bot for row in rows for bot in row["win_rates"]))
    if bots:
        page += [
            *table(["run", *bots], [[f"`{r['run']}`", *(rate(r["win_rates"].get(b)) for b in bots)] for r in rows]),
            "",
        ]
    page += [f"In plots of losses and diagnostics, rolling means over {window} iterations are bold.", ""]
    for name in names:
        page += [f"![{name}]({name}.png)", ""]
    return "\n".join(page)


def report(paths: Sequence[Path], out: Path, window: int, command: str) -> str:
    """Writes plots, report.md and report.json; returns the page."""
    require(window >= 1, "window", "1 or more", window)
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        require(places.count(place) == 1, str(path), "different runs", "the same one twice")
    runs = [Run.read(path) for path in paths]
    rows, drawn = [summary(run) for run in runs], figures(runs, window)
    page = markdown(rows, list(drawn), command, window)
    out.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "report", "svg.fonttype": "none"}):  # the same bytes every time; text is text
        for name, figure in drawn.items():
            figure.savefig(out / f"{name}.png", dpi=120)
            figure.savefig(out / f"{name}.svg", metadata={"Date": None})
    (out / "report.md").write_text(page)
    content = {"command": command, "window": window, "runs": rows}
    (out / "report.json").write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    return page


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `python -m muzero.report`; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="python -m muzero.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories of python -m muzero.train")
    parser.add_argument("--out", type=Path, help="where to write (default: report/ in the first run)")
    parser.add_argument("--window", type=int, default=20, help="iterations of the rolling means (default: 20)")
    args = parser.parse_args(arguments)
    out = args.out or args.runs[0] / "report"
    try:
        page = report(args.runs, out, args.window, shlex.join(["python", "-m", "muzero.report", *arguments]))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(page.partition("In plots")[0])
    print(f"plots, report.md and report.json are in {out}")
    return 0
