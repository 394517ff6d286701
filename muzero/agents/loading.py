"""Agents from their names, for use in Python."""

from __future__ import annotations

from muzero.agents.agent_spec import AgentSpec, build, resolve, trained_for
from muzero.agents.situation import Agent
from muzero.config.fields import require


def load_agent(text: str, *, game: str = "", players: int = 0, batch: int = 256) -> Agent:
    """Make the agent that a string names: `load_agent("checkpoint:runs/x,simulations=64")`.

    Args:
      text: name of the agent, as `python -m muzero.evaluate --help` explains it.
      game: game that it is to play; by default the game that its network was trained for.
      players: number of players at its tables; by default that of its network's training, else 2.
      batch: largest number of decisions that a search makes at a time; more are made in several parts.
    """
    spec = resolve(AgentSpec.parse(text))
    trained = trained_for(spec) or {}
    game = game or trained.get("game", "")
    require(bool(game), "game", f"the game that {text!r} is to play, because it has no network to tell", game)
    return build(spec, game, players or trained.get("players", 2), batch=batch)
