"""Levels of the arena: candidates are measured, and levels are far enough apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from env import describe
from experiments import arena_levels
from muzero.agents.agent_spec import AgentSpec, build
from muzero.arena.catalogue import Catalogue
from muzero.arena.levels import read_levels


@pytest.mark.parametrize(
    ("elos", "levels"),
    [
        ({0: 0.0, 1: 100.0, 2: 200.0}, [0, 1, 2]),
        ({0: 0.0, 1: 30.0, 2: 70.0, 3: 90.0}, [0, 3]),
        ({0: 50.0, 1: 0.0, 2: 110.0}, [1, 0, 2]),
        ({0: 0.0, 1: 10.0}, [0]),
    ],
)
def test_levels_are_a_step_apart_and_the_best_candidate_is_the_highest(
    elos: dict[int, float], levels: list[int]
) -> None:
    assert arena_levels.choose(elos, 50) == levels


def test_a_ladder_is_played_and_its_levels_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = (("bot:strategy_1", 1.0), ("bot:strategy_1", 0.5), ("bot:strategy_1", 0.0))
    monkeypatch.setattr(arena_levels, "CANDIDATES", {"lama": ("lama", 0, weak)})
    out = tmp_path / "levels.json"
    assert arena_levels.main(["--games", "60", "--out", str(out), "--only", "lama"]) == 0
    (ladder,) = read_levels(out)
    assert (ladder.game, ladder.players, ladder.measured_with) == ("lama", 0, 2)
    assert [level.blunders for level in ladder.levels] == [1.0, 0.5, 0.0], "the less at random, the stronger"
    elos = [level.elo for level in ladder.levels]
    assert elos == sorted(elos)
    assert elos[0] == 0
    for level in ladder.levels[1:]:
        assert level.low < level.elo < level.high
    assert "| level | agent |" in capsys.readouterr().out.replace("  ", " ")
    content = json.loads(out.read_text())
    content["ladders"][0]["levels"][0]["blunders"] = 2
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"levels\[0\].blunders: expected a number from 0 to 1, got 2"):
        read_levels(tmp_path / "bad.json")


def test_an_unknown_ladder_is_an_error_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert arena_levels.main(["--only", "chess", "--out", str(tmp_path / "x.json")]) == 2
    assert "--only: expected some of skyjo" in capsys.readouterr().err


def test_the_levels_that_come_with_the_project_can_be_played() -> None:
    ladders = read_levels()
    assert "lama" in {ladder.game for ladder in ladders}
    catalogue = Catalogue(["skyjo", "lama", "skipbo"])
    for ladder in ladders:
        assert len(ladder.levels) >= 3
        assert all(low.elo < high.elo for low, high in zip(ladder.levels, ladder.levels[1:], strict=False))
        players = ladder.players or describe(ladder.game).max_players
        for level in ladder.levels:
            build(AgentSpec.parse(str(level.spec)), ladder.game, players, batch=1)
            found = catalogue.find(ladder.game, level.name, players)
            assert (found.level, found.blunders) == (level.number, level.blunders)
