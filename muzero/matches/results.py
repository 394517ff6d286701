"""Results of a match: figures, Markdown and CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

import env
from muzero import stats
from muzero.agents.agent_spec import AgentSpec, fingerprint
from muzero.matches.luck import KINDS, MOST_LUCK, SCORE_COLUMNS, WIN_COLUMNS
from muzero.runs.files import replacing, write_whole, writing
from muzero.runs.markdown import markdown_table
from muzero.runs.provenance import provenance

if TYPE_CHECKING:
    from muzero.matches.games import Games
    from muzero.matches.match_config import MatchConfig

Row = dict[str, Any]
COUNTS = ("games", "wins", "draws", "losses", "truncated", "points")


def count_games(games: Games) -> dict[str, float]:
    """Counts of a match, `COUNTS` by name; a part of a win is a draw."""
    return {
        "games": len(games),
        "wins": int((games.won == 1).sum()),
        "draws": int(((games.won > 0) & (games.won < 1)).sum()),
        "losses": int((games.won == 0).sum()),
        "truncated": int(games.truncated.sum()),
        "points": float(games.won.sum()),
    }


def win_rate_row(counts: Mapping[str, float], players: int, by_deal: ArrayLike | None = None) -> Row:
    """Counts of a match, or of several added up, with the win rate, its intervals, Elo and p-value.

    Args:
      counts: numbers of games, and points, by name; `COUNTS` lists the names.
      players: number of players at a table.
      by_deal: [D] mean share of the win in each deal, if known; gives `paired_low` and `paired_high`.
    """
    points, n, fair = float(counts["points"]), int(counts["games"]), 1 / players
    interval = stats.wilson(points, n)
    rating = stats.elo(points, n) if players == 2 else None
    row: Row = {
        **{name: counts[name] for name in COUNTS},
        "win_rate": interval.estimate,
        "fair_share": fair,
        "wilson_low": interval.low,
        "wilson_high": interval.high,
        "elo": rating.estimate if rating else None,
        "elo_low": rating.low if rating else None,
        "elo_high": rating.high if rating else None,
        "p_value": stats.binomial_test(points, n, fair).p_value,
    }
    if by_deal is not None:
        deals = stats.win_rate_of_deals(by_deal, per_deal=1)
        row |= {"paired_low": deals.low, "paired_high": deals.high}
    return _finite(row)


def _finite(row: Row) -> Row:
    """Replace infinities and NaN, which JSON does not have, by None."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def report(
    config: MatchConfig,
    games: Games,
    seconds: float | None,
    fresh: int,
    failures: int = 0,
    weights: Sequence[str | None] | None = None,
) -> Row:
    """Figures of a match.

    Args:
      config: settings of the match.
      games: all games of the match.
      seconds: duration of the games that this process played; None if other matches were played at the same time.
      fresh: number of the games that this process played.
      failures: number of games that were played again because their worker had died.
      weights: fingerprints of the weights of a and b, None for an agent without; by default those of the agents that
        the settings name.
    """
    weights_a, weights_b = weights or [fingerprint(AgentSpec.parse(text)) for text in (config.a, config.b)]
    n, best, tied, whole = len(games), games.won == 1, (games.won > 0) & (games.won < 1), ~games.truncated.astype(bool)
    game = env.describe(config.game, config.players, config.rules)
    best_or_tied = stats.wilson(int((games.won > 0).sum()), n)
    counts = count_games(games)
    row: Row = {
        "a": config.a,
        "b": config.b,
        "game": config.game,
        "players": config.players,
        "version": game.version,
        "rules": game.rule_values,
        "weights_a": weights_a,
        "weights_b": weights_b,
        "seed": config.seed,
        "batch": config.batch,
        **win_rate_row(counts, config.players, games.by_deal(config.players) if n >= 2 * config.players else None),
        "whole_wins": int((best & whole).sum()),
        "whole_draws": int((tied & whole).sum()),
        "whole_losses": int(((games.won == 0) & whole).sum()),
        "failures": failures,
        "best_or_tied": best_or_tied.estimate,
        "best_or_tied_low": best_or_tied.low,
        "best_or_tied_high": best_or_tied.high,
        "z": stats.z_test(counts["points"], n, 1 / config.players).statistic,
        "mean_score_a": float(games.scores_a.mean()),
        "mean_score_b": float(games.scores_b.mean()),
        "mean_decisions": float(games.decisions.mean()),
        "seconds": seconds,
        "seconds_per_game": seconds / fresh if fresh and seconds is not None else None,
        "provenance": provenance(),
    }
    names = game.stat_names
    turns = games.stats[:, names.index("turns")] if "turns" in names else games.decisions
    row["mean_turns"] = float(turns.mean())
    if config.players == 2 and n >= 4:
        reduction, deals = stats.variance_reduction(games.won), stats.mcnemar_deals(games.won)
        row["pairing_factor"], row["seat_effect"] = reduction.factor, reduction.seat_effect
        row["mcnemar"] = {"better": deals.better, "worse": deals.worse, "tied": deals.tied, "p_value": deals.p_value}
    if games.luck.shape[1] and n >= 2 * config.players:
        row["luck"] = {"value": config.luck, **luck_row(games, config.players)}
    if config.stop:
        row["sequential"] = sequential_row(config, games)
    return _finite(row)


