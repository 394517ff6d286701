"""What the scripts in experiments/ share: runs and their checkpoints, matches one by one, pooled figures, files."""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from scipy.stats import t as student

import env
from muzero import stats
from muzero.agents.agent_spec import AgentSpec, fingerprint, resolve
from muzero.config import require
from muzero.matches.match import play_matches
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.matches.results import COUNTS, win_rate_row
from muzero.matches.workers import make_worker_pool
from muzero.runs import checkpoint
from muzero.runs.files import own_draft, write_whole

Row = dict[str, Any]

# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run directory.

    Attributes:
      path: as it was given.
      variant, seed: of its configuration.
      game, players: what its network was trained for.
      player_counts: all of them, where one run mixed several; else just `players`.
      ego: whether its network has ego conditioning.
      bots: the curriculum's.
      iterations: of its checkpoints.
    """

    path: Path
    variant: str
    seed: int
    game: str
    players: int
    player_counts: tuple[int, ...]
    ego: bool
    bots: tuple[str, ...]
    iterations: tuple[int, ...]

    @staticmethod
    def read(path: Path) -> Run:
        """Reads a run directory; an error names what is missing."""
        agent = checkpoint.load_weights(path).agent
        require((path / checkpoint.CONFIG).is_file(), str(path), "a run directory", f"no {checkpoint.CONFIG}")
        config: Any = OmegaConf.to_container(OmegaConf.load(path / checkpoint.CONFIG))
        return Run(
            path,
            agent["variant"],
            int(config["seed"]),
            agent["game"],
            agent["players"],
            tuple(agent.get("player_counts", [agent["players"]])),
            bool(agent["model"]["ego"]),
            tuple(config["game"]["bots"]),
            tuple(int(place.name) for place in checkpoint.checkpoints(path)),
        )

    @property
    def label(self) -> str:
        """For file names."""
        return run_label(self.path)

    def agent(self, iteration: int, **options: Any) -> str:
        """Its checkpoint as an agent with search; options that are None are left out."""
        return str(AgentSpec.of("checkpoint", self.path, iteration=iteration, **options))


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """All that were named, each once, of one game."""
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        require(places.count(place) == 1, str(path), "different runs", "the same one twice")
    runs = [Run.read(path) for path in paths]
    for run in runs:
        require(run.game == runs[0].game, str(run.path), f"a run of {runs[0].game}, as {runs[0].path}", run.game)
    return runs


def same_players(runs: Sequence[Run]) -> None:
    """Refuses runs for different numbers of players, who cannot meet."""
    for run in runs:
        expected = f"{runs[0].players} players, as {runs[0].path}"
        require(run.players == runs[0].players, str(run.path), expected, run.players)


def iterations_of(runs: Sequence[Run], wanted: Sequence[int] | None) -> list[int]:
    """Those of which all runs have a checkpoint; if some were named, these, and a run without one is an error."""
    for iteration in wanted or ():
        for run in runs:
            have = f"a checkpoint of iteration {iteration}"
            require(iteration in run.iterations, str(run.path), have, f"those of {list(run.iterations)}")
    shared = sorted(set.intersection(*(set(run.iterations) for run in runs)))
    require(bool(shared), " and ".join(str(run.path) for run in runs), "a checkpoint of the same iteration", "none")
    return list(wanted) if wanted else shared


def iteration_of(run: Run, wanted: int | None) -> int:
    """The one that was named, or the run's newest."""
    return iterations_of([run], None if wanted is None else [wanted])[-1]


