"""Dashboard of training runs in wandb: a workspace with the charts that tell how a run goes.

python -m muzero.report dashboard [--project NAME] [--entity NAME]    creates it (needs wandb-workspaces and a key)
python -m muzero.report dashboard --text                              prints what it contains
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from muzero.config import LoggingConfig

NAME = "Training runs"


@dataclass(frozen=True)
class Chart:
    """Line chart.

    Attributes:
      title: title of the chart.
      metrics: names of the numbers in a run's history.
      reading: sentence that says what is healthy.
      x: number on the x axis.
    """

    title: str
    metrics: tuple[str, ...]
    reading: str
    x: str = "iteration"


SECTIONS: dict[str, tuple[Chart, ...]] = {
    "Strength": (
        Chart("Mean win rate", ("mean_win_rate",), "rises, then flattens; above the fair share of 1 / players"),
        Chart("Mean win rate by hours", ("mean_win_rate",), "compares runs of different speed", "axes/hours"),
        Chart("Mean win rate by learner steps", ("mean_win_rate",), "compares learners", "axes/steps"),
        Chart("Mean win rate by decisions", ("mean_win_rate",), "compares the use of experience", "axes/decisions"),
    ),
    "Learning": (
        Chart("Loss", ("losses/total",), "falls fast, then slowly; jumps mean a rate that is too high"),
        Chart(
            "Policy and value losses", ("losses/policy", "losses/value", "losses/reward"), "fall; none drowns another"
        ),
        Chart("Gradient", ("losses/gradient",), "of the same size all along; growth comes before divergence"),
        Chart(
            "Policy entropy", ("diagnostics/policy_entropy",), "falls slowly; near 0 early means that search is ignored"
        ),
        Chart(
            "Values against playouts", ("diagnostics/value_rmse", "diagnostics/value_bias"), "error falls, bias near 0"
        ),
    ),
    "Games": (
        Chart("Length of episodes", ("diagnostics/episode_length",), "settles; far too long: nobody ends the game"),
        Chart("Truncated episodes", ("diagnostics/truncated",), "near 0; otherwise max_decisions is too small"),
        Chart("Share of games against bots", ("diagnostics/bot_share",), "fades as the curriculum's bots are beaten"),
    ),
    "Speed": (
        Chart("Decisions per second", ("speed/decisions",), "steady; a fall means a busy machine or long games"),
        Chart("Learner steps per second", ("speed/steps",), "steady"),
        Chart("Seconds of an iteration", ("iteration_seconds",), "steady, with peaks where an evaluation is made"),
        Chart("Memory of the learner", ("megabytes/learner",), "grows until the replay buffer is full, then is level"),
    ),
}
"""Charts of the dashboard by section."""


def layout_text() -> str:
    """Layout of the dashboard as Markdown."""
    lines = []
    for title, charts in SECTIONS.items():
        lines += [f"**{title}**", "", "| chart | numbers | over | a healthy run |", "|---|---|---|---|"]
        for chart in charts:
            names = ", ".join(f"`{name}`" for name in chart.metrics)
            lines.append(f"| {chart.title} | {names} | `{chart.x}` | {chart.reading} |")
        lines.append("")
    return "\n".join(lines)


def create(workspaces: ModuleType, reports: ModuleType, entity: str, project: str) -> str:
    """Create the workspace; returns its address.

    Args:
      workspaces: the module wandb_workspaces.workspaces.
      reports: the module wandb_workspaces.reports.v2, which has the charts.
      entity, project: where it is created.
    """
    sections: list[Any] = []
    for title, charts in SECTIONS.items():
        panels = [reports.LinePlot(title=chart.title, x=chart.x, y=list(chart.metrics)) for chart in charts]
        sections.append(workspaces.Section(name=title, panels=panels, is_open=True))
    found = workspaces.Workspace(name=NAME, entity=entity, project=project, sections=sections)
    found.save()
    return str(found.url)


def main(argv: Sequence[str]) -> int:
    """Entry point of `python -m muzero.report dashboard`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m muzero.report dashboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--project", default=LoggingConfig().project, help="project in wandb (default: belief-muzero)")
    parser.add_argument("--entity", default="", help="team or user in wandb (default: yours)")
    parser.add_argument("--text", action="store_true", help="print what the dashboard contains")
    options = parser.parse_args(argv)
    if options.text:
        print(layout_text())
        return 0
    try:
        import wandb
        import wandb_workspaces.reports.v2 as reports
        import wandb_workspaces.workspaces as workspaces

        entity = options.entity or str(wandb.Api().default_entity)
        print(create(workspaces, reports, entity, options.project))
    except ImportError as error:
        print(f"error: {error}: pip install wandb wandb-workspaces", file=sys.stderr)
        return 2
    except Exception as error:  # whatever the server or the key brings
        print(f"error: wandb: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0
