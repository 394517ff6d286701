"""Figures of a match, as numbers and as Markdown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muzero import stats
from muzero.matches.match import play_match
from muzero.matches.results import COUNTS, markdown, report, win_rate_row
from tests.matches.games_of_bots import BOTS


def test_a_deal_goes_to_the_agent_that_took_more_of_its_points() -> None:
    result, games = play_match(BOTS, quiet=True)
    totals = games.won.reshape(-1, 2).sum(1)
    found = [result["mcnemar"][name] for name in ("better", "tied", "worse")]
    assert found == [(totals > 1).sum(), (totals == 1).sum(), (totals < 1).sum()]
    assert f"| deals to a / even / to b | {found[0]} / {found[1]} / {found[2]}, p " in markdown(result)


def test_figures_of_a_match_add_up() -> None:
    result, games = play_match(BOTS, quiet=True)
    assert result["games"] == len(games) == 60 == result["wins"] + result["draws"] + result["losses"]
    assert result["win_rate"] == games.win_rate > 0.9
    assert result["wilson_low"] < result["win_rate"] <= result["wilson_high"]
    assert result["p_value"] < 1e-6
    assert result["mean_score_a"] < result["mean_score_b"]
    assert result["mean_turns"] < result["mean_decisions"]
    assert "| games | 60, 2 players, seed 0 |" in markdown(result)


@pytest.mark.parametrize(
    ("points", "expected"), [(0, "-inf [-inf, -2"), (20, "+inf [+2"), (0.5, "-636 [-inf, -204]"), (10, "+0 [-1")]
)
def test_elo_difference_is_infinite_if_all_games_are_won_or_lost(points: float, expected: str) -> None:
    _, games = play_match(replace(BOTS, games=20), quiet=True)
    won = np.zeros(20)
    won[: int(points)] = 1
    won[int(points) : int(points) + 1] = points % 1
    text = markdown(report(BOTS, replace(games, won=won), None, 20))
    assert f"| Elo difference | {expected}" in text
    assert "| seconds per game | - |" in text


def test_a_win_rate_row_equals_the_statistics() -> None:
    counts = {"games": 8, "wins": 5, "draws": 2, "losses": 1, "truncated": 0, "points": 6.0}
    row = win_rate_row(counts, 2, [1.0, 0.5, 1.0, 0.5])
    assert {name: row[name] for name in COUNTS} == counts
    wilson, elo, deals = stats.wilson(6, 8), stats.elo(6, 8), stats.win_rate_of_deals([1.0, 0.5, 1.0, 0.5], per_deal=1)
    assert (row["win_rate"], row["wilson_low"], row["wilson_high"]) == (0.75, wilson.low, wilson.high)
    assert (row["elo"], row["elo_low"], row["elo_high"]) == (elo.estimate, elo.low, elo.high)
    assert (row["paired_low"], row["paired_high"]) == (deals.low, deals.high)
    assert row["p_value"] == stats.binomial_test(6, 8).p_value
    four = win_rate_row(counts, 4)
    assert (four["fair_share"], four["elo"]) == (0.25, None)
    assert four["p_value"] == stats.binomial_test(6, 8, 0.25).p_value
    assert "paired_low" not in four
    assert win_rate_row({**counts, "points": 8.0}, 2)["elo"] is None, "JSON has no infinity"
