"""Finished games that people can look at: those of the arena, those that evaluations kept, and loaded ones."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from env.game_record import GameRecord, GameRecordError, verify
from muzero.arena.results import result_of
from muzero.arena.rule_sets import rule_set_of
from muzero.arena.store import Store
from muzero.config.fields import require

MOST_DECISIONS = 20_000  # of a game that is shown
_MOST_LISTED = 300  # games of the arena, and as many of the directories
_MOST_FILES = 5000  # files that are looked at
_LOGGER = logging.getLogger(__name__)


def game_id(record: GameRecord) -> str:
    """Name of a finished game: 16 hexadecimal digits that its content gives."""
    return hashlib.sha256(json.dumps(record.content(), sort_keys=True).encode()).hexdigest()[:16]


class Gallery:
    """Finished games by id.

    Args:
      store: file of the arena's own games.
      directories: directories of game records, searched with all that is below them (`records=DIR` of
        muzero.evaluate, files of muzero.play); those that do not exist are passed over.
      games: games that are shown.
    """

    def __init__(self, store: Store, directories: Sequence[str], games: Sequence[str]) -> None:
        self.store, self.directories, self.games = store, [Path(name) for name in directories], list(games)
        self._files: dict[Path, tuple[float, str, dict[str, Any]]] = {}  # time of change, id, entry
        self._paths: dict[str, Path] = {}

    def entries(self) -> list[dict[str, Any]]:
        """Games that can be looked at, the newest first: id, source, game, names, scores, ranks, decisions."""
        own = []
        for name, source, content in self.store.games(_MOST_LISTED):
            try:
                own.append(_entry(name, source, GameRecord.parse(content, f"game {name}").content()))
            except GameRecordError as error:  # somebody else may have written to the file
                _LOGGER.warning("%s is not shown", error)
        return [each for each in own + self._kept() if each["game"] in self.games]

    def find(self, name: str) -> GameRecord:
        """Record by id; a ValueError if there is none."""
        content = self.store.game(name)
        if content is not None:
            return self._shown(GameRecord.parse(content, f"game {name}"))
        if name not in self._paths:
            self._kept()
        require(name in self._paths, "id", "the id of a game in the gallery", name)
        return self._shown(GameRecord.read(self._paths[name]))

    def _shown(self, record: GameRecord) -> GameRecord:
        """The record, which must be of a game that is shown, and no longer than can be shown."""
        require(record.game in self.games, "record.game", f"one of {', '.join(self.games)}", record.game)
        count = len(record.actions)
        require(count <= MOST_DECISIONS, "record.actions", f"at most {MOST_DECISIONS} decisions", count)
        return record

    def add(self, record: GameRecord, source: str) -> str:
        """Keep a finished game; return its id."""
        name = game_id(record)
        self.store.save_game(name, source, record.content())
        return name

    def finish(self, record: GameRecord, people: Sequence[bool], unrated: Iterable[str], source: str) -> str:
        """Keep a game of this arena that has just ended, and its result; return its id.

        Args:
          record: finished game.
          people: [P] whether each player is a person.
          unrated: reasons for which the game does not count for ratings.
          source: origin of the game, see `Store.save_game`.
        """
        name, reasons = self.add(record, source), sorted(unrated)
        seats = result_of(record.agents, people, record.scores, record.ranks)
        rules = rule_set_of(record.game, len(people), record.rules)
        result = {"rules": rules, "seats": seats, "rated": not reasons, "unrated": reasons}
        self.store.save_result(name, record.game, result)
        return name

    def load(self, text: str) -> str:
        """Check the text of a game record that a browser gives, play it again, and keep it; return its id."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("record: expected a game record, got text that is no JSON") from None
        record = self._shown(GameRecord.parse(content, "record"))
        verify(record)
        return self.add(record, "loaded")

    def _kept(self) -> list[dict[str, Any]]:
        """Games in the directories, the newest first; files are read again only if they have changed."""
        found = []
        for directory in self.directories:
            for path in sorted(directory.rglob("*.json"))[:_MOST_FILES] if directory.is_dir() else ():
                try:
                    changed = path.stat().st_mtime
                    if self._files.get(path, (0.0,))[0] != changed:
                        record = GameRecord.read(path)
                        name = game_id(record)
                        where = path.parent.relative_to(directory.parent).as_posix()
                        self._files[path] = changed, name, _entry(name, where, record.content())
                        self._paths[name] = path
                except (OSError, GameRecordError) as error:  # results of other kinds lie in directories of runs
                    _LOGGER.debug("%s is not shown: %s", path, error)
                    continue
                found.append((changed, self._files[path][2]))
        newest = sorted(found, key=lambda each: -each[0])[:_MOST_LISTED]
        return [entry for _, entry in newest]


def _entry(name: str, source: str, content: dict[str, Any]) -> dict[str, Any]:
    """A game as the gallery lists it."""
    kept = {key: content[key] for key in ("game", "agents", "scores", "ranks")}
    return {"id": name, "source": source, **kept, "decisions": len(content["actions"])}
