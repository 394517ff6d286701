"""Fixtures of the tests of experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.untrained_runs import make_run
from tests.small_fits import small_fits as small_fits


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of untrained networks: two seeds of four variants, and one each for three and for eight players."""
    home = tmp_path_factory.mktemp("runs")
    found = {
        f"{variant}{seed}": make_run(home / f"{variant}{seed}", variant, seed)
        for variant in ("baseline", "belief", "ego_only", "heads_only")
        for seed in (0, 1)
    }
    others = {name: make_run(home / name, "belief", players=count) for name, count in (("three", 3), ("eight", 8))}
    return found | others
