"""Analysis of positions given as rows: the same numbers as at tables, and beliefs about chance events."""

from __future__ import annotations

import numpy as np
import pytest

import env
from muzero.agents.agents import Searcher
from muzero.agents.analysis import analyse_rows
from muzero.agents.loading import load_agent


@pytest.fixture(scope="module")
def agent() -> Searcher:
    found = load_agent("agent:skyjo-belief,simulations=8", batch=8)
    assert isinstance(found, Searcher)
    return found


def tables_after(steps: int) -> env.VecEnv:
    tables = env.make("skyjo", 16, 2, seed=3)
    for step in range(steps):
        tables.step(tables.sample_actions(step))
    return tables


def test_rows_get_the_analysis_of_the_tables_they_come_from(agent: Searcher) -> None:
    tables = tables_after(7)
    at_tables = agent.analyse(tables)
    given = tables.obs, tables.legal_bits, tables.phase, tables.to_play, tables.decision_keys(0)
    rows = analyse_rows(agent.planner, *given)
    for name in ("actions", "prior", "visits", "values", "lines", "outcomes"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(at_tables, name))


def test_lines_begin_with_the_action_and_believed_outcomes_are_probabilities(agent: Searcher) -> None:
    tables = tables_after(7)
    found = agent.analyse(tables)
    np.testing.assert_array_equal(found.lines[:, 0, 0], found.actions)
    assert found.cards is None, "this network was trained without card beliefs"
    assert found.outcomes is not None
    possible = np.array([[rule.possible for rule in row] for row in tables.info.chance_rules])[tables.phase]
    there = ~np.isnan(found.outcomes[:, :, 0])
    np.testing.assert_array_equal(there, possible & tables.legal)
    assert found.outcomes[there].sum(-1) == pytest.approx(1, abs=1e-4)


def test_a_face_up_card_shows_nothing_and_a_face_down_card_shows_something(agent: Searcher) -> None:
    """The network believes what the rules say: replacing a face-up card shows no card, turning one over shows one."""
    tables = tables_after(7)
    found = agent.analyse(tables)
    assert found.outcomes is not None
    none = found.outcomes[:, 4:, 0]
    face_up = tables.obs[:, 2 : 4 * 12 : 4] == 1
    there = ~np.isnan(none)
    assert (none[there & face_up] > 0.5).all()
    assert (none[there & ~face_up] < 0.5).all()
