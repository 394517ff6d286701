"""The search against a slow one in Python, on random problems with chance nodes and equivalent actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.mcts.chance_problems import ChanceProblem
from tests.mcts.reference import Node, Reference

PROBLEMS = 400  # of 4 games each


@pytest.mark.parametrize("everywhere", [False, True], ids=["declared events", "learned codes"])
@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.slow) for block in (2, 3))])
def test_search_equals_the_reference_on_random_problems(block: int, everywhere: bool) -> None:
    """Events follow some actions, as games declare; or all actions, as with learned codes, which have no cards."""
    compared = {"chance": 0, "joined": 0, "joined inside": 0}
    for seed in range(block, PROBLEMS, 8 if everywhere else 4):
        problem = ChanceProblem.random(seed, **({"chance_source": "learned"} if everywhere else {}))
        if everywhere:
            table = problem.sizes["phase_table"]
            problem.sizes["phase_table"] = replace(table, chance=np.ones_like(table.possible))
        search, found = problem.run()
        chosen = search.choose(0)
        for row, root in enumerate(problem.roots):
            reference = Reference(problem.world, problem.rules(row), int(root))
            expected = reference.results(search.num_actions)
            name = f"problem {seed}, row {row}: {problem.settings}"
            np.testing.assert_allclose(found.visits[row], expected["visits"], atol=1e-5, err_msg=name)
            np.testing.assert_allclose(found.policy[row], expected["policy"], atol=1e-5, err_msg=name)
            np.testing.assert_allclose(found.q[row], expected["q"], atol=1e-5, err_msg=name)
            np.testing.assert_allclose(found.values[row], expected["values"], atol=1e-5, err_msg=name)
            if problem.settings["algorithm"] == "gumbel":
                assert chosen[row] == reference.action(), name
            nodes = all_nodes(reference.root)
            assert search.tree()["chance"][row].sum() == sum(node.chance for node in nodes), name
            compared["chance"] += any(node.chance for node in nodes)
            compared["joined"] += any(len(c) > 1 for c in reference.root.copies.values())
            compared["joined inside"] += any(len(c) > 1 for node in nodes[1:] for c in node.copies.values())
    assert min(compared.values()) >= 10, compared


def all_nodes(root: Node) -> list[Node]:
    nodes = [root]
    for node in nodes:
        nodes += node.children.values()
    return nodes
