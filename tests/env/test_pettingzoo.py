"""Every game as a PettingZoo environment: PettingZoo's own tests, and properties that they do not check."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import api_test, render_test, seed_test
from pettingzoo.utils import aec_to_parallel
from pettingzoo.utils.wrappers import TerminateIllegalWrapper

import env
import env.pettingzoo
from env.pettingzoo import TableEnv, make
from tests.env.cases import CASES, Case

# PettingZoo keeps a list of its own environments that observe dictionaries; all others get these warnings.
EXPECTED_WARNINGS = {
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
}
GAME_SIZES = [(case.game, players) for case in CASES for players in case.some_players(2, 3, 5)]
game_sizes = pytest.mark.parametrize(("game", "players"), GAME_SIZES)
every_game = pytest.mark.parametrize("game", env.games())


def play(table: TableEnv, seed: int, decisions: int = 10**6) -> Iterator[str]:
    """Plays random legal actions until all agents have left; yields the agent before each step."""
    rng = np.random.default_rng(seed)
    for agent in table.agent_iter(decisions):
        yield agent
        mask = table.observe(agent)["action_mask"]
        over = table.terminations[agent] or table.truncations[agent]
        table.step(None if over else rng.choice(np.flatnonzero(mask)))


# ---------------------------------------------------------------------------------------------------------
# PettingZoo's tests.


@game_sizes
@pytest.mark.parametrize("counts", [True, False])
def test_pettingzoos_api_test_passes(game: str, players: int, counts: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api_test(make(game, players, counts=counts), num_cycles=1000)
    assert {str(warning.message) for warning in caught} <= EXPECTED_WARNINGS


@game_sizes
def test_pettingzoos_seed_test_passes(game: str, players: int) -> None:
    seed_test(lambda: make(game, players), num_cycles=500)


@every_game
def test_pettingzoos_render_test_passes(game: str, capsys: pytest.CaptureFixture[str]) -> None:
    render_test(lambda render_mode: make(game, render_mode=render_mode))
    assert capsys.readouterr().out


@every_game
def test_parallel_conversion_is_refused(game: str) -> None:
    with pytest.raises(AssertionError, match="is_parallelizable"):
        aec_to_parallel(make(game))


@pytest.mark.parametrize("game", [game for game in env.games() if not env.make(game).legal.all()])
def test_terminate_illegal_wrapper_makes_an_illegal_action_lose(game: str) -> None:
    table = TerminateIllegalWrapper(make(game), illegal_reward=-1)
    table.reset(seed=0)
    loser = table.agent_selection
    illegal = int(np.argmin(table.observe(loser)["action_mask"]))
    table.step(illegal)
    assert all(table.terminations.values())
    assert table.rewards[loser] == -1


# ---------------------------------------------------------------------------------------------------------
# Observations, rewards and ends as the agents see them.


@game_sizes
def test_a_table_agrees_with_the_core(game: str, players: int) -> None:
    """The same deal and the same actions in a VecEnv: same movers, observations, rewards and end."""
    table, core = make(game, players), env.make(game, 1, players, auto_reset=False)
    table.reset(seed=11)
    core.reset(seed=11)
    returns = dict.fromkeys(table.possible_agents, 0.0)
    while not core.done[0]:
        agent = table.agent_selection
        seat = int(core.to_play[0])
        assert agent == f"player_{seat}"
        observation, _, terminated, truncated, info = table.last()
        np.testing.assert_array_equal(observation["observation"], core.obs[0])
        np.testing.assert_array_equal(observation["action_mask"], core.legal[0])
        assert not terminated
        assert not truncated
        assert info == {
            "phase": core.phase_names[core.phase[0]],
            "score": core.scores[0, seat],
            "rank": core.ranks[0, seat],
        }
        actions = core.sample_actions(seed=3)
        core.step(actions)
        table.step(actions[0])
        assert list(table.rewards.values()) == core.rewards[0].tolist()
        for name, reward in table.rewards.items():
            returns[name] += reward
    assert list(table.terminations.values()) == [True] * players
    for value, rank in zip(returns.values(), core.ranks[0], strict=True):
        assert value >= 0 if rank == 1 else value < 0


@game_sizes
def test_only_the_mover_has_legal_actions(game: str, players: int) -> None:
    table = make(game, players)
    table.reset(seed=1)
    for agent in play(table, seed=1, decisions=100):
        movers = [a for a in table.agents if table.observe(a)["action_mask"].any()]
        assert movers == ([] if table.terminations[agent] else [agent])


@game_sizes
def test_observations_hide_what_the_seat_cannot_know(game: str, players: int) -> None:
    """Resampling everything that a seat cannot know changes neither its observation nor a spectator's view."""
    table, other = make(game, players, render_mode="ansi"), env.make(game, 1, players, auto_reset=False)
    table.reset(seed=2)
    hidden_changed = False
    for step, _ in enumerate(play(table, seed=2, decisions=150)):
        for seat, agent in enumerate(table.possible_agents):
            other.copy_from(table.tables, [0])
            other.determinize(seat, seed=step)
            hidden_changed |= other.save(0) != table.tables.save(0)
            np.testing.assert_array_equal(table.observe(agent)["observation"], other.observe(seat)[0])
            if agent != table.agent_selection:  # a spectator knows less than any seat but the mover's
                assert table.render() == other.render(0)
    assert hidden_changed


