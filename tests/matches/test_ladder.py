"""Ladders: round robins, kept pairing by pairing, whoever plays them."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from muzero import stats
from muzero.matches.ladder import LadderConfig, main, play, rate, read_arguments, usage, whole_agents
from muzero.matches.match import MatchConfig, chunks, play_match, with_defaults
from muzero.matches.paired_games import Games
from muzero.matches.series import play_matches
from muzero.matches.workers import InProcess, MatchChunk, ProcessPool, RayPool, make_worker_pool, play_piece

AGENTS = ["bot:greedy", "bot:threshold(t=2,epsilon=0.1)", "bot:naive"]
BOTS = MatchConfig(a="bot:greedy", b="bot:column_hunter", games=30, game="skyjo", players=2, batch=10, workers=1)


def same(a: Games, b: Games) -> None:
    for name, array in vars(a).items():
        assert (getattr(b, name) == array).all(), name


def test_agents_keep_their_options() -> None:
    text = "checkpoint:runs/x,simulations=64,bot:threshold(t=2,epsilon=0.1),random,simulator:8,bot=greedy,bot:naive"
    expected = [
        "checkpoint:runs/x,simulations=64",
        "bot:threshold(t=2,epsilon=0.1)",
        "random",
        "simulator:8,bot=greedy",
    ]
    assert whole_agents(text.split(",")) == [*expected, "bot:naive"]
    assert read_arguments([f"agents=[{','.join(AGENTS)}]"]).agents == AGENTS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["games=5"], "agents: expected two or more that differ"),
        (["agents=[bot:greedy,bot:greedy]"], "agents: expected two or more that differ"),
        (["agents=[bot:greedy,robot:naive]"], "agent 'robot:naive': expected one of"),
        (["agents=[bot:greedy,bot:naive]", "anchor=bot:random"], "anchor: expected one of bot:greedy, bot:naive"),
        (["agents=[bot:greedy,bot:naive]", "players=3"], "Key 'players' not in 'LadderConfig'"),
        (["agents=[bot:greedy,bot:naive]", "games=0"], "games: expected 1 or more"),
        (["agents=[bot:greedy,bot:naive]", "seed=x"], "seed: Value 'x' of type 'str'"),
        (["agents=[bot:greedy,bot:naive]", f"out={__file__}"], "out: expected a directory, or nothing yet"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        play(read_arguments(arguments), quiet=True)


def test_a_ladder_is_written_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ladder"
    assert main([f"agents=[{','.join(AGENTS)}]", "games=40", f"out={out}", "anchor=bot:naive"]) == 0
    page = (out / "ladder.md").read_text()
    assert page in capsys.readouterr().out
    found = json.loads((out / "ladder.json").read_text())
    assert [rating["name"] for rating in found["ratings"]] == AGENTS, "as strong as they are known to be"
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
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was played is not played again"
    again = json.loads((out / "ladder.json").read_text())
    assert len(again["pairings"]) == 6
    points = {(row["a"], row["b"]): row["points"] for row in again["pairings"]}
    assert all(points[row["a"], row["b"]] == float(row["points"]) for row in rows)


def test_ratings_are_those_of_the_statistics() -> None:
    rows = [{"a": "x", "b": "y", "points": 30.0, "games": 40}, {"a": "y", "b": "z", "points": 10.0, "games": 40}]
    points = np.array([[0, 30, 0], [10, 0, 10], [0, 30, 0]])
    expected = stats.ladder(["x", "y", "z"], points, "x").ratings
    assert rate(rows, ["x", "y", "z"], "x").ratings == expected


def test_matches_at_once_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    configs = [replace(BOTS, a=a, games=games) for a, games in (("random", 14), ("bot:naive", 30), ("bot:greedy", 6))]
    pool = ProcessPool(2)
    try:
        for config, result, games in play_matches(configs, pool, quiet=True):
            expected, alone = play_match(config, quiet=True)
            same(alone, games)
            assert {**result, "seconds": 0, "seconds_per_game": 0} == {**expected, "seconds": 0, "seconds_per_game": 0}
    finally:
        pool.close()


def test_matches_go_on_where_they_were_stopped(tmp_path: Path) -> None:
    configs = [replace(BOTS, a="random", seed=seed, out=str(tmp_path / f"{seed}.json")) for seed in (0, 1)]
    whole = [
        games for _, _, games in play_matches([replace(config, out="") for config in configs], InProcess(), quiet=True)
    ]
    first = play_matches([replace(config, games=12) for config in configs], InProcess(), quiet=True)
    same(next(first)[2], Games(**{name: array[:12] for name, array in vars(whole[0]).items()}))
    first.close()
    for (_, _, games), expected in zip(play_matches(configs, InProcess(), quiet=True), whole, strict=True):
        same(games, expected)


def test_who_plays() -> None:
    pool = make_worker_pool(["bot:greedy", "bot:naive"], workers=3)
    assert isinstance(pool, InProcess)
    assert pool.threads == 3, "bots play inside the core, which has threads"
    assert isinstance(make_worker_pool(["bot:greedy", "random"], workers=1), InProcess)
    pool = make_worker_pool(["bot:greedy", "random"], workers=2)
    assert isinstance(pool, ProcessPool)
    pool.close()
    for arguments, message in (
        ((-1,), "workers: expected 0 or more"),
        ((1, "cloud"), "runtime: expected one of local"),
    ):
        with pytest.raises(ValueError, match=message):
            make_worker_pool(["random"], *arguments)
    with pytest.raises(ValueError, match="address: expected none without runtime=ray"):
        make_worker_pool(["random"], address="auto")


def test_ray_plays_the_same_games() -> None:
    config = replace(BOTS, a="random", workers=2)
    _, expected = play_match(config, quiet=True)
    _, found = play_match(replace(config, runtime="ray"), quiet=True)
    same(expected, found)


def dies_once(piece: MatchChunk, mark: str) -> Games:
    """In place of `play_piece`."""
    if not Path(mark).exists():
        Path(mark).touch()
        os._exit(1)
    return play_piece(piece)


def test_games_of_a_ray_task_that_died_are_played_again(tmp_path: Path) -> None:
    config = with_defaults(replace(BOTS, a="random", games=20, batch=10))
    work = [config.piece(*chunk) for chunk in chunks(config, 0)]
    pool = RayPool(1)
    task = pool._ray.remote(max_retries=0)(dies_once)
    pool._play = SimpleNamespace(remote=lambda piece: task.remote(piece, str(tmp_path / "died")))
    found = list(pool.play(work))
    pool.close()
    assert pool.failures == 10
    for games, piece in zip(found, work, strict=True):
        same(games, play_piece(piece))


def test_help_names_every_key() -> None:
    for name in vars(LadderConfig()):
        assert f"    {name}=" in usage()


def test_bots_play_what_the_networks_were_trained_for(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = {"game": "lama", "players": 2, "rules": {"preset": "report"}}
    monkeypatch.setattr(
        "muzero.agents.agent_spec.trained_for", lambda player: trained if player.text == "random" else None
    )
    config = read_arguments(["agents=[bot:strategy_1,bot:strategy_2,random]"])
    assert (config.game, config.rules) == ("lama", {"preset": "report"})


def test_networks_of_other_rules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"random": {"episode": "round"}, "bot:greedy": {"target": 50}}
    known = {agent: {"game": "skyjo", "players": 2, "rules": theirs} for agent, theirs in rules.items()}
    monkeypatch.setattr("muzero.agents.agent_spec.trained_for", lambda player: known.get(player.text))
    agents = "agents=[random,bot:greedy,bot:naive]"
    with pytest.raises(ValueError, match=r"agent 'bot:greedy', rules: expected episode=round, target=100 as the other"):
        read_arguments([agents])
    assert read_arguments([agents, "rules.target=80"]).rules == {"target": 80}, "unless they were asked for"
