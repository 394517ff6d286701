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
from muzero.config.fields import require
from muzero.data.seats import from_seats, seat_distance
from muzero.data.trajectory import Rows

FRAMES = ("root", "mover")


class Moves:
    """Moves that a search knows of the rules. Windows make the same moves: also past the end of a game, where a tree
    goes on, and where the next player is another than a tree expects, such as after rounds of some games.

    Args:
      table: the game's phase table.
      public: bool [phases, A], chance events whose outcome all players see.
      absent: columns of an observation row that show which players have left the round, from the observer on; None if
        none can.
      real_turns: whether windows follow the turns of the episode even where a tree would not, instead of ending there.
    """

    def __init__(
        self, table: PhaseTable, public: NDArray[np.bool_], absent: slice | None = None, *, real_turns: bool = False
    ) -> None:
        self.next_phase = table.next_phase.astype(np.int64)
        self.turn_passes = table.turn_passes.astype(bool)
        none = np.zeros_like(table.possible)
        self.leaves_round = none if table.leaves_round is None else table.leaves_round
        self.last_phase = self.next_phase if table.last_phase is None else table.last_phase.astype(np.int64)
        self.absent, self.real_turns = absent, real_turns
        self.chance = np.zeros_like(table.possible) if table.chance is None else table.chance
        self.public = public
        self._count = table.possible.sum(1)
        self._possible = np.argsort(~table.possible, 1, kind="stable")  # possible actions of each phase first

    def draw(self, phase: NDArray[np.int64], luck: NDArray[np.float64]) -> NDArray[np.int64]:
        """Actions that are possible in phases [B], each with the same probability; luck [B] is uniform in 0..1."""
        actions: NDArray[np.int64] = self._possible[phase, (luck * self._count[phase]).astype(np.int64)]
        return actions

    def absent_seats(self, rows: Rows, row: NDArray[np.int64], seat: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Seats that the turn passes over [..., P] at the positions in rows [...], where seats [...] are to move."""
        if self.absent is None:
            return np.zeros((*row.shape, rows["rewards"].shape[1]), bool)
        return from_seats(rows["obs"][:, self.absent][row] > 0, -seat)

    def follow(
        self, phase: NDArray[np.int64], action: NDArray[np.int64], seat: NDArray[np.int64], absent: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Phase, player to move and absent seats after actions, as a tree goes on (`mcts/turns.h`).

        Args:
          phase, action, seat: [...] phases, actions taken in them, and players who take them.
          absent: [..., P] seats that the turn passes over.
        """
        P, leaves = absent.shape[-1], self.leaves_round[phase, action]
        absent = absent | (leaves[..., None] & (np.arange(P) == seat[..., None]))
        last = leaves & (absent.sum(-1) == P - 1)
        absent &= ~(leaves & absent.all(-1))[..., None]
        away = from_seats(absent, seat + 1)
        after = (seat + 1 + away.argmin(-1)) % P  # the next seat that is not absent
        following = np.where(last, self.last_phase[phase, action], self.next_phase[phase, action])
        return following, np.where(self.turn_passes[phase, action], after, seat), absent

    def astray(
        self, rows: Rows, row: NDArray[np.int64], seat: NDArray[np.int64], phase: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Positions [B, K+1] of windows from the first one on at which other players move than a tree expects.

        Args:
          rows: rows of the ring of the replay buffer.
          row: [B, K+1] row of each position; repeated past the end, where nothing is unexpected.
          seat, phase: [B, K+1] players to move and phases, as stored in these rows.
        """
        found = np.zeros(row.shape, bool)
        if self.real_turns:
            return found
        now = row[:, :-1]
        before, action = phase[:, :-1], rows["action"].take(now).astype(np.int64)
        if self.absent is None:
            wrong = seat[:, 1:] != (seat[:, :-1] + self.turn_passes[before, action]) % rows["rewards"].shape[1]
        else:
            absent = self.absent_seats(rows, row, seat)
            _, mover, away = self.follow(before, action, seat[:, :-1], absent[:, :-1])
            wrong = (seat[:, 1:] != mover) | (absent[:, 1:] != away).any(-1)
        np.logical_or.accumulate(wrong & (row[:, 1:] > now), 1, out=found[:, 1:])
        return found


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
      live: float32 [B, K+1] mask of the positions of the episode: 0 past its end, and from the first position on whose
        player to move a tree does not expect.
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
    live: NDArray[np.float32]
    after: NDArray[np.int64]
    after_mask: NDArray[np.float32]


def unroll(
    rows: Rows,
    at: NDArray[np.int64],
    frame: str,
    moves: Moves,
    luck: NDArray[np.float64],
    shares: NDArray[np.float64] | None = None,
) -> Targets:
    """Compute the targets of windows.

    A search does not know that a game has ended: past the end it goes on with actions, phases and turns as the phase
    table says, so the targets do the same. There, values and rewards are zero, and the outcome stays. Past the end of a
    truncated game nothing is known; its outcome is known nowhere.

    A search does not know either who begins the next round of some games. Where the next player is another than a tree
    expects, the window makes the tree's move: reward and value of that position, by seat, are still those of the
    episode, its policy is unknown, and so is everything that would follow.

    Args:
      rows: rows of the ring of the replay buffer, one per decision.
      at: [B] rows of the windows' first positions.
      frame: order of the seats in the targets, "root" or "mover".
      moves: moves that a tree would make.
      luck: [B, K+1] uniform random numbers in 0..1, for actions that were not taken and the choice of afterstates.
      shares: [B, P] share of the win of each seat, if it is not told by the ranks at the end of the episode.
    """
    require(frame in FRAMES, "frame", f"one of {', '.join(FRAMES)}", frame)
    K, P = luck.shape[1] - 1, rows["rewards"].shape[1]
    step = at[:, None] + np.arange(K + 1)
    end = rows["end"][at][:, None]
    row = np.minimum(step, end - 1)  # row of each position (B, K+1)
    live = step < end
    ended = ~rows["truncated"][at][:, None]
    outcome = rows["ranks"][at]
    won = winner_target(outcome) if shares is None else shares.astype(np.float32)
    seat, phase, actions = (rows[name].take(row).astype(np.int64) for name in ("to_play", "phase", "action"))
    astray = moves.astray(rows, row, seat, phase)
    lost = np.zeros_like(astray)  # positions of which nothing is known
    lost[:, 1:] = astray[:, :-1]
    real = live & ~astray
    absent = np.zeros((len(at), P), bool)  # seats that the turn passes over, in windows that leave the episode
    over = np.flatnonzero(~real[:, -1])
    last = at[over] + real[over].sum(1) - 1
    absent[over] = moves.absent_seats(rows, last, rows["to_play"][last].astype(np.int64))
    for k in np.flatnonzero(~real.all(0)):  # positions that are not real in some window; never the first one
        gone, before = ~real[:, k], k - 1
        now = phase[gone, before], actions[gone, before], seat[gone, before], absent[gone]
        phase[gone, k], seat[gone, k], absent[gone] = moves.follow(*now)
        actions[gone, k] = moves.draw(phase[gone, k], luck[gone, k])
    first = seat if frame == "mover" else np.repeat(seat[:, :1], K + 1, 1)
    known = (live | ended) & ~lost
    outcome_known = ended & ~lost
    policy_mask = (real & rows["has_policy"][row]).astype(np.float32)
    made = phase[:, :K], actions[:, :K]
    seen = real[:, :K] & (moves.public[made] | (seat[:, :K] == seat[:, :1]))
    after, after_mask = _choose(moves.chance[made] & real[:, :K], luck[:, 0])
    points = (rows["final_scores"][at][:, None] - rows["scores"].take(row, 0)).astype(np.float32)
    return Targets(
        actions=actions[:, :K].copy(),
        outcomes=rows["outcome"].take(row[:, :K]).astype(np.int64) * seen,
        shifts=seat_distance(seat[:, 1:], seat[:, :-1], P),
        to_play=seat_distance(seat, seat[:, :1], P),
        value=from_seats(rows["returns"].take(row, 0), first) * (live & ~lost)[..., None],
        value_mask=known.astype(np.float32),
        reward=from_seats(rows["rewards"].take(row[:, :K], 0), first[:, 1:]) * real[:, :K, None],
        reward_mask=(known & ~astray)[:, :K].astype(np.float32),
        policy=rows["policy"].take(row, 0) * policy_mask[..., None],
        policy_mask=policy_mask,
        winner=from_seats(won[:, None], first) * outcome_known[..., None],
        rank=from_seats(rank_target(outcome)[:, None], first, axis=-2) * outcome_known[..., None, None],
        points=from_seats(points, first) * (live & outcome_known)[..., None],
        outcome_mask=outcome_known.astype(np.float32),
        live=real.astype(np.float32),
        after=after,
        after_mask=after_mask,
    )


def _choose(candidates: NDArray[np.bool_], luck: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Choose one candidate of each row: candidates [B, K], luck [B] in 0..1 -> index [B], whether there is one [B]."""
    count = candidates.sum(1)
    number = 1 + (luck * count).astype(np.int64)  # number of the chosen one, counted from 1
    before = (candidates.cumsum(1) < number[:, None]).sum(1)
    return before * (count > 0), (count > 0).astype(np.float32)
