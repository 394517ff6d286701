"""Levels of the arena: candidates from weak to strong play a ladder, and those that are far enough apart become levels.

    python -m experiments.arena_levels --games 200
    python -m experiments.arena_levels --only lama skipbo --games 1000 --record     # replaces muzero/arena/levels.json

A candidate is an agent, weaker ones with a temperature or with a share of their decisions drawn at random. Every
candidate plays those near it in the list, every deal from every seat, and the levels also their neighbours among the
levels. The levels start at the weakest candidate and go up in steps of at least --step Elo. Ladders of games that are
not played (--only) are kept as they are in the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.common.command_line import OWN, run_experiment
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.blunders import Blundering
from muzero.agents.situation import Agent
from muzero.arena.levels import FILE, read_levels
from muzero.config import require
from muzero.matches.paired_games import paired_games
from muzero.runs.files import write_whole
from muzero.runs.markdown import markdown_table
from muzero.stats.ratings import Ladder, ladder

PLAYERS = 2
_REACH = 2  # places in the list within which candidates meet
_BATCH = 256

# Candidates by game, the weakest first; the number of players is that of their networks, 0 for any.
CANDIDATES: dict[str, tuple[str, int, tuple[tuple[str, float], ...]]] = {
    "skyjo": (
        "skyjo",
        2,
        (
            ("policy:skyjo-belief,temperature=3", 0.15),
            ("policy:skyjo-belief,temperature=2.5", 0.08),
            ("policy:skyjo-belief,temperature=2", 0.05),
            ("policy:skyjo-belief,temperature=1.75", 0.02),
            ("policy:skyjo-belief,temperature=1.5", 0.0),
            ("policy:skyjo-belief,temperature=1", 0.0),
            ("policy:skyjo-belief,temperature=0.5", 0.0),
            ("policy:skyjo-belief", 0.0),
            ("agent:skyjo-belief,simulations=4", 0.0),
            ("agent:skyjo-belief,simulations=16", 0.0),
            ("agent:skyjo-belief,simulations=64", 0.0),
        ),
    ),
    "skyjo of any size": (
        "skyjo",
        0,
        (
            ("bot:greedy", 0.5),
            ("bot:greedy", 0.35),
            ("bot:greedy", 0.25),
            ("bot:greedy", 0.15),
            ("bot:greedy", 0.08),
            ("bot:greedy", 0.0),
            ("simulator:64", 0.0),
        ),
    ),
    "lama": (
        "lama",
        0,
        (
            ("bot:strategy_1", 0.8),
            ("bot:strategy_1", 0.5),
            ("bot:strategy_1", 0.25),
            ("bot:strategy_1", 0.0),
            ("bot:strategy_3", 0.2),
            ("bot:strategy_3", 0.0),
            ("simulator:64,bot=strategy_3", 0.0),
        ),
    ),
    "skipbo": (
        "skipbo",
        0,
        (
            ("bot:hpvp", 0.35),
            ("bot:hpvp", 0.28),
            ("bot:hpvp", 0.22),
            ("bot:hpvp", 0.16),
            ("bot:hpvp", 0.11),
            ("bot:hpvp", 0.06),
            ("bot:hpvp", 0.0),
            ("bot:wild_saver", 0.1),
            ("bot:wild_saver", 0.05),
            ("bot:rules_of_thumb", 0.0),
            ("bot:wild_saver", 0.0),
        ),
    ),
}


@dataclass
class Contest:
    """Ladder of one list of candidates while it is played.

    Attributes:
      game: game that is played.
      names: [C] names of the candidates.
      agents: [C] the candidates.
      deals: deals per pairing.
      seed: seed of the deals.
      points: [C, C] points of the row's candidate against the column's.
    """

    game: str
    names: list[str]
    agents: list[Agent]
    deals: int
    seed: int
    points: np.ndarray[Any, np.dtype[np.float64]]

    def play(self, a: int, b: int) -> None:
        """Play a pairing, unless it was played before."""
        if a == b or self.points[a, b] + self.points[b, a] > 0:
            return
        started = time.monotonic()
        games = paired_games(
            self.agents[a], self.agents[b], self.deals, game=self.game, players=PLAYERS, seed=self.seed
        )
        self.points[a, b], self.points[b, a] = games.won.sum(), len(games) - games.won.sum()
        figures = f"{games.win_rate:.3f} in {len(games)} games, {time.monotonic() - started:.0f} s"
        print(f"{self.names[a]} against {self.names[b]}: {figures}", flush=True)

    def rate(self, chosen: Sequence[int]) -> Ladder:
        """Ratings of some candidates, the first of them at 0."""
        names = [self.names[i] for i in chosen]
        return ladder(names, self.points[np.ix_(chosen, chosen)], names[0])


def choose(elos: dict[int, float], step: float) -> list[int]:
    """Candidates that become levels, the weakest first: each at least `step` Elo above the one before; the best is one.

    Args:
      elos: Elo of each candidate.
      step: least difference between neighbours.
    """
    order = sorted(elos, key=lambda i: elos[i])
    levels = [order[0]]
    for each in order[1:]:
        if elos[each] >= elos[levels[-1]] + step:
            levels.append(each)
    if levels[-1] != order[-1] and len(levels) > 1:
        levels[-1] = order[-1]
    return levels


def measure(label: str, games: int, seed: int, step: float) -> dict[str, Any]:
    """Play the ladder of a list of candidates; return its levels as the file holds them."""
    game, players, candidates = CANDIDATES[label]
    agents: list[Agent] = []
    for text, share in candidates:
        agent = build(AgentSpec.parse(text), game, PLAYERS, batch=_BATCH)
        agents.append(Blundering(agent, share) if share else agent)
    names = [f"{text} with {share:.0%} at random" if share else text for text, share in candidates]
    size = len(names)
    contest = Contest(game, names, agents, -(-games // PLAYERS), seed, np.zeros((size, size)))
    for a in range(size):
        for b in range(a + 1, min(size, a + 1 + _REACH)):
            contest.play(a, b)
    rated = {each.name: each.elo for each in contest.rate(range(size)).ratings}
    levels = choose({i: rated[name] for i, name in enumerate(names)}, step)
    for a, b in pairwise(levels):
        contest.play(a, b)
    found = contest.rate(levels)
    by_name = {each.name: each for each in found.ratings}
    rows = []
    for i in sorted(levels, key=lambda i: by_name[names[i]].elo):
        each, (text, share) = by_name[names[i]], candidates[i]
        rows.append(
            {
                "agent": text,
                "blunders": share,
                "elo": round(each.elo, 1),
                "low": round(each.low, 1),
                "high": round(each.high, 1),
            }
        )
    order = sorted(levels, key=lambda i: by_name[names[i]].elo)
    points = [[float(contest.points[i, j]) for j in order] for i in order]
    per_pairing = contest.deals * PLAYERS
    kept = {"game": game, "players": players, "measured_with": PLAYERS, "games_per_pairing": per_pairing}
    return {**kept, "levels": rows, "points": points}


def page(ladders: Sequence[dict[str, Any]]) -> str:
    """Levels as Markdown tables."""
    parts = []
    for each in ladders:
        size = f"{each['players']} players" if each["players"] else "any number of players"
        rows = []
        for number, one in enumerate(each["levels"], 1):
            interval = f"{one['low']:.0f} to {one['high']:.0f}"
            rows.append([number, one["agent"], f"{one['blunders']:.0%}", round(one["elo"]), interval])
        parts.append(f"## {each['game']}, {size}: {each['games_per_pairing']} games per pairing\n")
        parts += markdown_table(["level", "agent", "at random", "Elo", "95 % interval"], rows)
        parts.append("")
    return "\n".join(parts)


def run(options: argparse.Namespace, command: str) -> None:
    """Play the ladders and write the file."""
    unknown = [label for label in options.only if label not in CANDIDATES]
    require(not unknown, "--only", f"some of {', '.join(CANDIDATES)}", unknown)
    require(options.step > 0, "--step", "more than 0", options.step)
    played = {}
    for label in options.only:
        found = measure(label, options.games, options.seed, options.step)
        played[label] = {"command": command, **found}
    before = json.loads(options.out.read_text())["ladders"] if options.out.exists() and read_levels(options.out) else []
    new = {(each["game"], each["players"]) for each in played.values()}
    kept = [each for each in before if (each["game"], each["players"]) not in new]
    ladders = sorted([*kept, *played.values()], key=lambda each: (each["game"], -each["players"]))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.out, json.dumps({"format": 1, "ladders": ladders}, indent=1) + "\n")
    print(page(ladders))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200, help="per pairing, rounded up to whole deals (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--step", type=float, default=50, help="least Elo between two levels (default: 50)")
    parser.add_argument(
        "--only", nargs="+", default=list(CANDIDATES), metavar="NAME", help=f"ladders to play: {', '.join(CANDIDATES)}"
    )
    own = OWN / "arena_levels" / FILE.name
    parser.set_defaults(out=own)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help=f"file of levels (default: {own})")
    where.add_argument("--record", dest="out", action="store_const", const=FILE, help="replace the arena's own levels")
    return run_experiment(parser, run, argv, output=False)


if __name__ == "__main__":
    sys.exit(main())
