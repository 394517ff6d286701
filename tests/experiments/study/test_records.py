"""Records of a study: one configuration, one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.study.records import Records


def test_other_settings_and_a_second_process_are_refused(tmp_path: Path) -> None:
    records, other = Records(tmp_path), Records(tmp_path)
    records.store_settings({"seeds": [0], "submit": "local"})
    other.store_settings({"seeds": [0], "submit": "slurm"})
    with pytest.raises(ValueError, match=r"holds another study \(stored != yours\)\n  seeds: \[0\] != \[1\]"):
        other.store_settings({"seeds": [1], "submit": "local"})
    assert not other.is_locked
    with records.lock():
        assert other.is_locked
        with pytest.raises(ValueError, match="another process is running this study"), other.lock():
            pass
