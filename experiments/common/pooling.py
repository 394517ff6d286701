"""Statistics over several matches: pooled win rates, means over seeds, corrected p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from experiments.common.match_specs import Row
from muzero import stats
from muzero.agents.agent_spec import AgentSpec
from muzero.config.fields import require
from muzero.matches.results import COUNTS, win_rate_row
from muzero.runs.provenance import check_pooled


def pooled(rows: Sequence[Row]) -> Row:
    """Pools matches into one: sums of counts, win rate, intervals, Elo, and means weighted by games.

    The Wilson interval treats all games as independent; the paired one, which is there if all matches have the same
    deals, treats deals as independent. Both are about these agents, not about new seeds. Matches by other rules are
    refused; `origins` says in what their code, packages or machines differ, if they do.
    """
    seats = {row["players"] for row in rows}
    require(len(seats) == 1, "players", "the same number in all matches", sorted(seats))
    found = sorted({precision for row in rows for precision in _precisions(row)})
    require(len(found) <= 1, "precision", "the same in all matches (set bf16=)", found)
    versions = sorted({row["version"] for row in rows if "version" in row})
    require(len(versions) <= 1, "version", "the same version of the rules in all matches", versions)
    origins = check_pooled("matches", [row.get("provenance") for row in rows if "provenance" in row])
    by_deal = [row.get("by_deal", ()) for row in rows]
    same_deals = min(map(len, by_deal)) == max(map(len, by_deal)) >= 2  # all matches have the same deals
    counts = {name: sum(row[name] for row in rows) for name in COUNTS}
    total = win_rate_row(counts, seats.pop(), np.mean(by_deal, 0) if same_deals else None)
    for name in ("mean_score_a", "mean_score_b", "mean_turns", "mean_decisions"):
        total[name] = float(np.average([row[name] for row in rows], weights=[row["games"] for row in rows]))
    return {**total, "origins": origins} if origins else total


def _precisions(row: Row) -> set[str]:
    """Precisions of the networks in a match, which are part of the agents' names if searches are long."""
    specs = [AgentSpec.parse(row[side]) for side in "ab" if side in row]
    return {f"bf16={spec.options['bf16']}" for spec in specs if "bf16" in spec.options}


def with_holm(rows: Sequence[Row]) -> list[Row]:
    """Adds Holm's correction of the p-values (`p_holm`) to the matches of a table."""
    adjusted = stats.holm([row["p_value"] for row in rows]).adjusted
    return [{**row, "p_holm": float(p)} for row, p in zip(rows, adjusted, strict=True)]


def over_seeds(values: Sequence[float]) -> Row:
    """Mean over independent runs (or pairs of runs) with Student's 95 % interval, which covers new seeds too.

    Two runs, or runs that are all equal, say next to nothing about new ones: there is no interval then, but the values.
    """
    mean, count = float(np.mean(values)), len(values)
    found: Row = {"mean": mean, "low": None, "high": None, "n": count, "values": [float(value) for value in values]}
    if count < stats.LEAST_RUNS or min(values) == max(values):
        return found
    reach = float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / math.sqrt(count))
    return {**found, "low": mean - reach, "high": mean + reach}


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
