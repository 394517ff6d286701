"""Skip-Bo duels between all bots: the evaluation that the paper on HPVP proposes but does not carry out.

    python -m experiments.skipbo_duels

Every bot plays every other on the same deals, each deal twice with the seats swapped; seat 0 begins. The number of
games comes from a power analysis. Then every bot plays against itself, which shows the value of beginning, and at
tables of 2 to 6 players. Writes duels.json, duels.md and duels.png; --csv also writes one line per game.

Win rates count a draw (a deadlock) as half and have Wilson and Clopper-Pearson intervals. These treat games as
independent, so duels are tested with McNemar's test, whose unit is the deal. The length of won games is compared
between the two players with the Mann-Whitney test; its effect is the share of pairs of games in which the first player
took longer. Holm's correction is over all tests. Since seat 0 begins, the number of complete rounds before a win is the
winner's number of turns minus one.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import env
from experiments.common.command_line import add_output_options
from muzero import stats
from muzero.matches.ladder import fit_text
from muzero.runs import plot_style
from muzero.runs.markdown import markdown_table
from muzero.runs.plot_style import styled
from muzero.runs.provenance import provenance

HERE = Path(__file__).resolve().parent
BOTS = (
    "random",
    "random_play",
    "greedy",
    "greedy_random_pile",
    "hpvp_first_pile",
    "hpvp_highest_top",
    "hpvp",
    "rules_of_thumb",
    "wild_saver",
)
TABLES = (("hpvp", "greedy"), ("wild_saver", "hpvp"))  # one bot among copies of another
PLAYERS = (2, 3, 4, 5, 6)
ALPHA, POWER = 0.05, 0.8

Row = dict[str, Any]


@dataclass(frozen=True)
class Duel:
    """Games of two bots on D deals; the two games of a deal are adjacent, with a in seat 0 first.

    Attributes:
      points: [2 D] points of a: 1, 0, or 0.5 for a draw.
      turns: [2 D] turns of the winner, 0 for a draw.
      deadlocks: [2 D] whether the game ended in a deadlock.
      completed: [2 D] number of completed building piles.
      decisions: [2 D] number of decisions.
    """

    points: NDArray[np.float64]
    turns: NDArray[np.int32]
    deadlocks: NDArray[np.bool_]
    completed: NDArray[np.int32]
    decisions: NDArray[np.int32]


def duel(a: str, b: str, deals: int, seed: int) -> Duel:
    """Plays each deal twice, with the seats swapped."""
    tables = env.make("skipbo", 1, 2, seed=seed, threads=os.cpu_count() or 1)
    columns = []
    for seat in (0, 1):
        names = (a, b) if seat == 0 else (b, a)
        records = tables.play([tables.bot(name) for name in names], deals, seed=seed)
        if records.truncated.any():
            raise RuntimeError(f"{a} against {b}: a game reached {tables.rules['max_decisions']} decisions")
        winner = records.stats["winner"]
        turns = np.where(winner == 0, records.stats["turns_0"], records.stats["turns_1"])
        columns.append(
            (
                np.where(winner < 0, 0.5, winner == seat),
                np.where(winner < 0, 0, turns),
                records.stats["deadlock"].astype(bool),
                records.stats["completed_piles"],
                records.stats["decisions"],
            )
        )
    return Duel(*(np.stack(pair, 1).reshape(-1) for pair in zip(*columns, strict=True)))


def interval(found: stats.Interval) -> list[float]:
    """Low and high end of an interval."""
    return [round(found.low, 5), round(found.high, 5)]


def rate(points: float, games: int) -> Row:
    """Win rate with both intervals."""
    wilson, exact = stats.wilson(points, games), stats.clopper_pearson(points, games)
    return {
        "rate": round(wilson.estimate, 5),
        "wilson": interval(wilson),
        "clopper_pearson": interval(exact),
        "n": games,
    }


def rounds_to_win(turns: NDArray[np.int32]) -> Row | None:
    """Median and quartiles of the complete rounds before a win."""
    if not len(turns):
        return None
    low, middle, high = np.quantile(turns - 1, [0.25, 0.5, 0.75]).tolist()
    return {"median": middle, "iqr": [low, high], "mean": round(float((turns - 1).mean()), 3), "wins": len(turns)}


def summarize(a: str, b: str, games: Duel) -> Row:
    """Statistics of one duel, with uncorrected p-values."""
    points = games.points
    won, lost = games.turns[points == 1], games.turns[points == 0]
    paired = stats.variance_reduction(points)
    row: Row = {
        "a": a,
        "b": b,
        **rate(float(points.sum()), len(points)),
        "wins": int((points == 1).sum()),
        "draws": int((points == 0.5).sum()),
        "losses": int((points == 0).sum()),
        "p": stats.mcnemar_deals(points).p_value,
        "start": round(paired.seat_effect, 5),
        "correlation": round(paired.correlation, 4),
        "rounds_a": rounds_to_win(won),
        "rounds_b": rounds_to_win(lost),
        "deadlocks": round(float(games.deadlocks.mean()), 5),
        "completed_piles": round(float(games.completed.mean()), 3),
        "decisions": round(float(games.decisions.mean()), 2),
        "games_needed": None,
        "turns_p": None,
        "turns_effect": None,
    }
    if 0 < row["rate"] < 1 and row["rate"] != 0.5:
        row["games_needed"] = stats.sample_size_of_match(row["rate"], alpha=ALPHA, power=POWER).total
    if len(won) and len(lost):
        test = stats.mann_whitney(won, lost)
        row |= {"turns_p": test.p_value, "turns_effect": round(test.effect, 5)}
    return row


def correct(rows: list[Row]) -> int:
    """Adds Holm's p-values over all tests of all duels; returns the number of tests."""
    tests = [(row, name) for row in rows for name in ("p", "turns_p") if row[name] is not None]
    for (row, name), adjusted in zip(tests, stats.holm([row[name] for row, name in tests]).adjusted, strict=True):
        row[f"{name}_holm"] = adjusted
    return len(tests)


