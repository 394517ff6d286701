"""Round robin of agents on paired deals, and its Elo ladder.

    python -m muzero.ladder agents=[AGENT,AGENT,...] [games=1000] [key=value ...]

Each agent plays each other agent, every deal twice with the seats swapped. Agents are named as for
python -m muzero.evaluate, whose help lists them; options may follow an agent as usual:
agents=[checkpoint:runs/x,simulations=64,bot:greedy]. Every pairing is saved beside the results: a repeated command
resumes where it was stopped, and one with more agents or games plays only what is new. With players=3 or more the
agents meet at mixed tables, in this process, and are rated by the ranks of all seats.

Keys:
{keys}
"""

from __future__ import annotations

import csv
import hashlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import env
from muzero import stats
from muzero.agents.agent_spec import AgentSpec, join_options, resolve, trained_for
from muzero.config.fields import require, require_path
from muzero.matches import results
from muzero.matches.arguments import SHARED_HELP, describe_keys, parse_overrides
from muzero.matches.match import play_matches
from muzero.matches.match_config import MatchConfig, require_same_rules, with_defaults
from muzero.matches.results import Row
from muzero.matches.table_ladder import rate_tables, require_table, write_tables
from muzero.matches.workers import WorkerPool, make_worker_pool
from muzero.runs import plot_style
from muzero.runs.files import WriteError, replacing, write_whole, writing
from muzero.runs.markdown import markdown_table
from muzero.runs.plot_style import styled
from muzero.runs.provenance import code_text, provenance

_INTERVAL = 2 * 1.96  # width of a 95 % interval in standard errors
_SHARED = ("game", "version", "rules")  # figures that all pairings share
_LEFT_OUT = (*_SHARED, "provenance")

HELP = {
    "agents": "two or more, in brackets, with commas between them",
    "games": "games per pairing (in all, with players=3 or more), rounded up to whole deals",
    "players": "players at a table",
    "anchor": "the agent whose Elo is 0; by default the first",
    "prior": "drawn games added to every pairing (agent, with players=3 or more), which keep ratings finite",
    "out": "directory for ladder.json, .csv (a row per pairing), .md, .png, .svg, and games/ (every game)",
    **SHARED_HELP,
    "workers": "processes that share the games (threads if all agents are bots); 0 for one per core",
}


@dataclass
class LadderConfig:
    """Settings of a ladder; `HELP` explains them."""

    agents: list[str] = field(default_factory=list)
    games: int = 1000
    players: int = 2
    anchor: str = ""
    prior: float = 1.0
    out: str = "ladder"
    game: str = ""
    rules: Any = field(default_factory=dict)
    seed: int = 0
    batch: int = 256
    workers: int = 0
    runtime: str = "local"
    address: str = ""


def read_arguments(arguments: Sequence[str]) -> LadderConfig:
    """Make a checked configuration from key=value arguments."""
    config, _ = parse_overrides(LadderConfig, arguments, HELP)
    out = Path(config.out)
    require_path("out", out)
    require(not out.exists() or out.is_dir(), "out", "a directory, or nothing yet", f"{config.out}, which is a file")
    require(config.games >= 1, "games", "1 or more", config.games)
    require(config.batch >= 1, "batch", "1 or more", config.batch)
    require(config.prior >= 0, "prior", "0 or more", config.prior)
    specs = [resolve(AgentSpec.parse(text)) for text in join_options(config.agents)]
    config.agents = [str(spec) for spec in specs]
    good = len(config.agents) >= 2 and len(set(config.agents)) == len(config.agents)
    require(good, "agents", "two or more that differ", config.agents)
    config.anchor = str(resolve(AgentSpec.parse(config.anchor))) if config.anchor else config.agents[0]
    require(config.anchor in config.agents, "anchor", f"one of {', '.join(config.agents)}", config.anchor)
    rules_are_free = not config.rules
    trained = {str(spec): found for spec in specs if (found := trained_for(spec))}
    for found in trained.values():  # two bots play the game that the networks among the agents were trained for
        config.game = config.game or found["game"]
        if found["game"] == config.game:
            config.rules = config.rules or found.get("rules", {})
    if rules_are_free and trained and all(found["game"] == config.game for found in trained.values()):
        require_same_rules(env.describe(config.game, 2, config.rules), trained)
    require(config.players >= 2, "players", "2 or more", config.players)
    if config.players > 2:
        config.game = config.game or env.games()[0]
        require(config.game in env.games(), "game", f"one of {', '.join(env.games())}", config.game)
        require_table(config.game, config.players, config.agents)
        require(config.prior > 0, "prior", "more than 0 with players=3 or more", config.prior)
        single = config.runtime == "local" and config.workers in (0, 1)
        require(single, "workers and runtime", "0 or 1 and local with players=3 or more", config.workers)
    return config


def pairing(config: LadderConfig, a: str, b: str) -> MatchConfig:
    """Match of two agents; the name of its file depends only on them, not on the other agents of the ladder."""
    name = hashlib.sha256(f"{a}\n{b}".encode()).hexdigest()[:12]
    shared = {key: getattr(config, key) for key in ("games", "game", "rules", "seed", "batch")}
    out = str(Path(config.out) / "games" / f"{name}.json")
    return with_defaults(MatchConfig(a=a, b=b, players=2, out=out, **shared))


