"""Run directories belong to one configuration and one process at a time."""

from __future__ import annotations

import copy
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from muzero.runs.files import CheckpointError
from muzero.runs.run_directory import Interruption, RunLocked, config_hash, open_run, was_edited

CONFIG = {"seed": 1, "train": {"lr": 1e-3, "iterations": 100}, "logging": {"mode": "offline"}, "bots": ["a", "b(t=2)"]}


def test_open_run_creates_and_resumes(tmp_path: Path) -> None:
    run_dir = tmp_path / "deep" / "run"
    with open_run(run_dir, CONFIG) as run:
        assert not run.resumed
        assert (run_dir / "config_hash").read_text().split()[0] == config_hash(CONFIG)
    (run_dir / "checkpoints" / ".draft-000003").mkdir(parents=True)
    with open_run(run_dir, CONFIG) as run:
        assert run.resumed
        assert run.config == CONFIG
        assert not list((run_dir / "checkpoints").iterdir())


def test_unusual_values_are_stored_and_read_back_unchanged(tmp_path: Path) -> None:
    odd = {"a": "1e5", "b": 1e-5, "c": None, "d": [1, 2.0, True], "e": "on", "f": "null", "g": 1.0, "h": "1:30"}
    odd |= {"i": {}, "j": "", "k": "a: b # c", "l": "~", "m": "0x10", "n": "1_000", "o": (1, 2), "p": 1e300, "q": "ä\n"}
    open_run(tmp_path, odd).close()
    with open_run(tmp_path, odd) as run:
        assert run.resumed


def test_another_configuration_is_refused_with_all_differences(tmp_path: Path) -> None:
    open_run(tmp_path, CONFIG).close()
    other = copy.deepcopy(CONFIG)
    other["train"] = {"lr": 0.002, "batch": 8, "iterations": 100}
    other["logging"] = {"mode": "online"}
    other["bots"] = ["a"]
    del other["seed"]
    with pytest.raises(CheckpointError) as caught:
        open_run(tmp_path, other, changeable=["logging"])
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert sorted(lines) == [
        'bots: ["a", "b(t=2)"] != ["a"]',
        "seed: 1 != (absent)",
        "train.batch: (absent) != 8",
        "train.lr: 0.001 != 0.002",
    ]
    with open_run(tmp_path, CONFIG) as run:  # the refusal has changed nothing and holds no lock
        assert run.config == CONFIG


def test_a_resumed_run_may_change_changeable_keys(tmp_path: Path) -> None:
    changeable = ["logging", "train.iterations"]
    open_run(tmp_path, CONFIG, changeable).close()
    name = (tmp_path / "config_hash").read_text().split()[0]
    other = copy.deepcopy(CONFIG)
    other["train"] = {"lr": 1e-3, "iterations": 200}
    other["logging"] = {"mode": "online"}
    with open_run(tmp_path, other, changeable) as run:
        assert run.config["train"]["iterations"] == 200
    assert (tmp_path / "config_hash").read_text().split()[0] == name
    open_run(tmp_path, other, changeable).close()
    with pytest.raises(CheckpointError, match=r"train.iterations: 200 != 100"):
        open_run(tmp_path, CONFIG)
    with pytest.raises(CheckpointError, match=r"train.iterations: 200 != 100"):
        open_run(tmp_path, CONFIG, ["train.iter", "logging"])  # a prefix ends at a dot


