"""muzero.agents.agent_spec and muzero.matches.match: agents by name, head-to-heads from the command line."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import env
from env.game_record import GameRecord, verify
from muzero import stats
from muzero.agents import agent_spec as players
from muzero.agents.agents import Bot, Policy, Random, Searcher, Simulator, Situation
from muzero.config import SearchConfig
from muzero.matches.match import (
    MatchConfig,
    MatchStore,
    _followed,
    chunks,
    markdown,
    play_match,
    read_arguments,
    report,
    usage,
    with_defaults,
)
from muzero.matches.paired_games import Games, InFlightStore, concatenate, paired_games
from muzero.matches.workers import InProcess, MatchChunk, ProcessPool, WorkerPool, play_piece
from muzero.model.native import _native
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a checkpoint of an untrained network."""
    torch.manual_seed(0)
    path, model = tmp_path_factory.mktemp("run"), load_model_config("tiny", "belief")
    weights = {n: p.detach() for n, p in Network(GameSpec.of("skyjo", 2), model).named_parameters()}
    agent = {"game": "skyjo", "players": 2, "variant": "belief", "model": asdict(model), "rules": {"episode": "round"}}
    agent["search"] = asdict(SearchConfig(simulations=3))
    checkpoint.save(path, 7, tensors={"weights": weights}, arrays={}, state={}, agent=agent)
    return path


def evaluate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muzero.evaluate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# ---- agents by name ----------------------------------------------------------------------------------------------


def test_agents_are_what_they_are_called(run: Path) -> None:
    def made(text: str) -> Any:
        return players.build(players.parse(text), "skyjo", 2, batch=4)

    assert isinstance(made("bot:threshold(t=2, epsilon=0.1)"), Bot)
    searcher = made(f"checkpoint:{run},iteration=7,simulations=9,algorithm=puct,ablation=no_ego")
    assert isinstance(searcher, Searcher)
    assert (searcher.planner.config.simulations, searcher.planner.config.algorithm) == (9, "puct")
    assert searcher.planner.network.condition.ablation == "no_ego"
    assert made(f"checkpoint:{run}").planner.config.simulations == 3, "as it was trained"
    assert made(f"checkpoint:{run},value_scale=0.25").planner.config.value_scale == 0.25
    policy, simulator = made(f"policy:{run},temperature=0.5"), made("simulator:32,bot=threshold")
    assert isinstance(policy, Policy)
    assert policy.temperature == 0.5
    assert isinstance(simulator, Simulator)
    assert (simulator.simulations, simulator.bot) == (32, "threshold")
    assert isinstance(made(f"simulator:8,network={run}").network, Network)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("robot:greedy", "expected one of random:..., bot:"),
        ("bot:", "expected something after the colon"),
        ("random:1", "except for random"),
        ("checkpoint:x,speed=9", "expected options among iteration, simulations"),
        ("checkpoint:x,simulations", "expected options among"),
    ],
)
def test_nonsense_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        players.parse(text)


def test_a_network_plays_its_own_game_only(run: Path) -> None:
    with pytest.raises(ValueError, match="players: expected 3 as in this match, got 2"):
        players.build(players.parse(f"policy:{run}"), "skyjo", 3, batch=1)
    with pytest.raises(ValueError, match="worlds: expected a number, got 'many'"):
        players.build(players.parse("simulator:many"), "skyjo", 2, batch=1)
    with pytest.raises(ValueError, match=r"agent 'simulator:8,bot=greedy', bot: lama has no bot 'greedy'"):
        players.build(players.parse("simulator:8,bot=greedy"), "lama", 4, batch=1)
    assert players.build(players.parse("simulator:8"), "lama", 4, batch=1).bot == "strategy_1"  # type: ignore[attr-defined]


# ---- matches -----------------------------------------------------------------------------------------------------

BOTS = MatchConfig(a="bot:greedy", b="bot:naive", games=60, game="skyjo", players=2, batch=20, workers=1)


