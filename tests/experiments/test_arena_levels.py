"""Levels of the arena: candidates are measured, and levels are far enough apart."""

from __future__ import annotations

import json
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from env import describe
from experiments import arena_levels
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.blunders import Blundering
from muzero.arena.catalogue import Catalogue
from muzero.arena.levels import read_levels, strongest_bot
from muzero.matches.paired_games import paired_games
from muzero.stats.intervals import wilson


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
    monkeypatch.setattr(arena_levels, "LINEUPS", {"lama": arena_levels.Lineup("lama", 0, weak)})
    out = tmp_path / "levels.json"
    assert arena_levels.main(["--games", "60", "--most", "400", "--out", str(out), "--only", "lama"]) == 0
    (ladder,) = read_levels(out)
    assert (ladder.game, ladder.players, ladder.rules, ladder.measured_with) == ("lama", 0, "official", 2)
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


def test_levels_that_are_not_surely_apart_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    same = (("bot:strategy_1", 1.0), ("bot:strategy_1", 0.0), ("bot:strategy_1", 0.0), ("bot:strategy_1", 0.02))
    contest = arena_levels.Contest(arena_levels.Lineup("lama", 0, same), 10, 100, 0)
    assert arena_levels.confirm(contest, [0, 1, 2]) == [0, 2], "the strongest stays"
    assert arena_levels.confirm(contest, [1, 2, 0]) == [1, 0], "the weakest stays"
    assert "in 100 deals" in capsys.readouterr().out


@pytest.mark.parametrize(("won", "games", "players"), [(300, 1000, 4), (250, 1000, 4), (600, 1000, 2), (0, 100, 3)])
def test_points_at_a_larger_table_have_the_odds_and_the_error_of_its_games(won: int, games: int, players: int) -> None:
    mine, others = arena_levels.as_of_two(won, games, players)
    share = max(won, 0.5) / games
    assert mine / others == pytest.approx((players - 1) * share / (1 - share))
    assert 1 / mine + 1 / others == pytest.approx(1 / (games * share * (1 - share)))


def test_an_unknown_ladder_is_an_error_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert arena_levels.main(["--only", "chess", "--out", str(tmp_path / "x.json")]) == 2
    assert "--only: expected some of skyjo" in capsys.readouterr().err


def test_the_levels_that_come_with_the_project_can_be_played() -> None:
    ladders = read_levels()
    found = {(ladder.game, ladder.players) for ladder in ladders}
    any_size = {("skyjo", 0), ("lama", 0), ("skipbo", 0)}
    assert found == {*any_size, ("skyjo", 2), ("lama", 4), ("skipbo", 2)}, "every game, at every number of players"
    catalogue = Catalogue(["skyjo", "lama", "skipbo"])
    for ladder in ladders:
        assert len(ladder.levels) >= 6
        players = ladder.players or describe(ladder.game).max_players
        for level in ladder.levels:
            build(AgentSpec.parse(str(level.spec)), ladder.game, players, batch=1)
            found = catalogue.find(ladder.game, level.name, players, ladder.rules)
            assert (found.level, found.blunders) == (level.number, level.blunders)


def test_every_level_won_against_the_one_below_and_is_surely_stronger() -> None:
    for ladder in read_levels():
        assert ladder.levels[0].elo == 0
        for number, (low, high) in enumerate(pairwise(ladder.levels)):
            won, lost = ladder.points[number + 1][number], ladder.points[number][number + 1]
            assert won + lost >= 200, f"{ladder.game}, {high.name}: games against {low.name}"
            interval = wilson(won, round(won + lost))
            assert interval.low > 0.5, f"{ladder.game}: {high.name} against {low.name}"
            assert high.elo - low.elo >= 50, f"{ladder.game}: {high.name} above {low.name}"
        for row, column in combinations(range(len(ladder.levels)), 2):
            games = ladder.points[row][column] + ladder.points[column][row]
            assert ladder.points[row][column] <= games / 2, "no level loses against a lower one"


def test_the_bot_that_plays_out_is_the_strongest_that_was_measured() -> None:
    assert {game: strongest_bot(game) for game in ("skyjo", "lama", "skipbo", "kuhn")} == {
        "skyjo": "greedy",
        "lama": "strategy_1",
        "skipbo": "wild_saver",
        "kuhn": "",
    }


def test_a_level_wins_half_against_itself() -> None:
    ladder = next(each for each in read_levels() if each.game == "skipbo")
    level = ladder.levels[4]
    one, other = (Blundering(build(level.spec, "skipbo", 2, batch=256), level.blunders) for _ in range(2))
    games = paired_games(one, other, 80, game="skipbo", players=2, seed=1)
    interval = wilson(float(games.won.sum()), len(games))
    assert interval.low < 0.5 < interval.high
