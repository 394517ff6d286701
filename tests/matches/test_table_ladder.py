"""Ladders at tables of three players or more: who sits where, and how they are rated."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from muzero.agents.bots import Bot
from muzero.matches.ladder import main
from muzero.matches.paired_games import paired_games
from muzero.matches.table_ladder import line_ups, play_tables, schedule

ROUND = {"episode": "round"}


@pytest.mark.parametrize(("agents", "players"), [(4, 3), (6, 4), (2, 3), (3, 8)])
def test_every_agent_has_as_many_seats_and_sits_everywhere_as_often(agents: int, players: int) -> None:
    ups = line_ups(agents, players)
    seated, deals = schedule(agents, players, players * len(ups) * 2)
    assert len(set(Counter(seated.ravel().tolist()).values())) == 1
    for seat in range(players):
        counts = Counter(seated[:, seat].tolist())
        assert len(counts) == agents
        assert len(set(counts.values())) == 1
    if agents >= players:
        assert all(len(set(row)) == players for row in seated.tolist())
    for deal in set(deals.tolist()):
        assert len({tuple(sorted(row)) for row in seated[deals == deal].tolist()}) == 1, "one line-up per deal"


def test_tables_of_two_agents_equal_games_on_paired_deals() -> None:
    bots = [Bot("greedy"), Bot("naive")]
    games = paired_games(*bots, 10, game="skyjo", players=3, rules=ROUND, seed=2)
    seated = np.array([[int(seat != own) for seat in range(3)] for _ in range(10) for own in range(3)])
    ranks = play_tables(bots, seated, np.repeat(np.arange(10), 3), game="skyjo", rules=ROUND, seed=2, batch=7)
    own = ranks[np.arange(30), np.tile(np.arange(3), 10)]
    assert ((own == 1) == (games.won > 0)).all()


def test_the_command_rates_a_field_at_tables_of_four(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    field = "agents=[bot:naive,bot:greedy,bot:column_hunter,bot:random]"
    command = [field, "game=skyjo", "players=4", "games=160", "rules.episode=round", f"out={tmp_path}"]
    assert main(command) == 0
    page = capsys.readouterr().out
    assert "tables of 4" in page
    found = json.loads((tmp_path / "ladder.json").read_text())
    order = [rating["name"] for rating in found["ratings"]]
    assert order.index("bot:greedy") < order.index("bot:naive")
    assert found["tables"] == 160
    assert sum(rating["points"] for rating in found["ratings"]) == pytest.approx(160)
    anchor = next(rating for rating in found["ratings"] if rating["name"] == "bot:naive")
    assert (anchor["elo"], anchor["low"], anchor["high"]) == (0, 0, 0)
    (saved,) = (tmp_path / "games").glob("tables-*.npz")
    before = saved.stat().st_mtime_ns
    assert main(command) == 0
    assert saved.stat().st_mtime_ns == before, "games that were played are not played again"
    assert json.loads((tmp_path / "ladder.json").read_text())["ratings"] == found["ratings"]


def test_two_agents_can_be_rated_at_tables_of_three(tmp_path: Path) -> None:
    assert main(["agents=[bot:greedy,bot:naive]", "game=lama", "players=3", "games=6", f"out={tmp_path}"]) == 2, (
        "bots of another game are refused"
    )
    agents = "agents=[bot:strategy_1,bot:strategy_3]"
    assert main([agents, "game=lama", "players=3", "games=60", f"out={tmp_path}"]) == 0
    ratings = json.loads((tmp_path / "ladder.json").read_text())["ratings"]
    assert sum(rating["games"] for rating in ratings) == 180


def test_ranks_that_no_game_brings_are_played_again(tmp_path: Path) -> None:
    command = ["agents=[bot:greedy,bot:naive,bot:random]", "game=skyjo", "players=3", "games=12"]
    command += ["rules.episode=round", f"out={tmp_path}"]
    assert main(command) == 0
    ratings = json.loads((tmp_path / "ladder.json").read_text())["ratings"]
    (kept,) = (tmp_path / "games").glob("tables-*.npz")
    with np.load(kept) as file:
        ranks = file["ranks"]
    wrong = ranks.copy()
    wrong[2] = 3
    for arrays, message in (
        ({"ranks": wrong}, "ranks: expected 1 and the number of better seats, got others"),
        ({"ranks": ranks.astype(float)}, "ranks: expected int64"),
        ({"ranks": ranks[:, :2]}, "ranks: expected int64"),
        ({"places": ranks}, "places: expected only ranks"),
        (None, "File is not a zip file"),
    ):
        np.savez(kept, **arrays) if arrays else kept.write_bytes(b"damaged")
        with pytest.warns(RuntimeWarning, match=f"{kept.name} cannot be read, its games are played again: .*{message}"):
            assert main(command) == 0
        with np.load(kept) as file:
            assert (file["ranks"] == ranks).all()
        assert json.loads((tmp_path / "ladder.json").read_text())["ratings"] == ratings


def test_place_of_a_table_ladder_that_cannot_be_written_to_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "games").write_text("")
    command = ["agents=[bot:greedy,bot:naive]", "game=skyjo", "players=3", "games=6", "rules.episode=round"]
    assert main([*command, f"out={tmp_path}"]) == 1
    assert "cannot be written" in capsys.readouterr().err
