"""Levels of strength, from beginner to best: agents in an order that a ladder has measured.

The file levels.json is written by `python -m experiments.arena_levels`, which plays the ladders. For each level it
holds the agent, the share of its decisions that are drawn at random, and its Elo with an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from muzero.agents.description import AgentSpec
from muzero.runs.files import read_json
from muzero.runs.schema import listing, real, record, text, whole

FILE = Path(__file__).with_name("levels.json")
_LEVEL = {"agent": text(), "blunders": real(0, 1), "elo": real(), "low": real(), "high": real()}
_LADDER = {
    "command": text(),
    "game": text(40),
    "players": whole(0, 64),
    "rules": text(40),
    "measured_with": whole(2, 64),
    "games_per_pairing": whole(1),
    "minutes": real(0),
    "levels": listing(record(_LEVEL), 2, 20),
    "points": listing(listing(real(0)), 2, 20),
}
_SCHEMA = record({"format": whole(1, 1), "ladders": listing(record(_LADDER))})


@dataclass(frozen=True)
class Level:
    """Strength of an opponent.

    Attributes:
      number: number of the level, from 1 on.
      spec: agent that plays.
      blunders: share of its decisions that are drawn at random.
      elo, low, high: Elo above the first level, with its interval.
    """

    number: int
    spec: AgentSpec
    blunders: float
    elo: float
    low: float
    high: float

    @property
    def name(self) -> str:
        """Name by which the level is chosen."""
        return f"Level {self.number}"


@dataclass(frozen=True)
class LevelLadder:
    """Levels of a game, the weakest first.

    Attributes:
      game: game that they play.
      players: number of players that their networks are for; 0 for any.
      rules: rule set by which they were measured.
      measured_with: number of players with which they were measured.
      levels: the levels.
      points: [L][L] points of each level against each other, from which the ratings came.
    """

    game: str
    players: int
    rules: str
    measured_with: int
    levels: tuple[Level, ...]
    points: tuple[tuple[float, ...], ...]


@lru_cache(4)
def read_levels(path: Path = FILE) -> tuple[LevelLadder, ...]:
    """Ladders of levels that come with the project, or of another file; none if there is no file."""
    if not path.exists():
        return ()
    return tuple(_ladder(each) for each in read_json(path, _SCHEMA)["ladders"])


def strongest_bot(game: str) -> str:
    """Strongest bot among the levels of a game; "" if none of them is a bot."""
    levels = [level for each in read_levels() if each.game == game for level in each.levels]
    bots = [level for level in levels if level.spec.kind == "bot"]
    best = max(bots, key=lambda level: (level.elo, -level.blunders), default=None)
    return best.spec.target if best else ""


def _ladder(content: dict[str, Any]) -> LevelLadder:
    levels = tuple(
        Level(number, AgentSpec.parse(each["agent"]), *(float(each[key]) for key in ("blunders", "elo", "low", "high")))
        for number, each in enumerate(content["levels"], 1)
    )
    points = tuple(tuple(float(number) for number in row) for row in content["points"])
    kept = {key: content[key] for key in ("game", "players", "rules", "measured_with")}
    return LevelLadder(**kept, levels=levels, points=points)
