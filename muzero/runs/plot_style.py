"""Look of every plot: colours, sizes, names of agents, axes, legends and files.

A function that draws is decorated with `styled`, makes its figure with `new_figure`, `new_axes` or `new_panels`, and
leaves writing to `save_figure`. Colours are those of Okabe and Ito and of Tol, which stay apart for people who see no
red or no green. A variant has the same colour and marker in every figure; references such as a fair share are thin and
grey.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from muzero.config.fields import require
from muzero.runs.files import replacing, writing

P = ParamSpec("P")
R = TypeVar("R")

COLUMN, PAGE = 3.25, 6.75  # inches: one column of a two-column paper, and both
ASPECT = 0.72  # height of a panel by its width
FORMATS = ("png", "svg", "pdf")
DEFAULT_FORMATS = ("png", "svg")
DPI = 200  # dots per inch of bitmaps: 1,350 pixels for a page's width

VARIANTS = {  # colour and marker
    "baseline": ("#D55E00", "s"),
    "belief": ("#0072B2", "o"),
    "belief_cards": ("#009E73", "D"),
    "ego_only": ("#CC79A7", "^"),
    "heads_only": ("#56B4E9", "v"),
    "counts": ("#E69F00", "P"),
    "ppo": ("#4D4D4D", "X"),
}
SPARE = ("#882255", "#999933", "#44AA99", "#332288", "#DDCC77", "#661100")
"""Colours of everything that is not a variant of this project, such as somebody's own."""

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
"""Colours of curves that are not variants: measures, numbers of players, strategies."""

MARKERS = ("o", "s", "D", "^", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))
GREY = "#767676"
BAND = 0.2  # opacity of intervals
RATES = (-0.04, 1.04)  # ends of an axis of win rates, so that markers at 0 and 1 are whole
LOST_WON = LinearSegmentedColormap.from_list("lost_won", ["#B35806", "#F7F7F7", "#2166AC"])
"""Colour map of win rates: orange for lost, white for level, blue for won."""

