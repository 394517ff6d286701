"""wandb as a sink of metrics: it receives everything, and can neither block nor stop a run."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muzero.runs import sinks
from muzero.runs.history import AXES
from muzero.runs.sinks import Wandb, default_run_id
from tests.runs.records import record, timings


class FakeWandb(SimpleNamespace):
    """Replacement for the module wandb; `hooks` replaces parts of it."""

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        self.options: dict[str, Any] = {}
        self.logged: list[dict[str, Any]] = []
        self.defined: list[tuple[str, str | None]] = []
        self.finished = False
        run = SimpleNamespace(
            log=hooks.get("log", lambda numbers, step: self.logged.append(numbers)),
            define_metric=lambda name, step_metric=None, hidden=None, summary=None: self.defined.append(
                (name, step_metric)
            ),
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


def test_wandb_receives_every_record_and_the_configuration(tmp_path: Path, fake: Callable[..., FakeWandb]) -> None:
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
    groups = [f"{group}/*" for group in ("losses", "diagnostics", "evaluation", "speed", "seconds")]
    defined = [(name, "iteration") for name in (*groups, "evaluation/stone(t=2)/win_rate")]
    assert sorted(module.defined[1 + len(AXES) :]) == sorted(defined)
    assert module.defined[: 1 + len(AXES)] == [(name, None) for name in ("iteration", *AXES)]
    assert module.options["id"] == "abc"
    assert (module.options["mode"], module.options["config"]) == ("offline", {"a": 1})
    assert module.options["dir"] == str(tmp_path)


def test_the_same_directory_gives_the_same_wandb_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_run_id("run") == default_run_id(tmp_path / "run") != default_run_id(tmp_path / "other" / "run")
    assert default_run_id(tmp_path / "a b%").startswith("a-b--")


@pytest.mark.parametrize(
    ("reachable", "key", "mode"), [(True, True, "online"), (False, True, "offline"), (True, False, "offline")]
)
def test_without_network_or_key_wandb_is_offline(
    tmp_path: Path,
    fake: Callable[..., FakeWandb],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    reachable: bool,
    key: bool,
    mode: str,
) -> None:
    module = fake(login=lambda **_: key)
    monkeypatch.setattr(sinks, "_reachable", lambda url: reachable)
    sink = Wandb(tmp_path, "online", project="p")
    sink.log(record(0))
    sink.close(10)
    assert module.options["mode"] == mode
    assert module.options["resume"] == "allow", "in both modes: a resumed run goes on under its id"
    assert len(module.logged) == 1
    said = [entry.message for entry in caplog.records]
    assert len(said) == (mode == "offline")
    assert all("offline" in message for message in said)


def test_an_address_is_reachable_directly_or_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "getproxies", dict)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert sinks._reachable(f"http://127.0.0.1:{port}")
    assert not sinks._reachable(f"http://127.0.0.1:{port}", 1)
    assert not sinks._reachable("nonsense", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxies = {"https": f"http://127.0.0.1:{server.getsockname()[1]}"}
        monkeypatch.setattr(sinks, "getproxies", lambda: proxies)
        assert sinks._reachable("https://wandb.invalid")


@pytest.mark.parametrize("where", ["init", "log", "finish", "login"])
def test_a_wandb_that_hangs_does_not_delay_the_run(
    tmp_path: Path,
    fake: Callable[..., FakeWandb],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    monkeypatch.setattr(sinks, "_reachable", lambda url: True)
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
    sink.log(record(0))  # ignored
    assert "has not finished within 0.3 seconds" in caplog.text
    assert (f"too slow for {sink.dropped} records" in caplog.text) == (where != "finish")


@pytest.mark.parametrize("where", ["init", "log", "finish", "login", "import"])
def test_a_wandb_that_fails_is_switched_off(
    tmp_path: Path,
    fake: Callable[..., FakeWandb],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    monkeypatch.setattr(sinks, "_reachable", lambda url: True)
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


def test_the_real_wandb_writes_offline_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
