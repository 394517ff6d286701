"""Results of the arena's games, and the ratings of people and agents that follow from them.

Players are rated apart for each game, number of players and rule set, by the Bradley-Terry model of
`muzero.stats.ratings`. A game of several players is one result for each pair of them, all pairs together counting as
much for a player as one game of two. Levels bring the games of their calibration along, so that a person's first games
have a yardstick.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from muzero.stats.ratings import ladder

if TYPE_CHECKING:
    from muzero.arena.levels import LevelLadder

MOST_RESULTS = 10_000  # results that ratings and exports look at
_MOST_RATED = 200  # players of a table, those with most games: a rating is found by solving for all together

Player = tuple[str, bool]
"""Name, and whether it is a person: somebody may call himself as an agent is called."""
Kind = tuple[str, int, str]
"""Game, number of players and rule set: tables at which results can be compared."""


def result_of(names: Sequence[str], people: Sequence[bool], scores: Sequence[int], ranks: Sequence[int]) -> list[Any]:
    """Seats of a finished game as they are stored."""
    return [
        {"name": name, "person": person, "score": score, "rank": rank}
        for name, person, score, rank in zip(names, people, scores, ranks, strict=True)
    ]


def ratings(results: Iterable[dict[str, Any]], ladders: Sequence[LevelLadder] = ()) -> list[dict[str, Any]]:
    """Tables of ratings, one per kind of table at which somebody was rated, the strongest player first."""
    pairs: dict[Kind, dict[tuple[Player, Player], float]] = defaultdict(lambda: defaultdict(float))
    played: dict[Kind, dict[Player, int]] = defaultdict(lambda: defaultdict(int))
    for result in results:
        seats, table = result["seats"], (result["game"], len(result["seats"]), rule_set(result))
        if not result["rated"]:
            continue
        for seat in seats:
            played[table][_player(seat)] += 1
        for one in seats:
            for other in seats:
                share = 1.0 if one["rank"] < other["rank"] else 0.5 if one["rank"] == other["rank"] else 0.0
                if _player(one) != _player(other):
                    pairs[table][_player(one), _player(other)] += share / (len(seats) - 1)
    return [_table(table, pairs[table], played[table], ladders) for table in sorted(pairs) if pairs[table]]


def rule_set(result: dict[str, Any]) -> str:
    """Rule set of a result; older ones do not say, and were by the official one."""
    return str(result.get("rules", "official"))


def _player(seat: dict[str, Any]) -> Player:
    return seat["name"], seat["person"]


def _table(
    table: Kind,
    pairs: dict[tuple[Player, Player], float],
    played: dict[Player, int],
    ladders: Sequence[LevelLadder],
) -> dict[str, Any]:
    """Ratings at one kind of table: of those whom games connect with the one who has played most."""
    game, players, rules = table
    known = set(sorted(played, key=lambda player: -played[player])[:_MOST_RATED])
    points = {pair: share for pair, share in pairs.items() if set(pair) <= known}
    measured = [each for each in ladders if (each.game, each.measured_with, each.rules) == table]
    for each in sorted(measured, key=lambda each: -each.players)[:1]:  # levels made for this table come before others
        names = [(level.name, False) for level in each.levels]
        known |= set(names)
        for i, row in enumerate(each.points):
            for j, share in enumerate(row):
                if i != j:
                    points[names[i], names[j]] = points.get((names[i], names[j]), 0.0) + share
    order = sorted(known)
    index = {player: number for number, player in enumerate(order)}
    matrix = np.zeros((len(order), len(order)))
    for (one, other), share in points.items():
        matrix[index[one], index[other]] += share
    group = connected_components(matrix + matrix.T > 0, directed=False)[1]
    centre = max(order, key=lambda player: played.get(player, 0))
    linked = np.flatnonzero(group == group[index[centre]])
    rated = [order[i] for i in linked]
    if len(rated) < 2:
        return {"game": game, "players": players, "rules": rules, "anchor": "", "ratings": []}
    first = next((player for player in rated if player == ("Level 1", False)), None)
    anchor = first or max((player for player in rated if not player[1]), key=lambda p: played.get(p, 0), default=centre)
    labels = [f"{'person' if person else 'agent'} {name}" for name, person in rated]
    found = ladder(labels, matrix[np.ix_(linked, linked)], labels[rated.index(anchor)])
    back = dict(zip(labels, rated, strict=True))
    rows = [
        {
            "name": back[each.name][0],
            "person": back[each.name][1],
            "elo": round(each.elo),
            "low": round(each.low),
            "high": round(each.high),
            "games": played.get(back[each.name], 0),
        }
        for each in found.ratings
    ]
    return {"game": game, "players": players, "rules": rules, "anchor": anchor[0], "ratings": rows}


def as_csv(results: Iterable[dict[str, Any]]) -> str:
    """Results as a table for spreadsheets, one line per seat; names cannot be taken for formulas."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["finished", "game", "players", "rules", "rated", "seat", "name", "person", "score", "rank"])
    for result in results:
        for number, seat in enumerate(result["seats"]):
            name = f"'{seat['name']}" if seat["name"][:1] in ("=", "+", "-", "@") else seat["name"]
            row = [result["finished"], result["game"], len(result["seats"]), rule_set(result), int(result["rated"])]
            writer.writerow([*row, number, name, int(seat["person"]), seat["score"], seat["rank"]])
    return text.getvalue()
