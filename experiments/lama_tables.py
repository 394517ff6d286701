"""The L.A.M.A. study of Romero Marimon (2022): its tables, its figures and its third strategy, from the C++ simulator.

    python -m experiments.lama_tables

Tables I to IV: all players use the same strategy under rules="report"; every number is compared with the published one,
with the difference in combined standard errors (z). Figures 1 to 8: 2 to 8 players, games to 40 and to 5,000 points,
and one player with strategy 1 after others with strategy 2; the report prints no numbers for them. Then one player with
strategy 3 plays against three others, in every seat in a quarter of the games (the report seats players at random),
first with the published parameters, then with parameters found by successive halving and confirmed on new deals. Writes
tables.json, tables.md and figures.png.

Intervals of shares are Wilson's. All players with the fewest points win a game, so the shares add up to more than one.
A round counts as one independent trial, although the rounds of a game depend on each other a little, because seats are
fixed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import env
from experiments.common.command_line import add_output_options
from muzero.runs import plot_style
from muzero.runs.markdown import markdown_table
from muzero.runs.plot_style import styled
from muzero.runs.provenance import provenance

HERE = Path(__file__).resolve().parent
SHARES = ("p_win_game", "p_win_round", "p_more_than_30")
PLAYERS = range(2, 9)  # numbers of players in the figures
LONG = 5000  # points that end the long games of Figure 2
BOX = ((5, 20), (1, 15), (2, 7), (0.2, 2))  # ranges of A, B, C, D that the report searched
CANDIDATES = 512
ETA = 4  # each rung keeps one of ETA candidates, and plays ETA times the games

Row = dict[str, Any]
Parameters = tuple[float, ...]


def share(successes: int, trials: int) -> Row:
    """Share of successful trials with its Wilson interval."""
    interval = binomtest(successes, trials).proportion_ci(0.95, "wilson")
    return {
        "value": round(successes / trials, 5),
        "ci": [round(float(interval.low), 5), round(float(interval.high), 5)],
        "n": trials,
    }


def distance_of_shares(ours: Row, published: float, trials: float) -> float:
    """Difference of our share and a published one (of `trials` trials), in combined standard errors."""
    pooled = (ours["value"] * ours["n"] + published * trials) / (ours["n"] + trials)
    error = math.sqrt(pooled * (1 - pooled) * (1 / ours["n"] + 1 / trials))
    difference: float = ours["value"] - published
    return round(difference / error, 2)


def winners(scores: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Winners [games, P] from scores [games, P]: all players with the fewest points."""
    return np.asarray(scores == scores.min(axis=1, keepdims=True))


def make_table(players: int, seed: int, **options: Any) -> env.VecEnv:
    """A table with the rules of the report."""
    return env.make("lama", 1, players, rules={"preset": "report"} | options, seed=seed, threads=os.cpu_count() or 1)


def self_play(strategies: Sequence[str], games: int, seed: int, **options: Any) -> tuple[list[Row], Row]:
    """Columns of a published table for each player, and the numbers that all players share."""
    players = len(strategies)
    tables = make_table(players, seed, **options)
    records = tables.play([tables.bot(strategy) for strategy in strategies], games, seed=seed)
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
    """Adds the published number and the distance (z) to every cell."""
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


