"""Match of two bots that the tests of this package vary, and a comparison of games."""

from __future__ import annotations

from muzero.matches.games import Games
from muzero.matches.match_config import MatchConfig

BOTS = MatchConfig(a="bot:greedy", b="bot:naive", games=60, game="skyjo", players=2, batch=20, workers=1)


def assert_same_games(a: Games, b: Games) -> None:
    """Fail unless all results are equal."""
    for name, array in vars(a).items():
        assert (getattr(b, name) == array).all(), name
