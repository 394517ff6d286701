"""Settings of a match, and their defaults, which come from the agents."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import env
from muzero.agents.agent_spec import (
    AgentSpec,
    build,
    fingerprint,
    resolve,
    resolve_value_function,
    trained_for,
    value_fingerprint,
)
from muzero.config.fields import require
from muzero.matches.chunk import MatchChunk
from muzero.matches.luck import COLUMNS
from muzero.matches.store import GameRecordWriter, MatchStore

# Settings that do not change what happens in a game.
_IRRELEVANT_TO_GAMES = (
    *("games", "workers", "runtime", "address", "out", "stop", "margin", "better_by", "luck", "records"),
    "max_records",
)


@dataclass
class MatchConfig:
    """Settings of a match; `muzero.matches.command.HELP` explains them."""

    a: str = ""
    b: str = ""
    games: int = 1000
    game: str = ""
    players: int = 0
    rules: Any = field(default_factory=dict)
    seed: int = 0
    batch: int = 512
    workers: int = 0
    runtime: str = "local"
    address: str = ""
    stop: float = 0.0
    margin: float = 0.0
    better_by: float = 0.0
    luck: str = ""
    out: str = ""
    records: str = ""
    max_records: int = 100

    @property
    def deals(self) -> int:
        """Number of deals, each played once with agent a in each seat."""
        return -(-self.games // self.players)

    @property
    def record_writer(self) -> GameRecordWriter | None:
        """Writer of the game records that are asked for; None if none are."""
        recorded = min(self.deals, -(-self.max_records // self.players))
        return GameRecordWriter(Path(self.records), recorded, self.a, self.b) if self.records and recorded else None

    def chunk(self, first: int, deals: int) -> MatchChunk:
        """Chunk of the match for a worker: `deals` deals from deal `first` on."""
        batch = max(self.batch, deals * self.players)
        given = (self.a, self.b, self.game, self.players, self.rules, self.seed, batch, first, deals)
        return MatchChunk(*given, self.record_writer, luck=self.luck)

    def key(self) -> str:
        """Hash of everything that changes what happens in a game: settings, version of the rules, weights."""
        settings = {k: v for k, v in asdict(self).items() if k not in _IRRELEVANT_TO_GAMES}
        game = env.describe(self.game, self.players, self.rules)
        settings |= {"version": game.version, "rules": game.rule_values}
        settings["weights"] = [fingerprint(AgentSpec.parse(text)) for text in (self.a, self.b)]
        if self.luck:  # the games are the same without it, but their luck is not known
            settings["luck"] = self.luck, value_fingerprint(self.luck)
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def store(self) -> MatchStore:
        """Store for the match's games, in files next to `out`."""
        stats = len(env.describe(self.game, self.players, self.rules).stat_names)
        luck = len(COLUMNS) if self.luck else 0
        return MatchStore(Path(self.out) if self.out else None, self.key(), self.players, stats, luck)


def with_defaults(config: MatchConfig) -> MatchConfig:
    """Fill in game, players and rules from the agents; builds both agents once, so that errors show before any game."""
    specs = [resolve(AgentSpec.parse(text)) for text in (config.a, config.b)]
    config = replace(config, a=str(specs[0]), b=str(specs[1]))
    trained = {str(spec): found for spec in specs if (found := trained_for(spec))}
    rules_are_free = not config.rules
    for found in trained.values():
        config.game = config.game or found["game"]
        if found["game"] == config.game:
            config.players = config.players or found["players"]
            config.rules = config.rules or found.get("rules", {})
    config.game = config.game or env.games()[0]
    config.players = config.players or 2
    config.rules = {"preset": config.rules} if isinstance(config.rules, str) else dict(config.rules)
    require(config.game in env.games(), "game", f"one of {', '.join(env.games())}", config.game)
    tables = env.make(config.game, 1, config.players, config.rules)
    for spec in specs:
        if spec.kind == "bot":
            tables.bot(spec.target)
        build(spec, config.game, config.players, batch=1)
    if rules_are_free:
        require_same_rules(tables.info, trained)
    if config.luck:
        config.luck = resolve_value_function(config.luck, config.game, config.players)
    return config


def require_same_rules(game: env.GameDescription, trained: dict[str, dict[str, Any]]) -> None:
    """Refuse networks that were trained for other rules than the match's.

    Args:
      game: game of the match, with its rules.
      trained: game, players and rules that each agent's network was trained for (`trained_for`), by text of the agent.
    """
    ours = game.rule_values
    for text, found in trained.items():
        theirs = env.describe(game.name, game.num_players, found.get("rules", {})).rule_values
        differing = [f"{name}={theirs[name]}" for name in theirs if theirs[name] != ours[name]]
        expected = ", ".join(f"{name}={ours[name]}" for name in theirs if theirs[name] != ours[name])
        require(not differing, f"agent {text!r}, rules", f"{expected} as the other agent (or say rules=...)", differing)