def figures(games: int, seed: int) -> list[Row]:
    """Data of Figures 1 to 8: shares and points by seat and rounds per game, by setting and number of players."""
    settings: list[tuple[str, list[str], int]] = []
    for players in PLAYERS:
        for strategy in ("strategy_1", "strategy_2"):
            settings.append((strategy, [strategy] * players, 40))
        settings.append(("strategy_1_last", ["strategy_2"] * (players - 1) + ["strategy_1"], 40))
    settings += [("strategy_1", ["strategy_1"] * players, LONG) for players in (2, 3)]
    rows = []
    for number, (name, strategies, target) in enumerate(settings):
        played = games if target == 40 else max(games // 100, 4)  # long games have a hundred times the rounds
        seats, common = self_play(strategies, played, seed + number, target=target, max_decisions=1_000_000)
        by_seat = {name: [seat[name] for seat in seats] for name in ("p_win_game", "mean_points")}
        rows.append({"setting": name, "players": len(strategies), "target": target, **by_seat, **common})
    return rows


def wins_of_third(others: str, parameters: Parameters, games: int, seed: int, first: int = 0) -> NDArray[np.float64]:
    """Wins (1 or 0) of strategy 3 game by game, a quarter of them in each seat; NaN where a game was aborted.

    The deals depend on `seed` and `first` only, not on the parameters.
    """
    tables = make_table(4, seed)
    values = ",".join(f"{name}={value}" for name, value in zip("ABCD", parameters, strict=True))
    won = []
    for seat in range(4):
        bots = [tables.bot(others)] * 4
        bots[seat] = tables.bot(f"strategy_3({values})")
        records = tables.play(bots, games // 4, first_deal=first + seat * (games // 4), seed=seed)
        won.append(np.where(records.truncated, np.nan, winners(records.scores)[:, seat]))
    return np.concatenate(won)


def of_finished(won: NDArray[np.float64]) -> Row:
    """Share of games won among those that were not aborted."""
    return share(int(np.nansum(won)), int((~np.isnan(won)).sum()))


def folds(parameters: Parameters) -> bytes:
    """Situations in which strategy 3 folds, as bits; parameters with equal bits are the same player."""
    a, b, c, d = parameters
    kinds, points, fewest = np.ogrid[1:8, 1:121, 1:41]
    return bytes(np.packbits(np.where(kinds == 1, -a, b * kinds) + (points - c) + d * fewest <= 0))


def search(games: int, seed: int, published: Parameters) -> Row:
    """Searches parameters for strategy 3 against three players with strategy 1, by successive halving.

    All candidates of a rung play the same deals. Each rung has new deals, and so has the confirmation of the winner, so
    that luck during the search does not bias its result.

    Args:
      games: games of the confirmation; each rung plays about a quarter of them in all.
      seed: seed of candidates and deals.
      published: parameters of the report, one of the candidates.
    """
    rng = np.random.default_rng(seed)
    low, high = np.array(BOX).T
    drawn = [published, *(tuple(point.round(3).tolist()) for point in rng.uniform(low, high, (CANDIDATES - 1, 4)))]
    different = {folds(parameters): parameters for parameters in reversed(drawn)}
    field = [parameters for parameters in drawn if different[folds(parameters)] == parameters]
    rungs, first = [], 0
    while len(field) > 1:
        each = max(games // len(field) // 16, 1) * 4
        played = [wins_of_third("strategy_1", parameters, each, seed, first) for parameters in field]
        rates = np.array([np.nanmean(won) for won in played])
        first += each
        keep = np.argsort(-rates, kind="stable")[: max(len(field) // ETA, 1)]
        rungs.append({"candidates": len(field), "games": each, "best": round(float(rates.max()), 5)})
        field = [field[i] for i in keep]
    tuned = field[0]
    ours, theirs = (wins_of_third("strategy_1", parameters, games, seed, first) for parameters in (tuned, published))
    gain = (ours - theirs)[~np.isnan(ours - theirs)]
    error = float(gain.std(ddof=1)) / math.sqrt(len(gain))
    return {
        "different": len(different),
        "rungs": rungs,
        "parameters": tuned,
        "confirmed": of_finished(ours),
        "published_parameters": of_finished(theirs),
        "gain": {
            "value": round(float(gain.mean()), 5),
            "ci": [round(float(gain.mean()) + side * 1.96 * error, 5) for side in (-1, 1)],
        },
    }


def play_all(games: int, figure_games: int, seed: int, published: Row) -> Row:
    """Plays all tables, the search and the figures; each table has its own deals."""
    result: Row = {"tables": {}, "one_against_three": {}}
    for number, (name, table) in enumerate(published["tables"].items()):
        rows, common = self_play([table["strategy"]] * table["players"], games, seed + number)
        compare(rows, common, table, published["games"])
        result["tables"][name] = {"strategy": table["strategy"], "players": table["players"], **common, "rows": rows}
    section = published["one_against_three"]
    for number, others in enumerate(("strategy_1", "strategy_2")):
        won = wins_of_third(others, tuple(section["parameters"]), games, seed + 10 + number)
        row = of_finished(won)
        row |= {"published": section[others]["p_win_game"], "published_ci": section[others]["ci"]}
        row["z"] = distance_of_shares(row, row["published"], published["games"])
        result["one_against_three"][others] = row
    result["search"] = search(games, seed + 20, tuple(section["parameters"]))
    result["figures"] = figures(figure_games, seed + 30)
    return result


def agreement(tables: Row) -> str:
    """Sentence about the number of published values outside 99 % intervals, one by one and simultaneously."""
    found = [
        (abs(row[column]["z"]), f"Table {name}, player {row['player']}, {column}")
        for name, table in tables.items()
        for row in table["rows"]
        for column in (*SHARES, "mean_points")
    ]
    alone, together = (float(norm.isf(0.005 / tests)) for tests in (1, len(found)))
    beyond = sum(z > alone for z, _ in found)
    largest, where = max(found)
    return (
        f"Of {len(found)} numbers {beyond} are beyond their combined 99 % interval (|z| > {alone:.2f}; about "
        f"{0.01 * len(found):.1f} would be by chance), {sum(z > together for z, _ in found)} beyond that for all "
        f"numbers at once (|z| > {together:.2f}). The farthest: {where}, |z| = {largest:.2f}."
    )


def markdown(result: Row, games: int, command: str) -> str:
    """The results as a page of Markdown."""

    def cells(cell: Row, digits: int) -> list[str]:
        return [interval_text(cell, digits), f"{cell['published']:.3f}", f"{cell['z']:+.1f}"]

    lines = [
        "# L.A.M.A.: the published tables",
        "",
        f"    {command}",
        "",
        f"{games:,} games per table, rules `report`, all players with the same strategy; published: 10,000 games.",
        "Shares have 95 % Wilson intervals; z is ours minus the published number in combined standard errors.",
        "",
        agreement(result["tables"]),
    ]
    names = ("wins the game", "wins a round", "more than 30 points", "mean points")
    for name, table in result["tables"].items():
        lines += [
            "",
            f"## Table {name}: `{table['strategy']}`, {table['players']} players",
            "",
        ]
        rows = []
        for row in table["rows"]:
            rows.append([row["player"]])
            for column in (*SHARES, "mean_points"):
                rows[-1] += cells(row[column], 2 if column == "mean_points" else 3)
        titles = ["player", *(title for column in names for title in (column, "published", "z"))]
        lines += markdown_table(titles, rows, "r" + "crr" * len(names))
        lines += ["", f"{table['rounds_per_game']:.2f} rounds per game; {table['aborted']} games aborted."]
    lines += ["", "## Strategy 3 among three others", ""]
    rows = [[f"`{others}`", *cells(row, 3)] for others, row in result["one_against_three"].items()]
    lines += markdown_table(["the others", "wins the game", "published", "z"], rows, "lcrr")
    return "\n".join(lines + search_lines(result["search"]) + figure_lines(result["figures"])) + "\n"


def interval_text(cell: Row, digits: int) -> str:
    """Number with its interval, as text."""
    low, high = cell["ci"]
    return f"{cell['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def search_lines(found: Row) -> list[str]:
    """Section of the page about the search."""
    parameters = ", ".join(f"{value:g}" for value in found["parameters"])
    lines = [
        "",
        "## Parameters for strategy 3",
        "",
        f"Successive halving over {CANDIDATES} points of the report's box, the published one among them, against",
        f"three players with `strategy_1`; {found['different']} of them fold in different situations. All candidates",
        "of a rung play the same deals; every rung has new ones, and so has the confirmation.",
        "",
    ]
    rungs = [[rung["candidates"], f"{rung['games']:,}", f"{rung['best']:.4f}"] for rung in found["rungs"]]
    confirmed = [
        [f"found: {parameters}", interval_text(found["confirmed"], 4)],
        ["published", interval_text(found["published_parameters"], 4)],
        ["difference, deal by deal", interval_text(found["gain"], 4)],
    ]
    lines += markdown_table(["candidates", "games each", "the best of them seemed to win"], rungs, "rrr")
    return [*lines, "", *markdown_table(["A, B, C, D", "wins, on deals not used in the search"], confirmed, "lc")]


def figure_lines(rows: list[Row]) -> list[str]:
    """Section of the page with the data of the figures."""
    seats = max(PLAYERS)
    lines = [
        "",
        "## Figures 1 to 8",
        "",
        "![share of games won, points and rounds](figures.png)",
        "",
        "Share of games won by seat (`strategy_1_last`: all others play `strategy_2`) and rounds a game:",
        "",
    ]
    cells = []
    for row in rows:
        shares = [f"{cell['value']:.3f}" for cell in row["p_win_game"]]
        shares += [""] * (seats - len(shares))
        cells.append([f"`{row['setting']}`", row["players"], f"{row['target']:,}", *shares])
        cells[-1].append(f"{row['rounds_per_game']:.2f}")
    titles = ["setting", "players", "to", *(f"seat {seat + 1}" for seat in range(seats)), "rounds"]
    return [*lines, *markdown_table(titles, cells)]


@styled
def draw(rows: list[Row]) -> Figure:
    """Eight figures of the report, as panels; points have 95 % intervals."""
    page = plot_style.new_figure(plot_style.PAGE, 7.2)
    panels = iter(page.subplots(4, 2).flat)

    def by_seat(axes: Axes, title: str, setting: str, name: str, players: Sequence[int] = PLAYERS) -> None:
        for row in rows:
            if row["setting"] == setting and row["players"] in players and (row["target"] == 40 or len(players) == 2):
                long = row["target"] != 40
                label = f"{row['players']} players" + (f", to {row['target']:,}" if long else "")
                cells = row[name]
                values = np.array([cell["value"] for cell in cells])
                bounds = np.abs(np.array([cell["ci"] for cell in cells]) - values[:, None]).T
                turn = PLAYERS.index(row["players"])
                look = {"color": plot_style.SERIES[turn], "linestyle": plot_style.DASHES[int(long)]}
                look["marker"] = plot_style.MARKERS[turn]
                axes.errorbar(range(1, len(cells) + 1), values, bounds, label=label, **look)
        label = "share won" if name == "p_win_game" else "points"
        axes.set(title=title, xlabel="seat", ylabel=label)
        plot_style.few_ticks(axes)

    def rounds(axes: Axes, title: str, setting: str) -> None:
        shown = [row for row in rows if row["setting"] == setting and row["target"] == 40]
        axes.plot(
            [row["players"] for row in shown], [row["rounds_per_game"] for row in shown], color="black", marker="."
        )
        axes.set(title=title, xlabel="players", ylabel="rounds per game")
        plot_style.few_ticks(axes)

    by_seat(next(panels), "1: strategy 1", "strategy_1", "p_win_game")
    by_seat(next(panels), "2: strategy 1, long games", "strategy_1", "p_win_game", (2, 3))
    by_seat(next(panels), "3: strategy 1", "strategy_1", "mean_points")
    rounds(next(panels), "4: strategy 1", "strategy_1")
    by_seat(next(panels), "5: strategy 2", "strategy_2", "p_win_game")
    by_seat(next(panels), "6: strategy 2", "strategy_2", "mean_points")
    rounds(next(panels), "7: strategy 2", "strategy_2")
    by_seat(next(panels), "8: strategy 2, the last one strategy 1", "strategy_1_last", "p_win_game")
    notes = [plot_style.line_handle("95 % interval", marker="|", linewidth=1.2)]
    plot_style.legend_below(page, page.axes, notes)
    return page


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the command: plays the games and writes three files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", type=int, default=1_000_000, help="games per table (default: 1000000)")
    parser.add_argument("--figure-games", type=int, default=50_000, help="games per point of a figure (default: 50000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    add_output_options(parser, "lama_tables")
    args = parser.parse_args(argv)
    for name in ("games", "figure_games"):
        if getattr(args, name) < 4:
            parser.error(f"--{name.replace('_', '-')} must be at least 4")

    options = f"--games {args.games} --figure-games {args.figure_games} --seed {args.seed}"
    command = f"python -m experiments.lama_tables {options}"
    published = json.loads((HERE / "data" / "lama_tables.json").read_text())
    result = play_all(args.games, args.figure_games, args.seed, published)
    page = markdown(result, args.games, command)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tables.json").write_text(json.dumps({"command": command, **result}, indent=1) + "\n")
    (args.out / "provenance.json").write_text(json.dumps(provenance(), indent=1) + "\n")  # the others: same bytes
    (args.out / "tables.md").write_text(page)
    plot_style.save_figure(draw(result["figures"]), args.out / "figures")
    print(page)


if __name__ == "__main__":
    main()
