"""The L.A.M.A. study of Romero Marimon (2022): Tables I to IV and the third strategy, from the C++ simulator.

    python experiments/lama_tables.py

Everybody plays the same strategy under rules="report"; every number stands beside the published one, with its
distance in combined standard errors (z). Then one player with strategy 3 sits among three with another, at every
seat in a quarter of the games, which stands for the random order of the study. Writes tables.json and tables.md.

Intervals of shares are Wilson's. All who have the fewest points win a game, so the shares add up to more than one. A
round counts as one trial, although the rounds of a game depend on each other a little: its players stay where they are.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import env

HERE = Path(__file__).resolve().parent
SHARES = ("p_win_game", "p_win_round", "p_more_than_30")

Row = dict[str, Any]


def share(successes: int, trials: int) -> Row:
    """A share of trials with its Wilson interval."""
    interval = binomtest(successes, trials).proportion_ci(0.95, "wilson")
    return {
        "value": round(successes / trials, 5),
        "ci": [round(float(interval.low), 5), round(float(interval.high), 5)],
        "n": trials,
    }


def distance_of_shares(ours: Row, published: float, trials: float) -> float:
    """Our share minus a published one of so many trials, in combined standard errors."""
    pooled = (ours["value"] * ours["n"] + published * trials) / (ours["n"] + trials)
    error = math.sqrt(pooled * (1 - pooled) * (1 / ours["n"] + 1 / trials))
    return round((ours["value"] - published) / error, 2)


def winners(scores: NDArray[np.int32]) -> NDArray[np.bool_]:
    """scores [games, P] -> all who have the fewest points."""
    return np.asarray(scores == scores.min(axis=1, keepdims=True))


def self_play(strategy: str, players: int, games: int, seed: int) -> tuple[list[Row], Row]:
    """The columns of a published table, player by player, and what is the same for all."""
    tables = env.make("lama", 1, players, rules="report", seed=seed, threads=os.cpu_count() or 1)
    records = tables.play([tables.bot(strategy)] * players, games, seed=seed)
    whole = ~records.truncated
    scores, rounds = records.scores[whole], int(records.stats["rounds"][whole].sum())
    won, played = winners(scores), len(scores)
    rows = []
    for seat in range(players):
        points = scores[:, seat]
        error = float(points.std(ddof=1)) / math.sqrt(played)
        mean = float(points.mean())
        rows.append(
            {
                "player": seat + 1,
                "p_win_game": share(int(won[:, seat].sum()), played),
                "p_win_round": share(int(records.stats[f"rounds_won_{seat}"][whole].sum()), rounds),
                "p_more_than_30": share(int((points > 30).sum()), played),
                "mean_points": {
                    "value": round(mean, 4),
                    "ci": [round(mean - 1.96 * error, 4), round(mean + 1.96 * error, 4)],
                    "std": round(float(points.std(ddof=1)), 4),
                    "n": played,
                },
            }
        )
    aborted = int(records.stats["aborted"].sum())
    return rows, {"rounds_per_game": round(rounds / played, 4), "aborted": aborted}


def compare(rows: list[Row], common: Row, published: Row, games: int) -> None:
    """Adds the published number and the distance from it to every cell."""
    for ours, line in zip(rows, published["rows"], strict=True):
        _, *numbers = line
        for name, number in zip((*SHARES, "mean_points"), numbers, strict=True):
            cell = ours[name]
            if name == "mean_points":
                z = (cell["value"] - number) / (cell["std"] * math.sqrt(1 / cell["n"] + 1 / games))
                cell |= {"published": number, "z": round(z, 2)}
            else:
                trials = games * (common["rounds_per_game"] if name == "p_win_round" else 1)
                cell |= {"published": number, "z": distance_of_shares(cell, number, trials)}


def one_against_three(others: str, parameters: Sequence[float], games: int, seed: int, published: Row) -> Row:
    """How often strategy 3 is among the winners, each seat a quarter of the games."""
    tables = env.make("lama", 1, 4, rules="report", seed=seed, threads=os.cpu_count() or 1)
    values = ",".join(f"{name}={value}" for name, value in zip("ABCD", parameters, strict=True))
    won, played = 0, 0
    for seat in range(4):
        bots = [tables.bot(others)] * 4
        bots[seat] = tables.bot(f"strategy_3({values})")
        records = tables.play(bots, games // 4, first_deal=seat * (games // 4), seed=seed)
        whole = ~records.truncated
        won += int(winners(records.scores[whole])[:, seat].sum())
        played += int(whole.sum())
    ours = share(won, played)
    return {**ours, "published": published["p_win_game"], "published_ci": published["ci"]}


def study(games: int, seed: int, published: Row) -> Row:
    """All tables; each has its own deals."""
    result: Row = {"tables": {}, "one_against_three": {}}
    for number, (name, table) in enumerate(published["tables"].items()):
        rows, common = self_play(table["strategy"], table["players"], games, seed + number)
        compare(rows, common, table, published["games"])
        result["tables"][name] = {"strategy": table["strategy"], "players": table["players"], **common, "rows": rows}
    section = published["one_against_three"]
    for number, others in enumerate(("strategy_1", "strategy_2")):
        row = one_against_three(others, section["parameters"], games, seed + 10 + number, section[others])
        row["z"] = distance_of_shares(row, row["published"], published["games"])
        result["one_against_three"][others] = row
    return result


def markdown(result: Row, games: int, command: str) -> str:
    """The study as a page."""

    def cells(cell: Row, digits: int) -> list[str]:
        low, high = cell["ci"]
        ours = f"{cell['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
        return [ours, f"{cell['published']:.3f}", f"{cell['z']:+.1f}"]

    lines = [
        "# L.A.M.A.: the published tables",
        "",
        f"    {command}",
        "",
        f"{games:,} games per table, rules `report`, everybody with the same strategy; published: 10,000 games.",
        "Shares have 95 % Wilson intervals; z is ours minus the published number in combined standard errors.",
    ]
    names = ("wins the game", "wins a round", "more than 30 points", "mean points")
    for name, table in result["tables"].items():
        lines += [
            "",
            f"## Table {name}: `{table['strategy']}`, {table['players']} players",
            "",
            "| player | " + " | ".join(f"{column} | published | z" for column in names) + " |",
            "|--:|" + ":-:|--:|--:|" * len(names),
        ]
        for row in table["rows"]:
            parts = [str(row["player"])]
            for column in (*SHARES, "mean_points"):
                parts += cells(row[column], 2 if column == "mean_points" else 3)
            lines.append(f"| {' | '.join(parts)} |")
        lines += ["", f"{table['rounds_per_game']:.2f} rounds per game; {table['aborted']} games aborted."]
    lines += [
        "",
        "## Strategy 3 among three others",
        "",
        "| the others | wins the game | published | z |",
        "|---|:-:|--:|--:|",
    ]
    for others, row in result["one_against_three"].items():
        lines.append(f"| `{others}` | {' | '.join(cells(row, 3))} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and writes its two files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", type=int, default=100_000, help="per table (default: 100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the deals (default: 0)")
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE / "results" / "lama_tables",
        help="directory for the results (default: experiments/results/lama_tables)",
    )
    args = parser.parse_args(argv)
    if args.games < 4:
        parser.error("--games must be at least 4")

    command = f"python experiments/lama_tables.py --games {args.games} --seed {args.seed}"
    published = json.loads((HERE / "data" / "lama_tables.json").read_text())
    result = study(args.games, args.seed, published)
    page = markdown(result, args.games, command)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tables.json").write_text(json.dumps({"command": command, **result}, indent=1) + "\n")
    (args.out / "tables.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
