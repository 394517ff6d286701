"""Training targets of windows: K + 1 consecutive positions of an episode.

Targets list players in a *frame*, an order of the seats: "root" counts from the player to move at the window's first
position, "mover" from the player to move at each position of it.
Shapes: N rows, B windows, K steps of a window after its first position, P players, A actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muzero.config_fields import require
from muzero.data.seats import from_seats, seat_distance
from muzero.data.trajectory import Rows

FRAMES = ("root", "mover")


def winner_target(ranks: NDArray[np.int8]) -> NDArray[np.float32]:
    """Share of the win of each seat: ranks [..., P], 1 is best -> [..., P]; players who tied share equally."""
    best = ranks == 1
    shares: NDArray[np.float32] = (best / best.sum(-1, keepdims=True)).astype(np.float32)
    return shares


def rank_target(ranks: NDArray[np.int8]) -> NDArray[np.float32]:
    """Distribution over ranks of each seat: ranks [..., P], 1 is best -> [..., P, P]; ties share the places taken."""
    tied = (ranks[..., :, None] == ranks[..., None, :]).sum(-1, keepdims=True)
    above = np.arange(ranks.shape[-1]) - (ranks[..., None] - 1)  # places from the first one that the seat shares
    shares: NDArray[np.float32] = (((above >= 0) & (above < tied)) / tied).astype(np.float32)
    return shares


@dataclass(frozen=True)
class Targets:
    """Targets of B windows of K + 1 positions, seats in the order of the frame. Masked entries are zero.

    Attributes:
      actions: int64 [B, K] actions taken.
      shifts: int64 [B, K] number of seats by which the turn moves on with each action.
      to_play: int64 [B, K+1] player to move, counted from the player to move at the window's first position.
      value: float32 [B, K+1, P] value targets.
      value_mask: float32 [B, K+1] mask of value.
      reward: float32 [B, K, P] rewards of each action, in the frame of the position before the action.
      reward_mask: float32 [B, K] mask of reward.
      policy: float32 [B, K+1, A] policy targets.
      policy_mask: float32 [B, K+1] mask of policy.
      winner: float32 [B, K+1, P] share of the win of each seat.
      rank: float32 [B, K+1, P, P] distribution over ranks of each seat, seat by rank.
      outcome_mask: float32 [B, K+1] mask of winner and rank.
    """

    actions: NDArray[np.int64]
    shifts: NDArray[np.int64]
    to_play: NDArray[np.int64]
    value: NDArray[np.float32]
    value_mask: NDArray[np.float32]
    reward: NDArray[np.float32]
    reward_mask: NDArray[np.float32]
    policy: NDArray[np.float32]
    policy_mask: NDArray[np.float32]
    winner: NDArray[np.float32]
    rank: NDArray[np.float32]
    outcome_mask: NDArray[np.float32]


def unroll(rows: Rows, at: NDArray[np.int64], frame: str, filler: NDArray[np.int64]) -> Targets:
    """Compute the targets of windows.

    Past the end of a game that ended, values and rewards are zero, and outcome and seats stay as they were at the last
    decision. Past the end of a truncated game nothing is known; its outcome is known nowhere.

    Args:
      rows: rows of the ring of the replay buffer, one per decision.
      at: [B] rows of the windows' first positions.
      frame: order of the seats in the targets, "root" or "mover".
      filler: [B, K] actions to use past the end.
    """
    require(frame in FRAMES, "frame", f"one of {', '.join(FRAMES)}", frame)
    K, P = filler.shape[1], rows["rewards"].shape[1]
    step = at[:, None] + np.arange(K + 1)
    end = rows["end"][at][:, None]
    row = np.minimum(step, end - 1)  # row of each position (B, K+1)
    live = step < end
    ended = ~rows["truncated"][at][:, None]
    outcome = rows["ranks"][at]
    seat = rows["to_play"].take(row).astype(np.int64)
    first = seat if frame == "mover" else np.repeat(seat[:, :1], K + 1, 1)
    known = (live | ended).astype(np.float32)
    policy_mask = (live & rows["has_policy"][row]).astype(np.float32)
    return Targets(
        actions=np.where(live[:, :K], rows["action"][row[:, :K]], filler),
        shifts=seat_distance(seat[:, 1:], seat[:, :-1], P),
        to_play=seat_distance(seat, seat[:, :1], P),
        value=from_seats(rows["returns"].take(row, 0), first) * live[..., None],
        value_mask=known,
        reward=from_seats(rows["rewards"].take(row[:, :K], 0), first[:, :K]) * live[:, :K, None],
        reward_mask=known[:, :K].copy(),
        policy=rows["policy"].take(row, 0) * policy_mask[..., None],
        policy_mask=policy_mask,
        winner=from_seats((winner_target(outcome) * ended)[:, None], first),
        rank=from_seats((rank_target(outcome) * ended[..., None])[:, None], first, axis=-2),
        outcome_mask=np.repeat(ended, K + 1, 1).astype(np.float32),
    )
