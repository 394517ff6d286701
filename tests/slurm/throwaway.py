"""A temporary SLURM cluster for tests; throwaway.sh starts and stops it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = Path(__file__).with_suffix(".sh")
WAIT = 400.0  # seconds that any single step may take


def reason_to_skip() -> str:
    """Reason why SLURM cannot be installed here; empty if it can."""
    if not shutil.which("apt-get"):
        return "installs SLURM from Debian's packages, and this is not Debian (no apt-get)"
    if os.geteuid() != 0:
        return f"starts SLURM's daemons as root, and this is user {os.geteuid()}"
    return ""


class Slurm:
    """A cluster of a few nodes, all on this machine.

    Attributes:
      home: directory of the cluster, also used for the runs of tests.
      environment: environment variables of its commands.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        subprocess.run([SCRIPT, "install"], check=True)
        started = subprocess.run([SCRIPT, "start", home], check=True, stdout=subprocess.PIPE, text=True)
        name, _, value = started.stdout.strip().partition("=")
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        settings = {"VENV": sys.prefix, "CPUS": "1", "MEM": "2G", "TIME": "30", "WANDB_MODE": "disabled"}
        self.environment = {**plain, **settings, "LOGS": str(home / "logs"), "OMP_NUM_THREADS": "1", name: value}

    def stop(self) -> None:
        """Ends all jobs and daemons of the cluster."""
        subprocess.run([SCRIPT, "stop", self.home], check=True)

    def command(self, *words: object, **settings: str) -> str:
        """Output of a SLURM command."""
        done = subprocess.run(
            [str(word) for word in words],
            env={**self.environment, **settings},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, *words: str, **settings: str) -> str:
        """Submits a job; returns its number."""
        return self.command(ROOT / "slurm" / "submit.sh", *words, **settings)

    def show(self, number: str) -> dict[str, str]:
        """Properties of a job, as scontrol shows them."""
        text = self.command("scontrol", "show", "job", "--oneliner", number)
        return dict(re.findall(r"(\w+)=(\S+)", text))

    def log(self, number: str) -> str:
        """Output of a job."""
        return "".join(path.read_text() for path in (self.home / "logs").glob(f"*-{number}.log"))

    def wait_for(self, number: str, *states: str) -> dict[str, str]:
        """Waits until a job is in one of these states; returns its properties."""
        shown: dict[str, str] = {}

        def reached() -> bool:
            shown.update(self.show(number))
            ended = shown["JobState"] in ("FAILED", "CANCELLED", "TIMEOUT", "COMPLETED", "NODE_FAIL")
            assert not ended or shown["JobState"] in states, f"{shown['JobState']}: {self.log(number)}"
            return shown["JobState"] in states

        wait_until(reached, lambda: f"{shown.get('JobState')}: {self.log(number)}")
        return shown

    def processes(self, node: str, *words: str, program: str = "") -> list[int]:
        """Processes of jobs on a node whose command line has all these words and whose program has this name."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdigit() and int(place.name) != os.getpid():
                try:
                    told = (place / "environ").read_bytes().split(b"\0")
                    line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:  # the process has ended
                    continue
                here = {f"SLURM_CONF={self.environment['SLURM_CONF']}".encode(), f"SLURMD_NODENAME={node}".encode()}
                wanted = all(word in line for word in words) and _name(int(place.name)).startswith(program)
                if here <= set(told) and wanted:
                    found.append(int(place.name))
        return found

    def pull_the_plug(self, node: str) -> None:
        """Kills all processes on a node, its daemon first."""
        jobs = self.processes(node)
        watchers = {parent for job in jobs if "slurmstepd" in _name(parent := _parent(job))}
        for number in (int((self.home / f"slurmd-{node}.pid").read_text()), *watchers, *jobs):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _parent(process: int) -> int:
    """Parent of a process; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _name(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text()
    return ""


def wait_until(true: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Waits until a condition is true; fails with a message if it takes too long."""
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.2)
