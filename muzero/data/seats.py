"""Seat order: numbers per player, counted from seat 0 or from another seat.

Environment, episodes and replay buffer list players by *seat* (0 to P - 1). Networks, searches and targets list them in
a *frame*: counted around the table from a first seat, that of a player to move. All conversions between the two orders
of numpy arrays are here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from muzero.config.fields import require


def seats_from(first: ArrayLike, players: int, count: int | None = None) -> NDArray[np.int64]:
    """Seats in the order of a frame.

    Args:
      first: [...] first seat of the frame; any integer, counted around the table.
      players: number of seats at the table, P.
      count: number of seats to list; all of them by default.

    Returns:
      [..., count] seats.
    """
    order: NDArray[np.int64] = (np.asarray(first)[..., None] + np.arange(players if count is None else count)) % players
    return order


def from_seats(per_seat: NDArray[Any], first: ArrayLike, axis: int = -1) -> NDArray[Any]:
    """Reorder numbers from seat order to the frame that begins at seat `first`; `from_seats(x, -first)` undoes it.

    Args:
      per_seat: [..., P] numbers by seat, or with axis=-2 [..., P, X].
      first: [...] first seat of the frame, or anything that broadcasts against the dimensions before the seats.
      axis: index of the seats' dimension, negative.
    """
    require(axis < 0, "axis", "a negative number", axis)
    seats = seats_from(first, per_seat.shape[axis])
    seats = seats.reshape(seats.shape + (1,) * (-axis - 1))
    seats = seats.reshape((1,) * (per_seat.ndim - seats.ndim) + seats.shape)
    return np.take_along_axis(per_seat, seats, axis)


def to_seats(
    values: NDArray[np.float32], first: NDArray[np.int8], players: int, *, own_only: bool = False
) -> NDArray[np.float32]:
    """Reorder values from the frame that begins at seat `first` to seat order.

    Args:
      values: [B, V] values of the first V seats of the frame.
      first: [B] first seat of each frame.
      players: number of seats at the table, P.
      own_only: whether to use only the value of the first seat. Where players see different cards, a search from one
        player's view knows nothing certain about the values of the others.

    Returns:
      [B, P] values by seat, NaN where unknown.
    """
    known = 1 if own_only else values.shape[1]
    out = np.full((len(values), players), np.nan, np.float32)
    np.put_along_axis(out, seats_from(first, players, known), values[:, :known], 1)
    return out


def seat_distance(seat: NDArray[np.int64], first: NDArray[np.int64], players: int) -> NDArray[np.int64]:
    """Position of `seat` in the frame that begins at seat `first`: how far the turn moves from one to the other."""
    return (seat - first) % players
