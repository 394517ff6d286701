"""Position as its player to move sees it, and the exact probabilities of the cards that this player cannot see."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import env
from muzero.config.fields import require

if TYPE_CHECKING:
    from muzero.agents.analysis import PositionAnalysis

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
            events.append({"action": action, "pool": pool, "none": rounded(share[0]), "network": _conditional(share)})
    return {"cards": card_names(position.info), "pools": exact, "slots": slots, "events": events}


def _conditional(share: NDArray[np.float32]) -> list[float | None]:
    """Probabilities of the kinds of cards, given that there is a card."""
    return rounded_all(share[1:] / max(float(share[1:].sum()), 1e-9))


def rounded(value: Any) -> float | None:
    """Number rounded for people; None for not a number."""
    return None if np.isnan(value) else round(float(value), 4)


def rounded_all(values: NDArray[np.float32]) -> list[float | None]:
    """Numbers rounded for people, see `rounded`."""
    return [rounded(value) for value in values]
