"""Made-up records for tests of metrics, sinks and display."""

from __future__ import annotations

from typing import Any

_MEANS = {"score_difference": 1.5, "length": 90.0, "truncated": 0.0}


def record(iteration: int) -> dict[str, Any]:
    """Metrics of an iteration."""
    return {
        "iteration": iteration,
        "losses": {"total": 1.5 / (iteration + 1), "value": 0.1 + 0.2},
        "diagnostics": {"replay_fill": 0.25, "text": "ä", "list": [1, 2]},
        "evaluation": {"stone(t=2)": {"win_rate": 0.1 * (iteration % 10), "games": 100, **_MEANS}},
    }


def timings(seconds: float) -> dict[str, Any]:
    """Timings of an iteration, in which the environment took so many seconds."""
    speed = {"games": 31.25, "simulations": 123456.0, "decisions": 2e6}
    return {"speed": speed, "seconds": {"env": seconds, "tree": 2 * seconds, "network": 5 * seconds}}
