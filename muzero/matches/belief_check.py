"""Check of a network's card beliefs, beside the belief of a player who draws no conclusions from how others play.

That belief is `determinize`'s: every card that a player cannot see is a random one of those not seen. In games where
nobody holds private cards that last (Skyjo) it is the exact posterior; elsewhere it is what a network has to beat by
drawing conclusions. Shapes: B positions, S slots, O outcome codes (0: no card that is hidden).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Policy
from muzero.config.fields import require
from muzero.matches.value_check import played_positions
from muzero.model.interface import BaseNetwork

_FLOOR = 1e-12  # least probability whose logarithm is taken


@dataclass(frozen=True)
class BeliefCheck:
    """Beliefs about all hidden slots of some positions; n hidden slots in all, for the player to move.

    Attributes:
      phase: [B] phase of each position.
      hidden: [B] number of hidden slots of each position.
      position: [n] position that each hidden slot belongs to.
      kl: [n] Kullback-Leibler divergence from the belief without conclusions to the network's, in nats.
      score: [n] logarithm of the network's probability of the true card.
      counts_score: [n] the same of the belief without conclusions.
    """

    phase: NDArray[np.int64]
    hidden: NDArray[np.int64]
    position: NDArray[np.int64]
    kl: NDArray[np.float64]
    score: NDArray[np.float64]
    counts_score: NDArray[np.float64]

    def means(self) -> dict[str, float]:
        """Mean over hidden slots of each figure; {} if nothing is hidden."""
        if not len(self.position):
            return {}
        return {name: float(getattr(self, name).mean()) for name in ("kl", "score", "counts_score")}


def has_card_beliefs(network: BaseNetwork) -> bool:
    """Whether a network has beliefs about hidden cards to check: the head, in a game that shows hidden cards."""
    return network.config.card_beliefs and network.num_outcomes > 1


def check_beliefs(
    network: BaseNetwork, rules: env.Rules, *, positions: int = 256, samples: int = 128, seed: int = 0
) -> BeliefCheck:
    """Compare a network's card beliefs with the true cards and with the belief without conclusions.

    Positions are taken from games of the network's policy, as in `check_values`.

    Args:
      network: network with card beliefs, on its device, in inference mode.
      rules: rules to play by.
      positions: number of positions, B.
      samples: number of worlds in which slots are looked at that may have no card; see `counted_beliefs`.
      seed: seed of the deals.
    """
    expected = "a network that believes something about hidden cards"
    require(has_card_beliefs(network), "model.card_beliefs", expected, network.config.card_beliefs)
    spec = network.spec
    tables = played_positions(Policy(network), spec.game, spec.num_players, rules, positions, seed)
    return compare_beliefs(card_beliefs(network, tables.obs), tables, samples=samples, seed=seed)


def compare_beliefs(
    beliefs: NDArray[np.float64], tables: env.VecEnv, *, samples: int = 128, seed: int = 0
) -> BeliefCheck:
    """Compare beliefs [B, S, O] of the players to move at tables with the true cards there; see `check_beliefs`."""
    true = tables.true_cards(tables.to_play).astype(np.int64)
    counted, hidden = counted_beliefs(tables, samples, seed)
    hidden |= true > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counted > 0, counted * (np.log(counted) - np.log(np.maximum(beliefs, _FLOOR))), 0.0)
    position, slot = np.nonzero(hidden)
    card = true[position, slot]
    return BeliefCheck(
        phase=tables.phase.astype(np.int64),
        hidden=hidden.sum(1),
        position=position,
        kl=terms.sum(-1)[position, slot],
        score=np.log(np.maximum(beliefs[position, slot, card], _FLOOR)),
        counts_score=np.log(np.maximum(counted[position, slot, card], _FLOOR)),
    )


@torch.inference_mode()
def card_beliefs(network: BaseNetwork, obs: NDArray[np.int16]) -> NDArray[np.float64]:
    """Probabilities [B, S, O] of the card in each slot that the observer cannot see, for observations [B, W]."""
    device = next(network.parameters()).device
    latent = network.represent(torch.from_numpy(np.ascontiguousarray(obs)).to(device))
    cards = network.predict(latent, torch.zeros(len(obs), dtype=torch.int64, device=device)).cards
    assert cards is not None, "the network has card beliefs"
    probabilities: NDArray[np.float64] = cards.double().softmax(-1).cpu().numpy()
    return probabilities


def counted_beliefs(
    tables: env.VecEnv, samples: int = 128, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Belief of the players to move who draw no conclusions, [B, S, O], and the slots that are hidden from them [B, S].

    Whether there is a card in a slot is counted in sampled worlds. A slot that can have cards of several kinds has any
    of the unseen cards with the same probability, which is exact. A slot that stands for one kind (the cards of that
    kind in a hand) has it as often as in the worlds, and half a world is added to either count, so that nothing is
    impossible by chance.

    Args:
      tables: positions, enough of them to show which slots can have cards of several kinds.
      samples: number of worlds per position.
      seed: seed of the worlds.
    """
    B, S, codes = tables.num_envs, tables.num_slots, tables.info.num_outcomes
    worlds = env.make(tables.game, B, tables.num_players, dict(tables.rules), auto_reset=False)
    counts = np.zeros((B, S, codes))
    first = np.arange(B * S).reshape(B, S) * codes
    movers = tables.to_play.copy()
    worlds.copy_from(tables, np.arange(B))
    for sample in range(samples):
        worlds.determinize(movers, np.arange(B, dtype=np.uint64) + np.uint64((seed << 32) + sample * B))
        found = first + worlds.true_cards(movers)
        counts += np.bincount(found.ravel(), minlength=B * S * codes).reshape(B, S, codes)
    hidden = counts[..., 0] < samples
    of_one_kind = (counts[..., 1:].sum(0) > 0).sum(-1) == 1  # [S]
    none = counts[..., :1] / samples
    unseen = tables.unseen_counts(movers)[:, 0].astype(np.float64)
    any_card = unseen / np.maximum(unseen.sum(-1, keepdims=True), 1)
    drawn = np.concatenate([none, (1 - none) * any_card[:, None]], -1)
    possible = counts.sum(0, keepdims=True) > 0  # codes that a slot can have
    sampled = (counts + 0.5 * possible) / (samples + 0.5 * possible.sum(-1, keepdims=True))
    return np.where(of_one_kind[None, :, None], sampled, drawn), hidden
