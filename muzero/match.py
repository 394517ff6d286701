"""What `python -m muzero.evaluate` does: a head-to-head of two agents, with statistics, resumable.

    python -m muzero.evaluate a=AGENT b=AGENT [games=1000] [key=value ...]

Every deal is played with a in each seat in turn and b in all others. Agents:
{agents}
Keys:
{keys}
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import env
from muzero import players, stats
from muzero.config import require
from muzero.evaluate import Games, joined, paired_games

HELP = {
    "a": "the agent in question",
    "b": "its opponent, in all other seats",
    "games": "rounded up to whole deals",
    "game": "by default the one that a network among the agents was trained for, else the first there is",
    "players": "at a table; by default as for game, else 2",
    "rules": "preset or options, such as rules={preset:official,episode:round}; by default as for game",
    "seed": "of the deals",
    "batch": "games in lockstep, per worker",
    "workers": "processes that share the games; 0 for one per core",
    "stop": "stop early once a sequential test is sure at this error rate, such as 0.05; 0 never stops",
    "margin": "with stop: win rates this close to the fair share count as equal",
    "out": "write FILE (json), and beside it .csv (every game) and .md; also what a repeated command resumes from",
}


@dataclass
class MatchConfig:
    """Settings of a match; `HELP` explains them."""

    a: str = ""
    b: str = ""
    games: int = 1000
    game: str = ""
    players: int = 0
    rules: Any = field(default_factory=dict)
    seed: int = 0
    batch: int = 256
    workers: int = 0
    stop: float = 0.0
    margin: float = 0.0
    out: str = ""


def read_arguments(arguments: list[str]) -> MatchConfig:
    """A checked configuration from key=value arguments."""
    for argument in arguments:
        require("=" in argument, f"argument {argument!r}", f"key=value with one of {', '.join(HELP)}", argument)
    try:
        given = OmegaConf.from_dotlist(arguments)
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(MatchConfig), given))
    except OmegaConfBaseException as error:
        raise ValueError(f"{str(error).splitlines()[0]}; keys are {', '.join(HELP)}") from None
    assert isinstance(config, MatchConfig)
    require(bool(config.a) and bool(config.b), "a and b", "two agents", (config.a, config.b))
    require(config.games >= 1, "games", "1 or more", config.games)
    require(config.batch >= 1, "batch", "1 or more", config.batch)
    require(config.workers >= 0, "workers", "0 or more", config.workers)
    require(0 <= config.stop < 1, "stop", "0 up to less than 1", config.stop)
    _settle_game(config)
    return config


def _settle_game(config: MatchConfig) -> None:
    """Fills in game, players and rules from the agents, and tries everything once."""
    known = [found for text in (config.a, config.b) if (found := players.game_of(players.parse(text)))]
    for found in known:
        config.game = config.game or found["game"]
        config.players = config.players or found["players"]
        config.rules = config.rules or found.get("rules", {})
    config.game = config.game or env.games()[0]
    config.players = config.players or 2
    config.rules = {"preset": config.rules} if isinstance(config.rules, str) else dict(config.rules)
    require(config.game in env.games(), "game", f"one of {', '.join(env.games())}", config.game)
    tables = env.make(config.game, 1, config.players, config.rules)
    for text in (config.a, config.b):
        player = players.parse(text)
        if player.kind == "bot":
            tables.bot(player.what)
        players.build(player, config.game, config.players, batch=1)


# ---- playing -----------------------------------------------------------------------------------------------------

_agents: tuple[Any, Any] | None = None  # of this process


def _start(config: MatchConfig) -> None:
    global _agents
    torch.set_num_threads(1)
    made = [
        players.build(players.parse(text), config.game, config.players, batch=config.batch)
        for text in (config.a, config.b)
    ]
    _agents = made[0], made[1]


def _play(config: MatchConfig, first: int, deals: int) -> Games:
    assert _agents is not None
    return paired_games(
        *_agents,
        deals,
        game=config.game,
        players=config.players,
        rules=config.rules,
        seed=config.seed,
        first_deal=first,
        batch=config.batch,
    )


def chunks(config: MatchConfig, done: int) -> Iterator[tuple[int, int]]:
    """First deal and number of deals of each piece of work that is left."""
    total, each = -(-config.games // config.players), max(1, config.batch // config.players)
    for first in range(done, total, each):
        yield first, min(each, total - first)


def played(config: MatchConfig, done: int) -> Iterator[Games]:
    """Plays what is left, in order, on all workers."""
    work = list(chunks(config, done))
    count = min(config.workers or os.cpu_count() or 1, len(work))
    if count <= 1:
        _start(config)
        for first, deals in work:
            yield _play(config, first, deals)
        return
    with ProcessPoolExecutor(count, get_context("spawn"), _start, (config,)) as crew:
        waiting: list[Future[Games]] = []
        try:
            for first, deals in work:
                waiting.append(crew.submit(_play, config, first, deals))
                if len(waiting) > count:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


# ---- results -----------------------------------------------------------------------------------------------------


def report(config: MatchConfig, games: Games, seconds: float) -> dict[str, Any]:
    """The figures of a match."""
    n, points, fair = len(games), float(games.won.sum()), 1 / config.players
    best = games.won == 1
    interval = stats.wilson(points, n)
    rating = stats.elo(points, n) if config.players == 2 else None
    out: dict[str, Any] = {
        "a": config.a,
        "b": config.b,
        "game": config.game,
        "players": config.players,
        "rules": config.rules,
        "seed": config.seed,
        "games": n,
        "wins": int(best.sum()),
        "draws": int(((games.won > 0) & ~best).sum()),
        "losses": int((games.won == 0).sum()),
        "truncated": int(games.truncated.sum()),
        "points": points,
        "win_rate": games.win_rate,
        "fair_share": fair,
        "wilson_low": interval.low,
        "wilson_high": interval.high,
        "elo": rating.estimate if rating else None,
        "elo_low": rating.low if rating else None,
        "elo_high": rating.high if rating else None,
        "p_value": stats.binomial_test(points, n, fair).p_value,
        "z": stats.z_test(points, n, fair).statistic,
        "mean_score_a": float(games.scores_a.mean()),
        "mean_score_b": float(games.scores_b.mean()),
        "mean_decisions": float(games.decisions.mean()),
        "seconds": seconds,
    }
    names = env.make(config.game, 1, config.players, config.rules).stat_names
    turns = games.stats[:, names.index("turns")] if "turns" in names else games.decisions
    out["mean_turns"] = float(turns.mean())
    if config.players == 2 and n >= 4:
        reduction = stats.variance_reduction(games.won)
        bootstrap = stats.paired_bootstrap(games.won)
        out["paired_low"], out["paired_high"] = bootstrap.low, bootstrap.high
        out["pairing_factor"], out["seat_effect"] = reduction.factor, reduction.seat_effect
    if config.stop:
        test = stats.sequential_test(_by_deal(config, games), fair, config.margin, config.stop)
        out["sequential"] = {"decision": test.decision, "low": test.low, "high": test.high, "p_value": test.p_value}
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in out.items()}


def _by_deal(config: MatchConfig, games: Games) -> Any:
    return games.won.reshape(-1, config.players).mean(1)


def markdown(r: dict[str, Any]) -> str:
    """The table for people."""
    elo = f"{r['elo']:+.0f} [{_signed(r['elo_low'])}, {_signed(r['elo_high'])}]" if r.get("elo") is not None else "-"
    rows = {
        "games": f"{r['games']}, {r['players']} players, seed {r['seed']}",
        "won / drawn / lost": f"{r['wins']} / {r['draws']} / {r['losses']} ({r['truncated']} cut off)",
        "win rate": f"{r['win_rate']:.3f} [{r['wilson_low']:.3f}, {r['wilson_high']:.3f}], fair {r['fair_share']:.3f}",
        "Elo difference": elo,
        "p (two-sided)": f"{r['p_value']:.2g}",
        "mean score": f"{r['mean_score_a']:.1f} against {r['mean_score_b']:.1f}",
        "mean turns, decisions": f"{r['mean_turns']:.1f}, {r['mean_decisions']:.1f}",
        "seconds per game": f"{r['seconds'] / r['games']:.3g}",
    }
    if "pairing_factor" in r and r["pairing_factor"] is not None:
        rows["paired deals"] = (
            f"interval [{r['paired_low']:.3f}, {r['paired_high']:.3f}], as good as "
            f"{r['pairing_factor']:.2f} x as many unpaired games"
        )
    lines = [f"`{r['a']}` against `{r['b']}`, {r['game']}", "", "| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())]) + "\n"


def _signed(number: float | None) -> str:
    return "inf" if number is None else f"{number:+.0f}"


def write_csv(path: Path, config: MatchConfig, games: Games) -> None:
    """A row per game."""
    names = env.make(config.game, 1, config.players, config.rules).stat_names
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["seed", "deal", "seat_a", *(f"score_{i}" for i in range(config.players)), "won", "truncated", *names]
        )
        for i in range(len(games)):
            row = [config.seed, games.deals[i], games.seats[i], *games.scores[i], f"{games.won[i]:g}"]
            writer.writerow([*row, int(games.truncated[i]), *games.stats[i]])


class Progressing:
    """Keeps what has been played beside `out`, so that a repeated command goes on."""

    def __init__(self, config: MatchConfig) -> None:
        kept = {k: v for k, v in asdict(config).items() if k not in ("games", "workers", "out", "stop", "margin")}
        self.key = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
        self.path = Path(config.out).with_suffix(".partial.npz") if config.out else None

    def load(self) -> list[Games]:
        """What an earlier process with the same settings has played."""
        if self.path is None or not self.path.exists():
            return []
        with np.load(self.path, allow_pickle=False) as saved:
            if str(saved["key"]) != self.key:
                return []
            return [Games(**{f.name: saved[f.name] for f in fields(Games)})]

    def save(self, games: Games) -> None:
        """Writes everything played so far."""
        if self.path is not None:
            draft = self.path.with_suffix(".draft.npz")
            np.savez(draft, key=np.array(self.key), **vars(games))
            draft.replace(self.path)


def play_match(config: MatchConfig, quiet: bool = False) -> tuple[dict[str, Any], Games]:
    """Plays a match, or the rest of one; returns its figures and its games."""
    started = time.perf_counter()
    store = Progressing(config)
    if store.path is not None:
        store.path.parent.mkdir(parents=True, exist_ok=True)
    parts = store.load()
    done = len(parts[0]) // config.players if parts else 0
    total = -(-config.games // config.players) * config.players
    if done * config.players > total:
        parts, done = [_first(parts[0], total)], total // config.players
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[state]}"), disable=quiet) as bar:
        task = bar.add_task("games", total=total, completed=done * config.players, state="")
        for part in played(config, done):
            parts = [joined([*parts, part])]
            store.save(parts[0])
            low, high = parts[0].wilson()
            state = f"win rate {parts[0].win_rate:.3f} [{low:.3f}, {high:.3f}]"
            bar.update(task, completed=len(parts[0]), state=state)
            if config.stop:
                deals = _by_deal(config, parts[0])
                if stats.sequential_test(deals, 1 / config.players, config.margin, config.stop).decision != "continue":
                    break
    games = parts[0]
    return report(config, games, time.perf_counter() - started), games


def _first(games: Games, count: int) -> Games:
    return Games(**{name: array[:count] for name, array in vars(games).items()})


def usage() -> str:
    """The help text."""
    agents = "\n".join(f"    {line}" if line else "" for line in (players.__doc__ or "").strip().splitlines()[2:])
    defaults = asdict(MatchConfig())
    keys = "\n".join(f"    {name}={defaults[name] or ''}".ljust(20) + f" {text}" for name, text in HELP.items())
    return (__doc__ or "").format(agents=agents, keys=keys)


def main() -> None:
    """Plays the match that the command line describes."""
    arguments = sys.argv[1:]
    if not arguments or {"-h", "--help"} & set(arguments):
        print(usage())
        return
    try:
        config = read_arguments(arguments)
        result, games = play_match(config)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(markdown(result))
    if config.out:
        out = Path(config.out)
        out.write_text(json.dumps(result, indent=1) + "\n")
        out.with_suffix(".md").write_text(markdown(result))
        write_csv(out.with_suffix(".csv"), config, games)
        print(f"{out}, {out.with_suffix('.csv')}, {out.with_suffix('.md')}")


if __name__ == "__main__":
    main()
