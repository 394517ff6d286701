"""What a game that was played teaches: pure functions from an episode to targets, every number with its owner.

Seats of an `Episode` are absolute. Targets are stated in a *frame*, an order of the seats: "root", counted from the
player to move at the window's first position, or "mover", counted from the player to move at each step of it.
Shapes: T decisions, P players, W numbers in an observation, A actions, B windows, K steps of a window after its first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from muzero.config import require

FRAMES = ("root", "mover")
MAX_ACTIONS = 64  # bits of a legal mask
_POLICY_SLACK = 1e-3  # how far from 1 a policy may add up to


@dataclass(frozen=True)
class Episode:
    """A game from its first decision to its end or to the decision where it was cut off.

    Attributes:
      obs: int16 [T, W] rows as the player to move saw them.
      legal: uint64 [T], a bit per action.
      action: int16 [T].
      to_play: int8 [T].
      phase: int8 [T].
      rewards: float32 [T, P] paid by the action.
      policy: float32 [T, A] target.
      has_policy: bool [T], False for moves that no search of the current network made.
      values: float32 [T, P] search values, NaN where unknown.
      raw_values: float32 [T, P] the network's own, NaN where unknown.
      ranks: int8 [P], 1 is best, ties share the better rank; ignored if truncated.
      truncated: whether the game was cut off.
      last_values: float32 [P] values of the position after the last decision if truncated, else zeros.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.uint64]
    action: NDArray[np.int16]
    to_play: NDArray[np.int8]
    phase: NDArray[np.int8]
    rewards: NDArray[np.float32]
    policy: NDArray[np.float32]
    has_policy: NDArray[np.bool_]
    values: NDArray[np.float32]
    raw_values: NDArray[np.float32]
    ranks: NDArray[np.int8]
    truncated: bool
    last_values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.action)

    @property
    def num_players(self) -> int:
        """P."""
        return len(self.ranks)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    def check(self) -> None:
        """Refuses arrays that cannot be a game, by name."""
        for name in ("action", "ranks"):
            require(getattr(self, name).ndim == 1, f"episode.{name}", "one dimension", getattr(self, name).shape)
        for name in ("obs", "policy"):
            require(getattr(self, name).ndim == 2, f"episode.{name}", "two dimensions", getattr(self, name).shape)
        T, P, W, A = len(self), self.num_players, self.obs.shape[1], self.policy.shape[1]
        require(T >= 1, "episode.action", "at least one decision", T)
        require(P >= 1, "episode.ranks", "at least one player", P)
        require(1 <= A <= MAX_ACTIONS, "episode.policy", f"1 to {MAX_ACTIONS} actions", A)
        for name, (dtype, shape) in columns(P, W, A).items():
            if hasattr(self, name) and name not in ("ranks", "truncated", "last_values"):
                require_array(f"episode.{name}", getattr(self, name), dtype, (T, *shape))
        require_array("episode.raw_values", self.raw_values, np.dtype(np.float32), (T, P))
        require_array("episode.ranks", self.ranks, np.dtype(np.int8), (P,))
        require_array("episode.last_values", self.last_values, np.dtype(np.float32), (P,))
        for name in ("rewards", "policy", "last_values"):
            finite = bool(np.isfinite(getattr(self, name)).all())
            require(finite, f"episode.{name}", "finite numbers", "NaN or infinity")
        for name in ("values", "raw_values"):
            require(not np.isinf(getattr(self, name)).any(), f"episode.{name}", "numbers or NaN", "infinity")
        require_range("episode.to_play", self.to_play, P)
        require_range("episode.action", self.action, A)
        allowed = unpack_legal(self.legal, A)[np.arange(T), self.action]
        require(bool(allowed.all()), "episode.action", "legal actions", f"illegal at {np.flatnonzero(~allowed)[:5]}")
        total = self.policy.sum(1, dtype=np.float64)
        good = (np.abs(total - 1) <= _POLICY_SLACK) | ~self.has_policy
        require(bool(good.all()), "episode.policy", "rows that add up to 1 where there is a policy", total[~good][:5])
        if self.truncated:
            return
        require(not self.last_values.any(), "episode.last_values", "zeros for a game that ended", self.last_values)
        better = (self.ranks[None, :] < self.ranks[:, None]).sum(1)
        require(
            bool((self.ranks == 1 + better).all()),
            "episode.ranks",
            "1 for the best, ties sharing the better rank",
            self.ranks.tolist(),
        )


