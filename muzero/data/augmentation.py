"""Random relabelling by a game's symmetries: the same game with other names for the slots, as further examples.

Encoders that are equivariant by themselves gain nothing from it; a transformer or a flat latent may.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import env
from muzero.config import require
from muzero.data.replay_buffer import Batch
from muzero.model.spec import GameSpec


class SlotPermutation:
    """Renames slots in batches.

    Args:
      game, players: as of the environment.
    """

    def __init__(self, game: str, players: int) -> None:
        self._tables = env.make(game, 1, players)
        self.spec = GameSpec.of_tables(self._tables)
        require(self._tables.info.symmetric, "replay.relabel", f"false: {game} has no symmetries to relabel by", True)
        primary = self.spec.action_slots[:, 0]  # what an action is aimed at, -1 for nothing
        actions = np.arange(self.spec.num_actions)
        self._aimed = primary >= 0
        self._action = np.full((self.spec.num_kinds, self.spec.blocks.size), -1)  # by kind and slot
        self._action[self.spec.kinds[self._aimed], primary[self._aimed]] = actions[self._aimed]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Names at random, [count, slots of a player]: blocks trade places, and so do the slots of each."""
        blocks = self.spec.blocks
        places = rng.random((count, len(blocks))).argsort(1)
        inside = rng.random((count, *blocks.shape)).argsort(2)
        to = np.empty((count, blocks.size), np.int8)
        to[:, blocks] = blocks[places[:, :, None], inside]
        return to

    def actions(self, to: NDArray[np.int8]) -> NDArray[np.int64]:
        """to [B, slots] -> [B, A] what each action is called."""
        spec = self.spec
        aimed = to[:, spec.action_slots[:, 0].clip(min=0)]
        named = self._action[spec.kinds, aimed]
        return np.where(self._aimed, named, np.arange(spec.num_actions))

    def apply(self, batch: Batch, to: NDArray[np.int8]) -> Batch:
        """The batch with other names; each window has its own, [B, slots], for all of its positions."""
        B, K = batch.actions.shape
        renamed, rows = self.actions(to), np.arange(B)[:, None]
        policy = np.empty_like(batch.policy)
        policy[rows, :, renamed] = batch.policy.transpose(0, 2, 1)
        obs = self._tables.relabel(batch.obs.reshape(B * (K + 1), -1), np.repeat(to, K + 1, 0))
        return replace(batch, actions=renamed[rows, batch.actions], policy=policy, obs=obs.reshape(batch.obs.shape))

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """A batch with names at random."""
        return self.apply(batch, self.draw(len(batch.actions), rng))