def variants(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs by variant, in the order in which variants first appear."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.variant, []).append(run)
    return groups


# ---- matches ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatchSpec:
    """A match of an experiment.

    Attributes:
      name: of its file.
      a, b: agents.
      players: at the table.
      labels: what the experiment wants to find in the file beside the figures.
    """

    name: str
    a: str
    b: str
    players: int
    labels: Mapping[str, Any]


def play_match_specs(meetings: Sequence[MatchSpec], options: argparse.Namespace) -> list[Row]:
    """Plays what is not yet in DIR/parts, one file per match; all are checked before the first game."""
    asked = [meeting.name for meeting in meetings]
    for name in asked:
        require(asked.count(name) == 1, name, "every match once", "the same one twice: is something named twice?")
    parts = options.out / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    configs: dict[str, MatchConfig] = {}
    rows: dict[str, Row] = {}
    for meeting in meetings:
        path = parts / f"{meeting.name}.json"
        games = -(-options.games // meeting.players) * meeting.players
        known = json.loads(path.read_text()) if path.exists() else {}
        specs = {side: resolve(AgentSpec.parse(getattr(meeting, side))) for side in "ab"}
        wanted: Row = {"a": str(specs["a"]), "b": str(specs["b"]), "seed": options.seed, "games": games}
        if known:
            wanted["version"] = env.make(known["game"], 1, meeting.players).info.version  # of the rules
        wanted |= {f"weights_{side}": fingerprint(specs[side]) for side in "ab"}  # a run may have been trained anew
        if wanted["weights_a"] or wanted["weights_b"]:
            wanted["batch"] = options.batch  # by which networks may round otherwise
        if all(known.get(key) == value for key, value in wanted.items()):
            rows[meeting.name] = known
            continue
        differing = [key for key, value in wanted.items() if known and known.get(key) != value]
        if differing:
            print(f"{path}: played again, what is there has another {', '.join(differing)}", file=sys.stderr)
        config = MatchConfig(a=meeting.a, b=meeting.b, players=meeting.players, games=games, seed=options.seed)
        config.batch, config.out = options.batch, str(path)
        configs[meeting.name] = with_defaults(config)
    if not configs:
        return [rows[meeting.name] for meeting in meetings]
    labels = {meeting.name: meeting.labels for meeting in meetings}
    agents = [text for config in configs.values() for text in (config.a, config.b)]
    pool = make_worker_pool(agents, options.workers, options.runtime, options.address)
    try:
        names = iter(configs)
        for config, result, games in play_matches(list(configs.values()), pool):
            name = next(names)
            by_deal = games.won.reshape(-1, config.players).mean(1).round(6).tolist()
            rows[name] = {**labels[name], **result, "by_deal": by_deal}
            write_whole(Path(config.out), json.dumps(rows[name], indent=1) + "\n")
    finally:
        pool.close()
    return [rows[meeting.name] for meeting in meetings]


def read_parts(out: Path) -> list[Row]:
    """Every match in DIR/parts."""
    whole = [path for path in sorted((out / "parts").glob("*.json")) if not path.name.startswith(".")]
    rows = [json.loads(path.read_text()) for path in whole]
    require(bool(rows), str(out / "parts"), "at least one match", "none")
    return rows


def pooled(rows: Sequence[Row]) -> Row:
    """Matches as one: counts added up, with intervals that take games as independent and the agents as given."""
    seats = {row["players"] for row in rows}
    require(len(seats) == 1, "players", "the same number in all matches", sorted(seats))
    found = sorted({precision for row in rows for precision in _precisions(row)})
    require(len(found) <= 1, "precision", "the same in all matches (say bf16=)", found)
    by_deal = [row.get("by_deal", ()) for row in rows]
    same_deals = min(map(len, by_deal)) == max(map(len, by_deal)) >= 2  # in all matches
    counts = {name: sum(row[name] for row in rows) for name in COUNTS}
    total = win_rate_row(counts, seats.pop(), np.mean(by_deal, 0) if same_deals else None)
    for name in ("mean_score_a", "mean_score_b", "mean_turns", "mean_decisions"):
        total[name] = float(np.average([row[name] for row in rows], weights=[row["games"] for row in rows]))
    return total


def _precisions(row: Row) -> set[str]:
    """Precisions of the long searches in a match, which are options of its agents."""
    specs = [AgentSpec.parse(row[side]) for side in "ab" if side in row]
    return {f"bf16={spec.options['bf16']}" for spec in specs if "bf16" in spec.options}


def with_holm(rows: Sequence[Row]) -> list[Row]:
    """The matches of one table, each with its p-value corrected for there being several (`p_holm`)."""
    adjusted = stats.holm([row["p_value"] for row in rows]).adjusted
    return [{**row, "p_holm": float(p)} for row, p in zip(rows, adjusted, strict=True)]


def over_seeds(values: Sequence[float]) -> Row:
    """Mean over independent runs (or pairs of runs) with Student's 95 % interval, which is about new seeds."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return {"mean": mean, "low": None, "high": None, "n": count}
    reach = float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / math.sqrt(count))
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "n": count}


def over_pairs(rows: Sequence[Row]) -> Row:
    """Mean win rate over matches between runs; no interval if a run is in several, which are then no sample."""
    found = over_seeds([row["win_rate"] for row in rows])
    taking_part = [run for row in rows for run in row["pair"]]
    return found if len(set(taking_part)) == len(taking_part) else {**found, "low": None, "high": None}


# ---- text and files --------------------------------------------------------------------------------------------------


def interval(row: Row) -> tuple[float, float]:
    """95 % interval of a win rate: by deals, which is right whatever hangs together within one; Wilson's if there is no
    other."""
    kind = "paired" if "paired_low" in row else "wilson"
    return row[f"{kind}_low"], row[f"{kind}_high"]


def rate(row: Row) -> str:
    """A win rate with its interval."""
    low, high = interval(row)
    return f"{row['win_rate']:.3f} [{low:.3f}, {high:.3f}]"


def error_bars(rows: Sequence[Row], scale: Sequence[float] | None = None) -> list[list[float]]:
    """How far the intervals reach below and above win rates, for matplotlib; each row times its scale."""
    factors = scale or [1.0] * len(rows)
    below = [(row["win_rate"] - interval(row)[0]) * factor for row, factor in zip(rows, factors, strict=True)]
    above = [(interval(row)[1] - row["win_rate"]) * factor for row, factor in zip(rows, factors, strict=True)]
    return [below, above]


def published_matches(rows: Sequence[Sequence[Any]], one: str, other: str) -> list[str]:
    """A table of matches from the paper as lines of Markdown."""
    cells = [
        [it, won, lost, drawn, f"{r:.3f} [{low:.3f}, {high:.3f}]", elo]
        for it, won, lost, drawn, r, low, high, elo in rows
    ]
    return table(["iteration", f"{one} won", f"{other} won", "drawn", "win rate", "Elo"], cells)


def seeds(found: Row, form: str = ".3f") -> str:
    """A mean over seeds with its interval."""
    if found["low"] is None:
        return f"{found['mean']:{form}} (n = {found['n']})"
    return f"{found['mean']:{form}} [{found['low']:{form}}, {found['high']:{form}}] (n = {found['n']})"


def signed(number: float | None) -> str:
    """An Elo difference; a dash where it is infinite."""
    return "-" if number is None else f"{number:+.0f}"


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of a Markdown table; the first column is text."""
    marks = [":--", *["--:"] * (len(titles) - 1)]
    return [f"| {' | '.join(str(cell) for cell in cells)} |" for cells in (titles, marks, *rows)]


def run_label(path: Path) -> str:
    """A run directory in the names of files."""
    return re.sub(r"[^\w.-]+", "_", str(path)).strip("_")


def write_study(out: Path, name: str, result: Row, page: str, figure: Figure) -> None:
    """JSON, Markdown and the plot of an experiment."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / f"{name}.json", json.dumps(result, indent=1) + "\n")
    write_whole(out / f"{name}.md", page)
    plot = out / f"{name}.png"
    draft = own_draft(plot)
    figure.savefig(draft, dpi=120, format="png")
    draft.replace(plot)
    print(page)
    print(f"{name}.json, {name}.md and {name}.png are in {out}")


# ---- command lines ---------------------------------------------------------------------------------------------------


def make_parser(doc: str | None, games: str = "per match, rounded up to whole deals") -> argparse.ArgumentParser:
    """With the options that all experiments have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000, help=f"{games} (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the deals (default: 0)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory for the results")
    return parser


def add_run_options(parser: argparse.ArgumentParser, iterations: str = "", bots: bool = False) -> None:
    """Which runs, which of their checkpoints (`iterations` says what is the default; "" for just one), and against
    whom."""
    parser.add_argument("--runs", nargs="+", type=Path, required=True, metavar="RUN")
    if iterations:
        parser.add_argument("--iterations", nargs="+", type=int, metavar="I", help=f"(default: {iterations})")
    else:
        parser.add_argument("--iteration", type=int, metavar="I", help="of the runs' (default: each one's newest)")
    if bots:
        parser.add_argument("--bots", nargs="+", metavar="BOT", help="(default: the run's curriculum)")


def add_match_options(parser: argparse.ArgumentParser) -> None:
    """How matches are played, and by whom."""
    parser.add_argument("--simulations", type=int, help="per decision (default: as the network was trained)")
    parser.add_argument("--batch", type=int, default=256, help="games that a worker plays at a time (default: 256)")
    parser.add_argument("--workers", type=int, default=0, help="processes (default: one per core)")
    parser.add_argument("--runtime", default="local", choices=("local", "ray"), help="who runs them (default: local)")
    parser.add_argument("--address", default="", help="of a Ray cluster (default: one is started here)")


def run_experiment(parser: argparse.ArgumentParser, study: Callable[..., None], argv: Sequence[str] | None) -> int:
    """Parses, runs `study(options, command)` and returns the exit code; bad input is one line, not a traceback."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = parser.parse_args(arguments)
    try:
        require(options.games >= 1, "--games", "1 or more", options.games)
        script = Path(sys.modules[study.__module__].__file__ or "").name
        study(options, shlex.join(["python", f"experiments/{script}", *arguments]))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
