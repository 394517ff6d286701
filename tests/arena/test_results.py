"""Results and ratings: what counts, who is stronger, and files for spreadsheets and programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from muzero.agents.agent_spec import AgentSpec
from muzero.arena.levels import Level, LevelLadder
from muzero.arena.results import as_csv, ratings, result_of
from tests.arena.conftest import Browser, connect, make_rooms


def result(ranks: list[int], names: tuple[str, ...] = ("Ada", "greedy"), rated: bool = True) -> dict[str, Any]:
    people = [name == "Ada" for name in names]
    seats = result_of(names, people, [10 * rank for rank in ranks], ranks)
    return {"game": "skyjo", "finished": 1.0, "rated": rated, "unrated": [], "seats": seats, "id": "0" * 16}


def test_the_rating_of_a_person_who_wins_three_of_four_is_that_of_the_formula() -> None:
    """400 log10(3.5 / 1.5) with the one drawn game that the prior adds."""
    table = ratings([result([1, 2])] * 3 + [result([2, 1])])[0]
    assert (table["game"], table["players"], table["anchor"]) == ("skyjo", 2, "greedy")
    ada, greedy = table["ratings"]
    assert (ada["name"], ada["person"], ada["games"], ada["elo"]) == ("Ada", True, 4, 147)
    assert ada["low"] < 0 < ada["high"], "four games prove little"
    assert (greedy["elo"], greedy["low"], greedy["high"]) == (0, 0, 0)


def test_games_with_advice_do_not_count_and_a_person_is_not_the_agent_of_the_same_name() -> None:
    assert ratings([result([1, 2], rated=False)]) == []
    seats = result_of(("greedy", "greedy"), (True, False), (1, 2), (1, 2))
    table = ratings([{**result([1, 2]), "seats": seats}])[0]
    assert [(each["name"], each["person"]) for each in table["ratings"]] == [("greedy", True), ("greedy", False)]
    alone = result_of(("greedy", "greedy"), (False, False), (1, 2), (1, 2))
    assert ratings([{**result([1, 2]), "seats": alone}]) == [], "nobody is rated against himself"


def test_a_game_of_several_counts_as_one_game_for_each() -> None:
    three = [result([1, 2, 3], ("Ada", "greedy", "naive")), result([2, 1, 3], ("Ada", "greedy", "naive"))]
    table = ratings(three)[0]
    assert table["players"] == 3
    assert [each["name"] for each in table["ratings"]][2] == "naive"
    assert [each["games"] for each in table["ratings"]] == [2, 2, 2]


def test_levels_bring_their_calibration_along() -> None:
    spec = AgentSpec("bot", "greedy")
    levels = tuple(Level(number, spec, 0.0, 0.0, 0.0, 0.0) for number in (1, 2))
    ladder = LevelLadder("skyjo", 0, "official", 2, levels, ((0.0, 100.0), (300.0, 0.0)))
    others = LevelLadder("skyjo", 2, "official", 2, levels, ((0.0, 200.0), (200.0, 0.0)))
    table = ratings([result([1, 2], ("Ada", "Level 2"))], [ladder, others])[0]
    assert {each["name"]: each["elo"] for each in table["ratings"]}["Level 2"] == pytest.approx(0, abs=3)
    table = ratings([result([1, 2], ("Ada", "Level 2"))], [ladder])[0]
    by_name = {each["name"]: each for each in table["ratings"]}
    assert table["anchor"] == "Level 1"
    assert by_name["Level 2"]["elo"] == pytest.approx(190, abs=3)
    assert by_name["Ada"]["elo"] > by_name["Level 2"]["elo"]
    assert by_name["Ada"]["high"] - by_name["Ada"]["low"] > by_name["Level 2"]["high"] - by_name["Level 2"]["low"]


def test_games_by_another_rule_set_are_rated_apart() -> None:
    tables = ratings([result([1, 2]), {**result([2, 1]), "rules": "skynet"}])
    assert [(each["rules"], each["ratings"][0]["name"]) for each in tables] == [
        ("official", "Ada"),
        ("skynet", "greedy"),
    ]


def test_a_table_for_spreadsheets_has_a_line_per_seat_and_no_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv([result([1, 2], ("=1+1", "greedy"))]))))
    assert [row["name"] for row in rows] == ["'=1+1", "greedy"]
    assert [(row["seat"], row["rank"], row["score"]) for row in rows] == [("0", "1", "10"), ("1", "2", "20")]


def test_the_server_tells_and_exports_results_and_advice_is_noted(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "greedy", rules={"episode": "round"})
        last = browser.play(0)
        answer = browser.ask("results", type="results")
        assert [each["id"] for each in answer["results"]] == [last["record"]]
        assert [seat["person"] for seat in answer["results"][0]["seats"]] == [True, False]
        exported = client.get("/results.json").json()
        assert exported["results"] == answer["results"]
        assert exported["ratings"] == answer["ratings"]
        rows = list(csv.DictReader(io.StringIO(client.get("/results.csv").text)))
        assert [row["name"] for row in rows] == ["Ada", "greedy"]


def test_a_restart_does_not_forget_that_advice_was_asked_for(
    open_client: Callable[..., TestClient], store: str
) -> None:
    with connect(open_client(make_rooms(store))) as session:
        browser = Browser(session)
        seated = browser.create(None, "strategy_1", game="lama", rules={"episode": "round"})
        state = browser.get("state")
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        browser.ask("think", type="think", turn=state["view"]["turn"])
    with connect(open_client(make_rooms(store))) as session:
        browser = Browser(session)
        browser.ask("seated", type="resume", room=seated["room"], token=seated["token"])
        browser.play(0)
        assert browser.ask("results", type="results")["results"][0]["unrated"] == ["advice"]


def test_a_game_in_which_advice_was_asked_for_is_not_rated(client: TestClient) -> None:
    with connect(client) as session:
        browser = Browser(session)
        browser.create(None, "strategy_1", game="lama", rules={"episode": "round"})
        state = browser.get("state")
        while state["view"]["to_play"] != 0:
            state = browser.get("state")
        report = browser.ask("think", type="think", turn=state["view"]["turn"])
        assert report["agent"] == "simulation with the real rules"
        browser.play(0, state=state)
        kept = browser.ask("results", type="results")["results"][0]
        assert (kept["rated"], kept["unrated"]) == (False, ["advice"])