def luck_row(games: Games, players: int) -> Row:
    """Figures of a match with the luck taken out; the score difference is positive if a has the better scores."""
    won = stats.adjust_for_luck(games.won, games.luck[:, WIN_COLUMNS], players)
    score = stats.adjust_for_luck(games.scores_b - games.scores_a, games.luck[:, SCORE_COLUMNS], players)
    row = {
        "win_rate": won.interval.estimate,
        "low": max(0.0, won.interval.low),
        "high": min(1.0, won.interval.high),
        "factor": won.factor,
        "correlation": won.correlation,
        "score_difference": score.interval.estimate,
        "score_low": score.interval.low,
        "score_high": score.interval.high,
        "score_factor": score.factor,
        "score_correlation": score.correlation,
        "mean_luck": float(games.luck[:, : len(KINDS)].sum(1).mean()),
    }
    return _finite(row)


def sequential_row(config: MatchConfig, games: Games) -> Row:
    """Result of the test that decides whether the match may stop after these games; its decision may be "continue".

    If luck was measured, the test is about deals that are adjusted by it. They reach from -1 to 2: the win is at most
    1, and so is the luck.
    """
    deals, null, low, width = games.by_deal(config.players), 1 / config.players, 0.0, 1.0
    if games.luck.shape[1]:
        luck = games.luck[:, : len(KINDS)].sum(1).clip(-MOST_LUCK, MOST_LUCK)  # beyond it is rounding alone
        deals = stats.sequential_adjustment(games.won, luck, config.players)
        low, width = -MOST_LUCK, 1 + 2 * MOST_LUCK
    if config.better_by:
        found = stats.better_by_test(deals, config.better_by, null, config.stop, (low, low + width))
        return {
            "decision": found.decision,
            "better_by": config.better_by,
            "p_not_better": found.p_not_better,
            "p_better": found.p_better,
        }
    test = stats.sequential_test((deals - low) / width, (null - low) / width, config.margin / width, config.stop)
    ends = (low + width * end for end in (test.low, test.high))
    return {"decision": test.decision, **dict(zip(("low", "high"), ends, strict=True)), "p_value": test.p_value}