def play(config: LadderConfig, pool: WorkerPool | None = None, quiet: bool = False) -> list[Row]:
    """Play every pairing, or its games that are left; return the figures of all pairings, see `results.report`."""
    matches = [pairing(config, *pair) for pair in combinations(config.agents, 2)]  # all are checked before any game
    own = pool is None
    pool = pool or make_worker_pool(config.agents, config.workers, config.runtime, config.address)
    rows = []
    try:
        for one, result, games in play_matches(matches, pool, quiet):
            results.write(Path(one.out), one, result, games)
            rows.append(result)
    finally:
        if own:
            pool.close()
    return rows


def rate(rows: Sequence[Row], agents: Sequence[str], anchor: str, prior: float = 1.0) -> stats.Ladder:
    """Rate the agents from the figures of their pairings."""
    points = np.zeros((len(agents), len(agents)))
    for row in rows:
        i, j = agents.index(row["a"]), agents.index(row["b"])
        points[i, j] += row["points"]
        points[j, i] += row["games"] - row["points"]
    return stats.ladder(agents, points, anchor, prior)


def win_rates(rows: Sequence[Row], order: Sequence[str]) -> NDArray[np.float64]:
    """Win rates [P, P] of the row's agent against the column's; NaN where they did not meet."""
    rates = np.full((len(order), len(order)), np.nan)
    for row in rows:
        i, j = order.index(row["a"]), order.index(row["b"])
        rates[i, j], rates[j, i] = row["win_rate"], 1 - row["win_rate"]
    return rates


def average(rows: Sequence[Row], order: Sequence[str]) -> stats.NashAverage | None:
    """Judge the agents against the equilibrium of the field; None if a pairing is missing."""
    errors = np.zeros((len(order), len(order)))
    for row in rows:
        i, j = order.index(row["a"]), order.index(row["b"])
        kind = "paired" if "paired_low" in row else "wilson"
        errors[i, j] = errors[j, i] = (row[f"{kind}_high"] - row[f"{kind}_low"]) / _INTERVAL
    rates = win_rates(rows, order)
    known = np.isfinite(rates[np.triu_indices(len(order), 1)]).all()
    return stats.nash_average(order, rates, errors) if known else None


def fit_text(found: stats.Ladder) -> str:
    """Sentence that says whether one number per agent explains the win rates."""
    verdict = "explain" if found.dispersion == 1 else "do not explain"
    text = (
        f"One number per agent: the ratings {verdict} the win rates below (deviance {found.deviance:.1f}, "
        f"{found.freedom} degrees of freedom, p {found.fit:.2g})."
    )
    if found.dispersion > 1:
        text += (
            f" A rating depends on who else took part, so the intervals are {found.dispersion**0.5:.1f} times as wide "
            "as games alone would make them; for two agents their own match says more."
        )
    return text


def markdown(found: stats.Ladder, rows: Sequence[Row], command_line: str) -> str:
    """Page with the ladder and the matrix of win rates."""
    order = [rating.name for rating in found.ratings]
    rates = win_rates(rows, order)
    games = sorted({row["games"] for row in rows})
    each = f"{games[0]:,}" if len(games) == 1 else f"{games[0]:,} to {games[-1]:,}"
    lines = [
        "# Ladder",
        "",
        f"    {command_line}",
        "",
        f"{rows[0]['game']}, {each} games per pairing, every deal twice with the seats swapped. Elo by Bradley-Terry,",
        f"assuming independent games; 95 % intervals of the difference to `{found.anchor}`.",
        "",
    ]
    cells = []
    for number, r in enumerate(found.ratings, 1):
        interval = "-" if r.name == found.anchor else f"[{r.low:+.0f}, {r.high:+.0f}]"
        cells.append([number, f"`{r.name}`", f"{r.elo:+.0f}", interval, f"{r.points:g}", f"{r.games:g}"])
    lines += markdown_table(["", "agent", "Elo", "95 %", "points", "games"], cells, "rlrcrr")
    if found.freedom:
        lines += ["", fit_text(found)]
    if found.separated:
        lines += [
            "",
            "Some agents won or lost every game against the others: ratings across that gap depend on the prior.",
        ]
    mix = average(rows, order)
    if mix is not None and len(order) > 2:
        lines += [
            "",
            "Nash averaging: share of each agent in the equilibrium of the field, a mix that no agent beats, and win",
            "rate against that mix; 95 % by a parametric bootstrap of the win rates.",
            "",
        ]
        cells = [
            [
                f"`{name}`",
                f"{mix.share[i]:.2f} [{mix.share_low[i]:.2f}, {mix.share_high[i]:.2f}]",
                f"{mix.rate[i]:.3f} [{mix.rate_low[i]:.3f}, {mix.rate_high[i]:.3f}]",
            ]
            for i, name in enumerate(order)
        ]
        lines += markdown_table(["agent", "share", "win rate against the mix"], cells, "lrr")
    lines += ["", "Win rate of the row against the column:", ""]
    cells = [
        [f"{number} `{name}`", *("" if np.isnan(value) else f"{value:.3f}" for value in line)]
        for number, (name, line) in enumerate(zip(order, rates, strict=True), 1)
    ]
    lines += markdown_table(["", *(str(number) for number in range(1, len(order) + 1))], cells)
    return "\n".join(lines) + "\n"


