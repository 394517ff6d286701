"""Programs that replace those of SLURM, so that batch files can run anywhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from experiments.study.command import ROOT

SLURM = ROOT / "slurm"


class FakeCluster:
    """Directory with programs that replace those of SLURM and Python, and record how they were called."""

    def __init__(self, home: Path) -> None:
        self.home, self.bin = home, home / "bin"
        self.bin.mkdir()
        self.calls = home / "calls"
        self.program("srun", 'while [[ $1 == --* ]]; do shift; done; exec "$@"')
        self.program("scontrol", f'echo "scontrol $*" >>{self.calls}; echo "JobId=5 JobState=${{STATE:-RUNNING}} X=1"')
        self.program("python", f'printf "%s\\n" "$@" >{home}/arguments; exit ${{CODE:-0}}')

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (self.bin / name).chmod(0o755)

    def environment(self, **settings: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        paths = {"PATH": f"{self.bin}:{os.environ['PATH']}", "PROJECT": str(ROOT), "VENV": str(self.home)}
        return {**plain, **paths, "SLURM_JOB_ID": "5", "WANDB_MODE": "disabled", **settings}

    def run(self, file: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(SLURM / file), *arguments]
        return subprocess.run(command, env=self.environment(**settings), capture_output=True, text=True, check=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments with which Python was last called."""
        return tuple((self.home / "arguments").read_text().splitlines())

    @property
    def requeued(self) -> bool:
        return self.calls.exists() and "scontrol requeue 5" in self.calls.read_text()
