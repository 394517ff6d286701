"""Cost of judged outcomes: CPU time of self-play with `selfplay.judged_outcomes`, relative to the same without.

    python -m experiments.judged_cost [--outcomes 4 8] [--rounds N] [--json FILE]

Workers of the CPU preset (belief), the network on all seats, play the steps of an iteration in one process and in turn,
each at its own tables. CPU time of the process is measured, so that a busy machine changes little. The table has
the medians per decision, the median of the rounds' ratios, and the part of the time in which positions are judged.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from experiments.bench_training import preset
from experiments.common.command_line import add_json_options
from muzero.config.fields import require
from muzero.runs.markdown import markdown_table
from muzero.selfplay.opponents import OpponentMix
from muzero.selfplay.worker import SelfPlay
from muzero.training.trainer import play_request

COLUMNS = ("judged outcomes", "CPU time of a decision, us", "ratio", "of it judging")


class TimedSelfPlay:
    """Worker whose steps of one iteration are timed.

    Attributes:
      decisions: decisions in an iteration.
      judging: seconds of CPU time in which positions were judged, in all iterations.
    """

    def __init__(self, outcomes: int, overrides: Sequence[str]) -> None:
        config = preset("cpu", f"selfplay.judged_outcomes={outcomes}", *overrides)
        self.worker, self.judging = SelfPlay(config), 0.0
        self._request = play_request(config, 0, OpponentMix(0.0, ()))
        self.decisions = config.selfplay.tables * config.selfplay.steps_per_iteration
        if self.worker.expectations is not None:
            self._values = self.worker.expectations._values
            self.worker.expectations._values = self._timed_values  # type: ignore[method-assign]

    def _timed_values(self, obs: Any) -> Any:
        started = time.process_time()
        values = self._values(obs)
        self.judging += time.process_time() - started
        return values

    def play(self) -> float:
        """Play an iteration; returns its CPU time in seconds."""
        started = time.process_time()
        self.worker.play(self._request)
        return time.process_time() - started


def measure(outcomes: Sequence[int], rounds: int, overrides: Sequence[str]) -> dict[str, float]:
    """CPU time per decision, ratio to none and share of judging, for each number of judged outcomes.

    Args:
      outcomes: numbers of outcomes.
      rounds: number of rounds, in each of which all workers play.
      overrides: changes of the preset.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    workers = {number: TimedSelfPlay(number, overrides) for number in (0, *outcomes)}
    for worker in workers.values():
        worker.worker.load_weights(workers[0].worker.network.state_dict())
        worker.play()  # games that begin together, and memory that is new: not counted
        worker.judging = 0.0
    spent: dict[int, list[float]] = {number: [] for number in workers}
    for index in range(rounds):
        for number in list(workers)[:: -1 if index % 2 else 1]:
            spent[number].append(workers[number].play())
    figures: dict[str, float] = {}
    for number, worker in workers.items():
        ratios = [with_luck / without for with_luck, without in zip(spent[number], spent[0], strict=True)]
        figures[f"judged_{number}_us"] = 1e6 * statistics.median(spent[number]) / worker.decisions
        figures[f"judged_{number}_ratio"] = statistics.median(ratios)
        figures[f"judged_{number}_share"] = worker.judging / sum(spent[number])
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_options(parser, "judged_cost")
    parser.add_argument("--outcomes", nargs="+", type=int, default=[1, 4, 16], help="numbers to measure")
    parser.add_argument("--rounds", type=int, default=7, help="iterations of each, in turn (default: 7)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="changes of the preset")
    options = parser.parse_args(argv)
    try:
        require(options.rounds >= 1, "--rounds", "1 or more", options.rounds)
        require(min(options.outcomes) >= 1, "--outcomes", "numbers of 1 or more", min(options.outcomes))
        figures = measure(options.outcomes, options.rounds, options.set)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows = [
        [
            str(n),
            *(f"{figures[f'judged_{n}_{key}']:.{digits}f}" for key, digits in (("us", 1), ("ratio", 3), ("share", 2))),
        ]
        for n in (0, *options.outcomes)
    ]
    print("\n".join(markdown_table(COLUMNS, rows)))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**figures, "provenance": provenance()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
