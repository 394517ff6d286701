"""muzero.data.augmentation: a game with permuted slots is the same game."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.data.augmentation import SlotPermutation
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from tests.oracle.skyjo import Skyjo
from tests.training.batches import P, a_batch

RULES: list[dict[str, Any]] = [{}, {"clearing": "voluntary"}, {"setup": "chosen"}]


def permutations(players: int, count: int, seed: int = 0) -> NDArray[np.int8]:
    return SlotPermutation("skyjo", players).draw(count, np.random.default_rng(seed))


def permuted(game: Skyjo, to: NDArray[np.int8]) -> Skyjo:
    """The oracle's game with the cells of every player permuted."""
    other = deepcopy(game)
    for position, name in enumerate(to):
        for seat in game.seats:
            other.boards[seat][name] = game.boards[seat][position]
            other.face_up[seat][name] = game.face_up[seat][position]
    return other


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("players", [2, 3])
def test_a_game_with_permuted_slots_is_the_same_game(players: int, rules: dict[str, Any]) -> None:
    """The oracle plays a round twice, once with permuted slots: observations differ by the permutation alone."""
    permutation, tables = SlotPermutation("skyjo", players), env.make("skyjo", 1, players, rules)
    kinds = set()
    for deal, to in enumerate(permutations(players, 6)):
        game = Skyjo({"preset": "official", **rules}, players, seed=3, deal=deal)
        other, rng = permuted(game, to), np.random.default_rng(deal)
        actions = permutation.actions(to[None])[0]
        while not game.done and game.round == 0:
            for seat in range(players):
                seen, under = (np.array([g.observe(seat)], np.int16) for g in (game, other))
                np.testing.assert_array_equal(tables.relabel(seen, to[None]), under)
            kinds |= {entry[1] for entry in game.history}
            assert sorted(actions[game.legal()]) == other.legal()
            action = int(rng.choice(game.legal()))
            game.step(action)
            other.step(int(actions[action]))
    assert {1, 2, 3, 4, 5, 6} <= kinds  # all ways of moving a card


def test_cleared_columns_are_permuted_too() -> None:
    tables = env.make("skyjo", 256, 2, {"clearing": "voluntary"}, seed=5)
    hunter = tables.bot("column_hunter")
    to = permutations(2, 256)
    spec = GameSpec.of_tables(tables)
    history = next(g for g in spec.groups if g.name == "history")
    decision = next(g for g in spec.groups if g.name == "decision")
    seen = set()
    for _ in range(120):
        rows = tables.obs.copy()
        under = tables.relabel(rows, to)
        events = rows[:, history.offset : decision.offset].reshape(256, -1, 6)
        others = under[:, history.offset : decision.offset].reshape(256, -1, 6)
        column = (events[..., 1] == 8) | (events[..., 1] == 9)  # cleared or not
        expected = np.take_along_axis(to, (events[..., 2] - 1).clip(0) % 4, 1) % 4 + 1
        assert (others[..., 2] == expected)[column].all()
        offered, now = rows[:, decision.offset + 3], under[:, decision.offset + 3]
        expected = to[np.arange(256), (offered - 1).clip(0)] % 4 + 1
        assert (now == np.where(offered > 0, expected, 0)).all()
        seen |= {("event", bool(column.any())), ("offer", bool(offered.any()))}
        tables.step(tables.bot_actions([hunter, hunter], 1))
    assert {("event", True), ("offer", True)} <= seen


def test_the_inverse_permutation_restores_the_observations() -> None:
    tables = env.make("skyjo", 64, 3, seed=1)
    tables.random_steps(50)
    to = permutations(3, 64)
    assert (np.sort(to, 1) == np.arange(12)).all()
    assert len(np.unique(to, axis=0)) > 60
    back = np.argsort(to, 1).astype(np.int8)
    under = tables.relabel(tables.obs, to)
    assert (under != tables.obs).any(1).all()
    np.testing.assert_array_equal(tables.relabel(under, back), tables.obs)


def test_an_equivariant_network_predicts_the_same_for_a_permuted_batch() -> None:
    """All positions of a window are permuted alike, and policy and actions with them."""
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", "belief"), chance="game")
    network = Network(GameSpec.of("skyjo", P), config).double().eval()
    permutation, batch = SlotPermutation("skyjo", P), a_batch()
    batch = replace(batch, actions=np.random.default_rng(1).integers(4, 16, batch.actions.shape))
    to = permutations(P, len(batch.actions))
    other = permutation.apply(batch, to)
    actions = permutation.actions(to)
    rows = np.arange(len(to))[:, None]
    assert not np.array_equal(other.obs, batch.obs)
    np.testing.assert_array_equal(other.policy[rows, :, actions], batch.policy.transpose(0, 2, 1))
    with torch.no_grad():
        said = []
        for b in (batch, other):
            latent = network.represent(torch.from_numpy(b.obs[:, 0]))
            for k in range(b.actions.shape[1]):
                told = (torch.from_numpy(taken[:, k]) for taken in (b.actions, b.shifts, b.outcomes))
                latent = network.step(latent, *told)
            said.append(network.predict(latent, torch.from_numpy(b.to_play[:, -1])))
    torch.testing.assert_close(said[0].value, said[1].value)
    torch.testing.assert_close(said[0].policy, said[1].policy.gather(1, torch.from_numpy(actions)))
    hidden = other.hidden.reshape(len(to), -1, P, 12)
    places = np.broadcast_to(to[:, None, None], hidden.shape).astype(np.int64)
    np.testing.assert_array_equal(np.take_along_axis(hidden, places, 3), batch.hidden.reshape(hidden.shape))
    assert not np.array_equal(other.hidden, batch.hidden)
    for name in ("value", "reward", "winner", "rank", "points", "outcomes", "after", "shifts", "to_play", "weights"):
        assert getattr(other, name) is getattr(batch, name)


def test_a_bad_permutation_is_refused() -> None:
    tables = env.make("skyjo", 2, 2)
    same = np.arange(12, dtype=np.int8)[None].repeat(2, 0)
    np.testing.assert_array_equal(tables.relabel(tables.obs, same), tables.obs)
    twice, apart, outside = same.copy(), same.copy(), same.copy()
    twice[1, 3] = 2
    apart[0, [0, 1]] = 1, 0
    outside[0, 5] = 12
    for bad in (twice, apart, outside):
        with pytest.raises(ValueError, match="to: expected each of 0 to 11 once, the slots of a block in one block"):
            tables.relabel(tables.obs, bad)
    with pytest.raises(ValueError, match="rows: expected observations, got a place of 99"):
        tables.relabel(np.full_like(tables.obs, 99), same)
    with pytest.raises(ValueError, match="lama has no symmetries"):
        SlotPermutation("lama", 2)
