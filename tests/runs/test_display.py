"""Live display: lines in a file, a panel in a terminal, estimates of the remaining time."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from muzero.runs.display import Display, duration, short, sparkline
from tests.runs.records import record, timings


def test_without_a_terminal_each_iteration_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    out = io.StringIO()
    with Display(20, console=Console(file=out)) as display:
        for i in range(1, 4):
            display.update(record(i), timings(1))
        display.update({"iteration": 4, "losses": {"total": float("nan")}})
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("iteration 2/20  elapsed 0:00:00  eta 0:00:0")
    for part in ("loss 0.500", "value 0.300", "games/s 31.2", "simulations/s 123k", "decisions/s 2M", "replay 25%"):
        assert f"  {part}  " in lines[1]
    assert lines[1].endswith("  stone(t=2) 20.0%  time: env 12% tree 25% network 62%")
    assert lines[3].startswith("iteration 4/20")
    assert lines[3].endswith("loss -")


def test_win_rates_in_training_and_the_clock_of_self_play_are_shown() -> None:
    """Win rates are the mean over the curriculum's bots; concurrent self-play has a clock of its own."""
    out = io.StringIO()
    diagnostics = {"win_rate_a": 0.2, "win_rate_b": 0.3, "games": 7}
    clock = {"seconds": {"learner": 2.0}, "concurrent_selfplay": {"env": 0.1, "tree": 0.3, "network": 0.6}}
    display = Display(console=Console(file=out))
    display.update({"iteration": 7, "diagnostics": diagnostics}, clock)
    ending = "  bots in training 25.0%  time: learner 100%  self-play: env 10% tree 30% network 60%\n"
    assert out.getvalue().endswith(ending)


def test_a_quiet_display_writes_nothing() -> None:
    out = io.StringIO()
    Display(console=Console(file=out, quiet=True)).update({"iteration": 7})
    assert out.getvalue() == ""


def test_without_a_total_there_is_no_estimate_of_the_end() -> None:
    out = io.StringIO()
    Display(console=Console(file=out)).update({"iteration": 7})
    assert out.getvalue().startswith("iteration 7  elapsed")
    assert "eta" not in out.getvalue()


def test_in_a_terminal_a_panel_shows_the_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    with Display(20, console=Console(file=out, force_terminal=True, width=120, color_system=None)) as display:
        for i in range(1, 10):
            display.update(record(i), timings(1))
        display.update({"iteration": 10, "losses": {"total": 9.0}})
    last = out.getvalue().split("progress")[-1]
    assert "iteration 10/20" in last
    assert "31.2 games/s  123k simulations/s  2M decisions/s" in last
    assert "loss 9.000" in last
    assert "stone(t=2)   90.0%  ▁▂▃▄▅▅▆▇█" in last
    assert "█" * 40 + "  env 12%  tree 25%  network 62%" in last


def test_remaining_time_is_estimated_from_iterations_of_this_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    display = Display(1000, start=900, console=Console(file=io.StringIO()))
    assert display.remaining is None
    for i in range(901, 951):
        now[0] += 7.0 if i > 910 else 100.0
        display.update({"iteration": i})
        if i == 902:
            assert display.remaining == pytest.approx(98 * 100)
    assert display.remaining == pytest.approx(50 * 7)


def test_numbers_durations_and_sparklines_are_formatted() -> None:
    values = {0.0: "0", 3.14159: "3.14", 999.0: "999", 1000.0: "1k", 12345.0: "12.3k", 999_600.0: "1M", 3.2e9: "3.2G"}
    assert {value: short(value) for value in values} == values
    assert duration(3725.4) == "1:02:05"
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