def against_itself(name: str, players: int, games: int, seed: int) -> Row:
    """Win rate by seat and statistics of games if all seats are taken by the same bot."""
    tables = env.make("skipbo", 1, players, seed=seed, threads=os.cpu_count() or 1)
    records = tables.play([tables.bot(name)] * players, games, seed=seed)
    winner, counts = records.stats["winner"], records.stats
    draws = int((winner < 0).sum())
    return {
        "bot": name,
        "players": players,
        "seats": [rate(int((winner == seat).sum()) + draws / players, games) for seat in range(players)],
        "deadlocks": round(float(counts["deadlock"].mean()), 5),
        "rounds": rounds_to_win(np.stack([counts[f"turns_{seat}"] for seat in range(players)]).max(0)[winner >= 0]),
        "decisions": round(float(counts["decisions"].mean()), 2),
        "reshuffles": round(float(counts["reshuffles"].mean()), 3),
    }


def one_among(one: str, others: str, players: int, games: int, seed: int) -> Row:
    """Win rate of one bot at a table of others, on the same deals in every seat."""
    tables = env.make("skipbo", 1, players, seed=seed, threads=os.cpu_count() or 1)
    points, deadlocks, each = 0.0, 0, games // players
    for seat in range(players):
        bots = [tables.bot(others)] * players
        bots[seat] = tables.bot(one)
        counts = tables.play(bots, each, seed=seed).stats
        points += float((counts["winner"] == seat).sum() + (counts["winner"] < 0).sum() / players)
        deadlocks += int(counts["deadlock"].sum())
    total = each * players
    return {"one": one, "others": others, "players": players, **rate(points, total), "deadlocks": deadlocks / total}


