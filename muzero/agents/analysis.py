"""Analysis of positions: all numbers that an agent with search computes for them, listed by seat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.data.seats import from_seats, to_seats

if TYPE_CHECKING:
    from muzero.search.planner import Planner


@dataclass(frozen=True)
class PositionAnalysis:
    """Analysis of N positions, one per table; P players listed by seat, A actions.

    Attributes:
      tables: [N] indices of the tables.
      to_play: [N] seats of the players to move.
      actions: [N] actions that the agent would take.
      prior: [N, A] policy of the network over the legal actions, before the search.
      visits: [N, A] number of simulations that started with each action.
      q: [N, A] value of each action for the player to move; NaN where an action was not visited.
      policy: [N, A] policy after the search.
      values: [N, P] search values of the seats; NaN where the search gives no value (backup "ego").
      winner: [N, P] probability that each seat wins, as the player to move sees it; None without outcome heads.
      rank: [N, P, P] probability of each rank (second axis: seats, third: ranks, best first); None without the heads.
    """

    tables: NDArray[np.int64]
    to_play: NDArray[np.int8]
    actions: NDArray[np.int64]
    prior: NDArray[np.float32]
    visits: NDArray[np.float32]
    q: NDArray[np.float32]
    policy: NDArray[np.float32]
    values: NDArray[np.float32]
    winner: NDArray[np.float32] | None
    rank: NDArray[np.float32] | None


@torch.inference_mode()
def analyse_positions(planner: Planner, tables: env.VecEnv, seed: int = 0) -> PositionAnalysis:
    """Analyse the positions at all tables whose game is not over, in batches of the planner's size.

    Args:
      planner: search of the agent; its network must be made for this game and number of players.
      tables: tables whose positions are analysed; only what the players to move may see is read.
      seed: seed of the search's random numbers.
    """
    rows = np.flatnonzero(tables.legal_bits != 0)
    if not len(rows):
        raise ValueError("tables: expected at least one game that is not over, got none")
    network, P = planner.network, tables.num_players
    device = next(network.parameters()).device
    keys = tables.decision_keys(seed)
    parts: list[dict[str, NDArray[np.float32]]] = []
    for start in range(0, len(rows), planner.batch):
        some = rows[start : start + planner.batch]
        found = planner.analyse(tables.obs[some], tables.legal_bits[some], tables.phase[some], keys[some])
        mover = tables.to_play[some]
        part = {name: getattr(found, name) for name in ("actions", "prior", "visits", "q", "policy")}
        part["values"] = to_seats(found.values, mover, P)
        obs = torch.from_numpy(tables.obs[some]).to(device)
        latent = network.represent(obs)
        prediction = network.predict(latent, torch.zeros(len(some), dtype=torch.int64, device=device))
        if prediction.winner is not None and prediction.rank is not None:  # the first ego is the player to move
            back = -mover.astype(np.int64)
            part["winner"] = from_seats(prediction.winner[:, 0].float().softmax(-1).cpu().numpy(), back)
            part["rank"] = from_seats(prediction.rank[:, 0].float().softmax(-1).cpu().numpy(), back, axis=-2)
        parts.append(part)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    outcome = {name: joined.pop(name, None) for name in ("winner", "rank")}
    return PositionAnalysis(rows, tables.to_play[rows].copy(), **joined, **outcome)  # type: ignore[arg-type]
