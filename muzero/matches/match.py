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
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import env
from muzero import stats
from muzero.agents import agent_spec as players
from muzero.config import require
from muzero.matches.paired_games import GameRecordWriter, Games, InFlightStore, concatenate, first_games
from muzero.matches.workers import RUNTIMES, GameCounter, MatchChunk, WorkerPool, make_worker_pool, only_bots
from muzero.runs.files import save_whole, write_whole

T = TypeVar("T")
_LOOKS = 8  # with stop=: at the results, at least
_BOT_BATCH = 1 << 13  # games of hand-written players at a time: about a second

HELP = {
    "a": "the agent in question",
    "b": "its opponent, in all other seats",
    "games": "rounded up to whole deals",
    "game": "by default the one that a network among the agents was trained for, else the first there is",
    "players": "at a table; by default as for game, else 2",
    "rules": "a preset, or options, such as rules.preset=official rules.episode=round; by default as for game",
    "seed": "of the deals",
    "batch": "games that a worker plays at a time",
    "workers": "processes that share the games (threads if both agents are bots); 0 for one per core",
    "runtime": "local, or ray: the games are tasks of Ray",
    "address": "with runtime=ray: of a cluster, auto for the one this machine belongs to; by default one is started",
    "stop": "stop early once a sequential test is sure at this error rate, such as 0.05; 0 never stops",
    "margin": "with stop: win rates this close to the fair share count as equal",
    "out": "write FILE (json), and beside it .csv (every game) and .md; also what a repeated command resumes from",
    "replays": "write games to DIR as replays, which python -m env.game_record prints and verifies",
    "max_replays": "with replays: how many, from the first deal on",
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
    batch: int = 512
    workers: int = 0
    runtime: str = "local"
    address: str = ""
    stop: float = 0.0
    margin: float = 0.0
    out: str = ""
    replays: str = ""
    max_replays: int = 100

    @property
    def deals(self) -> int:
        """To play."""
        return -(-self.games // self.players)

    @property
    def recorder(self) -> GameRecordWriter | None:
        """Of the replays that are wanted."""
        kept = min(self.deals, -(-self.max_replays // self.players))
        return GameRecordWriter(Path(self.replays), kept, self.a, self.b) if self.replays and kept else None

    def piece(self, first: int, deals: int) -> MatchChunk:
        """Some of its deals."""
        batch = max(self.batch, deals * self.players)
        given = (self.a, self.b, self.game, self.players, self.rules, self.seed, batch, first, deals)
        return MatchChunk(*given, self.recorder)


def read_arguments(arguments: list[str]) -> MatchConfig:
    """A checked configuration from key=value arguments."""
    config, given = parse_overrides(MatchConfig, arguments, HELP)
    require(bool(config.a) and bool(config.b), "a and b", "two agents", (config.a, config.b))
    require(config.games >= 1, "games", "1 or more", config.games)
    plain = Path(config.out).suffix in ("", ".json")  # x.1 and x.2 would share what stands beside them
    require(plain, "out", "the name of the json file, as results/x.json; the others stand beside it", config.out)
    taken = bool(config.out) and Path(config.out).is_dir()
    require(not taken, "out", "the name of a file", f"{config.out}, which is a directory")
    for name, place in (("out", Path(config.out).parent), ("replays", Path(config.replays))):
        if getattr(config, name):
            _make_directory(name, place)
    require(config.batch >= 1, "batch", "1 or more", config.batch)
    require(config.workers >= 0, "workers", "0 or more", config.workers)
    require(config.runtime in RUNTIMES, "runtime", f"one of {', '.join(RUNTIMES)}", config.runtime)
    require(0 <= config.stop < 1, "stop", "0 up to less than 1", config.stop)
    require(0 <= config.margin < 0.5, "margin", "0 up to less than 0.5", config.margin)
    require(config.max_replays >= 0, "max_replays", "0 or more", config.max_replays)
    require(config.stop > 0 or not config.margin, "margin", "none without stop=", config.margin)
    useless = "max_replays" in given and not config.replays
    require(not useless, "max_replays", "none without replays=DIR", config.max_replays)
    return with_defaults(config)


def parse_overrides(kind: type[T], arguments: Sequence[str], keys: Mapping[str, str]) -> tuple[T, set[str]]:
    """A configuration, of a kind that has `rules`, from key=value arguments, and the keys that were given."""
    for argument in arguments:
        require("=" in argument, f"argument {argument!r}", f"key=value with one of {', '.join(keys)}", argument)
    try:
        given = OmegaConf.from_dotlist(list(arguments))
        config: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), given))
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None)
        where = f"{key}: " if key in keys else ""
        raise ValueError(f"{where}{str(error).splitlines()[0]}; keys are {', '.join(keys)}") from None
    good = isinstance(config.rules, str | Mapping)
    require(good, "rules", "a preset, or options as in rules.episode=round", config.rules)
    return config, {str(key) for key in given}


