"""Head-to-head match of two agents, with statistics; a repeated command resumes.

    python -m muzero.evaluate a=AGENT b=AGENT [games=1000] [key=value ...]

Every deal is played with a in each seat in turn and b in all others. Agents:
{agents}
Keys:
{keys}
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from muzero.agents import agent_spec
from muzero.config.fields import require, require_path
from muzero.matches.arguments import SHARED_HELP, describe_keys, parse_overrides
from muzero.matches.match import play_match
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.matches.results import markdown, write
from muzero.matches.workers import RUNTIMES
from muzero.runs.files import WriteError

HELP = {
    "a": "the agent in question",
    "b": "its opponent, in all other seats",
    "games": "number of games, rounded up to whole deals",
    "game": SHARED_HELP["game"],
    "players": "players at a table; by default as for game, else 2",
    "rules": SHARED_HELP["rules"],
    "seed": SHARED_HELP["seed"],
    "batch": SHARED_HELP["batch"],
    "workers": "processes that share the games (threads if both agents are bots); 0 for one per core",
    "runtime": SHARED_HELP["runtime"],
    "address": SHARED_HELP["address"],
    "stop": "stop early once a sequential test is sure at this error rate, such as 0.05; 0 never stops",
    "margin": "with stop: win rates this close to the fair share count as equal",
    "better_by": "with stop: stop once a is better than the fair share, or not better by this much, such as 0.02",
    "luck": "take luck out of the results, by the values of this agent's network, or linear: a model without a network",
    "out": "write FILE (json), and beside it .csv (every game) and .md; a repeated command resumes from it",
    "records": "write games to DIR as game records, which python -m env.game_record prints and verifies",
    "max_records": "with records: how many, from the first deal on",
}


def read_arguments(arguments: list[str]) -> MatchConfig:
    """Make a checked configuration, defaults filled in, from key=value arguments."""
    config, given = parse_overrides(MatchConfig, arguments, HELP)
    require(bool(config.a) and bool(config.b), "a and b", "two agents", (config.a, config.b))
    require(config.games >= 1, "games", "1 or more", config.games)
    plain = Path(config.out).suffix in ("", ".json")  # x.1 and x.2 would share their .csv and .md files
    require(plain, "out", "the name of the json file, as results/x.json; the others stand beside it", config.out)
    for name in ("out", "records"):
        require_path(name, getattr(config, name))
    taken = bool(config.out) and Path(config.out).is_dir()
    require(not taken, "out", "the name of a file", f"{config.out}, which is a directory")
    for name, directory in (("out", Path(config.out).parent), ("records", Path(config.records))):
        if getattr(config, name):
            _make_directory(name, directory)
    require(config.batch >= 1, "batch", "1 or more", config.batch)
    require(config.workers >= 0, "workers", "0 or more", config.workers)
    require(config.runtime in RUNTIMES, "runtime", f"one of {', '.join(RUNTIMES)}", config.runtime)
    require(0 <= config.stop < 1, "stop", "0 up to less than 1", config.stop)
    require(0 <= config.margin < 0.5, "margin", "0 up to less than 0.5", config.margin)
    require(config.max_records >= 0, "max_records", "0 or more", config.max_records)
    require(config.stop > 0 or not config.margin, "margin", "none without stop=", config.margin)
    require(0 <= config.better_by < 0.5, "better_by", "0 up to less than 0.5", config.better_by)
    require(config.stop > 0 or not config.better_by, "better_by", "none without stop=", config.better_by)
    require(not (config.margin and config.better_by), "better_by", "none with margin=", config.better_by)
    useless = "max_records" in given and not config.records
    require(not useless, "max_records", "none without records=DIR", config.max_records)
    return with_defaults(config)


def _make_directory(name: str, directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{name}: expected a directory that can be made, got {directory}: {error.strerror}") from None


def usage() -> str:
    """Help text of the command."""
    agents = "\n".join(f"    {line}" if line else "" for line in (agent_spec.__doc__ or "").strip().splitlines()[2:])
    return (__doc__ or "").format(agents=agents, keys=describe_keys(MatchConfig(), HELP))


def main(argv: Sequence[str] | None = None) -> int:
    """Play the match that the command line describes; return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    kept = ""
    try:
        config = read_arguments(arguments)
        kept = "; the games played so far are kept, the same command resumes" if config.out else ""
        result, games = play_match(config)
        out = Path(config.out)
        if config.out:  # files are written before anything is printed: the reader of a pipe may have gone
            write(out, config, result, games)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (RuntimeError, WriteError) as error:
        print(f"error: {error}{kept}", file=sys.stderr)
        return 1
    print(markdown(result))
    if config.out:
        print(f"{out}, {out.with_suffix('.csv')}, {out.with_suffix('.md')}")
    if config.record_writer:
        recorded = min(config.record_writer.deals * config.players, len(games))
        print(f"{recorded} game records in {config.records}")
    return 0