@styled
def plot(found: stats.Ladder, rows: Sequence[Row]) -> Figure:
    """Plot the ratings with their intervals, and the matrix of win rates."""
    order = [rating.name for rating in found.ratings]
    names = plot_style.agent_aliases(order)
    rates, size = win_rates(rows, order), len(order)
    figure = plot_style.new_figure(plot_style.PAGE, 1.3 + 0.24 * max(size, 5))
    left, right = figure.subplots(1, 2, width_ratios=[4, 5])
    elo = np.array([[r.elo, r.elo - r.low, r.high - r.elo] for r in found.ratings]).T
    look = {"color": plot_style.SERIES[0], "marker": "o", "linestyle": "none"}
    anchor = names[order.index(found.anchor)]
    left.errorbar(elo[0], range(size), xerr=elo[1:], label=f"95 % interval of the difference to {anchor}", **look)
    left.set(yticks=range(size), ylim=(size - 0.5, -0.5), xlabel=f"Elo (0: {anchor})")
    left.set_yticklabels([f"{name}  {number}" for number, name in enumerate(names, 1)])
    left.grid(visible=False, axis="y")
    plot_style.few_ticks(left)
    plot_style.draw_matrix(right, 100 * rates, digits=0, most=100)
    right.set(xticks=range(size), yticks=range(size), title="games won (%), row against column")
    right.set_xticklabels([str(n) for n in range(1, size + 1)])
    right.set_yticklabels([str(n) for n in range(1, size + 1)])
    plot_style.legend_below(figure, [left])
    return figure


def write(out: Path, found: stats.Ladder, rows: Sequence[Row], command_line: str) -> str:
    """Write the files of a ladder; return the page."""
    page = markdown(found, rows, command_line)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    ratings = [{**asdict(rating), "rank": number} for number, rating in enumerate(found.ratings, 1)]
    mix = average(rows, found.names)
    content = {
        "command": command_line,
        "anchor": found.anchor,
        "separated": found.separated,
        "ratings": ratings,
        **{key: rows[0].get(key) for key in _SHARED},
        "provenance": provenance(),
        "pairings": [
            {**{k: v for k, v in row.items() if k not in _LEFT_OUT}, "code": code_text(row.get("provenance"))}
            for row in rows
        ],
        "names": found.names,
        "covariance": found.covariance.tolist(),
        "deviance": found.deviance,
        "freedom": found.freedom,
        "fit": found.fit,
        "dispersion": found.dispersion,
        "nash": mix and {key: np.asarray(value).tolist() for key, value in vars(mix).items()},
    }
    write_whole(out / "ladder.json", json.dumps(content, indent=1) + "\n")
    write_whole(out / "ladder.md", page)
    with writing(out / "ladder.csv"), replacing(out / "ladder.csv") as draft, draft.open("w", newline="") as file:
        names = "a b games wins draws losses truncated points win_rate wilson_low wilson_high mean_score_a mean_score_b"
        writer = csv.DictWriter(file, names.split(), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    plot_style.save_figure(plot(found, rows), out / "ladder")
    return page


def usage() -> str:
    """Help text of the command."""
    return (__doc__ or "").format(keys=describe_keys(LadderConfig(), HELP))


def _rate_tables(config: LadderConfig, line: str) -> str:
    """Play and rate a field at tables of three players or more; return the page."""
    rules = {"preset": config.rules} if isinstance(config.rules, str) else dict(config.rules)
    shared = {key: getattr(config, key) for key in ("anchor", "prior", "game", "seed", "batch")}
    out = Path(config.out)
    found, tables = rate_tables(config.agents, config.players, config.games, rules=rules, out=out, **shared)
    return write_tables(out, found, tables, config.players, config.game, line)


def main(argv: Sequence[str] | None = None) -> int:
    """Play the ladder that the command line describes; return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    try:
        config = read_arguments(arguments)
        given = [
            word for word in arguments if word.partition("=")[0] not in ("agents", "workers", "runtime", "address")
        ]
        line = shlex.join(["python", "-m", "muzero.ladder", f"agents=[{','.join(config.agents)}]", *given])
        if config.players > 2:
            print(_rate_tables(config, line))
            print(f"ladder.json and ladder.md are in {config.out}")
            return 0
        rows = play(config)
        found = rate(rows, config.agents, config.anchor, config.prior)
        page = write(Path(config.out), found, rows, line)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (RuntimeError, WriteError) as error:
        print(f"error: {error}; the games played so far are kept, the same command resumes", file=sys.stderr)
        return 1
    print(page)
    print(f"ladder.json, .csv, .md, .png and .svg are in {config.out}")
    return 0