def markdown(r: Row) -> str:
    """Page with the figures of a match."""
    beyond = "-inf" if r["win_rate"] == 0 else "+inf"
    ends = _signed(r["elo"], beyond), _signed(r["elo_low"], "-inf"), _signed(r["elo_high"], "+inf")
    elo = "{} [{}, {}]".format(*ends) if r["players"] == 2 else "-"
    again = f", {r['failures']} played again because a worker died" if r["failures"] else ""
    rows = {
        "games": f"{r['games']}, {r['players']} players, seed {r['seed']}",
        "won / drawn / lost": f"{r['wins']} / {r['draws']} / {r['losses']} ({r['truncated']} truncated{again})",
        "win rate": f"{r['win_rate']:.3f} [{r['wilson_low']:.3f}, {r['wilson_high']:.3f}], fair {r['fair_share']:.3f}",
        "best or tied": f"{r['best_or_tied']:.3f} [{r['best_or_tied_low']:.3f}, {r['best_or_tied_high']:.3f}]",
        "Elo difference": elo,
        "p (two-sided)": f"{r['p_value']:.2g}",
        "mean score": f"{r['mean_score_a']:.1f} against {r['mean_score_b']:.1f}",
        "mean turns, decisions": f"{r['mean_turns']:.1f}, {r['mean_decisions']:.1f}",
        "seconds per game": "-" if r["seconds_per_game"] is None else f"{r['seconds_per_game']:.3g}",
    }
    if "paired_low" in r:
        rows["by deals"] = f"win rate within [{r['paired_low']:.3f}, {r['paired_high']:.3f}]"
        if r.get("pairing_factor") is not None:
            rows["by deals"] += f", as precise as {r['pairing_factor']:.2f} x as many unpaired games"
    if "mcnemar" in r:
        m = r["mcnemar"]
        rows["deals to a / even / to b"] = f"{m['better']} / {m['tied']} / {m['worse']}, p {m['p_value']:.2g} (McNemar)"
    if "luck" in r:
        adjusted = r["luck"]
        rows["win rate, luck taken out"] = (
            f"{adjusted['win_rate']:.3f} [{adjusted['low']:.3f}, {adjusted['high']:.3f}], as precise as "
            f"{_times(adjusted['factor'])} as many games"
        )
        rows["score difference, luck taken out"] = (
            f"{adjusted['score_difference']:+.2f} [{adjusted['score_low']:+.2f}, {adjusted['score_high']:+.2f}], as "
            f"precise as {_times(adjusted['score_factor'])} as many games"
        )
    if "better_by" in r.get("sequential", {}):
        s = r["sequential"]
        rows[f"better by {s['better_by']:g}?"] = (
            f"{s['decision']}; p {s['p_not_better']:.2g} against not better, p {s['p_better']:.2g} against better by "
            f"{s['better_by']:g}: valid whenever the match stopped, unlike the intervals, Elo and p above"
        )
    elif "sequential" in r:
        s = r["sequential"]
        rows["sequential test"] = (
            f"{s['decision']}; interval [{s['low']:.3f}, {s['high']:.3f}], p {s['p_value']:.2g}: valid whenever the "
            "match stopped, unlike the interval, Elo and p above"
        )
    lines = [f"`{r['a']}` against `{r['b']}`, {r['game']}", "", *markdown_table(["", ""], list(rows.items()), "ll")]
    return "\n".join(lines) + "\n"


def _times(factor: float | None) -> str:
    return "any number of times" if factor is None else f"{factor:.2f} x"


def _signed(number: float | None, otherwise: str) -> str:
    return otherwise if number is None else f"{number:+.0f}"


def write(out: Path, config: MatchConfig, result: Row, games: Games) -> None:
    """Write the three files of a match: JSON, Markdown and CSV (one row per game)."""
    write_whole(out, json.dumps(result, indent=1) + "\n")
    write_whole(out.with_suffix(".md"), markdown(result))
    _write_csv(out.with_suffix(".csv"), config, games)


def _write_csv(path: Path, config: MatchConfig, games: Games) -> None:
    names = list(env.describe(config.game, config.players, config.rules).stat_names)
    measured = games.luck.shape[1] > 0
    with writing(path), replacing(path) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["seed", "deal", "seat_a", *(f"score_{i}" for i in range(config.players)), "won", "truncated", *names]
            + (["luck"] if measured else [])
        )
        for i in range(len(games)):
            row = [config.seed, games.deals[i], games.seats[i], *games.scores[i], f"{games.won[i]:g}"]
            luck = [f"{games.luck[i, : len(KINDS)].sum():.6f}"] if measured else []
            writer.writerow([*row, int(games.truncated[i]), *games.stats[i], *luck])