def test_deals_are_counted_by_who_made_more_of_them() -> None:
    result, games = play_match(BOTS, quiet=True)
    totals = games.won.reshape(-1, 2).sum(1)
    found = [result["mcnemar"][name] for name in ("better", "tied", "worse")]
    assert found == [(totals > 1).sum(), (totals == 1).sum(), (totals < 1).sum()]
    assert f"| deals to a / even / to b | {found[0]} / {found[1]} / {found[2]}, p " in markdown(result)


def test_figures_add_up() -> None:
    result, games = play_match(BOTS, quiet=True)
    assert result["games"] == len(games) == 60 == result["wins"] + result["draws"] + result["losses"]
    assert result["win_rate"] == games.win_rate > 0.9
    assert result["wilson_low"] < result["win_rate"] <= result["wilson_high"]
    assert result["p_value"] < 1e-6
    assert result["mean_score_a"] < result["mean_score_b"]
    assert result["mean_turns"] < result["mean_decisions"]
    assert "| games | 60, 2 players, seed 0 |" in markdown(result)


@pytest.mark.parametrize("change", [{"batch": 7}, {"workers": 2}, {"batch": 60}])
def test_batches_and_workers_change_nothing(change: dict[str, int]) -> None:
    _, expected = play_match(BOTS, quiet=True)
    _, found = play_match(replace(BOTS, **change), quiet=True)
    for name, array in vars(expected).items():
        assert (getattr(found, name) == array).all(), name
    _, other = play_match(replace(BOTS, seed=1), quiet=True)
    assert (other.scores != expected.scores).any()