def test_a_drawn_card_is_not_rendered() -> None:
    table = make("skyjo", render_mode="ansi")
    table.reset(seed=0)
    table.step(0)
    text = table.render()
    assert text is not None
    assert "in hand ##" in text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)
def test_a_truncated_game_is_not_terminated(case: Case) -> None:
    table = make(case.game, rules={"max_decisions": case.cap})
    table.reset(seed=0)
    assert len(list(play(table, seed=0))) == case.cap + 2  # and one empty step per agent
    table.reset(seed=0)
    for _ in play(table, seed=0, decisions=case.cap):
        assert not any(table.truncations.values())
    assert list(table.truncations.values()) == [True, True]
    assert list(table.terminations.values()) == [False, False]
    assert not table.observe("player_0")["action_mask"].any()


# ---------------------------------------------------------------------------------------------------------
# Seeds, errors, rendering.


def deals(table: TableEnv, *seeds: int | None) -> list[bytes]:
    """Table after each reset."""
    states = []
    for seed in seeds:
        table.reset(seed=seed)
        states.append(table.tables.save(0))
    return states


@every_game
def test_reset_without_a_seed_goes_on_to_the_next_deal(game: str) -> None:
    first = deals(make(game), 5, None, None, 5, None)
    assert len(set(first)) == 3
    assert first[3:] == first[:2]
    assert deals(make(game), 5, None, None, 5, None) == first
    assert deals(make(game), 6)[0] != first[0]
    assert deals(make(game), None) != deals(make(game), None)


@every_game
def test_illegal_actions_are_errors_and_change_nothing(game: str) -> None:
    table = make(game)
    table.reset(seed=0)
    before = table.tables.save(0)
    illegal = np.flatnonzero(table.observe(table.agent_selection)["action_mask"] == 0)[:1].tolist()
    for action in (*illegal, table.tables.num_actions, env.SKIP, -2, None):
        with pytest.raises(ValueError, match="action"):
            table.step(action)
    with pytest.raises(TypeError):
        table.step(0.5)  # type: ignore[arg-type]
    assert table.tables.save(0) == before


@every_game
def test_step_needs_a_reset(game: str) -> None:
    with pytest.raises(RuntimeError, match="reset"):
        make(game).step(0)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="no game is called 'chess'"):
        make("chess")
    with pytest.raises(ValueError, match="render_mode: expected ansi, human or None, got 'rgb_array'"):
        make(env.games()[0], render_mode="rgb_array")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)
def test_human_mode_prints_every_change(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    silent, shown = make(case.game, render_mode="ansi"), make(case.game, render_mode="human")
    silent.reset(seed=0)
    pages = [silent.render() for _ in play(silent, seed=0, decisions=case.cap)]
    pages.append(silent.render())
    shown.reset(seed=0)
    for _ in play(shown, seed=0, decisions=case.cap):
        pass
    assert capsys.readouterr().out == "".join(f"{page}\n" for page in pages)


@every_game
def test_spaces_follow_the_vocabularies(game: str) -> None:
    table = make(game)
    row = table.observation_space("player_0")["observation"]
    assert isinstance(row, spaces.Box)
    for group in table.tables.groups:
        end = group.offset + group.count * len(group.fields)
        high = row.high[group.offset : end].reshape(group.count, len(group.fields))
        assert (high == [field.vocabulary - 1 for field in group.fields]).all()
    assert (row.low == 0).all()
    assert row.dtype == np.int16


def test_missing_pettingzoo_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "env.pettingzoo")
    with pytest.raises(ImportError, match="pip install pettingzoo"):
        importlib.import_module("env.pettingzoo")
