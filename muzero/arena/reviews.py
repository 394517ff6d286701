"""Reviews that people asked for: made one piece after the other beside the games in play, and kept for a while."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from muzero.config.fields import require

if TYPE_CHECKING:
    from muzero.arena.brain import Brain
    from muzero.arena.catalogue import Catalogue
    from muzero.arena.gallery import Gallery
    from muzero.arena.review import Review

_MOST = 32  # reviews that are kept
_MOST_WAITING = 8  # reviews that are not complete
_LOGGER = logging.getLogger(__name__)


class Reviews:
    """Reviews by game and seat."""

    def __init__(self, catalogue: Catalogue, brain: Brain, gallery: Gallery) -> None:
        self.catalogue, self.brain, self.gallery = catalogue, brain, gallery
        self._kept: OrderedDict[tuple[str, int], Review] = OrderedDict()
        self._failed: set[tuple[str, int]] = set()
        self._task: asyncio.Task[None] | None = None

    def find(self, name: str, seat: int) -> dict[str, Any]:
        """Review of a seat in a finished game as far as it is made, as a message; starts it if it is a new one."""
        key = name, seat
        require(key not in self._failed, "review", "a game that can be judged", name)
        if key not in self._kept:
            self._start(name, seat)
        self._kept.move_to_end(key)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
        return {"type": "review", "id": name, **self._kept[key].content()}

    def _start(self, name: str, seat: int) -> None:
        waiting = sum(not review.complete for review in self._kept.values())
        require(waiting < _MOST_WAITING, "review", f"fewer than {_MOST_WAITING} at a time; try later", waiting)
        record = self.gallery.find(name)
        players = len(record.agents)
        require(0 <= seat < players, "seat", f"0 to {players - 1}", seat)
        offer = self.catalogue.analyst(record.game, players, record.rules)
        self._kept[name, seat] = self.brain.review(record, seat, offer)
        done = [key for key, review in self._kept.items() if review.complete]
        for key in done[: max(0, len(self._kept) - _MOST)]:
            del self._kept[key]

    async def _work(self) -> None:
        """Make all reviews, a piece of each in turn."""
        while open_ones := [key for key, review in self._kept.items() if not review.complete]:
            for key in open_ones:
                try:
                    await self.brain.work(self._kept[key].step)
                except Exception:  # other reviews go on; whoever asks again is told
                    _LOGGER.exception("review of game %s, seat %d, failed", *key)
                    self._failed.add(key)
                    del self._kept[key]

    def close(self) -> None:
        """Stop."""
        if self._task:
            self._task.cancel()
