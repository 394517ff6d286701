"""Ladders: round robins that are saved pairing by pairing."""

from __future__ import annotations

import csv
import json
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from muzero import stats
from muzero.matches.ladder import LadderConfig, main, play, plot, rate, read_arguments, usage
from tests.runs.figure_checks import cut_off

AGENTS = ["bot:greedy", "bot:threshold(t=2,epsilon=0.1)", "bot:naive"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["games=5"], "agents: expected two or more that differ"),
        (["agents=[bot:greedy,bot:greedy]"], "agents: expected two or more that differ"),
        (["agents=[bot:greedy,robot:naive]"], "agent 'robot:naive': expected one of"),
        (["agents=[bot:greedy,bot:naive]", "anchor=bot:random"], "anchor: expected one of bot:greedy, bot:naive"),
        (["agents=[bot:greedy,bot:naive]", "players=1"], "players: expected 2 or more"),
        (["agents=[bot:greedy,bot:naive]", "players=9", "game=skyjo"], "players: expected 2, or 3 to 8 for skyjo"),
        (["agents=[bot:greedy,bot:naive]", "players=3", "prior=0"], "prior: expected more than 0"),
        (["agents=[bot:greedy,bot:naive]", "players=3", "workers=2"], "workers and runtime: expected 0 or 1"),
        (["agents=[bot:greedy,bot:nobody]", "players=3", "game=skyjo"], "nobody"),
        (["agents=[bot:greedy,bot:naive]", "games=0"], "games: expected 1 or more"),
        (["agents=[bot:greedy,bot:naive]", "seed=x"], "seed: Value 'x' of type 'str'"),
        (["agents=[bot:greedy,bot:naive]", f"out={__file__}"], "out: expected a directory, or nothing yet"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        play(read_arguments(arguments), quiet=True)


def test_agents_of_a_list_keep_their_parameters() -> None:
    assert read_arguments([f"agents=[{','.join(AGENTS)}]"]).agents == AGENTS
    assert read_arguments([f"agents={','.join(AGENTS)}"]).agents == AGENTS, "brackets may be left out"


def test_a_ladder_is_written_and_resumes_with_more_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ladder"
    assert main([f"agents=[{','.join(AGENTS)}]", "games=40", f"out={out}", "anchor=bot:naive"]) == 0
    page = (out / "ladder.md").read_text()
    assert page in capsys.readouterr().out
    found = json.loads((out / "ladder.json").read_text())
    assert [rating["name"] for rating in found["ratings"]] == AGENTS, "strongest first"
    assert found["ratings"][-1]["elo"] == 0
    assert all(above["elo"] > below["elo"] for above, below in pairwise(found["ratings"]))
    rows = list(csv.DictReader((out / "ladder.csv").open()))
    assert [(row["a"], row["b"]) for row in rows] == [(AGENTS[0], AGENTS[1]), (AGENTS[0], AGENTS[2]), tuple(AGENTS[1:])]
    assert all(int(row["games"]) == 40 for row in rows)
    assert (out / "ladder.png").read_bytes().startswith(b"\x89PNG")

    kept = {path: path.stat().st_mtime_ns for path in (out / "games").glob("*.npz")}
    assert len(kept) == 3
    more = [*AGENTS, "bot:random"]
    assert main([f"agents=[{','.join(more)}]", "games=40", f"out={out}", "anchor=bot:naive"]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "pairings that were played are not played again"
    again = json.loads((out / "ladder.json").read_text())
    assert len(again["pairings"]) == 6
    points = {(row["a"], row["b"]): row["points"] for row in again["pairings"]}
    assert all(points[row["a"], row["b"]] == float(row["points"]) for row in rows)


def test_ratings_equal_those_of_the_statistics() -> None:
    rows = [{"a": "x", "b": "y", "points": 30.0, "games": 40}, {"a": "y", "b": "z", "points": 10.0, "games": 40}]
    points = np.array([[0, 30, 0], [10, 0, 10], [0, 30, 0]])
    expected = stats.ladder(["x", "y", "z"], points, "x").ratings
    assert rate(rows, ["x", "y", "z"], "x").ratings == expected


def test_help_names_every_key() -> None:
    for name in vars(LadderConfig()):
        assert f"    {name}=" in usage()


def test_bots_play_the_game_that_the_networks_were_trained_for(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = {"game": "lama", "players": 2, "rules": {"preset": "report"}}
    monkeypatch.setattr("muzero.matches.ladder.trained_for", lambda spec: trained if str(spec) == "random" else None)
    config = read_arguments(["agents=[bot:strategy_1,bot:strategy_2,random]"])
    assert (config.game, config.rules) == ("lama", {"preset": "report"})


def test_networks_trained_for_different_rules_are_refused_unless_rules_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = {"random": {"episode": "round"}, "bot:greedy": {"target": 50}}
    known = {agent: {"game": "skyjo", "players": 2, "rules": theirs} for agent, theirs in rules.items()}
    monkeypatch.setattr("muzero.matches.ladder.trained_for", lambda spec: known.get(str(spec)))
    agents = "agents=[random,bot:greedy,bot:naive]"
    with pytest.raises(ValueError, match=r"agent 'bot:greedy', rules: expected episode=round, target=100 as the other"):
        read_arguments([agents])
    assert read_arguments([agents, "rules.target=80"]).rules == {"target": 80}, "unless they were asked for"


def test_nash_averaging_stands_beside_elo(tmp_path: Path) -> None:
    out = tmp_path / "ladder"
    assert main([f"agents=[{','.join(AGENTS)}]", "games=60", f"out={out}"]) == 0
    found = json.loads((out / "ladder.json").read_text())["nash"]
    assert found["names"] == AGENTS
    assert sum(found["share"]) == pytest.approx(1)
    assert found["share"][0] > 0.9, "greedy beats all others"
    assert max(found["rate"]) == pytest.approx(0.5, abs=1e-6)
    for key in ("share", "rate"):
        assert (np.array(found[f"{key}_low"]) <= np.array(found[f"{key}_high"])).all()
    assert "Nash averaging" in (out / "ladder.md").read_text()


def test_long_names_are_not_cut_off_in_the_plot() -> None:
    names = [
        "checkpoint:runs/study-paper/train/belief-with-a-very-long-name-s0,iteration=2000,simulations=200,algorithm=puct",
        "checkpoint:runs/skyjo-baseline-0a1b2c3d4e,simulations=16",
        "bot:column_threshold(t=2)",
        "random",
    ]
    rows = [
        {"a": a, "b": b, "points": 60.0, "games": 100, "win_rate": 0.6, "wilson_low": 0.5, "wilson_high": 0.7}
        for a, b in combinations(names, 2)
    ]
    figure = plot(rate(rows, names, names[0]), rows)
    assert cut_off(figure) == 0
    shown = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert shown[1:] == ["skyjo-baseline-0a1b2c3d4e, 16 sims  2", "column_threshold(t=2)  3", "random  4"]