def require_array(key: str, array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuses all but an array of this type and shape, naming its key."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else array
        require(False, key, f"{dtype} {list(shape)}", got)


def require_range(key: str, numbers: NDArray[np.integer[Any]], count: int) -> None:
    """Refuses numbers outside of 0 to count - 1, naming their key."""
    good = (numbers >= 0) & (numbers < count)
    require(bool(good.all()), key, f"0 to {count - 1}", numbers[~good][:5].tolist())


def columns(num_players: int, width: int, num_actions: int) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Type and shape of a decision's part of each field of `Decisions`."""
    P = num_players
    kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
        "obs": (np.int16, (width,)),
        "legal": (np.uint64, ()),
        "action": (np.int16, ()),
        "to_play": (np.int8, ()),
        "phase": (np.int8, ()),
        "rewards": (np.float32, (P,)),
        "policy": (np.float32, (num_actions,)),
        "has_policy": (np.bool_, ()),
        "values": (np.float32, (P,)),
        "returns": (np.float32, (P,)),
        "ranks": (np.int8, (P,)),
        "truncated": (np.bool_, ()),
        "last_values": (np.float32, (P,)),
        "begin": (np.int64, ()),
        "end": (np.int64, ()),
    }
    return {name: (np.dtype(dtype), shape) for name, (dtype, shape) in kinds.items()}


