"""Sample stages whose jobs are small programs."""

from __future__ import annotations

from pathlib import Path

from experiments.study.plan import Job, Stage

WRITE = "open(out, 'a').write('x')"
STOPPABLE = f"""
import os, signal, sys, time
if os.path.exists(out + '.saved'):
    {WRITE}; sys.exit(0)
def stop(*_):
    open(out + '.saved', 'w'); sys.exit(75)
signal.signal(signal.SIGTERM, stop)
open(out + '.started', 'w')
time.sleep(60)
"""


def make_stage(name: str, home: Path, programs: list[str], *needs: str) -> Stage:
    """Stage with a job for each program; each should write its file `out`."""
    files = [home / f"{name}{i}" for i in range(len(programs))]
    jobs = [
        Job(f"{name}/{i}", ("-c", f"out = {str(file)!r}\n{program}"), file)
        for i, (program, file) in enumerate(zip(programs, files, strict=True))
    ]
    return Stage(name, needs, tuple(jobs), "some_array.sbatch", {}, ())
