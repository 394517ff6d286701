"""Figures of record: every one can be drawn again from its results, and stands beside them in bitmap and vectors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from experiments import redraw
from experiments.common import RESULTS


def test_a_tree_of_results_is_drawn_again_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("skyjo_ladder/ladder.json", "skyjo_half_hour/head_to_head/head_to_head.json"):
        (tmp_path / "results" / name).parent.mkdir(parents=True)
        shutil.copy(RESULTS / name, tmp_path / "results" / name)
    (tmp_path / "results" / "bot_eval.json").write_text(json.dumps({"table": {}}))
    command = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "out"), "--formats", "png"]
    assert redraw.main(command) == 1, "one of them cannot be drawn"
    said = capsys.readouterr()
    assert "bot_eval.json: KeyError: 'checkpoints'" in said.err
    drawn = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*"))
    assert drawn == ["skyjo_half_hour/head_to_head/head_to_head.png", "skyjo_ladder/ladder.png"]
    assert len(list((tmp_path / "results").rglob("*.png"))) == 0


def test_bad_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert redraw.main(["--results", str(tmp_path / "none")]) == 2
    assert "--results: expected a directory" in capsys.readouterr().err
    assert redraw.main(["--results", str(tmp_path), "--formats", "gif"]) == 2
    assert "--formats: expected some of png, svg, pdf, got 'gif'" in capsys.readouterr().err


def test_every_figure_of_record_has_its_vectors_beside_it() -> None:
    for path in RESULTS.rglob("*.png"):
        assert path.with_suffix(".svg").exists(), f"{path}: python -m experiments.redraw --record draws it"
