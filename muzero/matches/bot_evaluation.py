"""How an agent in training does against hand-written players, and how honest its winner head is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from muzero import stats
from muzero.agents.agents import Bot, Searcher, Situation
from muzero.config import Config
from muzero.matches.paired_games import Games, against_each
from muzero.model.network import Network

_EVERY = 8  # of so many decisions the winner head judges one


class WinnerCheck:
    """Keeps what the winner head says at the agent's decisions, to compare it with who won."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rows: list[NDArray[np.int64]] = []
        self.chances: list[NDArray[np.float32]] = []

    @torch.inference_mode()
    def __call__(self, situation: Situation) -> None:
        """Asks the head about some of the decisions, as many of long games as of short ones."""
        chosen = np.flatnonzero(situation.keys % np.uint64(_EVERY) == 0)
        if not len(chosen):
            return
        device = next(self.network.parameters()).device
        latent = self.network.represent(torch.from_numpy(situation.obs[chosen]).to(device))
        said = self.network.predict(latent, torch.zeros(len(latent), dtype=torch.int64, device=device))
        assert said.winner is not None
        self.rows.append(situation.rows[chosen])
        self.chances.append(said.winner[:, 0].float().softmax(-1)[:, 0].cpu().numpy())

    def report(self, won: NDArray[np.float64]) -> dict[str, Any]:
        """won [N] shares of the win by row."""
        chance = np.concatenate(self.chances).astype(np.float64).round(6)  # the digits that single precision has
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
    """Figures of one opponent."""
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
    """Plays every bot of the configuration on paired deals; returns groups of a metrics record.

    `mean_win_rate` is over the curriculum's bots. The winner head is compared with what it has learned to predict: if
    training ends an episode earlier than a game ends here, as after one round of a match, it is asked in games of that
    kind, as many again.
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

    learned = config.game.rules_for_training()
    same = learned.get("episode") == config.game.rules.get("episode")
    results = play(config.game.rules, watch if same else None)
    figures = {name: summary(games) for name, games in zip(names, results, strict=True)}
    out: dict[str, Any] = {
        "evaluation": figures,
        "mean_win_rate": float(np.mean([figures[name]["win_rate"] for name in config.game.bots])),
    }
    if watch:
        judged = results if same else play(learned, watch)
        if watch.chances:
            out["calibration"] = watch.report(np.concatenate([games.won for games in judged]))
    return out