@dataclass(frozen=True)
class Decisions:
    """Decisions of many episodes, each episode in consecutive rows; what an episode has once is repeated in each.

    Attributes:
      obs ... values: as in `Episode`, [N, ...].
      returns: float32 [N, P] value targets.
      ranks: int8 [N, P], all 1 if truncated.
      truncated: bool [N].
      last_values: float32 [N, P].
      begin, end: int64 [N] first row of the episode, and one past its last.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.uint64]
    action: NDArray[np.int16]
    to_play: NDArray[np.int8]
    phase: NDArray[np.int8]
    rewards: NDArray[np.float32]
    policy: NDArray[np.float32]
    has_policy: NDArray[np.bool_]
    values: NDArray[np.float32]
    returns: NDArray[np.float32]
    ranks: NDArray[np.int8]
    truncated: NDArray[np.bool_]
    last_values: NDArray[np.float32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    @staticmethod
    def zeros(capacity: int, num_players: int, width: int, num_actions: int) -> Decisions:
        """Room for `capacity` decisions. The memory is taken now, not when it is first used: what does not fit shows at
        the start of a run."""
        kinds = columns(num_players, width, num_actions)
        return Decisions(**{name: np.full((capacity, *shape), 0, dtype) for name, (dtype, shape) in kinds.items()})

    @staticmethod
    def of(episode: Episode, steps: int, discount: float, begin: int = 0) -> Decisions:
        """The decisions of one episode, whose first row is to be `begin`; `steps` and `discount` as in `returns`."""
        T, P = len(episode), episode.num_players
        own = {f.name: getattr(episode, f.name) for f in fields(Decisions) if hasattr(episode, f.name)}
        own |= {
            "returns": returns(episode.rewards, episode.values, episode.last_values, steps, discount),
            "ranks": np.tile(np.ones(P, np.int8) if episode.truncated else episode.ranks, (T, 1)),
            "truncated": np.full(T, episode.truncated),
            "last_values": np.tile(episode.last_values, (T, 1)),
            "begin": np.full(T, begin),
            "end": np.full(T, begin + T),
        }
        return Decisions(**own)

    def __len__(self) -> int:
        return len(self.action)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(array.nbytes for array in vars(self).values())


# ---- numbers per player ----------------------------------------------------------------------------------------


def returns(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    last_values: NDArray[np.float32],
    steps: int,
    discount: float,
    end: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """n-step returns, each player's from that player's numbers alone.

    A player's rewards are added up over `steps` decisions, and on to the first one where the player's value is known;
    that value is added, discounted. Where there is none before the end, it is all rewards to the end and last_values.

    Args:
      rewards: [T, P].
      values: [T, P], NaN where unknown.
      last_values: [P] values of the position after the last decision; zeros if the game ended there.
      steps: n, 1 or more.
      discount: per decision.
      end: [T] one past the last row of the episode of each row, for several episodes in a row; last_values is then
        [T, P], its episode's in every row.

    Returns:
      [T, P]
    """
    T, P = rewards.shape
    require(values.shape == (T, P), "values", f"shape {(T, P)}", values.shape)
    require(steps >= 1, "steps", "1 or more", steps)
    start, seat = np.arange(T)[:, None], np.arange(P)
    last_row = np.full((T, 1), T) if end is None else end[:, None]
    # known[t, p]: the first row from t on where p's value is known; T if there is none.
    known = np.where(np.isnan(values), T, start)
    known = np.vstack([np.minimum.accumulate(known[::-1])[::-1], np.full((1, P), T)])
    stop = np.minimum(known[np.minimum(np.arange(T) + steps, T)], last_row)  # (T, P)
    # The sum over each window of stop - t rewards is put together from windows of 1, 2, 4, ... rewards, which are
    # sums of two windows half as long. Nothing outside of the window is read, so nothing has to cancel.
    size, length = 1, stop - start
    window = rewards.astype(np.float64)  # window[t]: discounted sum of `size` rewards from t on
    total, done = np.zeros((T, P)), np.zeros((T, P), np.int64)
    while True:
        take = (length & size) > 0
        total[take] += float(discount) ** done[take] * window[(start + done)[take], np.nonzero(take)[1]]
        done[take] += size
        if 2 * size > length.max():
            break
        window[:-size] = window[:-size] + discount**size * window[size:]
        size *= 2
    bootstrap = np.where(stop == last_row, last_values, values[np.minimum(stop, T - 1), seat])
    found: NDArray[np.float32] = (total + float(discount) ** length * bootstrap).astype(np.float32)
    return found


def winner_target(ranks: NDArray[np.int8]) -> NDArray[np.float32]:
    """ranks [..., P], 1 is best -> [..., P] who won, shared equally by those who tied."""
    best = ranks == 1
    shares: NDArray[np.float32] = (best / best.sum(-1, keepdims=True)).astype(np.float32)
    return shares


def rank_target(ranks: NDArray[np.int8]) -> NDArray[np.float32]:
    """ranks [..., P], 1 is best -> [..., P, P] per seat a distribution over ranks; who tied shares the places taken."""
    tied = (ranks[..., :, None] == ranks[..., None, :]).sum(-1, keepdims=True)
    above = np.arange(ranks.shape[-1]) - (ranks[..., None] - 1)  # places from the first that the seat shares
    shares: NDArray[np.float32] = (((above >= 0) & (above < tied)) / tied).astype(np.float32)
    return shares


def rotate(per_seat: NDArray[Any], first: ArrayLike, axis: int = -1) -> NDArray[Any]:
    """Reorders seats: the one that was `first` comes first. `rotate(x, -first)` undoes it.

    Args:
      per_seat: [..., P], or with axis=-2 [..., P, X].
      first: [...], or anything that broadcasts against the dimensions before the seats.
      axis: of the seats, negative.
    """
    require(axis < 0, "axis", "a negative number", axis)
    P = per_seat.shape[axis]
    seats = (np.asarray(first)[..., None] + np.arange(P)) % P
    seats = seats.reshape(seats.shape + (1,) * (-axis - 1))
    seats = seats.reshape((1,) * (per_seat.ndim - seats.ndim) + seats.shape)
    return np.take_along_axis(per_seat, seats, axis)


def pack_legal(legal: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """[..., A] -> [...], a bit per action, the first action's lowest."""
    require(legal.shape[-1] <= MAX_ACTIONS, "actions", f"at most {MAX_ACTIONS}", legal.shape[-1])
    bits = legal.astype(np.uint64) << np.arange(legal.shape[-1], dtype=np.uint64)
    packed: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=-1)
    return packed


