"""Named rule sets of the games: which of them a game is played by."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import env


@lru_cache(64)
def rule_sets(game: str, players: int) -> dict[str, dict[str, Any]]:
    """Value of every rule option by the name of the rule set; the official one comes first."""
    names = env.describe(game, players).presets
    return {name: dict(env.describe(game, players, name).rule_values) for name in names}


def rule_set_of(game: str, players: int, rules: env.Rules) -> str:
    """Name of the rule set that rules name, else of the first of those that they agree with in most options.

    Args:
      game: the game.
      players: players at the table.
      rules: name, options that change a rule set, or the values of all options, as game records hold them.
    """
    given = env.describe(game, players, rules).rule_values
    named = rules if isinstance(rules, str) else rules.get("preset")
    if named is not None:
        return str(named)
    known = rule_sets(game, players)
    return max(known, key=lambda name: sum(given[option] == value for option, value in known[name].items()))
