"""Atomic writes: a reader finds the old file or the new one, never half of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from muzero.runs.files import CheckpointError, read_arrays, read_json, replacing, save_whole, wrap_errors, write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_created_and_replaced_without_leftovers(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file.txt"
    for content in ("first ä\n", b"second"):
        write_whole(path, content, durable=durable)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "old")
    drafts = []

    def write_half() -> None:
        with replacing(path) as draft:
            draft.write_text("half")
            drafts.append(draft)
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write_half()
    assert drafts[0].parent == tmp_path
    assert drafts[0].name.startswith("."), "readers that list results skip hidden files"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_arrays_are_read_back(tmp_path: Path) -> None:
    save_whole(tmp_path / "x.npz", a=np.arange(3), b=np.ones((2, 2), np.float32))
    found = read_arrays(tmp_path / "x.npz")
    assert found["a"].tolist() == [0, 1, 2]
    assert found["b"].dtype == np.float32


def test_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"x.json: missing"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(
        CheckpointError, match=r"x.json: content: expected an object of at most \d+ entries, got empty list"
    ):
        read_json(tmp_path / "x.json")
    with pytest.raises(CheckpointError, match=r"some file: KeyError: 'a'"), wrap_errors("some file"):
        _ = {}["a"]  # type: ignore[var-annotated]
