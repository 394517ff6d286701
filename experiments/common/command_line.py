"""Command lines of experiments: shared options, and the command that results record."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from muzero.config.fields import require

RESULTS = Path(__file__).resolve().parents[1] / "results"  # results of record, under version control
OWN = Path("runs") / "experiments"  # results of everybody's own, in the current directory


def command_text(script: str | Path, arguments: Sequence[str]) -> str:
    """Command line that runs an experiment again, whichever way it was started."""
    return shlex.join(["python", "-m", f"experiments.{Path(script).stem}", *arguments])


def make_parser(doc: str | None, games: str = "per match, rounded up to whole deals") -> argparse.ArgumentParser:
    """Parser with the options of all experiments; `games` explains what --games counts."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000, help=f"{games} (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    return parser


def add_output_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds --out and --record, which say where results go; without them to runs/, which is not under version control.

    Args:
      parser: parser that gets the options; both set `out`.
      name: name of the experiment.
    """
    default, record = OWN / name, RESULTS / name
    parser.set_defaults(out=default)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="DIR", help=f"directory for the results (default: {default})")
    where.add_argument(
        "--record",
        dest="out",
        action="store_const",
        const=record,
        help=f"replace the results of record, in experiments/results/{name}",
    )


def add_json_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds --json and --record, which say where the figures of a benchmark go; without them they are only printed.

    Args:
      parser: parser that gets the options; both set `json`, and the later of the two counts.
      name: name of the benchmark.
    """
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, as one flat object")
    parser.add_argument(
        "--record",
        dest="json",
        action="store_const",
        const=RESULTS / f"{name}.json",
        help=f"replace the figures of record, experiments/results/{name}.json",
    )


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


def run_experiment(
    parser: argparse.ArgumentParser,
    experiment: Callable[..., None],
    argv: Sequence[str] | None,
    output: bool = True,
) -> int:
    """Parses the command line, runs `experiment(options, command)` and returns the exit code.

    Bad input is reported in one line, not as a traceback.

    Args:
      parser: parser with the options of the experiment.
      experiment: function that does the work.
      argv: arguments, by default those of the process.
      output: whether to add --out and --record (`add_output_options`); not if the parser has its own.
    """
    script = sys.modules[experiment.__module__].__file__ or ""
    if output:
        add_output_options(parser, Path(script).stem)
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = parser.parse_args(arguments)
    try:
        require(options.games >= 1, "--games", "1 or more", options.games)
        experiment(options, command_text(script, arguments))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
