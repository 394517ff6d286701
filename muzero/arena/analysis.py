"""Analysis of positions for people and programs: what a search found, and what is known about the hidden cards.

A report is a dictionary ready for JSON; docs/engine.md lists its keys. The terminal, the engine and the page show the
same reports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import env
from muzero.agents.agent_spec import AgentSpec, build, resolve, shipped_agents, trained_for
from muzero.agents.agents import Searcher
from muzero.agents.analysis import PositionAnalysis, analyse_rows
from muzero.config.fields import require

_WORLDS = 16  # samples by which the slots with hidden cards are found
_PREFIX = "count_"  # of the fields that count unseen cards, before the name of the card


@dataclass(frozen=True)
class Position:
    """Position as its player to move sees it.

    Attributes:
      info: description of the game.
      obs: [W] observation of the player to move.
      legal: legal actions.
      phase: phase of the game.
      to_play: seat of the player to move.
      hidden: slots, counted from the player to move on, with a card that this player cannot see; None if unknown.
    """

    info: env.GameDescription
    obs: NDArray[np.int16]
    legal: tuple[int, ...]
    phase: int
    to_play: int
    hidden: tuple[int, ...] | None = None

    @staticmethod
    def at(tables: env.VecEnv) -> Position:
        """Position at a single table, as its player to move sees it."""
        require(tables.num_envs == 1 and not tables.done[0], "table", "one whose game is not over", "a finished one")
        legal = tuple(int(action) for action in np.flatnonzero(tables.legal[0]))
        phase, mover = int(tables.phase[0]), int(tables.to_play[0])
        return Position(tables.info, tables.obs[0].copy(), legal, phase, mover, hidden_slots(tables))

    @property
    def key(self) -> int:
        """Seed of the search: a function of what the player sees, so that it tells nothing about hidden cards."""
        return int.from_bytes(hashlib.sha256(self.obs.tobytes()).digest()[:8], "little")


def hidden_slots(tables: env.VecEnv) -> tuple[int, ...]:
    """Slots, counted from the player to move on, in which this player knows a card to be, but not which one.

    They are found in worlds that this player thinks possible, so that the answer does not depend on the hidden cards.
    Slots that stand for kinds of cards (does this hand have one?) are left out: in them a card has one face only.
    """
    worlds = env.make(tables.game, _WORLDS, tables.num_players, tables.rules, auto_reset=False)
    worlds.copy_from(tables, [0] * _WORLDS)
    seat = int(tables.to_play[0])
    worlds.determinize(seat, 0)
    cards = worlds.true_cards(seat)
    kinds = int((worlds.unseen_counts(seat)[0, 0] > 0).sum()) if tables.info.num_pools else 0
    there = (cards > 0).all(0) & ((cards != cards[:1]).any(0) | (kinds == 1))
    return tuple(int(slot) for slot in np.flatnonzero(there))


def card_names(info: env.GameDescription) -> list[str]:
    """Names of the kinds of cards, in the order of outcome codes from 1 on; empty if the game has none."""
    counts = [group for group in info.groups if group.name == "counts"]
    return [field.name.removeprefix(_PREFIX) for field in counts[0].fields] if counts else []


def exact_belief(position: Position) -> list[list[float]]:
    """Exact probabilities of the kinds of cards, for each pool of the game: hidden cards, the next card of the deck."""
    pools = position.info.decode(position.obs).get("counts", [])
    found = []
    for pool in pools:
        total = sum(pool.values())
        found.append([round(count / total, 4) if total else 0.0 for count in pool.values()])
    return found


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


def default_analyst(game: str, players: int) -> AgentSpec | None:
    """Trained agent that comes with the project for a game and number of players; None if there is none."""
    for name in shipped_agents():
        spec = AgentSpec.of("agent", name)
        trained = trained_for(spec)
        if trained and trained["game"] == game and trained["players"] == players:
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
                "prior": _number(found.prior[row, a]),
                "visits": _number(found.visits[row, a]),
                "q": _number(found.q[row, a]),
                "policy": _number(found.policy[row, a]),
            }
            for a in position.legal
        ],
        "values": _numbers(found.values[row]),
        "winner": None if found.winner is None else _numbers(found.winner[row]),
        "ranks": None if found.rank is None else [_numbers(ranks) for ranks in found.rank[row]],
        "belief": belief_report(position, found, row),
        "line": [
            {"action": int(a), "name": names[a], "outcome": _card(position, int(outcome))}
            for a, outcome in found.lines[row]
            if a >= 0
        ],
        "milliseconds": round(milliseconds, 2),
    }


def belief_report(position: Position, found: PositionAnalysis | None = None, row: int = 0) -> dict[str, Any]:
    """Beliefs over hidden cards: exact ones, and if a network was asked, its own for each slot and for each action."""
    exact, P = exact_belief(position), position.info.num_players
    per_player = sum(map(len, position.info.symmetric_blocks))
    slots = []
    for slot in position.hidden or ():
        cards = None if found is None or found.cards is None else _conditional(found.cards[row, slot])
        owner = (position.to_play + slot // per_player) % P
        slots.append({"owner": owner, "slot": slot % per_player, "pool": 0, "network": cards})
    events = []
    for action in position.legal:
        if found is not None and found.outcomes is not None and not np.isnan(found.outcomes[row, action, 0]):
            share = found.outcomes[row, action]
            pool = position.info.chance_rules[position.phase][action].pool
            events.append({"action": action, "pool": pool, "none": _number(share[0]), "network": _conditional(share)})
    return {"cards": card_names(position.info), "pools": exact, "slots": slots, "events": events}


def _conditional(share: NDArray[np.float32]) -> list[float | None]:
    """Probabilities of the kinds of cards, given that there is a card."""
    return _numbers(share[1:] / max(float(share[1:].sum()), 1e-9))


def _card(position: Position, outcome: int) -> str | None:
    """Name of the card that an outcome code stands for; None for no card."""
    names = card_names(position.info)
    return names[outcome - 1] if 0 < outcome <= len(names) else None


def _number(value: Any) -> float | None:
    """Number rounded for people; None for not a number."""
    return None if np.isnan(value) else round(float(value), 4)


def _numbers(values: NDArray[np.float32]) -> list[float | None]:
    return [_number(value) for value in values]
