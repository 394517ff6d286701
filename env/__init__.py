"""What happens at the table: vectorised card games with a C++ core.

>>> import env
>>> tables = env.make("skyjo", num_envs=1024, num_players=2, rules="official", seed=0)
>>> tables.step(tables.sample_actions(seed=1))
>>> tables.obs.shape, tables.legal.shape, tables.rewards.shape
((1024, 242), (1024, 16), (1024, 2))
"""

from env.vector import SKIP, Bot, Records, VecEnv, games, make, parse_bot

__all__ = ["SKIP", "Bot", "Records", "VecEnv", "games", "make", "parse_bot"]
