"""Write mctx_golden.json: the results of mctx on some problems, for tests that run without it.

python -m tests.mcts.make_mctx_golden        needs the extra `mctx`
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.mcts.test_mctx import theirs, with_their_gumbel
from tests.mcts.worlds import Problem, ours

PATH = Path(__file__).parent / "mctx_golden.json"
GAMES = 16


def golden(algorithm: str, actions: int, simulations: int, discount: float) -> dict[str, Any]:
    """Parameters of one setting, and the noise, visits, actions and root values of mctx in 16 games."""
    seed = 1000 * actions + simulations
    problem = with_their_gumbel(Problem(seed, GAMES, actions))
    problem.gumbel = problem.gumbel.round(6)
    found = theirs(problem, algorithm, simulations, discount)
    visits = np.asarray(found.search_tree.summary().visit_counts).astype(int)
    results, _ = ours(problem, algorithm, simulations, discount)
    assert (results.visits == visits).all(), "rounding the noise must not matter"

    def rounded(array: Any) -> Any:
        return np.asarray(array).astype(float).round(6).tolist()

    return {
        "algorithm": algorithm,
        "actions": actions,
        "simulations": simulations,
        "discount": discount,
        "seed": seed,
        "gumbel": rounded(problem.gumbel) if algorithm == "gumbel" else None,
        "visits": visits.tolist(),
        "action": np.asarray(found.action).tolist(),
        "value": rounded(found.search_tree.node_values[:, 0]),
    }


def main() -> None:
    settings = itertools.product(("puct", "gumbel"), (2, 5, 12), (1, 7, 40), (1.0, 0.9))
    lines = [json.dumps(golden(*setting), separators=(",", ":")) for setting in settings]
    PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
