"""Speed of training in this work tree and at another commit, in turn on the same machine.

    python -m experiments.compare_training d2be66b [--parts cpu paper] [--rounds N] [--seconds S] [--json FILE]

checks the other commit out and installs it as `experiments.compare_commits` does. A round starts a process in each
tree, in alternating order, which measures with that tree's own `experiments/bench_training.py`:

    cpu     iterations per minute of the CPU preset (self-play and learner at the same time), and steps per second of
            its learner
    paper   steps per second of the paper preset's learner, steps of all tables in mid-game, and what a whole iteration
            takes by these: games as long as in each tree (`paper_iteration_s`), and as long as in the other commit's
            (`paper_same_games_s`: training may play shorter games by now, which is less work)

The table has the medians of both trees, the median of the rounds' ratios (this tree / other commit; above 1 is better
for `per_minute` and `per_s`, below 1 for seconds), and its interval by order statistics, from six rounds on. `--json`
keeps the rounds in a file: another call with the same file adds to them, for machines that are not idle for long.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.compare_commits import ROOT, check_out, report
from muzero.config import cores
from muzero.config.fields import require

PARTS = ("cpu", "paper")
Figures = dict[str, float]

# Program that measures one part with the bench_training of the tree that it is run in; it prints figures as JSON.
_PROGRAM = """
import json, sys, torch
from experiments import bench_training as bench
bench.settle_memory()
torch.manual_seed(0)
part, at_least, overrides = sys.argv[1], float(sys.argv[2]), (f"runtime.threads={sys.argv[3]}",)
figures = {}
if part == "cpu":
    with bench.training(bench.preset("cpu", *overrides)) as trainer:
        found = bench.iterations(trainer, at_least)
        figures["iterations_per_minute"] = 60 / found["iteration_s"]
        figures["learner_steps_per_s"] = bench.learning(trainer, at_least / 2)["learner_steps_per_s"]
else:
    with bench.training(bench.preset("paper", *bench.REDUCED, *overrides)) as trainer:
        bench.iterations(trainer, 0.0)
        figures["learner_steps_per_s"] = bench.learning(trainer, at_least / 2)["learner_steps_per_s"]
    whole = bench.projected(bench.preset("paper", *overrides), figures["learner_steps_per_s"], at_least / 2)
    names = ("simulations_per_s", "decisions_per_game", "iteration_selfplay_s", "iteration_learner_s", "iteration_s")
    figures |= {name: whole[name] for name in names}
print("figures", json.dumps({f"{part}_{name}": value for name, value in figures.items()}))
"""


def measure(tree: Path, part: str, at_least: float) -> Figures:
    """Figures of one part in a work tree.

    Args:
      tree: work tree with a virtual environment in which it is installed.
      part: one of PARTS.
      at_least: seconds of a measurement.
    """
    command = [str(tree / ".venv/bin/python"), "-c", _PROGRAM, part, str(at_least), str(cores())]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
    if done.returncode or not told:
        raise ValueError(f"{shlex.join(command[:1])} in {tree} failed:\n{done.stderr[-2000:]}")
    found: Figures = json.loads(told[-1].removeprefix("figures "))
    return found


def with_same_games(this: Figures, other: Figures) -> tuple[Figures, Figures]:
    """Figures of both trees with `paper_same_games_s`: an iteration in which games are as long as the other's."""
    if "paper_decisions_per_game" not in this:
        return this, other
    length = other["paper_decisions_per_game"]
    return tuple(  # type: ignore[return-value]
        found
        | {
            "paper_same_games_s": found["paper_iteration_selfplay_s"] * length / found["paper_decisions_per_game"]
            + found["paper_iteration_learner_s"]
        }
        for found in (this, other)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="commit to compare with")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts to measure (default: all)")
    parser.add_argument("--rounds", type=int, default=6, help="runs of each (default: 6, the fewest with an interval)")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of a measurement (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rounds here; rounds found there count too")
    parser.add_argument("--this", type=Path, default=ROOT, metavar="DIR", help="tree to measure (default: this one)")
    parser.add_argument("--other", type=Path, metavar="DIR", help="built clone at the commit (default: make one)")
    options = parser.parse_args(argv)
    try:
        require(options.rounds >= 0, "--rounds", "0 or more", options.rounds)
        other = options.other or check_out(options.commit)
        kept: dict[str, list[list[Figures]]] = {}
        if options.json and options.json.exists():
            kept = json.loads(options.json.read_text())
        for number in range(options.rounds):
            for part in options.parts:
                done = kept.setdefault(part, [])
                order = (options.this, other) if len(done) % 2 == 0 else (other, options.this)
                found = {tree: measure(tree, part, options.seconds) for tree in order}
                done.append([found[options.this], found[other]])
                if options.json:
                    options.json.parent.mkdir(parents=True, exist_ok=True)
                    options.json.write_text(json.dumps(kept, indent=1) + "\n")
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    except (ValueError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for part in options.parts:
        if kept.get(part):
            rounds = [with_same_games(this, theirs) for this, theirs in kept[part]]
            print(f"{part}, {len(rounds)} rounds")
            print("\n".join(report(rounds, "")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
