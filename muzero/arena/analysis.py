"""Analysis of positions for people and programs: what a search found, and what is known about the hidden cards.

A report is a dictionary ready for JSON; docs/engine.md lists its keys. The terminal, the engine and the page show the
same reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import env
from muzero.agents.agent_spec import AgentSpec, build, preferred_agents, resolve, trained_for
from muzero.agents.agents import Searcher
from muzero.agents.analysis import PositionAnalysis, analyse_rows
from muzero.arena.position import Position, belief_report, card_names, rounded, rounded_all
from muzero.arena.rule_sets import rule_set_of
from muzero.config.fields import require


class Analyst:
    """Agent with search that analyses positions; one planner per number of players, made when it is first needed.

    Args:
      spec: description of the agent; its network names the game.
      batch: largest number of positions that are searched at a time.
    """

    def __init__(self, spec: AgentSpec, batch: int = 64) -> None:
        self.spec, self.batch = resolve(spec), batch
        trained = trained_for(self.spec)
        searches = trained is not None and spec.kind in ("agent", "checkpoint")
        require(searches, "agent", "one with a network and search, such as agent:NAME or checkpoint:PATH", str(spec))
        assert trained is not None
        self.game, self.players = str(trained["game"]), int(trained["players"])
        self._searchers: dict[int, Searcher] = {}

    def searcher(self, players: int) -> Searcher:
        """Agent for a number of players; an error names the numbers that its network is for."""
        if players not in self._searchers:
            agent = build(self.spec, self.game, players, batch=self.batch)
            assert isinstance(agent, Searcher)
            self._searchers[players] = agent
        return self._searchers[players]

    def act(self, positions: Sequence[Position], keys: Sequence[int]) -> list[int]:
        """Actions that the agent takes in positions with the same number of players, in one search."""
        plan = self.searcher(positions[0].info.num_players).planner.plan
        actions: list[int] = []
        for start in range(0, len(positions), self.batch):
            some = slice(start, start + self.batch)
            obs, legal, phase, _ = _stack(positions[some])
            actions += [int(a) for a in plan(obs, legal, phase, np.array(keys[some], np.uint64)).actions]
        return actions

    def analyse(self, positions: Sequence[Position]) -> list[dict[str, Any]]:
        """Reports of positions with the same number of players, from one search."""
        players = positions[0].info.num_players
        for position in positions:
            require(
                position.info.name == self.game, "game", f"{self.game}, which {self.spec} plays", position.info.name
            )
            assert position.info.num_players == players, "one search is for one number of players"
        started = perf_counter()
        keys = np.array([position.key for position in positions], np.uint64)
        found = analyse_rows(self.searcher(players).planner, *_stack(positions), keys)
        taken = 1000 * (perf_counter() - started) / len(positions)
        return [_report(position, found, row, taken) for row, position in enumerate(positions)]


def default_analyst(game: str, players: int | None = None, rules: env.Rules | None = None) -> AgentSpec | None:
    """Trained agent that comes with the project, the belief variant if there are several; None if there is none.

    Args:
      game: game that it was trained for.
      players: number of players that it was trained for; None for any.
      rules: rules of the rule set that it was trained by; None for any.
    """
    for name in preferred_agents():
        spec = AgentSpec.of("agent", name)
        trained = trained_for(spec)
        if trained and trained["game"] == game and players in (None, trained["players"]):
            own = rule_set_of(game, trained["players"], trained["rules"])
            if rules is None or own == rule_set_of(game, trained["players"], rules):
                return spec
    return None


def _stack(
    positions: Sequence[Position],
) -> tuple[NDArray[np.int16], NDArray[np.uint64], NDArray[np.int8], NDArray[np.int8]]:
    """Observations, legal actions, phases and seats of positions as arrays."""
    legal = np.array([sum(1 << action for action in position.legal) for position in positions], np.uint64)
    phase = np.array([position.phase for position in positions], np.int8)
    return np.stack([p.obs for p in positions]), legal, phase, np.array([p.to_play for p in positions], np.int8)


def _report(position: Position, found: PositionAnalysis, row: int, milliseconds: float) -> dict[str, Any]:
    """Report of one position from the analysis of a batch."""
    names = position.info.action_names
    action = int(found.actions[row])
    return {
        "to_play": position.to_play,
        "phase": position.info.phase_names[position.phase],
        "action": action,
        "name": names[action],
        "actions": [
            {
                "action": a,
                "name": names[a],
                "prior": rounded(found.prior[row, a]),
                "visits": rounded(found.visits[row, a]),
                "q": rounded(found.q[row, a]),
                "policy": rounded(found.policy[row, a]),
            }
            for a in position.legal
        ],
        "values": rounded_all(found.values[row]),
        "winner": None if found.winner is None else rounded_all(found.winner[row]),
        "ranks": None if found.rank is None else [rounded_all(ranks) for ranks in found.rank[row]],
        "belief": belief_report(position, found, row),
        "line": [
            {"action": int(a), "name": names[a], "outcome": _card(position, int(outcome))}
            for a, outcome in found.lines[row]
            if a >= 0
        ],
        "milliseconds": round(milliseconds, 2),
    }


def _card(position: Position, outcome: int) -> str | None:
    """Name of the card that an outcome code stands for; None for no card."""
    names = card_names(position.info)
    return names[outcome - 1] if 0 < outcome <= len(names) else None
