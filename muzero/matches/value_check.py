"""Check of a network's values: compared with what its own policy is paid when it plays positions to the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Policy
from muzero.agents.situation import Agent, Situation
from muzero.data.match_table import MatchTable
from muzero.model.interface import BaseNetwork

_LONGEST_WAIT = 100  # decisions before a position is taken, at most: every stage of a round, and later rounds


@dataclass(frozen=True)
class ValueCheck:
    """Values of positions and what playouts from them paid, for the player to move.

    Attributes:
      values: [n] values given by the network.
      returns: [n, m] sums of the rewards of each playout.
    """

    values: NDArray[np.float64]
    returns: NDArray[np.float64]

    @property
    def rmse(self) -> float:
        """Root mean square error of the values: the spread of the playouts' means about the truth is taken out."""
        return float(np.sqrt(max(0.0, self._square_errors().mean())))

    @property
    def rmse_interval(self) -> tuple[float, float]:
        """95 % interval of the root mean square error, over positions; hundreds of them leave it wide."""
        found = self._square_errors()
        half = 1.96 * found.std(ddof=1) / np.sqrt(len(found))
        return float(np.sqrt(max(0.0, found.mean() - half))), float(np.sqrt(max(0.0, found.mean() + half)))

    def _square_errors(self) -> NDArray[np.float64]:
        """Square errors of the values [n], right on average: the spread of a position's playouts is taken out."""
        noise = self.returns.var(1, ddof=1) / self.returns.shape[1]
        return np.asarray(np.square(self.values - self.returns.mean(1)) - noise)

    @property
    def bias(self) -> float:
        """Mean of the values minus mean of the returns."""
        return float(self.values.mean() - self.returns.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the true values between positions, the error of a value that is always the mean."""
        noise = self.returns.var(1, ddof=1).mean() / self.returns.shape[1]
        return float(np.sqrt(max(0.0, self.returns.mean(1).var() - noise)))


def check_values(
    network: BaseNetwork,
    rules: env.Rules,
    *,
    positions: int = 256,
    playouts: int = 8,
    seed: int = 0,
    match: MatchTable | None = None,
    policy: Agent | None = None,
) -> ValueCheck:
    """Compare a network's values with playouts of its own policy, without search.

    Positions are taken from games of the policy. In each playout everything that the player to move cannot know is
    dealt anew, and the most likely action is played in all seats to the end of the episode.

    Args:
      network: network to check, on its device, in inference mode.
      rules: rules to play by; rewards are theirs.
      positions: number of positions.
      playouts: number of playouts from each position, 2 or more.
      seed: seed of the deals.
      match: chances to win a match, if the end of a round pays them (`game.utility`).
      policy: the network's policy as another agent, which may be faster; the most likely action if None.
    """
    game, players = network.spec.game, network.spec.num_players
    policy = policy or Policy(network)
    found = played_positions(policy, game, players, rules, positions, seed)
    values = network_values(network, found.obs)[:, 0]
    worlds = env.make(game, positions * playouts, players, rules, seed=seed, auto_reset=False)
    worlds.copy_from(found, np.repeat(np.arange(positions), playouts))
    movers = worlds.to_play.copy()
    worlds.determinize(movers, np.arange(len(movers), dtype=np.uint64) + np.uint64(seed << 32))
    paid = play_out(policy, worlds, match)[np.arange(len(movers)), movers]
    return ValueCheck(values, paid.reshape(positions, playouts))


@torch.inference_mode()
def network_values(network: BaseNetwork, obs: NDArray[np.int16]) -> NDArray[np.float64]:
    """Values [B, P] of observations [B, W], seats counted from the observer."""
    device = next(network.parameters()).device
    _, values = network.values_of_observation(torch.from_numpy(np.ascontiguousarray(obs)).to(device))
    return values.double().cpu().numpy()


def play_out(policy: Agent, worlds: env.VecEnv, match: MatchTable | None = None) -> NDArray[np.float64]:
    """Play all tables to the end with a policy in every seat; returns the sums of rewards by seat, [B, P].

    Args:
      policy: policy in every seat.
      worlds: tables, which do not begin new games by themselves.
      match: chances to win a match, if the end of a round pays them; otherwise rewards are those of the rules.
    """
    paid = np.zeros((worlds.num_envs, worlds.num_players))
    while True:
        rows = np.flatnonzero(worlds.legal_bits)
        if not len(rows):
            return paid
        actions = np.full(worlds.num_envs, env.SKIP, np.int64)
        actions[rows] = policy.act(Situation.at(worlds, rows))
        worlds.step(actions)
        paid[rows] += (worlds.rewards if match is None else match.rewards(worlds))[rows]


def played_positions(policy: Agent, game: str, players: int, rules: env.Rules, count: int, seed: int) -> env.VecEnv:
    """Tables at positions of the policy's games, each after another number of decisions."""
    tables = env.make(game, count, players, rules, seed=seed)
    found = env.make(game, count, players, rules, seed=seed, auto_reset=False)
    when = np.random.default_rng(seed).integers(_LONGEST_WAIT, size=count)
    for step in range(when.max() + 1):
        for table in np.flatnonzero(when == step):
            found.load(int(table), tables.save(int(table)))
        tables.step(policy.act(Situation.at(tables, np.arange(count))))
    return found
