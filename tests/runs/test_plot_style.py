"""Style of plots: colours that stay apart, names of agents, files, and that every plot uses it."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from muzero.runs import plot_style
from muzero.runs.plot_style import agent_alias, agent_aliases, color_of, colors_of

ROOT = Path(__file__).resolve().parents[2]
# Machado, Oliveira and Fernandes (2009): full protanopia and deuteranopia, in linear RGB.
BLIND = {
    "none": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color: str, eyes: str) -> np.ndarray:
    """CIE Lab of a colour as seen by these eyes."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(BLIND[eyes] @ linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", BLIND)
def test_colours_of_variants_stay_apart_for_all_eyes(eyes: str) -> None:
    """A difference of 10 in CIE Lab is seen at a glance."""
    colors = {name: lab(color, eyes) for name, (color, _) in plot_style.VARIANTS.items()}
    for one, other in combinations(colors, 2):
        assert np.linalg.norm(colors[one] - colors[other]) > 10, (one, other)
    ends = [lab(plot_style.LOST_WON(share), eyes) for share in (0.0, 0.5, 1.0)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(ends, 2)) > 30


def test_every_variant_of_the_configuration_has_its_own_colour_and_marker() -> None:
    names = {path.stem for path in (ROOT / "conf" / "variant").glob("*.yaml")}
    assert names == set(plot_style.VARIANTS)
    assert len({color for color, _ in plot_style.VARIANTS.values()}) == len(names)
    assert len({marker for _, marker in plot_style.VARIANTS.values()}) == len(names)


def test_a_variant_has_the_same_colour_in_whatever_company() -> None:
    for company in (["belief"], ["baseline", "belief"], ["mine", "ppo", "counts", "belief"]):
        assert colors_of(company)["belief"] == color_of("belief")
    assert color_of("mine") == color_of("mine") in plot_style.SPARE
    several = colors_of(["belief (x)", "belief (y)", "baseline", "belief (z)"])
    assert len(set(several.values())) == 4
    assert (several["belief (x)"], several["baseline"]) == (color_of("belief"), color_of("baseline"))


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("random", "random"),
        ("bot:greedy", "greedy"),
        ("bot:threshold(t=2,u=3)", "threshold(t=2,u=3)"),
        ("agent:skyjo-belief,simulations=64", "skyjo-belief, 64 sims"),
        ("checkpoint:runs/study/train/belief-s0,iteration=390,simulations=16", "belief-s0 @390, 16 sims"),
        ("checkpoint:runs/x/checkpoints/000120", "x @120"),
        ("checkpoint:nets/a.safetensors", "a"),
        ("policy:runs/x", "x, policy"),
        ("simulator:256,tree=ismcts", "simulator 256, tree=ismcts"),
        ("checkpoint:runs/" + "x" * 60, "x" * 17 + "…" + "x" * 16),
    ],
)
def test_agents_have_short_names(name: str, alias: str) -> None:
    assert agent_alias(name) == alias
    assert len(alias) <= 34


def test_short_names_of_different_agents_differ() -> None:
    names = ["checkpoint:runs/a/belief", "checkpoint:runs/b/belief", "bot:greedy"]
    assert agent_aliases(names) == ["checkpoint:runs/a/belief", "checkpoint:runs/b/belief", "greedy"]
    middle = [f"checkpoint:{'y' * 40}{letter}{'z' * 40}" for letter in "ab"]
    assert len(set(agent_aliases(middle))) == 2


@plot_style.styled
def some_figure() -> mpl.figure.Figure:
    figure, axes = plot_style.new_axes()
    axes.plot([1, 2], [3, 4], label="x" * 80)
    axes.set(xlabel="iteration", ylabel="loss (nats)")
    plot_style.legend_below(figure, [axes], [plot_style.band_handle("95 % interval")])
    return figure


def test_figures_are_written_as_bitmap_and_vectors_with_the_same_bytes_again(tmp_path: Path) -> None:
    paths = plot_style.save_figure(some_figure(), tmp_path / "a.b", ("png", "svg", "pdf"))
    assert [path.name for path in paths] == ["a.b.png", "a.b.svg", "a.b.pdf"]
    assert [path.read_bytes()[:4] for path in paths] == [b"\x89PNG", b"<?xm", b"%PDF"]
    assert "95 % interval" in paths[1].read_text(), "text stays text"
    again = plot_style.save_figure(some_figure(), tmp_path / "again", ("png", "svg", "pdf"))
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]
    with pytest.raises(ValueError, match=r"--formats: expected some of png, svg, pdf, got 'gif'"):
        plot_style.save_figure(some_figure(), tmp_path / "c", ("gif",))
    assert mpl.rcParams["axes.grid"] is False, "the style does not leak into notebooks"


def test_figures_have_the_width_of_a_column_or_a_page() -> None:
    assert some_figure().get_size_inches()[0] == plot_style.COLUMN
    figure, panels = plot_style.new_panels(5)
    assert figure.get_size_inches()[0] == plot_style.PAGE
    assert len(panels) == len(figure.axes) == 5


def test_every_plot_of_the_project_uses_the_style() -> None:
    own = re.compile(r"\bFigure\(|\.savefig\(|pyplot|figsize=|[\"']C\d[\"']|[\"']C\{|tab:|RdYlGn|rc_context")
    for path in sorted([*(ROOT / "muzero").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]):
        if path.name not in ("plot_style.py", "wandb_media.py"):  # the latter uploads figures of the former as bytes
            assert not own.search(path.read_text()), f"{path}: {own.search(path.read_text())}"
    for path in sorted([*(ROOT / "muzero").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]):
        for before, name in re.findall(r"(.*)\n(?:def) (\w+)\([^)]*\) -> Figure(?: \| None)?:", path.read_text()):
            drawn = before == "@styled" or path.name in ("redraw.py", "plot_style.py")
            assert drawn, f"{path}: {name} is not decorated with @styled"
