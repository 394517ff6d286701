"""Command lines of experiments: shared options, and the command that results record."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from muzero.config.fields import require


def command_text(script: str | Path, arguments: Sequence[str]) -> str:
    """Command line that runs an experiment again, whichever way it was started."""
    return shlex.join(["python", "-m", f"experiments.{Path(script).stem}", *arguments])


def make_parser(doc: str | None, games: str = "per match, rounded up to whole deals") -> argparse.ArgumentParser:
    """Parser with the options of all experiments; `games` explains what --games counts."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000, help=f"{games} (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory for the results")
    return parser


def add_run_options(parser: argparse.ArgumentParser, iterations: str = "", bots: bool = False) -> None:
    """Adds options that choose runs, their checkpoints, and opponents.

    Args:
      parser: parser that gets the options.
      iterations: description of the default, if several iterations can be chosen; "" for just one.
      bots: whether to add --bots.
    """
    parser.add_argument("--runs", nargs="+", type=Path, required=True, metavar="RUN", help="run directories")
    if iterations:
        parser.add_argument(
            "--iterations", nargs="+", type=int, metavar="I", help=f"checkpoints (default: {iterations})"
        )
    else:
        parser.add_argument("--iteration", type=int, metavar="I", help="checkpoint (default: each run's newest)")
    if bots:
        parser.add_argument("--bots", nargs="+", metavar="BOT", help="opponents (default: the run's curriculum)")


def add_match_options(parser: argparse.ArgumentParser) -> None:
    """Adds options for how matches are played and by which processes."""
    parser.add_argument("--simulations", type=int, help="per decision (default: as in training)")
    parser.add_argument(
        "--rules",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="rules to play by instead of those of training, such as episode=round for single rounds",
    )
    parser.add_argument("--batch", type=int, default=256, help="games that a worker plays at once (default: 256)")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (default: one per core)")
    parser.add_argument(
        "--runtime", default="local", choices=("local", "ray"), help="runtime of the workers (default: local)"
    )
    parser.add_argument("--address", default="", help="address of a Ray cluster (default: start one here)")


def run_experiment(parser: argparse.ArgumentParser, experiment: Callable[..., None], argv: Sequence[str] | None) -> int:
    """Parses the command line, runs `experiment(options, command)` and returns the exit code.

    Bad input is reported in one line, not as a traceback.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = parser.parse_args(arguments)
    try:
        require(options.games >= 1, "--games", "1 or more", options.games)
        experiment(options, command_text(sys.modules[experiment.__module__].__file__ or "", arguments))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
