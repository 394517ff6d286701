"""Search with the real rules of the game instead of a learned model."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.bots import Bot
from muzero.agents.situation import Situation
from muzero.config.fields import require
from muzero.model.interface import BaseNetwork


class Simulator:
    """Agent that searches with the real rules: chance and hidden cards are sampled from the exact belief.

    Sequential halving over the legal actions: each stage plays every remaining action in the same sampled worlds
    (common random numbers, so that luck cancels out), and drops the worse half. A world is played out by a bot to the
    end of the round, or evaluated by a network one decision later. The agent plays the bot's own choice unless another
    action has proved better: the rollout algorithm (Tesauro and Galperin 1996), which improves on its bot and cannot
    fall far behind it.

    Args:
      simulations: number of worlds played per decision, over all actions.
      bot: bot that plays all seats in the sampled worlds, and proposes an action.
      network: network that evaluates the position after the action, instead of a playout by the bot.
      margin: weight of the score difference, in units of the game's score scale, relative to the win.
      caution: number of standard errors by which another action must be better than the bot's.
      most_tables: largest number of worlds that are played at a time.
      threads: number of threads that step the worlds.
      name: name of the agent in messages.
    """

    def __init__(
        self,
        simulations: int = 256,
        bot: str = "greedy",
        network: BaseNetwork | None = None,
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
        """Sequential halving for the decisions `rows`; the bot's own choice is never dropped."""
        each = np.arange(len(rows))
        own = Bot(self.bot).act(situation)[rows]
        alive = situation.legal[rows].copy()
        gain, square, count = np.zeros((3, *alive.shape))  # sums of each action's advantage over the bot's choice
        rounds = np.ceil(np.log2(alive.sum(1))).astype(int)  # stages of each decision: independent of other rows
        for stage in range(rounds.max()):
            going_on = stage < rounds
            worlds = np.maximum(1, self.simulations // (rounds * alive.sum(1)))  # [rows] worlds per action that is left
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
        """Value of each action to its player, in one sampled world each, [M]."""
        source, seats = situation.tables, situation.to_play[decision]
        worlds = self._make_worlds(source, len(decision))
        tables = np.resize(situation.rows[decision], worlds.num_envs)  # surplus tables repeat rows and are ignored
        worlds.copy_from(source, tables)
        worlds.determinize(np.resize(seats, worlds.num_envs), np.resize(sample, worlds.num_envs))
        worlds.step(np.resize(action, worlds.num_envs))
        paid = worlds.rewards.astype(np.float64).copy()
        if self.network is None:
            bot = worlds.bot(self.bot)
            worlds.playout([bot] * worlds.num_players, until="round")
            return self._outcome(worlds, seats)
        return self._predicted(worlds, paid, seats)

    def _outcome(self, worlds: env.VecEnv, seats: NDArray[np.int8]) -> NDArray[np.float64]:
        """Share of the win (0 if the game goes on) plus the weighted score margin."""
        index = np.arange(len(seats))
        scores = worlds.scores[: len(seats)].astype(np.float64)
        own = scores[index, seats]
        others = (scores.sum(1) - own) / (worlds.num_players - 1)
        best = worlds.ranks[: len(seats)] == 1
        won = np.where(worlds.done[: len(seats)], best[index, seats] / best.sum(1), 0.0)
        return np.asarray(won + self.margin * (others - own) / worlds.info.score_scale)

    @torch.inference_mode()
    def _predicted(self, worlds: env.VecEnv, paid: NDArray[np.float64], seats: NDArray[np.int8]) -> NDArray[np.float64]:
        """Reward of the step plus the network's value of the position after it."""
        assert self.network is not None
        count, index = len(seats), np.arange(len(seats))
        device = next(self.network.parameters()).device
        _, outputs = self.network.initial(torch.from_numpy(worlds.obs[:count]).to(device), "maxn")
        values = outputs[:, worlds.num_actions :].double().cpu().numpy()  # columns start at the next mover's seat
        seat = (seats - worlds.to_play[:count]) % worlds.num_players
        return np.asarray(paid[index, seats] + np.where(worlds.done[:count], 0.0, values[index, seat]))

    def _make_worlds(self, source: env.VecEnv, count: int) -> env.VecEnv:
        """Environment of at least `count` tables with the source's rules; reused by later calls."""
        size = 1 << (count - 1).bit_length()
        key = (f"{source.game} {source.num_players} {source.rules}", size)
        if key not in self._worlds:
            self._worlds[key] = env.make(
                source.game, size, source.num_players, source.rules, threads=self.threads, auto_reset=False
            )
        return self._worlds[key]