def test_a_configuration_that_was_edited_by_hand_is_noticed(tmp_path: Path) -> None:
    """Even where the command says the same as the edited file: the checkpoints were made with other settings."""
    open_run(tmp_path, CONFIG).close()
    assert not was_edited(tmp_path)
    written = (tmp_path / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(written.replace("lr: 0.001", "lr: 0.1"))
    assert was_edited(tmp_path)
    other = copy.deepcopy(CONFIG)
    other["train"]["lr"] = 0.1  # type: ignore[index]
    with pytest.raises(CheckpointError, match=r"config.yaml: was edited after the run had written it"):
        open_run(tmp_path, other)
    (tmp_path / "config.yaml").write_text(written)
    open_run(tmp_path, CONFIG).close()
    (tmp_path / "config_hash").write_text("0123456789\n")  # as runs have it that were begun by earlier code
    assert not was_edited(tmp_path)
    open_run(tmp_path, CONFIG).close()
    assert len((tmp_path / "config_hash").read_text().split()) > 1


def test_a_run_killed_between_hash_and_configuration_can_go_on(tmp_path: Path) -> None:
    open_run(tmp_path, CONFIG, ["logging"]).close()
    before = (tmp_path / "config.yaml").read_bytes()
    open_run(tmp_path, CONFIG | {"logging": {"mode": "online"}}, ["logging"]).close()
    assert not was_edited(tmp_path)
    (tmp_path / "config.yaml").write_bytes(before)
    assert not was_edited(tmp_path)


def test_the_hash_ignores_key_order_and_changeable_keys() -> None:
    digits = config_hash(CONFIG)
    assert len(digits) == 10
    int(digits, 16)
    reordered = {key: CONFIG[key] for key in reversed(CONFIG)}
    reordered["train"] = {"iterations": 100, "lr": 1e-3}
    assert config_hash(reordered) == digits
    longer = copy.deepcopy(CONFIG)
    longer["train"]["iterations"] = 101  # type: ignore[index]
    assert config_hash(longer) != digits
    assert config_hash(longer, ["train.iterations"]) == config_hash(CONFIG, ["train.iterations"])


def test_directories_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(CheckpointError, match="not empty, and not a run directory"):
        open_run(tmp_path, CONFIG)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(CheckpointError, match="not a directory"):
        open_run(tmp_path / "thesis.tex", CONFIG)
    (tmp_path / "empty").mkdir()
    open_run(tmp_path / "empty", CONFIG).close()


def test_a_run_killed_before_it_stored_its_configuration_can_start_again(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("process 1 on mars\n")
    (tmp_path / ".config.yaml.draft-host-1").write_text("see")
    (tmp_path / "config_hash").write_text("0123456789\n")
    with open_run(tmp_path, CONFIG) as run:
        assert not run.resumed
    assert not list(tmp_path.glob(".*")), "leftovers are removed"


def test_a_second_process_cannot_open_a_run(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run = open_run(tmp_path, CONFIG)
            os.write(writer, b"x")
            time.sleep(60)
            run.close()
        finally:
            os._exit(1)
    assert os.read(reader, 1) == b"x"
    with pytest.raises(RunLocked, match=f"process {child} on {socket.gethostname()}"):
        open_run(tmp_path, CONFIG)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    open_run(tmp_path, CONFIG).close()
    os.close(reader)
    os.close(writer)


def test_one_process_cannot_open_a_run_twice(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG), pytest.raises(RunLocked, match=f"process {os.getpid()}"):
        open_run(tmp_path, CONFIG)
    open_run(tmp_path, CONFIG).close()


def test_a_forked_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    run = open_run(tmp_path, CONFIG)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run.close()  # must not release the parent's lock
            os.write(writer, b"x")
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"x"
        with pytest.raises(RunLocked, match=f"process {os.getpid()} "):
            open_run(tmp_path, CONFIG)
        run.close()
        open_run(tmp_path, CONFIG).close()
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_pickle_in_the_configuration_is_never_executed(tmp_path: Path) -> None:
    open_run(tmp_path / "run", CONFIG).close()
    pwned = tmp_path / "pwned"
    for text in (f"!!python/object/apply:os.mkdir ['{pwned}']", "a: [", "\0", "[1, 2]"):
        (tmp_path / "run" / "config.yaml").write_text(text)
        with pytest.raises(CheckpointError, match=r"config\.yaml"):
            open_run(tmp_path / "run", CONFIG)
    assert not pwned.exists()


# Signals.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_requests_a_stop_and_the_old_handler_returns(number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    with Interruption() as interruption:
        assert not interruption.requested
        signal.raise_signal(number)
        assert interruption.requested
        assert interruption.signal == number
        if number != signal.SIGINT:
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)] == before


@pytest.mark.usefixtures("keyboard")
def test_the_first_signal_says_at_once_what_happens_next() -> None:
    said: list[str] = []
    with Interruption(said.append):
        signal.raise_signal(signal.SIGINT)
        assert said == [
            "SIGINT: this iteration is finished and saved first; Ctrl-C again stops at once, without saving"
        ]
        signal.raise_signal(signal.SIGTERM)
    assert len(said) == 1
    with Interruption(said.append):
        signal.raise_signal(signal.SIGTERM)
    assert said[1:] == ["SIGTERM: this iteration is finished and saved first"]


@pytest.mark.usefixtures("keyboard")
def test_the_second_interrupt_raises() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
