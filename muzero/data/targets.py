"""Training targets of windows: K + 1 consecutive positions of an episode.

Targets list players in a *frame*, an order of the seats: "root" counts from the player to move at the window's first
position, "mover" from the player to move at each position of it.
Shapes: N rows, B windows, K steps of a window after its first position, P players, A actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcts import PhaseTable
from muzero.config_fields import require
from muzero.data.seats import from_seats, seat_distance
from muzero.data.trajectory import Rows

FRAMES = ("root", "mover")


class Moves:
    """Moves that a search knows of the rules, for positions past the end of a game: the tree goes on there, too.

    Args:
      table: the game's phase table.
      public: bool [phases, A], chance events whose outcome all players see.
    """

    def __init__(self, table: PhaseTable, public: NDArray[np.bool_]) -> None:
        self.next_phase = table.next_phase.astype(np.int64)
        self.turn_passes = table.turn_passes.astype(np.int64)
        self.chance = np.zeros_like(table.possible) if table.chance is None else table.chance
        self.public = public
        self._count = table.possible.sum(1)
        self._possible = np.argsort(~table.possible, 1, kind="stable")  # possible actions of each phase first

    def draw(self, phase: NDArray[np.int64], luck: NDArray[np.float64]) -> NDArray[np.int64]:
        """Actions that are possible in phases [B], each with the same probability; luck [B] is uniform in 0..1."""
        actions: NDArray[np.int64] = self._possible[phase, (luck * self._count[phase]).astype(np.int64)]
        return actions


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
      outcomes: int64 [B, K] outcomes of the chance events that followed, 0 for none or where the player to move at the
        window's first position does not see it.
      shifts: int64 [B, K] number of seats by which the turn moves on with each action.
      to_play: int64 [B, K+1] player to move, counted from the player to move at the window's first position.
      value: float32 [B, K+1, P] value targets.
      value_mask: float32 [B, K+1] mask of value.
      reward: float32 [B, K, P] rewards of each action, in the frame of the position after the action.
      reward_mask: float32 [B, K] mask of reward.
      policy: float32 [B, K+1, A] policy targets.
      policy_mask: float32 [B, K+1] mask of policy.
      winner: float32 [B, K+1, P] share of the win of each seat.
      rank: float32 [B, K+1, P, P] distribution over ranks of each seat, seat by rank.
      points: float32 [B, K+1, P] points that each seat still gets until the end of the episode.
      outcome_mask: float32 [B, K+1] mask of winner, rank and points.
      after: int64 [B] step of the window whose afterstate is trained: one after which a chance event may follow.
      after_mask: float32 [B] whether there is such a step.
    """

    actions: NDArray[np.int64]
    outcomes: NDArray[np.int64]
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
    points: NDArray[np.float32]
    outcome_mask: NDArray[np.float32]
    after: NDArray[np.int64]
    after_mask: NDArray[np.float32]


def unroll(rows: Rows, at: NDArray[np.int64], frame: str, moves: Moves, luck: NDArray[np.float64]) -> Targets:
    """Compute the targets of windows.

    A search does not know that a game has ended: past the end it goes on with actions, phases and turns as the phase
    table says, so the targets do the same. There, values and rewards are zero, and the outcome stays. Past the end of a
    truncated game nothing is known; its outcome is known nowhere.

    Args:
      rows: rows of the ring of the replay buffer, one per decision.
      at: [B] rows of the windows' first positions.
      frame: order of the seats in the targets, "root" or "mover".
      moves: rules that hold past the end of a game.
      luck: [B, K+1] uniform random numbers in 0..1, for actions past the end and the choice of afterstates.
    """
    require(frame in FRAMES, "frame", f"one of {', '.join(FRAMES)}", frame)
    K, P = luck.shape[1] - 1, rows["rewards"].shape[1]
    step = at[:, None] + np.arange(K + 1)
    end = rows["end"][at][:, None]
    row = np.minimum(step, end - 1)  # row of each position (B, K+1)
    live = step < end
    ended = ~rows["truncated"][at][:, None]
    outcome = rows["ranks"][at]
    seat, phase, actions = (rows[name].take(row).astype(np.int64) for name in ("to_play", "phase", "action"))
    for k in np.flatnonzero(~live.all(0)):  # positions that are past the end in some window; never the first one
        gone, before = ~live[:, k], k - 1
        now = phase[gone, before], actions[gone, before]
        phase[gone, k] = moves.next_phase[now]
        seat[gone, k] = (seat[gone, before] + moves.turn_passes[now]) % P
        actions[gone, k] = moves.draw(phase[gone, k], luck[gone, k])
    first = seat if frame == "mover" else np.repeat(seat[:, :1], K + 1, 1)
    known = (live | ended).astype(np.float32)
    policy_mask = (live & rows["has_policy"][row]).astype(np.float32)
    made = phase[:, :K], actions[:, :K]
    seen = live[:, :K] & (moves.public[made] | (seat[:, :K] == seat[:, :1]))
    after, after_mask = _choose(moves.chance[made] & live[:, :K], luck[:, 0])
    points = (rows["final_scores"][at][:, None] - rows["scores"].take(row, 0)).astype(np.float32)
    return Targets(
        actions=actions[:, :K].copy(),
        outcomes=rows["outcome"].take(row[:, :K]).astype(np.int64) * seen,
        shifts=seat_distance(seat[:, 1:], seat[:, :-1], P),
        to_play=seat_distance(seat, seat[:, :1], P),
        value=from_seats(rows["returns"].take(row, 0), first) * live[..., None],
        value_mask=known,
        reward=from_seats(rows["rewards"].take(row[:, :K], 0), first[:, 1:]) * live[:, :K, None],
        reward_mask=known[:, :K].copy(),
        policy=rows["policy"].take(row, 0) * policy_mask[..., None],
        policy_mask=policy_mask,
        winner=from_seats((winner_target(outcome) * ended)[:, None], first),
        rank=from_seats((rank_target(outcome) * ended[..., None])[:, None], first, axis=-2),
        points=from_seats(points, first) * (live & ended)[..., None],
        outcome_mask=np.repeat(ended, K + 1, 1).astype(np.float32),
        after=after,
        after_mask=after_mask,
    )


def _choose(candidates: NDArray[np.bool_], luck: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Choose one candidate of each row: candidates [B, K], luck [B] in 0..1 -> index [B], whether there is one [B]."""
    count = candidates.sum(1)
    number = 1 + (luck * count).astype(np.int64)  # number of the chosen one, counted from 1
    before = (candidates.cumsum(1) < number[:, None]).sum(1)
    return before * (count > 0), (count > 0).astype(np.float32)
