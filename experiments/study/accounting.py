"""Accounts of jobs that SLURM keeps: how each one ended, and the time and memory that it took.

They are read from `sacct --parsable2`, which prints a line per start of a job (its allocation: 101, or 101_3 for a task
of an array) and one per step of it (101_3.batch, 101_3.0), fields separated by `|`:

    JobID|State|ExitCode|ElapsedRaw|TotalCPU|TRESUsageInTot|ReqMem|AllocCPUS|NodeList
    101_3|TIMEOUT|0:0|3601|58:12.250||16G|4|node7
    101_3.0|CANCELLED|0:15|3601|58:12.250|cpu=00:58:12,mem=3145728K||4|node7
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

FIELDS = "JobID,State,ExitCode,ElapsedRaw,TotalCPU,TRESUsageInTot,ReqMem,AllocCPUS,NodeList"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


@dataclass(frozen=True)
class Account:
    """Account of a job or of a task of an array.

    Attributes:
      state: SLURM's word for how it ended (COMPLETED, FAILED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, ...), or RUNNING, ...;
        of its last start.
      code: exit code of its last start.
      signal: signal that ended it; 0 if none did.
      starts: number of starts; more than one if the job went back to the queue.
      seconds: time from start to end, the sum over all starts.
      core_seconds: time that cores have computed for it, the sum over all starts.
      cores: cores that it was given.
      peak: most memory that one of its steps used, in bytes; 0 if it was not measured.
      memory: memory that it asked for, in bytes; 0 for all of a node.
      nodes: names of its nodes, in its last start.
    """

    state: str
    code: int
    signal: int
    starts: int
    seconds: int
    core_seconds: float
    cores: int
    peak: int
    memory: int
    nodes: str

    @property
    def reason(self) -> str:
        """Why the job has not succeeded, in words, and what helps."""
        if self.state == "OUT_OF_MEMORY" or (self.state == "FAILED" and 0 < self.memory <= self.peak):
            return "out of memory: raise MEM, or use a smaller replay.megabytes"
        if self.state == "FAILED":
            return f"killed by signal {self.signal}" if self.signal else f"exit code {self.code}"
        return {
            "TIMEOUT": "time limit reached before it had saved: raise TIME or GRACE; submitted again, it resumes",
            "NODE_FAIL": f"its node was lost ({self.nodes}): submitted again, it resumes",
            "BOOT_FAIL": f"its node did not start ({self.nodes}): submit it again",
            "PREEMPTED": "preempted: submitted again, it resumes",
            "CANCELLED": "cancelled: submitted again, it resumes",
            "COMPLETED": "ended without an error, but its result is not there",
        }.get(self.state, self.state)

    @property
    def used(self) -> str:
        """Time and memory used, for a line of text."""
        peak = f", {in_gigabytes(self.peak)} of memory" if self.peak else ""
        asked = f" of {in_gigabytes(self.memory)}" if self.peak and self.memory else ""
        return f"{in_hours(self.seconds)}{peak}{asked}"


def accounts(numbers: Iterable[str]) -> tuple[dict[str, Account], str]:
    """Accounts of jobs by number, as far as SLURM has them; and the reason if it keeps none."""
    wanted = sorted({number for number in numbers if number})
    if not wanted:
        return {}, ""
    if shutil.which("sacct") is None:
        return {}, "sacct: not found"
    words = ["sacct", "--noheader", "--parsable2", "--duplicates", f"--format={FIELDS}", f"--jobs={','.join(wanted)}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return {}, f"sacct: {(done.stderr.strip() or 'failed').splitlines()[-1]}"
    return parse(done.stdout.splitlines()), ""


def parse(lines: Sequence[str]) -> dict[str, Account]:
    """Accounts by number of job, from the lines of `sacct --parsable2 --duplicates`; see the head of this file."""
    found: dict[str, Account] = {}
    for line in filter(None, lines):
        words = line.split("|")
        if len(words) != len(FIELDS.split(",")):
            raise ValueError(f"sacct: expected the fields {FIELDS}, got {line!r}")
        number, state, ended, seconds, computed, used, asked, cores, nodes = words
        job, _, step = number.partition(".")
        if step:
            if job in found:
                peak = max(found[job].peak, _peak(used))
                found[job] = replace(found[job], peak=peak)
            continue
        code, _, signal = ended.partition(":")
        account = Account(
            state=state.split()[0] if state else "UNKNOWN",  # CANCELLED by 1000
            code=int(code or 0),
            signal=int(signal or 0),
            starts=1,
            seconds=int(seconds or 0),
            core_seconds=_seconds(computed),
            cores=int(cores or 0),
            peak=0,
            memory=_memory(asked, int(cores or 1)),
            nodes=nodes,
        )
        if before := found.get(job):
            account = replace(
                account,
                starts=before.starts + 1,
                seconds=before.seconds + account.seconds,
                core_seconds=before.core_seconds + account.core_seconds,
                peak=before.peak,
            )
        found[job] = account
    return found


def table(names: Mapping[str, Sequence[str]], found: Mapping[str, Account]) -> str:
    """Table of the time and memory that jobs have used.

    Args:
      names: names of the study's jobs by SLURM's number; several that share one were packed into one job.
      found: accounts by number.
    """
    heads = ("job", "number", "state", "starts", "elapsed", "cores used", "of", "memory", "of")
    rows = []
    for number, jobs in names.items():
        name = jobs[0] if len(jobs) == 1 else f"{jobs[0]} and {len(jobs) - 1} more"
        if (account := found.get(number)) is None:
            rows.append((name, number, "no account", *[""] * 6))
            continue
        busy = f"{account.core_seconds / account.seconds:.2f}" if account.seconds else "-"
        memory = in_gigabytes(account.peak) if account.peak else "-"
        asked = in_gigabytes(account.memory) if account.memory else "all"
        took = (str(account.starts), in_hours(account.seconds), busy, str(account.cores), memory, asked)
        rows.append((name, number, account.state, *took))
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    left = 3  # columns of text; numbers are flush right
    lines = [
        "  ".join(
            f"{word:<{width}}" if i < left else f"{word:>{width}}"
            for i, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (heads, *rows)
    ]
    mine = [found[number] for number in names if number in found]
    hours, cores = (sum(values) / 3600 for values in ([a.seconds for a in mine], [a.seconds * a.cores for a in mine]))
    computed = sum(account.core_seconds for account in mine) / 3600
    return "\n".join(
        [*map(str.rstrip, lines), f"{hours:.2f} hours, {cores:.2f} core hours, {computed:.2f} of them computed"]
    )


def in_hours(seconds: float) -> str:
    """Time as hours:minutes:seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def in_gigabytes(size: float) -> str:
    """Memory in GB, with two digits after the point."""
    return f"{size / 2**30:.2f} GB"


def _bytes(text: str) -> int:
    """Number of bytes of a text such as 322160K or 1.50G; 0 for an empty one."""
    match = re.fullmatch(r"([\d.]+)([KMGTP]?)", text)
    return round(float(match[1]) * _UNITS[match[2]]) if match else 0


def _memory(text: str, cores: int) -> int:
    """Memory that a job asked for: 16G; in older versions of SLURM 16Gn (per node) or 4Gc (per core)."""
    return _bytes(text.rstrip("nc")) * (cores if text.endswith("c") else 1)


def _peak(used: str) -> int:
    """Memory in the resources that a step used, all its tasks together: cpu=00:00:01,mem=322160K,..."""
    match = re.search(r"(?:^|,)mem=([^,]+)", used)
    return _bytes(match[1]) if match else 0


def _seconds(text: str) -> float:
    """Seconds of a time such as 1-02:03:04, 03:04.250 or 00:00:00."""
    days, _, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part or 0)
    return total + 86400 * int(days or 0)
