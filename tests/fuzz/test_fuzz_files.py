"""Mutated files end in success or in a named refusal; a short run of `make fuzz-files`, with a new seed each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from muzero.arena import engine, terminal
from muzero.matches import command as evaluate
from muzero.matches import ladder
from muzero.training.command import train
from tests.fuzz.__main__ import fuzz
from tests.fuzz.commands import Target, run
from tests.fuzz.samples import configuration

QUICK = ("evaluate", "evaluate_file", "resume_match", "table_ladder", "report", "resume", "game_record")
QUICK += ("play", "engine", "arena")


def test_mutants_of_all_files_are_read_or_refused_by_name() -> None:
    seed = random.SystemRandom().randrange(10**6)
    counts, defects = fuzz(16, seed, targets=QUICK, quiet=True)
    assert not defects, "\n\n".join(defects)
    assert sum(counts.values()) == 16
    kinds = {kind for _, kind in counts}
    assert kinds >= {"success", "refused"}


def _broken(home: Path) -> int:
    raise KeyError("games")


def test_fuzzer_finds_tracebacks_unnamed_refusals_and_memory(tmp_path: Path) -> None:
    """The fuzzer itself must be able to fail."""
    grown: list[bytes] = []

    def hungry(home: Path) -> int:
        grown.append(b"x" * (200 * 2**20))
        return 0

    assert run(Target(_broken, (), 1.0), tmp_path, 1e9).kind == "traceback"
    assert run(Target(lambda home: 2, (), 1.0), tmp_path, 1e9).kind == "unnamed"
    assert run(Target(lambda home: 1, (), 1.0), tmp_path, 1e9).kind == "exit code 1"
    assert run(Target(lambda home: 0, (), 1.0), tmp_path, 1e9).kind == "success"
    before = run(Target(lambda home: 0, (), 1.0), tmp_path, 1e9).megabytes
    assert run(Target(hungry, (), 1.0), tmp_path, before + 100).kind == "memory"


@pytest.mark.parametrize("name", ["a" * 5000, "\udcff"])
def test_names_that_the_system_refuses_are_bad_input(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    codes = [
        evaluate.main([f"a=checkpoint:{name}", "b=bot:greedy", "game=skyjo"]),
        evaluate.main(["a=bot:greedy", "b=bot:greedy", "game=skyjo", "games=2", f"out={name}"]),
        ladder.main(["agents=[bot:greedy,bot:random]", "game=skyjo", "games=2", f"out={name}"]),
        terminal.main([f"opponents=checkpoint:{name}"]),
    ]
    if name.isascii():  # the other one is a good name to the system, just not in YAML
        codes += [engine.main([f"agent=checkpoint:{name}"]), train(configuration(Path(name)))]
    assert set(codes) == {2}
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(codes)
    assert all(line.startswith("error: ") and len(line) < 400 for line in lines), lines


@pytest.mark.slow
def test_a_thousand_mutants_through_every_command() -> None:
    _, defects = fuzz(1000, random.SystemRandom().randrange(10**6), quiet=True)
    assert not defects, "\n\n".join(defects)
