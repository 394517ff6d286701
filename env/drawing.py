"""Pictures of tables as SVG, for notebooks and documents, drawn from the text that a game renders.

No game is named here: what looks like one of the game's cards becomes a card, `##` the back of one, and everything else
stays text. So a picture shows what the text shows, and no hidden card.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from env.description import GameDescription

_CELL, _LINE, _CARD, _MARGIN = 10.0, 34.0, 28.0, 16.0  # pixels: width of a character, height of a line and of a card
_BACK = "##"
_COLUMN = 3  # spaces before a name of one character that belongs to a column of cards
_BEFORE_A_CARD = {"top", "hand", "card"}  # words that a card follows; a number after another word is no card
_COUNT = "count_"  # start of the names of the fields that count unseen cards, one per kind of card
_LOW, _HIGH = (33, 102, 172), (178, 88, 0)  # colours of the first and the last kind of card, for any kind of sight


class SvgPicture(str):
    """SVG text that a notebook shows as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file."""
        place = Path(path)
        place.write_text(self, encoding="utf-8")
        return place


class Drawable(ABC):
    """Tables that can be drawn: whatever has a description and can be rendered as text."""

    info: GameDescription

    @abstractmethod
    def render(self, table: int = 0, seat: int | None = None) -> str:
        """Text of a table as a seat sees it."""

    def draw(self, table: int = 0, seat: int | None = None) -> SvgPicture:
        """Picture of a table as a seat sees it, as SVG; by default as a spectator sees it."""
        return draw_text(self.render(table, seat), card_names(self.info), f"{self.info.name}, table {table}")


def card_names(info: GameDescription) -> list[str]:
    """Names of a game's kinds of cards, from the fields that count unseen ones."""
    for group in info.groups:
        found = [field.name.removeprefix(_COUNT) for field in group.fields if field.name.startswith(_COUNT)]
        if found:
            return found
    return []


def draw_text(text: str, cards: Sequence[str], title: str) -> SvgPicture:
    """Draw the text of a table.

    Args:
      text: text of a table, as `VecEnv.render` gives it.
      cards: names of the kinds of cards, in order.
      title: description of the picture for people who cannot see it.
    """
    lines = text.rstrip("\n").split("\n")
    width = 2 * _MARGIN + _CELL * max(map(len, lines))
    height = 2 * _MARGIN + _LINE * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="monospace" font-size="15" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height:g}" rx="12" fill="#f4f1ea"/>',
    ]
    for number, line in enumerate(lines):
        middle = _MARGIN + _LINE * (number + 0.5)
        words = list(re.finditer(r"\S+", line))
        for index, word in enumerate(words):
            before = words[index - 1][0] if index else ""
            after = words[index + 1][0] if index + 1 < len(words) else ""
            start = _MARGIN + _CELL * word.start()
            if word[0] == _BACK or _is_card(word[0], before, after, cards):
                gap = word.start() - (words[index - 1].end() if index else 0)
                room = max(len(word[0]), 2 if gap >= _COLUMN else 1)  # in a column, short names stand at the right
                parts += _card(word[0], start - _CELL * (room - len(word[0])), _CELL * room, middle, cards)
            else:
                bold = ' font-weight="bold"' if word[0] == "*" or before == "seat" else ""
                parts.append(f'<text x="{start:g}" y="{middle + 5:g}" fill="#222"{bold}>{escape(word[0])}</text>')
    return SvgPicture("\n".join([*parts, "</svg>", ""]))


def _is_card(word: str, before: str, after: str, cards: Sequence[str]) -> bool:
    """Tell whether a word of a table's text is a card, by the words beside it."""
    counted = after.rstrip(":,") in ("card", "cards")
    number_of_something = before.isalpha() and before not in _BEFORE_A_CARD and before not in cards
    return word in cards and not counted and not number_of_something


def _card(word: str, start: float, room: float, middle: float, cards: Sequence[str]) -> list[str]:
    """A card with its name, or the back of one, from pixel `start` on with `room` for the name."""
    wide, left = room + 8, start - 4
    box = f'x="{left:g}" y="{middle - _CARD / 2:g}" width="{wide:g}" height="{_CARD:g}" rx="4"'
    if word == _BACK:
        return [f'<rect {box} fill="#5b6470" stroke="#2d333b" class="back"/>']
    share = cards.index(word) / max(1, len(cards) - 1)
    ink = "#" + "".join(f"{round(low + share * (high - low)):02x}" for low, high in zip(_LOW, _HIGH, strict=True))
    place = f'x="{left + wide / 2:g}" y="{middle + 5:g}" text-anchor="middle" font-weight="bold"'
    face = f'<rect {box} fill="#fff" stroke="{ink}" stroke-width="1.5" class="card"/>'
    return [face, f'<text {place} fill="{ink}">{escape(word)}</text>']
