"""Live display: lines in a file, a panel in a terminal, estimates of the remaining time."""

from __future__ import annotations

import io
import os
import pty
import re
import termios
import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from muzero.runs.display import LEGEND, Display, duration, short, sparkline, wrap_cells
from muzero.runs.keys import Keys
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
    assert lines[1].startswith("iteration 2/20  elapsed 0:00:00  left 0:00:0")
    for part in ("loss 0.500", "value 0.300", "games/s 31.2", "simulations/s 123k", "decisions/s 2M", "replay 25%"):
        assert f"  {part}  " in lines[1]
    assert lines[1].endswith("  win rate: stone(t=2) 20.0%  time: env 12% tree 25% network 62%")
    assert lines[3].startswith("iteration 4/20")
    assert lines[3].endswith("loss -")


def test_win_rates_in_training_and_the_clock_of_self_play_are_shown() -> None:
    """Win rates are the mean over the curriculum's bots; concurrent self-play has a clock of its own."""
    out = io.StringIO()
    diagnostics = {"win_rate_a": 0.2, "win_rate_b": 0.3, "games": 7}
    clock = {"seconds": {"learner": 2.0}, "concurrent_selfplay": {"env": 0.1, "tree": 0.3, "network": 0.6}}
    display = Display(console=Console(file=out))
    display.update({"iteration": 7, "diagnostics": diagnostics}, clock)
    ending = "  win rate: bots in training 25.0%  time: learner 100%  self-play: env 10% tree 30% network 60%\n"
    assert out.getvalue().endswith(ending)


def test_a_quiet_display_writes_nothing() -> None:
    out = io.StringIO()
    Display(console=Console(file=out, quiet=True)).update({"iteration": 7})
    assert out.getvalue() == ""


def test_without_a_total_there_is_no_estimate_of_the_end() -> None:
    out = io.StringIO()
    Display(console=Console(file=out)).update({"iteration": 7})
    assert out.getvalue().startswith("iteration 7  elapsed")
    assert "left" not in out.getvalue()


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
    assert re.search("win rate +stone\\(t=2\\)  90.0%  ▁▂▃▄▅▅▆▇█", last)
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


def test_a_timed_run_shows_the_time_left_instead_of_a_number_of_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    display = Display(100_000, start=6, elapsed=600.0, seconds=1200.0, console=Console(file=out))
    now[0] = 30.0
    display.update({"iteration": 7})
    assert out.getvalue() == "iteration 7  elapsed 0:10:30 of 0:30:00  left 0:19:30\n", "time of both processes"


def test_a_timed_run_that_its_iterations_end_first_shows_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    display = Display(10, seconds=1800.0, console=Console(file=out))
    now[0] = 10.0
    display.update({"iteration": 1})
    assert out.getvalue() == "iteration 1/10  elapsed 0:00:10  left 0:01:30\n"


def test_losses_of_parts_that_the_network_lacks_are_not_shown() -> None:
    out = io.StringIO()
    losses = {"policy": 0.5, "winner": 0.0, "rank": 0.0, "total": 0.0}
    Display(console=Console(file=out)).update({"iteration": 1, "losses": losses})
    assert out.getvalue().rstrip().endswith("policy 0.500  loss 0.000")


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_the_panel_fits_the_terminal_and_cuts_no_number_in_two(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    losses = {f"loss_number_{i}": 1.25 for i in range(12)}
    speed = {f"amounts_{i}": 1234.0 for i in range(6)}
    opponents = {"checkpoint:runs/a_long_name/" + "x" * 60: 0.25, "greedy": 0.5}
    evaluation = {name: {"win_rate": rate} for name, rate in opponents.items()}
    seconds = {"env": 1.0, "tree": 2.0, "network": 3.0, "learner": 3.0, "evaluation": 1.0}
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    with Display(20, console=console) as display:
        display.update(
            {"iteration": 3, "losses": losses, "evaluation": evaluation}, {"speed": speed, "seconds": seconds}
        )
        display.press("h")
        plain = Console(file=io.StringIO(), width=width)
        plain.print(display._panel())
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(len(line) for line in lines) <= width
    text = "\n".join(lines)
    for part in (*(f"{name} 1.250" for name in losses), *(f"1.23k {name}/s" for name in speed), "evaluation 10%"):
        assert part in text, part
    assert re.search(r"greedy +50.0%", text)
    assert re.search(r"checkpoint:runs/a_long_name/x+…? +25.0%", text)
    words = re.sub(r"\s+", " ", text)
    for meaning in LEGEND.values():
        assert meaning in words


def test_cells_are_wrapped_between_cells_only() -> None:
    assert wrap_cells(["ab 1", "cd 2", "ef 3"], 10) == ["ab 1  cd 2", "ef 3"]
    assert wrap_cells(["a very long cell", "b"], 5) == ["a very long cell", "b"]


def until(true: Callable[[], Any]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_key_h_shows_and_hides_the_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    display = Display(console=Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None))
    for key, shown in (("x", False), ("h", True), ("h", False)):
        display.press(key)
        assert display.legend == shown
    display.close()


def test_keys_of_a_terminal_are_read_at_once_and_the_terminal_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(os, "tcgetpgrp", lambda file: os.getpgrp())
    before, pressed = termios.tcgetattr(theirs), []
    keys = Keys(pressed.append, theirs)
    assert keys.active
    assert not termios.tcgetattr(theirs)[3] & termios.ICANON, "keys arrive without Enter"
    assert termios.tcgetattr(theirs)[3] & termios.ISIG, "Ctrl-C is a signal"
    os.write(ours, b"h")
    until(lambda: pressed == ["h"])
    keys.close()
    assert termios.tcgetattr(theirs) == before
    assert not keys.active
    os.close(ours)
    os.close(theirs)


def test_without_a_terminal_no_key_is_read() -> None:
    reading, writing = os.pipe()
    keys = Keys(lambda key: None, reading)
    assert not keys.active
    keys.close()
    os.close(reading)
    os.close(writing)
