"""muzero.data.seats: from the order of the seats to the order of a frame, and back."""

from __future__ import annotations

import numpy as np
import pytest

from muzero.data.seats import from_seats, seat_distance, seats_from, to_seats


def test_the_frame_begins_at_the_given_seat() -> None:
    seats = np.array([10, 20, 30])
    assert from_seats(seats, 0).tolist() == [10, 20, 30]
    assert from_seats(seats, 1).tolist() == [20, 30, 10]
    assert from_seats(seats, 2).tolist() == [30, 10, 20]
    assert from_seats(np.stack([seats, -seats]), [1, 2]).tolist() == [[20, 30, 10], [-30, -10, -20]]
    assert from_seats(np.stack([seats, -seats]), 1).tolist() == [[20, 30, 10], [-20, -30, -10]]
    assert from_seats(seats[None], [1, 2]).tolist() == [[20, 30, 10], [30, 10, 20]]
    pairs = np.array([[1, 2], [3, 4], [5, 6]])
    assert from_seats(pairs, 2, axis=-2).tolist() == [[5, 6], [1, 2], [3, 4]]
    assert from_seats(pairs[None], [1, 2], axis=-2).tolist() == [[[3, 4], [5, 6], [1, 2]], [[5, 6], [1, 2], [3, 4]]]
    assert from_seats(from_seats(seats, 2), -2).tolist() == [10, 20, 30]


def test_a_positive_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="axis: expected a negative number, got 0"):
        from_seats(np.zeros((3, 2)), 1, axis=0)


def test_seats_of_a_frame_are_counted_around_the_table() -> None:
    assert seats_from(2, 4).tolist() == [2, 3, 0, 1]
    assert seats_from([0, 3], 4, 2).tolist() == [[0, 1], [3, 0]]
    assert seats_from(np.array([127], np.int8), 128, 2).tolist() == [[127, 0]], "no overflow of small integers"


def test_values_return_to_their_seats() -> None:
    values = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    found = to_seats(values, np.array([1, 2], np.int8), 3)
    assert found.tolist() == [[3, 1, 2], [5, 6, 4]]
    assert found.dtype == np.float32


def test_values_of_seats_that_are_not_given_are_nan() -> None:
    first = np.array([1, 2], np.int8)
    one = to_seats(np.array([[7], [8]], np.float32), first, 3)
    np.testing.assert_array_equal(one, [[np.nan, 7, np.nan], [np.nan, np.nan, 8]])
    own = to_seats(np.array([[7, 1, 2], [8, 3, 4]], np.float32), first, 3, own_only=True)
    np.testing.assert_array_equal(own, one)


@pytest.mark.parametrize("players", [1, 2, 3, 8])
def test_both_directions_undo_each_other(players: int) -> None:
    rng = np.random.default_rng(players)
    values, first = rng.normal(size=(50, players)).astype(np.float32), rng.integers(players, size=50).astype(np.int8)
    np.testing.assert_array_equal(from_seats(to_seats(values, first, players), first), values)
    np.testing.assert_array_equal(to_seats(from_seats(values, first), first, players), values)


def test_the_distance_between_seats_is_how_far_the_turn_moves() -> None:
    seat, first = np.array([0, 1, 2, 0]), np.array([2, 1, 0, 1])
    assert seat_distance(seat, first, 3).tolist() == [1, 0, 2, 2]
    order = seats_from(first, 3)
    assert (order[np.arange(4), seat_distance(seat, first, 3)] == seat).all()
