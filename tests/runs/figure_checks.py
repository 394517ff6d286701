"""Checks of drawn figures that several tests share."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def cut_off(figure: Figure) -> float:
    """Inches by which labels, titles and legends of a figure reach over its edge; 0 if nothing is cut off."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
    over = max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height)
    return max(0.0, round(float(over), 2))
