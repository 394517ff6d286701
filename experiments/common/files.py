"""Files that an experiment writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.common.match_specs import Row
from muzero.runs.files import write_whole
from muzero.runs.plot_style import save_figure
from muzero.runs.provenance import provenance

DATA = Path(__file__).resolve().parents[1] / "data"


def published(table: str) -> list[list[Any]]:
    """Rows of a table or figure of the SkyNet paper."""
    rows: list[list[Any]] = json.loads((DATA / "skynet.json").read_text())[table]["rows"]
    return rows


def write_results(out: Path, name: str, result: Row, page: str, figure: Figure | None = None) -> None:
    """Writes the JSON, the Markdown page and, if there is one, the plot of an experiment, and prints the page."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / f"{name}.json", json.dumps({**result, "provenance": provenance()}, indent=1) + "\n")
    write_whole(out / f"{name}.md", page)
    names = [f"{name}.json", f"{name}.md"]
    if figure is not None:
        names += [path.name for path in save_figure(figure, out / name)]
    print(page)
    print(f"{', '.join(names[:-1])} and {names[-1]} are in {out}")
