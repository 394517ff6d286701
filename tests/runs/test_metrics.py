"""metrics.jsonl and timings.jsonl: the same bytes however often a run is interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from muzero.runs import metrics
from muzero.runs.metrics import Metrics, flatten, read
from tests.runs.records import record, timings


def test_records_are_read_back_as_logged(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    for i in range(3):
        log.log(record(i), timings(i + 1))
        assert read(tmp_path) == [record(k) for k in range(i + 1)]  # readers see a record at once
    log.log({"iteration": 3})
    log.close()
    assert read(tmp_path, metrics.TIMINGS) == [timings(1), timings(2), timings(3), {}]
    first = (tmp_path / "metrics.jsonl").read_text().splitlines()[0]
    assert first.startswith('{"iteration": 0, "losses": {"total": 1.5')  # keys stay in the given order


def test_numpy_and_torch_numbers_become_plain_numbers_and_others_are_refused(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    odd = {"iteration": 0, "a": np.float32(0.5), "b": np.arange(2), "c": torch.tensor(3), "d": (True, None)}
    log.log(odd | {"e": float("nan"), "f": np.float64("inf"), "g": torch.tensor([1.0, float("-inf")])})
    assert read(tmp_path) == [
        {"iteration": 0, "a": 0.5, "b": [0, 1], "c": 3, "d": [True, None], "e": None, "f": None, "g": [1.0, None]}
    ]
    with pytest.raises(ValueError, match=r"record\.x\[1\]\.y: expected a number or text"):
        log.log({"x": [1, {"y": {2}}]}, timings(1))
    log.log({"iteration": 1})
    assert len(read(tmp_path)) == len(read(tmp_path, metrics.TIMINGS)) == 2  # the refused record is in neither file
    log.close()


def test_a_resumed_run_has_the_bytes_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = Metrics(tmp_path, offset=0)
    for i in range(10):
        whole.log(record(i), timings(1.0))
    whole.close()
    expected = (tmp_path / "metrics.jsonl").read_bytes()

    run = tmp_path / "interrupted"
    run.mkdir()
    offset, done = 0, 0
    for crash, half in ((3, b""), (7, b'{"iteration": 7, "los'), (10, b"")):
        log = Metrics(run, offset=offset)
        assert log.offset == offset
        for i in range(done, crash):
            if i == crash - 2:
                offset, done = log.offset, i
            log.log(record(i), timings(np.pi**i))
        log.close()
        with open(run / "metrics.jsonl", "ab") as file:
            file.write(half)
        with open(run / "timings.jsonl", "ab") as file:
            file.write(half)
    assert (run / "metrics.jsonl").read_bytes() == expected
    assert [line["seconds"]["env"] for line in read(run, metrics.TIMINGS)] == [np.pi**i for i in range(10)]


def test_starting_from_scratch_renames_old_files(tmp_path: Path) -> None:
    for _ in range(2):
        log = Metrics(tmp_path, offset=0)
        log.log(record(0), timings(1))
        log.close()
    assert len(read(tmp_path)) == len(read(tmp_path, metrics.TIMINGS)) == 1


def test_lost_lines_of_timings_become_empty_records(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    for i in range(3):
        log.log(record(i), timings(i + 1))
    offset = log.offset
    log.close()
    (tmp_path / "timings.jsonl").write_bytes((tmp_path / "timings.jsonl").read_bytes()[:-5])
    log = Metrics(tmp_path, offset=offset)
    log.log(record(3), timings(4))
    log.close()
    assert read(tmp_path, metrics.TIMINGS) == [timings(1), timings(2), {}, timings(4)]


def test_an_offset_beyond_the_file_or_inside_a_line_is_refused(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    log.log(record(0))
    size = log.offset
    log.close()
    assert size == (tmp_path / "metrics.jsonl").stat().st_size
    for offset, message in ((size + 1, f"0 to {size}"), (size - 1, "the end of a line"), (-1, "0 to")):
        with pytest.raises(ValueError, match=message):
            Metrics(tmp_path, offset=offset)
    assert read(tmp_path) == [record(0)]


def test_an_incomplete_last_line_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"iteration": 1}\n{"iteration": 2}\n{"iter')
    assert read(tmp_path) == [{"iteration": 1}, {"iteration": 2}]
    path.write_bytes(b'{"iteration": 1}\n{"iteration": 2}')  # complete by chance, or the beginning of more
    assert read(tmp_path) == [{"iteration": 1}]
    path.write_bytes(b'{"iteration": 1}\n{"iter\n{"iteration": 3}\n')
    with pytest.raises(ValueError, match="line 2"):
        read(tmp_path)


def test_plain_makes_keys_text() -> None:
    assert metrics.plain({"a": {1: 2}}) == {"a": {"1": 2}}


def test_flatten_keeps_finite_numbers_under_joined_names() -> None:
    nested = {"iteration": 1, "losses": {"a": 0.5, "b": None, "c": float("nan")}, "x": {"y": {"z": 2}}, "t": "text"}
    assert flatten(nested) == {"iteration": 1, "losses/a": 0.5, "x/y/z": 2}
