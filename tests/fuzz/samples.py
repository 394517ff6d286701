"""Real files to mutate: a small training run, matches with their stores, and game records of every game."""

from __future__ import annotations

import json
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

import env
from env.fair_deal import FairDeal
from env.game_record import GameRecord
from muzero.arena.gallery import Gallery
from muzero.arena.store import Store
from muzero.matches import command, ladder
from muzero.matches.command import read_arguments
from muzero.runs.checkpoint import MANIFEST, checkpoints
from muzero.training.command import train
from tests.composing import compose_config

KUHN = (
    "preset=smoke",
    "game=kuhn",
    "+variant=belief",
    "model.width=16",
    "model.hidden=32",
    "model.global_dim=16",
    "model.slot_hidden=16",
    "selfplay.tables=4",
    "selfplay.pool.every=1",
    "search.simulations=2",
    "search.max_considered=2",
    "search.backend=eager",
    "evaluation.every=1",
    "evaluation.games=2",
    "evaluation.simulations=1",
    "evaluation.value_positions=2",
    "replay.warm_up=8",
    "replay.megabytes=0.2",
    "learner.batch=8",
    "learner.ema=0.9",
    "train.steps=1",
    "train.checkpoint_every=1",
    "logging.display=none",
    "logging.records=1",
)
"""Settings of a run that takes a second."""

ITERATIONS = 3


def configuration(path: Path, iterations: int = ITERATIONS) -> DictConfig:
    """Configuration of the run in a directory, as the training command is given it."""
    config = compose_config(*KUHN, f"run_dir={path}", f"train.iterations={iterations}")
    return OmegaConf.create(asdict(config))


def agent(run: Path) -> str:
    """Text of the agent of the run."""
    return f"checkpoint:{run},simulations=2,backend=eager,bf16=off"


def match(run: Path, out: Path) -> list[str]:
    """Arguments of a match of the run's agent against a bot."""
    return [f"a={agent(run)}", "b=bot:uniform", "games=4", "workers=1", f"out={out}"]


def luck_match(run: Path, out: Path) -> list[str]:
    """Arguments of a match whose luck is measured."""
    return [*match(run, out), "luck=linear"]


def tables_of_three(out: Path) -> list[str]:
    """Arguments of a ladder at tables of three players."""
    agents = "agents=[bot:naive,bot:greedy,bot:random]"
    return [agents, "game=skyjo", "players=3", "games=6", "rules.episode=round", f"out={out}"]


def make_samples(home: Path) -> None:
    """Write run/ (a training run), match/ (two finished matches, and one in flight), ladder3/, records/,
    requests.jsonl (to the analysis engine) and arena.sqlite (a room and finished games)."""
    home.mkdir(parents=True)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert train(configuration(home / "run")) == 0
        for place in checkpoints(home / "run")[:-1]:  # without this, a damaged checkpoint is replaced by the one before
            manifest = json.loads((place / MANIFEST).read_text())
            (place / MANIFEST).write_text(json.dumps(manifest | {"complete": False}))
        (home / "match").mkdir()
        assert command.main(match(home / "run", home / "match" / "m.json")) == 0
        assert command.main(luck_match(home / "run", home / "match" / "l.json")) == 0
        assert ladder.main(tables_of_three(home / "ladder3")) == 0
        config = read_arguments(match(home / "run", home / "match" / "f.json"))
        in_flight = config.store().in_flight(0, 2)
        assert in_flight is not None
        tables = env.make("kuhn", 4, auto_reset=False)
        tables.reset(deals=[0, 0, 1, 1])
        in_flight.save([tables.sample_actions(seed=1).astype(np.int64)])
    (home / "records").mkdir()
    for game in env.games():
        _play(game).save(home / "records" / f"{game}.json")
    promise = FairDeal(5, "abcdef")
    _play("kuhn", 0, promise).save(home / "records" / "promised.json")
    _write_requests(home / "requests.jsonl")
    _write_store(home)


def _write_requests(path: Path) -> None:
    """Requests to the analysis engine: about itself, a record and its turns, and a position."""
    record = _play("kuhn").content()
    tables = env.make("kuhn", 1, 2, {}, seed=5)
    legal = [int(action) for action in np.flatnonzero(tables.legal[0])]
    position = {"game": "kuhn", "observation": tables.obs[0].tolist(), "legal": legal, "to_play": 0}
    position["phase"] = tables.info.phase_names[int(tables.phase[0])]
    lines: list[dict[str, Any]] = [{"id": "a", "query": "describe"}, {"id": "b", "record": record, "turns": [0, 1]}]
    lines.append({"id": "c", "position": position})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_store(home: Path) -> None:
    """File of an arena with rooms of two games, finished games and results."""
    store = Store(str(home / "arena.sqlite"))
    seats = [
        {"agent": None, "name": "Ada", "digest": "d" * 64, "left": False},
        {"agent": "random", "name": "random", "digest": "", "left": False},
    ]
    for code, game in (("ABCDEF", "kuhn"), ("BCDEFG", "skyjo")):
        record = _play(game)
        content = {"game": game, "rules": record.rules, "seed": 5, "nonce": "ab", "number": 3, "unrated": []}
        content |= {"actions": record.actions[:1], "think": True, "started": True, "seats": seats}
        store.save_room(code, content)
    gallery = Gallery(store, [], env.games())
    for path in sorted((home / "records").iterdir()):
        gallery.finish(GameRecord.read(path), [True, False], ["advice"] if path.stem == "lama" else [], "arena")
    store.close()


def _play(game: str, deal: int = 3, fair: FairDeal | None = None) -> GameRecord:
    """Game of random moves."""
    tables = env.make(game, 1, 2, {"max_decisions": 60} if game != "kuhn" else {}, seed=5, auto_reset=False)
    tables.reset(deals=[deal])
    actions: list[int] = []
    while not tables.done[0]:
        actions.append(int(tables.sample_actions(seed=1)[0]))
        tables.step(actions[-1:])
    return GameRecord.of(tables, 0, seed=5, deal=deal, agents=["one", "other"], actions=actions, fair=fair)
