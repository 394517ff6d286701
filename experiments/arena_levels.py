"""Levels of the arena: candidates from weak to strong play a ladder, and those that are surely apart become levels.

    python -m experiments.arena_levels
    python -m experiments.arena_levels --only lama --record            # replaces muzero/arena/levels.json

A candidate is an agent, weaker ones with a temperature or with a share of their decisions drawn at random. Every
candidate plays --games games against those near it in the list, every deal from every seat. Levels start at the weakest
candidate and go up in steps of at least --step Elo. Then each level plays the one below on new deals until a sequential
test is sure that it is stronger, at most --most games; where it is not, one of the two is dropped. All errors of these
tests together have a chance of 5 %. Elo comes from all games; that neighbours play until it is sure draws their
difference apart a little. Ladders that are not played (--only) are kept as they are in the file.

At a table of more than two players the first agent plays alone against others of the second kind. A share w of the wins
against n others then counts as two-player games do that give the same odds, n w / (1 - w), with the same error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from muzero.stats.sequential import sequential_test

_REACH = 2  # places in the list within which candidates meet
_BATCH = 256
_ERROR = 0.05  # chance that any neighbours are wrongly found to differ
_LOOK = 100  # deals between two looks of a sequential test

Candidate = tuple[str, float]
"""Agent, and the share of its decisions that is drawn at random."""


@dataclass(frozen=True)
class Lineup:
    """Candidates of a ladder, the weakest first.

    Attributes:
      game: game that they play.
      players: number of players that their networks are for; 0 for any, measured with two.
      candidates: the candidates.
      rules: name of the rule set that they play by.
    """

    game: str
    players: int
    candidates: tuple[Candidate, ...]
    rules: str = "official"

    @property
    def seats(self) -> int:
        """Number of players with which the ladder is played."""
        return self.players or 2


LINEUPS: dict[str, Lineup] = {
    "skyjo": Lineup(
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
            ("agent:skyjo-baseline,simulations=16", 0.0),
            ("agent:skyjo-belief,simulations=16", 0.0),
            ("agent:skyjo-belief,simulations=64", 0.0),
        ),
    ),
    "skyjo of any size": Lineup(
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
    "lama of any size": Lineup(
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
    "lama": Lineup(
        "lama",
        4,
        (
            ("policy:lama-belief", 0.75),
            ("policy:lama-belief", 0.5),
            ("policy:lama-belief", 0.32),
            ("policy:lama-belief", 0.2),
            ("bot:strategy_1", 0.08),
            ("policy:lama-belief", 0.1),
            ("bot:strategy_1", 0.0),
            ("policy:lama-belief,temperature=1", 0.0),
            ("policy:lama-belief", 0.0),
        ),
        "report",
    ),
    "skipbo of any size": Lineup(
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
    "skipbo": Lineup(
        "skipbo",
        2,
        (
            ("policy:skipbo-belief,temperature=2", 0.0),
            ("policy:skipbo-belief,temperature=1.5", 0.0),
            ("policy:skipbo-belief,temperature=1", 0.0),
            ("policy:skipbo-belief,temperature=0.75", 0.0),
            ("policy:skipbo-belief,temperature=0.5", 0.0),
            ("policy:skipbo-belief", 0.0),
            ("agent:skipbo-belief,simulations=16", 0.0),
            ("bot:wild_saver", 0.0),
        ),
    ),
}


@dataclass
class Contest:
    """Ladder of a lineup while it is played.

    Attributes:
      lineup: the candidates and their table.
      deals: deals per pairing.
      most: most deals of a test.
      seed: seed of the deals.
      names: [C] names of the candidates.
      agents: [C] the candidates.
      points: [C, C] points of the row's candidate against the column's.
    """

    lineup: Lineup
    deals: int
    most: int
    seed: int
    names: list[str] = field(init=False)
    agents: list[Agent] = field(init=False)
    points: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.names, self.agents = [], []
        for text, share in self.lineup.candidates:
            agent = build(AgentSpec.parse(text), self.lineup.game, self.lineup.seats, batch=_BATCH)
            self.agents.append(Blundering(agent, share) if share else agent)
            self.names.append(f"{text} with {share:.0%} at random" if share else text)
        self.points = np.zeros((len(self.names), len(self.names)))
        self._sure: dict[tuple[int, int], bool] = {}

    def play(self, a: int, b: int, deals: int, first_deal: int = 0) -> NDArray[np.float64]:
        """Play deals between two candidates, count their points, and return the share of a in each deal."""
        settings: dict[str, Any] = {
            "game": self.lineup.game,
            "players": self.lineup.seats,
            "rules": self.lineup.rules,
            "seed": self.seed,
        }
        games = paired_games(self.agents[a], self.agents[b], deals, first_deal=first_deal, **settings)
        for_a, for_b = as_of_two(float(games.won.sum()), len(games), self.lineup.seats)
        self.points[a, b] += for_a
        self.points[b, a] += for_b
        return games.by_deal(self.lineup.seats)

    def meet(self, a: int, b: int) -> None:
        """Play a pairing, unless it was played before."""
        if self.points[a, b] + self.points[b, a] == 0:
            started = time.monotonic()
            rate = self.play(b, a, self.deals).mean()
            self._say(b, a, f"{rate:.3f} in {self.deals * self.lineup.seats} games, {time.monotonic() - started:.0f} s")

    def surely_stronger(self, upper: int, lower: int, error: float) -> bool:
        """Whether a candidate is stronger than another one, by a sequential test on deals of its own."""
        if (upper, lower) not in self._sure:
            started, found = time.monotonic(), np.zeros(0)
            while len(found) < self.most:
                count = min(_LOOK, self.most - len(found))
                found = np.append(found, self.play(upper, lower, count, self.deals + len(found)))
                test = sequential_test(found, 1 / self.lineup.seats, alpha=error)
                if test.decision != "continue":
                    break
            self._sure[upper, lower] = test.decision == "higher"
            words = f"{test.decision} in {len(found)} deals, {test.mean:.3f} [{test.low:.3f}, {test.high:.3f}]"
            self._say(upper, lower, f"{words}, {time.monotonic() - started:.0f} s")
        return self._sure[upper, lower]

    def rate(self, chosen: Sequence[int]) -> Ladder:
        """Ratings of some candidates, the first of them at 0."""
        names = [self.names[i] for i in chosen]
        return ladder(names, self.points[np.ix_(chosen, chosen)], names[0])

    def elos(self, chosen: Sequence[int]) -> dict[int, float]:
        """Elo of some candidates by their place in the list."""
        return {self.names.index(each.name): each.elo for each in self.rate(chosen).ratings}

    def _say(self, a: int, b: int, words: str) -> None:
        print(f"{self.names[a]} against {self.names[b]}: {words}", flush=True)


def as_of_two(won: float, games: int, players: int) -> tuple[float, float]:
    """Points of two-player games with the odds and the error of games of one player alone against all others.

    Args:
      won: share of the wins of the one player, summed over the games.
      games: number of games.
      players: players at the table.
    """
    if players == 2:
        return won, games - won
    share = min(max(won / games, 0.5 / games), 1 - 0.5 / games)
    odds = (players - 1) * share / (1 - share)
    rate = odds / (1 + odds)
    count = (
        games * share * (1 - share) / (rate * (1 - rate))
    )  # log odds of a share w have the variance 1 / (N w (1 - w))
    return count * rate, count * (1 - rate)


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


def confirm(contest: Contest, levels: list[int]) -> list[int]:
    """Levels of which each is surely stronger than the one below; the others are dropped, the first and last never."""
    kept, error = list(levels), _ERROR / max(1, 2 * (len(levels) - 1))  # a dropped level brings one more test
    number = 1
    while number < len(kept):
        if contest.surely_stronger(kept[number], kept[number - 1], error) or len(kept) == 2:
            number += 1
        elif number < len(kept) - 1 or number == 1:
            del kept[number]
        else:
            del kept[number - 1]
            number -= 1
    return kept


def measure(label: str, games: int, most: int, seed: int, step: float) -> dict[str, Any]:
    """Play the ladder of a lineup; return its levels as the file holds them."""
    started, lineup = time.monotonic(), LINEUPS[label]
    contest = Contest(lineup, -(-games // lineup.seats), -(-most // lineup.seats), seed)
    size = len(contest.names)
    for a in range(size):
        for b in range(a + 1, min(size, a + 1 + _REACH)):
            contest.meet(a, b)
    levels = choose(contest.elos(range(size)), step)
    for one, other in zip(levels, levels[2:], strict=False):
        contest.meet(one, other)
    levels = confirm(contest, levels)
    for one, other in pairwise(levels):
        contest.meet(one, other)
    by_name = {each.name: each for each in contest.rate(levels).ratings}
    rows = []
    for i in levels:
        each, (text, share) = by_name[contest.names[i]], lineup.candidates[i]
        numbers = {key: round(getattr(each, key), 1) for key in ("elo", "low", "high")}
        rows.append({"agent": text, "blunders": share, **numbers})
    return {
        "game": lineup.game,
        "players": lineup.players,
        "rules": lineup.rules,
        "measured_with": lineup.seats,
        "games_per_pairing": contest.deals * lineup.seats,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "levels": rows,
        "points": np.round(contest.points[np.ix_(levels, levels)], 2).tolist(),
    }


def page(ladders: Sequence[dict[str, Any]]) -> str:
    """Levels as Markdown tables."""
    parts = []
    for each in ladders:
        size = f"{each['players']} players" if each["players"] else "any number of players"
        rows = []
        for number, one in enumerate(each["levels"], 1):
            interval = f"{one['low']:.0f} to {one['high']:.0f}"
            rows.append([number, f"`{one['agent']}`", f"{one['blunders']:.0%}", round(one["elo"]), interval])
        least = f"{each['games_per_pairing']} games per pairing or more"
        parts.append(f"## {each['game']}, {size}, rules {each['rules']}: {least}\n")
        parts += markdown_table(["level", "agent", "at random", "Elo", "95 % interval"], rows)
        parts.append("")
    return "\n".join(parts)


def run(options: argparse.Namespace, command: str) -> None:
    """Play the ladders and write the file."""
    unknown = [label for label in options.only if label not in LINEUPS]
    require(not unknown, "--only", f"some of {', '.join(LINEUPS)}", unknown)
    require(options.step > 0, "--step", "more than 0", options.step)
    require(options.most > 0, "--most", "more than 0", options.most)
    for label in options.only:  # a ladder that is complete is kept, whatever happens to the next one
        found = {"command": command, **measure(label, options.games, options.most, options.seed, options.step)}
        before = json.loads(options.out.read_text())["ladders"] if read_levels(options.out) else []
        place = (found["game"], found["players"])
        ladders = [each for each in before if (each["game"], each["players"]) != place] + [found]
        ladders.sort(key=lambda each: (each["game"], -each["players"]))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, json.dumps({"format": 1, "ladders": ladders}, indent=1) + "\n")
        read_levels.cache_clear()
        print(page([found]), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=400, help="per pairing, rounded up to whole deals (default: 400)")
    parser.add_argument("--most", type=int, default=3000, help="games of a test of neighbours at most (default: 3000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--step", type=float, default=50, help="least Elo between two levels (default: 50)")
    parser.add_argument(
        "--only", nargs="+", default=list(LINEUPS), metavar="NAME", help=f"ladders to play: {', '.join(LINEUPS)}"
    )
    own = OWN / "arena_levels" / FILE.name
    parser.set_defaults(out=own)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help=f"file of levels (default: {own})")
    where.add_argument("--record", dest="out", action="store_const", const=FILE, help="replace the arena's own levels")
    return run_experiment(parser, run, argv, output=False)


if __name__ == "__main__":
    sys.exit(main())
