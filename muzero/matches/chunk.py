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
      a, b: texts of the agents, see `muzero.agents.agent_spec`.
      game, players, rules, seed: game, number of players, rules and seed of the match.
      batch: number of games that are played at a time.
      first, deals: number of the first deal, and number of deals.
      record_writer: writer of game records; None writes none.
      in_flight: store that saves the games in flight; None saves none.
      luck: name of the value function by which luck is measured; "" measures none.
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
    luck: str = ""
