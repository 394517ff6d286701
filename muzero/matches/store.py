"""Files of a match: its finished games, its games in flight, and game records."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import env
from env.game_record import GameRecord, GameRecordError
from muzero.matches.games import Games, first_games
from muzero.matches.luck import KINDS, MOST_LUCK
from muzero.runs.files import CheckpointError, read_arrays, require_arrays, save_whole, wrap_errors, writing
from muzero.runs.schema import refuse

Ints = NDArray[np.int64]
_GAMES, _IN_FLIGHT = ".games.npz", ".in_flight-"
_LARGEST_LUCK = 1e9  # of all kinds of luck, points included
_ROUNDING = 1e-6


@dataclass(frozen=True)
class GameRecordWriter:
    """Writes games of a against b as game records, one file per game, named by deal and a's seat.

    Attributes:
      directory: directory of the files.
      deals: number of deals whose games are written, from deal 0 on.
      a, b: names of the agents in the records.
    """

    directory: Path
    deals: int
    a: str
    b: str

    def path(self, deal: int, seat: int) -> Path:
        """Path of the file of a game."""
        return self.directory / f"{deal:06d}-seat{seat}.json"

    def has(self, deal: int, seat: int, seed: int, rules: dict[str, Any]) -> bool:
        """Tell whether the file of a game exists and belongs to this match (matches may share a directory)."""
        try:
            record = GameRecord.read(self.path(deal, seat))
        except (OSError, GameRecordError):
            return False
        agents = self._agents(seat, len(record.agents))
        return (record.seed, record.deal, record.agents, record.rules) == (seed, deal, agents, rules)

    def write(self, tables: env.VecEnv, deals: Ints, seats: Ints, actions: Sequence[Ints]) -> None:
        """Write the games of finished tables; actions [steps][B], `SKIP` where a table's game was over."""
        for row in np.flatnonzero(deals < self.deals).tolist():
            deal, seat = int(deals[row]), int(seats[row])
            made = [int(step[row]) for step in actions if step[row] != env.SKIP]
            agents = self._agents(seat, tables.num_players)
            record = GameRecord.of(tables, row, seed=tables.seed, deal=deal, agents=agents, actions=made)
            with writing(self.path(deal, seat)):
                record.save(self.path(deal, seat))

    def _agents(self, seat: int, players: int) -> list[str]:
        return [self.a if place == seat else self.b for place in range(players)]


@dataclass(frozen=True)
class InFlightStore:
    """Keeps the actions of games in flight, so that another process can resume them.

    Agents have no memory, so the same actions at the same tables lead to the same games.

    Attributes:
      path: path of the file.
      key: hash that identifies the games; a file with another key is ignored.
      every: number of seconds between two saves.
    """

    path: Path
    key: str
    every: float = 20.0

    def load(self) -> list[Ints]:
        """Actions [steps][B] that an earlier process saved; empty if there are none to resume from."""
        if not self.path.exists():
            return []
        try:
            saved = read_arrays(self.path)
            if _key(self.path, saved) != self.key:
                return []
            require_arrays(self.path, saved, {"key": (saved["key"].dtype, ()), "actions": (np.int16, (None, None))})
            return list(saved["actions"].astype(np.int64))
        except CheckpointError as error:
            warnings.warn(f"{self.path} cannot be read, its games start again: {error}", RuntimeWarning, stacklevel=2)
            return []

    def save(self, actions: Sequence[Ints]) -> None:
        """Save the actions [steps][B] so far."""
        save_whole(self.path, key=np.array(self.key), actions=np.array(actions, np.int16))


