"""metrics.jsonl is the same bytes however often a run is interrupted, and nobody who watches can stop the run."""

from __future__ import annotations

import io
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from muzero.runs import metrics
from muzero.runs.metrics import Display, Metrics, Wandb, default_run_id, flatten, read


def record(iteration: int) -> dict[str, Any]:
    return {
        "iteration": iteration,
        "losses": {"total": 1.5 / (iteration + 1), "value": 0.1 + 0.2},
        "diagnostics": {"replay_fill": 0.25, "text": "ä", "list": [1, 2]},
        "evaluation": {"stone(t=2)": {"win_rate": 0.1 * (iteration % 10), "games": 100}},
    }


def timings(seconds: float) -> dict[str, Any]:
    speed = {"games": 31.25, "simulations": 123456.0, "decisions": 2e6}
    return {"speed": speed, "seconds": {"env": seconds, "tree": 2 * seconds, "network": 5 * seconds}}


# Files.


def test_records_round_trip(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    for i in range(3):
        log.log(record(i), timings(i + 1))
        assert read(tmp_path) == [record(k) for k in range(i + 1)]  # visible at once
    log.log({"iteration": 3})
    log.close()
    assert read(tmp_path, metrics.TIMINGS) == [timings(1), timings(2), timings(3), {}]
    first = (tmp_path / "metrics.jsonl").read_text().splitlines()[0]
    assert first.startswith('{"iteration": 0, "losses": {"total": 1.5')  # in the order given


def test_numbers_of_other_libraries(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    odd = {"a": np.float32(0.5), "b": np.arange(2), "c": torch.tensor(3), "d": (True, None)}
    log.log(odd | {"e": float("nan"), "f": np.float64("inf"), "g": torch.tensor([1.0, float("-inf")])})
    assert read(tmp_path) == [
        {"a": 0.5, "b": [0, 1], "c": 3, "d": [True, None], "e": None, "f": None, "g": [1.0, None]}
    ]
    with pytest.raises(ValueError, match=r"record\.x\[1\]\.y: expected a number or text"):
        log.log({"x": [1, {"y": {2}}]}, timings(1))
    log.log({"iteration": 1})
    assert len(read(tmp_path)) == len(read(tmp_path, metrics.TIMINGS)) == 2  # the refused one is in neither
    log.close()


def test_a_resumed_run_has_the_same_bytes(tmp_path: Path) -> None:
    whole = Metrics(tmp_path, offset=0)
    for i in range(10):
        whole.log(record(i), timings(1.0))
    whole.close()
    expected = (tmp_path / "metrics.jsonl").read_bytes()

    run = tmp_path / "interrupted"
    run.mkdir()
    offset, done = 0, 0
    for crash, half in ((3, b""), (7, b'{"iteration": 7, "los'), (10, b"")):
        log = Metrics(run, offset=offset)
        assert log.offset == offset
        for i in range(done, crash):
            if i == crash - 2:
                offset, done = log.offset, i
            log.log(record(i), timings(np.pi**i))
        log.close()
        with open(run / "metrics.jsonl", "ab") as file:
            file.write(half)
        with open(run / "timings.jsonl", "ab") as file:
            file.write(half)
    assert (run / "metrics.jsonl").read_bytes() == expected
    assert [line["seconds"]["env"] for line in read(run, metrics.TIMINGS)] == [np.pi**i for i in range(10)]


def test_starting_from_scratch_forgets(tmp_path: Path) -> None:
    for _ in range(2):
        log = Metrics(tmp_path, offset=0)
        log.log(record(0), timings(1))
        log.close()
    assert len(read(tmp_path)) == len(read(tmp_path, metrics.TIMINGS)) == 1


def test_lost_timings_are_padded(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    for i in range(3):
        log.log(record(i), timings(i + 1))
    offset = log.offset
    log.close()
    (tmp_path / "timings.jsonl").write_bytes((tmp_path / "timings.jsonl").read_bytes()[:-5])
    log = Metrics(tmp_path, offset=offset)
    log.log(record(3), timings(4))
    log.close()
    assert read(tmp_path, metrics.TIMINGS) == [timings(1), timings(2), {}, timings(4)]


def test_an_offset_that_does_not_fit(tmp_path: Path) -> None:
    log = Metrics(tmp_path, offset=0)
    log.log(record(0))
    size = log.offset
    log.close()
    assert size == (tmp_path / "metrics.jsonl").stat().st_size
    for offset, message in ((size + 1, f"0 to {size}"), (size - 1, "the end of a line"), (-1, "0 to")):
        with pytest.raises(ValueError, match=message):
            Metrics(tmp_path, offset=offset)
    assert read(tmp_path) == [record(0)]


def test_reading_while_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert read(tmp_path) == [{"a": 1}, {"a": 2}]
    path.write_bytes(b'{"a": 1}\n{"a": 2}')  # whole by chance, or 2 of 23
    assert read(tmp_path) == [{"a": 1}]
    path.write_bytes(b'{"a": 1}\n{"a\n{"a": 3}\n')
    with pytest.raises(ValueError, match="line 2"):
        read(tmp_path)


def test_flatten() -> None:
    nested = {"iteration": 1, "losses": {"a": 0.5, "b": None, "c": float("nan")}, "x": {"y": {"z": 2}}, "t": "text"}
    assert flatten(nested) == {"iteration": 1, "losses/a": 0.5, "x/y/z": 2}


# wandb.


class FakeWandb(SimpleNamespace):
    """Stands in for the module; `hooks` replaces parts of it."""

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        self.options: dict[str, Any] = {}
        self.logged: list[dict[str, Any]] = []
        self.defined: list[tuple[str, str | None]] = []
        self.finished = False
        run = SimpleNamespace(
            log=hooks.get("log", self.logged.append),
            define_metric=lambda name, step_metric=None, hidden=None: self.defined.append((name, step_metric)),
            finish=hooks.get("finish", lambda: setattr(self, "finished", True)),
        )

        def init(**options: Any) -> Any:
            self.options = options
            hooks.get("init", lambda: None)()
            return run

        super().__init__(
            init=init,
            Settings=lambda **settings: settings,
            setup=lambda settings: SimpleNamespace(settings=SimpleNamespace(base_url="https://wandb.invalid")),
            login=hooks.get("login", lambda **_: True),
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeWandb]:
    def install(**hooks: Callable[..., Any]) -> FakeWandb:
        module = FakeWandb(**hooks)
        monkeypatch.setitem(sys.modules, "wandb", module)
        return module

    monkeypatch.delenv("WANDB_DIR", raising=False)
    return install


def hang() -> None:
    threading.Event().wait()


def fail(*_: Any, **__: Any) -> None:
    raise ConnectionError("out of coffee")


def test_wandb_gets_everything(tmp_path: Path, fake: Callable[..., FakeWandb]) -> None:
    module = fake()
    sink = Wandb(tmp_path, "offline", project="p", config={"a": 1}, group="g", run_id="abc")
    for i in range(5):
        sink.log(record(i), timings(1))
    sink.close(10)
    assert module.finished
    assert not sink.active
    assert [numbers["iteration"] for numbers in module.logged] == list(range(5))
    assert module.logged[0]["losses/total"] == 1.5
    assert module.logged[0]["evaluation/stone(t=2)/win_rate"] == 0
    assert module.logged[0]["speed/games"] == 31.25
    groups = ("losses", "diagnostics", "evaluation", "speed", "seconds")
    assert sorted(module.defined[1:]) == sorted((f"{group}/*", "iteration") for group in groups)
    assert module.defined[0] == ("iteration", None)
    assert module.options["id"] == "abc"
    assert (module.options["mode"], module.options["config"]) == ("offline", {"a": 1})
    assert module.options["dir"] == str(tmp_path)


def test_wandb_resumes_by_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_run_id("run") == default_run_id(tmp_path / "run") != default_run_id(tmp_path / "other" / "run")
    assert default_run_id(tmp_path / "a b%").startswith("a-b--")


@pytest.mark.parametrize(
    ("reachable", "key", "mode"), [(True, True, "online"), (False, True, "offline"), (True, False, "offline")]
)
def test_wandb_goes_offline(
    tmp_path: Path,
    fake: Callable[..., FakeWandb],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    reachable: bool,
    key: bool,
    mode: str,
) -> None:
    module = fake(login=lambda **_: key)
    monkeypatch.setattr(metrics, "_reachable", lambda url: reachable)
    sink = Wandb(tmp_path, "online", project="p")
    sink.log(record(0))
    sink.close(10)
    assert module.options["mode"] == mode
    assert module.options["resume"] == ("allow" if mode == "online" else None)
    assert len(module.logged) == 1
    said = [entry.message for entry in caplog.records]
    assert len(said) == (mode == "offline")
    assert all("offline" in message for message in said)


def test_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "getproxies", dict)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert metrics._reachable(f"http://127.0.0.1:{port}")
    assert not metrics._reachable(f"http://127.0.0.1:{port}", 1)
    assert not metrics._reachable("nonsense", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxies = {"https": f"http://127.0.0.1:{server.getsockname()[1]}"}
        monkeypatch.setattr(metrics, "getproxies", lambda: proxies)
        assert metrics._reachable("https://wandb.invalid")


@pytest.mark.parametrize("where", ["init", "log", "finish", "login"])
def test_a_wandb_that_hangs_stalls_nobody(
    tmp_path: Path,
    fake: Callable[..., FakeWandb],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    monkeypatch.setattr(metrics, "_reachable", lambda url: True)
    fake(**{where: lambda *_, **__: hang()})
    sink = Wandb(tmp_path, "online", project="p", capacity=2000 if where == "finish" else 10)
    started = time.monotonic()
    for i in range(1000):
        sink.log(record(i))
    assert time.monotonic() - started < 5
    if where != "finish":
        assert 980 <= sink.dropped <= 990
    sink.close(0.3)
    assert time.monotonic() - started < 6
    assert not sink.active
    sink.log(record(0))  # to nobody
    assert "has not finished in 0.3 seconds" in caplog.text
    assert (f"too slow for {sink.dropped} records" in caplog.text) == (where != "finish")


@pytest.mark.parametrize("where", ["init", "log", "finish", "login", "import"])
def test_a_wandb_that_fails_is_switched_off(
    tmp_path: Path,
    fake: Callable[..., FakeWandb],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    monkeypatch.setattr(metrics, "_reachable", lambda url: True)
    fake(**{where: fail})
    if where == "import":
        monkeypatch.setitem(sys.modules, "wandb", None)
    sink = Wandb(tmp_path, "online", project="p")
    for i in range(100):
        sink.log(record(i))
        time.sleep(0.001)
    sink.close(10)
    assert not sink.active
    assert sink.dropped == 0
    errors = [entry for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert len(errors) == 1
    assert ("out of coffee" if where != "import" else "ModuleNotFoundError") in errors[0].message


def test_a_disabled_wandb_does_nothing(tmp_path: Path, fake: Callable[..., FakeWandb]) -> None:
    fake(init=fail)
    sink = Wandb(tmp_path, "disabled", project="p")
    sink.log(record(0))
    sink.close()
    assert not sink.active
    with pytest.raises(ValueError, match=r"logging.wandb: expected one of online, offline, disabled, got 'yes'"):
        Wandb(tmp_path, "yes", project="p")


def test_the_real_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    sink = Wandb(tmp_path / "run", "offline", project="p", config={"train": {"lr": 0.1}})
    for i in range(5):
        sink.log(record(i), timings(1))
    sink.close(60)
    sys.modules["wandb"].teardown()  # ends its service, which may still be writing
    files = list(tmp_path.glob(f"wandb/offline-run-*-{default_run_id(tmp_path / 'run')}/*.wandb"))
    assert len(files) == 1
    assert b"evaluation" in files[0].read_bytes()
    assert b"stone(t=2)" in files[0].read_bytes()


# Display.


def test_a_line_per_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_training_itself_shows() -> None:
    """Win rates against the curriculum's bots, and the clock of self-play beside the learner."""
    out = io.StringIO()
    diagnostics = {"win_rate_a": 0.2, "win_rate_b": 0.3, "games": 7}
    beside = {"env": 0.1, "tree": 0.3, "network": 0.6}
    display = Display(console=Console(file=out))
    display.update({"iteration": 7, "diagnostics": diagnostics}, {"seconds": {"learner": 2.0}, "beside": beside})
    ending = "  bots in training 25.0%  time: learner 100%  self-play: env 10% tree 30% network 60%\n"
    assert out.getvalue().endswith(ending)


def test_a_quiet_display_says_nothing() -> None:
    out = io.StringIO()
    Display(console=Console(file=out, quiet=True)).update({"iteration": 7})
    assert out.getvalue() == ""


def test_a_line_without_a_total() -> None:
    out = io.StringIO()
    Display(console=Console(file=out)).update({"iteration": 7})
    assert out.getvalue().startswith("iteration 7  elapsed")
    assert "eta" not in out.getvalue()


def test_the_panel(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_remaining_time_counts_this_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_formats() -> None:
    values = {0.0: "0", 3.14159: "3.14", 999.0: "999", 1000.0: "1k", 12345.0: "12.3k", 999_600.0: "1M", 3.2e9: "3.2G"}
    assert {value: metrics.short(value) for value in values} == values
    assert metrics.duration(3725.4) == "1:02:05"
    assert metrics.sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert json.loads(json.dumps(metrics.plain({"a": {1: 2}}))) == {"a": {"1": 2}}
