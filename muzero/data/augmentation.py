"""Data augmentation by a game's symmetries: the same windows with the slots of the players permuted.

Encoders that are equivariant by construction gain nothing from augmentation; a transformer or a flat latent may.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import env
from muzero.config.fields import require
from muzero.data.replay_buffer import Batch
from muzero.model.spec import GameSpec


class SlotPermutation:
    """Random permutations of slots (places that actions are aimed at: positions of a board), applied to batches.

    Args:
      game: name of a game that has such a symmetry.
      players: number of players at the table.
    """

    def __init__(self, game: str, players: int) -> None:
        self._tables = env.make(game, 1, players)
        self.spec = GameSpec.of_tables(self._tables)
        require(self._tables.info.symmetric, "replay.relabel", f"false: {game} has no symmetries to relabel by", True)
        primary = self.spec.action_slots[:, 0]  # first slot that each action touches, -1 for none
        actions = np.arange(self.spec.num_actions)
        self._aimed = primary >= 0
        self._action = np.full((self.spec.num_kinds, self.spec.blocks.size), -1)  # action by kind and slot
        self._action[self.spec.kinds[self._aimed], primary[self._aimed]] = actions[self._aimed]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Draw permutations [count, slots], new places of slots: blocks are permuted, and the slots within blocks."""
        blocks = self.spec.blocks
        places = rng.random((count, len(blocks))).argsort(1)
        inside = rng.random((count, *blocks.shape)).argsort(2)
        to = np.empty((count, blocks.size), np.int8)
        to[:, blocks] = blocks[places[:, :, None], inside]
        return to

    def actions(self, to: NDArray[np.int8]) -> NDArray[np.int64]:
        """Permuted number of each action: to [B, slots] -> [B, A]."""
        spec = self.spec
        aimed = to[:, spec.action_slots[:, 0].clip(min=0)]
        named = self._action[spec.kinds, aimed]
        return np.where(self._aimed, named, np.arange(spec.num_actions))

    def apply(self, batch: Batch, to: NDArray[np.int8]) -> Batch:
        """Permute the slots of a batch; each window has one permutation, [B, slots], for all of its positions."""
        B, K = batch.actions.shape
        renamed, rows = self.actions(to), np.arange(B)[:, None]
        policy = np.empty_like(batch.policy)
        policy[rows, :, renamed] = batch.policy.transpose(0, 2, 1)
        slots = np.arange(batch.hidden.shape[2]).reshape(-1, to.shape[1])  # slots of each player
        hidden = np.empty_like(batch.hidden)
        for own in slots:
            np.put_along_axis(hidden, own[0] + to[:, None].astype(np.int64), batch.hidden[:, :, own], 2)
        obs = self._tables.relabel(batch.obs.reshape(B * (K + 1), -1), np.repeat(to, K + 1, 0))
        return replace(
            batch, actions=renamed[rows, batch.actions], policy=policy, obs=obs.reshape(batch.obs.shape), hidden=hidden
        )

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """Permute the slots of a batch at random."""
        return self.apply(batch, self.draw(len(batch.actions), rng))
