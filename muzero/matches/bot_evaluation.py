"""Evaluation of an agent in training against bots and other opponents, and calibration of its winner head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muzero import stats
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.agents import Agent, Bot, Searcher, Situation
from muzero.config import PAST_SELF, Config, SearchConfig
from muzero.matches.games import Games
from muzero.matches.paired_games import against_each
from muzero.model.interface import BaseNetwork
from muzero.model.network import make_network
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint

_EVERY = 8  # the winner head is asked at one of this many decisions


class WinnerCheck:
    """Collects the winner head's predictions at the agent's decisions, and compares them with the results."""

    def __init__(self, network: BaseNetwork) -> None:
        self.network = network
        self.rows: list[NDArray[np.int64]] = []
        self.chances: list[NDArray[np.float32]] = []

    @torch.inference_mode()
    def __call__(self, situation: Situation) -> None:
        """Ask the winner head at a sample of the decisions, each of which is drawn with the same probability."""
        chosen = np.flatnonzero(situation.keys % np.uint64(_EVERY) == 0)
        if not len(chosen):
            return
        device = next(self.network.parameters()).device
        latent = self.network.represent(torch.from_numpy(situation.obs[chosen]).to(device))
        predicted = self.network.predict(latent, torch.zeros(len(latent), dtype=torch.int64, device=device))
        assert predicted.winner is not None
        self.rows.append(situation.rows[chosen])
        self.chances.append(predicted.winner[:, 0].float().softmax(-1)[:, 0].cpu().numpy())

    def report(self, won: NDArray[np.float64]) -> dict[str, Any]:
        """Brier score and reliability curve, given each game's share of the win, won [N]."""
        chance = np.concatenate(self.chances).astype(np.float64).round(6)  # digits of single precision
        outcome = won[np.concatenate(self.rows)]
        score, bins = stats.brier(chance, outcome), stats.reliability_curve(chance, outcome).bins
        return {
            "brier": score.score,
            "brier_of_the_mean": score.reference,
            "reliability": {
                "predicted": [part.predicted for part in bins],
                "won": [part.observed.estimate for part in bins],
                "count": [part.count for part in bins],
            },
        }


def summary(games: Games) -> dict[str, float]:
    """Figures of the games against one opponent."""
    low, high = games.wilson()
    return {
        "win_rate": games.win_rate,
        "wilson_low": low,
        "wilson_high": high,
        "games": len(games),
        "score_difference": float((games.scores_b - games.scores_a).mean()),
        "score": float(games.scores_a.mean()),
        "length": float(games.decisions.mean()),
        "truncated": float(games.truncated.mean()),
    }