class MatchStore:
    """Keeps the games of a match next to its result file, so that the same command resumes it.

    Args:
      out: result file of the match; None keeps nothing.
      key: hash that identifies what is played; games with another key are ignored.
      players: number of players at a table.
      stats: number of statistics that the game reports for each episode.
      luck: number of columns of luck (`muzero.matches.luck.COLUMNS`); 0 if it is not measured.
    """

    def __init__(self, out: Path | None, key: str, players: int, stats: int, luck: int = 0) -> None:
        self.path = out.with_suffix(_GAMES) if out else None
        self.key, self.players, self.stats, self.luck = key, players, stats, luck

    def load(self, deals: int) -> list[Games]:
        """Games that an earlier process with the same settings played, at most `deals` deals: one list, or no list."""
        if self.path is None or not self.path.exists():
            return []
        try:
            saved = read_arrays(self.path)
            if _key(self.path, saved) != self.key:
                other = "other settings, rules, weights or precision (bf16=)"
                warnings.warn(f"{self.path} has games of {other}: the match starts again", RuntimeWarning, stacklevel=2)
                return []
            games = self._read(self.path, saved)
        except CheckpointError as error:
            warnings.warn(f"{self.path} cannot be read, the match starts again: {error}", RuntimeWarning, stacklevel=2)
            return []
        return [first_games(games, min(len(games), deals * self.players))]

    def _read(self, path: Path, saved: dict[str, NDArray[Any]]) -> Games:
        """Games in the arrays of a file; refuses what no games of this match could have brought."""
        columns = {f.name: saved[f.name] for f in fields(Games) if f.name in saved}
        expected: dict[str, tuple[Any, tuple[int | None, ...]]] = {
            "key": (saved["key"].dtype, ()),
            **dict.fromkeys(("won", "scores_a", "scores_b"), (np.float64, (None,))),
            "truncated": (np.bool_, (None,)),
            **dict.fromkeys(("decisions", "deals", "seats"), (np.int64, (None,))),
            "scores": (np.int64, (None, self.players)),
            "stats": (np.int64, (None, self.stats)),
        }
        if self.luck or "luck" in saved:  # not in files of earlier versions, which did not measure it
            expected["luck"] = np.float64, (None, self.luck)
        require_arrays(path, saved, expected)
        games, count = Games(**columns), len(columns["won"])
        with wrap_errors(path):
            lengths = {len(column) for column in columns.values()}
            if len(lengths) > 1 or not count or count % self.players:
                refuse("games", f"columns of the same length, a multiple of {self.players}", found=str(sorted(lengths)))
            limits = {"won": 1.0, "scores_a": 1e9, "scores_b": 1e9, "decisions": 1e9, "scores": 1e9, "stats": 1e12}
            for name, most in limits.items():
                least = 0.0 if name in ("won", "decisions") else -most
                if not ((columns[name] >= least) & (columns[name] <= most)).all():
                    refuse(name, f"numbers from {least:g} to {most:g}", found="others")
            self._check_luck(games.luck)
            order = np.arange(count)
            for name, wanted in (("deals", order // self.players), ("seats", order % self.players)):
                if (columns[name] != wanted).any():
                    refuse(name, "every deal from every seat, in order", found="another order")
        return games

    def _check_luck(self, luck: NDArray[np.float64]) -> None:
        """Refuse luck that no game brings: that of winning has a bound, all of it is finite."""
        if not (np.abs(luck) <= _LARGEST_LUCK).all():
            refuse("luck", f"numbers from {-_LARGEST_LUCK:g} to {_LARGEST_LUCK:g}", found="others")
        if (np.abs(luck[:, : len(KINDS)].sum(1)) > MOST_LUCK + _ROUNDING).any():
            refuse("luck", f"at most {MOST_LUCK:g} shares of the win in a game", found="more")

    def save(self, games: Games) -> None:
        """Save all games so far, and delete the files of games in flight that are finished now."""
        if self.path is not None:
            save_whole(self.path, key=np.array(self.key), **vars(games))
            self._delete_in_flight(before=len(games) // self.players)

    def finish(self) -> None:
        """Delete all files of games in flight: nothing will be resumed."""
        if self.path is not None:
            self._delete_in_flight(before=None)

    def in_flight(self, first: int, deals: int) -> InFlightStore | None:
        """Store for games in flight of some deals; None if the match keeps nothing."""
        if self.path is None:
            return None
        return InFlightStore(self._in_flight_path(str(first)), f"{self.key} {first} {deals}")

    def _in_flight_path(self, first: str) -> Path:
        assert self.path is not None
        return self.path.with_name(f"{self.path.name.removesuffix(_GAMES)}{_IN_FLIGHT}{first}.npz")

    def _delete_in_flight(self, before: int | None) -> None:
        assert self.path is not None
        for old in self.path.parent.glob(self._in_flight_path("*").name):
            first = old.stem.rpartition("-")[2]
            if old.is_file() and (before is None or (first.isdigit() and int(first) < before)):
                old.unlink(missing_ok=True)


def _key(path: Path, saved: dict[str, NDArray[Any]]) -> str:
    """Key that a file of games was saved with; refuses a file that has none."""
    with wrap_errors(path):
        found = saved.get("key")
        if found is None or found.shape != () or found.dtype.kind != "U":
            refuse("key", "one text", found="none" if found is None else f"{found.dtype} {list(found.shape)}")
    return str(saved["key"])
