"""Analysis of positions: all numbers that an agent with search computes for them, listed by seat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from muzero.data.seats import from_seats, to_seats

if TYPE_CHECKING:
    from muzero.model.interface import BaseNetwork
    from muzero.search.planner import Planner


@dataclass(frozen=True)
class PositionAnalysis:
    """Analysis of N positions, one per table; P players listed by seat, A actions.

    Attributes:
      tables: [N] indices of the tables.
      to_play: [N] seats of the players to move.
      actions: [N] actions that the agent would take.
      prior: [N, A] policy of the network over the legal actions, before the search.
      visits: [N, A] number of simulations that started with each action.
      q: [N, A] value of each action for the player to move; NaN where an action was not visited.
      policy: [N, A] policy after the search.
      values: [N, P] search values of the seats; NaN where the search gives no value (backup "ego").
      winner: [N, P] probability that each seat wins, as the player to move sees it; None without outcome heads.
      rank: [N, P, P] probability of each rank (second axis: seats, third: ranks, best first); None without the heads.
      lines: [N, D, 2] most visited moves from the chosen action on, with outcomes of chance events; -1 past the end.
      cards: [N, S, O] belief over the card in each slot that the player to move cannot see, slots from that player on,
        code 0 for none; None if the network has no such head.
      outcomes: [N, A, O] belief over the outcome of the chance event that follows an action, code 0 for none; NaN where
        no event can follow; None if the network tells no outcomes apart.
    """

    tables: NDArray[np.int64]
    to_play: NDArray[np.int8]
    actions: NDArray[np.int64]
    prior: NDArray[np.float32]
    visits: NDArray[np.float32]
    q: NDArray[np.float32]
    policy: NDArray[np.float32]
    values: NDArray[np.float32]
    winner: NDArray[np.float32] | None
    rank: NDArray[np.float32] | None
    lines: NDArray[np.int64]
    cards: NDArray[np.float32] | None
    outcomes: NDArray[np.float32] | None


def analyse_positions(planner: Planner, tables: env.VecEnv, seed: int = 0) -> PositionAnalysis:
    """Analyse the positions at all tables whose game is not over, in batches of the planner's size.

    Args:
      planner: search of the agent; its network must be made for this game and number of players.
      tables: tables whose positions are analysed; only what the players to move may see is read.
      seed: seed of the search's random numbers.
    """
    rows = np.flatnonzero(tables.legal_bits != 0)
    if not len(rows):
        raise ValueError("tables: expected at least one game that is not over, got none")
    keys = tables.decision_keys(seed)[rows]
    given = tables.obs[rows], tables.legal_bits[rows], tables.phase[rows], tables.to_play[rows]
    return replace(analyse_rows(planner, *given, keys), tables=rows)


@torch.inference_mode()
def analyse_rows(
    planner: Planner,
    obs: NDArray[np.int16],
    legal: NDArray[np.uint64],
    phase: NDArray[np.int8],
    to_play: NDArray[np.int8],
    keys: NDArray[np.uint64],
) -> PositionAnalysis:
    """Analyse N positions that are given as observations of their players to move, in batches of the planner's size.

    Args:
      planner: search of the agent; its network must be made for this game and number of players.
      obs: [N, W] observations of the players to move.
      legal: [N] packed masks of the legal actions.
      phase: [N] phases of the game.
      to_play: [N] seats of the players to move.
      keys: [N] seeds of each position's random numbers.
    """
    network, P = planner.network, planner.network.num_players
    device = next(network.parameters()).device
    parts: list[dict[str, NDArray[Any]]] = []
    for start in range(0, len(obs), planner.batch):
        some = slice(start, start + planner.batch)
        found = planner.analyse(obs[some], legal[some], phase[some], keys[some])
        mover = to_play[some]
        part = {name: getattr(found, name) for name in ("actions", "prior", "visits", "q", "policy", "lines")}
        part["values"] = to_seats(found.values, mover, P)
        latent = network.represent(torch.from_numpy(obs[some]).to(device))
        prediction = network.predict(latent, torch.zeros(len(mover), dtype=torch.int64, device=device))
        if prediction.winner is not None and prediction.rank is not None:  # the first ego is the player to move
            back = -mover.astype(np.int64)
            part["winner"] = from_seats(_shares(prediction.winner[:, 0]), back)
            part["rank"] = from_seats(_shares(prediction.rank[:, 0]), back, axis=-2)
        if prediction.cards is not None:
            part["cards"] = _shares(prediction.cards)
        if network.learned_codes:
            part["lines"][:, :, 1] = np.minimum(part["lines"][:, :, 1], 0)  # learned codes are no cards
        elif network.num_outcomes > 1:
            part["outcomes"] = _believed_outcomes(network, latent, legal[some], phase[some])
        parts.append(part)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    optional = {name: joined.pop(name, None) for name in ("winner", "rank", "cards", "outcomes")}
    return PositionAnalysis(np.arange(len(obs)), to_play.copy(), **joined, **optional)  # type: ignore[arg-type]


def _believed_outcomes(
    network: BaseNetwork, latent: Tensor, legal: NDArray[np.uint64], phase: NDArray[np.int8]
) -> NDArray[np.float32]:
    """Beliefs [N, A, O] of a network over the outcomes of the events that may follow the legal actions; else NaN."""
    spec, device = network.spec, latent.device
    believed = np.full((len(phase), spec.num_actions, network.num_outcomes), np.nan, np.float32)
    if spec.phase_table.chance is None:
        return believed
    allowed = (legal[:, None] >> np.arange(spec.num_actions, dtype=np.uint64) & np.uint64(1)).astype(bool)
    row, action = np.nonzero(allowed & spec.phase_table.chance[phase])
    if len(row):
        shift = torch.from_numpy(spec.phase_table.turn_passes[phase[row], action].astype(np.int64)).to(device)
        index, none = torch.from_numpy(row).to(device), torch.zeros(len(row), dtype=torch.int64, device=device)
        after = network.step(latent[index], torch.from_numpy(action).to(device), shift, none)
        outcome = network.predict(after, shift % spec.num_players).outcome
        assert outcome is not None, "networks that tell outcomes apart predict them"
        believed[row, action] = _shares(outcome)
    return believed


def _shares(logits: Tensor) -> NDArray[np.float32]:
    """Probabilities of logits, over the last axis."""
    shares: NDArray[np.float32] = logits.float().softmax(-1).cpu().numpy()
    return shares
