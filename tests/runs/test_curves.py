"""Learning curves of made-up runs: the points, and how they are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from muzero.runs.curves import looks, make_figures, measure, plot_measures, plot_win_rates, points, win_rate
from muzero.runs.run import Run
from tests.runs.made_up_run import make_run, result


def test_points_leave_out_unknown_values(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", iterations=4))
    x, y = points(run, "iteration", measure("losses", "total"))
    np.testing.assert_allclose((x, y), ([2, 3, 4], [4, 8 / 3, 2]))
    x, _ = points(run, "minutes", measure("diagnostics", "policy_entropy"))
    np.testing.assert_allclose(x, [1, 2, 4])  # it is null at iteration 3


def test_the_mean_win_rate_needs_every_bot_of_the_curriculum(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run"))
    assert win_rate(run, {"evaluation": {"stone": result(0.5)}}) is None
    assert win_rate(run, {"evaluation": {"stone": result(0.5)}}, "stone") is not None
    assert win_rate(run, {}) is None


def test_the_fair_share_is_a_dashed_line(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", players=4))
    figure = plot_win_rates([run], "iteration", [None])
    assert figure is not None
    (axes,) = figure.axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [list(np.asarray(line.get_ydata())) for line in dashed] == [[0.25, 0.25]]
    (curve,) = [line for line in axes.lines if line.get_linestyle() != "--"]
    np.testing.assert_allclose(np.asarray(curve.get_ydata()), [0.15, 0.3, 0.45])


def test_rolling_means_are_bold_and_raw_values_light(tmp_path: Path) -> None:
    run = Run.read(make_run(tmp_path / "run", iterations=4))
    figure = plot_measures([run], "iteration", 2, {"loss": measure("losses", "total")})
    assert figure is not None
    raw, rolling = figure.axes[0].lines
    assert (raw.get_alpha() or 1) < 0.5
    assert raw.get_linewidth() < rolling.get_linewidth()
    np.testing.assert_allclose(np.asarray(raw.get_ydata()), [4, 8 / 3, 2])
    np.testing.assert_allclose(np.asarray(rolling.get_ydata()), [4, 10 / 3, 7 / 3])


def test_runs_differ_in_colour_or_dashes(tmp_path: Path) -> None:
    """Colour shows the variant, dashes the seed; runs that share both are labelled by directory."""
    places = [("a", "belief", 0), ("b", "belief", 1), ("c", "baseline", 0), ("d", "flat", 0), ("e", "flat", 0)]
    runs = [Run.read(make_run(tmp_path / name, variant=variant, seed=seed)) for name, variant, seed in places]
    drawn = looks(runs)
    assert [look.label for look in drawn[:3]] == ["belief, seed 0", "belief, seed 1", "baseline, seed 0"]
    assert [look.label for look in drawn[3:]] == ["flat (d), seed 0", "flat (e), seed 0"]
    assert drawn[0].color == drawn[1].color != drawn[2].color
    assert drawn[0].dashes == drawn[2].dashes != drawn[1].dashes
    assert len({(look.color, str(look.dashes)) for look in drawn}) == 5


def test_runs_of_different_length_and_table_size_share_plots(tmp_path: Path) -> None:
    places = [make_run(tmp_path / "old"), make_run(tmp_path / "young", seed=1, iterations=1, every=0, clock=False)]
    places.append(make_run(tmp_path / "three", seed=2, players=3))
    figures = make_figures([Run.read(place) for place in places], smooth=20)

    def labels(name: str) -> set[str]:
        legend = figures[name].axes[0].get_legend()
        assert legend is not None
        return {text.get_text() for text in legend.get_texts()}

    assert labels("figure3_losses") == {"belief, seed 0", "belief, seed 2"}, "the young run has no losses yet"
    assert labels("figure7_diagnostics") == {"belief, seed 0", "belief, seed 1", "belief, seed 2"}