def unpack_legal(legal: NDArray[np.uint64], num_actions: int) -> NDArray[np.bool_]:
    """[...] -> [..., A]"""
    return (legal[..., None] >> np.arange(num_actions, dtype=np.uint64) & np.uint64(1)).astype(np.bool_)


# ---- windows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """Targets of B windows of K + 1 positions. What a mask leaves out is zero; seats as the frame counts them.

    Attributes:
      actions: int64 [B, K].
      shifts: int64 [B, K] seats by which the turn moves on with each action.
      to_play: int64 [B, K+1] player to move, counted from the one at the window's first position.
      value: float32 [B, K+1, P].
      value_mask: float32 [B, K+1].
      reward: float32 [B, K, P] in the frame of the position before the action.
      reward_mask: float32 [B, K].
      policy: float32 [B, K+1, A].
      policy_mask: float32 [B, K+1].
      winner: float32 [B, K+1, P].
      rank: float32 [B, K+1, P, P], seat by rank.
      outcome_mask: float32 [B, K+1] of winner and rank.
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


def unroll(decisions: Decisions, at: NDArray[np.int64], frame: str, filler: NDArray[np.int64]) -> Targets:
    """Targets of windows.

    Past the end of a game that ended, values and rewards are zero, the outcome stays, and the seats stay as the last
    decision had them. Past the end of one that was cut off nothing is known, and its outcome nowhere.

    Args:
      decisions: to choose from.
      at: [B] rows of the windows' first positions.
      frame: "root" or "mover".
      filler: [B, K] actions to take past the end.
    """
    require(frame in FRAMES, "frame", f"one of {', '.join(FRAMES)}", frame)
    d, K, P = decisions, filler.shape[1], decisions.rewards.shape[1]
    step = at[:, None] + np.arange(K + 1)
    end = d.end[at][:, None]
    row = np.minimum(step, end - 1)  # (B, K+1)
    live = step < end
    ended = ~d.truncated[at][:, None]
    outcome = d.ranks[at]
    seat = d.to_play.take(row).astype(np.int64)
    first = seat if frame == "mover" else np.repeat(seat[:, :1], K + 1, 1)
    known = (live | ended).astype(np.float32)
    policy_mask = (live & d.has_policy[row]).astype(np.float32)
    return Targets(
        actions=np.where(live[:, :K], d.action[row[:, :K]], filler),
        shifts=np.diff(seat) % P,
        to_play=(seat - seat[:, :1]) % P,
        value=rotate(d.returns.take(row, 0), first) * live[..., None],
        value_mask=known,
        reward=rotate(d.rewards.take(row[:, :K], 0), first[:, :K]) * live[:, :K, None],
        reward_mask=known[:, :K].copy(),
        policy=d.policy.take(row, 0) * policy_mask[..., None],
        policy_mask=policy_mask,
        winner=rotate((winner_target(outcome) * ended)[:, None], first),
        rank=rotate((rank_target(outcome) * ended[..., None])[:, None], first, axis=-2),
        outcome_mask=np.repeat(ended, K + 1, 1).astype(np.float32),
    )
