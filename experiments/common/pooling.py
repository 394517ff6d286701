"""Statistics over several matches: pooled win rates, means over seeds, corrected p-values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from experiments.common.match_specs import Row
from muzero import stats
from muzero.config import require


def pooled(rows: Sequence[Row]) -> Row:
    """Pools matches into one: sums of counts, win rate, intervals, Elo, and means weighted by games.

    The Wilson interval treats all games as independent; the paired one, which is there if all matches have the same
    deals, treats deals as independent. Both are about these agents, not about new seeds.
    """
    counts = ("games", "wins", "draws", "losses", "truncated", "points")
    total: Row = {name: sum(row[name] for row in rows) for name in counts}
    seats = {row["players"] for row in rows}
    require(len(seats) == 1, "players", "the same number in all matches", sorted(seats))
    found = sorted({precision for row in rows for precision in _precisions(row)})
    require(len(found) <= 1, "precision", "the same in all matches (set bf16=)", found)
    fair = 1 / seats.pop()
    interval = stats.wilson(total["points"], total["games"])
    total |= {"win_rate": interval.estimate, "wilson_low": interval.low, "wilson_high": interval.high}
    total |= {"fair_share": fair, "p_value": stats.binomial_test(total["points"], total["games"], fair).p_value}
    by_deal = [row.get("by_deal", ()) for row in rows]
    if min(map(len, by_deal)) == max(map(len, by_deal)) >= 2:  # the same deals in all matches
        deals = stats.win_rate_of_deals(np.mean(by_deal, 0), per_deal=1)
        total |= {"paired_low": deals.low, "paired_high": deals.high}
    if fair == 0.5:
        rating = stats.elo(total["points"], total["games"])
        bounds = {"elo": rating.estimate, "elo_low": rating.low, "elo_high": rating.high}
        total |= {name: value if math.isfinite(value) else None for name, value in bounds.items()}
    for name in ("mean_score_a", "mean_score_b", "mean_turns", "mean_decisions"):
        total[name] = float(np.average([row[name] for row in rows], weights=[row["games"] for row in rows]))
    return total


def _precisions(row: Row) -> set[str]:
    """Precisions of the networks in a match, which are part of the agents' names if searches are long."""
    return set(re.findall(r"bf16=\w+", f"{row.get('a', '')} {row.get('b', '')}"))


def with_holm(rows: Sequence[Row]) -> list[Row]:
    """Adds Holm's correction of the p-values (`p_holm`) to the matches of a table."""
    adjusted = stats.holm([row["p_value"] for row in rows]).adjusted
    return [{**row, "p_holm": float(p)} for row, p in zip(rows, adjusted, strict=True)]


def over_seeds(values: Sequence[float]) -> Row:
    """Mean over independent runs (or pairs of runs) with Student's 95 % interval, which covers new seeds too."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return {"mean": mean, "low": None, "high": None, "n": count}
    reach = float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / math.sqrt(count))
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "n": count}


def over_pairs(rows: Sequence[Row]) -> Row:
    """Mean win rate over matches between runs; without interval if pairs share runs, and so are not independent."""
    found = over_seeds([row["win_rate"] for row in rows])
    taking_part = [run for row in rows for run in row["pair"]]
    return found if len(set(taking_part)) == len(taking_part) else {**found, "low": None, "high": None}


def interval(row: Row) -> tuple[float, float]:
    """Low and high end of the 95 % interval of a win rate: by deals if known, because the games of a deal depend on
    each other, else Wilson's."""
    kind = "paired" if "paired_low" in row else "wilson"
    return row[f"{kind}_low"], row[f"{kind}_high"]
