"""Value targets: n-step returns and lambda returns, one per player.

Shapes: T decisions, P players.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muzero.config.fields import require


def n_step_returns(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    last_values: NDArray[np.float32],
    steps: int,
    discount: float,
    end: NDArray[np.int64] | None = None,
    explored: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """n-step returns of every player, each computed from that player's rewards and values alone.

    A player's rewards are summed over `steps` decisions, and further up to the first decision at which the player's
    value is known; that value is added, discounted. If there is none before the end of the episode, the return is the
    sum of all rewards to the end plus `last_values`.

    Args:
      rewards: [T, P] rewards of each decision.
      values: [T, P] search values at each decision, NaN where unknown.
      last_values: [P] values of the position after the last decision; zeros if the game ended there.
      steps: number of decisions over which rewards are summed, n, 1 or more.
      discount: discount factor per decision.
      end: [T] row after the last row of the episode to which each row belongs, if there are several episodes one after
        the other; last_values is then [T, P], the same in all rows of an episode.
      explored: [T] decisions at which a random action was taken. Rewards are summed up to such a decision only, and its
        value is added: what follows is not what the policy gets. Seats whose value is unknown there go on.

    Returns:
      [T, P] return of each player at each decision.
    """
    T, P = rewards.shape
    require(values.shape == (T, P), "values", f"shape {(T, P)}", values.shape)
    require(steps >= 1, "steps", "1 or more", steps)
    start, seat = np.arange(T)[:, None], np.arange(P)
    last_row = np.full((T, 1), T) if end is None else end[:, None]
    # known[t, p]: the first row from t on at which the value of p is known; T if there is no such row.
    known = np.where(np.isnan(values), T, start)
    known = np.vstack([np.minimum.accumulate(known[::-1])[::-1], np.full((1, P), T)])
    stop = np.minimum(known[np.minimum(np.arange(T) + steps, T)], last_row)  # row (T, P) at which each sum stops
    if explored is not None:
        random = np.where(explored[:, None] & ~np.isnan(values), start, T)
        stop = np.minimum(stop, np.minimum.accumulate(random[::-1])[::-1])
    # The sum over each span of stop - t rewards is assembled from spans of 1, 2, 4, ... rewards, each of which is the
    # sum of two spans half as long. No reward outside of the span is read, so nothing has to cancel.
    size, length = 1, stop - start
    span = rewards.astype(np.float64)  # span[t]: discounted sum of `size` rewards from t on
    total, done = np.zeros((T, P)), np.zeros((T, P), np.int64)
    while True:
        take = (length & size) > 0
        total[take] += float(discount) ** done[take] * span[(start + done)[take], np.nonzero(take)[1]]
        done[take] += size
        if 2 * size > length.max():
            break
        span[:-size] = span[:-size] + discount**size * span[size:]
        size *= 2
    bootstrap = np.where(stop == last_row, last_values, values[np.minimum(stop, T - 1), seat])
    found: NDArray[np.float32] = (total + float(discount) ** length * bootstrap).astype(np.float32)
    return found


def lambda_returns(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    last_values: NDArray[np.float32],
    weight: float,
    discount: float,
    end: NDArray[np.int64] | None = None,
    explored: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """Lambda returns of every player: means of n-step returns, the longer ones weighted less and less.

    The return of a decision is its reward plus, discounted, a mixture of the value of the next decision and of that
    decision's own return, the latter with the given weight; where the value is unknown, the return alone.

    Args:
      rewards, values, last_values, discount, end, explored: as in `n_step_returns`.
      weight: lambda, 0 to 1; 1 sums rewards up to the end of the episode.

    Returns:
      [T, P] return of each player at each decision.
    """
    T, P = rewards.shape
    require(values.shape == (T, P), "values", f"shape {(T, P)}", values.shape)
    require(0 <= weight <= 1, "weight", "0 to 1", weight)
    start = np.arange(T)
    last = start + 1 == (np.full(T, T) if end is None else end)  # last decisions of episodes
    following = np.vstack([values[1:], np.full((1, P), np.nan)]).astype(np.float64)
    following[last] = np.nan
    known = ~np.isnan(following)
    # A return is add[t] + factor[t] * return[t + 1]; longer chains of such steps are made by doubling.
    add = rewards.astype(np.float64) + discount * np.where(known, (1 - weight) * np.where(known, following, 0.0), 0.0)
    factor = discount * np.where(known, weight, 1.0)
    final = np.broadcast_to(last_values, (T, P)).astype(np.float64)
    add[last] += discount * final[last]
    factor[last] = 0.0
    if explored is not None:
        stop = explored[:, None] & ~np.isnan(values)
        add[stop], factor[stop] = values[stop], 0.0
    size = 1
    while size < T:
        add[:-size] += factor[:-size] * add[size:]
        factor[:-size] *= factor[size:]
        factor[-size:] = 0.0
        size *= 2
    return add.astype(np.float32)


def latest_values(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Latest known value of each seat: [T, P], NaN where unknown -> [P], 0 for a seat whose value was never known.

    These stand for the values after the last decision of a truncated game. Its final position shows all cards, so the
    network has never seen such a position and cannot be asked about it.
    """
    known = ~np.isnan(values)
    latest = len(values) - 1 - known[::-1].argmax(0)
    found = values[latest, np.arange(values.shape[1])]
    return np.where(known.any(0), found, 0.0).astype(np.float32)
