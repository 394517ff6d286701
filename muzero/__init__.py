"""Public API: agents, matches and what one's own agents and networks are made of. docs/api.md shows it at work.

>>> import muzero
>>> agent = muzero.load_agent("checkpoint:RUN,simulations=64")
>>> figures, games = muzero.play_match("checkpoint:RUN", "bot:greedy", games=200)

Names are imported when they are first used, so that `import muzero` costs nothing. It only tells OpenMP, by which torch
computes, for how long threads spin: this must be done before torch is loaded, and this module is the one that every
command, worker process and actor imports first.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muzero.agents.agents import Agent, Situation
    from muzero.agents.analysis import PositionAnalysis
    from muzero.agents.loading import load_agent
    from muzero.matches.api import play_match
    from muzero.matches.games import Games
    from muzero.model.encoders import register_encoder
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
    "register_encoder",
    "register_network",
]

# Spinning of each OpenMP library's threads, which it reads when torch loads it.
_SPINNING = {
    "GOMP_SPINCOUNT": "1000",  # GNU, of torch's wheels for Linux: about 0.01 ms instead of 3
    "KMP_BLOCKTIME": "1",  # LLVM and Intel: 1 ms instead of 200
}


def _choose_spinning(environment: MutableMapping[str, str]) -> None:
    """Let OpenMP's threads spin for a short time only, in this process and those that it starts.

    Threads that have nothing to do, between two operations or because another thread is late, spin before they sleep.
    Operations of a network follow each other within microseconds, so spinning pays, but not for milliseconds: on a
    busy machine a late thread is not running, and those that spin use up the time that it needs. docs/speed.md has the
    benchmark. A choice of the user's, by any of the variables, is kept.
    """
    if not any(name in environment for name in ("OMP_WAIT_POLICY", *_SPINNING)):
        environment.update(_SPINNING)


_choose_spinning(os.environ)

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
    "register_encoder": "muzero.model.encoders",
    "register_network": "muzero.model.network",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'muzero' has no attribute {name!r}; public names are {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
