"""Reanalysis: stored positions are searched again with fresh weights, and get new policy and value targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from muzero.data.seats import to_seats
from muzero.model.network import make_network
from muzero.model.spec import GameSpec
from muzero.search.planner import Planner

if TYPE_CHECKING:
    from muzero.training.run_state import RunState

_BATCH = 256  # positions searched at a time


class Reanalyser:
    """Searches positions of the replay buffers again."""

    def __init__(self, state: RunState, device: torch.device) -> None:
        self.state, self.device = state, device
        self._planners: dict[int, Planner] = {}

    def refresh(self, count: int) -> None:
        """Give `count` stored positions the targets that a search with the weights of self-play finds now."""
        state = self.state
        self._update_planners()
        while count > 0:
            replay = state.draw_buffer()
            players = replay.num_players
            p = replay.sample_positions(min(_BATCH, count, len(replay)), state.rng)
            keys = state.rng.integers(0, 2**63, len(p.obs)).astype(np.uint64)
            plan = self._planners[players].plan(p.obs, p.legal, p.phase, keys)
            values = to_seats(plan.values, p.to_play, players, own_only=state.network.spec.private)
            replay.refresh(p.index, p.stamp, plan.policy, values)
            count -= len(p.obs)

    def _update_planners(self) -> None:
        """Load the newest weights; make new planners where the number of simulations has changed."""
        state, simulations = self.state, self.state.simulations()
        for players in state.replays:
            planner = self._planners.get(players)
            if planner is None or planner.config.simulations != simulations:
                spec = GameSpec.of(state.config.game.name, players)
                network = make_network(spec, state.config.model).to(self.device).eval()
                planner = self._planners[players] = Planner(network, state.search(simulations), _BATCH)
            planner.network.load_state_dict(state.weights_for(players))
