"""Public API: agents, matches and what one's own agents and networks are made of. docs/api.md shows it at work.

>>> import muzero
>>> agent = muzero.load_agent("checkpoint:RUN,simulations=64")
>>> figures, games = muzero.play_match("checkpoint:RUN", "bot:greedy", games=200)

Names are imported when they are first used, so that `import muzero` costs nothing; it only tells OpenMP, which must be
done before torch is loaded, for how long threads spin (`muzero.runs.openmp`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from muzero.runs.openmp import choose_waiting_policy

if TYPE_CHECKING:
    from muzero.agents.agents import Agent, Situation
    from muzero.agents.analysis import PositionAnalysis
    from muzero.agents.loading import load_agent
    from muzero.matches.api import play_match
    from muzero.matches.games import Games
    from muzero.model.interface import BaseNetwork, Prediction
    from muzero.model.network import make_network, register_network

__all__ = [
    "Agent",
    "BaseNetwork",
    "Games",
    "PositionAnalysis",
    "Prediction",
    "Situation",
    "load_agent",
    "make_network",
    "play_match",
    "register_network",
]

choose_waiting_policy()  # here, because it must come before torch, and this module before all others of the package

_HOMES = {
    "Agent": "muzero.agents.agents",
    "BaseNetwork": "muzero.model.interface",
    "Games": "muzero.matches.games",
    "PositionAnalysis": "muzero.agents.analysis",
    "Prediction": "muzero.model.interface",
    "Situation": "muzero.agents.agents",
    "load_agent": "muzero.agents.loading",
    "make_network": "muzero.model.network",
    "play_match": "muzero.matches.api",
    "register_network": "muzero.model.network",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'muzero' has no attribute {name!r}; public names are {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
