"""Learning curves of made-up runs: the points, and how they are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from muzero.runs import plot_style
from muzero.runs.curves import kinds_of, make_figures, measure, plot_measures, plot_win_rates, points, win_rate
from muzero.runs.run import Run
from tests.runs.figure_checks import cut_off
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
    dashed = [line for line in axes.lines if line.get_color() == plot_style.GREY]
    assert [list(np.asarray(line.get_ydata())) for line in dashed] == [[0.25, 0.25]]
    assert dashed[0].get_linestyle() == "--"
    (curve,) = [line for line in axes.lines if line not in dashed]
    np.testing.assert_allclose(np.asarray(curve.get_ydata()), [0.15, 0.3, 0.45])


def test_rolling_means_are_bold_and_raw_values_light(tmp_path: Path) -> None:
    """Weights of the centred mean over two values are 1, 2, 1: (4 + 2 * 8 / 3 + 2) / 4 in the middle."""
    run = Run.read(make_run(tmp_path / "run", iterations=4))
    figure = plot_measures([run], "iteration", 2, {"total loss": measure("losses", "total")})
    assert figure is not None
    raw, rolling = figure.axes[0].lines
    assert (raw.get_alpha() or 1) < 0.5
    assert raw.get_linewidth() < rolling.get_linewidth()
    np.testing.assert_allclose(np.asarray(raw.get_ydata()), [4, 8 / 3, 2])
    np.testing.assert_allclose(np.asarray(rolling.get_ydata()), [4, 17 / 6, 2])
    assert labels(figure) == ["belief, seed 0", "raw values", "centred rolling mean, 2 iterations"]


def labels(figure: Figure | None) -> list[str]:
    """Texts of the legend of a figure."""
    assert figure is not None
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_every_panel_says_what_its_axes_are_and_ticks_are_whole_iterations(tmp_path: Path) -> None:
    figures = make_figures([Run.read(make_run(tmp_path / "run"))], smooth=3)
    for name, figure in figures.items():
        assert cut_off(figure) == 0, name
        for axes in figure.axes:
            assert axes.get_xlabel(), name
            assert axes.get_ylabel(), name
            if axes.get_xlabel() == "iteration":
                assert all(float(tick).is_integer() for tick in axes.get_xticks()), name
        assert ("_by_time" in name) == (figure.axes[0].get_xlabel() == "training time (minutes)")


def test_runs_that_differ_only_in_their_seeds_are_one_kind(tmp_path: Path) -> None:
    """The same settings and seed twice, or other settings, are kinds of their own, labelled by directory."""
    places = [("a", "belief", 0), ("b", "belief", 1), ("c", "baseline", 0), ("d", "flat", 0), ("e", "flat", 0)]
    runs = [Run.read(make_run(tmp_path / name, variant=variant, seed=seed)) for name, variant, seed in places]
    kinds = kinds_of(runs)
    assert [kind.name for kind in kinds] == ["belief", "baseline", "flat (d)", "flat (e)"]
    assert [len(kind.runs) for kind in kinds] == [2, 1, 1, 1]
    assert len({kind.color for kind in kinds}) == len({kind.marker for kind in kinds}) == 4
    assert kinds[0].color == plot_style.color_of("belief")
    other = Run.read(make_run(tmp_path / "f", seed=2, players=3))
    assert [kind.name for kind in kinds_of([*runs[:2], other])] == ["belief (a)", "belief (f)"]


def test_seeds_are_aggregated_with_a_band_from_three_on(tmp_path: Path) -> None:
    runs = [Run.read(make_run(tmp_path / f"s{seed}", seed=seed)) for seed in range(4)]
    loss = {"total loss": measure("losses", "total")}
    two, four = (plot_measures(some, "iteration", 1, loss) for some in (runs[:2], runs))
    assert labels(two)[0] == "belief, mean of 2 runs"
    assert labels(two)[-1] == "single runs"
    assert labels(four)[0] == "belief, interquartile mean of 4 runs"
    assert labels(four)[-2:] == ["single runs", "95 % bootstrap band over runs"]
    assert two is not None
    assert four is not None
    assert not two.axes[0].collections
    assert len(four.axes[0].collections) == 1
    widths = [line.get_linewidth() for line in four.axes[0].lines]
    assert widths.count(max(widths)) == 1, "one bold curve, thin ones for runs and raw values"
    rates = plot_win_rates(runs, "iteration", [None])
    assert "95 % Wilson interval of one run's games" not in labels(rates)
    assert "95 % Wilson interval of one run's games" in labels(plot_win_rates(runs[:1], "iteration", [None]))


def test_runs_of_different_length_and_table_size_share_plots(tmp_path: Path) -> None:
    places = [make_run(tmp_path / "old"), make_run(tmp_path / "young", seed=1, iterations=1, every=0, clock=False)]
    places.append(make_run(tmp_path / "three", seed=2, players=3))
    figures = make_figures([Run.read(place) for place in places], smooth=20)
    assert labels(figures["figure3_losses"])[:2] == ["belief (old), seed 0", "belief (three), seed 2"], (
        "the young run has no losses yet"
    )
    assert "belief (old), mean of 2 runs" in labels(figures["figure7_diagnostics"])
    assert {"fair share of 2 players", "fair share of 3 players"} <= set(labels(figures["figure5_win_rate"]))
