"""Statistics over several matches, with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import common
from muzero import stats


def test_pooled_matches_have_the_numbers_worked_out_by_hand() -> None:
    def row(wins: int, draws: int, losses: int, score: float) -> dict[str, Any]:
        figures = dict.fromkeys(("mean_score_b", "mean_turns", "mean_decisions"), 1.0)
        n, points = wins + draws + losses, wins + draws / 2
        counts = {"wins": wins, "draws": draws, "losses": losses, "games": n, "points": points, "truncated": 1}
        return {**counts, **figures, "mean_score_a": score, "players": 2}

    found = common.pooled([row(6, 2, 2, 10.0), row(10, 0, 20, 50.0)])
    assert (found["games"], found["wins"], found["points"], found["truncated"]) == (40, 16, 17.0, 2)
    assert found["win_rate"] == 17 / 40
    assert found["wilson_low"] == stats.wilson(17, 40).low
    assert found["elo"] == stats.elo(17, 40).estimate
    assert common.interval(found) == (found["wilson_low"], found["wilson_high"])
    deals = [{**row(2, 0, 2, 1.0), "by_deal": points} for points in ([1.0, 0.0], [1.0, 0.0])]
    assert common.interval(common.pooled(deals)) == (0.0, 1.0), (
        "the results of a deal in both matches are one observation"
    )
    even = [{**row(2, 0, 2, 1.0), "by_deal": points} for points in ([1.0, 0.0], [0.0, 1.0])]
    alike = stats.wilson(1, 2)  # two equal results of deals
    assert common.interval(common.pooled(even)) == (alike.low, alike.high)
    assert found["mean_score_a"] == 40.0, "weighted by games"
    assert common.pooled([row(4, 0, 0, 1.0)])["elo"] is None, "JSON has no infinity"
    mixed = [{**row(1, 0, 0, 1.0), "a": f"checkpoint:x,bf16={how}"} for how in ("on", "off")]
    with pytest.raises(ValueError, match=r"precision: expected the same .*got \['bf16=off', 'bf16=on'\]"):
        common.pooled(mixed)
    assert common.pooled([mixed[0], mixed[0]])["games"] == 2
    with pytest.raises(ValueError, match="players: expected the same number in all matches"):
        common.pooled([row(1, 0, 0, 1.0), {**row(1, 0, 0, 1.0), "players": 3}])


def test_means_over_seeds_and_pairs_have_the_numbers_worked_out_by_hand() -> None:
    found = common.over_seeds([0.4, 0.5, 0.6])  # standard error 0.1 / sqrt(3), t(0.975, 2) = 4.3027
    assert found["mean"] == pytest.approx(0.5)
    assert found["high"] - 0.5 == pytest.approx(4.3027 * 0.1 / 3**0.5, abs=1e-4)
    rows = [{"pair": pair, "win_rate": rate} for pair, rate in ((["a", "b"], 0.4), (["c", "d"], 0.6))]
    assert common.over_pairs(rows) == common.over_seeds([0.4, 0.6])
    assert common.over_pairs([*rows, {"pair": ["a", "d"], "win_rate": 0.8}]) == {
        "mean": pytest.approx(0.6),
        "low": None,
        "high": None,
        "n": 3,
        "values": [0.4, 0.6, 0.8],
    }
    assert common.over_seeds([0.4]) == {"mean": 0.4, "low": None, "high": None, "n": 1, "values": [0.4]}


def test_two_or_equal_seeds_have_no_interval_but_their_values() -> None:
    """Student's interval of 0.25 and 0.75 would be [-2.677, 3.677]; that of equal runs would have no width."""
    two = common.over_seeds([0.25, 0.75])
    assert (two["low"], two["high"]) == (None, None)
    assert common.seeds(two) == "0.500 (n = 2: 0.250 and 0.750)"
    assert common.seeds(common.over_seeds([0.5, 0.5, 0.5])) == "0.500 (n = 3)"
    assert common.seeds(common.over_seeds([0.5])) == "0.500 (n = 1)"
    assert common.seeds(common.over_seeds([0.4, 0.5, 0.6])) == "0.500 [0.252, 0.748] (n = 3)"
