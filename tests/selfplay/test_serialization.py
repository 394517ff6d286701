"""muzero.selfplay.serialization: weights and worker states as plain arrays."""

from __future__ import annotations

import numpy as np
import torch

from muzero.selfplay.serialization import (
    pack_states,
    unpack_states,
    unplayed_generation,
    weights_from_numpy,
    weights_to_numpy,
)


def test_weights_survive_the_way_through_numpy_as_copies() -> None:
    weights = {"a.b": torch.arange(6.0).view(2, 3).requires_grad_(), "c": torch.ones(1)}
    arrays = weights_to_numpy(weights)
    back = weights_from_numpy(arrays)
    arrays["c"][:] = 5
    assert weights["c"].item() == back["c"].item() == 1
    assert list(back) == list(weights)
    assert all(torch.equal(back[name], weights[name]) for name in weights)


def test_states_of_workers_are_packed_into_one_and_back() -> None:
    states = [{"2.obs": np.arange(3), "deals": np.array([i])} for i in range(11)]
    packed = pack_states(states, list(range(11)))
    found = unpack_states(packed, 11)
    assert found is not None
    assert found[1] == list(range(11))
    for one, other in zip(found[0], states, strict=True):
        assert one.keys() == other.keys()
        assert all((one[name] == other[name]).all() for name in one)
    assert unpack_states(packed, 10) is None, "another number of workers"
    assert unpack_states({}, 11) is None, "nothing was saved"


def test_a_new_generation_is_later_than_all_before() -> None:
    assert unplayed_generation({}, games=0) == 1
    assert unplayed_generation(pack_states([{}, {}], [3, 7]), games=5) == 13
