"""Mutation fuzzer of files: `python -m tests.fuzz [--mutants 10000] [--seed N]`, or `make fuzz-files`.

Real files (a training run with its checkpoints, match stores, game records, configurations) are changed at random and
given to every command that reads them. A mutant passes if the command succeeds, or refuses it with exit code 2 and a
reason that names it, within 20 seconds and twice the memory of the unchanged files. Everything else is printed, with
the seed that repeats it: `--seed N --only K`.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from tests.fuzz.commands import TARGETS, Outcome, copy_samples, mutate, run
from tests.fuzz.samples import make_samples

GOOD = ("success", "refused", "unwritable")
_MOST_SECONDS = 1800  # of a command by the clock: the fuzzer may be stopped for minutes, so that others can measure
_EACH = 250  # mutants of a child process
_MOST_BYTES = 12 * 2**30  # address space of the fuzzer
MOST_GROWTH = 2.0  # largest peak of memory, relative to that of the unchanged files


def baseline(samples: Path, home: Path, target: str) -> float:
    """Peak of memory of a command on unchanged files, in megabytes; the command must succeed."""
    copy_samples(samples, home)
    found = run(TARGETS[target], home, float("inf"))
    assert found.kind == "success", f"{target} on unchanged files: {found.kind}\n{found.detail}"
    return found.megabytes


Event = tuple[int, str, str, Outcome]
"""Number of a mutant, its command, what was changed, and the outcome."""


def _outcomes(
    numbers: range,
    seed: int,
    targets: Sequence[str],
    shares: Sequence[float],
    samples: Path,
    home: Path,
    allowed: Mapping[str, float],
) -> Iterator[Event]:
    """Run mutants in child processes, each of which takes some hundred and ends.

    What commands leave behind in a process does not count against the memory of later mutants, and a mutant that
    crashes the process is an outcome too.
    """
    context, at = multiprocessing.get_context("fork"), numbers.start

    def work(first: int, pipe: Connection) -> None:
        for number in range(first, min(first + _EACH, numbers.stop)):
            rng = random.Random(f"{seed} {number}")
            name = rng.choices(targets, shares)[0]
            copy_samples(samples, home)
            what = mutate(home, TARGETS[name], rng)
            pipe.send((number, name, what))
            faulthandler.dump_traceback_later(_MOST_SECONDS, exit=True)  # for hangs that no signal interrupts
            found = run(TARGETS[name], home, allowed[name])
            faulthandler.cancel_dump_traceback_later()
            pipe.send(found)

    while at < numbers.stop:
        receiving, sending = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(at, sending))
        child.start()
        sending.close()
        begun: tuple[int, str, str] | None = None
        with suppress(EOFError):
            while True:
                begun = receiving.recv()
                yield (*begun, receiving.recv())
                at, begun = begun[0] + 1, None
        child.join()
        receiving.close()
        if begun is not None:
            yield (*begun, Outcome("crash", f"the process ended with {child.exitcode}", 0.0, 0.0))
            at = begun[0] + 1
        elif child.exitcode:
            raise RuntimeError(f"the fuzzer failed before mutant {at}: exit code {child.exitcode}")


def fuzz(
    mutants: int, seed: int, *, targets: Sequence[str] = tuple(TARGETS), only: int | None = None, quiet: bool = False
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Run commands on mutants; returns the number of outcomes by command and kind, and a text about each defect."""
    counts: Counter[tuple[str, str]] = Counter()
    defects: list[str] = []
    torch.set_num_threads(1)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, before[1]))  # a mutant that takes all memory fails alone
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_AS, before)
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fuzz-"))
        samples, home = Path(place) / "samples", Path(place) / "mutant"
        # The samples are made where the mutants will be, because a match's store knows the path of its agents.
        make_samples(home)
        home.rename(samples)
        allowed = {name: MOST_GROWTH * baseline(samples, home, name) for name in targets}
        shares = [TARGETS[name].share for name in targets]
        slowest, largest, started = 0.0, 0.0, time.monotonic()
        numbers = range(mutants) if only is None else range(only, only + 1)
        for number, name, what, found in _outcomes(numbers, seed, targets, shares, samples, home, allowed):
            counts[name, found.kind] += 1
            slowest, largest = max(slowest, found.seconds), max(largest, MOST_GROWTH * found.megabytes / allowed[name])
            if found.kind not in GOOD:
                defects.append(f"--seed {seed} --only {number}: {name}, {what}: {found.kind}\n{found.detail}")
                if not quiet:
                    print(defects[-1], flush=True)
            if not quiet and (number + 1) % 100 == 0:
                kinds = Counter(kind for (_, kind), count in counts.items() for _ in range(count))
                spent = time.monotonic() - started
                print(f"{number + 1} mutants, {spent:.0f} s: {dict(kinds)}, slowest {slowest:.1f} s", flush=True)
            if only is not None and not quiet:
                print(found)
    if not quiet:
        print(f"slowest {slowest:.1f} s; largest peak of memory {largest:.2f} times that of the unchanged files")
    return counts, defects


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code, 1 if there was a defect."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--only", type=int, default=None, help="number of the one mutant to run")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    options = parser.parse_args(argv)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    counts, defects = fuzz(options.mutants, seed, targets=options.targets, only=options.only)
    for (name, kind), count in sorted(counts.items()):
        print(f"{name:18} {kind:12} {count:6}")
    print(f"{sum(counts.values())} mutants, {len(defects)} defects")
    return int(bool(defects))


if __name__ == "__main__":
    sys.exit(main())
