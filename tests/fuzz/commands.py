"""Commands that read files, run in this process on a mutated copy of the samples, and the outcome of each."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import FrameType

import env
from env import game_record
from muzero.arena import engine, terminal
from muzero.arena.command import ArenaConfig, make_rooms
from muzero.arena.playouts import PlayoutAnalyst
from muzero.arena.results import as_csv, ratings
from muzero.arena.review import Review
from muzero.arena.server import Limits
from muzero.arena.viewings import replay
from muzero.matches import command, ladder
from muzero.runs import metrics, report
from muzero.runs.files import fingerprint
from muzero.runs.run import is_finished, read_runs
from muzero.training.command import train
from tests.fuzz.mutations import mutate_file
from tests.fuzz.samples import ITERATIONS, agent, configuration, luck_match, match, tables_of_three

SECONDS = 20  # longest time of a command
_RESIGNED = 0.8  # share of mutants of checkpoints whose manifest is made to fit again


_NEWEST = f"run/checkpoints/{ITERATIONS:06d}"


class Hang(BaseException):
    """Raised in a command that takes too long."""


def evaluate(home: Path) -> int:
    """Match of a checkpoint. Of a run, it would take the checkpoint before a damaged one."""
    return command.main(match(home / _NEWEST, home / "other.json"))


def evaluate_file(home: Path) -> int:
    """Match of a single file of weights."""
    return command.main(match(home / _NEWEST / "weights.safetensors", home / "other.json"))


def resume_match(home: Path) -> int:
    """Matches that an earlier process has finished, or has begun."""
    codes = [command.main(match(home / "run", home / "match" / name)) for name in ("m.json", "f.json")]
    return max(*codes, command.main(luck_match(home / "run", home / "match" / "l.json")))


def play_ladder(home: Path) -> int:
    """Ladder of two agents."""
    agents = f"agents=[{agent(home / _NEWEST)},bot:uniform]"
    return ladder.main([agents, "games=2", "workers=1", "game=kuhn", f"out={home / 'ladder'}"])


def play_table_ladder(home: Path) -> int:
    """Ladder at tables of three players that an earlier process has played."""
    return ladder.main(tables_of_three(home / "ladder3"))


def draw_report(home: Path) -> int:
    """Report with all its plots, which take seconds."""
    return report.main([str(home / "run"), "--out", str(home / "report")])


def read_report(home: Path) -> int:
    """Report without its plots, and the progress of the run."""
    try:
        (run,) = read_runs([home / "run"])
        row = report.summary(run)
        report.markdown([row], [], "command", 1)
        json.dumps(row, allow_nan=False)
        is_finished(home / "run")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def resume(home: Path) -> int:
    """One more iteration of training."""
    return train(configuration(home / "run", ITERATIONS + 1))


def check_records(home: Path) -> int:
    """Game records, printed and checked."""
    return game_record.main([str(path) for path in sorted((home / "records").iterdir())])


def play(home: Path) -> int:
    """Game of agents in a terminal, one of which is a checkpoint."""
    opponents = f"opponents=[{agent(home / _NEWEST)},bot:uniform]"
    return terminal.main([opponents, "game=kuhn", "you=-1", f"record={home / 'played.json'}"])


def analyse(home: Path) -> int:
    """Analysis engine, with all its requests."""
    before, path = sys.stdin, home / "requests.jsonl"
    data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    sys.stdin = TextIOWrapper(BytesIO(data))
    try:
        return engine.main([f"agent={agent(home / _NEWEST)}", "batch=4"])
    finally:
        sys.stdin = before


def open_arena(home: Path) -> int:
    """Arena that goes on with its store, shows a directory of records, and is given every record as a file."""
    config = ArenaConfig(
        store=str(home / "arena.sqlite"), gallery=[str(home / "records")], games=env.games(), agents=["random"]
    )
    refused = 0
    try:
        rooms = make_rooms(config)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rooms.restore()
    results = rooms.store.results(100)
    as_csv(results)
    ratings(results)
    for entry in rooms.gallery.entries():
        try:
            record = rooms.gallery.find(entry["id"])
            replay(record, entry["id"]).frames(0, 0)
            Review(record, 0, PlayoutAnalyst(), None)
        except ValueError as error:
            print(f"error: {home}: {error}", file=sys.stderr)
            refused = 2
    for path in sorted((home / "records").iterdir()):
        try:
            if path.is_file() and path.stat().st_size <= Limits().file and "zero" not in str(path.resolve()):
                rooms.gallery.load(path.read_text(errors="surrogateescape"))
        except ValueError as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            refused = 2
    rooms.store.close()
    return refused


@dataclass(frozen=True)
class Target:
    """Command, and the files that it reads.

    Attributes:
      run: function that runs the command on a copy of the samples, and returns its exit code.
      files: patterns of files to mutate.
      share: share of all mutants.
    """

    run: Callable[[Path], int]
    files: tuple[str, ...]
    share: float


TARGETS: dict[str, Target] = {
    "evaluate": Target(
        evaluate, (f"{_NEWEST}/weights.safetensors", f"{_NEWEST}/ema.*", f"{_NEWEST}/manifest.json"), 0.12
    ),
    "evaluate_file": Target(evaluate_file, (f"{_NEWEST}/weights.safetensors",), 0.13),
    "resume_match": Target(resume_match, ("match/*.npz",), 0.15),
    "ladder": Target(play_ladder, (f"{_NEWEST}/*s.safetensors", f"{_NEWEST}/manifest.json"), 0.01),
    "table_ladder": Target(play_table_ladder, ("ladder3/games/*.npz",), 0.02),
    "report": Target(read_report, ("run/*.jsonl", "run/config.yaml", f"{_NEWEST}/state.json"), 0.14),
    "report_with_plots": Target(draw_report, ("run/*.jsonl", "run/config.yaml"), 0.004),
    "resume": Target(
        resume,
        (
            f"{_NEWEST}/*.npz",
            f"{_NEWEST}/state.json",
            f"{_NEWEST}/*.safetensors",
            f"{_NEWEST}/manifest.json",
            "run/config.yaml",
            "run/*.jsonl",
            "run/checkpoints/*/weights.safetensors",
        ),
        0.15,
    ),
    "game_record": Target(check_records, ("records/*.json",), 0.126),
    "play": Target(play, (f"{_NEWEST}/weights.safetensors", f"{_NEWEST}/manifest.json"), 0.02),
    "engine": Target(analyse, (f"{_NEWEST}/weights.safetensors", "requests.jsonl", "requests.jsonl"), 0.05),
    "arena": Target(open_arena, ("records/*.json", "arena.sqlite", "arena.sqlite"), 0.1),
}


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command on a mutant.

    Attributes:
      kind: "success", "refused" (exit code 2 with a named reason), "unwritable" (exit code 1, with the name of a file
        that cannot be written because something else stands there), or a defect: "traceback", "hang", "memory",
        "unnamed" (exit code 2 without a reason), "exit code N".
      detail: output of the command, or its traceback.
      seconds: time it took.
      megabytes: peak of the resident memory of this process.
    """

    kind: str
    detail: str
    seconds: float
    megabytes: float


