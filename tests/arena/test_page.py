"""The page in a real browser: Debian's chromium through playwright-core, which install_browser.sh installs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from env.fair_deal import FairDeal
from env.game_record import GameRecord
from muzero.arena.live_game import LiveGame

Scenario = Callable[..., dict[str, Any]]
ROOT = Path(__file__).parents[2]
VENDOR = Path(__file__).with_name("vendor")
PLAYWRIGHT = ROOT / "build" / "browser"
CHROMIUM = shutil.which("chromium")
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and NODE and (PLAYWRIGHT / "node_modules" / "playwright-core").exists()),
    reason="chromium or playwright-core is missing: tests/arena/install_browser.sh installs both",
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of a server in another process, which keeps nothing."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "muzero.arena", f"port={port}", "store=", "gallery=[]", "pace=0.01"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    address = f"http://127.0.0.1:{port}/"
    end = time.monotonic() + 120  # seconds: other work may keep both cores
    while True:
        try:
            urllib.request.urlopen(address, timeout=10).close()
            break
        except OSError:
            assert process.poll() is None, "the server did not start"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.1)
    yield address
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def run(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    """Function that runs a scenario of browser.mjs; pictures go to ARENA_PICTURES, if that is set."""
    pictures = os.environ.get("ARENA_PICTURES") or tmp_path_factory.mktemp("pictures")
    script = Path(__file__).with_name("browser.mjs")
    command = [str(NODE), str(script), url, str(PLAYWRIGHT), str(CHROMIUM), str(pictures)]
    browser = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert browser.stdin is not None
    assert browser.stdout is not None
    given, found = browser.stdin, browser.stdout

    def scenario(name: str, file: Path | None = None) -> dict[str, Any]:
        given.write(json.dumps([name, str(file or "")]) + "\n")
        given.flush()
        line = found.readline()
        assert line, "the browser has ended"
        seen: dict[str, Any] = json.loads(line)
        assert "error" not in seen, seen["error"]
        assert seen.pop("problems") == [], "errors of the page, or requests to other hosts"
        return seen

    yield scenario
    given.close()
    try:
        browser.wait(20)
    except subprocess.TimeoutExpired:
        browser.kill()
        browser.wait()
    found.close()


def test_a_person_plays_a_whole_round_by_clicking(run: Scenario) -> None:
    seen = run("clicking")
    assert seen.pop("results") >= 1
    assert seen == {"over": True, "ends": 1, "seed": True, "back": 1}


def test_everything_can_be_done_with_the_keyboard(run: Scenario) -> None:
    assert run("keyboard")["turned"] >= 3


def test_the_think_panel_shows_the_search_and_both_beliefs(run: Scenario) -> None:
    seen = run("thinking")
    assert seen["exact"] == 15
    assert seen["network"] == 15
    assert seen["badges"] == seen["legal"] > 0


def test_two_browsers_play_at_one_table_and_a_reload_returns_to_the_seat(
    run: Scenario,
) -> None:
    seen = run("people")
    assert seen["players"] == 2
    assert seen["after"] >= seen["before"] > 0


def test_a_person_who_left_returns_and_a_link_leads_to_its_room(run: Scenario) -> None:
    assert run("returning") == {"back": True, "joined": True}


def test_the_lesson_walks_along_with_a_turn_and_seats_are_swapped_in_one_click(run: Scenario) -> None:
    seen = run("lesson")
    assert len(seen["cards"].split()) == 6, "a new hand of six cards"
    assert seen["other"].startswith("Level")


def test_all_games_fit_a_phone_and_every_control_has_a_name(run: Scenario) -> None:
    for game, seen in run("phone").items():
        assert seen["wider"] <= 0, f"{game} is wider than a phone"
        assert seen["decisions"] > 0
        assert seen["unnamed"] == 0
        assert seen["below"] == 0, f"{game}: the own cards are seen without scrolling"


@pytest.fixture
def record(tmp_path: Path) -> tuple[Path, GameRecord]:
    """File of a round in which seat 0 played badly."""
    live = LiveGame("skyjo", 2, {"episode": "round"}, FairDeal(1))
    bots = [live.tables.bot(name) for name in ("naive", "greedy")]
    while not live.done:
        live.act(int(live.tables.bot_actions(bots)[0]))
    found = live.record(["Ada", "greedy"])
    found.save(tmp_path / "game.json")
    return tmp_path / "game.json", found


def test_a_person_plays_a_whole_round_with_keys_only(run: Scenario) -> None:
    assert run("typing") == {"over": True}


def test_agents_are_watched_at_any_speed_and_their_game_is_scrubbed(run: Scenario) -> None:
    assert run("watching") == {"paused": True, "legal": 0}


def test_a_record_is_loaded_looked_at_and_shared_by_its_address(run: Scenario, record: tuple[Path, GameRecord]) -> None:
    seen = run("record", record[0])
    assert "Ada" in seen["shown"]
    assert "rank 1" in seen["shown"]
    assert seen["actions"] == len(record[1].actions)
    assert seen["listed"] >= 1


def test_a_review_asks_before_it_tells_and_its_ledger_adds_up(run: Scenario, record: tuple[Path, GameRecord]) -> None:
    assert run("review", record[0]) == {"mistakes": True, "told": 0, "next": 1, "sums": [True, True], "verdict": True}


def test_advice_is_there_for_games_without_a_trained_agent(run: Scenario) -> None:
    seen = run("advice")
    assert seen["badges"] == seen["legal"] > 0
    assert seen["ranks"] == 1
    assert seen["exact"] == 7


def test_a_trained_agent_brings_its_rules_and_no_two_players_share_a_name(run: Scenario) -> None:
    seen = run("learned")
    assert (seen["before"], seen["after"], seen["names"]) == ("official", "report", 3)
    assert seen["adviser"].startswith("lama-belief, 64 simulations")
    assert re.match(r"Fold \(F\): stop for this round with \d+ points", seen["fold"])


def test_no_screen_has_serious_barriers(run: Scenario) -> None:
    """Found by axe-core, whose file is what its readme says."""
    stated = re.search(r"`axe.min.js` \| `([0-9a-f]{64})`", (VENDOR / "README.md").read_text())
    assert stated
    assert hashlib.sha256((VENDOR / "axe.min.js").read_bytes()).hexdigest() == stated[1]
    assert run("barriers", VENDOR / "axe.min.js") == {"found": []}