def _make_directory(name: str, place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{name}: expected a directory that can be made, got {place}: {error.strerror}") from None


def with_defaults(config: MatchConfig) -> MatchConfig:
    """The match with game, players and rules filled in from its agents, everything having been tried once."""
    config = replace(config, a=players.resolve(config.a), b=players.resolve(config.b))
    agents = [players.parse(text) for text in (config.a, config.b)]
    trained = {player.text: found for player in agents if (found := players.trained_for(player))}
    free = not config.rules
    for found in trained.values():
        config.game = config.game or found["game"]
        if found["game"] == config.game:
            config.players = config.players or found["players"]
            config.rules = config.rules or found.get("rules", {})
    config.game = config.game or env.games()[0]
    config.players = config.players or 2
    config.rules = {"preset": config.rules} if isinstance(config.rules, str) else dict(config.rules)
    require(config.game in env.games(), "game", f"one of {', '.join(env.games())}", config.game)
    tables = env.make(config.game, 1, config.players, config.rules)
    for player in agents:
        if player.kind == "bot":
            tables.bot(player.what)
        players.build(player, config.game, config.players, batch=1)
    if free:
        require_same_rules(tables, trained)
    return config


def require_same_rules(tables: env.VecEnv, trained: dict[str, dict[str, Any]]) -> None:
    """Networks that were trained for other rules than those of the match: only if the rules were asked for."""
    for text, found in trained.items():
        theirs = env.make(tables.game, 1, tables.num_players, found.get("rules", {})).rules
        differing = [f"{name}={theirs[name]}" for name in theirs if theirs[name] != tables.rules[name]]
        expected = ", ".join(f"{name}={tables.rules[name]}" for name in theirs if theirs[name] != tables.rules[name])
        require(not differing, f"agent {text!r}, rules", f"{expected} as the other agent (or say rules=...)", differing)


# ---- playing -----------------------------------------------------------------------------------------------------


def chunks(config: MatchConfig, done: int) -> Iterator[tuple[int, int]]:
    """First deal and number of deals of each piece of work that is left.

    The pieces are of a size, and an even number, so that workers finish together. They depend neither on the workers
    nor on where an earlier process stopped.
    """
    recorded = min(config.recorder.deals, config.deals) if config.recorder else 0
    quick = only_bots(config.a, config.b) and not config.stop
    parts = [(0, recorded, config.batch), (recorded, config.deals, max(config.batch, _BOT_BATCH))]
    most = min(config.batch, -(-config.deals // _LOOKS) * config.players) if config.stop else config.batch
    for start, end, batch in parts if quick else [(0, config.deals, most)]:
        pieces = -(-(end - start) // max(1, batch // config.players))
        each = -(-(end - start) // (pieces + pieces % 2)) if pieces > 1 else end - start
        for first in range(start, end, max(1, each)):
            last, first = min(first + each, end), max(first, done)
            if first < last:
                yield first, last - first


def unrecorded(config: MatchConfig, done: int) -> Iterator[tuple[int, int]]:
    """Deals among those done whose replays are wanted and missing, as `chunks`."""
    recorder = config.recorder
    if recorder is None:
        return
    seats = range(config.players)
    rules = env.make(config.game, 1, config.players, config.rules).rules
    each = max(1, config.batch // config.players)
    for first in range(0, min(done, recorder.deals), each):
        deals = min(each, done - first)
        wanted = range(first, min(first + deals, recorder.deals))
        if not all(recorder.has(deal, seat, config.seed, rules) for deal in wanted for seat in seats):
            yield first, deals


# ---- results -----------------------------------------------------------------------------------------------------


def report(config: MatchConfig, games: Games, seconds: float | None, fresh: int, failures: int = 0) -> dict[str, Any]:
    """The figures of a match, of which `fresh` games have just been played in so many seconds (None where others were
    played at the same time), `failures` of them again because who played them had died."""
    n, points, fair = len(games), float(games.won.sum()), 1 / config.players
    best = games.won == 1
    interval, best_or_tied = stats.wilson(points, n), stats.wilson(int((games.won > 0).sum()), n)
    rating = stats.elo(points, n) if config.players == 2 else None
    tables = env.make(config.game, 1, config.players, config.rules)
    whole = ~games.truncated.astype(bool)
    out: dict[str, Any] = {
        "a": config.a,
        "b": config.b,
        "game": config.game,
        "players": config.players,
        "version": tables.info.version,
        "rules": tables.rules,
        "weights_a": players.fingerprint(config.a),
        "weights_b": players.fingerprint(config.b),
        "seed": config.seed,
        "batch": config.batch,
        "games": n,
        "wins": int(best.sum()),
        "draws": int(((games.won > 0) & ~best).sum()),
        "losses": int((games.won == 0).sum()),
        "truncated": int(games.truncated.sum()),
        "whole_wins": int((best & whole).sum()),
        "whole_draws": int(((games.won > 0) & ~best & whole).sum()),
        "whole_losses": int(((games.won == 0) & whole).sum()),
        "failures": failures,
        "points": points,
        "win_rate": games.win_rate,
        "best_or_tied": best_or_tied.estimate,
        "best_or_tied_low": best_or_tied.low,
        "best_or_tied_high": best_or_tied.high,
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
        "seconds_per_game": seconds / fresh if fresh and seconds is not None else None,
    }
    names = tables.stat_names
    turns = games.stats[:, names.index("turns")] if "turns" in names else games.decisions
    out["mean_turns"] = float(turns.mean())
    if n >= 2 * config.players:
        bootstrap = stats.win_rate_of_deals(games.won, per_deal=config.players)
        out["paired_low"], out["paired_high"] = bootstrap.low, bootstrap.high
    if config.players == 2 and n >= 4:
        reduction, deals = stats.variance_reduction(games.won), stats.mcnemar_deals(games.won)
        out["pairing_factor"], out["seat_effect"] = reduction.factor, reduction.seat_effect
        out["mcnemar"] = {"better": deals.better, "worse": deals.worse, "tied": deals.tied, "p_value": deals.p_value}
    if config.stop:
        test = _test(config, games)
        out["sequential"] = {"decision": test.decision, "low": test.low, "high": test.high, "p_value": test.p_value}
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in out.items()}


def _test(config: MatchConfig, games: Games) -> stats.SequentialTest:
    """What the test that may stop the match says of the games so far."""
    by_deal = games.won.reshape(-1, config.players).mean(1)
    return stats.sequential_test(by_deal, 1 / config.players, config.margin, config.stop)


def markdown(r: dict[str, Any]) -> str:
    """The table for people."""
    beyond = "-inf" if r["win_rate"] == 0 else "+inf"
    ends = _signed(r["elo"], beyond), _signed(r["elo_low"], "-inf"), _signed(r["elo_high"], "+inf")
    elo = "{} [{}, {}]".format(*ends) if r["players"] == 2 else "-"
    again = f", {r['failures']} played again after a death" if r["failures"] else ""
    rows = {
        "games": f"{r['games']}, {r['players']} players, seed {r['seed']}",
        "won / drawn / lost": f"{r['wins']} / {r['draws']} / {r['losses']} ({r['truncated']} cut off{again})",
        "win rate": f"{r['win_rate']:.3f} [{r['wilson_low']:.3f}, {r['wilson_high']:.3f}], fair {r['fair_share']:.3f}",
        "best or tied": f"{r['best_or_tied']:.3f} [{r['best_or_tied_low']:.3f}, {r['best_or_tied_high']:.3f}]",
        "Elo difference": elo,
        "p (two-sided)": f"{r['p_value']:.2g}",
        "mean score": f"{r['mean_score_a']:.1f} against {r['mean_score_b']:.1f}",
        "mean turns, decisions": f"{r['mean_turns']:.1f}, {r['mean_decisions']:.1f}",
        "seconds per game": "-" if r["seconds_per_game"] is None else f"{r['seconds_per_game']:.3g}",
    }
    if "paired_low" in r:
        rows["by deals"] = f"win rate within [{r['paired_low']:.3f}, {r['paired_high']:.3f}]"
        if r.get("pairing_factor") is not None:
            rows["by deals"] += f", as good as {r['pairing_factor']:.2f} x as many unpaired games"
    if "mcnemar" in r:
        m = r["mcnemar"]
        rows["deals to a / even / to b"] = f"{m['better']} / {m['tied']} / {m['worse']}, p {m['p_value']:.2g} (McNemar)"
    if "sequential" in r:
        s = r["sequential"]
        rows["sequential test"] = (
            f"{s['decision']}; interval [{s['low']:.3f}, {s['high']:.3f}], p {s['p_value']:.2g}: valid whenever the "
            "match stopped, as the interval, Elo and p above are not"
        )
    lines = [f"`{r['a']}` against `{r['b']}`, {r['game']}", "", "| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())]) + "\n"


def _signed(number: float | None, otherwise: str) -> str:
    return otherwise if number is None else f"{number:+.0f}"


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


# Settings that do not change what happens in a game.
_NOT_OF_GAMES = ("games", "workers", "runtime", "address", "out", "stop", "margin", "replays", "max_replays")


class MatchStore:
    """Keeps what has been played beside `out`, so that a repeated command goes on."""

    def __init__(self, config: MatchConfig) -> None:
        kept = {k: v for k, v in asdict(config).items() if k not in _NOT_OF_GAMES}
        tables = env.make(config.game, 1, config.players, config.rules)
        kept |= {"version": tables.info.version, "rules": tables.rules}
        kept["weights"] = [players.fingerprint(config.a), players.fingerprint(config.b)]
        self.key = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
        self.path = Path(config.out).with_suffix(".partial.npz") if config.out else None
        self.players = config.players
        self._slow = not only_bots(config.a, config.b) and config.runtime == "local"

    def piece(self, config: MatchConfig, first: int, deals: int) -> MatchChunk:
        """Some of the match's deals; if there are networks to wait for, their games are kept while under way, too."""
        piece = config.piece(first, deals)
        if self.path is None or not self._slow:
            return piece
        return replace(piece, keeper=InFlightStore(self._under_way(str(first)), f"{self.key} {first} {deals}"))

    def _under_way(self, first: str) -> Path:
        assert self.path is not None
        return self.path.with_name(f"{self.path.name.removesuffix('.partial.npz')}.under_way-{first}.npz")

    def load(self, deals: int) -> list[Games]:
        """What an earlier process with the same settings has played, at most so many deals: one series, or none."""
        if self.path is None or not self.path.exists():
            return []
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                if str(saved["key"]) != self.key:
                    other = "other settings, rules, weights or precision (bf16=)"
                    warnings.warn(
                        f"{self.path} has games of {other}: the match begins anew", RuntimeWarning, stacklevel=2
                    )
                    return []
                games = Games(**{f.name: saved[f.name] for f in fields(Games)})
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            warnings.warn(f"{self.path} cannot be read, the match begins anew: {error}", RuntimeWarning, stacklevel=2)
            return []
        return [first_games(games, min(len(games), deals * self.players))]

    def save(self, games: Games) -> None:
        """Writes everything played so far."""
        if self.path is not None:
            save_whole(self.path, key=np.array(self.key), **vars(games))
            self._forget_under_way(len(games) // self.players)

    def finish(self) -> None:
        """Nothing will be gone on with, whatever was under way."""
        if self.path is not None:
            self._forget_under_way(None)

    def _forget_under_way(self, before: int | None) -> None:
        assert self.path is not None
        for old in self.path.parent.glob(self._under_way("*").name):
            first = old.stem.rpartition("-")[2]
            if before is None or (first.isdigit() and int(first) < before):
                old.unlink(missing_ok=True)


def play_match(
    config: MatchConfig, quiet: bool = False, pool: WorkerPool | None = None
) -> tuple[dict[str, Any], Games]:
    """Plays a match, or the rest of one; returns its figures and its games.

    Args:
      quiet: show no progress.
      pool: who plays; by default whoever the configuration asks for.
    """
    own, store = pool is None, MatchStore(config)
    pool = pool or make_worker_pool([config.a, config.b], config.workers, config.runtime, config.address)
    try:
        result = _play_match(config, store, quiet, pool)
    finally:
        if own:
            pool.close()
    if config.stop and own:
        store.finish()
    return result


@contextmanager
def _followed(tally: GameCounter, games: float, points: float, show: Callable[[float, float], None]) -> Iterator[None]:
    """Shows twice a second what has ended, in pieces under way too, beside what had been played earlier. Short games
    come first, so it is only an impression."""
    first, over = tally.total(), threading.Event()

    def follow() -> None:
        while not over.wait(0.5):
            new = [now - then for now, then in zip(tally.total(), first, strict=True)]
            if games + new[0]:
                show(games + new[0], points + new[1])

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _play_match(config: MatchConfig, store: MatchStore, quiet: bool, pool: WorkerPool) -> tuple[dict[str, Any], Games]:
    started, failed = time.perf_counter(), pool.failures
    if store.path is not None:
        store.path.parent.mkdir(parents=True, exist_ok=True)
    parts, total = store.load(config.deals), config.deals * config.players
    before = len(parts[0]) if parts else 0
    done = before // config.players
    for _ in pool.play([config.piece(*chunk) for chunk in unrecorded(config, done)]):
        pass  # played once more for its replays
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[state]}"), disable=quiet) as bar:
        task = bar.add_task("games", total=total, completed=before, state="")

        def show(games: float, points: float) -> None:
            rate = stats.wilson(points, round(games))
            early = " (short games first)" if games < total else ""
            state = f"win rate {rate.estimate:.3f} [{rate.low:.3f}, {rate.high:.3f}]{early}"
            bar.update(task, completed=min(games, total), state=state)

        left = [] if config.stop and parts and _test(config, parts[0]).decision != "continue" else chunks(config, done)
        points = float(parts[0].won.sum()) if parts else 0.0
        with nullcontext() if quiet or pool.tally is None else _followed(pool.tally, before, points, show):
            for part in pool.play([store.piece(config, *chunk) for chunk in left]):
                parts = [concatenate([*parts, part])]
                store.save(parts[0])
                if pool.tally is None:
                    show(len(parts[0]), float(parts[0].won.sum()))
                if config.stop and _test(config, parts[0]).decision != "continue":
                    break
        show(len(parts[0]), float(parts[0].won.sum()))
    games = parts[0]
    seconds, fresh, failures = time.perf_counter() - started, len(games) - before, pool.failures - failed
    return report(config, games, seconds, fresh, failures), games


def write(out: Path, config: MatchConfig, result: dict[str, Any], games: Games) -> None:
    """The three files of a match."""
    write_whole(out, json.dumps(result, indent=1) + "\n")
    write_whole(out.with_suffix(".md"), markdown(result))
    write_csv(out.with_suffix(".csv"), config, games)


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
    except RuntimeError as error:
        kept = "; what was played is kept, the same command goes on" if config.out else ""
        print(f"error: {error}{kept}", file=sys.stderr)
        sys.exit(1)
    out = Path(config.out)
    if config.out:  # before anything is printed: whoever reads it may have gone
        write(out, config, result, games)
    print(markdown(result))
    if config.out:
        print(f"{out}, {out.with_suffix('.csv')}, {out.with_suffix('.md')}")
    if config.recorder:
        recorded = min(config.recorder.deals * config.players, len(games))
        print(f"{recorded} replays in {config.replays}")