RC: Any = {  # settings of matplotlib
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "errorbar.capsize": 2,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.prop_cycle": cycler(color=list(SERIES)),
    "svg.hashsalt": "belief-muzero",  # the same bytes every time
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "savefig.dpi": DPI,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorator of functions that draw: everything they make has the look of this module."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with mpl.rc_context(RC):
            return draw(*args, **kwargs)

    return inside


def new_figure(width: float = COLUMN, height: float | None = None) -> Figure:
    """Empty figure of so many inches; by default as wide as a column of a paper, in the usual proportions."""
    return Figure(figsize=(width, height or max(ASPECT * width, 2.2)), layout="constrained")


def new_axes(width: float = COLUMN, height: float | None = None) -> tuple[Figure, Axes]:
    """Figure with one panel."""
    figure = new_figure(width, height)
    return figure, figure.subplots()


def new_panels(count: int, columns: int = 3, extra_height: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Figure of a page's width (a column's, for one panel) with `count` panels.

    Args:
      count: number of panels.
      columns: panels side by side at most.
      extra_height: inches for a legend below the panels.
    """
    columns = min(count, columns)
    rows = -(-count // columns)
    width = PAGE if columns > 1 else COLUMN
    figure = new_figure(width, max(0.85 * width / columns, 1.9 if columns > 1 else 2.4) * rows + extra_height)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


# ---- colours and names -----------------------------------------------------------------------------------------------


def color_of(variant: str) -> str:
    """Colour of a variant, always the same; one that is not of this project has one of `SPARE`, by its name."""
    found = VARIANTS.get(variant)
    return found[0] if found else SPARE[zlib.crc32(variant.encode()) % len(SPARE)]


def marker_of(variant: str) -> str:
    """Marker of a variant, always the same."""
    found = VARIANTS.get(variant)
    return found[1] if found else MARKERS[zlib.crc32(variant.encode()) % len(MARKERS)]


def colors_of(kinds: Sequence[str]) -> dict[str, str]:
    """Colours of kinds of runs that are named VARIANT or VARIANT (SOMETHING), all different while colours last.

    The first of a variant has its colour; the others take colours that nobody else in the figure has.
    """
    return _all_different(kinds, color_of, (*SPARE, *SERIES))


def markers_of(kinds: Sequence[str]) -> dict[str, str]:
    """Markers of kinds of runs, as `colors_of`."""
    return _all_different(kinds, marker_of, MARKERS)


def _all_different(kinds: Sequence[str], own: Callable[[str], str], spare: Sequence[str]) -> dict[str, str]:
    """Look of each kind: that of its variant, or if it is taken one that no variant of the figure has."""
    variants = {own(kind.split(" (")[0]) for kind in kinds}
    found: dict[str, str] = {}
    for kind in dict.fromkeys(kinds):
        look = own(kind.split(" (")[0])
        if look in found.values():
            free = [other for other in spare if other not in variants | set(found.values())]
            look = free[0] if free else look
        found[kind] = look
    return found


def agent_alias(name: str, longest: int = 34) -> str:
    """Short name of an agent for a figure: `bot:greedy` is greedy, `checkpoint:runs/x,simulations=64` is x, 64 sims.

    Args:
      name: string that names the agent.
      longest: most characters; a longer name loses its middle.
    """
    kind, _, rest = name.partition(":")
    if not rest:
        return _shortened(name, longest)
    place, *options = re.split(r",(?![^()]*\))", rest)
    short = place
    if kind in ("checkpoint", "policy") and "/" in place:
        parts = [part for part in place.split("/") if part not in ("", ".", "checkpoints")]
        at = int(parts.pop()) if len(parts) > 1 and re.fullmatch(r"\d{6,}", parts[-1]) else None
        short = parts[-1].removesuffix(".safetensors") if parts else place
        short += f" @{at}" if at is not None else ""
    if kind == "policy":
        short += ", policy"
    if kind == "simulator":
        short = f"simulator {place}"
    texts = []
    for option in options:
        key, _, value = option.partition("=")
        if key == "iteration":
            short += f" @{value}"
        elif key == "simulations":
            texts.append(f"{value} sims")
        else:
            texts.append(option)
    return _shortened(", ".join([short, *texts]), longest)


def _shortened(text: str, longest: int) -> str:
    """Text without its middle, if it is too long."""
    if len(text) <= longest:
        return text
    keep = longest - 1
    return f"{text[: keep - keep // 2]}…{text[len(text) - keep // 2 :]}"


def agent_aliases(names: Sequence[str], longest: int = 34) -> list[str]:
    """Short names of agents, all different: those that would be the same keep more of their own names, or a number."""
    short = [agent_alias(name, longest) for name in names]
    doubled = {alias for alias in short if short.count(alias) > 1}
    tries = [_shortened(name, longest) if alias in doubled else alias for name, alias in zip(names, short, strict=True)]
    out: list[str] = []
    for alias in tries:
        number = sum(other == alias or other.startswith(f"{alias} #") for other in out)
        out.append(f"{alias} #{number + 1}" if alias in out else alias)
    return out


# ---- axes and legends ------------------------------------------------------------------------------------------------


def few_ticks(axes: Axes, places: Sequence[float] = (), most: int = 5) -> None:
    """Puts ticks of the x axis at whole numbers only, because there is nothing between two iterations.

    Args:
      axes: panel.
      places: places of all points; if they are the same, the only tick is there.
      most: intervals between ticks at most.
    """
    if len(set(places)) == 1:
        axes.set_xticks(list(set(places)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))


def reference_line(axes: Axes, value: float, label: str | None = None, axis: Literal["x", "y"] = "y") -> None:
    """Draws a thin dashed line at a value that curves are compared with."""
    look: dict[str, Any] = {"color": GREY, "linestyle": (0, (4, 2)), "linewidth": 0.8, "zorder": 1, "label": label}
    if axis == "y":
        axes.axhline(value, **look)
    else:
        axes.axvline(value, **look)


def draw_matrix(axes: Axes, rates: NDArray[np.float64], digits: int = 2, most: float = 1.0) -> None:
    """Draws win rates [P, P] as coloured cells with numbers; NaN is left white.

    Args:
      axes: panel to draw in.
      rates: win rates from 0 to `most` of the row against the column.
      digits: digits after the point.
      most: the rate of winning every game, 1 or 100.
    """
    axes.imshow(rates, cmap=LOST_WON, vmin=0, vmax=most, aspect="auto")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for i, j in np.argwhere(~np.isnan(rates)):
        color = "white" if abs(rates[i, j] / most - 0.5) > 0.35 else "black"
        axes.text(j, i, f"{rates[i, j]:.{digits}f}", ha="center", va="center", fontsize=6.5, color=color)


def band_handle(label: str) -> Patch:
    """Entry of a legend that explains shaded bands."""
    return Patch(color=GREY, alpha=BAND, linewidth=0, label=label)


def line_handle(label: str, **look: Any) -> Line2D:
    """Entry of a legend that explains lines of one kind, such as thin ones for single runs."""
    return Line2D([], [], **{"color": GREY, **look}, label=label)


def legend_below(figure: Figure, panels: Sequence[Axes], notes: Sequence[Any] = (), columns: int | None = None) -> None:
    """Puts one legend for all panels below them: every label once, then notes that explain bands and thin lines."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    for note in notes:
        found.setdefault(str(note.get_label()), note)
    if not found:
        return
    width = figure.get_size_inches()[0]
    longest = max(len(label) for label in found)
    fitting = max(1, int(width / (0.062 * longest + 0.5)))
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=min(columns or fitting, fitting, len(found)),
    )


# ---- files -----------------------------------------------------------------------------------------------------------


def require_formats(formats: Sequence[str]) -> None:
    """Refuses formats that figures cannot be written in."""
    for name in formats:
        require(name in FORMATS, "--formats", f"some of {', '.join(FORMATS)}", name)


def save_figure(figure: Figure, stem: Path, formats: Sequence[str] = DEFAULT_FORMATS) -> list[Path]:
    """Writes a figure as bitmap and as vectors, each file whole or not at all; returns the files.

    Args:
      figure: figure to write; the same figure gives the same bytes.
      stem: path without a suffix.
      formats: some of `FORMATS`.
    """
    require_formats(formats)
    written = []
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(RC):
        for kind in formats:
            path = stem.with_name(f"{stem.name}.{kind}")
            with writing(path), replacing(path) as draft:
                figure.savefig(draft, format=kind, metadata=dates[kind])
            written.append(path)
    return written
