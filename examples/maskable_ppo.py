"""MaskablePPO of sb3-contrib learns rounds of a game against a bot, through the project's Gymnasium environment.

    pip install -c constraints.txt sb3-contrib        # brings stable-baselines3, and no other torch
    python examples/maskable_ppo.py                   # 60,000 steps, a minute or two

It then wins 0.755 [0.691, 0.809] of 200 rounds of Skyjo against the bot `random`, after 0.435 [0.368, 0.504] before
training (one run, seed 0, Wilson intervals; less than two minutes at low priority on a busy machine of two cores). The
policy is a plain MLP that reads an observation as one row of numbers, so it learns far more slowly than this project's
own networks; the point is that any library can be connected.
"""

from __future__ import annotations

import argparse

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

import env.gym


def short_rules(game: str) -> dict[str, object]:
    """Rules of single rounds, where a game has them, that pay the difference in points, too."""
    known = env.describe(game).rule_values
    return {name: value for name, value in {"episode": "round", "round_reward": 0.25}.items() if name in known}


def rank_shares(model: MaskablePPO, game: str, bot: str, episodes: int) -> float:
    """Share of first places of the learned policy in new episodes."""
    tables = env.gym.make_vec(game, episodes, bots=[bot], rules=short_rules(game))
    obs, info = tables.reset(seed=12345)
    first = np.full(episodes, np.nan)
    while np.isnan(first).any():
        actions, _ = model.predict(obs, action_masks=info["action_mask"], deterministic=True)
        obs, _, terminated, truncated, info = tables.step(actions)
        ended = (terminated | truncated) & np.isnan(first)
        if ended.any():
            first[ended] = info["final_info"]["rank"][ended] == 1
    return float(first.mean())


def main() -> None:
    """Train, and print the share of rounds won before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default=env.games()[0], choices=env.games())
    parser.add_argument("--bot", default="random")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--tables", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rules = short_rules(options.game)
    tables = DummyVecEnv([lambda: env.gym.make(options.game, bots=[options.bot], rules=rules)] * options.tables)
    settings = {"n_steps": 256, "batch_size": 512, "learning_rate": 1e-3, "gamma": 1.0, "ent_coef": 0.01}
    model = MaskablePPO("MlpPolicy", tables, seed=options.seed, device="cpu", **settings)
    print(f"before: {rank_shares(model, options.game, options.bot, 200):.3f} of 200 rounds won against {options.bot}")
    model.learn(options.steps)
    print(f"after {options.steps} steps: {rank_shares(model, options.game, options.bot, 200):.3f}")


if __name__ == "__main__":
    main()