def mutate(home: Path, target: Target, rng: random.Random) -> str:
    """Change one file that a command reads; returns its name and the kind of mutation."""
    found = sorted(path for path in home.glob(rng.choice(target.files)) if path.is_file())
    path = rng.choice(found)
    kind = mutate_file(path, rng)
    manifest = path.parent / "manifest.json"
    if manifest.exists() and path.name != manifest.name and path.is_file() and not path.is_symlink():
        content = json.loads(manifest.read_text())
        if path.name in content["files"] and rng.random() < _RESIGNED:
            content["files"][path.name] = fingerprint(path)
            manifest.write_text(json.dumps(content))
    return f"{path.relative_to(home)} {kind}"


def run(target: Target, home: Path, most_megabytes: float) -> Outcome:
    """Run a command on a directory, within bounds of time and memory."""

    rings = 0

    def ring(number: int, frame: FrameType | None) -> None:
        """Count seconds: not those in which the process was stopped (signals are merged) or waited for a processor."""
        nonlocal rings
        rings += 1
        if rings - (_queued() - queued) >= SECONDS:
            raise Hang

    queued = _queued()

    out, errors = StringIO(), StringIO()
    _reset_peak()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    started, kind, detail = time.perf_counter(), "", ""
    try:
        with redirect_stdout(out), redirect_stderr(errors), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = target.run(home)
        kind = {0: "success", 2: "refused"}.get(code, f"exit code {code}")
    except Hang:
        kind, detail = "hang", traceback.format_exc()
    except SystemExit as error:
        kind = "refused" if error.code == 2 else f"exit code {error.code}"
    except BaseException:
        kind, detail = "traceback", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    passed = min(time.perf_counter() - started, rings + 1.0)  # a process that was stopped has fewer rings
    seconds, peak = max(0.0, passed - (_queued() - queued)), peak_megabytes()
    said = errors.getvalue().strip()
    if kind == "exit code 1" and ": cannot be written: " in said and "Traceback" not in said:
        kind = "unwritable"  # a directory in place of a file that the command would write
    if kind == "refused" and (not said or "Traceback" in said or not _names(said, home)):
        kind = "unnamed"
    if kind in ("success", "refused") and peak > most_megabytes:
        kind, detail = "memory", f"{peak:.0f} MB, allowed {most_megabytes:.0f}\n{said}"
    return Outcome(kind, detail or said, seconds, peak)


def _queued() -> float:
    """Seconds for which this thread has waited for a processor that others had (Linux; 0 elsewhere)."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _names(said: str, home: Path) -> bool:
    """Whether an error names a file of the samples, or the agent whose file it is about."""
    return str(home) in said


def _reset_peak() -> None:
    """Begin to measure the peak of the resident memory anew (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_megabytes() -> float:
    """Peak of the resident memory of this process since `_reset_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def copy_samples(samples: Path, home: Path) -> None:
    """Copy the samples to a fresh directory."""
    if home.exists():
        shutil.rmtree(home)
    shutil.copytree(samples, home)


def lines_of(home: Path) -> int:
    """Number of iterations that the copy of the run has logged."""
    return (home / "run" / metrics.METRICS).read_bytes().count(b"\n")
