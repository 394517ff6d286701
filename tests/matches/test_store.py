"""Files of a match: finished games, games in flight and game records."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import env
from env.game_record import GameRecord, verify
from muzero.agents.agent_spec import AgentSpec, fingerprint
from muzero.agents.agents import Bot, Random, Searcher, Situation
from muzero.matches.command import read_arguments
from muzero.matches.luck import COLUMNS
from muzero.matches.match import play_match
from muzero.matches.paired_games import paired_games
from muzero.matches.store import InFlightStore
from muzero.runs import checkpoint
from tests.matches.games_of_bots import BOTS, assert_same_games


class Interrupted(Exception):
    """Stands for a power cut."""


def test_another_version_of_the_rules_is_another_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(BOTS, games=20, out=str(tmp_path / "match.json"))
    play_match(config, quiet=True)
    key, describe = config.store().key, env.describe

    def newer(*given: Any, **options: Any) -> env.GameDescription:
        found = describe(*given, **options)
        return replace(found, version=found.version + 1)

    assert config.store().key == key
    monkeypatch.setattr("muzero.matches.match_config.env.describe", newer)
    assert config.store().key != key


def test_games_of_other_weights_in_the_same_place_are_not_resumed(run: Path, tmp_path: Path) -> None:
    """A run may have been trained again in the same directory."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    agent = f"policy:{copy},iteration=7"
    before = fingerprint(AgentSpec.parse(agent))
    assert before == fingerprint(AgentSpec.parse(f"policy:{run},iteration=7"))
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
    assert fresh["weights_a"] == fingerprint(AgentSpec.parse(agent)) != before
    assert fresh["seconds_per_game"] is not None


@pytest.mark.parametrize("where", ["early", "late"])
def test_games_in_flight_are_resumed(where: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk may take minutes of search; none of it is lost, and the resumed games equal uninterrupted ones."""
    arguments = [f"a=checkpoint:{run},simulations=2", "b=bot:naive", "games=8", "workers=1", "rules.max_decisions=60"]
    config = read_arguments([*arguments, f"out={tmp_path / 'match.json'}"])
    _, expected = play_match(read_arguments([*arguments, f"out={tmp_path / 'whole.json'}"]), quiet=True)
    assert not list(tmp_path.glob("*in_flight*")), "finished games leave no file"
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
    (kept,) = tmp_path.glob("match.in_flight-0.npz")
    calls, left = 0, 10**9
    _, found = play_match(config, quiet=True)
    assert_same_games(expected, found)
    assert not kept.exists()
    whole, calls = calls, 0
    (tmp_path / "match.games.npz").unlink()
    play_match(config, quiet=True)
    assert calls > whole, "the resumed match had less to do"


def test_games_in_flight_of_another_match_or_from_a_damaged_file_are_not_used(run: Path, tmp_path: Path) -> None:
    in_flight = InFlightStore(tmp_path / "x.npz", "one")
    assert in_flight.load() == []
    in_flight.save([np.array([1, -1]), np.array([2, 3])])
    assert [step.tolist() for step in in_flight.load()] == [[1, -1], [2, 3]]
    assert InFlightStore(in_flight.path, "another").load() == []
    in_flight.path.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match=r"x.npz cannot be read, its games start again"):
        assert in_flight.load() == []
    agents, settings = [Random(), Bot("naive")], {"game": "skyjo", "rules": {"episode": "round"}}
    expected = paired_games(*agents, 3, **settings)  # type: ignore[arg-type,misc]
    in_flight.save([np.full(6, 999)])
    with pytest.warns(RuntimeWarning, match="saved actions do not fit, the games start again"):
        found = paired_games(*agents, 3, in_flight=in_flight, **settings)  # type: ignore[arg-type,misc]
    assert (found.scores == expected.scores).all()


def test_a_damaged_file_of_games_is_not_used(tmp_path: Path) -> None:
    config = replace(BOTS, games=20, out=str(tmp_path / "match.json"))
    _, games = play_match(config, quiet=True)
    kept = tmp_path / "match.games.npz"
    kept.write_bytes(kept.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match=r"match.games.npz cannot be read, the match starts again"):
        _, again = play_match(config, quiet=True)
    assert (again.scores == games.scores).all()


def test_game_records_are_of_the_games_that_were_played(tmp_path: Path) -> None:
    config = replace(BOTS, out=str(tmp_path / "match.json"), records=str(tmp_path / "games"), max_records=5)
    _, games = play_match(config, quiet=True)
    files = sorted((tmp_path / "games").iterdir())
    assert [path.name for path in files] == [f"{deal:06d}-seat{seat}.json" for deal in range(3) for seat in (0, 1)]
    for row, path in enumerate(files):
        record = GameRecord.read(path)
        verify(record)
        assert record.agents[games.seats[row]] == BOTS.a
        assert record.scores == games.scores[row].tolist()
        assert (record.deal, len(record.actions)) == (games.deals[row], games.decisions[row])
    _, without = play_match(BOTS, quiet=True)
    assert (without.scores == games.scores).all(), "recording changes nothing"

    written = files[3].read_bytes()
    files[3].unlink()
    play_match(config, quiet=True)
    assert files[3].read_bytes() == written, "a missing record is written again, though its game has been played"
    assert len(list((tmp_path / "games").iterdir())) == 6

    other = replace(config, b="bot:greedy", seed=5, out=str(tmp_path / "other.json"))
    play_match(replace(other, records=""), quiet=True)
    play_match(other, quiet=True)
    assert GameRecord.read(files[3]).agents == ["bot:greedy", "bot:greedy"], "records of another match are replaced"
    assert GameRecord.read(files[3]).seed == 5


def test_luck_that_no_game_brings_is_not_used(tmp_path: Path) -> None:
    config = replace(BOTS, games=20, luck="linear", workers=1, rules={"episode": "round"})
    config = replace(config, out=str(tmp_path / "match.json"))
    play_match(config, quiet=True)
    kept = tmp_path / "match.games.npz"
    with np.load(kept) as file:
        saved = dict(file)
    (games,) = config.store().load(10)
    assert (games.luck == saved["luck"]).all()
    assert games.luck.shape == (20, len(COLUMNS))
    large, endless = saved["luck"].copy(), saved["luck"].copy()
    large[3, 0], endless[3, -1] = 1.5, np.nan
    for luck, message in (
        (large, "luck: expected at most 1 shares of the win in a game, got more"),
        (endless, r"luck: expected numbers from -1e\+09 to 1e\+09, got others"),
        (saved["luck"][:, :4], r"luck: expected float64 \['any', 10\], got float64 \[20, 4\]"),
        (saved["luck"][:-2], "games: expected columns of the same length"),
        (None, "luck: expected an array, got none"),
    ):
        others = {name: array for name, array in saved.items() if name != "luck"}
        np.savez(kept, **others, **({} if luck is None else {"luck": luck}))
        with pytest.warns(RuntimeWarning, match=f"cannot be read, the match starts again: .*{message}"):
            assert config.store().load(10) == []


def test_games_of_versions_that_knew_no_luck_are_resumed(tmp_path: Path) -> None:
    config = replace(BOTS, games=20, out=str(tmp_path / "match.json"))
    _, games = play_match(config, quiet=True)
    kept = tmp_path / "match.games.npz"
    with np.load(kept) as file:
        np.savez(kept, **{name: array for name, array in file.items() if name != "luck"})
    (found,) = config.store().load(10)
    assert_same_games(games, found)
