"""Matches of an experiment: what to play, the results in files, and playing what is missing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

import env
from muzero.agents.agent_spec import AgentSpec, fingerprint, resolve, resolve_value_function, value_fingerprint
from muzero.config.fields import require
from muzero.matches.match import play_matches
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.matches.workers import make_worker_pool
from muzero.runs.files import write_whole

Row = dict[str, Any]


@dataclass(frozen=True)
class MatchSpec:
    """A match to play.

    Attributes:
      name: name of the result file.
      a, b: names of the two agents.
      players: number of players at the table.
      labels: further entries of the result, for the experiment's own use.
    """

    name: str
    a: str
    b: str
    players: int
    labels: Mapping[str, Any]


def play_match_specs(specs: Sequence[MatchSpec], options: argparse.Namespace, luck: str = "") -> list[Row]:
    """Plays all matches whose results are not yet in DIR/parts, one file per match; returns the results of all.

    Every match is checked before the first game is played.

    Args:
      specs: matches to play, each with a name of its own.
      options: options of the command line: out, games, seed, rules, batch, workers, runtime, address.
      luck: value function by which luck is taken out of the results (`luck` in the rows), "" for none. A stored result
        without luck is played again, one with luck serves both.
    """
    rules = {key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in options.rules)}
    suffix = "--" + "-".join(f"{key}_{value}" for key, value in rules.items()) if rules else ""
    specs = [replace(spec, name=spec.name + suffix) for spec in specs]
    names = [spec.name for spec in specs]
    for name in names:
        require(names.count(name) == 1, name, "every match once", "the same one twice: is something named twice?")
    parts = options.out / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    configs: dict[str, MatchConfig] = {}
    rows: dict[str, Row] = {}
    for spec in specs:
        path = parts / f"{spec.name}.json"
        games = -(-options.games // spec.players) * spec.players
        require(not luck or games >= 2 * spec.players, "--games", f"{2 * spec.players} or more with --luck", games)
        known = json.loads(path.read_text()) if path.exists() else {}
        agents = {side: resolve(AgentSpec.parse(getattr(spec, side))) for side in "ab"}
        wanted: Row = {"a": str(agents["a"]), "b": str(agents["b"]), "seed": options.seed, "games": games}
        if known:
            wanted["version"] = env.describe(known["game"], spec.players).version  # version of the rules
        wanted |= {f"weights_{side}": fingerprint(agents[side]) for side in "ab"}  # a run may have been trained again
        if wanted["weights_a"] or wanted["weights_b"]:
            wanted["batch"] = options.batch  # rounding in networks may depend on the batch size
        if luck and known:
            wanted |= _value_function(luck, known["game"], spec.players)
        if all(known.get(key) == value for key, value in wanted.items()):
            rows[spec.name] = {**known, **spec.labels}  # another experiment may have played it, with its own labels
            continue
        differing = [key for key, value in wanted.items() if known and known.get(key) != value]
        if differing:
            print(
                f"{path}: played again, because the stored result has another {', '.join(differing)}", file=sys.stderr
            )
        config = MatchConfig(a=spec.a, b=spec.b, players=spec.players, games=games, seed=options.seed)
        config.batch, config.out, config.rules, config.luck = options.batch, str(path), rules, luck
        configs[spec.name] = with_defaults(config)
    if not configs:
        return [rows[spec.name] for spec in specs]
    labels = {spec.name: spec.labels for spec in specs}
    names_of_agents = [text for config in configs.values() for text in (config.a, config.b)]
    pool = make_worker_pool(names_of_agents, options.workers, options.runtime, options.address, luck)
    try:
        left = iter(configs)
        for config, result, games in play_matches(list(configs.values()), pool):
            name = next(left)
            by_deal = games.won.reshape(-1, config.players).mean(1).round(6).tolist()
            rows[name] = {**labels[name], **result, "by_deal": by_deal}
            if luck:
                rows[name] |= _value_function(config.luck, config.game, config.players)
            write_whole(Path(config.out), json.dumps(rows[name], indent=1) + "\n")
    finally:
        pool.close()
    return [rows[spec.name] for spec in specs]


def _value_function(text: str, game: str, players: int) -> Row:
    """Name and weights of the value function behind a stored result with luck."""
    name = resolve_value_function(text, game, players)
    return {"luck_value": name, "luck_weights": value_fingerprint(name)}


def read_parts(out: Path) -> list[Row]:
    """Reads the results of all matches in DIR/parts."""
    whole = [path for path in sorted((out / "parts").glob("*.json")) if not path.name.startswith(".")]
    rows = [json.loads(path.read_text()) for path in whole]
    require(bool(rows), str(out / "parts"), "at least one match", "none")
    return rows
