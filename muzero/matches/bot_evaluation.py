"""Evaluation of an agent in training against bots, and calibration of its winner head."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from muzero import stats
from muzero.agents.agents import Bot, Searcher, Situation
from muzero.config import Config
from muzero.matches.games import Games
from muzero.matches.paired_games import against_each
from muzero.model.interface import BaseNetwork

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


def evaluate_bots(agent: Searcher, config: Config) -> dict[str, Any]:
    """Play against every bot of the configuration on paired deals; return groups of a metrics record.

    `mean_win_rate` is the mean over the curriculum's bots. The winner head is judged on games of the kind that it was
    trained on: if episodes of training are shorter than those of evaluation (rounds instead of whole matches), as many
    games again are played with the rules of training.
    """
    names = [*config.game.bots, *config.game.held_out_bots]
    players = config.game.players
    watch = WinnerCheck(agent.planner.network) if config.model.outcome_heads else None

    def play(rules: dict[str, Any], watch: WinnerCheck | None) -> list[Games]:
        return against_each(
            agent,
            [Bot(name) for name in names],
            max(1, config.evaluation.games // players),
            game=config.game.name,
            players=players,
            rules=rules,
            seed=config.evaluation.seed,
            watch=watch,
        )

    trained = config.game.rules_for_training()
    # The winner that the network predicts is that of an episode of training, or of the match.
    same = trained.get("episode") == config.game.rules.get("episode") or config.game.utility == "match"
    results = play(config.game.rules, watch if same else None)
    figures = {name: summary(games) for name, games in zip(names, results, strict=True)}
    out: dict[str, Any] = {
        "evaluation": figures,
        "mean_win_rate": float(np.mean([figures[name]["win_rate"] for name in config.game.bots])),
    }
    if watch:
        judged = results if same else play(trained, watch)
        if watch.chances:
            out["calibration"] = watch.report(np.concatenate([games.won for games in judged]))
    return out
