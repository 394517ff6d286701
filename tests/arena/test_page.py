"""The page in a real browser: Debian's chromium through playwright-core, which install_browser.sh installs."""

from __future__ import annotations

import json
import os
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

ROOT = Path(__file__).parents[2]
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
    command = [sys.executable, "-m", "muzero.arena", f"port={port}", "store=", "pace=0.01"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    address = f"http://127.0.0.1:{port}/"
    for _ in range(200):
        try:
            urllib.request.urlopen(address, timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield address
    process.kill()
    process.wait()


@pytest.fixture
def run(url: str, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Function that runs a scenario of browser.mjs; pictures go to ARENA_PICTURES, if that is set."""
    pictures = Path(os.environ.get("ARENA_PICTURES", tmp_path))

    def scenario(name: str) -> dict[str, Any]:
        script = Path(__file__).with_name("browser.mjs")
        command = [str(NODE), str(script), name, url, str(PLAYWRIGHT), str(CHROMIUM), str(pictures)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert found.returncode == 0, found.stderr[-3000:]
        seen: dict[str, Any] = json.loads(found.stdout)
        assert seen.pop("problems") == [], "errors of the page, or requests to other hosts"
        return seen

    return scenario


def test_a_person_plays_a_whole_round_by_clicking(run: Callable[[str], dict[str, Any]]) -> None:
    assert run("clicking") == {"over": True, "ends": 1, "seed": True}


def test_everything_can_be_done_with_the_keyboard(run: Callable[[str], dict[str, Any]]) -> None:
    assert run("keyboard")["turned"] >= 3


def test_the_think_panel_shows_the_search_and_both_beliefs(run: Callable[[str], dict[str, Any]]) -> None:
    seen = run("thinking")
    assert seen["exact"] == 15
    assert seen["network"] == 15
    assert seen["badges"] >= 2


def test_two_browsers_play_at_one_table_and_a_reload_returns_to_the_seat(
    run: Callable[[str], dict[str, Any]],
) -> None:
    seen = run("people")
    assert seen["players"] == 2
    assert seen["after"] >= seen["before"] > 0


def test_all_games_fit_a_phone_and_every_control_has_a_name(run: Callable[[str], dict[str, Any]]) -> None:
    for game, seen in run("phone").items():
        assert seen["wider"] <= 0, f"{game} is wider than a phone"
        assert seen["decisions"] > 0
        assert seen["unnamed"] == 0
