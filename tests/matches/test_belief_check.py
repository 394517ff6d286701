"""muzero.matches.belief_check: exact beliefs score 0, and the belief without conclusions is that of sampled worlds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from muzero.matches.belief_check import card_beliefs, check_beliefs, compare_beliefs, counted_beliefs, has_card_beliefs
from muzero.model.interface import Prediction
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec

ROUND: env.Rules = {"preset": "official", "episode": "round", "max_decisions": 60}
GAMES = pytest.mark.parametrize(("game", "players"), [("skyjo", 2), ("skyjo", 3), ("lama", 3), ("skipbo", 2)])


def make(kind: type[Network] = Network, game: str = "skyjo") -> Network:
    torch.manual_seed(0)
    return kind(GameSpec.of(game, 2), load_model_config("tiny", "belief_cards")).eval()


def positions(game: str, players: int, count: int = 48) -> env.VecEnv:
    """Tables at random positions; at the end of some, few cards are hidden."""
    tables, kept = (env.make(game, count, players, seed=5, auto_reset=auto) for auto in (True, False))
    when = np.random.default_rng(0).integers(0, 60, count)
    for step in range(when.max() + 1):
        for table in np.flatnonzero(when == step):
            kept.load(int(table), tables.save(int(table)))
        tables.step(tables.sample_actions(step))
    return kept


class CountingNetwork(Network):
    """Network that believes what the counts of unseen cards say: any of them may lie in each hidden slot of Skyjo."""

    def represent(self, obs: Tensor) -> Tensor:
        self.seen = obs
        return super().represent(obs)

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        counts = self.seen[:, self.spec.counts].view(len(self.seen), 2, -1)[:, 0].double()
        logits = torch.cat([torch.full_like(counts[:, :1], 0.0), counts], 1).log()
        return super().predict(latent, to_play)._replace(cards=logits[:, None].repeat(1, self.spec.num_slots, 1))


def test_a_network_that_believes_the_exact_counts_has_no_divergence() -> None:
    found = check_beliefs(make(CountingNetwork), ROUND, positions=64, samples=16, seed=1)
    assert found.hidden.sum() == len(found.kl) > 300
    assert np.abs(found.kl).max() < 1e-9
    assert found.score == pytest.approx(found.counts_score, abs=1e-9)
    # Cards are drawn from the belief: its log score is minus its entropy, on average.
    assert found.means()["score"] == pytest.approx(-2.6, abs=0.15)


def test_an_untrained_network_is_far_from_the_exact_belief() -> None:
    network = make()
    found = check_beliefs(network, ROUND, positions=64, samples=16, seed=1)
    assert (found.kl > 0).all()
    assert found.means()["kl"] > 0.05
    assert found.means()["score"] < found.means()["counts_score"]
    assert set(found.means()) == {"kl", "score", "counts_score"}
    assert len(set(found.phase.tolist())) > 1
    assert (np.bincount(found.position, minlength=64) == found.hidden).all()
    again, other = (check_beliefs(network, ROUND, positions=64, samples=16, seed=s) for s in (1, 2))
    assert again.kl.tobytes() == found.kl.tobytes() != other.kl.tobytes()


@GAMES
def test_the_belief_without_conclusions_is_that_of_sampled_worlds(game: str, players: int) -> None:
    tables, worlds = positions(game, players), 3000
    found, hidden = counted_beliefs(tables, samples=200, seed=1)
    assert found.sum(-1) == pytest.approx(np.ones(hidden.shape))
    assert (found[~hidden][:, 0] > 0.99).all()
    rows = np.flatnonzero(hidden.any(1))[:4]
    assert len(rows) == 4
    for row in rows:
        many = env.make(game, worlds, players, auto_reset=False)
        many.copy_from(tables, np.full(worlds, row))
        many.determinize(many.to_play.copy(), 99)
        labels = many.true_cards(many.to_play)
        share = (labels[..., None] == np.arange(found.shape[-1])).mean(0)
        error = np.sqrt(found[row] * (1 - found[row]) * (1 / worlds + (game == "lama") / 200)) + 0.004
        assert (np.abs(share - found[row]) < 5 * error).all()


def hidden_truth(tables: env.VecEnv) -> NDArray[np.float64]:
    true = tables.true_cards(tables.to_play)
    return np.equal(true[..., None], np.arange(tables.info.num_outcomes)).astype(np.float64)


@GAMES
def test_knowing_the_cards_scores_better_than_the_counts_and_the_counts_score_as_themselves(
    game: str, players: int
) -> None:
    tables = positions(game, players, 128)
    counted, _ = counted_beliefs(tables, samples=200, seed=1)
    same = compare_beliefs(counted, tables, samples=200, seed=1)
    assert np.abs(same.kl).max() < 1e-9
    assert (same.score == same.counts_score).all()
    sure = compare_beliefs(hidden_truth(tables), tables, samples=200, seed=1)
    assert sure.score == pytest.approx(np.zeros(len(sure.score)))
    assert sure.means()["counts_score"] < -0.1
    assert (same.position == sure.position).all()


def test_beliefs_are_the_heads_probabilities() -> None:
    network, tables = make(), positions("skyjo", 2, 8)
    found = card_beliefs(network, tables.obs)
    assert found.shape == (8, 24, 16)
    assert found.sum(-1) == pytest.approx(np.ones((8, 24)))


@pytest.mark.parametrize(("game", "variant"), [("skyjo", "belief"), ("kuhn", "belief_cards")])
def test_a_network_without_card_beliefs_is_refused(game: str, variant: str) -> None:
    torch.manual_seed(0)
    network = Network(GameSpec.of(game, 2), load_model_config("tiny", variant)).eval()
    assert not has_card_beliefs(network)
    with pytest.raises(ValueError, match=r"model\.card_beliefs: expected a network that believes something about .*"):
        check_beliefs(network, "official")
