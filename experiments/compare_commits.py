"""Ratios of a benchmark's figures between this work tree and another commit, both run in turn on the same machine.

    python -m experiments.compare_commits d2be66b bench_env --rounds 11 --figures steps_per_s -- --seconds 0.5

checks the other commit out into `build/commits/`, installs it there with `make setup`, and then runs the benchmark
`--rounds` times in each tree, in turn and in alternating order. It prints, for every figure that both write with
--json, the medians of both, the median of the rounds' ratios (this tree / other commit) and the interval of that median
by order statistics (no assumption about the noise). Whether more or less is better depends on the figure.

Everything behind `--` is handed to the benchmark. `--this` measures another clone that is built already, instead of
this tree; `--other` uses one instead of checking the commit out.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import binom

ROOT = Path(__file__).resolve().parent.parent
COVERAGE = 0.95


def median_interval(numbers: Sequence[float], coverage: float = COVERAGE) -> tuple[float, float] | None:
    """Interval of the median between two order statistics; None if there are too few numbers for the coverage."""
    ordered, count = sorted(numbers), len(numbers)
    below = int(binom.ppf((1 - coverage) / 2, count, 0.5))  # largest count of numbers left out below, plus one
    while below > 0 and 2 * binom.cdf(below - 1, count, 0.5) > 1 - coverage:
        below -= 1
    return (ordered[below - 1], ordered[count - below]) if below > 0 else None


def check_out(commit: str) -> Path:
    """Work tree of a commit with everything installed; made at the first call."""
    name = subprocess.run(
        ["git", "rev-parse", "--verify", "--short", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if name.returncode:
        raise ValueError(f"commit={commit}: expected a commit of this repository")
    tree = ROOT / "build" / "commits" / name.stdout.strip()
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(tree)], check=True)
        subprocess.run(["git", "checkout", "--quiet", name.stdout.strip()], cwd=tree, check=True)
    subprocess.run(["make", "setup"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree


def measure(tree: Path, benchmark: str, arguments: Sequence[str]) -> dict[str, float]:
    """Figures that a benchmark writes in a work tree."""
    script = tree / "experiments" / f"{benchmark}.py"
    if not script.exists():
        raise ValueError(f"benchmark={benchmark}: expected a script in {tree / 'experiments'}")
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "figures.json"
        command = [str(tree / ".venv/bin/python"), str(script), "--json", str(out), *arguments]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"{shlex.join(command)} failed:\n{done.stderr[-2000:]}")
        found = json.loads(out.read_text())
    return {
        name: float(number)
        for name, number in found.items()
        if isinstance(number, int | float) and not isinstance(number, bool)
    }


def report(rounds: Sequence[tuple[dict[str, float], dict[str, float]]], figures: str) -> list[str]:
    """Lines of the table: this tree, the other commit, ratio and its interval for each common figure."""
    names = [name for name in rounds[0][0] if name in rounds[0][1] and re.search(figures, name)]
    lines = [f"{'figure':44}{'this':>14}{'other':>14}{'ratio':>8}  95 % interval of the median ratio"]
    for name in names:
        pairs = [(this[name], other[name]) for this, other in rounds]
        if any(other == 0 for _, other in pairs):
            continue
        ratios = [this / other for this, other in pairs]
        interval = median_interval(ratios)
        told = f"[{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "too few rounds"
        this, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        lines.append(f"{name:44}{this:14,.3f}{other:14,.3f}{statistics.median(ratios):8.3f}  {told}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    ours, theirs = (
        (arguments[: (at := arguments.index("--"))], arguments[at + 1 :]) if "--" in arguments else (arguments, [])
    )
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="commit to compare with")
    parser.add_argument("benchmark", help="name of a benchmark, such as bench_env")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each (default: 7; 6 or more give an interval)")
    parser.add_argument("--figures", default="", metavar="REGEX", help="figures to print (default: all)")
    parser.add_argument("--this", type=Path, default=ROOT, metavar="DIR", help="tree to measure (default: this one)")
    parser.add_argument("--other", type=Path, metavar="DIR", help="built clone at the commit (default: make one)")
    options = parser.parse_args(ours)
    try:
        if options.rounds < 1:
            raise ValueError(f"--rounds={options.rounds}: expected 1 or more")
        other = options.other or check_out(options.commit)
        rounds = []
        for number in range(options.rounds):
            order = (options.this, other) if number % 2 == 0 else (other, options.this)
            found = {tree: measure(tree, options.benchmark, theirs) for tree in order}
            rounds.append((found[options.this], found[other]))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    except (ValueError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(report(rounds, options.figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