def test_three_players_and_a_fair_share() -> None:
    config = replace(BOTS, a="bot:greedy", b="bot:greedy", players=3, games=31, rules={"episode": "round"})
    result, games = play_match(config, quiet=True)
    assert result["games"] == 33, "whole deals"
    assert result["win_rate"] == pytest.approx(1 / 3), "a player against itself, in every seat of the same deals"
    assert result["elo"] is None
    deals = stats.wilson(result["games"] / 9, result["games"] // 3)  # all alike: no more is known
    assert (result["paired_low"], result["paired_high"]) == pytest.approx((deals.low, deals.high))
    assert games.seats.tolist() == [0, 1, 2] * 11


def test_a_match_stops_when_it_is_sure() -> None:
    result, games = play_match(replace(BOTS, games=4000, stop=0.05), quiet=True)
    assert result["sequential"]["decision"] == "higher"
    assert len(games) < 400


def test_a_match_that_has_stopped_stays_as_it_is(tmp_path: Path) -> None:
    config = replace(BOTS, games=4000, stop=0.05, out=str(tmp_path / "match.json"))
    result, games = play_match(config, quiet=True)
    again, same = play_match(config, quiet=True)
    assert len(same) == len(games)
    assert again["sequential"] == result["sequential"]
    assert "| sequential test | higher; interval [0." in markdown(result)


def test_a_decided_match_ends_at_once_and_leaves_nothing_under_way(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "match.json"
    config = with_defaults(
        replace(BOTS, a=f"policy:{run}", b="bot:greedy", games=2000, stop=0.05, workers=2, out=str(out))
    )
    stray = tmp_path / "match.under_way-7000.npz"
    stray.touch()
    _, games = play_match(config, quiet=True)
    assert len(games) < 2000
    assert not list(tmp_path.glob("*under_way*"))


def test_games_of_other_rules_are_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if they have the same name: the game's version counts."""
    config = replace(BOTS, games=20, out=str(tmp_path / "match.json"))
    play_match(config, quiet=True)
    key, make = MatchStore(config).key, env.make

    def newer(*given: Any, **options: Any) -> Any:
        tables = make(*given, **options)
        tables.info = SimpleNamespace(version=tables.info.version + 1)
        return tables

    monkeypatch.setattr("muzero.matches.match.env.make", newer)
    assert MatchStore(config).key != key


@pytest.mark.parametrize(
    ("points", "said"), [(0, "-inf [-inf, -2"), (20, "+inf [+2"), (0.5, "-636 [-inf, -204]"), (10, "+0 [-1")]
)
def test_elo_differences_may_be_infinite(points: float, said: str) -> None:
    _, games = play_match(replace(BOTS, games=20), quiet=True)
    won = np.zeros(20)
    won[: int(points)] = 1
    won[int(points) : int(points) + 1] = points % 1
    text = markdown(report(BOTS, replace(games, won=won), None, 20))
    assert f"| Elo difference | {said}" in text
    assert "| seconds per game | - |" in text


def test_a_simulators_network_is_pinned(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However its path is written."""
    monkeypatch.chdir(run.parent)
    for written in (str(run), f"./{run.name}", f"{run.name}/"):
        text = players.resolve(f"simulator:8,network={written},bot=greedy")
        assert text.endswith(f"{run.name}/checkpoints/000007,bot=greedy"), text


def test_a_network_of_another_game_is_named_as_such(run: Path) -> None:
    with pytest.raises(ValueError, match="game: expected lama as in this match, got 'skyjo'"):
        read_arguments([f"a=policy:{run}", "b=bot:strategy_1", "game=lama"])


def test_other_weights_are_another_match(run: Path, tmp_path: Path) -> None:
    """In the same place: a run may have been trained anew."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    agent = f"policy:{copy},iteration=7"
    before = players.fingerprint(agent)
    assert (
        before == players.fingerprint(f"policy:{run},iteration=7") == players.fingerprint(f"simulator:8,network={run}")
    )
    config = read_arguments([f"a={agent}", "b=bot:naive", "games=4", "workers=1", f"out={tmp_path / 'match.json'}"])
    result, _ = play_match(config, quiet=True)
    assert (result["weights_a"], result["weights_b"]) == (before, None)
    found = checkpoint.load_weights(copy)
    weights = {name: tensor + 1 for name, tensor in found.weights.items()}
    shutil.rmtree(copy)
    agent_of = {key: value for key, value in found.agent.items() if key not in ("format", "iteration")}
    checkpoint.save(copy, 7, tensors={"weights": weights}, arrays={}, state={}, agent=agent_of)
    with pytest.warns(RuntimeWarning, match="has games of other settings, rules, weights or precision"):
        fresh, _ = play_match(config, quiet=True)
    assert fresh["weights_a"] == players.fingerprint(agent) != before
    assert fresh["seconds_per_game"] is not None


@pytest.mark.parametrize("pool", [InProcess, lambda: ProcessPool(2)])
@pytest.mark.parametrize("a", ["random", "bot:greedy"])
def test_games_are_counted_as_they_end(pool: Callable[[], WorkerPool], a: str) -> None:
    config = with_defaults(replace(BOTS, a=a, games=20, batch=8))
    playing = pool()
    assert playing.tally is not None
    games = concatenate(list(playing.play([config.piece(*chunk) for chunk in chunks(config, 0)])))
    assert playing.tally.total() == (20, games.won.sum())
    shown: list[tuple[float, float]] = []
    with _followed(playing.tally, 4, 2.0, lambda *numbers: shown.append(numbers)):
        playing.tally.add(3, 1.5)
        until = time.monotonic() + 30
        while not shown and time.monotonic() < until:
            time.sleep(0.05)
    assert set(shown) == {(7, 3.5)}, "and what had been played before"
    playing.close()


class Interrupted(Exception):
    """In place of a power cut."""


@pytest.mark.parametrize("where", ["early", "late"])
def test_games_under_way_are_gone_on_with(
    where: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece is minutes of search. Nothing of it is lost, and whoever goes on plays the same games."""
    arguments = [f"a=checkpoint:{run},simulations=2", "b=bot:naive", "games=8", "workers=1", "rules.max_decisions=60"]
    config = read_arguments([*arguments, f"out={tmp_path / 'match.json'}"])
    _, expected = play_match(read_arguments([*arguments, f"out={tmp_path / 'whole.json'}"]), quiet=True)
    assert not list(tmp_path.glob("*under_way*")), "what is over is over"
    left = 5 if where == "early" else 25
    act, calls = Searcher.act, 0

    def interrupted(self: Searcher, situation: Situation) -> Any:
        nonlocal calls
        calls += 1
        if calls == left:
            raise Interrupted
        return act(self, situation)

    original = InFlightStore.__init__
    monkeypatch.setattr(InFlightStore, "__init__", lambda self, path, key, every=0.0: original(self, path, key, every))
    monkeypatch.setattr(Searcher, "act", interrupted)
    with pytest.raises(Interrupted):
        play_match(config, quiet=True)
    (kept,) = tmp_path.glob("match.under_way-0.npz")
    calls, left = 0, 10**9
    _, found = play_match(config, quiet=True)
    for name, array in vars(expected).items():
        assert (getattr(found, name) == array).all(), name
    assert not kept.exists()
    whole, calls = calls, 0
    (tmp_path / "match.partial.npz").unlink()
    play_match(config, quiet=True)
    assert calls > whole, "the second time there was less to do"


def test_kept_games_of_something_else_are_not_used(run: Path, tmp_path: Path) -> None:
    keeper = InFlightStore(tmp_path / "x.npz", "one")
    assert keeper.load() == []
    keeper.save([np.array([1, -1]), np.array([2, 3])])
    assert [step.tolist() for step in keeper.load()] == [[1, -1], [2, 3]]
    assert InFlightStore(keeper.path, "another").load() == []
    keeper.path.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match=r"x.npz cannot be read, its games begin anew"):
        assert keeper.load() == []
    agents, settings = [Random(), Bot("naive")], {"game": "skyjo", "rules": {"episode": "round"}}
    expected = paired_games(*agents, 3, **settings)  # type: ignore[arg-type,misc]
    keeper.save([np.full(6, 999)])
    with pytest.warns(RuntimeWarning, match="kept actions do not fit, the games begin anew"):
        found = paired_games(*agents, 3, keeper=keeper, **settings)  # type: ignore[arg-type,misc]
    assert (found.scores == expected.scores).all()


def test_a_match_that_may_stop_is_looked_at(run: Path) -> None:
    """Whatever the batch: a thousand games of networks fit into two pieces."""
    config = read_arguments([f"a=policy:{run}", "b=bot:naive", "games=1000"])
    assert [deals for _, deals in chunks(config, 0)] == [250, 250]
    pieces = list(chunks(replace(config, stop=0.05), 0))
    assert len(pieces) >= 8
    assert sum(deals for _, deals in pieces) == 500


def die(piece: MatchChunk) -> Games:
    """In place of `play_piece`."""
    os._exit(1)


def play_if_let(piece: MatchChunk) -> Games:
    """In place of `play_piece`: what comes after the first deals waits for a file."""
    while piece.first and not Path(os.environ["MAY_PLAY"]).exists():
        time.sleep(0.01)
    return play_piece(piece)


def test_games_of_a_process_that_died_are_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_defaults(replace(BOTS, a="random", games=20, batch=4))
    work = [config.piece(*chunk) for chunk in chunks(config, 0)]
    expected = [play_piece(piece) for piece in work]
    monkeypatch.setenv("MAY_PLAY", str(tmp_path / "now"))
    monkeypatch.setattr("muzero.matches.workers.play_piece", play_if_let)
    pool = ProcessPool(2)
    playing = pool.play(work)
    found = [next(playing)]
    for process in pool._pool._processes.values():
        process.kill()
    (tmp_path / "now").touch()
    found += playing
    assert 8 <= pool.failures <= 12, "two pieces, and a third if it was submitted before the deaths were seen"
    assert [games.scores.tolist() for games in found] == [games.scores.tolist() for games in expected]
    monkeypatch.setattr("muzero.matches.workers.play_piece", die)
    with pytest.raises(RuntimeError, match="a process that played deals 0 to 1 has died, twice"):
        list(ProcessPool(1).play(work))
    pool.close()


def test_processes_do_not_outlive_a_killed_match(run: Path) -> None:
    command = [sys.executable, "-m", "muzero.evaluate", f"a=checkpoint:{run},simulations=64", "b=random", "games=4000"]
    match = subprocess.Popen([*command, "workers=2"], stdout=subprocess.DEVNULL)

    def children() -> list[int]:
        found = []
        for place in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if place.name.isdigit() and f"PPid:\t{match.pid}\n" in (place / "status").read_text():
                    found.append(int(place.name))
        return found

    end = time.monotonic() + 60
    while len(children()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(3)  # they have started
    workers = children()
    match.kill()
    match.wait()
    assert len(workers) >= 2
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < end, workers
        time.sleep(0.1)


def test_a_damaged_record_of_games_is_not_used(tmp_path: Path) -> None:
    config = replace(BOTS, games=20, out=str(tmp_path / "match.json"))
    _, games = play_match(config, quiet=True)
    kept = tmp_path / "match.partial.npz"
    kept.write_bytes(kept.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match=r"match.partial.npz cannot be read, the match begins anew"):
        _, again = play_match(config, quiet=True)
    assert (again.scores == games.scores).all()


@pytest.mark.parametrize(
    ("games", "expected"), [(1, [1]), (20, [10]), (22, [6, 5]), (60, [8, 8, 8, 6]), (80, [10, 10, 10, 10])]
)
def test_pieces_keep_two_workers_equally_busy(games: int, expected: list[int]) -> None:
    config = replace(BOTS, a="random", games=games)
    pieces = list(chunks(config, 0))
    assert [deals for _, deals in pieces] == expected
    for done in range(config.deals):
        left = list(chunks(config, done))
        assert left[0][0] == done
        assert left[1:] == pieces[len(pieces) - len(left) + 1 :], "cut at the same deals, wherever a process stopped"


def test_an_interrupted_match_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "match.json"
    _, whole = play_match(BOTS, quiet=True)
    play_match(replace(BOTS, games=20, out=str(out)), quiet=True)
    assert list(chunks(replace(BOTS, a="random"), 10)) == [(10, 6), (16, 8), (24, 6)], "what is left after ten deals"
    assert list(chunks(BOTS, 10)) == [(10, 20)], "games of bots are quick"
    _, rest = play_match(replace(BOTS, out=str(out)), quiet=True)
    for name, array in vars(whole).items():
        assert (getattr(rest, name) == array).all(), name
    _, fewer = play_match(replace(BOTS, games=40, out=str(out)), quiet=True)
    assert (fewer.won == whole.won[:40]).all()
    _, other = play_match(replace(BOTS, seed=1, games=20, out=str(out)), quiet=True)
    assert (other.scores != whole.scores[:20]).any(), "another seed is another match"


def test_replays_are_of_the_games_that_were_played(tmp_path: Path) -> None:
    config = replace(BOTS, out=str(tmp_path / "match.json"), replays=str(tmp_path / "games"), max_replays=5)
    _, games = play_match(config, quiet=True)
    files = sorted((tmp_path / "games").iterdir())
    assert [path.name for path in files] == [f"{deal:06d}-seat{seat}.json" for deal in range(3) for seat in (0, 1)]
    for row, path in enumerate(files):
        replay = GameRecord.read(path)
        verify(replay)
        assert replay.agents[games.seats[row]] == BOTS.a
        assert replay.scores == games.scores[row].tolist()
        assert (replay.deal, len(replay.actions)) == (games.deals[row], games.decisions[row])
    _, without = play_match(BOTS, quiet=True)
    assert (without.scores == games.scores).all(), "recording changes nothing"

    written = files[3].read_bytes()
    files[3].unlink()
    play_match(config, quiet=True)
    assert files[3].read_bytes() == written, "what is missing is made up for, whatever has been played"
    assert len(list((tmp_path / "games").iterdir())) == 6

    other = replace(config, b="bot:greedy", seed=5, out=str(tmp_path / "other.json"))
    play_match(replace(other, replays=""), quiet=True)
    play_match(other, quiet=True)
    assert GameRecord.read(files[3]).agents == ["bot:greedy", "bot:greedy"], "not those of another match"
    assert GameRecord.read(files[3]).seed == 5


def test_a_runs_newest_checkpoint_is_named(run: Path) -> None:
    config = read_arguments([f"a=policy:{run}", "b=bot:naive"])
    assert config.a == f"policy:{run},iteration=7", "so that a match cannot go on with another one"
    place = run / checkpoint.CHECKPOINTS / "000007"
    assert read_arguments([f"a=policy:{place}", "b=bot:naive"]).a == f"policy:{place}"


@pytest.mark.parametrize("native", [True, False])
def test_the_precision_of_long_searches_is_named(native: bool, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that another machine, which would have chosen another one, plays the same agent."""
    monkeypatch.setattr(players, "_has_bf16", lambda: native)
    long = f"checkpoint:{run},simulations=100,iteration=7"
    assert players.resolve(long) == f"{long},bf16={'on' if native else 'off'}"
    assert players.resolve(f"{long},bf16=off") == f"{long},bf16=off"
    assert players.resolve(f"checkpoint:{run}") == f"checkpoint:{run},iteration=7", "short ones are in single precision"

    def made(options: str) -> SearchConfig:
        built = players.build(players.parse(f"{long},backend=eager{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config

    assert made("").bf16 == native
    assert made(",bf16=on").bf16
    assert not made(",bf16=off").bf16
    with pytest.raises(ValueError, match="bf16: expected on or off, got 'half'"):
        made(",bf16=half")


def test_how_a_checkpoint_is_computed_can_be_chosen(run: Path) -> None:
    def made(options: str) -> str:
        built = players.build(players.parse(f"checkpoint:{run}{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config.backend

    assert made("") == made(",backend=native") == "native"
    assert made(",backend=eager") == "eager"
    with pytest.raises(
        ValueError, match="backend: expected one of native, eager, compiled, compiled_dynamic, got 'jit'"
    ):
        made(",backend=jit")


def test_bfloat16_is_never_only_in_name(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the native step does not have it, torch computes it, and what was demanded otherwise is refused."""
    monkeypatch.setattr(_native, "kernels", lambda: ["base"])

    def made(options: str) -> SearchConfig:
        built = players.build(players.parse(f"checkpoint:{run}{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config

    assert (made(",bf16=on").backend, made(",bf16=on").bf16) == ("eager", True)
    assert (made(",bf16=off").backend, made(",bf16=off").bf16) == ("native", False)
    with pytest.raises(ValueError, match=r"checkpoint:.*backend=native: expected search.bf16=false on a CPU"):
        made(",bf16=on,backend=native")


def test_networks_of_other_rules_are_refused(run: Path, tmp_path: Path) -> None:
    found = checkpoint.load_weights(run)
    agent = {**found.agent, "rules": {"episode": "match", "target": 50}}
    del agent["format"], agent["iteration"]
    checkpoint.save(tmp_path, 3, tensors={"weights": found.weights}, arrays={}, state={}, agent=agent)
    both = [f"a=policy:{run}", f"b=policy:{tmp_path}"]
    with pytest.raises(ValueError, match=r"rules: expected episode=round, target=100 as the other agent.*target=50"):
        read_arguments(both)
    assert read_arguments([*both, "rules.target=80"]).rules == {"target": 80}, "unless they were asked for"


def test_command_line(tmp_path: Path, run: Path) -> None:
    out = tmp_path / "results" / "match.json"
    done = evaluate(f"a=checkpoint:{run},simulations=2", "b=bot:naive", "games=8", f"out={out}", "workers=1")
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    wanted = "games wins draws losses truncated win_rate wilson_low wilson_high elo p_value mean_score_a mean_score_b"
    assert {*wanted.split(), "mean_turns"} <= set(result)
    assert result["rules"]["episode"] == "round", "as the network was trained"
    assert result["version"] == env.make("skyjo", 1).info.version
    rows = list(csv.DictReader(out.with_suffix(".csv").open()))
    assert len(rows) == 8
    assert [(row["deal"], row["seat_a"]) for row in rows[:3]] == [("0", "0"), ("0", "1"), ("1", "0")]
    assert np.mean([float(row["won"]) for row in rows]) == result["win_rate"]
    assert out.with_suffix(".md").read_text() in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a=bot:greedy"], "a and b: expected two agents"),
        (["a=bot:greedy", "b=bot:nobody"], "skyjo has no bot 'nobody'"),
        (["a=bot:greedy", "b=bot:naive", "speed=9"], "Key 'speed' not in 'MatchConfig'; keys are a, b"),
        (["a=bot:greedy", "b=bot:naive", "games"], "expected key=value"),
        (["a=bot:greedy", "b=bot:naive", "games=0"], "games: expected 1 or more, got 0"),
        (["a=bot:greedy", "b=bot:naive", "games=1e3"], "games: Value '1000.0' of type 'float'"),
        (["a=bot:greedy", "b=bot:naive", "rules=5"], "rules: expected a preset, or options as in rules.episode=round"),
        (["a=bot:greedy", "b=bot:naive", "margin=0.1"], "margin: expected none without stop="),
        (["a=bot:greedy", "b=bot:naive", "max_replays=3"], "max_replays: expected none without replays=DIR"),
        (["a=bot:greedy", "b=bot:naive", "out=/"], "out: expected the name of a file, got '/, which is a directory'"),
        (["a=simulator:4,bot=greedy,bot=naive", "b=bot:naive"], "expected every option once, got 'bot=naive'"),
        (["a=bot:greedy", "b=bot:naive", "out=x.md"], "out: expected the name of the json file, .* got 'x.md'"),
        (["a=bot:greedy", "b=bot:naive", "out=t0.5"], "out: expected the name of the json file, .* got 't0.5'"),
        (
            ["a=bot:greedy", "b=bot:naive", "out=/proc/no/x.json"],
            "out: expected a directory that can be made, got /proc",
        ),
        (
            ["a=bot:greedy", "b=bot:naive", "replays=/proc/no"],
            "replays: expected a directory that can be made, got /proc",
        ),
        (["a=bot:greedy", "b=bot:naive", "rules.target=-1"], "target"),
        (["a=checkpoint:/nowhere", "b=bot:naive"], "/nowhere: does not exist"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_arguments(arguments)


def test_weights_of_another_version_are_refused(run: Path, tmp_path: Path) -> None:
    found = checkpoint.load_weights(run)
    agent = {key: value for key, value in found.agent.items() if key not in ("format", "iteration")}
    fewer = dict(list(found.weights.items())[1:])
    checkpoint.save(tmp_path / "fewer", 1, tensors={"weights": fewer}, arrays={}, state={}, agent=agent)
    done = evaluate(f"a=checkpoint:{tmp_path / 'fewer'}", "b=bot:naive")
    assert done.returncode == 2
    assert re.match(r"error: agent .*: its weights are of another version of the network: .*Missing key", done.stderr)
    checkpoint.save(
        tmp_path / "old",
        1,
        tensors={"weights": found.weights},
        arrays={},
        state={},
        agent={**agent, "game_version": 0},
    )
    with pytest.raises(ValueError, match=r"version of skyjo: expected 1 as it is now, got 0"):
        read_arguments([f"a=policy:{tmp_path / 'old'}", "b=bot:naive"])


def test_bad_arguments_end_without_a_traceback() -> None:
    done = evaluate("a=bot:greedy", "b=bot:nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: skyjo has no bot 'nobody'")


def test_help_names_every_key_and_agent() -> None:
    text = usage()
    for name in (*asdict(MatchConfig()), *players.KINDS):
        assert name in text
