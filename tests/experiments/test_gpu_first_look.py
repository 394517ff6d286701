"""experiments.gpu_first_look: runs whole on a CPU, and says so where there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.forked import run_module

COMMAND = ["experiments.gpu_first_look", "--quick", "--seconds", "0.01"]


def test_every_section_has_positive_figures(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = run_module(*COMMAND, "--device", "cpu", "--json", str(file))
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    for name in ("products_bf16_tflops", "transfers_round_trip_us", "transfers_pinned_to_gpu_gb_per_s"):
        assert figures[name] > 0
    for precision in ("float32", "bf16"):
        assert figures[f"learner_tiny_b16_{precision}_steps_per_s"] > 0
        assert figures[f"learner_tiny_b16_{precision}_flops_fraction"] > 0
        assert figures[f"search_tiny_b8_eager_{precision}_sims_per_s"] > 0
        assert 0 < figures[f"search_tiny_b8_eager_{precision}_tree_share"] < 1
    assert "learner    tiny_b16_bf16_steps_per_s" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_ends_with_code_2() -> None:
    done = run_module(*COMMAND)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --device: expected a GPU")
    assert done.stderr.count("\n") == 1
