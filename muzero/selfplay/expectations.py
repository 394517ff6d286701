"""Luck of chance events in self-play, by the values of the network that plays, so that value targets can do without it.

What a game pays after a decision is mostly the luck of the cards that follow. For every event this module compares the
position that came with positions that might have come: the difference has mean 0 whatever the network's values are, so
targets from which it is subtracted are right on average, and the better the values, the less luck is left in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.data.imagined_steps import ImaginedSteps, spread_outcomes
from muzero.data.match_table import MatchTable
from muzero.data.seats import to_seats
from muzero.model.interface import BaseNetwork

if TYPE_CHECKING:
    from muzero.search.judge import NativeValues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AT_ONCE = 1024  # copies that are judged at a time


class Expectations:
    """Expected worth of actions over what chance may bring.

    Args:
      network: network whose values judge positions; it has no private hands to judge.
      native: native judge of positions by this network, or None if torch computes its values.
      outcomes: number of outcomes that are judged of each event.
      discount: discount of the value one decision later.
      match: chances to win a match, if the end of a round pays them; None if it pays as the rules say.
    """

    def __init__(
        self,
        network: BaseNetwork,
        native: NativeValues | None,
        outcomes: int,
        discount: float,
        match: MatchTable | None = None,
    ) -> None:
        self.network, self.outcomes, self.discount, self.match = network, outcomes, discount, match
        self._native = native
        self._device = next(network.parameters()).device
        self._steps = ImaginedSteps()

    def refresh(self) -> None:
        """Take over the network's present weights."""
        if self._native is not None:
            self._native.refresh()

    def before(self, tables: env.VecEnv, actions: Ints, seed: int) -> tuple[Ints, Floats]:
        """Expected worth of the actions, to be called before they are carried out.

        Args:
          tables: B tables.
          actions: [B] legal actions.
          seed: seed of the outcomes that are judged.

        Returns:
          Tables [n] at which chance may decide; expected reward and discounted value there [n, P], by seat. Chance
          decides which card comes, and also what the hidden cards are that the end of a round turns over.
        """
        odds = tables.odds(actions).astype(np.float64)
        decides = odds[:, 0] < 1
        others = np.flatnonzero((actions != env.SKIP) & ~decides)
        decides[others] = self._steps.look_random(tables, others, actions)
        rows = np.flatnonzero(decides)
        keys = tables.decision_keys(seed)[rows]
        offset = (keys >> np.uint64(11)).astype(np.float64) / 2**53
        outcome = spread_outcomes(odds[rows], offset, self.outcomes).ravel()
        at = np.repeat(rows, self.outcomes)
        number = np.repeat(keys, self.outcomes) + np.tile(np.arange(self.outcomes, dtype=np.uint64), len(rows))
        worth = np.empty((len(at), tables.num_players))
        for start in range(0, len(at), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            copies = self._steps.play(tables, at[part], actions[at[part]], number[part], outcome[part])
            worth[part] = self._worth(copies, np.arange(len(at[part])))
        return rows, worth.reshape(len(rows), self.outcomes, tables.num_players).mean(1)

    def luck(self, tables: env.VecEnv, rows: Ints, expected: Floats) -> NDArray[np.float32]:
        """Luck [B, P] of every seat in the step that was just made, 0 where there was no event.

        Args:
          tables: the tables, after their actions.
          rows, expected: what `before` returned.
        """
        found = np.zeros((tables.num_envs, tables.num_players), np.float32)
        found[rows] = self._worth(tables, rows) - expected
        return found

    def _worth(self, tables: env.VecEnv, rows: Ints) -> Floats:
        """Reward of the last step and discounted value of the position that it led to [n, P], by seat."""
        paid = tables.rewards if self.match is None else self.match.rewards(tables)
        worth = paid[rows].astype(np.float64)
        going_on = np.flatnonzero(~tables.done[rows])
        if len(going_on):
            at = rows[going_on]
            values = to_seats(self._values(tables.obs[at]), tables.to_play[at], tables.num_players)
            worth[going_on] += self.discount * values
        return worth

    @torch.inference_mode()
    def _values(self, obs: NDArray[np.int16]) -> NDArray[np.float32]:
        """Values [n, P] of observations [n, W], seats counted from the observer."""
        if self._native is not None:
            values = self.network.support.expectation(self._native.judge(obs)[0])
        else:
            _, values = self.network.values_of_observation(torch.from_numpy(obs).to(self._device))
        return values.float().cpu().numpy()
