"""Matches from Python: agents as strings or as objects, results as figures and games."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import env
from muzero.agents.agent_spec import AgentSpec, fingerprint, load_value_model, resolve, trained_for
from muzero.agents.loading import load_agent
from muzero.agents.situation import Agent
from muzero.config.fields import require
from muzero.matches import match
from muzero.matches.games import Games
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.matches.paired_games import paired_games
from muzero.matches.results import report


def play_match(
    a: str | Agent,
    b: str | Agent,
    games: int = 1000,
    *,
    game: str = "",
    players: int = 0,
    rules: str | Mapping[str, Any] | None = None,
    seed: int = 0,
    batch: int = 512,
    workers: int = 1,
    luck: str = "",
) -> tuple[dict[str, Any], Games]:
    """Play a head-to-head on paired deals: every deal once with `a` in each seat, and `b` in all others.

    Agents that are objects are played in this process; two strings may be shared among worker processes.

    Args:
      a, b: names of agents (`"bot:greedy"`, `"checkpoint:RUN"`), or objects with an `act` method.
      games: number of games, rounded up to whole deals.
      game, players, rules: table to play at; by default as a network among the agents was trained, else 2 players and
        official rules. Without a network the game must be named.
      seed: seed of the deals.
      batch: number of games that are played at a time.
      workers: number of processes for two agents given as strings, 0 for one per core; a script that asks for more than
        one must call this under `if __name__ == "__main__":`, because worker processes import the script.
      luck: value function by which luck is taken out of the results, `"linear"` or the name of an agent with a network;
        "" takes none out.

    Returns:
      Figures (win rate, intervals, Elo, mean scores ...: those of `muzero.evaluate`), and the games themselves. An
      agent that is an object is named by its class in the figures, and its weights are unknown.
    """
    require(games >= 1, "games", "1 or more", games)
    named = [agent for agent in (a, b) if isinstance(agent, str)]
    trained: dict[str, Any] = next((found for text in named if (found := trained_for(AgentSpec.parse(text)))), {})
    game = game or trained.get("game", "")
    require(game in env.games(), "game", f"one of {', '.join(env.games())}", game)
    table_rules = rules if rules is not None else trained.get("rules", {})
    config = MatchConfig(a=_name(a), b=_name(b), games=games, game=game, players=players, rules=table_rules or {})
    config.seed, config.batch, config.workers, config.luck = seed, batch, workers, luck
    if isinstance(a, str) and isinstance(b, str):
        return match.play_match(with_defaults(config), quiet=True)
    config.players = players = players or trained.get("players", 2)
    config.rules = {"preset": config.rules} if isinstance(config.rules, str) else dict(config.rules)
    one, other = (
        load_agent(agent, game=game, players=players, batch=batch) if isinstance(agent, str) else agent
        for agent in (a, b)
    )
    started = time.perf_counter()
    model = load_value_model(luck, game, players, config.rules) if luck else None
    table = {"game": game, "players": players, "rules": config.rules}
    played = paired_games(one, other, config.deals, **table, seed=seed, batch=batch, luck=model)
    seconds = time.perf_counter() - started
    weights = [fingerprint(AgentSpec.parse(agent)) if isinstance(agent, str) else None for agent in (a, b)]
    return report(config, played, seconds, len(played), weights=weights), played


def _name(agent: str | Agent) -> str:
    """Name of an agent in the figures: its complete text, or the class of an object."""
    return str(resolve(AgentSpec.parse(agent))) if isinstance(agent, str) else type(agent).__name__
