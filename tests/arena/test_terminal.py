"""Play in a terminal: a whole game through a pseudo-terminal, advice, and errors in one line."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from env.game_record import GameRecord, verify
from muzero.arena.terminal import main, read_arguments

ROOT = Path(__file__).parents[2]
AGENT = "agent:skyjo-belief,simulations=4"


class Screen:
    """Terminal of a process: what it prints is read up to a text, and the rest is kept for the next reading."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.unread = descriptor, ""

    def until(self, *wanted: str, seconds: float = 60) -> str:
        """Output up to the end of the first of some texts; an assertion shows what came instead."""
        end = time.monotonic() + seconds
        while not (found := [self.unread.index(each) + len(each) for each in wanted if each in self.unread]):
            assert time.monotonic() < end, f"{wanted} did not appear after:\n{self.unread[-2000:]}"
            if select.select([self.descriptor], [], [], 0.2)[0]:
                self.unread += os.read(self.descriptor, 65536).decode(errors="replace")
        text, self.unread = self.unread[: min(found)], self.unread[min(found) :]
        return text

    def type(self, line: str) -> None:
        """Type a line on the keyboard."""
        os.write(self.descriptor, f"{line}\n".encode())


def reply_to(text: str) -> str:
    """Simple answer to the last question: draw, discard, and turn the first card over that can be."""
    phase, menu = re.findall(r"(source|keep|position): (.*)\? \(\?", text)[-1]
    return {"source": "deck", "keep": "discard"}.get(phase) or f"position {menu.split()[1]}"


def test_a_person_plays_a_round_in_a_terminal_asks_for_advice_and_gets_a_record(tmp_path: Path) -> None:
    path = tmp_path / "game.json"
    leader, follower = pty.openpty()
    command = ["game=skyjo", "you=0", f"opponents={AGENT}", "seed=3", "rules.episode=round", f"record={path}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "muzero.play", *command],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
        close_fds=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "dumb", "COLUMNS": "120"},
    )
    os.close(follower)
    screen = Screen(leader)
    try:
        first = screen.until("\n> ")
        assert "SHA-256 of the deal's seed and nonce" in first
        assert "seat 0 (you)" in first
        screen.type("?")
        advice = screen.until("\n> ")
        assert "would choose" in advice
        assert "chance to win: seat 0 (you)" in advice
        assert "expected line" in advice
        assert "is exactly" in advice
        screen.type("dance")
        assert "is no action" in screen.until("\n> ")
        screen.type("deck")
        text = screen.until("\n> ")
        for _ in range(200):
            screen.type(reply_to(text))
            text = screen.until("\n> ", "deals it again")
            if "deals it again" in text:
                break
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    assert "All cards:" in text
    record = GameRecord.read(path)
    verify(record)
    assert record.agents == ["person", AGENT]
    assert record.commitment


def answers(*texts: str) -> Callable[[str], str]:
    """Keyboard that types these lines, then leaves."""
    lines: Iterator[str] = iter([*texts, "q"])
    return lambda _: next(lines)


def test_leaving_keeps_no_record_and_help_lists_the_actions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["game=lama", "players=3", "opponents=bot:strategy_1", "seed=1"], answers("h", "?")) == 0
    out = capsys.readouterr().out
    assert "#8" in out
    assert "simulation with the real rules would choose: " in out
    assert "every action in 64 deals of the hidden cards" in out
    assert "chance to win: seat 0 (you)" in out
    assert "a card that you cannot see is exactly: 1: " in out
    assert "no record is kept" in out
    assert list(tmp_path.iterdir()) == []


def test_agents_play_without_a_person_and_the_record_is_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["game=skyjo", "you=-1", "opponents=[bot:greedy,random]", "seed=4"]) == 0
    out = capsys.readouterr().out
    assert "All cards:" in out
    verify(GameRecord.read(tmp_path / "runs" / "games" / "skyjo-4.json"))


def test_a_fresh_table_is_a_trained_opponent() -> None:
    config = read_arguments([])
    assert config.opponents == ["agent:skyjo-belief"]
    assert (config.game, config.players) == ("skyjo", 2)
    config = read_arguments(["game=lama"])
    assert (config.opponents, config.players) == (["agent:lama-belief"] * 3, 4)
    config = read_arguments(["game=lama", "players=3"])
    assert (config.opponents, config.players) == (["bot:strategy_1"] * 2, 3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["game=go"], "game: expected one of"),
        (["you=2"], "you: expected -1 to 1, got 2"),
        (["opponents=bot:nobody"], "nobody"),
        (["opponents=agent:nobody"], "agent 'agent:nobody': expected one of"),
        (["opponents=[random,random,random]", "players=2"], "opponents: expected 1 or 1 agents"),
        (["seed=-1"], "seed: expected 0 to 2**64 - 1, got -1"),
        (["rules.target=0"], "target"),
        (["adviser=bot:greedy"], "agent: expected one with a network and search"),
        (["speed=2"], "keys are game"),
        (["nonsense"], "argument 'nonsense'"),
    ],
)
def test_a_bad_argument_is_one_line_and_exit_code_two(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, answers()) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