def deals_wanted(difference: float) -> int:
    """Deals per duel by power analysis, to distinguish 1/2 + difference from 1/2 after correction for all tests."""
    tests = len(BOTS) * (len(BOTS) - 1)  # two tests for each pair
    return -(-stats.sample_size_of_match(0.5 + difference, alpha=ALPHA / tests, power=POWER).total // 2)


def play_all(deals: int, seed: int, keep: dict[tuple[str, str], Duel] | None = None) -> Row:
    """Plays all duels, self-play and larger tables; the games of the duels are stored in `keep`."""
    duels = []
    for a, b in combinations(BOTS, 2):
        games = duel(b, a, deals, seed)  # the supposedly stronger bot first
        duels.append(summarize(b, a, games))
        if keep is not None:
            keep[b, a] = games
    tests = correct(duels)
    points = np.zeros((len(BOTS), len(BOTS)))
    for row in duels:
        i, j = BOTS.index(row["a"]), BOTS.index(row["b"])
        points[i, j], points[j, i] = row["wins"] + row["draws"] / 2, row["losses"] + row["draws"] / 2
    ladder = stats.ladder(BOTS, points, anchor="hpvp")
    count = 2 * deals
    return {
        "deals": deals,
        "tests": tests,
        "duels": duels,
        "ladder": [
            {"bot": r.name, "elo": round(r.elo, 1), "ci": [round(r.low, 1), round(r.high, 1)]} for r in ladder.ratings
        ],
        "fit": fit_text(ladder),
        "itself": [against_itself(name, 2, count, seed) for name in BOTS],
        "seats": [against_itself("hpvp", players, count, seed) for players in PLAYERS],
        "one_among": [one_among(*pair, players, count, seed) for pair in TABLES for players in PLAYERS],
    }


# ---- page, plot and table of games -----------------------------------------------------------------------------------


def p_text(p: float | None) -> str:
    """p-value as text."""
    return "-" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def rate_text(row: Row) -> str:
    """Win rate with its Wilson interval, as text."""
    return f"{row['rate']:.4f} [{row['wilson'][0]:.4f}, {row['wilson'][1]:.4f}]"


def rounds_text(row: Row | None) -> str:
    """Median and quartiles, as text."""
    return f"{row['median']:.0f} ({row['iqr'][0]:.0f}-{row['iqr'][1]:.0f})" if row else "-"


def markdown(result: Row, difference: float, command: str) -> str:
    """The results as a page of Markdown."""
    deals, tests = result["deals"], result["tests"]
    lines = [
        "# Skip-Bo: duels of bots",
        "",
        f"    {command}",
        "",
        f"Stock 30, {deals:,} deals per duel, each played twice with the seats swapped: enough to tell a win rate of",
        f"{0.5 + difference:g} from 1/2 with power {POWER} at level {ALPHA} / {len(BOTS) * (len(BOTS) - 1)}. A draw"
        " counts as half; 95 % Wilson intervals",
        f"(Clopper-Pearson in duels.json). p is Holm's over {tests} tests: McNemar's of the win rate,",
        "Mann-Whitney's of the rounds to win. Rounds are complete rounds before a win, median (quartiles), of the",
        "games that the player won; the effect is the share of pairs of games in which a took longer to win than b.",
        "",
        "## Duels",
        "",
    ]
    cells = [
        [
            f"`{row['a']}`",
            f"`{row['b']}`",
            rate_text(row),
            p_text(row["p_holm"]),
            f"{row['deadlocks']:.4f}",
            f"{row['start']:+.4f}",
            rounds_text(row["rounds_a"]),
            rounds_text(row["rounds_b"]),
            p_text(row.get("turns_p_holm")),
            "-" if row["turns_effect"] is None else f"{row['turns_effect']:.3f}",
        ]
        for row in result["duels"]
    ]
    titles = ["a", "b", "a wins", "p", "deadlocks", "start", "rounds of a", "of b", "p", "effect"]
    lines += markdown_table(titles, cells, "llcrrrccrr")
    ladder = [
        [f"`{row['bot']}`", f"{row['elo']:+.0f}", f"[{row['ci'][0]:+.0f}, {row['ci'][1]:+.0f}]"]
        for row in result["ladder"]
    ]
    lines += [
        "",
        "start: win rate of a when it begins, minus its win rate when b begins.",
        "",
        "## Ladder",
        "",
        *markdown_table(["player", "Elo", "95 % interval"], ladder, "lrc"),
        "",
        result["fit"],
        "",
        "## Against itself: the value of beginning",
        "",
    ]
    cells = [
        [
            f"`{row['bot']}`",
            rate_text(row["seats"][0]),
            f"{row['deadlocks']:.4f}",
            rounds_text(row["rounds"]),
            f"{row['decisions']:.0f}",
            f"{row['reshuffles']:.2f}",
        ]
        for row in result["itself"]
    ]
    titles = ["player", "beginner wins", "deadlocks", "rounds to win", "decisions", "reshuffles"]
    lines += markdown_table(titles, cells, "lcrcrr")
    lines += [
        "",
        "## More players",
        "",
        "Win rate by seat if all players are `hpvp` (stock 30 for 2 to 4 players, 20 for 5 and 6):",
        "",
    ]
    cells = []
    for row in result["seats"]:
        seats = [f"{seat['rate']:.4f}" for seat in row["seats"]] + [""] * (6 - row["players"])
        cells.append([str(row["players"]), *seats, f"{row['deadlocks']:.4f}", rounds_text(row["rounds"])])
    titles = ["players", *(f"seat {seat}" for seat in range(6)), "deadlocks", "rounds to win"]
    lines += markdown_table(titles, cells, "r" + "c" * 6 + "rc")
    lines += ["", "One player among others, equally often in every seat:", ""]
    cells = [
        [
            f"`{row['one']}`",
            f"`{row['others']}`",
            str(row["players"]),
            rate_text(row),
            f"{1 / row['players']:.4f}",
            f"{row['deadlocks']:.4f}",
        ]
        for row in result["one_among"]
    ]
    lines += markdown_table(["one", "others", "players", "wins", "if all were equal", "deadlocks"], cells, "llrcrr")
    return "\n".join(lines) + "\n"


@styled
def draw(result: Row) -> Figure:
    """Figure with the win rates of all duels and the number of rounds before a win."""
    figure = plot_style.new_figure(plot_style.PAGE, 3.4)
    matrix, spread = figure.subplots(1, 2)
    bots = [bot for bot in BOTS if any(bot in (row["a"], row["b"]) for row in result["duels"])]
    rates = np.full((len(bots), len(bots)), np.nan)
    for row in result["duels"]:
        i, j = bots.index(row["a"]), bots.index(row["b"])
        rates[i, j], rates[j, i] = row["rate"], 1 - row["rate"]
    plot_style.draw_matrix(matrix, rates, digits=2)
    matrix.set(title="win rate of the row against the column", xticks=range(len(bots)), yticks=range(len(bots)))
    matrix.set_xticklabels(bots, rotation=45, ha="right")
    matrix.set_yticklabels(bots)
    played = [row for row in result["itself"] if row["deadlocks"] < 0.5]
    for place, row in enumerate(played):
        low, high = row["rounds"]["iqr"]
        texts = ("quartiles", "median") if not place else (None, None)
        spread.plot([low, high], [place, place], color=plot_style.SERIES[0], linewidth=2.5, alpha=0.5, label=texts[0])
        spread.plot(row["rounds"]["median"], place, "o", color=plot_style.SERIES[0], label=texts[1])
    spread.set(title="games against itself", yticks=range(len(played)), xlabel="rounds to win")
    spread.set_yticklabels([row["bot"] for row in played])
    spread.set_xlim(left=0)
    spread.invert_yaxis()
    spread.grid(visible=False, axis="y")
    plot_style.legend_below(figure, [spread])
    return figure


def csv_rows(games: dict[tuple[str, str], Duel], seed: int) -> Iterator[list[Any]]:
    """Rows of a CSV file, one per game; seed, deal and seats determine the game completely."""
    yield ["a", "b", "seed", "deal", "seat_of_a", "points_of_a", "winners_turns", "completed_piles", "decisions"]
    for (a, b), duel in games.items():
        columns = zip(duel.points, duel.turns, duel.completed, duel.decisions, strict=True)
        for i, (points, *counts) in enumerate(columns):
            yield [a, b, seed, i // 2, i % 2, f"{points:g}", *counts]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the command: plays the games and writes the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--difference", type=float, default=0.01, help="difference from a win rate of 1/2 to detect (default: 0.01)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--csv", type=Path, help="file for one line per game of the duels (default: none)")
    add_output_options(parser, "skipbo_duels")
    args = parser.parse_args(argv)
    if not 0 < args.difference < 0.5:
        parser.error("--difference must be between 0 and 0.5")

    command = f"python -m experiments.skipbo_duels --difference {args.difference:g} --seed {args.seed}"
    games: dict[tuple[str, str], Duel] = {}
    result = play_all(deals_wanted(args.difference), args.seed, games if args.csv else None)
    page = markdown(result, args.difference, command)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "duels.json").write_text(json.dumps({"command": command, **result}, indent=1) + "\n")
    (args.out / "provenance.json").write_text(json.dumps(provenance(), indent=1) + "\n")  # the others: same bytes
    (args.out / "duels.md").write_text(page)
    plot_style.save_figure(draw(result), args.out / "duels")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows(csv_rows(games, args.seed))
    print(page)


if __name__ == "__main__":
    main()
