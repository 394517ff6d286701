"""Running a study on this machine: order, failures, stopping and continuing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.study import command, local
from experiments.study.records import Records
from tests.experiments.study.stages import STOPPABLE, WRITE, make_stage


def test_a_failed_job_stops_only_those_that_need_it_and_runs_again_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs that are done are not run again."""
    good = make_stage("good", tmp_path, [WRITE, WRITE])
    lying = make_stage("lying", tmp_path, ["pass"])
    bad = make_stage("bad", tmp_path, [WRITE, "raise SystemExit(3)"])
    stages = [
        good,
        bad,
        lying,
        make_stage("after", tmp_path, [WRITE], "good"),
        make_stage("never", tmp_path, [WRITE], "bad"),
    ]
    assert local.run(stages, tmp_path, Records(tmp_path), at_once=2) == 1
    assert [stage.done for stage in stages] == [True, False, False, True, False]
    output = capsys.readouterr().out
    assert "bad/1: failed with code 3" in output
    assert f"lying/0: ended without an error, but did not write {tmp_path / 'lying0'}" in output
    assert "never" not in output
    (tmp_path / "bad1").write_text("repaired")
    (tmp_path / "lying0").write_text("repaired")
    assert local.run(stages, tmp_path, Records(tmp_path), at_once=1) == 0
    assert all((tmp_path / name).read_text() == "x" for name in ("good0", "good1", "bad0", "after0", "never0"))


def test_a_request_to_stop_lets_jobs_save_and_the_next_command_continues(tmp_path: Path) -> None:
    stages = [make_stage("train", tmp_path, [STOPPABLE]), make_stage("after", tmp_path, [WRITE], "train")]
    program = (
        "import sys; from pathlib import Path\nfrom experiments.study import local, records\n"
        "from tests.experiments.study import stages as t\n"
        f"home = Path({str(tmp_path)!r})\n"
        "stages = [t.make_stage('train', home, [t.STOPPABLE]), t.make_stage('after', home, [t.WRITE], 'train')]\n"
        "sys.exit(local.run(stages, home, records.Records(home), 1))"
    )
    first = subprocess.Popen([sys.executable, "-c", program], cwd=command.ROOT)
    end = time.monotonic() + 120
    while not (tmp_path / "train0.started").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 75
    assert (tmp_path / "train0.saved").exists()
    assert Records(tmp_path).jobs["train/0"] == {"by": "local", "code": 75}
    assert not (tmp_path / "after0").exists()
    assert local.run(stages, tmp_path, Records(tmp_path), at_once=1) == 0
