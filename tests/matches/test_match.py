"""Matches, one by one and several at once: chunks, early stopping, resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from muzero import stats
from muzero.matches.command import read_arguments
from muzero.matches.games import Games
from muzero.matches.match import chunks, play_match, play_matches
from muzero.matches.match_config import with_defaults
from muzero.matches.results import markdown
from muzero.matches.workers import InProcess, ProcessPool
from tests.matches.games_of_bots import BOTS, assert_same_games


@pytest.mark.parametrize("change", [{"batch": 7}, {"workers": 2}, {"batch": 60}])
def test_batches_and_workers_do_not_change_the_games(change: dict[str, int]) -> None:
    _, expected = play_match(BOTS, quiet=True)
    _, found = play_match(replace(BOTS, **change), quiet=True)
    assert_same_games(expected, found)
    _, other = play_match(replace(BOTS, seed=1), quiet=True)
    assert (other.scores != expected.scores).any()


def test_an_agent_against_itself_gets_the_fair_share_of_three_players() -> None:
    config = replace(BOTS, a="bot:greedy", b="bot:greedy", players=3, games=31, rules={"episode": "round"})
    result, games = play_match(config, quiet=True)
    assert result["games"] == 33, "whole deals"
    assert result["win_rate"] == pytest.approx(1 / 3), "a player against itself, in every seat of the same deals"
    assert result["elo"] is None
    deals = stats.wilson(result["games"] / 9, result["games"] // 3)  # all alike: no more is known
    assert (result["paired_low"], result["paired_high"]) == pytest.approx((deals.low, deals.high))
    assert games.seats.tolist() == [0, 1, 2] * 11


def test_a_match_stops_when_the_sequential_test_is_sure() -> None:
    result, games = play_match(replace(BOTS, games=4000, stop=0.05), quiet=True)
    assert result["sequential"]["decision"] == "higher"
    assert len(games) < 400


def test_a_match_that_has_stopped_early_is_not_continued(tmp_path: Path) -> None:
    config = replace(BOTS, games=4000, stop=0.05, out=str(tmp_path / "match.json"))
    result, games = play_match(config, quiet=True)
    again, same = play_match(config, quiet=True)
    assert len(same) == len(games)
    assert again["sequential"] == result["sequential"]
    assert "| sequential test | higher; interval [0." in markdown(result)


def test_a_match_that_stopped_early_leaves_no_games_in_flight(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "match.json"
    config = with_defaults(replace(BOTS, a=f"policy:{run}", b="bot:greedy", games=2000, stop=0.05, out=str(out)))
    stray = tmp_path / "match.in_flight-7000.npz"
    stray.touch()
    _, games = play_match(config, quiet=True)
    assert len(games) < 2000
    assert not list(tmp_path.glob("*in_flight*"))


def test_a_match_that_may_stop_is_tested_at_least_eight_times(run: Path) -> None:
    """Without stop=, a thousand games of networks are two chunks."""
    config = read_arguments([f"a=policy:{run}", "b=bot:naive", "games=1000"])
    assert [deals for _, deals in chunks(config, 0)] == [250, 250]
    whole = list(chunks(replace(config, stop=0.05), 0))
    assert len(whole) >= 8
    assert sum(deals for _, deals in whole) == 500


@pytest.mark.parametrize(
    ("games", "expected"), [(1, [1]), (20, [10]), (22, [6, 5]), (60, [8, 8, 8, 6]), (80, [10, 10, 10, 10])]
)
def test_chunks_keep_two_workers_equally_busy(games: int, expected: list[int]) -> None:
    config = replace(BOTS, a="random", games=games)
    whole = list(chunks(config, 0))
    assert [deals for _, deals in whole] == expected
    for done in range(config.deals):
        left = list(chunks(config, done))
        assert left[0][0] == done
        assert left[1:] == whole[len(whole) - len(left) + 1 :], "cut at the same deals, wherever a process stopped"


def test_a_match_resumes_where_it_was_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "match.json"
    _, whole = play_match(BOTS, quiet=True)
    play_match(replace(BOTS, games=20, out=str(out)), quiet=True)
    assert list(chunks(replace(BOTS, a="random"), 10)) == [(10, 6), (16, 8), (24, 6)], "what is left after ten deals"
    assert list(chunks(BOTS, 10)) == [(10, 20)], "games of bots are quick"
    _, rest = play_match(replace(BOTS, out=str(out)), quiet=True)
    assert_same_games(whole, rest)
    _, fewer = play_match(replace(BOTS, games=40, out=str(out)), quiet=True)
    assert (fewer.won == whole.won[:40]).all()
    with pytest.warns(RuntimeWarning, match="has games of other settings"):
        _, other = play_match(replace(BOTS, seed=1, games=20, out=str(out)), quiet=True)
    assert (other.scores != whole.scores[:20]).any(), "another seed is another match"


SHORT = replace(BOTS, b="bot:column_hunter", games=30, batch=10)


@pytest.mark.xdist_group("processes")
def test_matches_at_once_equal_matches_one_by_one(processes: ProcessPool) -> None:
    configs = [replace(SHORT, a=a, games=games) for a, games in (("random", 14), ("bot:naive", 30), ("bot:greedy", 6))]
    for config, result, games in play_matches(configs, processes, quiet=True):
        expected, alone = play_match(config, quiet=True)
        assert_same_games(alone, games)
        clock = {"seconds": 0, "seconds_per_game": 0, "provenance": None}
        assert {**result, **clock} == {**expected, **clock}


def test_matches_at_once_resume_where_they_were_stopped(tmp_path: Path) -> None:
    configs = [replace(SHORT, a="random", seed=seed, out=str(tmp_path / f"{seed}.json")) for seed in (0, 1)]
    whole = [
        games for _, _, games in play_matches([replace(config, out="") for config in configs], InProcess(), quiet=True)
    ]
    first = play_matches([replace(config, games=12) for config in configs], InProcess(), quiet=True)
    assert_same_games(next(first)[2], Games(**{name: array[:12] for name, array in vars(whole[0]).items()}))
    first.close()
    for (_, _, games), expected in zip(play_matches(configs, InProcess(), quiet=True), whole, strict=True):
        assert_same_games(games, expected)
