"""experiments.soak: judgement of figures over time, and a short run with killed actors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from experiments import soak


def test_growth_compares_the_second_quarter_with_the_last() -> None:
    times = [float(t) for t in range(100)]
    assert soak.growth(times, [0.0] * 25 + [10.0] * 75) == (10.0, 10.0), "buffers fill in the first quarter"
    early, late = soak.growth(times, times)
    assert (early, late) == (37.0, 87.0)


def test_a_leak_is_not_flat_and_noise_is() -> None:
    def sampled(megabytes: list[float]) -> list[dict[str, float]]:
        return [dict.fromkeys(soak.FIGURES, 5.0) | {"seconds": float(t), "learner_megabytes": m} for t, m in
                enumerate(megabytes)]  # fmt: skip

    steady = soak.verdicts(sampled([500.0 + t % 7 for t in range(100)]), 0.1)
    assert all(found["flat"] for found in steady.values())
    leak = soak.verdicts(sampled([500.0 + 5 * t for t in range(100)]), 0.1)
    assert [name for name, found in leak.items() if not found["flat"]] == ["learner_megabytes"]


def test_usage_of_this_process_is_read() -> None:
    megabytes, files, threads = soak.usage(os.getpid())
    assert megabytes > 10
    assert files >= 3
    assert threads >= 1
    assert soak.usage(2**22 + 1) == (0.0, 0, 0)


@pytest.mark.slow
def test_half_a_minute_with_killed_actors(tmp_path: Path) -> None:
    arguments = ["--minutes", "0.5", "--every", "0.5", "--kill-every", "6", "--growth", "1", "--out", str(tmp_path)]
    assert soak.main([*arguments, "--", "evaluation.every=0", "selfplay.tables=4"]) == 0
    result = json.loads((tmp_path / "soak.json").read_text())
    assert result["kills"]
    assert result["left_behind"] == []
    assert result["samples"][-1]["iterations"] > result["samples"][0]["iterations"]
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "soak.md").read_text().startswith("# Soak")
