"""Pictures of tables: cards as cards, counts as text, and nothing that the text does not show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import env
from env.drawing import card_names, draw_text

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("game", env.games())
def test_every_game_is_drawn_as_well_formed_svg_with_all_its_words(game: str) -> None:
    tables = env.make(game, 2, 2, seed=3)
    tables.random_steps(12)
    for seat in (None, 0, 1):
        picture, text = tables.draw(1, seat), tables.render(1, seat)
        root = ElementTree.fromstring(picture)
        words = [node.text for node in root.iter(f"{SVG}text")]
        backs = [node for node in root.iter(f"{SVG}rect") if node.get("class") == "back"]
        assert len(backs) == text.split().count("##")
        assert words == [word for word in text.split() if word != "##"]
        width = float(str(root.get("width")))
        assert all(0 <= float(str(node.get("x"))) < width for node in root.iter(f"{SVG}text"))
        assert picture._repr_svg_() == picture


def cards_drawn(picture: str) -> list[str]:
    """Names of the cards that a picture shows face up."""
    return re.findall(r'class="card"/>\n<text [^>]*>([^<]*)<', picture)


def test_cards_are_told_from_other_numbers() -> None:
    tables = env.make("skyjo", 1, 2, seed=3)
    tables.random_steps(12)
    text = tables.render(0)
    assert "top 2   in hand 1" in text
    assert cards_drawn(tables.draw(0)) == ["2", "1", "-2", "5", "5", "0", "9", "1", "8", "8"]
    line = "seat 0  total 3, last round 2   6 cards: 1 2 llama   top 6   stock 5   w: 4 1"
    names = card_names(env.describe("lama"))
    assert names == ["1", "2", "3", "4", "5", "6", "llama"]
    assert cards_drawn(draw_text(line, names, "")) == ["1", "2", "llama", "6", "4", "1"]


def test_hidden_cards_are_not_drawn() -> None:
    tables = env.make("kuhn", 1, 2, seed=0)
    assert cards_drawn(tables.draw(0)) == []
    own = cards_drawn(tables.draw(0, 0))
    assert len(own) == 1
    before = tables.draw(0, 0)
    tables.determinize(0, 5)
    assert tables.draw(0, 0) == before


def test_picture_is_saved_as_a_file(tmp_path: Path) -> None:
    picture = env.make("skyjo", 1, 2).draw(0)
    assert picture.save(tmp_path / "table.svg").read_text() == picture
