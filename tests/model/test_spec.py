"""Specs of games: what they say, and that they are shared."""

from __future__ import annotations

import numpy as np
import pytest

import env
from muzero.model.spec import GameSpec


def test_specs_are_cached_by_game_and_number_of_players() -> None:
    assert GameSpec.of("skyjo", 3) is GameSpec.of("skyjo", 3)
    assert GameSpec.of("skyjo", 3) is not GameSpec.of("skyjo", 2)
    assert GameSpec.of("lama", 3).game == "lama"


def test_arrays_of_shared_specs_are_read_only() -> None:
    spec = GameSpec.of("skyjo", 2)
    for array in (spec.kinds, spec.action_slots, spec.action_roles, spec.blocks):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_unknown_games_and_impossible_numbers_of_players_are_refused_every_time() -> None:
    for _ in range(2):  # nothing of a failure is kept
        with pytest.raises(ValueError, match="game"):
            GameSpec.of("bridge", 2)
        with pytest.raises(ValueError, match="players"):
            GameSpec.of("skyjo", 99)


@pytest.mark.parametrize("game", env.games())
def test_specs_agree_with_the_tables(game: str) -> None:
    tables = env.make(game, 3, 2)
    for spec in (GameSpec.of(game, 2), GameSpec.of_tables(tables)):
        assert (spec.game, spec.num_players) == (game, 2)
        assert tables.obs.shape == (3, spec.width)
        assert tables.legal.shape == (3, spec.num_actions)
        assert spec.phase_table.possible.shape == (tables.info.num_phases, spec.num_actions)
        assert ((spec.action_slots >= 0) == (spec.action_roles >= 0)).all()
        assert spec.action_slots.max() < spec.num_slots
        assert sorted(spec.blocks.flatten().tolist()) == list(range(spec.num_slots // 2))


def test_spec_of_skyjo_by_hand() -> None:
    """Twelve cells in four columns of three; actions 4 to 15 place a card in a cell."""
    spec = GameSpec.of("skyjo", 3)
    assert spec.num_slots == 36
    assert spec.num_actions == 16
    assert spec.blocks.tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert (spec.action_slots[:4] == -1).all()
    for cell in range(12):
        assert spec.action_slots[4 + cell, 0] == cell
        assert set(spec.action_slots[4 + cell]) == {cell, (cell + 4) % 12, (cell + 8) % 12}
        assert spec.kinds[4 + cell] == spec.kinds[4]
    assert len(np.unique(spec.kinds)) == spec.num_kinds
    assert [(g.name, g.fields[f]) for g, f in spec.shared_cards] == [("discard", "top"), ("decision", "hand")]


@pytest.mark.parametrize(("game", "private"), [("skyjo", False), ("lama", True), ("skipbo", True)])
def test_games_with_hands_have_private_slots(game: str, private: bool) -> None:
    assert GameSpec.of(game, 2).private == private