def evaluate_bots(
    agent: Searcher, config: Config, also: Mapping[str, Agent] | None = None, *, number: int = 0
) -> dict[str, Any]:
    """Play against every bot of the configuration and further opponents on paired deals, at tables of the agent's size.

    `mean_win_rate` is the mean over the curriculum's bots. The winner head is judged on games of the kind that it was
    trained on: if episodes of training are shorter than those of evaluation (rounds instead of whole matches), as many
    games again are played with the rules of training.

    Args:
      agent: agent to evaluate.
      config: configuration of the run.
      also: opponents besides the bots, by name.
      number: number of the evaluation; each has deals of its own, the same ones in every run.

    Returns:
      Groups of a metrics record.
    """
    opponents: dict[str, Agent] = {name: Bot(name) for name in (*config.game.bots, *config.game.held_out_bots)}
    opponents |= also or {}
    players = agent.planner.network.num_players
    deals = max(1, config.evaluation.games // players)
    watch = WinnerCheck(agent.planner.network) if config.model.outcome_heads else None

    def play(rules: dict[str, Any], watch: WinnerCheck | None) -> list[Games]:
        return against_each(
            agent,
            list(opponents.values()),
            deals,
            game=config.game.name,
            players=players,
            rules=rules,
            seed=config.evaluation.seed,
            first_deal=number * deals,
            watch=watch,
        )

    trained = config.game.rules_for_training()
    # The winner that the network predicts is that of an episode of training, or of the match.
    same = trained.get("episode") == config.game.rules.get("episode") or config.game.utility == "match"
    results = play(config.game.rules, watch if same else None)
    figures = {name: summary(games) for name, games in zip(opponents, results, strict=True)}
    out: dict[str, Any] = {
        "evaluation": figures,
        "mean_win_rate": float(np.mean([figures[name]["win_rate"] for name in config.game.bots])),
    }
    if watch:
        judged = results if same else play(trained, watch)
        if watch.chances:
            out["calibration"] = watch.report(np.concatenate([games.won for games in judged]))
    return out


class Evaluator:
    """Evaluates the network of a run during training, with greedy search, at every table size of the run.

    Args:
      config: configuration of the run.
      path: run directory, which has the past networks.
      device: device of the networks.
      search: settings of the search, as in matches.
    """

    def __init__(self, config: Config, path: Path, device: torch.device, search: SearchConfig) -> None:
        self.config, self.path, self.device, self.search = config, path, device, search
        self._agents: dict[tuple[int, str], Searcher] = {}  # by number of players and name
        self._opponents: dict[int, dict[str, Agent]] = {}  # by number of players and name

    def prepare(self) -> None:
        """Take the memory of the agents and compile what is to be compiled: at the start of a run, not later."""
        for players in self.config.player_counts():
            self._searcher(players, "agent")
            self._named_opponents(players)

    def agent(self, players: int, network: BaseNetwork, weights: Mapping[str, Tensor]) -> Searcher:
        """Agent with given weights, at tables for this number of players.

        Args:
          players: number of players.
          network: network for the largest table of the run.
          weights: weights of that network.
        """
        agent = self._searcher(players, "agent")
        agent.planner.network.load_state_dict(network.weights_for(players, weights))
        return agent

    def evaluate(self, iteration: int, network: BaseNetwork, weights: Mapping[str, Tensor]) -> dict[str, Any]:
        """Play against all opponents at all table sizes of the run.

        The deals depend on the iteration: no two evaluations of a run play the same ones, and all runs play the same
        ones at the same iteration.

        Args:
          iteration: number of iterations made.
          network: network for the largest table of the run.
          weights: weights of that network.

        Returns:
          Groups of a metrics record. `evaluation`, `mean_win_rate` and `calibration` are those of tables for
          `game.players`; where a run mixes several sizes, `by_players` has them for each.
        """
        counts, found = self.config.player_counts(), {}
        for players in counts:
            agent = self.agent(players, network, weights)
            opponents = self._opponents_at(players, iteration, network)
            found[players] = evaluate_bots(agent, self.config, opponents, number=iteration)
        out = dict(found[self.config.game.players])
        if len(counts) > 1:
            out["by_players"] = {str(players): groups for players, groups in found.items()}
        return out

    def past_iteration(self, iteration: int) -> int:
        """Iteration of the past network: the newest that is kept for good and at most half as old as the run, or 0."""
        every = self.config.train.keep_every
        return iteration // 2 // every * every

    def _searcher(self, players: int, name: str) -> Searcher:
        """Agent of this name with a network of the run's kind; its weights are those that it was given last."""
        key, config = (players, name), self.config
        if key not in self._agents:
            network = make_network(GameSpec.of(config.game.name, players), config.model).to(self.device).eval()
            self._agents[key] = Searcher(network, self.search, config.selfplay.tables, name=name)
        return self._agents[key]

    def _named_opponents(self, players: int) -> dict[str, Agent]:
        """Opponents that are named by strings: `evaluation.also`, and the agent to exploit."""
        if players not in self._opponents:
            names = [name for name in self.config.evaluation.also if name != PAST_SELF]
            names += [self.config.exploit] if self.config.exploit else []
            game, batch = self.config.game.name, self.config.selfplay.tables
            self._opponents[players] = {
                name: build(AgentSpec.parse(name), game, players, batch=batch) for name in dict.fromkeys(names)
            }
        return self._opponents[players]

    def _opponents_at(self, players: int, iteration: int, network: BaseNetwork) -> dict[str, Agent]:
        """Opponents besides the bots at an iteration; the past network is missing until there is one."""
        found = dict(self._named_opponents(players))
        past = self.past_iteration(iteration)
        if PAST_SELF in self.config.evaluation.also and past:
            kept = checkpoint.load_weights(self.path / checkpoint.CHECKPOINTS / f"{past:06d}")
            weights = {name: tensor.to(self.device) for name, tensor in (kept.ema or kept.weights).items()}
            agent = self._searcher(players, PAST_SELF)
            agent.planner.network.load_state_dict(network.weights_for(players, weights))
            found[PAST_SELF] = agent
        return found
