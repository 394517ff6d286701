"""Records of a study: one configuration, one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.study.records import Records


def test_other_settings_and_a_second_process_are_refused(tmp_path: Path) -> None:
    records, other = Records(tmp_path), Records(tmp_path)
    records.store_settings({"seeds": [0], "submit": "local"})
    other.store_settings({"seeds": [0], "submit": "slurm"})
    with pytest.raises(ValueError, match=r"holds another study.*\(stored != yours\)\n  seeds: \[0\] != \[1\]"):
        other.store_settings({"seeds": [1], "submit": "local"})
    assert not other.is_locked
    with records.lock():
        assert other.is_locked
        with pytest.raises(ValueError, match="another process is running this study"), other.lock():
            pass


def test_a_study_can_get_more_seeds_variants_and_iterations_but_lose_none(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.store_settings({"seeds": [0, 1], "variants": ["baseline", "belief"], "iterations": [2], "games": 4})
    larger = {"seeds": [0, 1, 2], "variants": ["baseline", "ppo", "belief"], "iterations": [2, 4], "games": 4}
    records.store_settings(larger)
    assert records.settings == larger
    for change in ({"seeds": [0, 1]}, {"variants": ["belief", "baseline", "ppo"]}, {"iterations": []}, {"games": 8}):
        with pytest.raises(ValueError, match=f"{next(iter(change))}: "):
            records.store_settings(larger | change)
    assert records.settings == larger


def test_an_empty_list_which_means_the_default_cannot_be_extended(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.store_settings({"iterations": []})
    with pytest.raises(ValueError, match=r"iterations: \[\] != \[2\]"):
        records.store_settings({"iterations": [2]})
