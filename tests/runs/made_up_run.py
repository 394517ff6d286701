"""Made-up run directories for tests of the reader, the curves and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BOTS = ("stone", "paper")


def result(rate: float, games: int = 50) -> dict[str, float]:
    """Evaluation against a bot."""
    return {
        "win_rate": rate,
        "games": games,
        "score_difference": 100 * rate - 50,
        "length": 200.0,
        "truncated": 0.02 * rate,
    }


def record(iteration: int, *, evaluated: bool, heads: bool) -> dict[str, Any]:
    """Metrics of an iteration; the first one has no losses, because the replay buffer was still filling."""
    losses = {
        "total": 8 / iteration,
        "policy": 1.0,
        "value": 2.0,
        "reward": 0.5,
        "gradient": 3.0,
        "reconstruction": 0.0,
    }
    losses |= {"winner": 1 / iteration, "rank": 0.9} if heads else {"winner": 0.0, "rank": 0.0}
    out: dict[str, Any] = {
        "iteration": iteration,
        "losses": losses if iteration > 1 else {},
        "diagnostics": {"games": 10 * iteration, "policy_entropy": 0.4 if iteration != 3 else None},
    }
    if iteration > 1:  # in the first iteration there were no games against bots
        out["diagnostics"] |= {"win_rate_stone": 0.3, "win_rate_paper": 0.1 * iteration}
    if evaluated:
        bins = {"predicted": [0.2, 0.7], "won": [0.1, 0.8], "count": [30, 10]}
        rates = {"stone": iteration / 10, "paper": iteration / 20, "extra": 1.0}
        out |= {"evaluation": {bot: result(rate) for bot, rate in rates.items()}}
        out |= {"calibration": {"brier": 0.2, "brier_of_the_mean": 0.25, "reliability": bins}} if heads else {}
    return out


def make_run(
    place: Path,
    *,
    variant: str = "belief",
    seed: int = 0,
    iterations: int = 6,
    every: int = 2,
    heads: bool = True,
    clock: bool = True,
    players: int = 2,
    mixed: tuple[int, ...] = (),
) -> Path:
    """Writes a run directory without checkpoints; iteration i ends after i minutes."""
    place.mkdir(parents=True)
    bots = ", ".join(BOTS)
    config = f"variant: {variant}\nseed: {seed}\ngame: {{name: skyjo, players: {players}, bots: [{bots}]}}\n"
    config += f"selfplay: {{players: {list(mixed)}}}\nmodel: {{ego: {str(heads).lower()}}}\n"
    (place / "config.yaml").write_text(config)
    records = [record(i, evaluated=bool(every) and i % every == 0, heads=heads) for i in range(1, iterations + 1)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    if clock:
        (place / "timings.jsonl").write_text("".join(f'{{"elapsed": {60 * i}}}\n' for i in range(1, iterations + 1)))
    return place
