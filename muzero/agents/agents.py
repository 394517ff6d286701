"""Players: whoever can look at situations and choose actions.

An agent is handed a `Situation`: what the players to move see at some tables. All but the `Simulator` use its
observations alone; the simulator imagines tables that its seat thinks possible, through `determinize`, which knows no
more than the seat does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.config import SearchConfig, require
from muzero.data.trajectory import pack_legal
from muzero.model.network import Network
from muzero.search.planner import Planner


@dataclass(frozen=True)
class Situation:
    """N decisions to make.

    Attributes:
      obs: [N, W] rows as the players to move see them.
      legal: [N, A].
      to_play: [N] seats.
      phase: [N].
      keys: [N] name the moments, for the randomness of whoever acts.
      tables: the environment.
      rows: [N] tables in it.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.bool_]
    to_play: NDArray[np.int8]
    phase: NDArray[np.int8]
    keys: NDArray[np.uint64]
    tables: env.VecEnv
    rows: NDArray[np.int64]

    @staticmethod
    def at(tables: env.VecEnv, rows: NDArray[np.int64] | None = None, seed: int = 0) -> Situation:
        """The decisions at some tables, by default at all that are not over."""
        rows = np.flatnonzero(tables.legal.any(1)) if rows is None else rows
        return Situation(
            tables.obs[rows],
            tables.legal[rows],
            tables.to_play[rows],
            tables.phase[rows],
            tables.decision_keys(seed)[rows],
            tables,
            rows,
        )


class Agent(Protocol):
    """Whoever can play."""

    name: str

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """Legal actions, [N]."""
        ...


class Random:
    """Plays uniformly over the legal actions."""

    name = "random"

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        picks = situation.keys % situation.legal.sum(1).astype(np.uint64)
        order = situation.legal.cumsum(1) - 1
        return np.asarray((situation.legal & (order == picks.astype(np.int64)[:, None])).argmax(1))


