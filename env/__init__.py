"""Vectorised card games with a C++ core: the tables, the rules, hand-written players and descriptions of the games.

>>> import env
>>> tables = env.make("skyjo", num_envs=1024, num_players=2, rules="official", seed=0)
>>> tables.step(tables.sample_actions(seed=1))
>>> tables.obs.shape, tables.legal.shape, tables.rewards.shape
((1024, 242), (1024, 16), (1024, 2))
>>> env.describe("skyjo").action_names[:4]
('deck', 'take', 'keep', 'discard')
"""

from env.description import DEFAULT_BOT, GameDescription, Rules, SlotClasses, describe, games
from env.vector import DEALER, SKIP, Bot, Records, VecEnv, make, parse_bot

__all__ = [
    "DEALER",
    "DEFAULT_BOT",
    "SKIP",
    "Bot",
    "GameDescription",
    "Records",
    "Rules",
    "SlotClasses",
    "VecEnv",
    "describe",
    "games",
    "make",
    "parse_bot",
]
