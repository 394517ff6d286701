"""Rollouts: the steps of all tables between two updates of a policy, and its decisions in them, ready to learn from.

Unlike an `Episode`, a rollout ends with its iteration and not with the game: all of its actions were drawn by the same
policy, and values stand for what follows. Players are listed by seat. Shapes: T steps, B tables, P players, W numbers
in an observation, A actions, N decisions of the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config.fields import require
from muzero.data.seats import from_seats
from muzero.data.trajectory import unpack_legal


@dataclass(frozen=True)
class Rollout:
    """Steps of tables in lockstep.

    Attributes:
      obs: int16 [T, B, W] observations of the players to move.
      legal: uint64 [T, B] legal actions, one bit each.
      action: int16 [T, B] actions taken.
      to_play: int8 [T, B] seats of the players to move.
      rewards: float32 [T, B, P] rewards that the actions brought.
      own: bool [T, B] whether the policy that learns decided; otherwise a bot or another network did.
      policy: float32 [T, B, A] probabilities that the policy drew the action from; without meaning where it did not.
      values: float32 [T, B, P] values that the policy's network gave, NaN where unknown; that of the player to move is
        known wherever the policy decided.
      goes_on: bool [T, B] whether the next step continues the same game; False in the last step of the rollout.
      future: float32 [T, B, P] values of the position after each step at which a game does not go on: zeros after its
        end. Not used at other steps.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.uint64]
    action: NDArray[np.int16]
    to_play: NDArray[np.int8]
    rewards: NDArray[np.float32]
    own: NDArray[np.bool_]
    policy: NDArray[np.float32]
    values: NDArray[np.float32]
    goes_on: NDArray[np.bool_]
    future: NDArray[np.float32]

    @property
    def num_players(self) -> int:
        """Number of players, P."""
        return int(self.rewards.shape[2])


def seat_returns(rollout: Rollout, discount: float, weight: float) -> NDArray[np.float32]:
    """Lambda returns of every seat at every step, each along the decisions of that seat alone.

    A seat's trajectory consists of its own decisions. Rewards that it gets at decisions of others belong to its last
    own decision, and a return leans on the seat's value at its next own decision, where it knows its own cards: the
    return of a seat at a step is the sum of its discounted rewards until its next own decision after that step, plus a
    mixture of its value there (weight 1 - lambda) and of its return there (weight lambda). Seats that the policy does
    not play have no own decisions, so that their returns reach to the end of the game or of the rollout. The advantage
    of an action is its seat's return minus its value (generalised advantage estimation).

    Args:
      rollout: steps of the tables.
      discount: discount factor per decision of any player.
      weight: lambda, 0 to 1; 1 sums rewards up to the end of the game or of the rollout.

    Returns:
      float32 [T, B, P] returns.
    """
    require(0 <= weight <= 1, "weight", "0 to 1", weight)
    T, B, P = rollout.rewards.shape
    returns = np.empty((T, B, P), np.float32)
    table = np.arange(B)
    far = np.zeros((B, P))  # return of each seat from the next step on
    near = np.zeros((B, P))  # the same with the value of the seat's next own decision in place of its return
    for t in reversed(range(T)):
        stops, after = ~rollout.goes_on[t][:, None], rollout.future[t]
        far = rollout.rewards[t] + discount * np.where(stops, after, far)
        near = rollout.rewards[t] + discount * np.where(stops, after, near)
        own = table[rollout.own[t]]
        mover = rollout.to_play[t, own]
        mixed = (1 - weight) * near + weight * far
        far[own, mover] = mixed[own, mover]
        near[own, mover] = rollout.values[t, own, mover]
        returns[t] = mixed
    return returns


@dataclass(frozen=True)
class Decisions:
    """N decisions of a policy to learn from; seats are counted from the player to move.

    Attributes:
      obs: int16 [N, W] observations of the players to move.
      legal: bool [N, A] legal actions.
      action: int64 [N] actions taken.
      log_chance: float32 [N] logarithm of the probability with which the action was drawn.
      advantage: float32 [N] return minus value of the player to move.
      value: float32 [N, P] returns, the value targets.
      free: float32 [N] 1 where there was more than one legal action, otherwise 0.
      weights: float32 [N] ones: all decisions count the same.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.bool_]
    action: NDArray[np.int64]
    log_chance: NDArray[np.float32]
    advantage: NDArray[np.float32]
    value: NDArray[np.float32]
    free: NDArray[np.float32]
    weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.action)

    def select(self, index: NDArray[np.int64]) -> Decisions:
        """Some of the decisions, by index."""
        return Decisions(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


def own_decisions(rollout: Rollout, discount: float, weight: float) -> Decisions:
    """Decisions of the policy in a rollout, in the order of tables within steps; arguments as in `seat_returns`."""
    step, table = np.nonzero(rollout.own)
    at = step, table
    mover = rollout.to_play[at]
    returns = from_seats(seat_returns(rollout, discount, weight)[at], mover)
    value = rollout.values[step, table, mover]
    action = rollout.action[at].astype(np.int64)
    chance = rollout.policy[step, table, action]
    legal = unpack_legal(rollout.legal[at], rollout.policy.shape[2])
    floats: dict[str, Any] = {
        "log_chance": np.log(np.maximum(chance, np.finfo(np.float32).tiny)),
        "advantage": returns[:, 0] - value,
        "value": returns,
        "free": legal.sum(1) > 1,
        "weights": np.ones(len(action)),
    }
    floats = {name: array.astype(np.float32) for name, array in floats.items()}
    return Decisions(obs=rollout.obs[at], legal=legal, action=action, **floats)


def normalised(parts: Sequence[Decisions]) -> list[Decisions]:
    """Decisions with advantages of mean 0 and standard deviation 1 over all parts; forced decisions do not count.

    Args:
      parts: decisions, such as those at tables of each number of players.
    """
    advantages = np.concatenate([part.advantage[part.free > 0] for part in parts])
    if len(advantages) < 2:
        return list(parts)
    mean, spread = float(advantages.mean()), float(advantages.std())
    return [replace(part, advantage=(part.advantage - mean) / (spread + 1e-6)) for part in parts]


def explained_variance(parts: Sequence[Decisions]) -> float:
    """Share of the returns' variance that the values of the network have explained; 1 is perfect, 0 is none.

    Args:
      parts: decisions whose advantages have not been normalised.
    """
    returns = np.concatenate([part.value[:, 0] for part in parts])
    errors = np.concatenate([part.advantage for part in parts])
    variance = float(returns.var()) if len(returns) else 0.0
    return 1 - float(errors.var()) / variance if variance > 0 else 0.0