class Bot:
    """A hand-written player, by name: `Bot("threshold(t=2)")`."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.seed = seed

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        tables = situation.tables
        bot = tables.bot(self.name)
        return tables.bot_actions([bot] * tables.num_players, self.seed)[situation.rows]


class Policy:
    """A network without search: its most likely action, or a sample at a temperature."""

    def __init__(self, network: Network, temperature: float = 0.0, name: str = "policy") -> None:
        require(temperature >= 0, "temperature", "0 or more", temperature)
        self.name = name
        self.network = network
        self.temperature = temperature
        self.device = next(network.parameters()).device

    @torch.inference_mode()
    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        obs = torch.from_numpy(situation.obs).to(self.device, non_blocking=True)
        _, outputs = self.network.initial(obs, "maxn")
        logits = outputs[:, : situation.legal.shape[1]].float().cpu().numpy()
        if self.temperature > 0:
            noise = np.stack([np.random.default_rng(int(key)).gumbel(size=logits.shape[1]) for key in situation.keys])
            logits = logits / self.temperature + noise
        return np.asarray(np.where(situation.legal, logits, -np.inf).argmax(1))


class Searcher:
    """A network with search."""

    def __init__(
        self, network: Network, config: SearchConfig, batch: int, *, greedy: bool = True, name: str = "search"
    ) -> None:
        self.name = name
        self.planner = Planner(network, config, batch, greedy=greedy)

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        s, legal, most = situation, pack_legal(situation.legal), self.planner.batch
        parts = [
            self.planner.plan(s.obs[i : i + most], legal[i : i + most], s.phase[i : i + most], s.keys[i : i + most])
            for i in range(0, len(s.obs), most)
        ]
        return np.concatenate([plan.actions for plan in parts])


class Simulator:
    """Search with the real rules: chance and hidden cards are sampled from the exact belief.

    Sequential halving over the legal actions: each stage plays every action that is left in the same imagined worlds
    (common random numbers, so that luck cancels), and drops the worse half. A world is played out by a bot to
    the end of the round, or judged by a network one decision later. What is played in the end is the bot's own choice
    unless another action has proved better: the rollout algorithm (Tesauro and Galperin 1996), which improves on its
    bot and cannot fall far behind it.

    Args:
      simulations: worlds played per decision, over all actions.
      bot: plays all seats in the imagined future, and proposes an action.
      network: judges the position after the action instead.
      margin: weight of the score difference (per 100 points) beside the win.
      caution: standard errors by which another action must be better than the bot's.
      most_tables: imagined at a time.
    """

    def __init__(
        self,
        simulations: int = 256,
        bot: str = "greedy",
        network: Network | None = None,
        *,
        margin: float = 2.0,
        caution: float = 2.0,
        most_tables: int = 1 << 15,
        threads: int = 1,
        name: str | None = None,
    ) -> None:
        require(simulations >= 1, "simulations", "1 or more", simulations)
        self.name = name or f"simulator:{simulations}"
        self.simulations, self.bot, self.network, self.margin = simulations, bot, network, margin
        self.caution, self.most_tables, self.threads = caution, most_tables, threads
        self._worlds: dict[tuple[str, int], env.VecEnv] = {}

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        choices = situation.legal.sum(1)
        actions = np.asarray(situation.legal.argmax(1))
        free = np.flatnonzero(choices > 1)
        at_once = max(1, self.most_tables // (self.simulations + situation.legal.shape[1]))
        for i in range(0, len(free), at_once):
            rows = free[i : i + at_once]
            actions[rows] = self._halve(situation, rows)
        return actions

    def _halve(self, situation: Situation, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sequential halving for the decisions `rows`, against the bot's own choice, which always stays."""
        each = np.arange(len(rows))
        own = Bot(self.bot).act(situation)[rows]
        alive = situation.legal[rows].copy()
        gain, square, count = np.zeros((3, *alive.shape))  # of each action over the bot's, in the same worlds
        rounds = np.ceil(np.log2(alive.sum(1))).astype(int)  # of each decision, whatever is decided beside it
        for stage in range(rounds.max()):
            going_on = stage < rounds
            worlds = np.maximum(1, self.simulations // (rounds * alive.sum(1)))  # per action left, [rows]
            decision, action = np.nonzero(alive & going_on[:, None])
            repeat = worlds[decision]
            sample = np.concatenate([np.arange(n) for n in repeat])
            decision, action = decision.repeat(repeat), action.repeat(repeat)
            values = self._evaluate(situation, rows[decision], action, (sample + (stage << 20)).astype(np.uint64))
            base = np.zeros((len(rows), worlds.max()))
            mine = action == own[decision]
            base[decision[mine], sample[mine]] = values[mine]
            over = values - base[decision, sample]
            np.add.at(gain, (decision, action), over)
            np.add.at(square, (decision, action), over**2)
            np.add.at(count, (decision, action), 1)
            n = np.maximum(count, 1)
            mean = gain / n
            error = np.sqrt(np.maximum(square / n - mean**2, 1e-12) / n)
            keep = np.maximum(1, alive.sum(1) // 2)
            rank = np.where(alive, -mean, np.inf).argsort(1, kind="stable").argsort(1, kind="stable")
            alive &= (rank < keep[:, None]) | ~going_on[:, None]
            alive[each, own] = True
        sure = np.where(alive, mean - self.caution * error, -np.inf)
        sure[each, own] = 0.0
        return np.asarray(sure.argmax(1))

    def _evaluate(
        self,
        situation: Situation,
        decision: NDArray[np.int64],
        action: NDArray[np.int64],
        sample: NDArray[np.uint64],
    ) -> NDArray[np.float64]:
        """What an action is worth to its player in one imagined world each, [M]."""
        source, seats = situation.tables, situation.to_play[decision]
        worlds = self._make_worlds(source, len(decision))
        tables = np.resize(situation.rows[decision], worlds.num_envs)  # the surplus repeats, and is ignored
        worlds.copy_from(source, tables)
        worlds.determinize(np.resize(seats, worlds.num_envs), np.resize(sample, worlds.num_envs))
        worlds.step(np.resize(action, worlds.num_envs))
        paid = worlds.rewards.astype(np.float64).copy()
        if self.network is None:
            bot = worlds.bot(self.bot)
            worlds.playout([bot] * worlds.num_players, until="round")
            return self._outcome(worlds, seats)
        return self._judged(worlds, paid, seats)

    def _outcome(self, worlds: env.VecEnv, seats: NDArray[np.int8]) -> NDArray[np.float64]:
        """Win share in 0..1 where the game is over, and the weighted margin."""
        index = np.arange(len(seats))
        scores = worlds.scores[: len(seats)].astype(np.float64)
        own = scores[index, seats]
        others = (scores.sum(1) - own) / (worlds.num_players - 1)
        best = worlds.ranks[: len(seats)] == 1
        won = np.where(worlds.done[: len(seats)], best[index, seats] / best.sum(1), 0.0)
        return np.asarray(won + self.margin * (others - own) / 100)

    @torch.inference_mode()
    def _judged(self, worlds: env.VecEnv, paid: NDArray[np.float64], seats: NDArray[np.int8]) -> NDArray[np.float64]:
        """Reward of the step and the network's value of what follows."""
        assert self.network is not None
        count, index = len(seats), np.arange(len(seats))
        device = next(self.network.parameters()).device
        _, outputs = self.network.initial(torch.from_numpy(worlds.obs[:count]).to(device), "maxn")
        values = outputs[:, worlds.num_actions :].double().cpu().numpy()  # seats from the next mover's on
        seat = (seats - worlds.to_play[:count]) % worlds.num_players
        return np.asarray(paid[index, seats] + np.where(worlds.done[:count], 0.0, values[index, seat]))

    def _make_worlds(self, source: env.VecEnv, count: int) -> env.VecEnv:
        """An environment of at least `count` tables like the source's; kept for the next time."""
        size = 1 << (count - 1).bit_length()
        key = (f"{source.game} {source.num_players} {source.rules}", size)
        if key not in self._worlds:
            self._worlds[key] = env.make(
                source.game, size, source.num_players, source.rules, threads=self.threads, auto_reset=False
            )
        return self._worlds[key]
