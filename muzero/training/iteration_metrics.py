"""Metrics and timings of an iteration, as metrics.jsonl and timings.jsonl hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from muzero.runs.memory import resident_megabytes
from muzero.selfplay.opponents import EXPLOITED

if TYPE_CHECKING:
    from muzero.selfplay.worker import PlayResult
    from muzero.training.run_state import RunState


def diagnostics(state: RunState, played: list[PlayResult]) -> dict[str, Any]:
    """Figures about games, replay buffers and opponents; deterministic in sync mode."""
    episodes = [episode for part in played for episode in part.episodes]
    lengths = [len(episode) for episode in episodes]
    curriculum, replays = state.curriculum, state.replays.values()
    met = {
        f"win_rate_{name}": rate
        for name, rate, games in zip(curriculum.bots, curriculum.rates, curriculum.games, strict=True)
        if games
    }
    scaled = [
        points * len(episode.ranks) / 2
        for part in played
        for kind, points, episode in zip(part.opponents, part.points, part.episodes, strict=True)
        if kind == EXPLOITED and not episode.truncated
    ]
    if scaled:
        met["win_rate_exploited"] = float(np.mean(scaled))
    entropy = [
        -(e.policy[e.has_policy] * np.log(e.policy[e.has_policy] + 1e-9)).sum(1).mean()
        for e in episodes
        if e.has_policy.any()
    ]
    return {
        "games": state.games,
        "steps": state.learner.steps,
        "learning_rate": state.learner.learning_rate(),
        **({"replay_fill": float(np.mean([replay.fill for replay in replays]))} if replays else {}),
        **({"replay_decisions": sum(len(replay) for replay in replays)} if replays else {}),
        "episode_length": float(np.mean(lengths)) if episodes else None,
        "truncated": float(np.mean([episode.truncated for episode in episodes])) if episodes else None,
        "policy_entropy": float(np.mean(entropy)) if entropy else None,
        "bot_share": sum(curriculum.shares()),
        "pool": len(state.pool.members),
        **met,
    }


@dataclass(frozen=True)
class Seconds:
    """Seconds of an iteration by stage.

    Attributes:
      whole: seconds of the iteration, from start to end.
      waiting: seconds of waiting for the games.
      learner: seconds of the learner's steps.
      evaluation: seconds of bot evaluation.
    """

    whole: float
    waiting: float
    learner: float
    evaluation: float


def timings(
    seconds: Seconds, played: list[PlayResult], *, iteration: int, steps: int, asynchronous: bool, restarts: int
) -> dict[str, Any]:
    """Timings of an iteration: speeds, and seconds by part.

    Args:
      seconds: seconds of the iteration by stage.
      played: results of self-play, one per worker.
      iteration: number of iterations made, this one included.
      steps: number of learner steps in this iteration.
      asynchronous: whether self-play ran at the same time as the learner.
      restarts: number of workers replaced so far because they had died.
    """
    decisions = sum(part.decisions for part in played)
    simulations = sum(part.clock.simulations for part in played)
    playing = sum(part.seconds for part in played)
    # Lanes and actors run at the same time: their clocks are scaled to the time that passed (in async mode to the time
    # of one worker).
    clocks = {
        "env": sum(part.env_seconds for part in played),
        "tree": sum(part.clock.tree for part in played),
        "network": sum(part.clock.network + part.clock.encoder for part in played),
    }
    lanes = max(1.0, (clocks["tree"] + clocks["network"]) / max(playing - clocks["env"], 1e-9))
    scale = (playing / max(1, len(played)) if asynchronous else seconds.waiting) / max(playing, 1e-9)
    selfplay = {name: value * scale / (1.0 if name == "env" else lanes) for name, value in clocks.items()}
    # In async mode self-play costs no time of its own; only waiting for it does.
    spent = {"waiting": seconds.waiting} if asynchronous else selfplay
    return {
        "speed": {
            "games": sum(len(part.episodes) for part in played) / seconds.whole,
            "decisions": decisions / seconds.whole,
            "simulations": simulations / seconds.whole,
            "steps": steps / seconds.whole,
        },
        "selfplay": {
            "seconds": playing,
            "decisions_per_s": decisions / max(playing, 1e-9),
            "staleness": float(np.mean([iteration - 1 - part.version for part in played])),  # mean age in iterations
            "restarts": restarts,
            **selfplay,
        },
        "seconds": {**spent, "learner": seconds.learner, "evaluation": seconds.evaluation},
        **({"concurrent_selfplay": selfplay} if asynchronous else {}),
        "iteration_seconds": seconds.whole,
        "megabytes": {"learner": resident_megabytes(), "selfplay": max(part.megabytes for part in played)},
    }
