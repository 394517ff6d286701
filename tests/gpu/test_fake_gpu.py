"""Networks, search and learner on fake CUDA tensors: all on the right device, and no hidden waits of the host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.fake_run import KINDS, OTHER_GAMES, REST, SIMULATIONS

HERE = Path(__file__).parent
ALL_KINDS = [
    *("/".join(kind) for kind in KINDS),
    *(pytest.param("/".join(kind), marks=pytest.mark.slow) for kind in REST),
]
BF16_KINDS = [kind for kind in ALL_KINDS if "belief/game" in str(kind)]
ROOTS = "copy cuda to cpu"  # the outputs of the roots come to the host


class Results(dict[str, Any]):
    """Results of `fake_run`; those of the slow tests are computed when the first of them is asked for."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        super().__init__(self.run())

    def run(self, *words: str) -> dict[str, Any]:
        """Output of `fake_run`."""
        command = [sys.executable, "-m", "tests.gpu.fake_run", *words]
        done = subprocess.run(command, cwd=HERE.parents[1], env=self.environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def __missing__(self, name: str) -> Any:
        self.update(self.run("rest"))
        return dict(self)[name]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Results of `fake_run` on a GPU that is pretended where there is none."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if not torch.cuda.is_available():
        if (compiler := shutil.which("c++")) is None:
            pytest.skip("needs a C++ compiler")
        home, library = Path(torch.__file__).parent, tmp_path_factory.mktemp("gpu") / "pretend_cuda.so"
        flags = ["-std=c++20", "-shared", "-fPIC", f"-I{home}/include", f"-L{home}/lib", f"-Wl,-rpath,{home}/lib"]
        source = HERE / "pretend_cuda.cpp"
        subprocess.run([compiler, *flags, source, "-ltorch_cpu", "-lc10", "-o", library], check=True)
        environment["LD_PRELOAD"] = str(library)
    return Results(environment)


def waits(result: Any) -> list[str]:
    """Waits of the host in a result of `fake_run`; fails where it is an error."""
    assert isinstance(result, list), result["error"]
    return result


def test_mistakes_are_found(seen: Results) -> None:
    assert seen["controls"] == {
        "wrong device": "FakeTensorDeviceMismatchError",
        "item": ["_local_scalar_dense"],
        "bool": ["_local_scalar_dense"],
        "tolist": ["_local_scalar_dense"],
        "nonzero": ["nonzero"],
        "mask": ["index by a mask"],
        "cpu": ["copy cuda to cpu"],
        "to the gpu": ["copy cpu to cuda"],
        "without waiting": [],
    }


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_search_waits_once_for_the_roots_and_once_per_simulation(seen: Results, kind: str) -> None:
    before = [ROOTS, ROOTS] if "belief_cards" in kind else [ROOTS]  # its beliefs about the cards come to the host, too
    assert waits(seen[kind]["search"]) == [*before, *["synchronize"] * SIMULATIONS]


@pytest.mark.parametrize("kind", BF16_KINDS)
def test_a_search_in_bf16_that_asks_for_one_value_waits_no_more(seen: Results, kind: str) -> None:
    assert waits(seen[kind]["search of one value"]) == [ROOTS, *["synchronize"] * SIMULATIONS]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_learner_never_waits_and_resumes_from_a_checkpoint(seen: Results, kind: str) -> None:
    assert waits(seen[kind]["learner"]) == []


@pytest.mark.parametrize("kind", BF16_KINDS)
def test_the_learner_never_waits_in_bf16(seen: Results, kind: str) -> None:
    assert waits(seen[kind]["learner in bf16"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("game", OTHER_GAMES)
def test_other_games_wait_no_more(seen: Results, game: str) -> None:
    assert waits(seen[game]["search"]) == [ROOTS, *["synchronize"] * SIMULATIONS]
    assert waits(seen[game]["learner"]) == []


@pytest.mark.slow
def test_the_learner_does_not_wait_between_batches_of_different_tables(seen: Results) -> None:
    assert waits(seen["two table sizes"]["learner"]) == []


def test_the_host_waits_for_priorities_only_after_the_next_step_is_queued(seen: Results) -> None:
    assert "error" not in seen["priorities"], seen["priorities"]["error"]
    found = seen["priorities"]
    assert found["updates"] == [0, 1, 2]
    assert found["waits"] == ["step 0", "event 1", "step 1", "event 1", "step 2", "event 0"]
