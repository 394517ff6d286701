"""muzero.training.losses: beliefs about hidden cards are learned, and their labels reach nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from muzero.config import LearnerConfig
from muzero.data.replay_buffer import Batch
from muzero.model.network import Network
from muzero.training.learner import Learner
from muzero.training.losses import LOSSES, window_losses
from tests.training.batches import B, K, a_batch, changed, losses, make, shaken, tensors

latents = pytest.mark.parametrize("latent", ["flat", "slots"])


def other_labels(batch: Batch) -> Batch:
    """The same windows with other cards under the backs."""
    return changed(batch, hidden=(batch.hidden + 5) % 16)


@latents
@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_beliefs_about_hidden_cards_are_learned_slot_by_slot(latent: str, players: int) -> None:
    """The loss falls, and each slot of an observation is believed to hide a card if it does."""
    network = make("belief_cards", latent, players=players)
    given = a_batch(windows=8, unroll=1, players=players)
    batch, row = tensors(changed(given, live=np.ones((8, 2)))), LOSSES.index("cards")
    optimizer, course = torch.optim.Adam(network.parameters(), 1e-2), []
    for _ in range(120):
        optimizer.zero_grad()
        loss = window_losses(network, batch, skipped=("reconstruction", "consistency"))[0][row].sum()
        loss.backward()
        optimizer.step()
        course.append(loss.item())
    assert course[-1] < 0.75 * course[0]
    with torch.no_grad():
        nobody = torch.zeros(8, dtype=torch.int64)
        said = network.predict(network.represent(batch["obs"][:, 0]), nobody).cards
    assert said is not None
    believed, true = said.argmax(2), batch["hidden"][:, 0]
    assert ((believed > 0) == (true > 0)).float().mean() > 0.97
    assert 0.1 < (true > 0).float().mean() < 0.95
    if latent == "flat":  # a slots network cannot tell hidden cards of a column apart
        assert (believed == true).float().mean() > 0.9


@latents
def test_labels_change_the_loss_of_beliefs_and_nothing_else(latent: str) -> None:
    network = shaken(make("belief_cards", latent, points=30.0))
    batch = changed(a_batch(), live=np.ones((B, K + 1)))
    before, after = losses(network, batch), losses(network, other_labels(batch))
    assert (before["cards"] != after["cards"]).all()
    for name in set(LOSSES) - {"cards"}:
        assert (before[name] == after[name]).all(), name
    with torch.no_grad():
        errors = [window_losses(network, tensors(b), 0.3)[1] for b in (batch, other_labels(batch))]
    assert torch.equal(*errors)


@latents
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_weights_learn_from_labels_only_through_the_loss_of_beliefs(latent: str, weight: float) -> None:
    learned = []
    for relabel in (False, True):
        batch = changed(a_batch(), live=np.ones((B, K + 1)))
        learner = Learner(make("belief_cards", latent), LearnerConfig(cards_weight=weight, warm_up_steps=0))
        learner.step(other_labels(batch) if relabel else batch, iteration=1)
        learned.append(learner.playing_weights())
    same = {name: torch.equal(value, learned[1][name]) for name, value in learned[0].items()}
    assert all(same.values()) == (weight == 0.0)


def test_a_flat_latent_learns_only_from_positions_of_the_roots_player() -> None:
    """Labels are counted from the player to move, slots of a flat latent from the root's player."""
    batch = changed(a_batch(), live=np.ones((B, K + 1)))
    own = (batch.to_play == 0)[..., None]
    assert own[:, 1:].any()
    assert not own.all()
    of_others = changed(batch, hidden=np.where(own, batch.hidden, other_labels(batch).hidden))
    for latent, matters in (("flat", False), ("slots", True)):
        network = shaken(make("belief_cards", latent))
        before = losses(network, batch)["cards"]
        assert (losses(network, of_others)["cards"] != before).any() == matters
        mine = changed(batch, hidden=np.where(own, other_labels(batch).hidden, batch.hidden))
        assert (losses(network, mine)["cards"] != before).all()


def test_positions_past_the_end_or_seen_by_another_player_are_no_labels() -> None:
    network = shaken(make("belief_cards"))
    batch = changed(a_batch(), live=np.repeat([[1, 1, 0, 0]], B, 0))
    past = batch.hidden.copy()
    past[:, 2:] = other_labels(batch).hidden[:, 2:]
    assert (losses(network, changed(batch, hidden=past))["cards"] == losses(network, batch)["cards"]).all()
    hands = tuple(replace(g, owner_only=g.slots) for g in network.spec.groups)
    private = Network(replace(network.spec, groups=hands), network.config)
    private.load_state_dict(network.state_dict())
    batch = changed(batch, live=np.ones((B, K + 1)))
    own = (batch.to_play == 0)[..., None]
    of_others = changed(batch, hidden=np.where(own, batch.hidden, other_labels(batch).hidden))
    assert (losses(private, of_others)["cards"] == losses(private, batch)["cards"]).all()
    assert (losses(network, of_others)["cards"] != losses(network, batch)["cards"]).any()
