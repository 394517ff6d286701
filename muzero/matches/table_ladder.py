"""Ladder of agents at tables of three players or more: mixed tables, rated by the ranks of all seats.

A line-up of agents plays its deals once in each rotation of the seats. A field that is larger than a table plays all
line-ups of different agents (or as many as there are deals for); a smaller one fills the seats round about.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import env
from muzero import stats
from muzero.agents.agent_spec import AgentSpec, build, fingerprint
from muzero.agents.situation import Agent, Situation
from muzero.config.fields import require
from muzero.matches.paired_games import next_to_act
from muzero.runs.files import (
    CheckpointError,
    read_arrays,
    require_arrays,
    save_whole,
    wrap_errors,
    write_whole,
    writing,
)
from muzero.runs.markdown import markdown_table
from muzero.runs.provenance import provenance
from muzero.runs.schema import refuse

Ints = NDArray[np.int64]


def line_ups(agents: int, players: int, seed: int = 0) -> Ints:
    """Agents [L, P] at one table each, by index; every agent as often as any other if the field is small."""
    if agents >= players:
        all_of_them = np.array(list(islice(combinations(range(agents), players), 100_000)))
        return np.random.default_rng(seed).permutation(all_of_them)
    return np.array([list(islice(cycle(np.roll(range(agents), -start).tolist()), players)) for start in range(agents)])


def schedule(agents: int, players: int, games: int, seed: int = 0) -> tuple[Ints, Ints]:
    """Agents in the seats [N, P] and deals [N] of at least `games` tables: whole deals, line-ups in turn."""
    ups = line_ups(agents, players, seed)
    deals = np.arange(-(-games // players))
    chosen = ups[deals % len(ups)]
    seated = np.stack([np.roll(chosen, turn, 1) for turn in range(players)], 1)  # [D, rotation, P]
    return seated.reshape(-1, players), np.repeat(deals, players)


def play_tables(
    agents: Sequence[Agent], seated: Ints, deals: Ints, *, game: str, rules: env.Rules, seed: int = 0, batch: int = 512
) -> Ints:
    """Ranks [N, P] of the seats after a game at each table.

    Args:
      agents: agents of the field.
      seated: [N, P] index of the agent in each seat.
      deals: [N] number of each table's deal.
      game, rules, seed: arguments of `env.make`, which makes the tables.
      batch: number of tables that are played at a time.
    """
    parts = []
    for start in range(0, len(seated), batch):
        who = seated[start : start + batch]
        tables = env.make(game, len(who), who.shape[1], rules, seed, auto_reset=False)
        tables.reset(deals=deals[start : start + batch].tolist())
        rows = np.arange(len(who))
        while not tables.done.all():
            whose = np.where(tables.done, -1, who[rows, tables.to_play])
            actions = np.full(len(who), env.SKIP, np.int64)
            for number in next_to_act(agents, whose):
                theirs = np.flatnonzero(whose == number)
                actions[theirs] = agents[number].act(Situation.at(tables, theirs, seed))
            tables.step(actions)
        parts.append(tables.ranks.astype(np.int64))
    return np.concatenate(parts)


def rate_tables(
    agents: Sequence[str],
    players: int,
    games: int,
    *,
    anchor: str,
    prior: float,
    game: str,
    rules: dict[str, Any],
    seed: int,
    batch: int,
    out: Path,
) -> tuple[stats.TableRatings, int]:
    """Play a field at tables of several players, or read the games of an earlier call, and rate it.

    Returns the ratings and the number of tables. Ranks are saved in `out`/games: the same field, settings and weights
    are not played again.
    """
    seated, deals = schedule(len(agents), players, games, seed)
    description = env.describe(game, players, rules)
    settings = {"agents": list(agents), "weights": [fingerprint(AgentSpec.parse(text)) for text in agents]}
    settings |= {"game": game, "version": description.version, "rules": description.rule_values, "players": players}
    key = hashlib.sha256(json.dumps({**settings, "seed": seed, "batch": batch}, sort_keys=True).encode()).hexdigest()
    path = out / "games" / f"tables-{key[:12]}.npz"
    ranks = _saved(path, len(seated), players)
    if ranks is None:
        built = [build(AgentSpec.parse(text), game, players, batch=batch) for text in agents]
        ranks = play_tables(built, seated, deals, game=game, rules=rules, seed=seed, batch=batch)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        save_whole(path, ranks=ranks)
    return stats.plackett_luce(agents, seated, ranks, anchor, deals=deals, prior=prior), len(seated)


def _saved(path: Path, tables: int, players: int) -> Ints | None:
    """Ranks of an earlier call; None if there are none, or fewer than are wanted, or if they cannot be read."""
    if not path.exists():
        return None
    try:
        saved = read_arrays(path)
        require_arrays(path, saved, {"ranks": (np.int64, (None, players))})
        ranks: Ints = saved["ranks"]
        with wrap_errors(path):
            better = (ranks[:, None, :] < ranks[:, :, None]).sum(2)
            if (ranks != 1 + better).any():
                refuse("ranks", "1 and the number of better seats", found="others")
    except CheckpointError as error:
        warnings.warn(f"{path} cannot be read, its games are played again: {error}", RuntimeWarning, stacklevel=2)
        return None
    return ranks[:tables] if len(ranks) >= tables else None


def require_table(game: str, players: int, agents: Sequence[str]) -> None:
    """Refuse a number of players that the game does not admit, and bots that it does not have."""
    info = env.describe(game, 2)
    good = max(3, info.min_players) <= players <= info.max_players
    require(good, "players", f"2, or 3 to {info.max_players} for {game}", players)
    tables = env.make(game, 1, players)
    for text in agents:
        spec = AgentSpec.parse(text)
        if spec.kind == "bot":
            tables.bot(spec.target)


def write_tables(out: Path, found: stats.TableRatings, tables: int, players: int, game: str, command: str) -> str:
    """Write ladder.json and ladder.md of a field that met at tables of several players; return the page."""
    cells = [
        [
            number,
            f"`{r.name}`",
            f"{r.elo:+.0f}",
            "-" if r.name == found.anchor else f"[{r.low:+.0f}, {r.high:+.0f}]",
            f"{r.points / r.games:.3f}",
            f"{r.games:g}",
        ]
        for number, r in enumerate(found.ratings, 1)
    ]
    lines = [
        "# Ladder",
        "",
        f"    {command}",
        "",
        f"{game}, {tables:,} tables of {players}, every deal in every rotation of its seats. Elo by Plackett-Luce",
        f"from the ranks of all seats; 95 % intervals of the difference to `{found.anchor}`, by deals.",
        "",
        *markdown_table(["", "agent", "Elo", "95 %", "share of wins", "seats"], cells, "rlrcrr"),
    ]
    page = "\n".join(lines) + "\n"
    content = {
        "command": command,
        "game": game,
        "players": players,
        "tables": tables,
        "anchor": found.anchor,
        "ratings": [{**asdict(rating), "rank": number} for number, rating in enumerate(found.ratings, 1)],
        "names": found.names,
        "covariance": found.covariance.tolist(),
        "provenance": provenance(),
    }
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "ladder.json", json.dumps(content, indent=1) + "\n")
    write_whole(out / "ladder.md", page)
    return page
