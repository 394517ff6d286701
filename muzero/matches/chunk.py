"""Part of a match that one worker plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muzero.matches.store import GameRecordWriter, InFlightStore


@dataclass(frozen=True)
class MatchChunk:
    """Consecutive deals of a match, which one worker plays.

    Attributes:
      a, b: agents, see `muzero.agents.agent_spec`.
      game, players, rules, seed: of the match.
      batch: games at a time.
      first, deals: number of the first deal, and number of deals.
      record_writer: writes games as game records.
      in_flight: saves games in flight.
    """

    a: str
    b: str
    game: str
    players: int
    rules: Any
    seed: int
    batch: int
    first: int
    deals: int
    record_writer: GameRecordWriter | None = None
    in_flight: InFlightStore | None = None
