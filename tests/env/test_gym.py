"""Gymnasium environments: the checker's rules, episodes of the tables behind them, masks, a learner from outside."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import env
import env.gym

ROOT = Path(__file__).resolve().parents[2]
GAMES = {"skyjo": {"episode": "round"}, "lama": {"episode": "round"}, "skipbo": {}, "kuhn": {}}


@pytest.mark.parametrize("game", env.games())
def test_environment_passes_gymnasiums_checker(game: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(spec|registry|Box observation space).*")
        check_env(env.gym.make(game, illegal="lose", render_mode="ansi"), skip_render_check=False)


@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("seat", [0, 1])
def test_vector_environment_plays_whole_episodes_whose_rewards_are_the_tables(game: str, seat: int) -> None:
    tables = env.gym.make_vec(game, 6, rules=GAMES[game], seat=seat)
    assert tables.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, info = tables.reset(seed=4)
    rng, ended, gained = np.random.default_rng(0), 0, np.zeros(6)
    for _ in range(6000):
        assert tables.observation_space.contains(obs)
        assert (tables.tables.to_play == seat).all()
        assert (obs == tables.tables.observe(seat)).all()
        assert (info["action_mask"] == tables.action_masks()).all()
        assert info["action_mask"].any(1).all()
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in info["action_mask"]])
        obs, rewards, terminated, truncated, info = tables.step(actions)
        gained += rewards
        for row in np.flatnonzero(terminated | truncated):
            ended += 1
            rank = info["final_info"]["rank"][row]
            assert rank in (1, 2)
            if terminated[row] and game == "skyjo":
                assert (gained[row] > 0) == (rank == 1) or gained[row] == 0
            assert tables.single_observation_space.contains(info["final_obs"][row])
            gained[row] = 0
        if ended >= 8:
            break
    assert ended >= 8


def test_same_seed_gives_the_same_episodes_and_another_seed_does_not() -> None:
    def play(seed: int) -> list[int]:
        tables, found = env.gym.make_vec("skyjo", 3, bots=["greedy"]), []
        obs, info = tables.reset(seed=seed)
        for _ in range(40):
            obs, _, _, _, info = tables.step(info["action_mask"].argmax(1))
            found.append(int(obs.astype(np.int64).sum()))
        return found

    assert play(1) == play(1) != play(2)


def test_illegal_actions_are_errors_or_lose_as_asked() -> None:
    strict = env.gym.make_vec("skyjo", 2)
    _, info = strict.reset(seed=0)
    wrong = np.array([info["action_mask"][0].argmin(), info["action_mask"][1].argmax()])
    with pytest.raises(ValueError, match=r"table 0: expected a legal action, one of deck, take, got \d+"):
        strict.step(wrong)
    lenient = env.gym.make_vec("skyjo", 2, illegal="lose")
    lenient.reset(seed=0)
    _, rewards, terminated, _, info = lenient.step(wrong)
    assert rewards.tolist() == [-1, 0]
    assert terminated.tolist() == [True, False]
    assert info["final_info"]["rank"][0] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seat": 2}, "seat: expected 0 to 1, got 2"),
        ({"illegal": "ignore"}, "illegal: expected error or lose, got 'ignore'"),
        ({"bots": ["greedy", "greedy"]}, "bots: expected 1 or 1 names"),
        ({"bots": ["nobody"]}, "nobody"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        env.gym.make_vec("skyjo", 2, **options)


def test_observations_do_not_depend_on_hidden_cards() -> None:
    tables = env.gym.make_vec("lama", 4, seat=1)
    obs, _ = tables.reset(seed=3)
    tables.tables.determinize(1, 99)
    assert (tables.tables.observe(1) == obs).all()


def test_maskable_ppo_learns_through_the_environment() -> None:
    pytest.importorskip("sb3_contrib")
    command = [sys.executable, "examples/maskable_ppo.py", "--game", "kuhn", "--steps", "2048", "--tables", "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "after 2048 steps: " in done.stdout
