"""The public interface: every example of docs/api.md runs, and names are what they are said to be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import env
import muzero
from muzero.agents.agents import Random, Searcher
from muzero.model.network import NETWORKS

ROOT = Path(__file__).resolve().parents[1]
AGENT = "agent:skyjo-belief"
PAGE = (ROOT / "docs/api.md").read_text()
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n.*?```python\n(.*?)```", PAGE, re.S | re.M))


def test_every_section_of_the_page_has_an_example() -> None:
    assert list(EXAMPLES) == re.findall(r"^## ([^\n]+)", PAGE, re.M)


SLOW = "A network for other programs"  # tests/agents/test_export.py exports a smaller one


@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=pytest.mark.slow) if title == SLOW else title for title in EXAMPLES]
)
def test_example_runs(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("muzero.model.network.NETWORKS", dict(NETWORKS))
    exec(compile(EXAMPLES[title], f"docs/api.md: {title}", "exec"), {"__name__": "example"})


def test_analysis_agrees_with_the_action_that_is_played() -> None:
    agent = muzero.load_agent(f"{AGENT},simulations=16")
    assert isinstance(agent, Searcher)
    tables = env.make("skyjo", num_envs=12, num_players=2, seed=4)
    tables.random_steps(9)
    found = agent.analyse(tables)
    assert (found.actions == agent.act(muzero.Situation.at(tables))).all()
    assert found.prior.sum(1) == pytest.approx(np.ones(12), abs=1e-5)
    assert (found.prior[~tables.legal] == 0).all()
    assert found.visits.sum(1) == pytest.approx(np.full(12, 16), abs=1e-4)
    assert (np.isnan(found.q) == (found.visits == 0)).all()
    assert found.winner is not None
    assert found.rank is not None
    assert found.winner.sum(1) == pytest.approx(np.ones(12), abs=1e-5)
    assert found.rank.sum(2) == pytest.approx(np.ones((12, 2)), abs=1e-5)


def test_analysis_counts_seats_from_seat_0() -> None:
    """A player who is far ahead is so in values and winner probabilities, whoever is to move."""
    agent = muzero.load_agent(f"{AGENT},simulations=16", batch=50)
    assert isinstance(agent, Searcher)
    tables = env.make("skyjo", num_envs=200, num_players=2, rules={"episode": "round"}, seed=6, auto_reset=False)
    bots = [tables.bot("greedy"), tables.bot("naive")]
    for _ in range(40):
        tables.step(np.where(tables.done, env.SKIP, tables.bot_actions(bots)))
    found = agent.analyse(tables)
    assert set(found.to_play.tolist()) == {0, 1}
    assert found.winner is not None
    for mover in (0, 1):
        mine = found.to_play == mover
        assert found.winner[mine, 0].mean() > 0.6
        assert found.values[mine, 0].mean() > found.values[mine, 1].mean() + 0.2


def test_an_agent_without_a_network_needs_a_game() -> None:
    with pytest.raises(ValueError, match="game: expected the game that 'random' is to play"):
        muzero.load_agent("random")
    with pytest.raises(ValueError, match="game: expected one of skyjo"):
        muzero.play_match("random", "bot:greedy", games=2)


def test_objects_and_strings_play_the_same_games() -> None:
    agent = f"{AGENT},simulations=0"
    options = {"games": 6, "game": "skyjo", "rules": {"episode": "round"}, "seed": 2}
    expected, strings = muzero.play_match(agent, "bot:greedy", **options)  # type: ignore[arg-type]
    figures, objects = muzero.play_match(muzero.load_agent(agent), "bot:greedy", **options)  # type: ignore[arg-type]
    assert strings.scores.tolist() == objects.scores.tolist()
    assert figures["games"] == 6
    assert (figures["a"], figures["b"], figures["weights_a"]) == ("Searcher", "bot:greedy", None)
    assert list(figures) == list(expected)
    for one in (figures, expected):
        one["provenance"].pop("ended")  # a time
    other = {"a", "weights_a", "seconds", "seconds_per_game"}
    assert {name: figures[name] for name in figures if name not in other} == {
        name: expected[name] for name in expected if name not in other
    }


def test_figures_of_an_object_against_a_network_name_both() -> None:
    text = f"{AGENT},simulations=0"
    options = {"games": 2, "rules": {"episode": "round"}, "seed": 2}
    figures, _ = muzero.play_match(Random(), text, **options)  # type: ignore[arg-type]
    same, _ = muzero.play_match("random", text, **options)  # type: ignore[arg-type]
    assert (figures["a"], figures["b"]) == ("Random", text)
    assert figures["weights_b"] == same["weights_b"] is not None
    assert figures["rules"]["episode"] == "round"


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, muzero; assert 'torch' not in sys.modules; print(sorted(dir(muzero)) == sorted(muzero.__all__))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"


def test_an_unknown_name_is_refused_with_the_public_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'load'; public names are Agent, "):
        muzero.load  # noqa: B018
