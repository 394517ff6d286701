"""Ctrl-C in a training run: it says at once what happens, saves, and neither Python nor make adds an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ("preset=smoke", "game=kuhn", "train.iterations=100000", "evaluation.every=0", "logging.wandb=disabled")


class Session:
    """A command in a process group of its own, as in a terminal, so that Ctrl-C reaches all of its processes."""

    def __init__(self, command: Sequence[str], out: Path) -> None:
        self.out = out
        with out.open("wb") as file:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait_for(self, text: str) -> str:
        """Wait until the output has this text."""
        end = time.monotonic() + 120
        while text not in self.out.read_text():
            assert time.monotonic() < end, self.out.read_text()
            assert self.process.poll() is None, self.out.read_text()
            time.sleep(0.02)
        return self.out.read_text()

    def press_ctrl_c(self) -> None:
        """Send what a terminal sends to its foreground processes."""
        os.killpg(self.process.pid, signal.SIGINT)


def test_ctrl_c_saves_and_make_adds_nothing(tmp_path: Path) -> None:
    venv = Path(sys.executable).parent.parent
    words = " ".join([*SETTINGS, f"run_dir={tmp_path / 'run'}"])
    session = Session(["make", "-o", "setup", "train", f"VENV={venv}", f"ARGS={words}"], tmp_path / "out")
    session.wait_for("iteration 2/")
    session.press_ctrl_c()
    session.process.wait(60)
    said = (tmp_path / "out").read_text()
    first, last = said.index("SIGINT: this iteration is finished and saved first"), said.index("SIGINT: saved ")
    assert first < last
    assert "iteration" not in said[last:], "no progress after the end"
    assert "make:" not in said
    assert "Traceback" not in said
    assert (tmp_path / "run" / "checkpoints").is_dir()


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once_without_a_traceback(tmp_path: Path) -> None:
    settings = [*SETTINGS, f"run_dir={tmp_path / 'run'}", "train.steps=100000"]  # an iteration takes minutes
    session = Session([sys.executable, "-m", "muzero.train", "+variant=belief", *settings], tmp_path / "out")
    session.wait_for("training belief in")
    time.sleep(5)
    session.press_ctrl_c()
    session.wait_for("Ctrl-C again stops at once, without saving")
    session.press_ctrl_c()
    assert session.process.wait(60) == 130
    said = (tmp_path / "out").read_text()
    assert "stopped without saving; last checkpoint: none, there was no checkpoint yet" in said
    assert "Traceback" not in said
